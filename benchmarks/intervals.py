"""How often intervals made of a log cover the truth, on logs of worlds whose truth is known.

``python benchmarks/intervals.py --table estimates`` prints the coverage of the estimates of one policy as a CSV, over
rates of clicks, rows an arm, arms and logging policies; ``--table alarms`` the alarms of ``check_simulator`` where the
model is the truth. A cell below .93, or with alarms in more than 2 %, is measured again with other logs. ``--only 0.2``
takes one rate alone, ``--done FILE`` keeps the lines of an earlier run. ``--table widths`` has all estimates beside
the bootstrap of ips.

``--table answers`` prints the answers of ``privbandit cost`` by rows alone, over rates, rows, arms, features, logging
policies and orders of rows, and how many of them are true; ``--table shares`` how often one deployment keeps a share
within the interval of the page; ``--table plans`` the share that ``privbandit plan`` names beside further worlds.
"""

import argparse
import csv
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import scipy
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from privbandit_agents import Log, cost, dm, dr, ips, make, play, private_value, snips
from privbandit_agents.cli.plan import plan
from privbandit_agents.experiments.running.engine import Engine
from privbandit_agents.logs.simulator import LOG_ENV, Simulator, check_simulator, possible_worlds
from privbandit_agents.logs.telling import gain

Floats = NDArray[np.float64]
RATES, RATES_OF_ALARMS = (0.001, 0.005, 0.02, 0.2), (0.002, 0.02, 0.2, 0.5)
ROWS, ARMS, KINDS = (20, 150, 1000, 10_000), (2, 12, 80), 10
LOGGING = ("even", "skewed", "hard", "sharp")
"""The policy's arm is logged evenly; seldom for some kinds of users; seldom where clicks are most frequent; or up to a
hundred times as seldom for some as for others."""


def clicks(rate: float, rows: int, arms: int, logging: str, rng: Generator) -> tuple[Log, Floats, float]:
    """Return a log of ten kinds of users, the chance of a click of each row's kind, and the value of arm 0 alone."""
    n, most = rows * arms, min(0.9, 5 / arms)
    least = {"even": 1 / arms, "sharp": most / 100}.get(logging, 0.1 / arms)
    p0 = np.exp(rng.uniform(np.log(least), np.log(1 / arms if logging == "even" else most), KINDS))
    shape = p0**-0.5 if logging == "hard" else np.exp(rng.normal(0, 0.6, KINDS))
    rates, kinds = np.minimum(rate * shape / shape.mean(), 0.95), rng.integers(KINDS, size=n)
    actions = np.where(rng.random(n) < p0[kinds], 0, rng.integers(1, arms, size=n))
    won = (rng.random(n) < rates[kinds]).astype(float)
    p = np.where(actions == 0, p0[kinds], (1 - p0[kinds]) / (arms - 1))
    about = {"uniform": 1 / arms, "least_propensity": float(p.min())}
    return Log(kinds[:, None] / KINDS, actions, won, p, won, np.zeros(n), about), rates[kinds], float(rates.mean())


def estimates(rate: float, rows: int, arms: int, logging: str, seeds: range) -> tuple[bool, dict[str, object]]:
    """Return the share of intervals that have the truth, of logs that are not refused, and whether one is below .93."""
    hits, made = dict.fromkeys(("ips", "snips", "dr", "private_value"), 0), 0
    alone = np.eye(arms)[np.zeros(rows * arms, int)]
    law = lambda contexts: alone  # noqa: E731
    for seed in seeds:
        rng = default_rng([seed, rows, arms, int(1000 * rate), LOGGING.index(logging)])
        log, _, truth = clicks(rate, rows, arms, logging, rng)
        try:
            found = [estimator(log, law) for estimator in (ips, snips, dr)]
        except ValueError:
            continue
        found.append(private_value(log, law, 1.0, rng=rng))  # type: ignore[arg-type]
        made += 1
        for name, one in zip(hits, found, strict=True):
            hits[name] += one.low <= truth <= one.high
    shares = {name: f"{hit / max(made, 1):.3f}" for name, hit in hits.items()}
    return min(hits.values()) < 0.93 * made, shares | {"logs": len(seeds), "judged": made}


