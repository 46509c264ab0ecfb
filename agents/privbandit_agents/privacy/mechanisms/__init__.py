"""Mechanisms of a trusted curator: noise on sums, selections, running sums and minimisers.

Three nouns: a *mechanism* (adds noise to an exact value), its *scale*, a *counter* (releases running sums).
"""

__all__: list[str] = []
