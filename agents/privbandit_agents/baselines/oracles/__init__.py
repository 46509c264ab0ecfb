"""Contextual bandits by an oracle of regression: what it predicts decides how much is explored."""

__all__: list[str] = []
