"""The audit of private assortments: one user is replaced, later users' assortments read what was released.

All other users are the adversary's. A probe is offered enough items that are surely chosen, so that of two further
ones, cos(phi) e_1 and sin(phi) e_2, only one has room: which one tells whether their scores' ratio exceeds tan(phi), and
a dozen probes measure it by bisection. The target's own assortment is left out, as joint privacy allows.
"""

from abc import abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.linalg import solve_triangular, toeplitz

from privbandit_agents.privacy.audit import Claim, Game
from privbandit_agents.privacy.counters import square_root_coefficients
from privbandit_agents.registry import make

Floats = NDArray[np.float64]
CAPACITY = 10
ROUNDS = 16
"""Users of a run: the first one is in all of a binary tree's blocks of length 1, 2, 4, 8 and 16."""
BATCH = 40
"""Users of the batch that the target of noisy Newton steps is in."""
STEPS = 14
SURE, FAR = 1e3, 50.0


class AssortmentGame(Game):
    """Two items' scores are compared by probes; a subclass says who is served, and what the comparisons tell."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        """Prepare the world: K + 1 items with two features."""
        self.name, self.config = name, config
        self.env = gym.make("privbandit/Assortment-v0", n_items=CAPACITY + 1, capacity=CAPACITY, dim=2, horizon=4096)
        self.claim = self.claimed(self.agent(0))

    @abstractmethod
    def claimed(self, agent: Any) -> Claim:
        """Return what is audited."""

    @abstractmethod
    def statistic(self, agent: Any, world: int) -> Floats:
        """Serve an agent; return what is seen."""

    def agent(self, seed: int) -> Any:
        """Return a fresh agent."""
        return make(self.name, self.env, seed=seed, **self.config)

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        """Return the statistics of so many runs."""
        return np.stack([self.statistic(self.agent(int(rng.integers(2**31))), world) for _ in range(runs)])

    def serve(self, agent: Any, features: Floats, bought: int, users: int = 1) -> None:
        """Serve users who were all offered the same items, features (k, 2), and bought one of them, or -1."""
        context = np.ones((CAPACITY + 1, 3))
        context[:, :2] = 0.0
        context[: len(features), :2] = features
        offered = (np.arange(CAPACITY + 1) < len(features)).astype(np.int8)
        many = (np.broadcast_to(part, (users, *part.shape)) for part in (context, offered))
        agent.update(*many, np.full(users, bought))

    def ratio(self, agent: Any, sure: Floats) -> float:
        """Return score(e_1) / score(e_2), given features of items that are surely chosen."""
        low, high = -np.pi / 2, np.pi / 2
        probe = np.ones((CAPACITY + 1, 3))
        probe[2:, :2] = SURE * sure
        for _ in range(STEPS):
            angle = (low + high) / 2
            probe[0, :2], probe[1, :2] = (np.cos(angle), 0.0), (0.0, np.sin(angle))
            low, high = (angle, high) if agent.select_action(probe)[0] else (low, angle)
        return float(np.tan((low + high) / 2))


class GramGame(AssortmentGame):
    """The first user's items were all e_1, or all e_2; the bonus after every user tells V_11 / V_22.

    The bonus is scaled up until it drowns theta, so what is seen are the releases of PrivateCov, which are Gaussian
    and have a share of the budget: the claim is theirs.
    """

    pair = "one user's K items at e1 or at e2"
    statistics = ("V11 - V22 after 1, 2, 4, ... users, summed", "the same after every user, decorrelated")

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        """Give nearly all of the budget to PrivateCov, and renew V for every user."""
        shared = {"mle_share": 0.05, "calls": 1, "exploration": 1, "growth": 1.0, "bonus_scale": 1e9, "horizon": ROUNDS}
        super().__init__(name, {**shared, **config})
        coefficients = square_root_coefficients(ROUNDS)
        decoder = toeplitz(coefficients, np.zeros(ROUNDS))
        self.whiten = coefficients @ solve_triangular(decoder, np.eye(ROUNDS), lower=True)

    def claimed(self, agent: Any) -> Claim:
        """Return the claim of PrivateCov's releases."""
        guarantee = agent.guarantee
        share = 1 - self.config["mle_share"]
        return Claim(guarantee.epsilon or np.inf, guarantee.delta or 1e-5, share * guarantee.rho)

    def statistic(self, agent: Any, world: int) -> Floats:
        """Serve the target and then users without items, and read after each."""
        self.serve(agent, np.tile(np.eye(2)[world], (CAPACITY, 1)), -1)
        differences = np.zeros(ROUNDS)
        for t in range(ROUNDS):
            if t > 0:
                self.serve(agent, np.zeros((0, 2)), -1)
            odds = self.ratio(agent, np.ones(2)) ** 2  # (V^-1)_11 / (V^-1)_22 = V_22 / V_11
            differences[t] = agent.cov.shift() * (1 - odds) / (1 + odds)
        powers = 2 ** np.arange(ROUNDS.bit_length()) - 1
        return np.array([differences[powers].sum(), self.whiten @ differences])


class NewtonGame(AssortmentGame):
    """The target of the first batch bought the only item it was offered, far out along e_1, or along -e_1.

    The others of the batch bought an item far out along e_2, which pins theta_2.
    """

    pair = "one user's purchase at a far feature e1 or -e1"
    statistics = ("theta_1 / theta_2",)

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        """Fix the length of the batch; one step, whose gradient the release tells alone."""
        super().__init__(name, {"first": BATCH, "steps": 1, **config})

    def claimed(self, agent: Any) -> Claim:
        """Return the claim of the agent: its releases are Gaussian mechanisms."""
        guarantee = agent.guarantee
        return Claim(guarantee.epsilon or np.inf, guarantee.delta or 1e-5, guarantee.rho)

    def statistic(self, agent: Any, world: int) -> Floats:
        """Serve the batch, and read theta."""
        self.serve(agent, np.array([[FAR * (1 - 2 * world), 0.0]]), 0)
        self.serve(agent, np.array([[0.0, FAR]]), 0, BATCH - 1)
        return np.array([self.ratio(agent, np.array([0.0, 1.0]))])


GAMES: dict[str, type[AssortmentGame]] = {"dpmnl": GramGame, "dpmnl-approx": GramGame, "newton-mnl": NewtonGame}
