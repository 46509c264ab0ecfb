"""Whether the default agents hold outside the papers' worlds: every target, and what was measured.

    python benchmarks/envelope.py                        # all rows: about an hour of one core
    python benchmarks/envelope.py --only sparse hotels   # parts; --list names them
    python benchmarks/envelope.py --only linear --seeds 4
    python benchmarks/envelope.py --show                 # the rows that were measured

Worlds and agents have the seeds from 990000 on; nothing was chosen on them. Runs are kept in a file as they are
measured, and a second call of the same version goes on from there. Rows say what is measured:

- *share*: regret as a share of uniform play's, both means over the seeds, with the standard error of the share;
- *regret*: mean and standard error;
- *times*: median regret over that of the best rival in this world (the one with the least median), and beside it the
  mean over that median; or mean regret over that of the best rival, where both are means;
- *worst*: the largest share of a seed over the mean of all, and regret at epsilon = 5 over that at 1.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import make, play
from rich.console import Console
from rich.progress import track

from privbandit_envs.datasets import Dataset

VERSION = version("privbandit")
FIRST_SEED = 990_000
Settings = dict[str, Any]
Case = tuple[str, str, int]
"""World and agent as JSON, and a seed."""
UNIFORM: Settings = {"name": "uniform"}


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        part: of the table, for ``--only``.
        name: of the row.
        world: keyword arguments of the environment; ``scale`` and ``public_seed: "own"`` are read by ``opened``.
        agent: whose regret it is.
        must: the most that is accepted.
        goal: the most that is hoped for; None: no such goal.
        kind: what is measured: share, regret, medians, means, worst or fall.
        rivals: agents that play the same seeds.
        seeds: how many.
    """

    part: str
    name: str
    world: Settings
    agent: Settings
    must: float
    goal: float | None
    kind: str = "share"
    rivals: list[Settings] = field(default_factory=list)
    seeds: int = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="parts of the table, or words that names of rows contain")
    parser.add_argument("--seeds", type=int, help="of every row, in place of its own number")
    parser.add_argument("--out", type=Path, default=Path("runs/envelope.jsonl"), help="file of the runs")
    parser.add_argument("--show", action="store_true", help="play nothing: the rows all of whose runs are there")
    parser.add_argument("--list", action="store_true", help="name the rows, and play nothing")
    given = parser.parse_args()
    rows = [row for row in table() if wanted(row, given.only)]
    if given.list:
        print("\n".join(f"{row.part}: {row.name}" for row in rows))
        return
    # play what is not in the file yet
    done = kept(given.out)
    cases = list(dict.fromkeys(case for row in rows for case in needed(row, given.seeds)))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    missing = [case for case in cases if case not in done and not given.show]
    for case in track(missing, console=Console(stderr=True), transient=True):
        if case in done:  # an agent has the runs of the names that stand for it
            continue
        found, played = measured(*case)
        with given.out.open("a", encoding="utf-8") as file:
            for same in dict.fromkeys((case, (case[0], played, case[2]))):
                done[same] = found
                line = dict(zip(("world", "agent", "seed"), same, strict=True), version=VERSION, regret=found)
                file.write(json.dumps(line) + "\n")
    # the table
    print("| row | seeds | measured | must | goal |\n|---|---|---|---|---|")
    ratios = []
    for row in rows:
        if not done.keys() >= set(needed(row, given.seeds)):
            continue
        value, told = MEASURES[row.kind](row, done, given.seeds)
        ratios += [value] * (row.kind == "medians")
        met = "" if value <= row.must else " **missed**"
        goal = "" if row.goal is None else f"{row.goal:g}" + " (met)" * bool(value <= row.goal)
        print(f"| {row.part}: {row.name} | {given.seeds or row.seeds} | {told}{met} | {row.must:g} | {goal} |")
    if ratios:
        print(f"\nGeometric mean of {len(ratios)} medians over the best rival's: {np.exp(np.mean(np.log(ratios))):.2f}")


def table() -> Iterator[Row]:
    """Yield all rows."""
    yield from sparse_rows()
    yield from linear_rows()
    yield from hotel_rows()
    yield from label_rows()
    yield from auto_rows()
    yield from kind_rows()