def bootstrapped(log: Log, rng: Generator, draws: int = 200) -> tuple[float, float]:
    """Return the percentile interval of the mean of w r over bootstrap samples of the rows."""
    terms = (log.actions == 0) / log.propensities * log.rewards
    found = rng.multinomial(len(log), np.full(len(log), 1 / len(log)), size=draws) @ terms / len(log)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def widths(logs: int) -> None:
    """Print, for each estimator and the bootstrap of ips, the share of intervals with the truth, and their width.

    The width is the median of that over the interval of snips. Logs are those of ``estimates``, with up to 150 rows an
    arm and up to 12 arms.
    """
    ways: dict[str, Any] = {"ips": ips, "snips": snips, "dr": dr, "dm": dm}
    ways |= {f"dr, {limit}": partial(dr, limit=limit) for limit in ("switch", "shrink")}
    print("rate,rows an arm,arms,logging,estimate,covered,width,logs")
    for rate, rows, arms, logging in itertools.product((0.005, 0.02, 0.2), (20, 150), (2, 12), LOGGING[:3]):
        alone = np.eye(arms)[np.zeros(rows * arms, int)]
        found: dict[str, list[tuple[bool, float]]] = {}
        for seed in range(logs):
            rng = default_rng([seed, rows, arms, int(1000 * rate), LOGGING.index(logging)])
            log, _, truth = clicks(rate, rows, arms, logging, rng)
            try:
                ends = {name: ((one := way(log, alone)).low, one.high) for name, way in ways.items()}
            except ValueError:
                continue
            ends["bootstrap of ips"] = bootstrapped(log, rng)
            for name, (low, high) in ends.items():
                unit = ends["snips"][1] - ends["snips"][0]
                found.setdefault(name, []).append((low <= truth <= high, (high - low) / unit))
        for name, each in found.items():
            covered, wide = np.mean([hit for hit, _ in each]), np.median([width for _, width in each])
            print(
                rate, rows, arms, logging, f'"{name}"', f"{covered:.3f}", f"{wide:.2f}", len(each), sep=",", flush=True
            )


def alarms(rate: float, rows: int, arms: int, logging: str, seeds: range) -> tuple[bool, dict[str, object]]:
    """Return how many logs alarm the check of a model that is the truth, and whether more than 2 % do."""
    off = 0
    for seed in seeds:
        rng = default_rng([seed, rows, arms, int(1000 * rate), LOGGING.index(logging)])
        log, true, _ = clicks(rate, rows, arms, logging, rng)
        means = np.repeat(true[:, None], arms, axis=1)
        rest: tuple[Any, ...] = ("logistic", {}, 0.0, 1.0, 0.0, None, [str(arm) for arm in range(arms)])
        fitted = Simulator(log.contexts, means, means, log.actions, log.rewards, 1 / log.propensities, *rest)
        off += any(gap.off for gap in check_simulator(fitted))
    return off > 0.02 * len(seeds), {"logs": len(seeds), "alarmed": off}


ANSWERS: dict[str, tuple[Any, ...]] = {
    "rate": (0.003, 0.02, 0.2, "real"),
    "rows": (1000, 10_000, 200_000),
    "arms": (2, 8, 40),
    "features": ("numbers", "categories", "interactions"),
    "logging": ("even", "skewed", "some fixed"),
    "order": ("random", "sorted", "drifting"),
}
"""*Interactions* are signs of three features, which products of two do not follow; *some fixed* logs have no choice for
a third of users; *drifting* ones have three times as many clicks at the end as at the beginning."""
EFFECTS = (0.0, 0.0, 0.3, 0.6, 1.0)
"""Standard deviation of log-odds among arms, in the logs of a cell."""


