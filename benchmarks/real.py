"""Regret of agents in worlds of real data, as shares of uniform play's, beside a synthetic world of each family.

    python benchmarks/real.py > docs/measured/real.csv       # downloads what is not there, and plays for some minutes
    python benchmarks/real.py --users 2000 --seeds 1         # a quick look
    python benchmarks/real.py --alike docs/measured/real.csv > docs/measured/real-and-synthetic.csv
    python benchmarks/real.py --bts > docs/measured/open-bandit.csv

Private agents have epsilon = 1 (delta = 1e-5 unless local) for a visit.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from harness import Line, options, read_csv, regret, results, written
from privbandit_agents import Log, dm, dr, ips, replay, snips
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import can_play, field_names
from scipy.stats import spearmanr

from privbandit_envs.datasets import choosers, packaged

NOTIONS = ("joint", "shuffle", "local")
SHARE = "regret over uniform play's"

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
LABELS += ("jdp-smooth", "jdp-kernel", "ldp-clicks", "lpct", "kernel-ldp", "warm-ldp-sgd", "psgd-linear")
SETS: tuple[str, ...] = ("greedy-mnl", "ucb-mnl", "ts-mnl", "newton-mnl", "dpmnl", "dpmnl-approx", "ldp-mnl")
CLICKS: tuple[str, ...] = ("linucb", "regcb", "greedy", "reward-dp-linucb", "jdp-linucb", "jdp-glm", "shuffle-linucb")
CLICKS += ("shuffle-glm", "ldp-clicks", "ldp-greedy")


class Board(NamedTuple):
    """Agents, a synthetic world, and how the real ones are made, by name of a source."""

    agents: tuple[str, ...]
    synthetic: str
    settings: dict[str, Any]
    real: str
    sources: tuple[str, ...]
    given: dict[str, Any]


def of_kind(kind: str) -> tuple[str, ...]:
    return tuple(name for name, sheet in packaged.SHEETS.items() if sheet.kind == kind)


BOARDS = {
    "choices": Board(
        REGRESSIONS,
        "privbandit/Linear-v0",
        {"n_arms": 4, "dim": 6},
        "privbandit/Table-v0",
        of_kind("choices"),
        {"n_public": 50},
    ),
    "labels": Board(
        LABELS,
        "privbandit/Classification-v0",
        {"n_public": 50},
        "privbandit/Classification-v0",
        of_kind("labels"),
        {"n_public": 50},
    ),
    "assortments": Board(
        SETS,
        "privbandit/Assortment-v0",
        {"n_items": 30, "capacity": 5, "revenues": "random"},
        "privbandit/Assortment-v0",
        choosers.NAMES,
        {"capacity": 5, "revenues": "prices"},
    ),
    "clicks": Board(
        CLICKS,
        "privbandit/Clicks-v0",
        {},
        "privbandit/Clicks-v0",
        ("open-bandit",),
        {"rate": 0.05, "lift": 4.0},
    ),
}


def lines(kind: str, world: str, users: int, seeds: int) -> list[Line]:
    """Return the regret of each agent of a board in a world, over uniform play's."""
    board = BOARDS[kind]
    where, settings = board.real, {"source": world, "download": True, **board.given}
    if world == "synthetic":
        where, settings = board.synthetic, board.settings
    env = gym.make(where, horizon=users, **settings)
    runs = {
        name: np.array([regret(name, env, seed, epsilon=1.0) for seed in range(seeds)])
        for name in ("uniform", *board.agents)
        if can_play(name, env)
    }
    found = list[Line]()
    for name in list(runs)[1:]:
        share = runs[name] / runs["uniform"]
        error = share.std(ddof=1) / len(share) ** 0.5 if len(share) > 1 else float("nan")
        numbers = {SHARE: f"{share.mean():.3f}", "standard error": f"{error:.3f}", "users": users, "seeds": seeds}
        found.append({"family": kind, "world": world, "agent": name, **numbers})
    return found


