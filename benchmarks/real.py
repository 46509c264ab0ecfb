"""Regret of agents in worlds of real data, as shares of uniform play's, beside a synthetic world of each family.

    python benchmarks/real.py > docs/measured/real.csv       # downloads what is not there, and plays for some minutes
    python benchmarks/real.py --users 2000 --seeds 1         # a quick look

Private agents have epsilon = 1 (delta = 1e-5 unless local) for a visit. Behind the table stand, on stderr, the rank
correlations of each real world's agents with the synthetic one's, over all agents of its family and over private ones.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import csv
import sys
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import make, play
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import can_play, field_names
from scipy.stats import spearmanr

from privbandit_envs.datasets import packaged

REGRESSIONS: tuple[str, ...] = (
    "linucb",
    "lints",
    "squarecb",
    "reward-dp-linucb",
    "jdp-linucb",
    "jdp-glm",
    "shuffle-linucb",
)
REGRESSIONS += ("ldp-greedy", "ldp-linucb", "ldp-sgd", "ldp-glm", "prec-ts")
LABELS: tuple[str, ...] = ("logistic-public", "kernel-public", "tree-public", "linucb", "jdp-linucb", "shuffle-linucb")
LABELS += ("jdp-smooth", "ldp-clicks", "lpct", "kernel-ldp", "warm-ldp-sgd", "psgd-linear")
BOARDS: dict[str, tuple[tuple[str, ...], str, dict[str, Any]]] = {
    "choices": (REGRESSIONS, "privbandit/Linear-v0", {"n_arms": 4, "dim": 6}),
    "labels": (LABELS, "privbandit/Classification-v0", {"n_public": 50}),
}
"""Of each kind of data: the agents, and the synthetic world."""


def regret(name: str, env_id: str, settings: dict[str, Any], users: int, seed: int) -> float:
    """Return the regret of one run."""
    env = gym.make(env_id, horizon=users, **settings)
    chosen = {"epsilon": 1.0} if "epsilon" in field_names(AGENTS[name].load().Config) else {}
    agent = make(name, env, seed=seed, **chosen)
    return float(play(env, agent, users, seed=seed, checkpoints=[users]).regret[-1])


def alike(one: dict[str, float], other: dict[str, float]) -> str:
    """Return the rank correlation over all agents of both worlds, and over the private ones."""
    both = [name for name in one if name in other]
    private = [name for name in both if "epsilon" in field_names(AGENTS[name].load().Config)]
    found = [spearmanr([one[name] for name in group], [other[name] for name in group])[0] for group in (both, private)]
    return f"{found[0]:.2f} of {len(both)} agents, {found[1]:.2f} of {len(private)} private ones"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", action="append", help="a data set; may be repeated")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["world", "agent", "regret over uniform play's", "standard error", "users", "seeds"])
    for kind, (names, made, synthetic) in BOARDS.items():
        own = [name for name, sheet in packaged.SHEETS.items() if sheet.kind == kind]
        shares: dict[str, dict[str, float]] = {}
        for world in ("synthetic", *(name for name in own if not chosen.only or name in chosen.only)):
            where, settings = packaged.KINDS[kind], dict[str, Any]({"source": world, "download": True, "n_public": 50})
            if world == "synthetic":
                where, settings = made, synthetic
            env = gym.make(where, horizon=chosen.users, **settings)
            runs = {
                name: np.array([regret(name, where, settings, chosen.users, seed) for seed in range(chosen.seeds)])
                for name in ("uniform", *names)
                if can_play(name, env)
            }
            shares[world] = {}
            for name in list(runs)[1:]:
                found = runs[name] / runs["uniform"]
                shares[world][name] = float(found.mean())
                error = found.std(ddof=1) / len(found) ** 0.5 if len(found) > 1 else float("nan")
                table.writerow([world, name, f"{found.mean():.3f}", f"{error:.3f}", chosen.users, chosen.seeds])
                sys.stdout.flush()
        for world, found in shares.items():
            if world != "synthetic":
                print(f"{world}: rank correlation {alike(found, shares['synthetic'])}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
