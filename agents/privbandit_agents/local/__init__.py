"""Locally private agents: the server never sees raw data.

Three nouns: a *device* (one user's, which reports), a *report* (one a user, private by itself), a *server* (learns
from reports).
"""

__all__: list[str] = []
