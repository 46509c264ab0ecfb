"""Results that nobody ran: curves by a formula, under the real settings of real agents."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.store.results import Finished, write_result
from privbandit_agents.zoo.entries import AGENTS

EPSILONS = (0.5, 1, 4)
LOCAL, JOINT = (
    ("ldp-greedy", "ldp-sgd", "prec", "ldp-linucb"),
    ("fliphat", "private-pursuit", "jdp-linucb"),
)
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "privbandit/Linear-v0": ("uniform", "greedy", "linucb", "lints", *LOCAL),
    "privbandit/SparseLinear-v0": ("uniform", "greedy", "linucb", "sa-lasso", *JOINT),
    "privbandit/Assortment-v0": (
        "uniform",
        "ucb-mnl",
        "greedy-mnl",
        "ts-mnl",
        "ppo",
        "dpmnl",
        "newton-mnl",
        "dpmnl-approx",
    ),
    "privbandit/Classification-v0": (
        "uniform",
        "histogram",
        "kernel-public",
        "dqn",
        "lpct",
        "phist",
        "psgd-linear",
        "pglm",
    ),
}
"""Four families with eight agents each."""
BY = {"privbandit": "1", "commit": None}


def finished(trial: Trial, notion: str, epsilon: float | None, checkpoints: int = 20) -> Finished:
    """Return a result whose regret is the square root of the users, times a factor of agent and seed."""
    users = np.linspace(trial.horizon / checkpoints, trial.horizon, checkpoints).round()
    rng = np.random.default_rng([trial.seed, len(trial.agent), int(10 * (epsilon or 0))])
    level = (3.0 + sum(map(ord, trial.agent)) % 7 + (0.0 if epsilon is None else 2 / epsilon)) * np.exp(
        0.2 * rng.standard_normal()
    )
    arrays = {"checkpoints": users, "regret": level * users**0.5, "reward": 0.3 * users, "seconds": np.array([0.5])}
    promise = {"notion": notion, "epsilon": epsilon, "delta": None if epsilon is None else 0.0, "rho": None}
    words = "none" if epsilon is None else f"{notion} {epsilon}, real"
    notes = {"simulation": "users", "guarantee": promise, "privacy": words, "visits": 1}
    return Finished("trial", trial.spec, trial.settings, arrays, notes, BY)


def sweep(seeds: int = 10, horizon: int = 2000, checkpoints: int = 20) -> Iterator[Finished]:
    """Yield the results of 4 families x 8 agents x 3 epsilons, where an agent has one, x seeds."""
    for env, agents in FAMILIES.items():
        for agent in agents:
            notion = AGENTS[agent].notion or "none"
            setting = "rho" if agent in ("dpmnl", "newton-mnl") else "epsilon"
            for epsilon in EPSILONS if notion != "none" else (None,):
                config: dict[str, Any] = {} if epsilon in (None, 1) else {setting: epsilon}
                for seed in range(seeds):
                    yield finished(
                        Trial(env, agent, horizon, seed, {}, config, checkpoints), notion, epsilon, checkpoints
                    )


def written(folder: Path, seeds: int = 3, agents: Collection[str] = ()) -> Path:
    """Write such a sweep to a folder, of some agents or of all."""
    for one in sweep(seeds):
        if not agents or one.job["agent"] in agents:
            write_result(folder, one)
    return folder
