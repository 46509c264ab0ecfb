"""Audits of when a joint agent releases."""
