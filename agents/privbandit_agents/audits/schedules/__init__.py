"""Audits of when a joint agent releases.

Three nouns: a *schedule* (after which users the release changes), a *population* (records of all users), *neighbours*
(populations that differ in one user).
"""

__all__: list[str] = []
