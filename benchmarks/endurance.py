"""Long runs and hostile users: states against fresh solutions, a trillion users, and what one bad record costs.

``sequential`` sends ten million users through the agents that learn from one after the other (about ten minutes),
``counts`` plays a trillion users by counts, ``hostile`` lets one of 100 000 users attack every agent (half an hour).
"""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from harness import Options, Row, main
from numpy.typing import NDArray
from privbandit_agents import AGENTS, make, play
from privbandit_agents.base.agent import LearningAgent
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import UnprovenCalibration
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.zoo.registry import can_play

import privbandit_envs  # noqa: F401  (registers the environments)

Floats = NDArray[np.float64]
RIDGE = ("linucb", "lints", "greedy", "epsilon-greedy")
SUMS = ("ldp-linucb", "ldp-oful", "ldp-greedy", "input-perturbation")
WORLDS: dict[str, dict[str, Any]] = {
    "privbandit/Linear-v0": {"dim": 5, "n_arms": 5},
    "privbandit/SparseLinear-v0": {"dim": 50},
    "privbandit/Assortment-v0": {"n_items": 20, "capacity": 3},
    "privbandit/Classification-v0": {},
}
LARGEST = 1e6
"""The largest numbers that agents without privacy learn from."""


def sequential(options: Options) -> Iterator[Row]:
    """Compare states with a fresh solution of the same users, relative to the largest entry."""
    users = 10**5 if options.quick else 10**7
    for name in RIDGE:
        for length in (1.0, 100.0):
            error, least = ridge_error(name, length, users)
            what = f"{name}, {users:.0e} users with contexts of norm {length:g}"
            yield Row(f"{what}: error of A^-1", error, at_most=1e-6)
            yield Row(f"{what}: least eigenvalue over the fresh one", least, at_least=0.999, at_most=1.001)
    for name in SUMS:
        yield Row(f"{name}, {users:.0e} users: error of the sum of reports", sum_error(name, users), at_most=1e-9)


def ridge_error(name: str, length: float, users: int) -> tuple[float, float]:
    """Return the relative error of A^-1, and its least eigenvalue over that of a fresh inverse."""
    env = gym.make("privbandit/Linear-v0", dim=8, n_arms=2, horizon=users)
    agent: Any = make(name, env, seed=0)
    rng, gram = np.random.default_rng(0), np.eye(8)
    for n in parts(users):
        contexts = rng.standard_normal((n, 2, 8)).astype(np.float32)
        contexts *= length / np.linalg.norm(contexts, axis=2, keepdims=True)
        x = contexts[:, 0].astype(np.float64)
        agent.update(contexts, np.zeros(n, np.int64), x[:, 0] / length + rng.standard_normal(n))
        gram += x.T @ x
    fresh, inverse = np.linalg.inv(gram), agent.regression.matrices[0, :, :-1]
    least = np.linalg.eigvalsh((inverse + inverse.T) / 2)[0] / np.linalg.eigvalsh(fresh)[0]
    return float(np.abs(inverse - fresh).max() / np.abs(fresh).max()), float(least)


def sum_error(name: str, users: int) -> float:
    """Return the error of a server's sum against one in long double, relative to its largest entry."""
    env = gym.make("privbandit/Linear-v0", dim=5, n_arms=5, horizon=users)
    agent: Any = make(name, env, seed=0)
    rng, total = np.random.default_rng(0), np.zeros(agent.total.shape, np.longdouble)
    for n in parts(users):
        contexts = rng.random((n, 5, 5)) / math.sqrt(5)
        report = agent.randomize(contexts, np.zeros(n, np.int64), rng.uniform(-1, 1, n))
        total += agent.estimate(report).sum(axis=0, dtype=np.longdouble)
        agent.absorb(report)
    return float(np.abs(agent.total - total).max() / np.abs(total).max())


def parts(users: int, most: int = 4096) -> Iterator[int]:
    """Yield sizes of groups that add up to so many users."""
    while users:
        yield min(users, most)
        users -= min(users, most)


def counts(options: Options) -> Iterator[Row]:
    """Play by counts; every warning is an error."""
    horizon = 10**12
    for name in AGENTS:
        env = gym.make("privbandit/Linear-v0", dim=2, n_arms=3, support=50, horizon=horizon)
        if not can_play(name, env) or issubclass(AGENTS[name].load(), CentralAgent):
            continue
        if not make(name, env, seed=0).by_counts:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            regret = play(env, make(name, env, seed=0), seed=0).regret[-1]
        yield Row(f"{name}: regret after {horizon:.0e} users", float(regret), at_most=horizon)


def hostile(options: Options) -> Iterator[Row]:
    """Let user 1000 send the worst that is learned from; the regret of the others, over that without."""
    users = 2000 if options.quick else 10**5
    for name, entry in AGENTS.items():
        for env_id, world in WORLDS.items():
            env: Any = gym.make(env_id, horizon=users + 1, **world)
            if not can_play(name, env):
                continue
            if issubclass(entry.load(), LearningAgent):
                yield from hostile_to_a_learner(name, env, min(users, 20_000))
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnprovenCalibration)
                before = attacked(name, env, 0.0, users)
                for worst in (1.0, LARGEST, math.inf):
                    after = attacked(name, env, worst, users)
                    what = f"{name} on {env_id.split('/')[1]}: regret {before:.0f}"
                    yield Row(f"{what}, with a user who sends {worst:g}", after)


def attacked(name: str, env: Any, worst: float, users: int) -> float:
    """Return the regret of a run in which user 1000 sends a context and feedback of this size, none for 0."""
    agent = make(name, env, seed=1)
    world = env.unwrapped
    world.reset(seed=1)
    regret = 0.0
    attack_at = min(1000, users // 2)
    served = 0
    while served < users:
        n = min(agent.frozen_rounds(), users - served, 512)
        n = min(n, attack_at - served) if served < attack_at else n
        contexts = world.upcoming(n)
        actions = np.asarray(agent.select_action(contexts))
        outcome = world.serve(actions)
        agent.update(contexts, actions, outcome.feedback)
        regret += float(outcome.regret.sum())
        served += n
        if served == attack_at and worst:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", IgnoredRecord)
                agent.update(np.full(contexts[0].shape, worst / math.sqrt(contexts[0].size)), actions[0], -worst)
    return regret


def hostile_to_a_learner(name: str, env: Any, users: int) -> Iterator[Row]:
    """Let the reward of one user in 1000 be hostile, as an agent that owns its loop sees it."""
    before = play(env, make(name, env, seed=1), users, seed=1).regret[-1]
    for worst in (LARGEST, math.inf):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IgnoredRecord)
            after = play(Spoiler(env.unwrapped, worst), make(name, env, seed=1), users, seed=1).regret[-1]
        yield Row(
            f"{name} on {env.spec.id.split('/')[1]}: regret {before:.0f}, with a reward of {-worst:g}", float(after)
        )


class Spoiler(gym.Wrapper[Any, Any, Any, Any]):
    """The reward of the 1000th user is another one; the regret is what it was."""

    def __init__(self, env: Any, reward: float) -> None:
        super().__init__(env)
        self.spoilt, self.users = -reward, 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        context, reward, terminated, truncated, info = self.env.step(action)
        self.users += 1
        return context, self.spoilt if self.users == 1000 else reward, terminated, truncated, info


if __name__ == "__main__":
    raise SystemExit(main(__doc__, {"sequential": sequential, "counts": counts, "hostile": hostile}))
