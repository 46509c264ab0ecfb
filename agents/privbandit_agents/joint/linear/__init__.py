"""Jointly private agents for linear bandits."""

__all__: list[str] = []