def decisions(cell: Any, effect: float, rng: Generator) -> tuple[Log, Floats, Floats]:
    """Return a log of a cell, the mean reward of each arm for each row, and the law of the log, shape (n, K)."""
    rate, rows, arms, features, logging, order = cell
    base = scipy.special.logit(0.3 if rate == "real" else rate)
    x, kinds = rng.normal(size=(rows, 4)), rng.integers(4, size=(rows, 2))
    if features == "categories":
        x = np.hstack([np.eye(4)[kind] for kind in kinds.T])
    inner = x if features != "interactions" else np.prod(np.sign(x[:, :3]), axis=1)[:, None]
    slopes = rng.normal(size=(inner.shape[1], arms))
    score = inner @ slopes / np.sqrt((inner**2).sum(axis=1).mean()) + 0.5 * rng.normal(size=arms)
    means = np.minimum(scipy.special.expit(base + effect * score), 0.99)
    if order == "drifting":
        means = np.clip(means * np.linspace(0.5, 1.5, rows)[:, None], 0, 0.99)
    # the log's policy
    law = np.full((rows, arms), 1 / arms)
    if logging != "even":
        law = 0.1 / arms + 0.9 * scipy.special.softmax(x @ rng.normal(size=(x.shape[1], arms)), axis=1)
    if logging == "some fixed":
        fixed = x[:, 0] > (0.43 if features != "categories" else 0.5)
        law = np.where(fixed[:, None], np.eye(arms)[rng.integers(arms)], law)
    actions = np.minimum((law.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1), arms - 1)
    each = np.arange(rows)
    mean = means[each, actions]
    rewards = rng.beta(4 * mean, 4 * (1 - mean)) if rate == "real" else (rng.random(rows) < mean).astype(float)
    place = np.lexsort((rewards, actions)) if order == "sorted" else each
    about = {"uniform": 1 / arms, "reward_range": (0.0, 1.0)}
    x, actions, rewards, p = (one[place] for one in (x, actions, rewards, law[each, actions]))
    return Log(x, actions, rewards, p, rewards, np.zeros(rows), about), means[place], law[place]


def powered(means: Floats, law: Floats, real: bool) -> bool:
    """Return whether the best policy that the log supports would show its gain in nine of ten logs if it were known."""
    best = np.where(law > 0, means, -1).argmax(axis=1)
    each, arms = np.arange(len(means)), np.arange(means.shape[1])
    value, own = means[each, best].mean(), (law * means).sum(axis=1).mean()
    with np.errstate(divide="ignore"):
        weights = np.where(arms == best[:, None], 1 / law, 0.0)
    spread = means * (1 - means) / (5 if real else 1)
    off = (weights - 1) ** 2 * spread + (weights * (means - value) - (means - own)) ** 2
    deviation = np.sqrt(np.where(law > 0, law * off, 0.0).sum(axis=1).mean() / len(means))
    return bool(value - own > (1.960 + 1.282) * deviation)


SHARES = {
    "small": (1500, 3, 0.3, 1.0),
    "rare": (6000, 3, 0.05, 1.0),
    "wide": (6000, 8, 0.2, 0.6),
    "weak": (3000, 4, 0.2, 0.3),
}
"""Rows, arms, rate and effect of the logs whose shares of the gain are held against the truth."""


