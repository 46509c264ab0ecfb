"""Locally private linear bandits: errors, regret and speed beside their targets. Users are served by counts.

Means over seeds, with standard errors of regret in brackets; epsilon = 1 unless said otherwise.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import math
import sys
import time
import tracemalloc
from typing import Any

import gymnasium as gym
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from privbandit_agents import make, play

import privbandit_envs  # noqa: F401

ENV = "privbandit/Linear-v0"
Settings = dict[str, Any]
ILL: Settings = {"n_arms": 3, "dim": 2, "design": "ill", "support": 200}
CASE2: Settings = {"n_arms": 1, "dim": 2, "design": "case2", "support": "all"}
OFFLINE: list[tuple[str, Settings, Settings, dict[int, float]]] = [
    ("Case II, d = 2", CASE2, {}, {10**5: 0.030, 10**6: 0.011, 10**7: 0.0040}),
    ("Case II ladder, d = 3", {**CASE2, "design": "ill", "dim": 3}, {}, {10**7: 0.0065}),
    ("Case II, alpha = 4", CASE2, {"epsilon": 4.0}, {10**7: 0.0020}),
]
SIZES = (10**5, 10**6, 10**7)
BANDITS: list[tuple[str, str, Settings, Settings, dict[int, float]]] = [
    ("uniform", "uniform", ILL, {}, {}),
    ("ldp-greedy", "ldp-greedy", ILL, {}, {}),
    ("ldp-linucb, delta = 1e-6", "ldp-linucb", ILL, {"delta": 1e-6}, {}),
    ("lplr, published preset", "lplr", ILL, {"preset": "published"}, {}),
    ("lplr: must reach", "lplr", ILL, {}, {10**7: 60, 10**8: 140, 10**9: 250}),
    ("prec: must reach", "prec", ILL, {}, {10**7: 32, 10**8: 85, 10**9: 160}),
    ("prec: the goal", "prec", ILL, {}, {10**7: 15, 10**8: 60, 10**9: 120}),
    ("lplr, alpha = 4", "lplr", ILL, {"epsilon": 4.0}, {10**7: 25}),
    ("prec, alpha = 4", "prec", ILL, {"epsilon": 4.0}, {10**7: 12}),
    ("lplr, d = 3", "lplr", {**ILL, "dim": 3}, {}, {10**7: 60}),
    ("prec, d = 3", "prec", {**ILL, "dim": 3}, {}, {10**7: 36}),
    ("lplr, isotropic", "lplr", {**ILL, "design": "sphere"}, {}, {10**7: 11}),
    ("ldp-greedy, isotropic", "ldp-greedy", {**ILL, "design": "sphere"}, {}, {10**7: 0.75}),
]
HORIZONS = (10**7, 10**8, 10**9)
SPEED: list[tuple[str, Settings]] = [
    ("uniform", {}),
    ("linucb", {"growth": 1.05}),
    ("ldp-greedy", {}),
    ("ldp-linucb", {}),
    ("ldp-oful", {}),
    ("ldp-sgd", {}),
    ("input-perturbation", {}),
    ("prec", {}),
    ("lplr", {}),
    ("lplr", {"preset": "published"}),
]


def one_run(world: Settings, name: str, config: Settings, users: int, seed: int) -> tuple[Any, Any, Any]:
    """Return (environment, agent, result) of one run."""
    env = gym.make(ENV, horizon=users, **world)
    agent = make(name, env, seed=seed, **config)
    return env, agent, play(env, agent, users, seed=seed, checkpoints=[users])


def offline(world: Settings, name: str, config: Settings, users: int, seed: int) -> list[float]:
    """Return mean absolute error; and of LPLR the share of users in its intervals, and the mean width."""
    env, agent, result = one_run(world, name, config, users, seed)
    if name != "lplr":
        return [result.mad[-1], math.nan, math.nan]
    support, problem = env.unwrapped.support, env.unwrapped.problem
    true = problem.expected_reward(support.contexts, np.zeros(len(support.contexts), int))
    width = agent.interval(support.contexts)[:, 0]
    inside = np.abs(agent.predict(support.contexts)[:, 0] - true) <= width
    return [result.mad[-1], float(support.probabilities @ inside), float(support.probabilities @ width)]


def regret(world: Settings, name: str, config: Settings, users: int, seed: int) -> float:
    """Return the final regret in thousands."""
    return float(one_run(world, name, config, users, seed)[2].regret[-1] / 1000)


def over_seeds(function: Any, seeds: int, *arguments: Any) -> NDArray[np.float64]:
    """Return what a function gives for every seed."""
    return np.array(Parallel(n_jobs=JOBS)(delayed(function)(*arguments, seed) for seed in range(seeds)))


def power(errors: list[float]) -> float:
    """Return the power of n that errors at SIZES fall with."""
    return float(np.polyfit(np.log(SIZES), np.log(errors), 1)[0])


def offline_table(seeds: int) -> bool:
    """Print mean absolute errors of one regression; return whether LPLR meets its targets."""
    print(f"| MAD, {seeds} runs | {' | '.join(f'n = {n:.0e}' for n in SIZES)} | power of n | met |")
    print("|---" * (len(SIZES) + 3) + "|")
    met = True
    for label, world, config, targets in OFFLINE:
        runs = [over_seeds(offline, seeds, world, "lplr", {**config, "first": n}, n) for n in SIZES]
        means = [run[:, 0].mean() for run in runs]
        slope = power(means)
        fine = all(mean <= targets.get(n, np.inf) for n, mean in zip(SIZES, means, strict=True))
        fine = fine and (slope <= -0.43 or label != OFFLINE[0][0])
        met = met and fine
        print(f"| lplr, {label} | {row(means, targets)} | {slope:.2f} | {'yes' if fine else 'NO'} |", flush=True)
    statistics = {"ridge": {"shift": 2.0}, "threshold": {"statistics": "threshold"}}
    for case in ("case2", "case1"):
        world = {**CASE2, "design": case}
        table = {
            name: [over_seeds(offline, seeds, world, "ldp-greedy", config, n)[:, 0].mean() for n in SIZES]
            for name, config in statistics.items()
        }
        for name, means in table.items():
            print(f"| sufficient statistics, {name}, {case} | {row(means, {})} | {power(means):.2f} | |", flush=True)
        layered = [over_seeds(offline, seeds, world, "lplr", {"first": n}, n)[:, 0].mean() for n in SIZES]
        bound = 1.3 if case == "case1" else 1.0
        ratios = [a / b for a, b in zip(layered, table["threshold"], strict=True)]
        fine = max(ratios) <= bound
        met = met and fine
        shown = " | ".join(f"{ratio:.2f} ({bound:g})" for ratio in ratios)
        print(f"| lplr over thresholded, {case} | {shown} | | {'yes' if fine else 'NO'} |", flush=True)
    return met


def row(means: list[float], targets: dict[int, float]) -> str:
    """Return a row's cells."""
    return " | ".join(
        f"{m:.4f}" + (f" ({targets[n]:g})" if n in targets else "") for n, m in zip(SIZES, means, strict=True)
    )


