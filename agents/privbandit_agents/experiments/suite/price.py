"""The price of privacy in one figure: the share of the gain that is kept, by epsilon and notion."""

from collections.abc import Mapping

import matplotlib
import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.random import default_rng

from privbandit_agents.experiments.results.statistics import Interval, expanded, percentile_interval, seed_weights
from privbandit_agents.experiments.suite.records import VISIT, Record
from privbandit_agents.experiments.suite.scores import NOTIONS, placed, scores_of
from privbandit_agents.experiments.suite.tasks import OPEN, Suite, Task, budget_name
from privbandit_agents.experiments.views.style import (
    DASHES,
    PALETTE,
    UNIFORM,
    Label,
    empty_picture,
    label_points,
    style,
)
from privbandit_agents.experiments.views.style import NOTIONS as CALLED

REAL = "real data"
"""The group of the tasks that real data make."""


def gain_kept(records: Mapping[str, Record], suite: Suite) -> tuple[dict[str, list[Interval[float]]], list[str]]:
    """Return the share of the gain that private agents keep, by notion at each budget, and the families.

    The gain is how much less regret than uniform play the best agent without privacy has. Of each family the agent with
    the highest score counts. Shares are means over the ``judged`` tasks of the families that all notions play, each
    task with the same weight; intervals are by a bootstrap of the seeds within tasks, at 95 %.
    """
    scores = scores_of(records, suite).filter(pl.col("notion") != OPEN, unit=VISIT)
    notions = [one for one in NOTIONS if one in scores["notion"]]
    ranked = {epsilon: placed(scores, epsilon).filter(pl.col("rank").is_not_null()) for epsilon in suite.budgets}
    played = [set(places.filter(notion=one)["family"]) for places in ranked.values() for one in notions]
    families = sorted(set.intersection(*played))
    if not families:
        raise ValueError(f"no family has an agent of each of {', '.join(notions)} that played all of its tasks.")
    found: dict[str, list[Interval[float]]] = {notion: [] for notion in notions}
    for epsilon, places in ranked.items():
        for notion in notions:
            first = {family: places.filter(family=family, notion=notion)["agent"][0] for family in families}
            shares = []
            for task in judged(suite, families):
                regrets = records[first[task.family]].regrets.get(task.name, {}).get(budget_name(epsilon))
                lost = np.full(len(suite.seeds), task.uniform) if regrets is None else np.array(regrets)
                shares.append((task.uniform - lost) / (task.uniform - task.best))
            rng = default_rng(0)
            draws = np.mean([seed_weights(len(one), rng, 2000) @ one for one in shares], axis=0)
            level = expanded(0.95, len(suite.seeds), len(shares) * (len(suite.seeds) - 1))
            found[notion].append(percentile_interval(float(np.mean([one.mean() for one in shares])), draws, level))
    return found, families


def judged(suite: Suite, families: list[str]) -> list[Task]:
    """Return the tasks of these families in which a person has one visit: of real data, if the suite has such."""
    tasks = [one for one in suite.tasks.values() if one.family in families and not one.people]
    return [one for one in tasks if one.group == REAL] or tasks


def price(records: Mapping[str, Record], suite: Suite) -> Figure:
    """Return the figure of ``gain_kept``."""
    kept, families = gain_kept(records, suite)
    figure, (axis,) = empty_picture(1)
    with matplotlib.rc_context(style()):
        labels = []
        for color, (notion, shares) in zip(PALETTE, kept.items(), strict=False):
            low, high = [one.low for one in shares], [one.high for one in shares]
            axis.fill_between(suite.budgets, low, high, color=color, alpha=0.2, linewidth=0)
            value = [one.value for one in shares]
            axis.plot(suite.budgets, value, color=color, linestyle=DASHES[notion], linewidth=2, marker="o")
            labels.append(Label(suite.budgets[-1], value[-1], f"{CALLED[notion]}, {value[-1]:.0%}", color))
        axis.axhline(1, color=UNIFORM["color"], linewidth=1)
        labels.append(Label(suite.budgets[-1], 1.0, "without privacy", UNIFORM["color"]))
        axis.set_xscale("log")
        axis.set_xticks(suite.budgets, [budget_name(one) for one in suite.budgets])
        axis.minorticks_off()
        axis.grid(axis="y")
        axis.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axis.set(ylim=(0, 1.05), xlabel="epsilon", title="Share of the gain over uniform play that is kept")
        label_points(axis, labels)
        tasks = judged(suite, families)
        of = f" of {REAL}" if tasks[0].group == REAL else ""
        played = ", ".join(sorted({task.family for task in tasks}))
        told = f"mean and 95 % interval over {len(tasks)} tasks{of} of suite {suite.version}: {played};\n"
        figure.supxlabel(
            f"{told}of each family the agent with the highest score", fontsize=9, color="#555555", x=0.01, ha="left"
        )
    return figure
