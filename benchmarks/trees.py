"""Private classification trees: accuracy as a bandit, variance of the reports, speed and memory, beside the targets."""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import multiprocessing
import resource
import sys
import time
import warnings
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from joblib import Parallel, delayed
from privbandit_agents import make, play
from privbandit_agents.audits.labels import LeafGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.classifiers import LPCTClassifier
from privbandit_agents.local.trees.report import LeafReport

import privbandit_envs  # noqa: F401
from privbandit_envs.families.classification import eta

ENV = "privbandit/Classification-v0"
Settings = dict[str, Any]
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
USERS = 50_000
WORLDS: list[tuple[str, Settings, tuple[float, ...]]] = [
    ("n_Q = 50, gamma = .5", {"n_public": 50, "gamma": 0.5}, (0.69, 0.71, 0.725, 0.745, 0.755)),
    ("n_Q = 1000, gamma = 5", {"n_public": 1000, "gamma": 5.0}, (0.69, 0.705, 0.725, 0.745, 0.757)),
]
BANDITS: list[tuple[str, str, Settings]] = [
    ("lpct", "lpct", {}),
    ("lpct, the paper's report", "lpct", {"report": "laplace"}),
    ("lpct, ternary", "lpct", {"report": "ternary"}),
    ("lpct-prune", "lpct-prune", {}),
    ("lpct-p (private only)", "lpct-p", {}),
    ("phist", "phist", {}),
]
VARIANCES: list[tuple[str, float, int, float]] = [
    ("signed-subset", 0.5, 64, 4.17),
    ("signed-subset", 1, 64, 1.17),
    ("signed-subset", 2, 16, 0.289),
    ("signed-subset", 2, 64, 0.308),
    ("signed-subset", 4, 64, 0.0292),
    ("grr", 1, 64, 22.0),
    ("grr", 4, 16, 0.0149),
    ("laplace", 1, 64, 40.0),
    ("laplace", 2, 64, 10.0),
]
"""Report, epsilon, leaves, and the variance of S = (y - 1/2) e_leaf for a user outside the leaf."""
AUDITED = ("laplace", "signed-subset", "ternary", "grr")
PRIVATE, LEAVES = 10_000, 256
SPEED = (("auto", 0.5), ("auto", 1.0), ("auto", 2.0), ("auto", 4.0), ("auto", 8.0), ("grr", 1.0), ("laplace", 1.0))
TAXI = 3_297_639, 117_367, 93
"""Private rows, public rows and features of the largest data set of the paper."""


def accuracy(agent: Any) -> float:
    """Return the probability that the agent's best guess is right, over 40 000 points."""
    agent.exploration = 0.0
    x = np.random.default_rng(99).random((40_000, 2))
    one = eta(x)
    return float(np.where(agent.select_action(x) == 1, one, 1 - one).mean())


def one_run(world: Settings, name: str, config: Settings, seed: int) -> tuple[float, float]:
    """Return the final accuracy and the mean reward of one run."""
    env = gym.make(ENV, horizon=USERS, public_seed=seed, **world)
    agent = make(name, env, seed=seed, **config)
    result = play(env, agent, seed=seed, checkpoints=[USERS])
    return accuracy(agent), float(result.reward[-1] / USERS)


