"""Who is better: interquartile means of the final regret, their intervals, and how often an agent beats another."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator, default_rng

from privbandit_agents.experiments.results.queries import WORLD, beside_uniform, finals
from privbandit_agents.experiments.results.statistics import (
    Floats,
    Interval,
    estimate_alone,
    percentile_interval,
    seed_weights,
)

PRIVATE, OPEN = "private", "not private"
Scores = Mapping[int, float]
"""A number for each seed."""
NUMBERS = ("iqm", "low", "high", "better", "better_low", "better_high")


def interquartile_mean(values: Floats) -> Floats:
    """Return the mean along the last axis without a quarter of the values at either end, rounded down."""
    cut = values.shape[-1] // 4
    return np.asarray(np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut].mean(axis=-1))


def resampled(strata: Sequence[Floats], rng: Generator, draws: int = 2000) -> Floats:
    """Return interquartile means of bootstrap samples, shape (draws,); every stratum is resampled by itself."""
    drawn = [values[rng.integers(len(values), size=(draws, len(values)))] for values in strata]
    return interquartile_mean(np.concatenate(drawn, axis=1))


def wins(group: Sequence[Scores]) -> tuple[Floats, Floats]:
    """Return how often each of a group is below the others on each seed, shape (agents, seeds), and where it can be.

    A tie counts half. NaN stands where an agent, or all the others, lack the seed.
    """
    seeds = sorted({seed for one in group for seed in one})
    values = np.array([[one.get(seed, np.nan) for seed in seeds] for one in group])
    lost = (values[:, None] > values[None]) + 0.5 * (values[:, None] == values[None])
    there = ~np.isnan(values)
    others = there.sum(axis=0) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        share = ((1 - lost) * (there[:, None] & there[None])).sum(axis=1) - 0.5  # itself, a tie
        share = np.where(there & (others > 0), share / others, np.nan)
    return share, values


def ranked(group: Mapping[str, Sequence[Scores]], rng: Generator) -> dict[str, tuple[Interval[float], Interval[float]]]:
    """Return the agents of a group from the least to the greatest interquartile mean.

    Args:
        group: by label, the scores in each environment; smaller ones are better.
        rng: of the bootstrap.

    Returns:
        By label the mean of the middle half of the numbers, with a 95 % interval by a bootstrap over seeds within each
        environment; and the probability of being better than another agent of the group on a common seed, NaN without
        another.
    """
    labels, many = list(group), len(next(iter(group.values())))
    shares = [wins([group[label][k] for label in labels])[0] for k in range(many)]
    found = {}
    for i, label in enumerate(labels):
        strata = [np.array(list(one.values())) for one in group[label]]
        value = float(interquartile_mean(np.concatenate(strata)))
        enough = min(map(len, strata)) > 1
        iqm = percentile_interval(value, resampled(strata, rng)) if enough else estimate_alone(value)
        own = [share[i][~np.isnan(share[i])] for share in shares]
        found[label] = iqm, better_interval([one for one in own if len(one)], rng)
    return dict(sorted(found.items(), key=lambda pair: pair[1][0].value))


def better_interval(shares: Sequence[Floats], rng: Generator) -> Interval[float]:
    """Return the mean over environments of the mean share of wins, and its 95 % bootstrap interval over seeds."""
    if not shares:
        return estimate_alone(np.nan)
    value = float(np.mean([one.mean() for one in shares]))
    if min(map(len, shares)) < 2:
        return estimate_alone(value)
    draws = np.mean([seed_weights(len(one), rng, 2000) @ one for one in shares], axis=0)
    return percentile_interval(value, draws)


def ranks(frame: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Rank agents by their final regret: in each environment, and over environments that the same agents play.

    Private agents and the others are ranked apart. Over several environments regret is divided by the mean regret of
    ``uniform`` there; agents are only ranked with those that played the same environments.

    Args:
        frame: from ``load_results`` or ``compare``.
        seed: of the bootstrap.

    Returns:
        A polars table, best agents first: ``env`` (``"all N"`` over N environments), ``horizon``, ``group``
        (``"private"`` or ``"not private"``), ``rank``, ``label``, ``notion``, ``epsilon``, ``seeds``, ``iqm`` (the
        interquartile mean) with ``low`` and ``high`` (95 %), ``better`` (probability of being better than another agent
        of the group on a common seed) with ``better_low`` and ``better_high``. Null stands where there is no number.
    """
    rng, private = default_rng(seed), (pl.col("notion") != "none").fill_null(False)
    last = finals(frame).with_columns(group=pl.when(private).then(pl.lit(PRIVATE)).otherwise(pl.lit(OPEN)))
    rows = []
    for (env, horizon, group), inside in last.group_by(*WORLD, "group", maintain_order=True):
        scores: dict[str, list[Scores]] = {label: [by_seed] for label, by_seed in scores_of(inside).items()}
        rows += rows_of(str(env), horizon, str(group), scores, inside, rng)
    for name, group, scores, inside in over_environments(last):
        rows += rows_of(name, None, group, scores, inside, rng)
    kinds: dict[str, Any] = dict.fromkeys(("epsilon", *NUMBERS), pl.Float64)
    return pl.DataFrame(rows, schema_overrides={**kinds, "horizon": pl.Int64}, infer_schema_length=None).fill_nan(None)


def scores_of(rows: pl.DataFrame, value: str = "regret") -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for label, seed, number in rows.select("label", "seed", value).iter_rows():
        found.setdefault(label, {})[seed] = number
    return found


def over_environments(last: pl.DataFrame) -> Iterator[tuple[str, str, dict[str, list[Scores]], pl.DataFrame]]:
    """Yield agents that played the same environments, two at least in which ``uniform`` did, with their scores."""
    scored = (
        beside_uniform(last)
        .filter(pl.col("uniform") > 0)
        .with_columns(ratio=pl.col("regret") / pl.col("uniform"), world=pl.struct(WORLD).rank("dense"))
    )
    for (group,), inside in scored.group_by("group", maintain_order=True):
        played: dict[tuple[int, ...], dict[str, list[Scores]]] = {}
        worlds = {world: scores_of(rows, "ratio") for (world,), rows in inside.group_by("world", maintain_order=True)}
        for label in inside["label"].unique(maintain_order=True):
            where = tuple(world for world, scores in worlds.items() if label in scores)
            played.setdefault(where, {})[label] = [worlds[world][label] for world in where]
        for where, scores in played.items():
            if len(where) > 1:
                yield f"all {len(where)}", str(group), scores, inside


def rows_of(
    env: str, horizon: Any, group: str, scores: Mapping[str, Sequence[Scores]], rows: pl.DataFrame, rng: Generator
) -> list[dict[str, Any]]:
    promises = {row["label"]: row for row in rows.unique("label").select("label", "notion", "epsilon").to_dicts()}
    return [
        {"env": env, "horizon": horizon, "group": group, "rank": place, **promises[label]}
        | {"seeds": min(map(len, scores[label]))}
        | dict(zip(NUMBERS, (end for one in found for end in (one.value, one.low, one.high)), strict=True))
        for place, (label, found) in enumerate(ranked(scores, rng).items(), 1)
    ]
