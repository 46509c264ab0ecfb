"""Runs: the loop that plays an agent in a world.

Three nouns: a *result* (what ``play`` returns), a *snapshot* (from which a run goes on), a *saved agent*.
"""

__all__: list[str] = []
