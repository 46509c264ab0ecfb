"""Time: worlds that change, and feedback that comes late.

Three nouns: a *timeline* (a world that changes), a *delay* (of feedback), a *mask* (arms that are absent).
"""

__all__: list[str] = []
