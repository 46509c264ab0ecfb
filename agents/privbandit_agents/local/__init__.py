"""Locally private agents: the server never sees raw data."""

__all__: list[str] = []
