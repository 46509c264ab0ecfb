"""The families of bandits: linear, sparse, assortments, classification, clicks, and tables."""