def bandit_table(seeds: int) -> bool:
    """Print final accuracies; return whether LPCT meets its targets."""
    met = True
    for label, world, targets in WORLDS:
        print(f"\n| {label}, T = {USERS}, {seeds} seeds | {' | '.join(f'eps = {e:g}' for e in EPSILONS)} | met |")
        print("|---" * (len(EPSILONS) + 2) + "|")
        for name, config in (("lpct-q", {}), ("lpct", {"epsilon": float("inf")}), ("tree-public", {})):
            runs = over_seeds(world, name, config, seeds)
            shown = name if not config else "lpct without noise"
            print(f"| {shown}, whatever eps | {cell(runs)} |" + " |" * len(EPSILONS), flush=True)
        for shown, name, config in BANDITS:
            runs = [over_seeds(world, name, {**config, "epsilon": eps}, seeds) for eps in EPSILONS]
            goals = targets if shown == "lpct" else (None,) * len(EPSILONS)
            fine = all(goal is None or run[:, 0].mean() >= goal for run, goal in zip(runs, goals, strict=True))
            met = met and fine
            cells = [cell(run) + (f" >= {goal:g}" if goal else "") for run, goal in zip(runs, goals, strict=True)]
            verdict = ("yes" if fine else "NO") if shown == "lpct" else ""
            print(f"| {shown} | {' | '.join(cells)} | {verdict} |", flush=True)
    print("Accuracy at the end (standard error) / reward a user; Bayes .786.")
    return met


def over_seeds(world: Settings, name: str, config: Settings, seeds: int) -> Any:
    """Return (accuracy, reward) of all seeds, shape (seeds, 2)."""
    return np.array(Parallel(n_jobs=JOBS)(delayed(one_run)(world, name, config, FIRST + seed) for seed in range(seeds)))


def cell(runs: Any) -> str:
    """Return a cell of the table."""
    error = runs[:, 0].std(ddof=1) / np.sqrt(len(runs))
    return f"{runs[:, 0].mean():.3f} ({error:.3f}) / {runs[:, 1].mean():.3f}"