def interval_table(seeds: int) -> bool:
    """Print how often LPLR's intervals at z = 2.2 hold, and how wide they are beside the error."""
    print("\n| lplr's intervals, z = 2.2 | " + " | ".join(f"n = {n:.0e}" for n in SIZES) + " | met |")
    print("|---" * (len(SIZES) + 2) + "|")
    met = True
    for label, world in (("Case II", CASE2), ("Case I", {**CASE2, "design": "case1"})):
        cells, fine = [], True
        for n in SIZES:
            mad, inside, width = over_seeds(offline, seeds, world, "lplr", {"first": n, "z": 2.2}, n).mean(axis=0)
            cells.append(f"hold for {100 * inside:.1f} %, {width / mad:.2f} errors wide")
            fine = fine and inside >= 0.95 and width <= 3.5 * mad
        met = met and fine
        print(f"| {label} | {' | '.join(cells)} | {'yes' if fine else 'NO'} |", flush=True)
    return met


def bandit_table(seeds: int) -> bool:
    """Print regret in thousands; return whether all targets are met."""
    print(f"\n| regret in thousands, {seeds} seeds | {' | '.join(f'T = {T:.0e}' for T in HORIZONS)} | power | met |")
    print("|---" * (len(HORIZONS) + 3) + "|")
    met, known = True, dict[str, NDArray[np.float64]]()
    for label, name, world, config, targets in BANDITS:
        key = f"{name} {world} {config}"
        if key not in known:
            known[key] = np.array([over_seeds(regret, seeds, world, name, config, T) for T in HORIZONS])
        means, errors = known[key].mean(axis=1), known[key].std(axis=1, ddof=1) / math.sqrt(seeds)
        fine = all(mean <= targets.get(T, np.inf) for T, mean in zip(HORIZONS, means, strict=True))
        met = met and fine
        cells = [
            f"{mean:.3g} ({error:.2g})" + (f" <= {targets[T]:g}" if T in targets else "")
            for T, mean, error in zip(HORIZONS, means, errors, strict=True)
        ]
        slope = np.polyfit(np.log(HORIZONS), np.log(means), 1)[0]
        verdict = ("yes" if fine else "NO") if targets else ""
        print(f"| {label} | {' | '.join(cells)} | {slope:.2f} | {verdict} |", flush=True)
    return met


