"""The environment: when shall a customer be reminded?"""

import numpy as np
from gymnasium.spaces import Box, Discrete

from privbandit_envs import ArmProblem, register


class Reminders(ArmProblem):
    """Send a reminder at one of K moments; the reward is 1 if the customer comes, else 0.

    Args:
        rng: draws the world.
        n_moments: K, moments at which a reminder can be sent.
        horizon: number of customers.
    """

    def __init__(self, rng: np.random.Generator, *, n_moments: int = 3, horizon: int = 20_000) -> None:
        self.observation_space = Box(0.0, 1.0, (2,), np.float32)  # the hour, and the days since the last visit
        self.action_space = Discrete(n_moments)
        self.taste = rng.normal(0.0, 3.0, (2, n_moments))

    def contexts(self, n, rng):
        return rng.random((n, 2), dtype=np.float32)

    def means(self, contexts):
        return 1 / (1 + np.exp(-(contexts - 0.5) @ self.taste))

    def rewards(self, means, rng):
        return (rng.random((len(means), 1)) < means).astype(float)


register("acme/Reminders-v0", "acme_bandits.reminders:Reminders")