def shares(logs: int) -> None:
    """Print how often one deployment of ``auto-joint`` keeps a share within the interval of ``privbandit cost``.

    Each log comes from a world of its own, in which one deployment is played too.
    """
    print("kind,logs with a gain shown,deployments inside,median width,halves said,true")
    for kind, (rows, arms, rate, effect) in SHARES.items():
        inside, widths, said, right = 0, [], 0, 0
        for seed in range(logs):
            rng = default_rng([seed, hash_of(kind)])
            log, means, _ = decisions((rate, rows, arms, "numbers", "even", "random"), effect, rng)
            with tempfile.TemporaryDirectory() as folder:
                found = cost(log, notions=["joint"], out=folder, engine=Engine(alone=True))
                if not found.nearest:
                    continue
                kept = found.nearest[0].gain
                true_world = replace(possible_worlds(log, 2), means=means, lines=None)
                env: Any = gym.make(LOG_ENV, source=true_world, horizon=rows)
                result = play(env, make("auto-joint", env, epsilon=1.0, seed=1000 + seed), seed=seed)
            true = 1 - result.regret[-1] / rows / (means.max(axis=1).mean() - means.mean())
            inside += kept.low <= true <= kept.high
            widths.append(kept.high - kept.low)
            if kept.low > 0.5 or kept.high < 0.5:
                said, right = said + 1, right + int((kept.low > 0.5) == (true > 0.5))
        width = f"{np.median(widths):.2f}" if widths else ""
        print(kind, len(widths), inside, width, said, right, sep=",", flush=True)


PLANS = [(arms, rate, lift) for arms in (2, 5, 20) for rate, lift in ((0.02, 0.6), (0.1, 0.5), (0.3, 0.25), (0.3, 0.7))]


def plans(users: int) -> None:
    """Print, for arms, rate and lift, the share that ``privbandit plan`` names, and the mean of 16 further worlds."""
    print("arms,rate,lift,notion,share,low,high,further worlds,inside")
    for arms, rate, lift in PLANS:
        with tempfile.TemporaryDirectory() as folder:
            one = plan(arms, rate, lift, users, notions=["joint", "local"], out=folder)
            more = plan(arms, rate, lift, users, notions=["joint", "local"], out=folder, draws=16, seed=1)
        for row, other in zip(one.rows, more.rows, strict=True):
            true, inside = float(np.mean(other.shares)), row.gain.low <= np.mean(other.shares) <= row.gain.high
            ends = [f"{end:.3f}" for end in (row.gain.value, row.gain.low, row.gain.high, true)]
            print(arms, rate, lift, row.notion, *ends, int(inside), sep=",", flush=True)


def hash_of(part: object) -> int:
    return sum(place * ord(letter) for place, letter in enumerate(str(part), 1))


def answers(only: str, every: int, first: int, most: int) -> None:
    """Print, for each cell, how many logs show a gain of those with none and with one, and how many hold; and shares.

    Args:
        only: rates; "" for all.
        every: of how many cells one is taken, by chance.
        first: seed.
        most: rows.
    """
    cells = [
        c for c in itertools.product(*ANSWERS.values()) if (not only or str(c[0]) in only.split(",")) and c[1] <= most
    ]
    lines: list[list[str]] = []
    for cell in default_rng(0).permutation(np.array(cells, object))[::every]:
        found = dict.fromkeys(("none", "false", "some", "shown", "true", "covered", "powered", "told"), 0)
        for seed, effect in enumerate(EFFECTS, first):
            log, means, law = decisions(cell, effect, default_rng([seed, *map(hash_of, cell)]))
            told = gain(log)
            place, arm = told.chosen
            true = float((means[place, arm] - (law[place] * means[place]).sum(axis=1)).mean())
            if effect == 0:
                more = {"none": 1, "false": told.shown}
            else:
                strong = powered(means, law, cell[0] == "real")
                more = {"some": 1, "shown": told.shown, "true": told.shown and true > 0, "powered": strong}
                more |= {"covered": told.low <= true <= told.high, "told": strong and told.shown}
            found |= {name: found[name] + int(value) for name, value in more.items()}
        if not lines:
            lines.append([*ANSWERS, *found])
            print(*lines[0], sep=",")
        lines.append([*map(str, cell), *map(str, found.values())])
        print(*lines[-1], sep=",", flush=True)
    print(*summary(lines), sep="\n")


