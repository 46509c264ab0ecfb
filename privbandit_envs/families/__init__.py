"""The families of bandits: linear, sparse, assortments, classification, clicks, arms without a context, and tables.

Three nouns: a *family* (one kind of problem), a *parameter* (theta, drawn by the seed), a *context* law.
"""

__all__: list[str] = []
