"""Games with agents: the pairs of records that are tried, and the readings that an adversary sees.

Three nouns: a *pair* (two records of one user), a *scene* (a pair and who else is there), a *reading* (the view as
numbers).
"""

__all__: list[str] = []
