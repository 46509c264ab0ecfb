"""How close to the floor: every speed as a ratio to drawing the contexts, measured in the same run.

The floor is numpy's default generator (PCG64) filling as many float32 Gaussians as the contexts have numbers, in
blocks of 64 rows. Times are CPU times of one thread, the best of several interleaved repetitions.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import make, play

from privbandit_envs.families.mnl import best_assortment

REPEATS = 7
SETTINGS = {
    "SparseLinear 3x400": ("privbandit/SparseLinear-v0", (3, 400), 4096),
    "Linear 10x20": ("privbandit/Linear-v0", (10, 20), 16384),
    "Assortment 100x5": ("privbandit/Assortment-v0", (100, 5), 8192),
}
TARGETS = {"step": (0.70, 0.40, 0.55), "block": (0.80, 0.75, 0.75), "vector": (0.80, 0.75, 0.75)}
PLAYED = (
    ("linucb", "Linear 10x20", 0.13),
    ("linucb", "SparseLinear 3x400", 0.18),
    ("dpmnl", "Assortment 100x5", 0.15),
)
Timed = Callable[[], float]


def floor(shape: tuple[int, int], rounds: int) -> Timed:
    """Return a timing of drawing the contexts."""
    rng, buffer = np.random.default_rng(0), np.empty((64, *shape), np.float32)

    def run() -> float:
        return timed(lambda: rng.standard_normal(dtype=np.float32, out=buffer), rounds // 64)

    return run


def step_loop(env_id: str, rounds: int) -> Timed:
    """Return a timing of gym.make and the step loop, regret in info."""
    env = gym.make(env_id, horizon=rounds)
    action = env.action_space.sample()

    def run() -> float:
        env.reset(seed=1)
        return timed(lambda: env.step(action), rounds)

    return run


def block_path(env_id: str, rounds: int) -> Timed:
    """Return a timing of the block path in blocks of 64."""
    env: Any = gym.make(env_id, horizon=rounds).unwrapped
    actions = np.stack([env.action_space.sample() for _ in range(64)])

    def run() -> float:
        env.reset(seed=1)
        return timed(lambda: (env.upcoming(64), env.serve(actions)), rounds // 64)

    return run


def vector_loop(env_id: str, rounds: int) -> Timed:
    """Return a timing of the vector environment of 64."""
    env = gym.make_vec(env_id, num_envs=64, horizon=2 * rounds)
    actions = env.action_space.sample()

    def run() -> float:
        env.reset(seed=1)
        return timed(lambda: env.step(actions), rounds // 64)

    return run


def through_play(name: str, env_id: str, rounds: int) -> Timed:
    """Return a timing of an agent through ``play``, drawing included."""
    env = gym.make(env_id, horizon=rounds)

    def run() -> float:
        agent = make(name, env, seed=1)
        return timed(lambda: play(env, agent, rounds, seed=1))

    return run


def oracle(users: int) -> Timed:
    """Return a timing of the exact assortment oracle: general revenues, N=100, K=10, blocks of 256."""
    rng = np.random.default_rng(0)
    weights, revenues = np.exp(1.3 * rng.standard_normal((256, 100))), rng.random((256, 100))

    def run() -> float:
        return timed(lambda: best_assortment(weights, revenues, 10), users // 256)

    return run


def timed(work: Callable[[], object], times: int = 1) -> float:
    """Return the CPU seconds of doing a piece of work so many times."""
    started = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - started


def best_of(*candidates: Timed) -> list[float]:
    """Return the best time of each, repetitions interleaved so that all meet the same machine."""
    for candidate in candidates:
        candidate()
    return [min(times) for times in zip(*([run() for run in candidates] for _ in range(REPEATS)), strict=True)]


def peak_memory(rounds: int) -> float:
    """Return the peak memory in MiB of LinUCB playing so many rounds in a fresh process (Python's and numpy's)."""
    code = (
        "import tracemalloc, gymnasium as gym, privbandit_envs\n"
        "from privbandit_agents import make, play\n"
        f"env = gym.make('privbandit/Linear-v0', horizon={rounds})\n"
        "agent = make('linucb', env, seed=0)\n"
        "tracemalloc.start()\n"
        f"play(env, agent, {rounds}, seed=0)\n"
        "print(tracemalloc.get_traced_memory()[1] / 2**20)"
    )
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def report(name: str, value: float, target: float, unit: str, at_least: bool = True) -> bool:
    """Print one row; return whether the target is met."""
    met, sign = (value >= target, ">=") if at_least else (value <= target, "<=")
    print(f"| {name:<44} | {value:8.2f} {unit:<14} | {sign} {target:<6.3g} | {'yes' if met else 'NO'} |")
    return met


def main() -> int:
    """Print the table; exit 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the million-round memory run")
    quick = parser.parse_args().quick
    print(f"| {'what':<44} | {'measured':<23} | {'target':<9} | met |\n|---|---|---|---|")
    met = []
    for column, (name, (env_id, shape, rounds)) in enumerate(SETTINGS.items()):
        runs = {"step": step_loop, "block": block_path, "vector": vector_loop}
        ground, *times = best_of(floor(shape, rounds), *(build(env_id, rounds) for build in runs.values()))
        for path, seconds in zip(runs, times, strict=True):
            met.append(report(f"{name}, {path} path", ground / seconds, TARGETS[path][column], "of the floor"))
    for agent, name, target in PLAYED:
        env_id, shape, rounds = SETTINGS[name]
        ground, seconds = best_of(floor(shape, rounds), through_play(agent, env_id, rounds))
        met.append(report(f"{agent} through play, {name}", ground / seconds, target, "of the floor"))
    (seconds,) = best_of(oracle(2560))
    met.append(report("exact assortment, N=100, K=10", seconds / 2560 * 1e6, 80, "us a user", at_least=False))
    if not quick:
        short, long = peak_memory(100_000), peak_memory(1_000_000)
        name = f"peak memory, 10^6 rounds (10^5: {short:.2f} MiB)"
        met.append(report(name, long, 1.1 * short, "MiB", at_least=False))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
