"""Agents without privacy: the ground that private ones are measured against."""

__all__: list[str] = []
