"""``privbandit plan``: the cost of a promise of privacy before there is a log, by worlds of a given size."""

import html
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import scipy
from matplotlib.figure import Figure
from numpy.random import default_rng
from numpy.typing import NDArray
from rich.console import Console

from privbandit_agents.cli.cost import (
    AGENTS,
    Row,
    comes,
    items,
    played,
    players,
    seen,
    shares_by_budget,
    table_of,
    terms_of,
    two,
)
from privbandit_agents.cli.manual import deployment
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.running.attempt import told
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.text import paragraph
from privbandit_agents.experiments.usage import UNFINISHED, unwritten, usage_errors
from privbandit_agents.experiments.views.style import embedded, empty_picture, save
from privbandit_agents.logs.simulator import LOG_ENV, Simulator
from privbandit_agents.logs.telling import designed
from privbandit_envs.files import atomic
from privbandit_envs.validate import count, shown

Floats = NDArray[np.float64]
MOST = 200_000  # users who are played
PARTS = (16, 4, 1)  # of all users, in runs of their own


class Half(NamedTuple):
    """Users who are needed to keep half of the gain, between two ends, of which those played are the farthest."""

    low: float
    high: float
    least: float
    most: float


@dataclass(frozen=True)
class Plan:
    """The price of privacy in worlds of a given size.

    Attributes:
        rows: of the agents of each notion and budget, after all users.
        half: users from which on one deployment keeps half of the gain: the ends of a 95 % interval, by the rows'
            names, and the least and the most users that were played, beyond which nothing is known.
        worlds: their size, in words.
        absent: reasons why a notion has no row.
        code: 0, or 4 if some runs failed.
    """

    rows: list[Row]
    half: dict[str, Half]
    worlds: str
    absent: list[str]
    code: int

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        kept = [
            f"{row.notion} privacy at {row.epsilon:g} keeps {row.kept} and {self.users_for(row)}" for row in self.rows
        ]
        return f"{self.worlds}, one deployment's share of the gain: {'; '.join(kept)}."

    def users_for(self, row: Row) -> str:
        """Return how many users it takes to keep half, in words."""
        half = self.half[row.name]
        if half.low >= half.most:
            return f"needs more than {half.most:,.0f} users for half"
        if half.high <= half.least:
            return f"needs less than {half.least:,.0f} users for half"
        low = two(half.low) if half.low > half.least else f"less than {half.least:,.0f}"
        high = two(half.high) if half.high < half.most else f"more than {half.most:,.0f}"
        return f"needs {low} to {high} users for half"

    def __str__(self) -> str:
        sentences = (line for one in (self.headline, *self.absent) for line in paragraph(one))
        return "\n".join([*table_of(self.rows).lines(), "", *sentences])


