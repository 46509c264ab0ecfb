"""Explore first, then the best assortments for the maximum-likelihood estimate, refitted at doubling times."""

from dataclasses import dataclass

from privbandit_agents.base.agent import Array
from privbandit_agents.base.settings import Growth
from privbandit_agents.baselines.mnl import MNLAgent, MNLSettings


@dataclass(frozen=True)
class Config(MNLSettings):
    """Settings of the greedy agent: it refits at doubling times."""

    growth: Growth = 2.0


class GreedyMNL(MNLAgent[Config]):
    """Offer the best assortment for the utilities x . theta."""

    Config = Config

    def utilities(self, context: Array) -> Array:
        estimates: Array = context[..., :-1] @ self.theta
        return estimates
