"""Jointly private agents: a trusted curator with private releases.

Three nouns: a *curator* (sees raw data), a *release* (all that actions read), a *batch* (users between two releases).
"""

__all__: list[str] = []
