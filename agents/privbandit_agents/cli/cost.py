"""``privbandit cost``: the cost of a promise of privacy, estimated from a log of decisions."""

import html
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import gymnasium as gym
import numpy as np
import scipy
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console

from privbandit_agents.cli.manual import deployment
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.results.statistics import Interval
from privbandit_agents.experiments.running.attempt import told
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.text import paragraph
from privbandit_agents.experiments.usage import UNFINISHED, UsageError, unwritten, usage_errors
from privbandit_agents.experiments.views.style import DASHES, NOTIONS, PALETTE, embedded, empty_picture, save
from privbandit_agents.experiments.views.table import Column, Table
from privbandit_agents.logs.estimates import snips
from privbandit_agents.logs.record import Log
from privbandit_agents.logs.simulator import LOG_ENV, Gap, Simulator, check_simulator, simulator
from privbandit_envs.files import atomic
from privbandit_envs.validate import did_you_mean, shown

Floats = NDArray[np.float64]
AGENTS = {"joint": "auto-joint", "shuffle": "shuffle-linucb", "local": "auto-local", "reward": "reward-dp-linucb"}
"""The agent that plays for each notion of privacy."""
REFERENCE = "linucb"


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        name: of a policy, or the notion and budget of an agent.
        notion: ``"none"`` without privacy.
        epsilon: the budget; None without.
        reward: per user, in the log's own unit.
        half_width: of its 95 % interval.
        gain: share of the best arm's gain over uniform play that is kept.
        gain_half_width: of its 95 % interval, by that of the reward.
        agent: the name; "" for a policy.
        promise: in words.
        deployed: whether the agent may be deployed, in words.
    """

    name: str
    notion: str
    epsilon: float | None
    reward: float
    half_width: float
    gain: float
    gain_half_width: float
    agent: str = ""
    promise: str = ""
    deployed: str = ""

    @property
    def rewarded(self) -> str:
        """The reward with its interval."""
        return Interval.around(self.reward, self.half_width).said("{:.4f}".format)

    @property
    def kept(self) -> str:
        """The share of the gain with its interval."""
        return "" if math.isnan(self.gain) else Interval.around(self.gain, self.gain_half_width).said("{:.0%}".format)


@dataclass(frozen=True)
class Costs:
    """The price of privacy, by a log of decisions.

    Attributes:
        rows: policies without privacy first, the best arm last.
        gaps: the check of the simulator against the log, from ``check_simulator``.
        absent: reasons why a notion of privacy has no row, in sentences.
        code: 0, or 4 if some runs failed.
    """

    rows: list[Row]
    gaps: list[Gap]
    absent: list[str]
    code: int

    def __str__(self) -> str:
        sentences = (headline(self.rows), *self.absent, verdict(self.gaps))
        told = (line for one in sentences for line in paragraph(one))
        return "\n".join([*table_of(self.rows).lines(), "", *told])


def cost(
    log: Log,
    epsilons: Sequence[float] = (0.3, 1.0, 3.0),
    notions: Sequence[str] | None = None,
    *,
    out: Path | str = "runs/cost",
    seeds: int = 8,
    users: int | None = None,
    model: str = "auto",
    engine: Engine | None = None,
    err: Console | None = None,
    title: str = "What privacy would cost",
) -> Costs:
    """Play agents of each notion in a log's world, and write the table, the figure and a page into a folder.

    Runs that are in the folder already are not run again.

    Args:
        log: of decisions; contexts of shape (n, d).
        epsilons: the budgets.
        notions: of "joint", "shuffle", "local" and "reward"; default: those that have an agent for the log.
        out: a folder for results, ``cost.html``, ``cost.png`` and ``cost.json``.
        seeds: runs of each agent.
        users: of each run; default: the log's, at most 100,000.
        model: of rewards, as in ``from_log``.
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
        ...     found = cost(decisions, [1.0], ["joint"], out=folder, seeds=2, model="logistic")
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
    # the world
    folder.mkdir(parents=True, exist_ok=True)
    made, env_kwargs = world_in(folder, log, model, err)
    with usage_errors("cost"):
        rows = policies(log, made)
    n = min(len(made), 100_000) if users is None else users  # in seconds, not in minutes
    # who plays
    env = gym.make(LOG_ENV, source=made, horizon=n)

    def asked(epsilon: float | None) -> dict[str, Any]:
        """Return an agent's settings: a budget is a person's if the log has persons."""
        if epsilon is None:
            return {}
        return {"epsilon": epsilon} | ({"people": made.people} if made.visits > 1 else {})

    playing, absent = list(notions or ()), []
    for notion in () if notions else AGENTS:
        try:
            with usage_errors(f"{notion} privacy has no row"):
                Trial(LOG_ENV, AGENTS[notion], n, 0, {}, asked(min(epsilons))).make_agent(env)
            playing.append(notion)
        except UsageError as error:
            absent.append(str(error))
    players: list[tuple[str, str, float | None]] = [(REFERENCE, "none", None)]
    players += [(AGENTS[notion], notion, epsilon) for notion in playing for epsilon in sorted(set(epsilons))]
    with usage_errors("--notions"):
        for agent, _, epsilon in players:
            Trial(LOG_ENV, agent, n, 0, {}, asked(epsilon)).make_agent(env)
    trials = {
        player: [Trial(LOG_ENV, player[0], n, seed, env_kwargs, asked(player[2])) for seed in range(seeds)]
        for player in players
    }
    results, failures = run_jobs([one for each in trials.values() for one in each], folder, engine, err)
    # the table
    uniform, best = rows[0].reward, math.nan if math.isnan(rows[-1].gain) else rows[-1].reward
    for player, mine in trials.items():
        found = [results[one.name] for one in mine if one.name in results]
        if found:
            rows.insert(len(rows) - 1, played(player, found, made, (uniform, best), deployment(player[0], env)))
    gaps = check_simulator(made)
    lost = unwritten(
        folder,
        {
            "cost.json": lambda: write_json(folder / "cost.json", rows, gaps, made),
            "cost.png": lambda: save(figure(rows), folder / "cost.png"),
            "cost.html": lambda: write_page(folder / "cost.html", title, rows, gaps, absent, made, log, n, seeds),
        },
    )
    for line in (*told(failures), *lost):
        print(line, file=sys.stderr)
    return Costs(rows, gaps, absent, UNFINISHED if failures or lost else 0)


