"""Contextual bandits by a regression oracle: its predictions set the amount of exploration.

Three nouns: an *oracle* (predicts rewards), a *regression* (linear or of kernels), an *exploration* rule.
"""

__all__: list[str] = []
