"""Greedy assortments: the yardstick of exploration."""

from privbandit_agents.base.spaces import Array
from privbandit_agents.baselines.mnl import MNLAgent, MNLSettings


class GreedyMNL(MNLAgent[MNLSettings]):
    """Offer the best assortment for the utilities x . theta."""

    Config = MNLSettings

    def utilities(self, context: Array) -> Array:
        estimates: Array = context[..., :-1] @ self.theta
        return estimates
