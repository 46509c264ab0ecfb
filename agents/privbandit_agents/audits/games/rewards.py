"""Audits of joint agents that learn from rewards: many canaries in a run, and every release is read."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.games.counters import Decoder
from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.mechanisms.counters import Counter

DIM, CANARIES = 8, 16
Moments = Callable[[Floats], Floats]
UNITS: Array = np.eye(DIM, dtype=np.float32)


def of_estimates(agent: Any, users: int) -> Moments:
    """Return how to read moments off releases (users, d, models (d + 1)), whose last columns are the estimates."""
    deviations = [agent.schedule.counter.standard_deviation(t) for t in range(1, users + 1)]
    units = np.array(deviations)[:, None] * (agent.config.shift * 2 * np.sqrt(agent.dim))  # of theta times the ridge

    def moments(released: Floats) -> Floats:
        thetas = released.reshape(*released.shape[:2], -1, agent.dim + 1)[..., -1]
        return np.asarray(thetas.swapaxes(1, 2).reshape(users, -1) * units)

    return moments


def of_steps(agent: Any, users: int) -> Moments:
    """Return how to read sums of gradients off parameters (users, d), whose steps are so short that scores stay 0."""
    stiff = np.array([agent.stiffness(t) for t in range(1, users + 1)])[:, None] / agent.config.rate
    return lambda released: np.cumsum(np.diff(released, axis=0, prepend=0.0) * stiff, axis=0)


class RewardGame(AgentGame):
    """Every user of the first half is a canary: its reward is 1 or -1, by a coin.

    Eight coordinates take turns, so that the guesses of a run hardly hang together. The second half's users have reward
    0: later releases still depend on the canaries. The ridge is so large that theta is the noisy moment in units
    that are known.

    If arms share a context, half of the canaries get each of two arms. Contexts are so large that the features are a
    unit vector, and each block of the counter has eight canaries. Rewards are 1 or 0, and 1/2 counts as 0.
    """

    part = "rewards"
    pair = "reward 1 or -1 at a unit vector"
    canaries = CANARIES
    seen = f"the estimate after each of {2 * CANARIES} users"
    unseen = "the Gram matrix, and other pairs of records"
    world: ClassVar = {"id": "privbandit/Linear-v0", "n_arms": 2, "dim": DIM, "horizon": 2 * CANARIES}
    settings: ClassVar = {"growth": 1.001, "shift": 1e6, "horizon": 2 * CANARIES, "feedback": None}
    runs = 1500
    users: int = 2 * CANARIES
    blocks: int = 1  # models of arms
    moments: Callable[[Any, int], Moments] = staticmethod(of_estimates)
    counter: Callable[[Any], Counter] = attrgetter("schedule.counter")

    def prepare(self) -> None:
        places = np.arange(self.canaries)
        columns = places // DIM % self.blocks * (DIM + 1) + places % DIM
        agent = self.agent(0)
        self.read = self.moments(agent, self.users)
        self.decoder = Decoder.of(self.counter(agent), self.users, places, columns)
        self.covers = self.decoder.covers

    def served(self, agent: Any, coins: Floats) -> Floats:
        """Serve the canaries and then the others; return the noisy moments, shape (users, columns)."""
        released = []
        for t, reward in enumerate([*coins, *np.zeros(self.users - len(coins))]):
            unit = UNITS[t % DIM]
            if self.blocks > 1:
                agent.update(1e6 * unit, t // DIM % self.blocks, (1 + reward) / 2)
            else:
                agent.update(np.stack([unit, unit]), 0, reward)
            released.append(np.array(agent.release))
        return self.read(np.array(released))

    def scores(self, readings: Floats) -> Floats:
        return self.decoder(readings)


class Blocks(RewardGame):
    """Arms share a context: half of the canaries get each of two arms."""

    besides = ()
    part = "rewards in the blocks of two arms"
    pair = "reward 1 or 0 of an arm, at a unit vector"
    seen = f"the estimates of two arms that share a context, after each of {2 * CANARIES} users"
    world: ClassVar = {"id": "privbandit/Clicks-v0", "n_arms": 2, "dim": DIM, "horizon": 2 * CANARIES}
    runs = 800
    blocks = 2


RewardGame.besides = (Blocks,)


class Windows(RewardGame):
    """The first window of many."""

    unseen = "further windows, which are replayed, the Gram matrix, and other pairs of records"
    settings: ClassVar = RewardGame.settings | {"window": 4 * CANARIES}
    besides = ()


class Steps(RewardGame):
    """A batch is one user, so that a canary's gradient is its reward times its unit vector."""

    besides = ()
    seen = f"the parameters after each of {2 * CANARIES} users"
    unseen = "larger batches, random features, and other pairs of records"
    settings: ClassVar = {"batch": 1, "rate": 1e-9, "scorer": "linear", "horizon": 2 * CANARIES}
    moments = staticmethod(of_steps)
    counter = attrgetter("counter")
