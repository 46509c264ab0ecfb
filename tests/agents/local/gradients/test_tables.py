"""Linear classification of tables: what warm-ldp-sgd predicts for rows that no user had."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray
from privbandit_agents import make, play
from sklearn.datasets import load_breast_cancer, load_digits, make_classification

import privbandit_envs  # noqa: F401
from privbandit_envs.families.classification import min_max

N_PUBLIC, USERS, SEEDS = 100, 50_000, range(12)
Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


@lru_cache
def rows(name: str) -> Rows:
    if name == "breast_cancer":
        x, y = load_breast_cancer(return_X_y=True)
    elif name == "digits, 5 or more":
        x, y = load_digits(return_X_y=True)
        y = (y >= 5).astype(int)
    else:
        shape = {"n_samples": 20_000, "n_features": 20, "n_informative": 10, "n_redundant": 2}
        x, y = make_classification(class_sep=1.1, random_state=1, **shape)
    return np.asarray(x, np.float64), np.asarray(y, np.int64)


def accuracy(name: str, epsilon: float, seed: int, folder: Path) -> float:
    """On the half of the rows that is no part of the world, after 50 000 users of the other half."""
    x, y = rows(name)
    order = np.random.default_rng([seed, 41]).permutation(len(y))
    world, test = order[: len(y) // 2], order[len(y) // 2 :]
    path = folder / f"{seed}.csv"
    header = ",".join([*(f"x{j}" for j in range(x.shape[1])), "label"])
    np.savetxt(path, np.column_stack([x[world], y[world]]), delimiter=",", header=header, comments="", fmt="%.9g")
    chosen: dict[str, Any] = {"source": str(path), "n_public": N_PUBLIC, "public_seed": seed, "horizon": USERS}
    env: Any = gym.make("privbandit/Classification-v0", **chosen)
    agent = make("warm-ldp-sgd", env, seed=seed, epsilon=epsilon)
    play(env, agent, seed=seed, checkpoints=[USERS])
    public = x[world][env.unwrapped.problem.data.public_rows]
    predicted = agent.select_action(min_max(x[test], public).astype(np.float32))
    return float(np.mean(predicted == y[test]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "epsilon", "target"),
    [
        ("breast_cancer", 1, 0.97),
        ("breast_cancer", 2, 0.97),
        ("breast_cancer", 4, 0.97),
        ("breast_cancer", 8, 0.97),
        ("digits, 5 or more", 2, 0.85),
        ("make_classification", 2, 0.825),
    ],
)
def test_warm_ldp_sgd_reaches_its_targets_on_rows_that_no_user_had(
    name: str, epsilon: float, target: float, tmp_path: Path
) -> None:
    """The targets are the project's; standard errors are 0.001 to 0.003."""
    assert np.mean([accuracy(name, epsilon, seed, tmp_path) for seed in SEEDS]) >= target
