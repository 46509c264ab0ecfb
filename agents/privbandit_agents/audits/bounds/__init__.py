"""Bounds that hold with a stated confidence: of a mean, of rates, and of what two worlds show together."""

__all__: list[str] = []