def sparse_rows() -> Iterator[Row]:
    """Yield those of ``auto-joint`` where few features count."""
    plain: Settings = {"id": "privbandit/SparseLinear-v0", "dim": 400, "sparsity": 5, "correlation": 0.0}
    plain["horizon"] = 20_000
    cases: list[tuple[str, Settings, tuple[float, float], tuple[float | None, float | None]]] = [
        ("correlation 0", {}, (0.045, 0.014), (0.028, 0.009)),
        ("correlation .5", {"correlation": 0.5}, (0.07, 0.016), (0.035, 0.010)),
        ("correlation .7", {"correlation": 0.7}, (0.08, 0.018), (0.04, 0.011)),
        ("correlation .9", {"correlation": 0.9}, (0.10, 0.03), (0.055, 0.014)),
        ("correlation -.8", {"correlation": -0.8}, (0.09, 0.024), (0.045, 0.012)),
        ("10 features count", {"sparsity": 10}, (0.10, 0.028), (0.065, 0.016)),
        ("20 features count", {"sparsity": 20}, (0.20, 0.065), (0.12, 0.035)),
        ("40 features count", {"sparsity": 40}, (0.40, 0.11), (0.25, 0.06)),
        ("rewards x 10", {"scale": 10.0}, (0.06, 0.06), (0.03, None)),
        ("rewards x .1", {"scale": 0.1}, (0.06, 0.06), (0.03, None)),
        ("2000 users", {"horizon": 2000}, (0.32, 0.32), (0.20, None)),
        ("1000 features", {"dim": 1000}, (0.055, 0.055), (0.034, None)),
    ]
    agents = [{"name": "auto-joint", "epsilon": epsilon} for epsilon in (1.0, 5.0)]
    for name, world, musts, goals in cases:
        for agent, must, goal in zip(agents, musts, goals, strict=True):
            yield Row("sparse", f"{name}, epsilon = {agent['epsilon']:g}", {**plain, **world}, agent, must, goal)
    for name, world, *_ in cases:
        yield Row("fall", f"{name}, 5 over 1", {**plain, **world}, agents[1], 1.0, None, "fall", [agents[0]])
        for agent in agents:
            told = f"{name}, epsilon = {agent['epsilon']:g}, worst of thirty over mean"
            yield Row("worst", told, {**plain, **world}, agent, 3.0, None, "worst", seeds=30)


def linear_rows() -> Iterator[Row]:
    """Yield those of ``auto-local`` with linear rewards."""
    plain: Settings = {"id": "privbandit/Linear-v0", "design": "ill", "delta": 0.00031623, "n_arms": 4}
    plain.update(theta_norm=0.8, support=200, horizon=10**7)
    cases: dict[str, Settings] = {
        "3 features, weak to .1": {"dim": 3, "delta": 0.01, "theta_norm": 0.3},
        "3 features, weak to .02": {"dim": 3},
        "3 features, weak to .3, 10^6 users": {"dim": 3, "delta": 0.1, "horizon": 10**6},
        "3 features, weak to .001": {"dim": 3, "delta": 0.000001},
        "3 features, large ones are rare": {"dim": 3, "design": "mixed"},
        "3 features, isotropic, 10^6 users": {"dim": 3, "design": "sphere", "delta": 1, "horizon": 10**6},
        "10 features, isotropic, 10^6 users": {"dim": 10, "design": "sphere", "delta": 1, "horizon": 10**6},
        "5 features, weak to .02": {"dim": 5},
        "8 features, weak to .02": {"dim": 8},
        "2 features, 10^4 users": {"dim": 2, "delta": 0.01, "horizon": 10**4},
        "2 features, 10^5 users": {"dim": 2, "delta": 0.0031623, "horizon": 10**5},
        "2 features, small rewards": {"dim": 2, "theta_norm": 0.05},
        "2 features, 50 arms": {"dim": 2, "n_arms": 50},
        "2 features, weak to .1, 10^9 users": {"dim": 2, "delta": 0.01, "horizon": 10**9},
        "2 features, weak to .006, 10^9 users": {"dim": 2, "delta": 0.00003162, "horizon": 10**9},
    }
    budgets = [(name, 1.0) for name in cases] + [(name, e) for name in list(cases)[:2] for e in (0.25, 4.0)]
    for name, epsilon in budgets:
        agent, *rivals = ({"name": n, "epsilon": epsilon} for n in ("auto-local", "ldp-greedy", "prec", "lplr"))
        told, world = f"{name}, epsilon = {epsilon:g}", {**plain, **cases[name]}
        yield Row("linear", told, world, agent, 2.0, 1.4, "medians", rivals)
        yield Row("linear", f"{told}, share of uniform's", world, agent, 1.0, None)