def speed_table() -> bool:
    """Print users a second by counts, reports a second one by one, the time of a fit, and memory; the best of some."""
    print("\n| on one core | million users/s by counts, T = 1e7 | thousand reports/s | met |\n|---|---|---|---|")
    met = True
    for name, config in SPEED:
        taken = least(lambda name=name, config=config: one_run(ILL, name, config, 10**7, 0))
        reports = reporting(name, config)
        fine = taken <= 0.2 and reports >= 2e5
        met = met and fine
        shown = "" if math.isinf(reports) else f"{reports / 1e3:.0f}"
        label = name + "".join(f", {key} = {value}" for key, value in config.items())
        print(f"| {label} | {10 / taken:.0f} | {shown} | {'yes' if fine else 'NO'} |", flush=True)
    fit = 1000 * least(lambda: one_run(ILL, "lplr", {"first": 10**7}, 10**7, 0))
    print(f"\nlplr, one regression of 1e7 users on 600 support points, drawn and fitted: {fit:.1f} ms (<= 10)")
    peaks = {name: [memory(name, T) for T in (10**7, 10**9)] for name in ("ldp-greedy", "prec", "lplr")}
    for name, (short, long) in peaks.items():
        print(f"{name}, peak memory at 1e7 and 1e9 users: {short:.2f} and {long:.2f} MiB")
    return met and fit <= 10 and all(long <= 1.5 * short for short, long in peaks.values())


def reporting(name: str, config: Settings) -> float:
    """Return the reports a second of a local agent after 10^7 users, drawn 2000 at a time."""
    env, agent, _ = one_run(ILL, name, config, 10**7, 0)
    if not hasattr(agent, "randomize"):
        return math.inf
    env.reset(seed=1)
    contexts = env.unwrapped.upcoming(2000)
    arms, rewards = np.zeros(2000, int), np.ones(2000)
    return 2000 / least(lambda: agent.randomize(contexts, arms, rewards), 10)


def memory(name: str, users: int) -> float:
    """Return the peak memory in MiB that a run allocates."""
    tracemalloc.start()
    one_run(ILL, name, {}, users, 0)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return peak


def least(work: Any, times: int = 5) -> float:
    """Return the least CPU seconds of a piece of work."""
    return min(timed(work) for _ in range(times))


def timed(work: Any) -> float:
    """Return the CPU seconds of a piece of work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> int:
    """Print the tables; exit 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=16, help="of the bandits; the regressions have 100")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--only", choices=("offline", "intervals", "regret", "speed"))
    arguments = parser.parse_args()
    global JOBS
    JOBS = arguments.jobs
    tables = {
        "offline": lambda: offline_table(100),
        "intervals": lambda: interval_table(100),
        "regret": lambda: bandit_table(arguments.seeds),
        "speed": speed_table,
    }
    chosen = [arguments.only] if arguments.only else list(tables)
    return 0 if all([tables[name]() for name in chosen]) else 1


JOBS = -1
"""Processes of a table."""

if __name__ == "__main__":
    sys.exit(main())
