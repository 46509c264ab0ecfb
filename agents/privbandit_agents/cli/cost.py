"""``privbandit cost``: the cost of a promise of privacy, estimated from a log of decisions."""

import html
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import gymnasium as gym
import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console

from privbandit_agents.cli.manual import deployment
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.results.statistics import Interval
from privbandit_agents.experiments.running.attempt import Failure, told
from privbandit_agents.experiments.running.engine import Engine, Results, run_jobs
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.text import paragraph
from privbandit_agents.experiments.usage import UNFINISHED, UsageError, unwritten, usage_errors
from privbandit_agents.experiments.views.style import DASHES, NOTIONS, PALETTE, embedded, empty_picture, save
from privbandit_agents.experiments.views.table import Column, Table
from privbandit_agents.logs.estimates import Estimate, self_normalized, span_of
from privbandit_agents.logs.record import Log
from privbandit_agents.logs.simulator import LOG_ENV, Simulator, possible_worlds
from privbandit_agents.logs.telling import LIFTS, Finding, Gain, effective_rows, findings, gain, rows_needed
from privbandit_envs.features import KINDS
from privbandit_envs.files import atomic
from privbandit_envs.validate import count, did_you_mean, one_of, shown

Floats = NDArray[np.float64]
AGENTS = {"joint": "auto-joint", "shuffle": "shuffle-linucb", "local": "auto-local", "reward": "reward-dp-linucb"}
"""The agent that plays for each notion of privacy."""
REFERENCE = "linucb"
NARROW = 0.3  # width of an interval of a share that answers by a number


