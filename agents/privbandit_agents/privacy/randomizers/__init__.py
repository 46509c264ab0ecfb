"""Randomizers of a user's device: categories, one-hot vectors, directions and matrices.

Three nouns: a *randomizer* (makes reports), a *report*, an *estimate* (a report without its bias).
"""

__all__: list[str] = []
