"""How close to the floor: speed and memory of environments and agents.

The floor is numpy's default generator (PCG64) filling as many float32 Gaussians as the contexts have numbers, in
blocks of 64 rows. Times are CPU times of one thread, the best of several; those of a ratio take turns in one run.
"""

import resource
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from harness import Options, Row, Timing, apart, best_of, least, main, timed
from privbandit_agents import make, play

from privbandit_envs.families.mnl import best_assortment

Config = dict[str, Any]
SETTINGS = {
    "SparseLinear 3x400": ("privbandit/SparseLinear-v0", (3, 400), 4096),
    "Linear 10x20": ("privbandit/Linear-v0", (10, 20), 16384),
    "Assortment 100x5": ("privbandit/Assortment-v0", (100, 5), 8192),
}
"""Environment, shape of a context, and the number of rounds that are timed."""
TARGETS = {"step": (0.70, 0.40, 0.55), "block": (0.80, 0.75, 0.75), "vector": (0.80, 0.75, 0.75)}
UNTARGETED: dict[str, float | None] = dict.fromkeys(("dpmnl-approx", "ucb-mnl", "greedy-mnl", "ts-mnl", "uniform"))
PLAYED: dict[str, dict[str, float | None]] = {
    "Linear 10x20": {"linucb": 0.13},
    "SparseLinear 3x400": {"linucb": 0.18},
    "Assortment 100x5": {"dpmnl": 0.15, "newton-mnl": 0.5, **UNTARGETED},
}
"""Least speed of a run, its drawing included, as a share of the floor."""
SPARSE: dict[str, Config] = {
    "fliphat": {},
    "fliphat, tuned": {"M": 2, "eta": 0.5, "x_max": 2.0, "R": 2.0, "s": 5},
}
ILL: Config = {"n_arms": 3, "dim": 2, "design": "ill", "support": 200}
DEFAULT = ("uniform", "ldp-greedy", "ldp-linucb", "ldp-oful", "ldp-sgd", "input-perturbation", "prec-ts", "lplr")
COUNTED = [
    *((name, Config()) for name in DEFAULT),
    ("lplr", {"preset": "published", "calibration": "correct"}),
    ("linucb", {"growth": 1.05}),
]

WIDE = ("ldp-linucb", "ldp-oful", "ldp-greedy", "prec-ts", "lplr", "input-perturbation")


def environments(options: Options) -> Iterator[Row]:
    """Measure the three ways to serve users, as shares of the floor."""
    for column, (name, (env_id, shape, rounds)) in enumerate(SETTINGS.items()):
        ground, *times = best_of(floor(shape, rounds), *served(env_id, rounds))
        for (path, targets), seconds in zip(TARGETS.items(), times, strict=True):
            yield Row(f"{name}, {path} path", ground / seconds, "of the floor", at_least=targets[column])


def agents(options: Options) -> Iterator[Row]:
    """Measure agents that play, drawing included, as shares of the floor."""
    for setting, targets in PLAYED.items():
        env_id, shape, rounds = SETTINGS[setting]
        runs = [played(name, env_id, rounds) for name in targets]
        ground, *times = best_of(floor(shape, rounds), *runs)
        for (name, target), seconds in zip(targets.items(), times, strict=True):
            unit = f"of the floor, {1e6 * seconds / rounds:.1f} us a user"
            yield Row(f"{name} through play, {setting}", ground / seconds, unit, at_least=target)


def sparse(options: Options) -> Iterator[Row]:
    """Measure what agents of sparse bandits cost beside drawing and serving the contexts, over the cost of that."""
    env_id, rounds = SETTINGS["SparseLinear 3x400"][0], 20_000
    runs = [played(label.split(",")[0], env_id, rounds, **config) for label, config in SPARSE.items()]
    drawn, *times = best_of(drawing(env_id, rounds), *runs, repeats=5)
    yield Row("drawing and serving, SparseLinear 3x400", 1e6 * drawn / rounds, "us a user")
    for label, seconds in zip(SPARSE, times, strict=True):
        unit = f"of drawing, {1e6 * (seconds - drawn) / rounds:.2f} us a user"
        yield Row(f"{label} beside drawing", (seconds - drawn) / drawn, unit, at_most=1)


def assortments(options: Options) -> Iterator[Row]:
    """Measure the exact assortment oracle: general revenues, N = 100, K = 10, blocks of 256."""
    rng = np.random.default_rng(0)
    weights, revenues = np.exp(1.3 * rng.standard_normal((256, 100))), rng.random((256, 100))
    seconds = least(lambda: [best_assortment(weights, revenues, 10) for _ in range(10)]) / 2560
    yield Row("exact assortment, N=100, K=10", 1e6 * seconds, "us a user", at_most=80)


def counts(options: Options) -> Iterator[Row]:
    """Measure locally private runs whose users are served by counts, and their reports drawn one by one."""
    for name, config in COUNTED:
        label = name + "".join(f", {key}={value}" for key, value in config.items())
        seconds = least(partial(one_run, name, config, 10**7), repeats=5)
        yield Row(f"{label}, 10^7 users by counts", 10 / seconds, "million users/s", at_least=50)
        if (reports := reports_a_second(name, config)) is not None:
            yield Row(f"{label}, reports one by one", reports / 1e3, "thousand/s", at_least=200)
    fit = least(lambda: one_run("lplr", {"first": 10**7}, 10**7), repeats=5)
    yield Row("lplr, one regression of 10^7 users, 600 support points", 1e3 * fit, "ms, drawn and fitted", at_most=10)


