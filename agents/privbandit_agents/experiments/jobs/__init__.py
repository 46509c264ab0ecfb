"""Jobs: trials that play and fits that are scored.

Three nouns: a *job*, a *trial* (plays an agent in a world), a *fit* (scores a classifier).
"""

__all__: list[str] = []
