"""Audits: games that bound an agent's or a mechanism's epsilon from below."""