def alike(path: Path) -> Iterator[Line]:
    """Yield the rank correlation of each real world's agents with the synthetic one's of its family.

    Over all agents, over private ones, and over those of one promise, if they are three or more.
    """
    shares: dict[str, dict[str, dict[str, float]]] = {}
    for row in read_csv(path):
        shares.setdefault(row["family"], {}).setdefault(row["world"], {})[row["agent"]] = float(row[SHARE])
    title = "rank correlation with the synthetic world"
    for family, worlds in shares.items():
        for world in list(worlds)[1:]:
            one, other = worlds[world], worlds["synthetic"]
            both = [name for name in one if name in other]
            groups = {"all": both, "private": [name for name in both if is_private(name)]}
            groups |= {notion: [name for name in both if AGENTS[name].notion == notion] for notion in NOTIONS}
            for group, names in groups.items():
                if len(names) > 2:
                    found = spearmanr([one[name] for name in names], [other[name] for name in names])[0]
                    played = {"family": family, "world": world, "agents": group}
                    yield {**played, title: f"{found:.2f}", "number": len(names)}


def is_private(name: str) -> bool:
    return "epsilon" in field_names(AGENTS[name].load().Config)


def bts() -> Iterator[Line]:
    """Judge Thompson sampling by the uniform log of each campaign, and yield its own log's mean beside it.

    The policy is the shares in which it showed items at each position of the page, so that it is fixed.
    """
    packaged.get("open-bandit")
    for campaign in ("men", "women", "all"):
        visitors, items, _ = packaged.visitors(campaign)
        shown = packaged.there("open-bandit", file=f"bts-{campaign}")
        place = shown["position"].to_numpy() - 1
        law = np.zeros((3, items))
        np.add.at(law, (place, shown["item_id"].to_numpy()), 1)
        law /= law.sum(axis=1, keepdims=True)
        raw = packaged.there("open-bandit", file=f"random-{campaign}")
        where, clicks = raw["position"].to_numpy() - 1, raw["click"].to_numpy().astype(float)
        about = {"uniform": 1 / items, "reward_range": [0.0, 1.0]}
        contexts, shares = np.column_stack([np.eye(3)[where], visitors]), raw["propensity_score"].to_numpy()
        log = Log(contexts, raw["item_id"].to_numpy(), clicks, shares, clicks, np.zeros(len(clicks)), about)
        own = shown["click"].to_numpy().astype(float)
        mean, kept = replay(log, law[where])
        for name, value, rows in (("its own log", own.mean(), len(own)), ("replay", mean, kept)):
            error = (value * (1 - value) / rows) ** 0.5
            yield judged(campaign, name, value, error, max(value - 1.96 * error, 0), value + 1.96 * error, rows)
        for name, found in {
            "ips": ips(log, law[where]),
            "snips": snips(log, law[where]),
            "dm": dm(log, law[where]),
            "dr": dr(log, law[where]),
            "dr, switch": dr(log, law[where], limit="switch"),
            "dr, shrink": dr(log, law[where], limit="shrink"),
        }.items():
            yield judged(campaign, name, found.value, found.error, found.low, found.high, round(found.effective))


def judged(campaign: str, name: str, *numbers: float) -> Line:
    titles = "clicks in 1000", "standard error", "low", "high"
    shares = {title: f"{1000 * share:.2f}" for title, share in zip(titles, numbers, strict=False)}
    return {"campaign": campaign, "estimator": name, **shares, "rows that count": int(numbers[-1])}


if __name__ == "__main__":
    parser = options(__doc__, seeds=5)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--only", action="append", help="a data set; may be repeated")
    parser.add_argument("--kind", action="append", choices=BOARDS, help="of boards; may be repeated")
    parser.add_argument("--alike", type=Path, help="a table from here: print rank correlations with synthetic worlds")
    parser.add_argument("--bts", action="store_true", help="Thompson sampling of Open Bandit, by every estimator")
    given = parser.parse_args()
    if given.bts or given.alike:
        written(given, bts() if given.bts else alike(given.alike))
    else:
        cases = [
            (kind, world, given.users, given.seeds)
            for kind in given.kind or BOARDS
            for world in ("synthetic", *BOARDS[kind].sources)
            if world == "synthetic" or not given.only or world in given.only
        ]
        written(given, chain.from_iterable(results(given, lines, cases)))
