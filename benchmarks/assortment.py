"""Private assortments: regret beside its targets, the ratio to uniform play, and speed beside drawing contexts.

Means and 95 % half-widths over seeds, in the setting of Cho and Sun (N = 100 items, K = 10, d = 5, revenues 1),
Gaussian features and features of norm 1.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from regrets import interval, playing, regrets
from speed import floor

ENV = "privbandit/Assortment-v0"
RHOS = (0.1, 0.5, 1.0, 5.0)
FEATURES = ("gaussian", "unit")
PUBLISHED = {"objective": "published", "counter": "tree", "trigger": 2, "calls": 8, "exploration": 500}
Pairs = tuple[tuple[float, float], ...]
ROWS: list[tuple[str, str, dict[str, Any], Pairs]] = [
    ("dpmnl, published objective, tree: expected", "dpmnl", PUBLISHED, ((435, 400), (180, 240), (90, 145), (28, 34))),
    ("dpmnl: reach", "dpmnl", {}, ((60, 95), (30, 45), (20, 32), (14, 18))),
    ("newton-mnl: must reach", "newton-mnl", {}, ((10, 20), (10, 14), (8, 12), (8, 12))),
    ("newton-mnl: the goal", "newton-mnl", {}, ((5, 8), (4, 6), (4, 6), (3, 6))),
]
BASELINES = ("ucb-mnl", "greedy-mnl", "ts-mnl", "uniform")
SPEED = {"dpmnl": 0.15, "newton-mnl": 0.5}
"""Speed of a run over that of drawing its contexts, at least."""


def run(name: str, config: dict[str, Any], horizon: int, seeds: int, **world: Any) -> NDArray[np.float64]:
    """Return the regret of all seeds at the horizon."""
    final: NDArray[np.float64] = regrets(ENV, world, name, config, horizon, seeds, JOBS)[:, 1]
    return final


def main_table(seeds: int, horizon: int) -> bool:
    """Print regret at the horizon; return whether all targets but the expected ones are met."""
    print(f"| regret at T = {horizon}, {seeds} seeds: Gaussian / unit | ", end="")
    print(" | ".join(f"rho {rho:g}" for rho in RHOS), "| met |\n" + "|---" * (len(RHOS) + 2) + "|")
    met, known = True, dict[str, list[tuple[NDArray[np.float64], ...]]]()
    for label, name, config, targets in ROWS:
        key = f"{name} {config}"
        if key not in known:
            known[key] = [
                tuple(run(name, {**config, "rho": rho}, horizon, seeds, features=kind) for kind in FEATURES)
                for rho in RHOS
            ]
        cells, reached = [], True
        for pair, target in zip(known[key], targets, strict=True):
            reached = reached and all(values.mean() <= bound for values, bound in zip(pair, target, strict=True))
            cells.append(" / ".join(interval(values, 1) for values in pair) + f" ({target[0]:g} / {target[1]:g})")
        verdict = "" if label.endswith("expected") else "yes" if reached else "NO"
        met = met and verdict != "NO"
        print(f"| {label} | {' | '.join(cells)} | {verdict} |", flush=True)
    for name in BASELINES:
        shown = [interval(run(name, {}, horizon, seeds, features=kind), 1) for kind in FEATURES]
        print(f"| {name} | {' / '.join(shown)} |", flush=True)
    return met


def general_table(seeds: int, horizon: int) -> bool:
    """Print regret and its ratio to uniform play with a revenue of its own for every user and item."""
    print(f"\n| random revenues, T = {horizon}, rho = 1: Gaussian / unit | regret | of uniform |\n|---|---|---|")
    uniform = [run("uniform", {}, horizon, seeds, features=kind, revenues="random") for kind in FEATURES]
    met = True
    for name in ("uniform", "ucb-mnl", "greedy-mnl", "ts-mnl", "newton-mnl", "dpmnl", "dpmnl-approx"):
        config = {"rho": 1.0} if name in ("newton-mnl", "dpmnl", "dpmnl-approx") else {}
        if name.startswith("dpmnl"):
            config["radius"] = 3.0  # theta's length matters here, and clipping Gaussian features to 1 stretches it
        pair = [run(name, config, horizon, seeds, features=kind, revenues="random") for kind in FEATURES]
        ratios = [values.mean() / base.mean() for values, base in zip(pair, uniform, strict=True)]
        met = met and (name in ("uniform", "dpmnl-approx") or max(ratios) < 0.9)
        shown = " / ".join(interval(values, 1) for values in pair)
        print(f"| {name} | {shown} | {' / '.join(f'{ratio:.3f}' for ratio in ratios)} |", flush=True)
    return met


def speed_table(horizon: int, repeats: int) -> bool:
    """Print the speed of runs over that of drawing the contexts; the best of several runs each."""
    draw = floor((100, 5), horizon)
    drawing = min(draw() for _ in range(repeats))
    print("\n| what | us a user | speed over drawing | target | met |\n|---|---|---|---|---|")
    print(f"| drawing 100 x 5 Gaussians | {1e6 * drawing / horizon:.2f} | 1 | | |")
    met = True
    for name in (*SPEED, "dpmnl-approx", *BASELINES):
        taken = min(playing(ENV, {}, name, {}, horizon) for _ in range(repeats))
        ratio, target = drawing / taken, SPEED.get(name, 0.0)
        met = met and ratio >= target
        verdict = f">= {target:g} | {'yes' if ratio >= target else 'NO'}" if target else " | "
        print(f"| {name}, with drawing | {1e6 * taken / horizon:.2f} | {ratio:.2f} | {verdict} |", flush=True)
    return met


def main() -> int:
    """Print the tables; exit 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--horizon", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--only", choices=("regret", "revenues", "speed"))
    arguments = parser.parse_args()
    global JOBS
    JOBS = arguments.jobs
    tables = {
        "regret": lambda: main_table(arguments.seeds, arguments.horizon),
        "revenues": lambda: general_table(min(arguments.seeds, 10), arguments.horizon),
        "speed": lambda: speed_table(arguments.horizon, 5),
    }
    chosen = [arguments.only] if arguments.only else list(tables)
    return 0 if all([tables[name]() for name in chosen]) else 1


JOBS = -1
"""Processes of a table."""

if __name__ == "__main__":
    sys.exit(main())
