"""Regret a user of straight and bent agents in worlds whose rewards bend, and where they do not: a CSV.

python benchmarks/bent.py > docs/measured/bent.csv       # about an hour
python benchmarks/bent.py --users 20000 --worlds Smooth  # one size, and worlds whose names begin so
python benchmarks/bent.py --budgets none                 # agents without privacy alone
python benchmarks/bent.py --notions --users 20000 --budgets 0.5 1 4 > docs/measured/bent-notions.csv
python benchmarks/bent.py --figure docs/bent.png         # draws docs/measured/bent.csv
"""

from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
from harness import Line, options, read_csv, regret, results, written
from privbandit_agents.zoo.registry import can_play

WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Smooth-v0, d = 1": ("privbandit/Smooth-v0", {"dim": 1}),
    "Smooth-v0, d = 2": ("privbandit/Smooth-v0", {}),
    "Smooth-v0, d = 5": ("privbandit/Smooth-v0", {"dim": 5}),
    "Smooth-v0, bumps of all sides": ("privbandit/Smooth-v0", {"rewards": "scales"}),
    "Classification-v0, wine": ("privbandit/Classification-v0", {"source": "wine"}),
    "Classification-v0, breast_cancer": ("privbandit/Classification-v0", {"source": "breast_cancer"}),
    "Classification-v0, digits": ("privbandit/Classification-v0", {"source": "digits"}),
    "Classification-v0, lpct-synthetic": ("privbandit/Classification-v0", {}),
    "Classification-v0, shuttle": ("privbandit/Classification-v0", {"source": "shuttle", "download": True}),
    "Clicks-v0, 5 arms, 3 features": ("privbandit/Clicks-v0", {"n_arms": 5, "dim": 3}),
    "Clicks-v0, products of 2 features": (
        "privbandit/Clicks-v0",
        {"n_arms": 5, "dim": 2, "scale": 0.1, "interactions": 1.0},
    ),
    "Clicks-v0, products of 4 features": (
        "privbandit/Clicks-v0",
        {"n_arms": 5, "dim": 4, "scale": 0.1, "interactions": 1.0},
    ),
    "Linear-v0": ("privbandit/Linear-v0", {}),
}
DRAWN = (
    "Smooth-v0, d = 2",
    "Classification-v0, digits",
    "Clicks-v0, 5 arms, 3 features",
    "Clicks-v0, products of 2 features",
)
PRIVATE = ("jdp-smooth", "jdp-kernel", "jdp-linucb", "jdp-glm", "jdp-linucb with 16 Fourier features")
NOTIONS = (
    *("reward-dp-linucb", "reward-dp-linucb with 16 Fourier features"),
    *("shuffle-linucb", "shuffle-linucb with 16 Fourier features"),
    *("ldp-clicks", "smooth-ldp", "kernel-ldp"),
)
"""Under privacy of rewards, shuffle and local privacy."""
OPEN = ("linucb", "linucb with 16 Fourier features", "kernel-ucb", "neural-linear")


def cell(column: str, world: str, users: int, seeds: int, **settings: Any) -> str:
    """Return the regret a user of an agent, the mean of some runs; "" if it cannot play."""
    (env_id, given), (name, _, fourier) = WORLDS[world], column.partition(" ")
    env = gym.make(env_id, horizon=users, features="fourier" if fourier else None, **given)
    if not can_play(name, env):
        return ""
    return f"{sum(regret(name, env, seed, **settings) for seed in range(seeds)) / users / seeds:.4f}"


def line(world: str, users: int, budget: str, seeds: int, notions: bool) -> Line:
    """Return the regret of jointly private agents at a budget, of other notions, or of agents without privacy."""
    private = NOTIONS if notions else PRIVATE
    played, settings = (OPEN, {}) if budget == "none" else (private, {"epsilon": float(budget)})
    found = {column: cell(column, world, users, seeds, **settings) for column in played}
    rest = () if notions else PRIVATE + OPEN
    return {"world": world, "users": users, "epsilon": budget, **dict.fromkeys(rest, ""), **found}


def figure(path: Path) -> None:
    """Draw regret against the budget in four worlds; agents without privacy are levels."""
    from privbandit_agents.experiments.views.style import PALETTE, empty_picture, save

    rows = [row for row in read_csv(Path("docs/measured/bent.csv")) if row["users"] == "20000"]
    drawn, axes = empty_picture(len(DRAWN))
    for axis, world in zip(axes, DRAWN, strict=True):
        *private, free = [row for row in rows if row["world"] == world]
        budgets = [float(row["epsilon"]) for row in private]
        for color, name in zip(PALETTE, ("jdp-linucb", "jdp-smooth", "jdp-kernel"), strict=False):
            if not private[0][name]:
                continue  # it cannot play
            axis.plot(budgets, [float(row[name]) for row in private], "o-", color=color, label=name)
        for color, name in zip(PALETTE, ("linucb", "kernel-ucb"), strict=False):
            axis.axhline(float(free[name]), color=color, linestyle=":", label=f"{name}, no privacy")
        axis.set(title=world, xlabel="epsilon", ylabel="regret a user", xscale="log", ylim=0)
        axis.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
        axis.minorticks_off()
    drawn.legend(*axes[1].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=5)
    save(drawn, path)


if __name__ == "__main__":
    parser = options(__doc__, seeds=3)
    parser.add_argument("--users", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--worlds", default="", help="beginning of their names")
    parser.add_argument("--budgets", nargs="+", default=["0.5", "1", "4", "none"])
    parser.add_argument("--notions", action="store_true", help="other notions than joint privacy")
    parser.add_argument("--figure", type=Path, metavar="PATH", help="draw docs/measured/bent.csv")
    given = parser.parse_args()
    if given.figure is not None:
        figure(given.figure)
    else:
        worlds = [world for world in WORLDS if world.startswith(given.worlds)]
        cases = [(*case, given.seeds, given.notions) for case in product(worlds, given.users, given.budgets)]
        written(given, results(given, line, cases))
