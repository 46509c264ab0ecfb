"""Jointly private agents: a trusted curator with private releases."""

__all__: list[str] = []
