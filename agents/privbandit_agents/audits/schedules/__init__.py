"""Audits of when a joint agent releases."""

__all__: list[str] = []
