"""Hotel searches: reading them, fitting a choice model, and a small generated sample.

Three nouns: a *search* (hotels that were shown), a *booking* (the chosen one), a *choice model* (fitted to them).
"""

__all__: list[str] = []
