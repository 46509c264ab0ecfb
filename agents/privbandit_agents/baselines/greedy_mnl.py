"""Explore first, then the best assortments for the maximum-likelihood estimate, refitted at doubling times."""

from dataclasses import dataclass

from privbandit_agents.base.agent import Array
from privbandit_agents.baselines.mnl import MNLAgent, MNLConfig


@dataclass(frozen=True)
class Config(MNLConfig):
    """Settings of the greedy agent."""

    growth: float = 2.0


class GreedyMNL(MNLAgent[Config]):
    """Offer the best assortment for the utilities x . theta."""

    Config = Config

    def utilities(self, context: Array) -> Array:
        """Return the estimated utilities."""
        estimates: Array = context[..., :-1] @ self.theta
        return estimates
