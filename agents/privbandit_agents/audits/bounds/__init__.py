"""Bounds that hold with a stated confidence: of a mean, of rates, and of what two worlds show together.

Three nouns: a *bet* (wealth that grows if the claim is false), a *mean* with its ends, a *stake*.
"""

__all__: list[str] = []
