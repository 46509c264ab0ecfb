"""Locally private agents: the server never sees raw data."""