def world_in(folder: Path, log: Log, model: str, err: Console | None) -> tuple[Simulator, dict[str, str]]:
    """Return the log's world, and the arguments by which workers have it from a file that is named by its digest.

    It is fitted anew, since the log may have changed.
    """
    if err is not None:
        err.print(f"fitting models of {len(log):,} rewards ...", highlight=False)
    with usage_errors("cost"):
        made = simulator(log, model)  # type: ignore[arg-type]
    path = (folder / f"world-{made.digest}.npz").absolute()
    made.write(path)
    return made, {"source": str(path), "digest": made.digest}


def policies(log: Log, made: Simulator) -> list[Row]:
    """Return uniform play, the logged policy, and the best arm by the model, with intervals of the log's rows."""
    n, arms = made.means.shape
    span = made.high - made.low
    uniform = made.judged(np.full((n, arms), 1 / arms))
    best = made.judged(np.eye(arms)[made.ahead], np.flatnonzero(made.ahead >= 0))
    own = snips(replace(made.log, propensities=np.ones(n)), np.eye(arms)[made.actions])
    found = {"uniform play": uniform, "the log's own policy": own, "best arm by the model": best}
    rows = [
        (name, min(max(one.value, 0.0), 1.0), max(one.high - one.value, one.value - one.low))
        for name, one in found.items()
    ]
    gap = best.value - uniform.value
    if gap <= np.hypot(best.value - best.low, uniform.high - uniform.value):  # no gain is shown
        gap = math.nan
    return [
        Row(
            name,
            "none",
            None,
            made.low + span * value,
            span * half,
            (value - rows[0][1]) / gap,
            half / gap,
        )
        for name, value, half in rows
    ]


def played(
    player: tuple[str, str, float | None],
    found: Sequence[Finished],
    made: Simulator,
    ends: tuple[float, float],
    deployed: str,
) -> Row:
    """Return the row of an agent, by its runs; ``ends`` are the rewards of uniform play and of the best arm."""
    agent, notion, epsilon = player
    mean, half = estimated([run.arrays["reward"] for run in found], found[0].arrays["checkpoints"], len(made))
    span = made.high - made.low
    reward, half = made.low + span * mean, span * half
    gain, gain_half = (reward - ends[0]) / (ends[1] - ends[0]), half / (ends[1] - ends[0])
    name = f"{notion}, epsilon = {epsilon:g}" if epsilon is not None else f"{agent}, not private"
    promise = str(found[0].notes.get("privacy", ""))
    chosen = str(found[0].notes.get("played", agent))
    return Row(name, notion, epsilon, reward, half, gain, gain_half, chosen, promise, deployed)