def summary(lines: list[list[str]]) -> Iterator[str]:
    """Yield the shares of answers that are true, by kinds of cells."""
    head, *rows = lines
    places = {name: place for place, name in enumerate(head)}

    def total(name: str, kept: list[list[str]]) -> int:
        return sum(int(row[places[name]]) for row in kept)

    yield "cells,shown where there is none,shown gains that are true,intervals that hold,powered logs that are told"
    for part, values in {"all": ("",), **ANSWERS}.items():
        for value in values:
            kept = [row for row in rows if part == "all" or row[places[part]] == str(value)]
            pairs = (("false", "none"), ("true", "shown"), ("covered", "some"), ("told", "powered"))
            shares = [f"{total(one, kept)} of {total(other, kept)}" for one, other in pairs]
            yield ",".join([f"{part} {value}".strip(), *shares])


def table(name: str, only: str, done: str) -> None:
    """Print a line for each cell: by a first sample of logs, or if that looks bad by a larger second one.

    Lines that are in the CSV ``done`` are printed as they are there. Progress goes to the error stream.
    """
    rates, measured = (RATES, estimates) if name == "estimates" else (RATES_OF_ALARMS, alarms)
    cells = [c for c in itertools.product(rates, ROWS, ARMS, LOGGING) if not only or str(c[0]) in only.split(",")]
    if name == "alarms":
        cells = [c for c in cells if c[1] * c[2] ** 2 <= 150_000]  # others take hours
    lines = list(csv.reader(Path(done).read_text().splitlines())) if done else []
    known = {tuple(line[:4]): line for line in lines[1:]}
    left = {}
    for cell in cells:
        if tuple(map(str, cell)) not in known:
            rows, each = cell[1] * cell[2], cell[2] if name == "alarms" else 1  # every arm has an interval of its own
            left[cell] = samples(name, rows)[0] * (rows + 4000) * each
    whole, began, writer = sum(left.values()), time.monotonic(), csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows(lines[:1])
    for cell in cells:
        if cell not in left:
            writer.writerow(known[tuple(map(str, cell))])
            continue
        first, second = samples(name, cell[1] * cell[2])
        bad, found = measured(*cell, range(first))
        if bad:
            _, found = measured(*cell, range(1000, 1000 + second))
        if not lines:
            writer.writerow(("rate", "rows an arm", "arms", "logging", *found))
            lines = [[]]
        writer.writerow((*cell, *found.values()))
        sys.stdout.flush()
        del left[cell]
        minutes = (time.monotonic() - began) / 60 * sum(left.values()) / (whole - sum(left.values()))
        print(f"{cell}: about {minutes:.0f} minutes left", file=sys.stderr)


def samples(name: str, rows: int) -> tuple[int, int]:
    """Return how many logs of so many rows are in a first sample, and in a second."""
    if name == "alarms":
        return 50, 500
    large = rows >= 200_000
    return 250 if rows <= 4000 else 30 if large else 100, 1000 if rows <= 20_000 else 120 if large else 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--table", choices=("estimates", "alarms", "widths", "answers", "shares", "plans"), default="answers"
    )
    parser.add_argument("--only", default="", help="rates")
    parser.add_argument("--done", default="", help="CSV of an earlier run, whose lines are kept")
    parser.add_argument("--every", type=int, default=1, help="of how many cells of the answers one is taken, by chance")
    parser.add_argument("--seed", type=int, default=0, help="of the answers")
    parser.add_argument("--rows", type=int, default=200_000, help="of a log of the answers at most")
    parser.add_argument("--logs", type=int, default=40, help="of each cell, for shares and widths")
    parser.add_argument("--users", type=int, default=20_000, help="of a plan")
    asked = parser.parse_args()
    if asked.table == "answers":
        answers(asked.only, asked.every, asked.seed, asked.rows)
    elif asked.table in ("shares", "widths"):
        {"shares": shares, "widths": widths}[asked.table](asked.logs)
    elif asked.table == "plans":
        plans(asked.users)
    else:
        table(asked.table, asked.only, asked.done)


if __name__ == "__main__":
    main()
