"""Audits by name: the mechanisms of ``privacy.targets`` and every private agent of the zoo as a whole.

A local agent is judged by what leaves a user's device. A joint agent is judged by what its actions towards other users
reveal: probe users are offered two arms whose scores cross where the released estimate passes a threshold, so that a
bank of them reads the estimate; the target user's own action is left out, as joint privacy allows.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.audits.assortments import GAMES as ASSORTMENTS
from privbandit_agents.audits.labels import LeafGame, RegressionGame
from privbandit_agents.audits.layered import LayeredGame
from privbandit_agents.audits.lower_bounds import Claim, Game
from privbandit_agents.audits.mechanisms import Request
from privbandit_agents.audits.published import CALIBRATIONS, DELTAS, PUBLISHED, TARGETS
from privbandit_agents.audits.sparse import SETTINGS as SPARSE
from privbandit_agents.audits.sparse import SparseGame
from privbandit_agents.base.agent import CentralAgent, LocalAgent
from privbandit_agents.local.gradients.descent import GradientAgent
from privbandit_agents.local.gradients.pglm import PGLM
from privbandit_agents.local.trees.lpct import LPCT
from privbandit_agents.registry import field_names, find, make
from privbandit_agents.zoo import AGENTS
from privbandit_envs.validate import one_of, positive

Floats = NDArray[np.float64]
ROUNDS = 16
PILOTS = 4000


def game(name: str, epsilon: float, delta: float | None = None, calibration: str = "correct") -> Game:
    """Return the game of an audit target.

    Args:
        name: a mechanism of ``TARGETS`` or a private agent.
        epsilon: budget, > 0 and finite.
        delta: of (epsilon, delta), where the target has one; default: its paper's, or 1e-5.
        calibration: ``"correct"`` or ``"published"``.

    Raises:
        ValueError: an unknown target, or one without a published calibration.
    """
    one_of((*TARGETS, *private_agents()), target=name)
    positive(epsilon=epsilon)
    published = one_of(CALIBRATIONS, calibration=calibration) == "published"
    delta = DELTAS.get(name, 1e-5) if delta is None else delta
    if name in TARGETS:
        if published and name not in PUBLISHED:
            raise ValueError(f"{name} has no published calibration; those of {', '.join(PUBLISHED)} can be audited.")
        return TARGETS[name](Request(epsilon, delta, published))
    return agent_game(name, epsilon, delta, calibration)


def private_agents() -> list[str]:
    """Return the names of the private agents."""
    return [name for name in AGENTS if issubclass(find(name).load(), LocalAgent | CentralAgent)]


def agent_game(name: str, epsilon: float, delta: float, calibration: str) -> Game:
    """Return the game of a private agent that plays arms with features."""
    wanted = {"epsilon": epsilon, "delta": delta, "calibration": calibration, "bonus_scale": 0.0}
    known = field_names(find(name).load().Config)
    if calibration == "published" and "calibration" not in known:
        raise ValueError(f"{name} has no published calibration.")
    config = {key: value for key, value in wanted.items() if key in known}
    if name in ASSORTMENTS:
        config.pop("bonus_scale", None)
        return ASSORTMENTS[name](name, config)
    if name in SPARSE:
        return SparseGame(name, config)
    if name == "lplr":
        return LayeredGame(name, config)
    if issubclass(find(name).load(), LPCT):
        config |= {"splits": 2} if "splits" in known else {}
        return LeafGame(name, config)
    if issubclass(find(name).load(), GradientAgent | PGLM):
        return RegressionGame(name, config)
    if "growth" in known:
        config["growth"] = 1.001
    kind = LocalGame if issubclass(find(name).load(), LocalAgent) else JointGame
    return kind(name, config)


class AgentGame(Game):
    """The first user saw e1 and earned +1, or -1; all else is alike."""

    pair = "the first user's reward 1 or -1 at x = e1"

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        """Read the claim off the agent's own guarantee."""
        self.name, self.config = name, config
        self.env = gym.make("privbandit/Linear-v0", n_arms=2, dim=2, horizon=ROUNDS)
        guarantee = self.agent(0).guarantee
        assert guarantee.epsilon is not None
        delta = guarantee.delta or 0.0
        agent_class = find(name).load()
        gaussian = issubclass(agent_class, LocalAgent | CentralAgent) and agent_class.gaussian
        self.claim = Claim(guarantee.epsilon, delta, guarantee.rho if gaussian else None)

    def agent(self, seed: int) -> Any:
        """Return a fresh agent."""
        return make(self.name, self.env, seed=seed, **self.config)