def estimated(curves: Sequence[Floats], checkpoints: NDArray[Any], rows: int) -> tuple[float, float]:
    """Return an agent's reward per user, and the half width of its 95 % interval.

    Two things are uncertain. The log has ``rows`` rows of all that there could be: their variance is that of the means
    of successive blocks about each other, which a slow trend of learning leaves alone. And runs differ by seed.

    Args:
        curves: cumulative rewards of each run at the checkpoints, shape (c,) each.
        checkpoints: numbers of users, shape (c,).
        rows: of the log.
    """
    sizes = np.diff(checkpoints, prepend=0)
    users = int(checkpoints[-1])
    blocks = np.diff(np.stack(curves), axis=1, prepend=0.0) / sizes
    each = blocks @ sizes / users
    between = 1 / sizes[1:] + 1 / sizes[:-1]
    variance = float(np.mean(np.diff(blocks, axis=1) ** 2 / between)) if len(sizes) > 1 else 0.0
    sampled = 1.96**2 * variance / min(users, rows)
    seeds = len(each)
    seeded = scipy.special.stdtrit(seeds - 1, 0.975) ** 2 * each.var(ddof=1) / seeds if seeds > 1 else 0.0
    return float(each.mean()), float(np.sqrt(sampled + seeded))


def table_of(rows: Sequence[Row], title: str = "") -> Table:
    columns = {"policy": "name", "reward per user": "rewarded", "gain kept": "kept", "agent": "agent"}
    shown = [{key: getattr(row, key) for key in columns.values()} for row in rows]
    return Table(shown, [Column(head, key, True) for head, key in columns.items()], title)


def headline(rows: Sequence[Row]) -> str:
    """Return the answer in a sentence or two: the agents at the budget nearest to 1."""
    private = [row for row in rows if row.epsilon is not None]
    if not private:
        return "No private agent could be run."
    if math.isnan(private[0].gain):
        return (
            f"This log cannot tell whether any choice of arms earns more than uniform play's {rows[0].rewarded} per "
            f"user: the best arm by the model, judged by rows that did not choose it, earns {rows[-1].rewarded}."
        )
    near = min({row.epsilon for row in private if row.epsilon}, key=lambda epsilon: abs(math.log(epsilon)))
    kept = [f"{row.notion} privacy keeps {told_share(row)}" for row in private if row.epsilon == near]
    ends = f"{rows[0].reward:.4g} per user with uniform play and {rows[-1].reward:.4g} with the best arm"
    return f"At epsilon = {near:g}, {listed(kept)} of the gain, which lies between {ends}."


def told_share(row: Row) -> str:
    """Return a share with its interval; a wide one on both sides of a half is none."""
    low, high = row.gain - row.gain_half_width, row.gain + row.gain_half_width
    wide = high - low > 0.3 and low <= 0.5 <= high  # widths and sides that answer no question
    return f"{'a share that this log cannot tell, ' * wide}{row.kept}"


def listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def verdict(gaps: Sequence[Gap]) -> str:
    """Return how far simulation and log are apart, in a sentence."""
    off = [gap for gap in gaps if gap.off]
    if weights := [gap for gap in off if gap.policy.startswith("the weights")]:
        one = weights[0]
        return (
            f"Warning: {one.policy} have mean {one.logged:.3g} ({one.low:.3g} to {one.high:.3g}), not 1: propensities "
            "are not those of the policy that made the log, or some users had hardly a chance of it. No number "
            "here can be trusted."
        )
    if off:
        one = off[0]
        return (
            f"Warning: for {one.policy} the model gives {one.simulated:.4g} and the log {one.logged:.4g} "
            f"({one.low:.4g} to {one.high:.4g}): the model of rewards is wrong. Rewards per user are corrected by the "
            "log; how well agents learn is not."
        )
    return f"The model of rewards agrees with the log on {len(gaps)} checks, within what chance explains."


