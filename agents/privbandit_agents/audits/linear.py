"""Audits of joint agents that play arms with features: many canaries in a run."""

from typing import ClassVar

import numpy as np

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.games.counters import Decoder
from privbandit_agents.base.agent import AnyAgent, Array

DIM, CANARIES = 8, 16


class CounterGame(AgentGame):
    """Every user of the first half is a canary: its reward is 1 or -1, by a coin.

    Eight coordinates take turns, so that the guesses of a run hardly hang together. The second half's users have reward
    0: later releases still depend on the canaries. The ridge is so large that theta is the noisy moment in units
    that are known.
    """

    part = "rewards"
    pair = "reward 1 or -1 at a unit vector"
    canaries = CANARIES
    seen = f"the estimate after each of {2 * CANARIES} users"
    unseen = "the Gram matrix, and other pairs of records"
    world: ClassVar = {"id": "privbandit/Linear-v0", "n_arms": 2, "dim": DIM, "horizon": 2 * CANARIES}
    settings: ClassVar = {"growth": 1.001, "shift": 1e6, "horizon": 2 * CANARIES}
    runs = 1500

    def prepare(self) -> None:
        """Prepare the records, and how the canaries' rewards are read."""
        users, counter = 2 * CANARIES, self.agent(0).counter
        self.units = np.array([counter.standard_deviation(t) for t in range(1, users + 1)])  # of theta times the ridge
        self.contexts: Array = np.repeat(np.eye(DIM, dtype=np.float32)[:, None], 2, axis=1)
        self.decoder = Decoder(counter, users, list(range(CANARIES)), np.arange(CANARIES) % DIM)
        self.covers = self.decoder.covers

    def served(self, agent: AnyAgent, coins: Floats) -> Floats:
        """Serve the canaries and then the others; return the noisy moments, shape (users, d)."""
        thetas = np.zeros((2 * CANARIES, DIM))
        for t, reward in enumerate([*coins, *np.zeros(CANARIES)]):
            agent.update(self.contexts[t % DIM], 0, reward)
            thetas[t] = agent.release[:, -1]  # type: ignore[attr-defined]
        return np.asarray(thetas * self.units[:, None] * (self.settings["shift"] * 2 * np.sqrt(DIM)))

    def scores(self, readings: Floats) -> Floats:
        return self.decoder(readings)