class LocalGame(AgentGame):
    """Look at the report of one user, who has one of the two records that the agent calls ``far_apart``."""

    pair = "the two records that a report tells apart best"
    statistics = ("projection on the difference of means", "log-likelihood ratio")

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        """Find the direction in which the reports of the two worlds differ most."""
        super().__init__(name, config)
        if getattr(find(name).load(), "gaussian", False):
            self.claim = Claim.gaussian(self.claim.epsilon, self.claim.delta)
        means = [self.reports(world, PILOTS, np.random.default_rng(7 + world)).mean(axis=0) for world in (0, 1)]
        self.direction = means[0] - means[1]

    def reports(self, world: int, runs: int, rng: Generator) -> Floats:
        """Return the reports of so many users with the same record, flattened."""
        agent = self.agent(int(rng.integers(2**31)))
        features, rewards = agent.far_apart()
        contexts = np.tile(features[world], (runs, 2, 1))
        report = agent.randomize(contexts, np.zeros(runs, int), np.full(runs, rewards[world]))
        return np.asarray(report).reshape(runs, -1)

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        """Return what is seen of one world."""
        reports = self.reports(world, runs, rng)
        agent = self.agent(0)
        randomizer = getattr(agent, "randomizer", None)
        ratio = np.zeros(runs)
        if randomizer is not None:
            shaped = reports.reshape(runs, randomizer.cells, randomizer.dim)
            features, rewards = agent.far_apart()
            records = agent.encode(np.tile(features[:, None], (1, 2, 1)), np.zeros(2, int), rewards)
            ratio = randomizer.log_likelihood(shaped, 0, records[0]) - randomizer.log_likelihood(shaped, 0, records[1])
        return np.stack([reports @ self.direction, ratio], axis=1)


class JointGame(AgentGame):
    """Read the estimate from the actions of probe users after every release; the other users are the adversary's."""

    statistics = (*(f"reading after {t} users" for t in range(1, ROUNDS + 1)), "sum of readings")

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        """Prepare the probes: +-cos(phi) e1 against sin(phi) e2, for angles phi from 0 to a right one."""
        super().__init__(name, config)
        angles = np.linspace(0, np.pi / 2, 101)[1:-1]
        along, across = np.cos(angles), np.sin(angles)
        arms = [np.stack([np.outer(sign * along, [1, 0]), np.outer(across, [0, 1])], axis=1) for sign in (1, -1)]
        self.probes = np.concatenate(arms).astype(np.float32)
        self.weights = np.repeat([1.0, -1.0], len(angles))
        self.pinned = np.tile(np.eye(2)[1], (2, 1)).astype(np.float32)
        self.target = np.tile(np.eye(2)[0], (2, 1)).astype(np.float32)

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        """Play runs of a few rounds; the target is the first user, the others pin the second coordinate."""
        out = np.zeros((runs, ROUNDS + 1))
        for run in range(runs):
            agent = self.agent(int(rng.integers(2**31)))
            for t in range(ROUNDS):
                if t == 0:
                    agent.update(self.target, 0, 1.0 - 2.0 * world)
                else:
                    agent.update(self.pinned, 0, 1.0)
                first_arm = np.asarray(agent.select_action(self.probes)) == 0
                out[run, t] = first_arm @ self.weights
        out[:, -1] = out[:, :-1].sum(axis=1)
        return out
