"""Matching pursuit with private selection."""

__all__: list[str] = []