def report_table(draws: int = 200_000) -> bool:
    """Print measured variances of the reports beside the table of docs/privacy.md; they agree within 2 %."""
    print(
        "\n| report | eps | leaves | variance by formula | measured | of the table | within 2 % |\n" + "|---" * 7 + "|"
    )
    met, rng = True, np.random.default_rng(0)
    for kind, eps, leaves, wanted in VARIANCES:
        report = LeafReport(kind, eps, leaves, 2)
        sums = 0.0
        for _ in range(draws // 2000):
            found = report.estimate(report.randomize(np.zeros(2000, int), np.ones(2000, int), rng))[:, 1:, 0]
            sums += float((found**2).mean())
        measured, formula = sums / (draws // 2000) / 4, report.variance[0] / 4
        fine = abs(formula / wanted - 1) <= 0.02 and abs(measured / wanted - 1) <= 0.02
        met = met and fine
        print(
            f"| {kind} | {eps:g} | {leaves} | {formula:.4g} | {measured:.4g} | {wanted:g} | {'yes' if fine else 'NO'} |"
        )
    return met


def audit_table(runs: int = 700_000) -> bool:
    """Print what audits of every report reach of the claim; none may refute it, at 95 % confidence for all together."""
    print(f"\n| audit, {runs} runs of each world | {' | '.join(f'eps = {e:g}' for e in EPSILONS)} | met |")
    print("|---" * (len(EPSILONS) + 2) + "|")
    met = True
    confidence = 1 - 0.05 / (len(AUDITED) * len(EPSILONS))
    for kind in AUDITED:
        games = [LeafGame("lpct", {"epsilon": eps, "report": kind}) for eps in EPSILONS]
        found = [audit(game, runs, np.random.default_rng(0), confidence=confidence) for game in games]
        shares = [verdict.lower_bound / eps for verdict, eps in zip(found, EPSILONS, strict=True)]
        fine = min(shares) >= 0.85 and not any(verdict.refuted for verdict in found)
        met = met and fine
        print(f"| {kind} | {' | '.join(f'{share:.2f}' for share in shares)} | {'yes' if fine else 'NO'} |", flush=True)
    return met


def speed_table() -> bool:
    """Print the time of a fit and of the exact sums beside that of drawing n x 2 m Laplace numbers; the best of 7."""
    rng = np.random.default_rng(0)
    private, public = rows(PRIVATE, 1.0, rng), rows(1000, 5.0, rng)
    floor = least(lambda: rng.laplace(size=(PRIVATE, 2 * LEAVES)))
    print(f"\n{PRIVATE} rows, {LEAVES} leaves; drawing {PRIVATE} x {2 * LEAVES} Laplace numbers: {1e3 * floor:.0f} ms")
    print("| report | eps | fit, one report a row (goal 5) | fit, exact sums (goal 500) | the sums alone | met |")
    print("|---|---|---|---|---|---|")
    met = True
    leaf, label = rng.integers(0, LEAVES, PRIVATE), private[1]
    for kind, eps in SPEED:
        fits = [least(partial(fitted, kind, eps, aggregate, private, public)) for aggregate in (False, True)]
        exact = LeafReport(kind, eps, LEAVES, 2)
        alone = least(partial(exact.total, leaf, label, rng)) if exact.randomizer.exact_sum else None
        summed = f"{floor / fits[1]:.0f}" if alone else "no exact law"
        fine = floor / fits[0] >= 5 and (alone is None or floor / fits[1] >= 500)
        met = met and fine
        print(
            f"| {kind} ({exact.kind}) | {eps:g} | {floor / fits[0]:.1f} | {summed} | "
            f"{f'{floor / alone:.0f}' if alone else ''} | {'yes' if fine else 'NO'} |",
            flush=True,
        )
    return met


def rows(n: int, gamma: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return synthetic rows and labels."""
    x = rng.random((n, 2))
    return x, (rng.random(n) < eta(x, gamma)).astype(int)


def fitted(kind: str, eps: float, aggregate: bool, private: Any, public: Any) -> Any:
    """Fit once."""
    return LPCTClassifier(eps, report=kind, depth=8, aggregate=aggregate, random_state=0).fit(*private, *public)


def taxi_table() -> bool:
    """Print time and memory of a fit on generated rows as many as the taxi trips, in a process of its own."""
    print(
        "\n| generated, 3 297 639 x 93 | seconds (goal 60) | peak GB (goal 3) | accuracy | met |\n|---|---|---|---|---|"
    )
    met = True
    for partition in ("cart", "max-edge"):
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool:
            seconds, gigabytes, right = pool.apply(taxi_fit, (partition,))
        fine = seconds < 60 and gigabytes < 3
        met = met and fine
        verdict = "yes" if fine else "NO"
        print(f"| lpct, {partition}, eps = 2 | {seconds:.1f} | {gigabytes:.2f} | {right:.3f} | {verdict} |", flush=True)
    return met


def taxi_fit(partition: str) -> tuple[float, float, float]:
    """Return the seconds of a fit, the peak memory of the process with its rows in GB, and the accuracy."""
    n, public, d = TAXI
    rng = np.random.default_rng(0)
    x = rng.random((n, d), np.float32)
    y = (x[:, 0] + x[:, 1] > 1) ^ (rng.random(n, np.float32) < 0.1)
    known = rng.random((public, d), np.float32)
    answers = (known[:, 0] + known[:, 1] > 1) ^ (rng.random(public, np.float32) < 0.1)
    started = time.perf_counter()
    model = LPCTClassifier(2.0, partition=partition, random_state=0).fit(x, y, known, answers)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return seconds, peak, float((model.predict(x[:20_000]) == (x[:20_000, 0] + x[:20_000, 1] > 1)).mean())


def least(work: Any, times: int = 7) -> float:
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
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--only", choices=("bandit", "reports", "audits", "speed", "taxi"))
    arguments = parser.parse_args()
    global JOBS, FIRST
    JOBS, FIRST = arguments.jobs, arguments.first
    warnings.simplefilter("error")
    tables = {
        "bandit": lambda: bandit_table(arguments.seeds),
        "reports": report_table,
        "audits": audit_table,
        "speed": speed_table,
        "taxi": taxi_table,
    }
    chosen = [arguments.only] if arguments.only else list(tables)
    return 0 if all([tables[name]() for name in chosen]) else 1


JOBS = -1
"""Processes of a table."""
FIRST = 0
"""The first seed."""

if __name__ == "__main__":
    sys.exit(main())