def write_json(path: Path, rows: Sequence[Row], gaps: Sequence[Gap], made: Simulator) -> None:
    """Write rows and checks for machines."""
    content = {
        "rows": [asdict(row) for row in rows],
        "checks": [asdict(gap) | {"off": bool(gap.off)} for gap in gaps],
        "model": made.kind,
        "losses": made.losses,
        "users_in_log": len(made),
    }
    with atomic(path) as file:
        json.dump(content, file, indent=1, default=float)


def figure(rows: Sequence[Row]) -> Figure:
    """Return the share of the gain kept against epsilon, a line for each notion."""
    drawn, (axis,) = empty_picture(1)
    notions = list(dict.fromkeys(row.notion for row in rows if row.epsilon is not None))
    for place, notion in enumerate(notions):
        mine = [row for row in rows if row.notion == notion and row.epsilon is not None]
        aside = 1.05 ** (place - (len(notions) - 1) / 2)  # so that no interval lies over another
        x = [aside * (row.epsilon or math.nan) for row in mine]
        look: Any = {"color": PALETTE[place], "linestyle": DASHES.get(notion, "-"), "marker": "o", "capsize": 3}
        gain, half = [100 * row.gain for row in mine], [100 * row.gain_half_width for row in mine]
        axis.errorbar(x, gain, half, label=NOTIONS[notion], **look)
    for row in rows:
        if row.epsilon is None and 0 < row.gain < 1:
            axis.axhline(100 * row.gain, color="#777777", linewidth=0.8, linestyle=":")
            axis.annotate(row.name, (1.02, 100 * row.gain), xycoords=("axes fraction", "data"), va="center")
    axis.set_xscale("log")
    ticks = sorted({row.epsilon for row in rows if row.epsilon is not None})
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set(xlabel="epsilon", ylabel="share of the gain kept (%)", ylim=(min(0, axis.get_ylim()[0]), 115))
    axis.set_yticks([tick for tick in axis.get_yticks() if tick <= 100])
    if notions:
        axis.set_xlim(ticks[0] / 1.5, ticks[-1] * 1.5)
        drawn.legend(frameon=False, loc="outside lower center", ncols=min(len(notions), 2))
    return drawn


def write_page(
    path: Path,
    title: str,
    rows: Sequence[Row],
    gaps: Sequence[Gap],
    absent: Sequence[str],
    made: Simulator,
    log: Log,
    users: int,
    seeds: int,
) -> None:
    """Write the page: headline, table, figure, promises, grounds; it needs no other file."""
    reading = (
        f"Means over {users:,} users and {seeds} seeds, with 95 % intervals. The gain kept is (reward - uniform play) "
        "/ (best arm - uniform play)."
    )
    promises = [
        f"<li>{html.escape(row.name)} ({html.escape(row.agent)}): {html.escape(row.promise)}. May be deployed: "
        f"{html.escape(row.deployed)}.</li>"
        for row in rows
        if row.epsilon is not None
    ]
    parts = {
        "title": html.escape(title),
        "headline": html.escape(headline(rows)),
        "table": table_of(rows, reading).html("What privacy would cost"),
        "figure": embedded(figure(rows), "Share of the gain kept against epsilon, by kind of privacy"),
        "promises": "\n".join(promises),
        "grounds": "\n".join(f"<li>{html.escape(ground)}</li>" for ground in (*grounds(gaps, made, log), *absent)),
    }
    text = files("privbandit_agents.cli").joinpath("cost.html").read_text(encoding="utf-8")
    with atomic(path) as file:
        file.write(Template(text).substitute(parts))


def grounds(gaps: Sequence[Gap], made: Simulator, log: Log) -> list[str]:
    """Return the assumptions behind the numbers, in sentences."""
    losses = ", ".join(f"{kind} {value:.4f}" for kind, value in made.losses.items())
    unit = "log loss" if not made.noise else "squared error"
    found = [
        verdict(gaps),
        f"Rewards are modeled by {made.kind}; {unit} on rows that a model has not seen: {losses}.",
        "Rewards per user are doubly robust: the log's own rewards correct the model's error.",
    ]
    if "propensities" in log.about:
        found.append(
            "Propensities were estimated from the features: right only if the logging policy saw nothing else."
        )
    if made.visits > 1:
        found.append(
            f"The unit of privacy is a person: one comes up to {made.visits} times in this log, and each of "
            f"{made.people:,} persons counts once."
        )
    else:
        found.append("The unit of privacy is a visit: for a person who comes k times the promise is up to k epsilon.")
    found.append("The promise is for future users; those in the log are in this page's numbers without privacy.")
    return found
