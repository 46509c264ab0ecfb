"""What figures show.

Three nouns: a *figure*, a *panel* (one pair of axes), a *line* (a mean with its interval).
"""

__all__: list[str] = []
