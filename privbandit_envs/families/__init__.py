"""The families of bandits: linear, sparse, assortments, classification, clicks, and tables."""

__all__: list[str] = []
