"""The content of an experiment file.

Three nouns: an *experiment* (the whole file), a *sweep* (which jobs), a *statement* (what they should show).
"""

__all__: list[str] = []