UNKNOWN = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        name: of a policy, or the notion and budget of an agent.
        notion: ``"none"`` without privacy.
        epsilon: the budget; None without.
        reward: per user, in the log's own unit, with its 95 % interval.
        gain: share of the gain over uniform play that one deployment keeps, with its 95 % interval; NaN for a policy.
        agent: the name; "" for a policy.
        promise: in words.
        deployed: whether the agent may be deployed, in words.
        shares: of each world that was drawn, shape (draws,).
    """

    name: str
    notion: str
    epsilon: float | None
    reward: Interval[float]
    gain: Interval[float] = UNKNOWN
    agent: str = ""
    promise: str = ""
    deployed: str = ""
    shares: tuple[float, ...] = ()

    @property
    def rewarded(self) -> str:
        """The reward with its interval."""
        return self.reward.said(four)

    @property
    def kept(self) -> str:
        """The share of the gain with its interval."""
        return "" if math.isnan(self.gain.value) else self.gain.said("{:.0%}".format)

    @property
    def said(self) -> str:
        """The share as far as its interval has an answer, in words."""
        low, high = self.gain.low, self.gain.high
        if high - low <= NARROW:
            return f"keeps {self.kept}"
        if low > 0.5 or high < 0.5:
            return f"keeps {'more' if low > 0.5 else 'less'} than half ({self.gain.ends('{:.0%}'.format)})"
        return f"keeps a share that this log cannot tell ({self.gain.ends('{:.0%}'.format)})"


@dataclass(frozen=True)
class Costs:
    """The price of privacy, by a log of decisions.

    Attributes:
        rows: policies without privacy first.
        findings: what is to be seen in the log.
        gain: of a policy that is learned from the log, over the log's own.
        lift: a gain, as a share of the log's mean reward.
        needed: rows that show this gain of a policy that is known, between two numbers.
        absent: reasons why a notion of privacy has no row, in sentences.
        code: 0, or 4 if some runs failed.
    """

    rows: list[Row]
    findings: list[Finding]
    gain: Gain
    lift: float
    needed: tuple[float, float]
    absent: list[str]
    code: int

    @property
    def nearest(self) -> list[Row]:
        """The private agents at the budget nearest to 1."""
        private = [row for row in self.rows if row.epsilon is not None]
        near = min({row.epsilon for row in private if row.epsilon}, key=lambda e: abs(math.log(e)), default=None)
        return [row for row in private if row.epsilon == near]

    @property
    def answer(self) -> str:
        """``"conclusive"``, ``"direction only"`` or ``"cannot tell"``.

        A gain must be shown by rows. With agents, one share must have an answer, or two must differ.
        """
        rows = self.nearest
        if not self.gain.shown:
            return "cannot tell"
        if not rows or any("cannot tell" not in row.said for row in rows):
            return "conclusive"
        apart = [difference(one, other) for place, one in enumerate(rows) for other in rows[:place]]
        return "direction only" if any(gap.low > 0 or gap.high < 0 for gap in apart) else "cannot tell"

    @property
    def headline(self) -> str:
        """The answer in a few sentences."""
        gain, many = self.gain, f"{self.gain.policy.users:,}"
        own = Interval(gain.own.value, gain.own.low, gain.own.high).said(four)
        policy = Interval(gain.policy.value, gain.policy.low, gain.policy.high).said(four)
        more = Interval(gain.value, gain.low, gain.high).said(four)
        seen = f"{two(self.needed[0])} to {two(self.needed[1])} rows to see a gain of {100 * self.lift:.3g} %"
        rows = f"it would take about {seen} by a policy that is known, and two to three times as many to choose it too"
        if not gain.shown:
            first = f"This log cannot tell whether another choice of arms earns more than its own {own} per user."
            second = f"A policy learned from it earns {policy} on {many} rows that did not teach it, {more} more."
            lost = f" For {gain.unsupported:.1%} of users or more the log never takes that policy's arm."
            return f"{first} {second}{lost * (gain.unsupported > 0)} At this rate {rows}."
        first = f"A policy learned from this log earns {policy} per user, {more} more than the log's own {own}."
        if not self.nearest:
            return first
        kept = listed([f"{row.notion} privacy {row.said}" for row in self.nearest])
        second = f"Of the gain over uniform play one deployment at epsilon = {self.nearest[0].epsilon:g}: {kept}."
        if self.answer == "direction only":
            second += f" The log tells only which promise is dearer: {dearer(self.nearest)}."
        return f"{first} {second}"

    def __str__(self) -> str:
        told = (line for one in (self.headline, *map(str, self.findings), *self.absent) for line in paragraph(one))
        return "\n".join([*table_of(self.rows).lines(), "", *told])


def four(value: float) -> str:
    return f"{value:.4f}"


def two(rows: float) -> str:
    """Return a number of rows with two digits."""
    return f"{float(f'{rows:.2g}'):,.0f}" if rows < 1e12 else "any number of"


def listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def predicted(shares: Sequence[float]) -> Interval[float]:
    """Return the mean of shares of the gain in drawn worlds, and the 95 % interval of that of one deployment."""
    each, n = np.clip(shares, -1.0, 1.0), len(shares)
    half = scipy.special.stdtrit(n - 1, 0.975) * each.std(ddof=1) * math.sqrt(1 + 1 / n)
    return Interval.around(float(each.mean()), float(half))


def difference(one: Row, other: Row) -> Interval[float]:
    """Return that of two shares in the same worlds, on average over worlds and runs."""
    n = min(len(one.shares), len(other.shares))
    gaps = np.clip(one.shares[:n], -1, 1) - np.clip(other.shares[:n], -1, 1)
    half = scipy.special.stdtrit(n - 1, 0.975) * gaps.std(ddof=1) / math.sqrt(n)
    return Interval.around(float(gaps.mean()), float(half))


def dearer(rows: Sequence[Row]) -> str:
    """Return pairs of notions whose difference has one sign."""
    found = []
    for place, one in enumerate(rows):
        for other in rows[:place]:
            gap = difference(one, other)
            if gap.low > 0 or gap.high < 0:
                less, more = (one, other) if gap.high < 0 else (other, one)
                found.append(f"{less.notion} than {more.notion} privacy")
    return listed(found)


def cost(
    log: Log,
    epsilons: Sequence[float] = (1.0,),
    notions: Sequence[str] | None = None,
    *,
    out: Path | str = "runs/cost",
    seeds: int = 16,
    users: int | None = None,
    batch: int = 1,
    mapped: str | None = None,
    always: bool = False,
    engine: Engine | None = None,
    err: Console | None = None,
    title: str = "What privacy would cost",
) -> Costs:
    """Say what a log can tell, play agents of each notion in worlds that it leaves possible, and write a page.

    If the log shows no gain, no agent plays. Runs that are in the folder already are not run again.

    Args:
        log: of decisions; contexts of shape (n, d).
        epsilons: the budgets; the one nearest to 1 is played first.
        notions: of "joint", "shuffle", "local" and "reward"; default: those that have an agent for the log.
        out: a folder for results, ``cost.html``, ``cost.png`` and ``cost.json``; and ``deploy.json``, from which a
            service starts, if agents play and the log was encoded by a schema.
        seeds: worlds that are drawn, each for one run of each agent; budgets other than the first have half of them.
        users: of each run; default: the log's, at most 100,000.
        batch: users whose feedback comes together, with the last of them.
        mapped: what agents see in place of features: a kind of ``privbandit_envs.Features``; None: features.
        always: whether agents play though the log shows no gain.
        engine: where to run.
        err: shows progress.
        title: of the page.

    Examples:
        >>> import tempfile
        >>> import gymnasium as gym
        >>> from privbandit_agents import log, make
        >>> env = gym.make("privbandit/Clicks-v0", n_arms=3, dim=2, instance_seed=0)
        >>> decisions = log(env, make("uniform", env, seed=0), 2000, seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = cost(decisions, [1.0], ["joint"], out=folder, seeds=2)
        >>> print(found)  # doctest: +ELLIPSIS
        policy ...

    Raises:
        UsageError: an unknown notion, a budget out of range, or a log that no world can be made of.
    """
    folder = Path(out)
    for notion in notions or ():
        if notion not in AGENTS:
            way_out = did_you_mean(notion, AGENTS)
            raise UsageError(f"--notions must be of {', '.join(AGENTS)}; got {shown(notion)}{way_out}.")
    if strange := [e for e in epsilons if not 0 < e < math.inf]:
        raise UsageError(f"--epsilon must be numbers > 0; got {strange[0]:g}.")
    # what rows tell
    folder.mkdir(parents=True, exist_ok=True)
    with usage_errors("cost"):
        terms = terms_of(batch, mapped)
        found = told_by_rows(log)
    writing: dict[str, Callable[[], object]] = {}
    results: Results = {}
    failures: list[Failure] = []
    if found.gain.shown or always:
        if err is not None:
            err.print(*paragraph(found.headline), sep="\n", highlight=False, soft_wrap=True)
        with usage_errors("cost"):
            made = possible_worlds(log, seeds)
        path = (folder / f"world-{made.digest}.npz").absolute()
        made.write(path)
        n = min(len(made), 100_000) if users is None else users  # in seconds, not in minutes
        env = gym.make(LOG_ENV, source=made, draw=0, horizon=n, **terms)
        playing = players(made, env, epsilons, notions, n, found.absent)
        # the budget nearest to 1 first, and all in the same worlds
        near = min(epsilons, key=lambda epsilon: abs(math.log(epsilon)))
        world = {"source": str(path), "digest": made.digest} | terms
        trials = {
            (notion, epsilon): [
                Trial(LOG_ENV, agent, n, draw, world | {"draw": draw}, given)
                for draw in range(seeds if epsilon in (None, near) else max(2, seeds // 2))
            ]
            for (notion, epsilon), (agent, given) in playing.items()
        }
        first = [cell for cell in trials if cell[1] in (None, near)]
        for stage in (first, [cell for cell in trials if cell not in first]):
            if stage:
                more, failed = run_jobs([one for cell in stage for one in trials[cell]], folder, engine, err)
                results, failures = results | more, failures + failed
        if "schema" in log.about and log.contexts.ndim == 2:
            deploy, carried = folder / "deploy.json", {"batch": batch, "features": mapped}
            writing["deploy.json"] = lambda: write_plan(deploy, log, made, playing, near, n, carried)
        gains = [(float(table.max(axis=1).mean()), float(table.mean())) for table in map(made.drawn, range(seeds))]
        for (notion, epsilon), mine in trials.items():
            runs = {one.seed: results[one.name] for one in mine if one.name in results}
            if len(runs) > 1:
                agent = playing[notion, epsilon][0]
                found.rows.append(played(agent, notion, epsilon, runs, gains, made, n, deployment(agent, env)))
    writing |= {
        "cost.json": lambda: write_json(folder / "cost.json", found, log),
        "cost.png": lambda: save(figure(found, log), folder / "cost.png"),
        "cost.html": lambda: write_page(folder / "cost.html", title, found, log, batch, mapped),
    }
    lost = unwritten(folder, writing)
    for line in (*told(failures), *lost):
        print(line, file=sys.stderr)
    return replace(found, code=UNFINISHED if failures or lost else 0)


def terms_of(batch: int, mapped: str | None) -> dict[str, Any]:
    """Return the arguments of an environment with feedback in batches of so many users, and features that are mapped.

    Raises:
        ValueError: a batch out of range, or another kind of map.
    """
    late = {"feedback": {"mean": batch, "law": "batch"}} if count(batch=batch) > 1 else {}
    return late if mapped is None else late | {"features": one_of(KINDS, map=mapped)}


def told_by_rows(log: Log) -> Costs:
    """Return what a log tells without a run: findings, uniform play, the log's own policy and one learned from it."""
    seen, found = findings(log), gain(log)
    everything = self_normalized(log, np.ones(len(log)), 1.0)
    weights = 1 / (log._all_arms() * log.propensities)
    uniform = self_normalized(log, weights, float(weights.max()))
    policies = {"uniform play": uniform, "the log's own policy": everything, "learned from the log": found.policy}
    rows = [Row(name, "none", None, Interval(one.value, one.low, one.high)) for name, one in policies.items()]
    lift = next((lift for lift in LIFTS if 3 * rows_needed(log, lift)[1] > len(log)), LIFTS[-1])
    return Costs(rows, seen, found, lift, rows_needed(log, lift), [], 0)


def players(
    made: Simulator, env: Any, epsilons: Sequence[float], notions: Sequence[str] | None, n: int, absent: list[str]
) -> dict[tuple[str, float | None], tuple[str, dict[str, Any]]]:
    """Return the agent of each notion and budget and its settings; ``absent`` gets reasons for those without one."""

    def asked(epsilon: float | None) -> dict[str, Any]:
        """Return an agent's settings: a budget is a person's if the log has persons."""
        if epsilon is None:
            return {}
        return {"epsilon": epsilon} | ({"people": made.people} if made.visits > 1 else {})

    playing = list(notions or ())
    for notion in () if notions else AGENTS:
        try:
            with usage_errors(f"{notion} privacy has no row"):
                Trial(LOG_ENV, AGENTS[notion], n, 0, {}, asked(min(epsilons))).make_agent(env)
            playing.append(notion)
        except UsageError as error:
            absent.append(str(error))
    found: dict[tuple[str, float | None], tuple[str, dict[str, Any]]] = {("none", None): (REFERENCE, {})}
    found |= {(notion, e): (AGENTS[notion], asked(e)) for notion in playing for e in sorted(set(epsilons))}
    with usage_errors("--notions"):
        for agent, given in found.values():
            Trial(LOG_ENV, agent, n, 0, {}, given).make_agent(env)
    return found


def played(
    agent: str,
    notion: str,
    epsilon: float | None,
    runs: dict[int, Finished],
    gains: Sequence[tuple[float, float]],
    made: Simulator,
    users: int,
    deployed: str,
) -> Row:
    """Return the row of an agent, by its run in each drawn world; ``gains`` are the best arms' and uniform rewards."""
    shares, rewards = [], []
    for draw, run in runs.items():
        best, uniform = gains[draw]
        lost = float(run.arrays["regret"][-1]) / users
        shares.append(1 - lost / max(best - uniform, 1e-300))
        rewards.append(made.low + (made.high - made.low) * (best - lost))
    kept = predicted(shares)
    if np.mean([best - uniform < 0.02 * uniform for best, uniform in gains]) > 0.05:
        kept = Interval(kept.value, -1.0, 1.0)  # hardly a gain in some worlds, of which any share may be kept
    first = next(iter(runs.values()))
    name = f"{notion}, epsilon = {epsilon:g}" if epsilon is not None else f"{agent}, not private"
    promise, chosen = str(first.notes.get("privacy", "")), str(first.notes.get("played", agent))
    mean, spread = float(np.mean(rewards)), float(np.std(rewards, ddof=1) * math.sqrt(1 + 1 / len(rewards)))
    earned = Interval.around(mean, float(scipy.special.stdtrit(len(rewards) - 1, 0.975)) * spread)
    return Row(name, notion, epsilon, earned, kept, chosen, promise, deployed, tuple(shares))


def table_of(rows: Sequence[Row], title: str = "") -> Table:
    columns = {"policy": "name", "reward per user": "rewarded", "gain kept": "kept", "agent": "agent"}
    if not any(row.kept for row in rows):
        columns = {"policy": "name", "reward per user": "rewarded"}
    shown = [{key: getattr(row, key) for key in columns.values()} for row in rows]
    return Table(shown, [Column(head, key, True) for head, key in columns.items()], title)


def values_of_arms(log: Log) -> list[tuple[str, int, int, float, Estimate | None]]:
    """Return name, rows, rewards other than 0, effective rows and value of each arm."""
    found, sizes = [], effective_rows(log)
    for arm, name in enumerate(log.about.get("arms") or range(len(sizes))):
        rows = log.actions == arm
        value = None
        if rows.sum() > 1:
            arrays: dict[str, Any] = {key: array[rows] for key, array in log.arrays.items()}
            span = span_of(log)
            mine = Log(**arrays, about=log.about | {"reward_range": span})
            value = self_normalized(mine, 1 / mine.propensities, float(1 / mine.propensities.min()))
        found.append((str(name), int(rows.sum()), int((log.rewards[rows] != 0).sum()), float(sizes[arm]), value))
    return found


def comes(batch: int) -> str:
    """Return when feedback comes, and what would change the answer, in a sentence."""
    if batch == 1:
        return "feedback comes after each user; later feedback keeps less (--batch)."
    return f"feedback comes after each {batch:,} users, which is told to agents; smaller batches keep more."


def seen(mapped: str | None) -> str:
    """Return what agents see, in a sentence."""
    if mapped is None:
        return "agents see them as they are; those that are not linear may earn more by functions of them (--map)."
    return f"agents see public functions of them in their place ({mapped})."


def write_json(path: Path, found: Costs, log: Log) -> None:
    """Write the answer, rows and findings for machines."""
    one = found.gain
    content = {
        "answer": found.answer,
        "conclusive": found.answer == "conclusive",
        "headline": found.headline,
        "gain": {"value": one.value, "low": one.low, "high": one.high, "shown": one.shown, "policy": one.kind},
        "rows_needed": {"lift": found.lift, "low": found.needed[0], "high": found.needed[1]},
        "rows": [asdict(row) for row in found.rows],
        "findings": [asdict(finding) for finding in found.findings],
        "arms": [
            {"arm": name, "rows": rows, "events": events, "effective": size} | (asdict(value) if value else {})
            for name, rows, events, size, value in values_of_arms(log)
        ],
        "users_in_log": len(log),
    }
    with atomic(path) as file:
        json.dump(content, file, indent=1, default=float)


def write_plan(
    path: Path,
    log: Log,
    made: Simulator,
    playing: dict[tuple[str, float | None], tuple[str, dict[str, Any]]],
    near: float,
    users: int,
    terms: dict[str, Any],
) -> None:
    """Write what a service starts from: the schema, the arms, and the agents, those of the budget ``near`` first."""
    agents = [
        {
            "agent": agent,
            "notion": notion,
            "horizon": users,
            "unit": "person" if "people" in given else "visit",
            **given,
        }
        for (notion, epsilon), (agent, given) in playing.items()
        if epsilon is not None
    ]
    agents.sort(key=lambda one: one["epsilon"] != near)
    content = {
        "schema": log.about["schema"],
        "arms": made.arms,
        "reward_range": [made.low, made.high],
        **terms,
        "agents": agents,
    }
    with atomic(path) as file:
        json.dump(content, file, indent=1)


def figure(found: Costs, log: Log) -> Figure:
    """Return the value of each arm by the log, and the share of the gain kept against epsilon if agents played."""
    rows = [row for row in found.rows if row.epsilon is not None]
    drawn, axes = empty_picture(1 + bool(rows))
    # arms
    arms = [(name, value) for name, *_, value in values_of_arms(log) if value is not None]
    arms.sort(key=lambda one: one[1].value)
    axis, places = axes[0], range(len(arms))
    value = np.array([[one.value, one.value - one.low, one.high - one.value] for _, one in arms]).T
    axis.errorbar(value[0], places, xerr=np.maximum(value[1:], 0), fmt="o", markersize=3, color=PALETTE[0])
    axis.axvline(found.gain.own.value, color="#777777", linewidth=0.8, linestyle=":")
    axis.set_yticks(places, [name[:20] for name, _ in arms], fontsize=max(3, 9 - len(arms) // 10))
    axis.set(xlabel="reward of an arm alone, by the log (dotted: the log's own)")
    if not rows:
        return drawn
    shares_by_budget(drawn, axes[1], rows)
    return drawn


def shares_by_budget(drawn: Figure, axis: Axes, rows: Sequence[Row]) -> None:
    """Draw the share of the gain kept against epsilon, a line for each notion."""
    notions = list(dict.fromkeys(row.notion for row in rows))
    for place, notion in enumerate(notions):
        mine = [row for row in rows if row.notion == notion]
        aside = 1.05 ** (place - (len(notions) - 1) / 2)  # so that no interval lies over another
        x = [aside * (row.epsilon or math.nan) for row in mine]
        look: Any = {"color": PALETTE[place], "linestyle": DASHES.get(notion, "-"), "marker": "o", "capsize": 3}
        half = [100 * row.gain.half_width for row in mine]
        axis.errorbar(x, [100 * row.gain.value for row in mine], half, label=NOTIONS[notion], **look)
    axis.set_xscale("log")
    ticks = sorted({row.epsilon for row in rows if row.epsilon is not None})
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set(xlabel="epsilon", ylabel="share of the gain kept (%)", ylim=(min(0, axis.get_ylim()[0]), 115))
    axis.set_yticks([tick for tick in axis.get_yticks() if tick <= 100])
    if ticks:
        axis.set_xlim(ticks[0] / 1.5, ticks[-1] * 1.5)
        drawn.legend(frameon=False, loc="outside lower center", ncols=min(len(notions), 2))


def write_page(path: Path, title: str, found: Costs, log: Log, batch: int = 1, mapped: str | None = None) -> None:
    """Write the page: headline, table, figure, findings, arms, promises, grounds; it needs no other file."""
    reading = "Means with 95 % intervals."
    if found.nearest:
        reading += (
            f" The gain kept is (reward - uniform play) / (best arm - uniform play) of one deployment, over "
            f"{len(found.nearest[0].shares)} worlds that the log leaves possible, one run in each."
        )
    promises = [
        f"{row.name} ({row.agent}): {row.promise}. May be deployed: {row.deployed}."
        for row in found.rows
        if row.epsilon is not None
    ]
    arms = [
        {"arm": name, "rows": rows, "events": events, "effective": round(size)}
        | {"reward": "-" if value is None else Interval(value.value, value.low, value.high).said(four)}
        for name, rows, events, size, value in values_of_arms(log)
    ]
    columns = [Column("arm", "arm", True), Column("rows", "rows"), Column("rewards other than 0", "events")]
    columns += [Column("effective rows", "effective"), Column("reward alone", "reward", True)]
    parts = {
        "title": html.escape(title),
        "headline": html.escape(found.headline),
        "table": table_of(found.rows, reading).html("What privacy would cost"),
        "figure": embedded(figure(found, log), "Reward of each arm, and share of the gain kept against epsilon"),
        "findings": items(map(str, found.findings)),
        "arms": Table(arms, columns, "Arms by the log, with 95 % intervals.").html("Arms"),
        "promises": items(promises) or "<li>No agent played: the log shows no gain to be kept.</li>",
        "grounds": items((*grounds(found, log, batch, mapped), *found.absent)),
    }
    text = files("privbandit_agents.cli").joinpath("cost.html").read_text(encoding="utf-8")
    with atomic(path) as file:
        file.write(Template(text).substitute(parts))


def items(sentences: Iterable[str]) -> str:
    return "\n".join(f"<li>{html.escape(one)}</li>" for one in sentences)


def grounds(found: Costs, log: Log, batch: int, mapped: str | None) -> list[str]:
    """Return the assumptions behind the numbers, and what would change them most, in sentences."""
    kinds = {"one arm": "one arm for all", "linear": "arms by features", "products": "arms by features and products"}
    told = [
        f"Policy: {kinds[found.gain.kind]}, learned from blocks of rows before those that judge it.",
        "Propensities: those of the policy that made the log, given the features. If they are not, no number holds.",
        "Rewards lie between their least and largest one in the log, or in [0, 1]; a larger one would widen intervals.",
    ]
    if found.nearest:
        told += [
            "Model: log-odds or means are linear in the features, and in their products if there are at most ten; "
            "what it cannot follow, agents cannot gain here.",
            f"Batch: {comes(batch)}",
            f"Features: {seen(mapped)}",
        ]
    if log.people is not None:
        told.append(
            f"The unit of privacy is a person: one comes up to {int(np.bincount(log.people).max())} times in this "
            f"log, and each of {int(log.people.max()) + 1:,} persons counts once."
        )
    else:
        told.append("The unit of privacy is a visit: for a person who comes k times the promise is up to k epsilon.")
    told.append("The promise is for future users; those in the log are in this page's numbers without privacy.")
    return told
