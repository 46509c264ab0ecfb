"""Agents without privacy: the ground that private ones are measured against.

Three nouns: a *yardstick* (best without privacy), an *oracle* (a regression that an agent asks), a *learner* (of
reinforcement learning).
"""

__all__: list[str] = []
