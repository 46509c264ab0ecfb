"""Jointly private agents for sparse linear bandits in many dimensions."""

__all__: list[str] = []
