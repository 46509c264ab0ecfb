"""Curators that learn rewards which bend in the context: a private histogram, and kernel regression on it."""

__all__: list[str] = []