class BlockGame(CounterGame):
    """CounterGame for arms that share a context: half of the canaries get each of two arms.

    Contexts are so large that the features are a unit vector, and each block of the counter has eight canaries. All
    other users have reward 1/2, which counts as 0.
    """

    runs = 800
    part = "rewards in the blocks of two arms"
    pair = "reward 1 or 0 of an arm, at a unit vector"
    seen = f"the estimates of two arms that share a context, after each of {2 * CANARIES} users"
    world: ClassVar = {"id": "privbandit/Clicks-v0", "n_arms": 2, "dim": DIM, "horizon": 2 * CANARIES}

    def prepare(self) -> None:
        super().prepare()
        self.contexts, places = 1e6 * np.eye(DIM, dtype=np.float32), np.arange(CANARIES)
        columns = places // DIM % 2 * (DIM + 1) + places % DIM
        self.decoder = Decoder(self.agent(0).counter, 2 * CANARIES, places.tolist(), columns)
        self.covers = self.decoder.covers

    def served(self, agent: AnyAgent, coins: Floats) -> Floats:
        """Serve the canaries and then the others; return the noisy moments of both arms, shape (users, 2 (d + 1))."""
        thetas = np.zeros((2 * CANARIES, 2, DIM + 1))
        for t in range(2 * CANARIES):
            arm, reward = (t // DIM % 2, (1 + coins[t]) / 2) if t < CANARIES else (t % 2, 0.5)
            agent.update(self.contexts[t % DIM], arm, reward)
            thetas[t] = agent.release.reshape(DIM + 1, 2, DIM + 2)[..., -1].T  # type: ignore[attr-defined]
        told = thetas.reshape(2 * CANARIES, -1) * self.units[:, None]
        return np.asarray(told * (self.settings["shift"] * 2 * np.sqrt(DIM + 1)))


CounterGame.besides = (BlockGame,)


class KeptSums(AgentGame):
    """Windows of one user: every user counts in two releases, its own and the next one's. Each coordinate has a canary.

    The readings at both releases are added up. Were the noise of the first not in the second any more, they would be
    two independent looks at the same record.
    """

    part = "sums kept from the window before"
    pair = "reward 1 or -1 at a unit vector"
    canaries = DIM
    seen = "the estimate in a canary's window of one user and in the next one, added up"
    unseen = "longer windows, the Gram matrix, and other pairs of records"
    world: ClassVar = CounterGame.world
    settings: ClassVar = {"growth": 1.001, "shift": 1e6, "window": 1, "horizon": 2 * CANARIES}
    first = 1.0
    """Weight of the reading in the canary's own window."""
    runs = 800

    def prepare(self) -> None:
        """Prepare the records: the user of window t has the unit vector e_t, which no other canary has."""
        self.contexts = np.repeat(np.eye(DIM, dtype=np.float32)[:, None], 2, axis=1)
        self.units = np.sqrt([1.0, *[2.0] * DIM])  # noise of one counter, then of two

    def served(self, agent: AnyAgent, coins: Floats) -> Floats:
        """Serve the canaries and one user more; return the noisy moments up to a factor, shape (users, d)."""
        thetas = np.zeros((DIM + 1, DIM))
        for t, reward in enumerate([*coins, 0.0]):
            agent.update(self.contexts[t % DIM], 0, reward)
            thetas[t] = agent.release[:, -1]  # type: ignore[attr-defined]
        return np.asarray(thetas * self.units[:, None])

    def scores(self, readings: Floats) -> Floats:
        own, following = np.diag(readings[:DIM]), np.diag(readings[1:])
        return np.asarray(self.first * own + following)


class CountedAgain(KeptSums):
    """The same by the second reading alone: it has the record twice if a user is counted in the next window, too."""

    part = "users counted in the next window"
    seen = "the estimate in the window after a canary's window of one user"
    first = 0.0


class WindowGame(CounterGame):
    """CounterGame in one window, and the games of a window that follows."""

    unseen = "further windows, the Gram matrix, and other pairs of records"
    settings: ClassVar = CounterGame.settings | {"window": 4 * CANARIES}
    besides: ClassVar[tuple[type[AgentGame], ...]] = (KeptSums, CountedAgain)


class BatchGame(CounterGame):
    """CounterGame for gradients: a batch is one user, and steps are so short that scores stay 0.

    So a canary's gradient is its reward times its unit vector, and the steps of the parameters are the noisy sums.
    """

    seen = f"the parameters after each of {2 * CANARIES} users"
    unseen = "larger batches, random features, and other pairs of records"
    besides = ()
    settings: ClassVar = {"batch": 1, "rate": 1e-9, "scorer": "linear", "horizon": 2 * CANARIES}

    def served(self, agent: AnyAgent, coins: Floats) -> Floats:
        """Serve the canaries and then the others; return the noisy sums of gradients, shape (users, d)."""
        thetas = np.zeros((2 * CANARIES + 1, DIM))
        for t, reward in enumerate([*coins, *np.zeros(CANARIES)]):
            agent.update(self.contexts[t % DIM], 0, reward)
            thetas[t + 1] = agent.release  # type: ignore[attr-defined]
        stiff = np.array([agent.stiffness(t) for t in range(1, 2 * CANARIES + 1)])  # type: ignore[attr-defined]
        return np.cumsum(np.diff(thetas, axis=0) * stiff[:, None] / self.settings["rate"], axis=0)