def wide(options: Options) -> Iterator[Row]:
    """Measure locally private runs where a report has 80 600 numbers, beside the same agents at 10 x 20."""
    for name in WIDE:
        for setting, rounds in (("SparseLinear 3x400", 20_000), ("Linear 10x20", 50_000)):
            speed, peak = apart(wide_run, name, SETTINGS[setting][0], rounds)
            yield Row(f"{name}, {setting}, {rounds} users", speed, "users/s")
            if setting.startswith("Sparse"):
                yield Row(f"{name}, {setting}, peak memory above the imports", peak, "MiB", at_most=300)


def wide_run(name: str, env_id: str, rounds: int) -> tuple[float, float]:
    """Return users a second, and the peak memory of the process above its imports in MiB."""
    env = gym.make(env_id, horizon=rounds)
    agent = make(name, env, seed=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = timed(lambda: play(env, agent, rounds, seed=1))
    return rounds / seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def memory(options: Options) -> Iterator[Row]:
    """Measure peak memory, which must not grow with the number of users."""
    for name in ("ldp-greedy", "prec-ts", "lplr"):
        short, long = (peak_by_counts(name, users) for users in (10**7, 10**9))
        yield Row(f"{name}, peak memory at 10^9 users over 10^7", long / short, f"({long:.2f} MiB)", at_most=1.5)
    if not options.quick:
        short, long = (apart(peak_one_by_one, rounds) for rounds in (10**5, 10**6))
        yield Row(f"peak memory, 10^6 rounds (10^5: {short:.2f} MiB)", long, "MiB", at_most=1.1 * short)


def floor(shape: tuple[int, int], rounds: int) -> Timing:
    """Return a timing of drawing the contexts alone."""
    rng, buffer = np.random.default_rng(0), np.empty((64, *shape), np.float32)
    return lambda: timed(lambda: rng.standard_normal(dtype=np.float32, out=buffer), rounds // 64)


def served(env_id: str, rounds: int) -> list[Timing]:
    """Return timings of the step loop, of blocks of 64, and of a vector environment of 64, regret included."""
    env: Any = gym.make(env_id, horizon=rounds)
    slots = gym.make_vec(env_id, num_envs=64, horizon=2 * rounds)
    action, of_slots = env.action_space.sample(), slots.action_space.sample()
    actions = np.stack([env.action_space.sample() for _ in range(64)])
    bare: Any = gym.make(env_id, horizon=rounds).unwrapped
    return [
        reset_and(env, lambda: env.step(action), rounds),
        reset_and(bare, lambda: (bare.upcoming(64), bare.serve(actions)), rounds // 64),
        reset_and(slots, lambda: slots.step(of_slots), rounds // 64),
    ]


def reset_and(env: Any, work: Callable[[], object], times: int) -> Timing:
    """Return a timing of work in an environment that is reset before."""

    def run() -> float:
        env.reset(seed=1)
        return timed(work, times)

    return run


def played(name: str, env_id: str, rounds: int, **config: Any) -> Timing:
    """Return a timing of an agent through ``play``, drawing included."""
    env = gym.make(env_id, horizon=rounds)

    def run() -> float:
        agent = make(name, env, seed=1, **config)
        return timed(lambda: play(env, agent, rounds, seed=1))

    return run


def drawing(env_id: str, rounds: int, block: int = 512) -> Timing:
    """Return a timing of drawing contexts and serving random actions, in blocks as ``play`` does."""
    env: Any = gym.make(env_id, horizon=rounds).unwrapped
    env.action_space.seed(0)
    actions = np.array([env.action_space.sample() for _ in range(block)])
    blocks = [block] * (rounds // block) + [rounds % block]
    return reset_and(env, lambda: [(env.upcoming(n), env.serve(actions[:n])) for n in blocks], 1)


def one_run(name: str, config: Config, users: int) -> tuple[Any, Any]:
    """Play ill-conditioned contexts, the users served by counts; return environment and agent."""
    env = gym.make("privbandit/Linear-v0", horizon=users, **ILL)
    agent = make(name, env, seed=0, **config)
    play(env, agent, users, seed=0, checkpoints=[users])
    return env, agent


def reports_a_second(name: str, config: Config) -> float | None:
    """Return how fast an agent draws reports after 10^7 users, 2000 at a time; None if it draws none."""
    env, agent = one_run(name, config, 10**7)
    if not hasattr(agent, "randomize"):
        return None
    env.reset(seed=1)
    contexts = env.unwrapped.upcoming(2000)
    arms, rewards = np.zeros(2000, int), np.ones(2000)
    return 2000 / least(lambda: agent.randomize(contexts, arms, rewards), repeats=10)


def peak_by_counts(name: str, users: int) -> float:
    """Return the peak memory in MiB that a run by counts allocates."""
    tracemalloc.start()
    one_run(name, {}, users)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return peak


def peak_one_by_one(rounds: int) -> float:
    """Return the peak memory in MiB of LinUCB playing so many rounds (Python's and numpy's)."""
    env = gym.make("privbandit/Linear-v0", horizon=rounds)
    agent = make("linucb", env, seed=0)
    tracemalloc.start()
    play(env, agent, rounds, seed=0)
    return tracemalloc.get_traced_memory()[1] / 2**20


if __name__ == "__main__":
    sections = (environments, agents, sparse, assortments, counts, wide, memory)
    sys.exit(main(__doc__, {section.__name__: section for section in sections}))