def hotel_rows() -> Iterator[Row]:
    """Yield those of ``auto-joint`` on the generated hotels."""
    world: Settings = {"id": "privbandit/Assortment-v0", "source": "expedia-sample", "join": "concatenated"}
    world.update(capacity=4, horizon=100_000)
    for rho, must, goal in ((0.5, 450, 300), (1.0, 350, 200), (5.0, 150, 100)):
        yield Row("hotels", f"rho = {rho:g}", world, {"name": "auto-joint", "rho": rho}, must, goal, "regret", seeds=10)


def label_worlds() -> dict[str, Settings]:
    """Return worlds of classification by name."""
    plain = {"id": "privbandit/Classification-v0", "horizon": 20_000}
    tables = {"digits": 100, "digits-binary": 100, "wine": 44, "breast_cancer": 100}
    synthetic = {0.5: 50, 2.0: 200, 5.0: 1000}
    return {
        **{name: {**plain, "source": name, "n_public": n} for name, n in tables.items()},
        **{
            f"synthetic, gamma {gamma:g}, {n} public rows": {
                **plain,
                "source": "lpct-synthetic",
                "gamma": gamma,
                "n_public": n,
            }
            for gamma, n in synthetic.items()
        },
        "make_classification": {**plain, "source": "make_classification", "n_public": 100},
    }


def label_rows() -> Iterator[Row]:
    """Yield those of ``auto-local`` on tables: with the same public rows for all seeds, and with their own for each."""
    worlds = label_worlds()
    targets = {
        "digits": ((0.105, 0.085), (0.098, 0.07)),
        "digits-binary": ((0.165, 0.13), (0.12, 0.10)),
        "wine": ((0.058, 0.030), (0.05, 0.020)),
        "breast_cancer": ((0.036, 0.034), (0.03, 0.03)),
    }
    for own in (False, True):
        for name, (musts, goals) in targets.items():
            world = {**worlds[name], "public_seed": "own"} if own else worlds[name]
            for epsilon, must, goal in zip((1.0, 8.0), musts, goals, strict=True):
                told = f"{name}, epsilon = {epsilon:g}" + ", other public rows for each seed" * own
                yield Row(
                    "splits" if own else "labels", told, world, {"name": "auto-local", "epsilon": epsilon}, must, goal
                )


def auto_rows() -> Iterator[Row]:
    """Yield ``auto-local`` over the best private agent in every world of classification."""
    for name, world in label_worlds().items():
        for epsilon in (1.0, 2.0):
            rivals = ["kernel-ldp", "lpct", *["lpct-prune", "warm-ldp-sgd"] * (name not in ("digits", "wine"))]
            others: list[Settings] = [{"name": rival, "epsilon": epsilon} for rival in rivals]
            agent: Settings = {"name": "auto-local", "epsilon": epsilon}
            yield Row("auto", f"{name}, epsilon = {epsilon:g}", world, agent, 1.1, 1.02, "means", others)


def kind_rows() -> Iterator[Row]:
    """Yield that of few kinds of items, which are learned of only if they are offered."""
    world: Settings = {"id": "privbandit/Assortment-v0", "n_items": 20, "capacity": 1, "features": "one-hot"}
    world.update(dim=20, horizon=10_000)
    yield Row("kinds", "20 kinds of items, 1 on offer, rho = 1", world, {"name": "auto-joint", "rho": 1.0}, 0.1, None)


def wanted(row: Row, words: list[str] | None) -> bool:
    return not words or any(word == row.part or word in row.name for word in words)


def needed(row: Row, seeds: int | None) -> list[Case]:
    """Return the runs that a row is made of."""
    uniform = [UNIFORM] * (row.kind in ("share", "worst"))
    agents = [row.agent, *row.rivals, *uniform]
    return [case for agent in agents for case in cases_of(row, agent, seeds)]


def cases_of(row: Row, agent: Settings, seeds: int | None) -> list[Case]:
    world, named = (json.dumps(given, sort_keys=True) for given in (row.world, agent))
    return [(world, named, FIRST_SEED + k) for k in range(seeds or row.seeds)]


