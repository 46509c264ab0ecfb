"""Records to try: the one place of audits and of the conformance suite.

Three nouns: a *record* (context, action and feedback of a user), a *pair* (two records of one user), a *population*
(records of all users).
"""

__all__: list[str] = []
