"""Costs of releases: conversions between notions, and the ledger that books them.

Three nouns: a *cost* (of one release), a *ledger*, a *conversion* (from one notion to another).
"""

__all__: list[str] = []
