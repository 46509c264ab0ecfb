"""The four families of bandits: linear, sparse, assortments and classification."""

__all__: list[str] = []
