"""Locally private classification beside its targets: accuracy at the end of a bandit, on rows no user has.

Means over seeds. Half of a data set's rows make the world: 100 public ones and the users; the other half are the test
set. A world is the same for all agents of a seed.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import math
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from privbandit_agents import make, play
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.linear_model import LogisticRegression

import privbandit_envs  # noqa: F401
from privbandit_envs.families.classification import min_max

Settings = dict[str, Any]
Rows = tuple[NDArray[np.float64], NDArray[np.int64]]
N_PUBLIC, USERS, SLOW_SEEDS = 100, 50_000, 4
SETS = ("breast_cancer", "digits >= 5", "make_classification")
AGENTS: list[tuple[str, Settings, tuple[float, ...]]] = [
    ("tree-public", {}, ()),
    ("logistic-public", {}, ()),
    ("logistic-all", {}, ()),
    ("warm-ldp-sgd", {}, (1.0, 2.0, 4.0, 8.0)),
    ("lpct", {"partition": "cart"}, (1.0, 2.0, 4.0, 8.0)),
    ("pglm", {}, (2.0,)),
    ("psgd-linear", {}, (2.0,)),
    ("psgd-network", {}, (2.0,)),
]
SLOW = ("pglm", "psgd-linear", "psgd-network")
PUBLIC = ("tree-public", "logistic-public")
TARGETS = {
    "breast_cancer": {1.0: 0.97, 2.0: 0.97, 4.0: 0.97, 8.0: 0.97},
    "digits >= 5": {2.0: 0.85},
    "make_classification": {2.0: 0.825},
}


@lru_cache(maxsize=len(SETS))
def rows(name: str) -> Rows:
    """Return the features and labels of a data set; those that are made were chosen for what public rows alone give."""
    if name == "breast_cancer":
        x, y = load_breast_cancer(return_X_y=True)
    elif name == "digits >= 5":
        x, y = load_digits(return_X_y=True)
        y = (y >= 5).astype(int)
    else:
        shape = {"n_samples": 20_000, "n_features": 20, "n_informative": 10, "n_redundant": 2}
        x, y = make_classification(class_sep=1.1, random_state=1, **shape)
    return np.asarray(x, np.float64), np.asarray(y, np.int64)


def halves(name: str, seed: int) -> tuple[Rows, Rows]:
    """Return the rows of the world and those of the test."""
    x, y = rows(name)
    order = np.random.default_rng([seed, 41]).permutation(len(y))
    world, test = order[: len(y) // 2], order[len(y) // 2 :]
    return (x[world], y[world]), (x[test], y[test])


def run(name: str, agent: str, config: Settings, seed: int) -> float:
    """Return the accuracy on the test rows after one run."""
    (x, y), test = halves(name, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        header = ",".join([*(f"x{j}" for j in range(x.shape[1])), "label"])
        np.savetxt(path, np.column_stack([x, y]), delimiter=",", header=header, comments="", fmt="%.9g")
        world: Settings = {"source": str(path), "n_public": N_PUBLIC, "public_seed": seed, "horizon": USERS}
        env = gym.make("privbandit/Classification-v0", **world)
        env.reset(seed=seed)
        public = x[env.unwrapped.problem.data.public_rows]  # type: ignore[attr-defined]
        if agent == "logistic-all":
            return without_privacy((min_max(x, public), y), (min_max(test[0], public), test[1]))
        learner = make(agent, env, seed=seed, **config)
        if agent not in PUBLIC:
            play(env, learner, seed=seed, checkpoints=[USERS])
    scaled = min_max(test[0], public).astype(np.float32)
    return float((np.asarray(learner.select_action(scaled)) == test[1]).mean())


def without_privacy(every: Rows, test: Rows) -> float:
    """Return the accuracy of logistic regression on the world's rows, each once."""
    mean, deviation = every[0].mean(axis=0), spread(every[0])
    model = LogisticRegression(max_iter=2000).fit((every[0] - mean) / deviation, every[1])
    return float(model.score((test[0] - mean) / deviation, test[1]))


def spread(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return standard deviations, 1 for constant columns."""
    return np.where(x.std(0) > 0, x.std(0), 1.0)


def tabular_table(seeds: int, first: int) -> bool:
    """Print accuracies on tabular data; return whether warm-ldp-sgd meets its targets."""
    print(f"| accuracy at T = {USERS}, {N_PUBLIC} public rows | epsilon | seeds | {' | '.join(SETS)} | met |")
    print("|---" * (len(SETS) + 4) + "|")
    met = True
    for agent, config, epsilon in [(*entry[:2], epsilon) for entry in AGENTS for epsilon in entry[2] or (math.inf,)]:
        private = math.isfinite(epsilon)
        chosen = {**config, "epsilon": epsilon} if private else config
        runs = range(first, first + (min(seeds, SLOW_SEEDS) if agent in SLOW else seeds))
        found = [np.array(Parallel(n_jobs=JOBS)(delayed(run)(name, agent, chosen, s) for s in runs)) for name in SETS]
        aims = [TARGETS[name].get(epsilon) if agent == "warm-ldp-sgd" else None for name in SETS]
        fine = all(accuracy.mean() >= (aim or 0) for accuracy, aim in zip(found, aims, strict=True))
        met = met and fine
        cells = [cell(accuracy, aim) for accuracy, aim in zip(found, aims, strict=True)]
        verdict = ("yes" if fine else "NO") if any(aims) else ""
        label = f"{epsilon:g}" if private else "-"
        print(f"| {agent} | {label} | {len(runs)} | {' | '.join(cells)} | {verdict} |", flush=True)
    return met


def cell(accuracy: NDArray[np.float64], aim: float | None) -> str:
    """Return a mean with its standard error and its target."""
    error = accuracy.std(ddof=1) / math.sqrt(len(accuracy)) if len(accuracy) > 1 else math.nan
    return f"{accuracy.mean():.4f} ({error:.4f})" + (f" >= {aim:g}" if aim else "")


SECTIONS = {"tabular": tabular_table}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=tuple(SECTIONS), action="append")
    arguments = parser.parse_args()
    JOBS = arguments.jobs
    results = [SECTIONS[name](arguments.seeds, arguments.first) for name in arguments.only or SECTIONS]
    sys.exit(0 if all(results) else 1)