def measured(world: str, agent: str, seed: int) -> tuple[float, str]:
    """Return the regret of one run, and the agent that played it, as JSON."""
    env, settings, users = opened(json.loads(world), seed), json.loads(agent), [json.loads(world)["horizon"]]
    player = make(env=env, seed=seed, **settings)
    found = float(play(env, player, seed=seed, checkpoints=users).regret[-1])
    return found, json.dumps({**settings, "name": player.name}, sort_keys=True)


def opened(world: Settings, seed: int) -> gym.Env[Any, Any]:
    """Return the environment: parameters and noise times ``scale``; ``"own"`` public rows are those of the seed."""
    if "scale" in world:
        scale, where = world.pop("scale"), np.random.default_rng(seed).permutation(world["dim"])[: world["sparsity"]]
        beta = np.zeros(world["dim"])
        beta[where] = scale / world["sparsity"] ** 0.5
        world.update(beta=beta, noise_scale=0.1 * scale)
    if world.get("public_seed") == "own":
        world["public_seed"] = seed
    if world.get("source") == "make_classification":
        world["source"] = made()
    return gym.make(**world)


@lru_cache(maxsize=1)
def made() -> Dataset:
    """Return scikit-learn's problem of two labels, ten of whose twenty features tell something."""
    from sklearn.datasets import make_classification

    x, y = make_classification(n_samples=2000, n_features=20, n_informative=10, random_state=FIRST_SEED)
    return Dataset(x, y, ("0", "1"), tuple(f"x{k}" for k in range(x.shape[1])))


def kept(path: Path) -> dict[Case, float]:
    """Return the runs that this version measured; a last line that was cut off counts as none."""
    runs = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with suppress(ValueError):
            run = json.loads(line)
            if run["version"] == VERSION:
                runs[run["world"], run["agent"], run["seed"]] = run["regret"]
    return runs


def regrets(row: Row, agent: Settings, done: dict[Case, float], seeds: int | None) -> np.ndarray[Any, Any]:
    return np.array([done[case] for case in cases_of(row, agent, seeds)])


def share(row: Row, done: dict[Case, float], seeds: int | None) -> tuple[float, str]:
    own, uniform = (regrets(row, agent, done, seeds) for agent in (row.agent, UNIFORM))
    value = own.mean() / uniform.mean()
    return value, f"{value:.4f} +- {error(own - value * uniform) / uniform.mean():.4f}"


def regret(row: Row, done: dict[Case, float], seeds: int | None) -> tuple[float, str]:
    own = regrets(row, row.agent, done, seeds)
    return own.mean(), f"{own.mean():.0f} +- {error(own):.0f} (worst {own.max():.0f})"


def medians(row: Row, done: dict[Case, float], seeds: int | None) -> tuple[float, str]:
    own = regrets(row, row.agent, done, seeds)
    best = min((float(np.median(regrets(row, rival, done, seeds))), rival["name"]) for rival in row.rivals)
    value = float(np.median(own)) / best[0]
    return value, f"{value:.2f} of `{best[1]}` (mean {own.mean() / best[0]:.2f})"


def means(row: Row, done: dict[Case, float], seeds: int | None) -> tuple[float, str]:
    own = regrets(row, row.agent, done, seeds)
    losses = {rival["name"]: regrets(row, rival, done, seeds) for rival in row.rivals}
    best = min(losses, key=lambda name: float(losses[name].mean()))
    value = own.mean() / losses[best].mean()
    return value, f"{value:.2f} +- {error(own - value * losses[best]) / losses[best].mean():.2f} of `{best}`"


def worst(row: Row, done: dict[Case, float], seeds: int | None) -> tuple[float, str]:
    own, uniform = (regrets(row, agent, done, seeds) for agent in (row.agent, UNIFORM))
    value = (own / uniform).max() / (own / uniform).mean()
    return value, f"{value:.2f}"


def fall(row: Row, done: dict[Case, float], seeds: int | None) -> tuple[float, str]:
    more, less = (regrets(row, agent, done, seeds) for agent in (row.agent, row.rivals[0]))
    value = more.mean() / less.mean()
    return value, f"{value:.2f}"


def error(values: np.ndarray[Any, Any]) -> float:
    """Return the standard error of the mean."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


MEASURES: dict[str, Callable[[Row, dict[Case, float], int | None], tuple[float, str]]] = {
    "share": share,
    "regret": regret,
    "medians": medians,
    "means": means,
    "worst": worst,
    "fall": fall,
}

if __name__ == "__main__":
    main()
