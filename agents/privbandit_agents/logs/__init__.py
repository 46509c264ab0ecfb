"""Logged data: what was shown, chosen and answered, how likely the choice was, and what it says of other policies."""

__all__: list[str] = []
