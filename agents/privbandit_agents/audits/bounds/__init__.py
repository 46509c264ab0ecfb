"""From numbers to epsilon, or rho.

Three nouns: a *guess* of the world (graded, and it may abstain), a *bet* on guesses against a claim, a *stake*.
"""

__all__: list[str] = []
