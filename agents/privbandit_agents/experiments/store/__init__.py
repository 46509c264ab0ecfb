"""Files of a job: its result, its events, its lock, and its provenance.

Three nouns: a *result* (a finished or failed job), a *lock*, a *provenance* (the code and machine behind it).
"""

__all__: list[str] = []