def plan(
    arms: int,
    rate: float,
    lift: float,
    users: int,
    epsilons: Sequence[float] = (1.0,),
    notions: Sequence[str] | None = None,
    *,
    features: int = 5,
    visits: int = 1,
    batch: int = 1,
    mapped: str | None = None,
    draws: int = 8,
    seed: int = 0,
    out: Path | str = "runs/plan",
    engine: Engine | None = None,
    err: Console | None = None,
) -> Plan:
    """Play agents of each notion in worlds with a given rate and gain, and write a page into a folder.

    Features are standard normal. Log-odds of a click are linear in them, with coefficients that are drawn for each arm;
    their size and the intercept are such that a click has the rate under uniform play, and the best arm for each user
    the lift. Each world has one run of each agent, at a sixteenth, a fourth and all of the users, at most 200,000.

    Args:
        arms: to choose from, 2 or more.
        rate: of clicks under uniform play, in (0, 1).
        lift: by which the best arm for each user is better, as a share of the rate, > 0.
        users: who come.
        epsilons: the budgets, each of a person.
        notions: of "joint", "shuffle", "local" and "reward"; default: all.
        features: of a user.
        visits: of a person.
        batch: users whose feedback comes together, with the last of them.
        mapped: what agents see in place of features: a kind of ``privbandit_envs.Features``; None: features.
        draws: worlds.
        seed: of the worlds.
        out: a folder for results, ``plan.html``, ``plan.png`` and ``plan.json``.
        engine: where to run.
        err: shows progress.

    Raises:
        UsageError: a number out of range, or a lift that no such world has.
    """
    with usage_errors("plan"):
        count(arms=arms), count(users=users), count(features=features), count(visits=visits), count(draws=draws)
        if arms < 2 or not 0 < rate < 1 or not 0 < lift < 1 / rate - 1 or draws < 2 or users < 160:
            needed = "two arms, a rate in (0, 1), a lift up to 1 / rate - 1, 160 users and two draws"
            raise ValueError(f"a plan needs at least {needed}; got {arms}, {rate:g}, {lift:g}, {users}, {draws}.")
        if strange := [notion for notion in notions or () if notion not in AGENTS]:
            raise ValueError(f"--notions must be of {', '.join(AGENTS)}; got {shown(strange[0])}.")
        terms = terms_of(batch, mapped)
        made = planned_worlds(arms, rate, lift, min(users, MOST), features, visits, draws, seed)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / f"world-{made.digest}.npz").absolute()
    made.write(path)
    absent: list[str] = []
    horizons = [len(made) // part for part in PARTS]
    env = gym.make(LOG_ENV, source=made, draw=0, horizon=len(made), **terms)
    playing = players(made, env, epsilons, notions, len(made), absent)
    del playing["none", None]
    trials = {
        (notion, epsilon, n): [
            Trial(LOG_ENV, agent, n, draw, {"source": str(path), "digest": made.digest, "draw": draw} | terms, given)
            for draw in range(draws)
        ]
        for (notion, epsilon), (agent, given) in playing.items()
        for n in horizons
    }
    results, failures = run_jobs([one for mine in trials.values() for one in mine], folder, engine, err)
    gains = [(float(table.max(axis=1).mean()), float(table.mean())) for table in map(made.drawn, range(draws))]
    rows, half = [], {}
    for (notion, epsilon), (agent, _) in playing.items():
        found = []
        for n in horizons:
            runs = {one.seed: results[one.name] for one in trials[notion, epsilon, n] if one.name in results}
            if len(runs) == draws:
                found.append(played(agent, notion, epsilon, runs, gains, made, n, deployment(agent, env)))
        if len(found) == len(horizons):
            rows.append(found[-1])
            half[found[-1].name] = users_for_half(horizons, np.array([row.shares for row in found]))
    unit = "visit" if visits == 1 else f"person, who comes {visits} times"
    many = f"{users:,} users" if users <= MOST else f"the first {MOST:,} of {users:,} users"
    size = f"{arms} arms, a rate of {rate:.3g} and a gain of {lift:.1%} with the best arm for each user"
    told_when = f", feedback after each {batch:,} users" if batch > 1 else ""
    answer = Plan(rows, half, f"With {size}{told_when}, and epsilon for a {unit}, after {many}", absent, 0)
    lost = unwritten(
        folder,
        {
            "plan.json": lambda: write_json(folder / "plan.json", answer),
            "plan.png": lambda: save(picture(answer), folder / "plan.png"),
            "plan.html": lambda: write_page(folder / "plan.html", answer, batch, mapped),
        },
    )
    for line in (*told(failures), *lost):
        print(line, file=sys.stderr)
    return Plan(rows, half, answer.worlds, absent, UNFINISHED if failures or lost else 0)


def planned_worlds(
    arms: int, rate: float, lift: float, users: int, dim: int, visits: int, draws: int, seed: int = 0
) -> Simulator:
    """Return worlds of clicks with a rate under uniform play, and a lift with the best arm for each user.

    Raises:
        ValueError: no size of the coefficients has this lift.
    """
    rng = default_rng([seed, 46])
    contexts = np.clip(rng.normal(size=(users, dim)), -8, 8)
    some = designed(contexts[:5000], 0)[0]
    lines = np.zeros((draws, arms, 1 + dim))
    made = 0
    for _ in range(50 * draws):  # worlds whose arms are too much alike for the lift are drawn again
        drawn = rng.normal(size=(arms, 1 + dim)) / np.sqrt(1 + dim)
        scores = some @ drawn.T

        def means(size: float, scores: Floats = scores) -> tuple[float, Floats]:
            """Return the intercept that has the rate, and the mean rewards."""
            middle = scipy.optimize.brentq(
                lambda c: scipy.special.expit(c + size * scores).mean() - rate, -60 - 9 * size, 60 + 9 * size
            )
            return float(middle), scipy.special.expit(middle + size * scores)

        def missing(size: float) -> float:
            return float(means(size)[1].max(axis=1).mean() / rate - 1 - lift)

        if missing(20.0) > 0:
            size = scipy.optimize.brentq(missing, 0.0, 20.0, xtol=1e-6)
            lines[made] = size * drawn
            lines[made, :, 0] += means(size)[0]
            made += 1
        if made == draws:
            break
    else:
        raise ValueError(f"no world of this kind with {arms} arms has a gain of {lift:.0%}: take a smaller lift.")
    persons = None if visits == 1 else np.arange(users) % max(1, users // visits)
    none, names = np.zeros((0, arms)), [f"arm {arm}" for arm in range(arms)]
    each = np.zeros(users)
    return Simulator(
        contexts.astype(np.float32), none, none, each.astype(np.int64), each, each, "planned", {}, 0.0, 1.0, 0.0,
        persons, names, lines,
    )  # fmt: skip


def users_for_half(horizons: Sequence[int], shares: Floats) -> Half:
    """Return from how many users on half is kept, between horizons by the logarithm; shares have shape (h, draws)."""
    places = np.log(horizons)
    found = []
    for mine in shares.T:
        above = np.flatnonzero(mine >= 0.5)
        if not len(above):
            found.append(places[-1] + 1.0)
        elif above[0] == 0:
            found.append(places[0] - 1.0)
        else:
            k = above[0]
            share = (0.5 - mine[k - 1]) / (mine[k] - mine[k - 1])
            found.append(places[k - 1] + share * (places[k] - places[k - 1]))
    each, n = np.array(found), len(found)
    half = scipy.special.stdtrit(n - 1, 0.975) * each.std(ddof=1) * math.sqrt(1 + 1 / n)
    low, high = np.clip(np.exp(each.mean() + np.clip((-half, half), -50, 50)), horizons[0], horizons[-1]).tolist()
    return Half(low, high, horizons[0], horizons[-1])


def write_json(path: Path, found: Plan) -> None:
    """Write the answer for machines."""
    half = {name: one._asdict() for name, one in found.half.items()}
    content = {"headline": found.headline, "rows": [asdict(row) for row in found.rows], "users_for_half": half}
    with atomic(path) as file:
        json.dump(content, file, indent=1, default=float)


def picture(found: Plan) -> Figure:
    """Return the share of the gain kept against epsilon."""
    drawn, (axis,) = empty_picture(1)
    shares_by_budget(drawn, axis, found.rows)
    return drawn


def write_page(path: Path, found: Plan, batch: int, mapped: str | None) -> None:
    """Write the page, in the form of that of ``cost``."""
    draws = len(found.rows[0].shares) if found.rows else 0
    reading = f"One deployment in each of {draws} worlds, with the 95 % interval of a further one."
    promises = [f"{row.name} ({row.agent}): {row.promise}. May be deployed: {row.deployed}." for row in found.rows]
    grounds = [
        "Log-odds of clicks are linear in standard normal features, with coefficients drawn for each arm.",
        "A log of your own says more: privbandit cost reads the rate, the gain and the features from it.",
        f"Batch: {comes(batch)}",
        f"Features: {seen(mapped)}",
        "The gain, the number of features and the batch change the answer most.",
    ]
    parts = {
        "title": "What privacy would cost",
        "headline": html.escape(found.headline),
        "table": table_of(found.rows, reading).html("What privacy would cost"),
        "figure": embedded(picture(found), "Share of the gain kept against epsilon, by kind of privacy"),
        "findings": items([f"{row.name}: {found.users_for(row)}." for row in found.rows]),
        "arms": "",
        "promises": items(promises),
        "grounds": items((*grounds, *found.absent)),
    }
    text = files("privbandit_agents.cli").joinpath("cost.html").read_text(encoding="utf-8")
    with atomic(path) as file:
        file.write(Template(text).substitute(parts))
