"""How often intervals made of a log cover the truth, on logs of worlds whose truth is known.

``python benchmarks/intervals.py --table estimates`` prints the coverage of the estimates of one policy as a CSV, over
rates of clicks, rows an arm, arms and logging policies; ``--table alarms`` the alarms of ``check_simulator`` where the
model is the truth. A cell below .93, or with alarms in more than 2 %, is measured again with other logs. ``--only 0.2``
takes one rate alone, ``--done FILE`` keeps the lines of an earlier run. ``--table widths`` has all estimates beside
the bootstrap of ips.

``--table parts`` has the other intervals that an answer is made of, each beside its bound.

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
from collections.abc import Callable, Iterator
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
from privbandit_agents.logs.telling import beside, gain, rows_needed

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


PARTS: dict[str, tuple[float, bool]] = {
    "real rewards": (0.93, True),
    "dr": (0.92, True),
    "people": (0.93, True),
    "difference": (0.93, True),
    "gain where none is": (0.03, False),
    "power": (0.9, True),
}
"""The least share of logs in which a part holds, or the most."""


def parts(logs: int) -> None:
    """Print, for each part of an answer and kind of logs, how often it holds, beside its bound.

    The last column is the chance of a share that is as far beyond the bound or farther, and ``below`` if it stays under
    1 % among all rows (Holm). ``number`` is the median of what the part's sentence says.
    """
    one_arm()
    print("part,kind,share,number,logs,bound,chance")
    lines = []
    for name, cell, repeat in (*real_rewards(), *models(), *returning(), *differences(), *nothing(), *needed()):
        bound, least = PARTS[name]
        found = [repeat(default_rng([seed, hash_of(name), *map(hash_of, cell)])) for seed in range(logs)]
        hits, number = sum(hit for hit, _ in found), float(np.median([each for _, each in found]))
        law = scipy.stats.binom(logs, bound)
        chance = law.cdf(hits) if least else law.sf(hits - 1)
        lines.append((chance, [name, " ".join(map(str, cell)), f"{hits / logs:.3f}", f"{number:.3g}", logs, bound]))
        print(*lines[-1][1], f"{chance:.2g}", sep=",", flush=True)
    # Holm
    for place, (chance, line) in enumerate(sorted(lines, key=lambda line: line[0])):
        if chance * (len(lines) - place) > 0.01:
            break
        print("below:", *line[:2])
    # time
    for rows, matched in ((1_000_000, "a twelfth"), (100_000, "all")):
        log, _, _ = clicks(0.02, rows // 12, 12, "skewed", default_rng(0))
        law = (
            np.eye(12)[np.zeros(len(log), int)] if matched != "all" else default_rng(1).dirichlet(np.ones(12), len(log))
        )
        began = time.process_time()
        snips(log, law)
        print(
            f"seconds of snips for {rows:,} rows, of which the policy has {matched}: {time.process_time() - began:.2f}"
        )


def one_arm(rows: int = 2000) -> None:
    """Print the exact coverage of one arm's interval over expected clicks, and its distance from Clopper-Pearson."""
    ends, off = [], 0.0
    for count in range(rows // 4):
        rewards = (np.arange(rows) < count).astype(float)
        log = Log(np.zeros((rows, 1)), np.zeros(rows, int), rewards, np.ones(rows), rewards, np.zeros(rows), {})
        found = snips(log, np.ones((rows, 1)))
        exact = scipy.stats.binomtest(count, rows).proportion_ci(0.95)
        off = max(off, abs(found.low - exact.low), abs(found.high - exact.high))
        ends.append((found.low, found.high))
    low, high = np.array(ends).T
    covered = []
    for expected in np.geomspace(0.02, 200, 60):
        chances = scipy.stats.binom.pmf(np.arange(len(low)), rows, expected / rows)
        covered.append(float(chances[(low <= expected / rows) & (expected / rows <= high)].sum()))
    print(f"one arm: coverage at least {min(covered):.4f}; at most {off:.1g} from Clopper and Pearson's ends")


Repeat = Callable[[Generator], tuple[bool, float]]
Part = Iterator[tuple[str, tuple[Any, ...], Repeat]]


def real_rewards() -> Part:
    """Yield logs of rewards that have a beta law, and whether the interval of ``snips`` has the truth."""

    def repeat(rate: float, rows: int, arms: int, logging: str, rng: Generator) -> tuple[bool, float]:
        log, means, truth = clicks(rate, rows, arms, logging, rng)
        drawn = replace(
            log, rewards=rng.beta(4 * means, 4 * (1 - means)), about=log.about | {"reward_range": (0.0, 1.0)}
        )
        found = snips(drawn, np.eye(arms)[np.zeros(len(log), int)])
        return found.low <= truth <= found.high, (found.high - found.low) / truth

    for cell in itertools.product((0.2, 0.5), (20, 150, 1000), (2, 12), LOGGING[:3]):
        yield "real rewards", cell, partial(repeat, *cell)


def models() -> Part:
    """Yield whether the interval of ``dr`` has the truth and sorted rows the same value, and how far values are."""

    def repeat(rate: float, rows: int, arms: int, logging: str, rng: Generator) -> tuple[bool, float]:
        log, _, truth = clicks(rate, rows, arms, logging, rng)
        alone, order = np.eye(arms)[np.zeros(len(log), int)], np.lexsort((log.rewards, log.actions))
        found = dr(log, alone)
        arrays: dict[str, Any] = {name: array[order] for name, array in log.arrays.items()}
        off = abs(dr(Log(**arrays, about=log.about), alone).value - found.value)
        return found.low <= truth <= found.high and off < 1e-12, off

    for cell in itertools.product((0.02, 0.2), (150, 1000), (2, 12), LOGGING[:3]):
        yield "dr", cell, partial(repeat, *cell)


def returning() -> Part:
    """Yield whether intervals have the truth of people who come 1 to 40 times, and their width over that of rows."""

    def repeat(rate: float, persons: int, spread: float, rng: Generator) -> tuple[bool, float]:
        visits = rng.integers(1, 41, size=persons)
        people, n, base = np.repeat(np.arange(persons), visits), int(visits.sum()), scipy.special.logit(rate)
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        truth = float(scipy.special.expit(base + spread * nodes) @ weights / weights.sum())
        own = scipy.special.expit(base + spread * rng.normal(size=persons))[people]
        actions, won = rng.integers(3, size=n), (rng.random(n) < own).astype(float)
        third, x = np.full(n, 1 / 3), np.zeros((n, 1))
        log = Log(x, actions, won, third, won, np.zeros(n), {"reward_range": (0.0, 1.0)}, people=people)
        law = np.eye(3)[np.zeros(n, int)]
        found, rows = snips(log, law), snips(replace(log, people=None), law)
        return found.low <= truth <= found.high, (found.high - found.low) / (rows.high - rows.low)

    for cell in itertools.product((0.02, 0.2), (300, 2000), (0.5, 1.0)):
        yield "people", cell, partial(repeat, *cell)


def differences() -> Part:
    """Yield whether the interval of a fixed policy's gain over the log's own reward has the truth."""

    def repeat(rate: float, rows: int, arms: int, logging: str, rng: Generator) -> tuple[bool, float]:
        log, means, _ = clicks(rate, rows, arms, logging, rng)
        found = beside(log, np.arange(len(log)), np.zeros(len(log), int), "")  # all arms are the same
        return found.low <= 0 <= found.high, (found.high - found.low) / float(means.mean())

    for cell in itertools.product((0.005, 0.02, 0.2), (150, 1000), (2, 12, 34), LOGGING[:3]):
        yield "difference", cell, partial(repeat, *cell)


def nothing() -> Part:
    """Yield whether a gain is shown where no arm is better, by arms and kinds of users."""

    def repeat(arms: int, kinds: int, rate: float, rows: int, rng: Generator) -> tuple[bool, float]:
        kind, actions = rng.integers(kinds, size=rows), rng.integers(arms, size=rows)
        rates = np.minimum(rate * np.exp(rng.normal(0, 0.6, kinds)), 0.9)
        won = (rng.random(rows) < rates[kind]).astype(float)
        about = {"uniform": 1 / arms}
        log = Log(np.eye(kinds)[kind], actions, won, np.full(rows, 1 / arms), won, np.zeros(rows), about)
        found = gain(log)
        return found.shown, found.value

    for arms, kinds, (rate, rows) in itertools.product((2, 5, 34), (1, 4, 10), ((0.02, 20_000), (0.2, 4000))):
        yield "gain where none is", (arms, kinds, rate, rows), partial(repeat, arms, kinds, rate, rows)


def needed() -> Part:
    """Yield whether as many rows as ``rows_needed`` names show a gain; the number is that of rows."""

    def repeat(arms: int, rate: float, lift: float, rows: int, rng: Generator) -> tuple[bool, float]:
        best, rest = rate * (1 + lift), rate * (1 - lift / (arms - 1))
        actions = rng.integers(arms, size=rows)
        won = (rng.random(rows) < np.where(actions == 0, best, rest)).astype(float)
        log = Log(np.zeros((rows, 1)), actions, won, np.full(rows, 1 / arms), won, np.zeros(rows), {})
        return beside(log, np.arange(rows), np.zeros(rows, int), "").low > 0, rows

    for arms, rate, lift in itertools.product((2, 5, 34), (0.0046, 0.02, 0.2), (0.1, 0.3, 1.0)):
        many = 200_000
        won, p = (np.arange(many) < rate * many).astype(float), np.full(many, 1 / arms)
        seen = Log(np.zeros((many, 1)), np.arange(many) % arms, won, p, won, np.zeros(many), {})
        rows = round(float(np.sqrt(np.prod(rows_needed(seen, lift)))))  # both ends of the rate
        if rows < 60_000 and rate * rows >= 20:
            for times in (1.0, 1.2):
                cell = arms, rate, lift, round(times * rows)
                yield "power", cell, partial(repeat, *cell)


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
        "--table", choices=("estimates", "alarms", "widths", "parts", "answers", "shares", "plans"), default="answers"
    )
    parser.add_argument("--only", default="", help="rates")
    parser.add_argument("--done", default="", help="CSV of an earlier run, whose lines are kept")
    parser.add_argument("--every", type=int, default=1, help="of how many cells of the answers one is taken, by chance")
    parser.add_argument("--seed", type=int, default=0, help="of the answers")
    parser.add_argument("--rows", type=int, default=200_000, help="of a log of the answers at most")
    parser.add_argument("--logs", type=int, default=40, help="of each cell, for shares, widths and parts")
    parser.add_argument("--users", type=int, default=20_000, help="of a plan")
    asked = parser.parse_args()
    if asked.table == "answers":
        answers(asked.only, asked.every, asked.seed, asked.rows)
    elif asked.table in ("shares", "widths"):
        {"shares": shares, "widths": widths}[asked.table](asked.logs)
    elif asked.table == "parts":
        parts(asked.logs)
    elif asked.table == "plans":
        plans(asked.users)
    else:
        table(asked.table, asked.only, asked.done)


if __name__ == "__main__":
    main()
