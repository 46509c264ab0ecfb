"""Randomizers of a user's device: categories, one-hot vectors, directions and matrices."""

__all__: list[str] = []
