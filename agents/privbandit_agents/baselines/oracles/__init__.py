"""Contextual bandits by a regression oracle: its predictions set the amount of exploration."""

__all__: list[str] = []
