"""``privbandit audit``: what was claimed, what was found, and a picture of the two."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from matplotlib.figure import Figure
from numpy.random import default_rng
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from privbandit_agents.audits.claims import AuditResult, Claim, Game
from privbandit_agents.audits.lower_bounds import audit, pilot_runs, power
from privbandit_agents.experiments.fields import at_most
from privbandit_agents.experiments.spec.yaml_text import from_yaml
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_envs.files import atomic

CLAIM, FOUND = "#0072b2", "#d55e00"
MOST_RUNS = 10**8
STRONGER = 1.25
"""An audit says what it would have found if the true epsilon were so many times the claim."""


def config_of(assignments: Sequence[str]) -> dict[str, Any]:
    """Return the settings that ``key=value`` assignments give; values are YAML."""
    config = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not (equals and key.strip()):
            raise UsageError(f"--set takes key=value, a setting of the agent; got {assignment!r}.")
        with usage_errors(f"--set {key}"):
            config[key.strip()] = from_yaml(text)
    return config


def run_audit(game: Game, runs: int | None, seed: int, confidence: float, console: Console) -> AuditResult:
    runs = game.runs if runs is None else at_most(MOST_RUNS, runs=runs)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"auditing {game.name}", total=2 * (runs + pilot_runs(runs)))
        show = partial(progress.update, task)
        return audit(game, runs, default_rng(seed), confidence, on_progress=lambda done: show(completed=done))


def found_power(game: Game, truth: Game | None, result: AuditResult, seed: int, console: Console) -> str:
    """Return in words what such an audit finds if the true epsilon is ``STRONGER`` times the claim."""
    if truth is None:
        return "unknown: nothing says how to make the target's epsilon larger"
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("its power", total=2 * (result.runs + pilot_runs(result.runs)))
        show = partial(progress.update, task)
        share = power(
            game.claim,
            truth,
            result.runs,
            default_rng([seed, 1]),
            result.confidence,
            on_progress=lambda done: show(completed=done),
        )
    true = game.claim.epsilon * STRONGER
    return f"{100 * share:.0f} of 100 such audits refute the claim if the true epsilon is {true:.3g}"


def result_table(result: AuditResult, game: Game, calibration: str, power: str = "") -> Table:
    """Return what an audit found, where it looked and where it did not, and its power in words."""
    table = Table(title=f"{result.name}, {calibration} calibration", show_header=False, title_justify="left")
    table.add_row("worlds", game.pair)
    table.add_row("looked at", game.seen)
    table.add_row("could not see", game.unseen)
    table.add_row("claimed", claim_text(result.claim))
    table.add_row(f"lower bound ({100 * result.confidence:g} % confidence)", bound_text(result))
    table.add_row("event", result.event)
    table.add_row("fresh runs of each world", f"{result.runs:,}")
    if power:
        table.add_row("power", power)
    table.add_row("verdict", "REFUTED" if result.refuted else "not refuted (which proves nothing)")
    return table


def claim_text(claim: Claim) -> str:
    text = f"epsilon = {claim.epsilon:.4g}" + (f", delta = {claim.delta:g}" if claim.delta else "")
    return text if claim.rho is None else f"{text} (Gaussian type, rho = {claim.rho:.4g})"


def bound_text(result: AuditResult) -> str:
    text = f"epsilon >= {result.lower_bound:.4g}"
    return text if result.rho_bound is None else f"{text} (rho >= {result.rho_bound:.4g}, the noise being Gaussian)"


def claimed_power(claim: Claim, false: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest true positive rate that the claim allows at false positive rates."""
    if claim.rho is not None:
        return np.asarray(scipy.stats.norm.cdf(scipy.stats.norm.ppf(false) + (2 * claim.rho) ** 0.5))
    with np.errstate(over="ignore"):
        steep = np.exp(claim.epsilon) * false + claim.delta
    flat = 1 - np.exp(-claim.epsilon) * (1 - claim.delta - false)
    return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))


def draw_trade_off(result: AuditResult, path: Path) -> None:
    """Write a picture: error rates of the best statistic found, and the region that the claim allows."""
    false = np.linspace(0, 1, 501)
    figure = Figure(figsize=(4.6, 4.4), layout="constrained")
    axes = figure.subplots()
    allowed = claimed_power(result.claim, false)
    axes.fill_between(false, false, allowed, color=CLAIM, alpha=0.12, linewidth=0)
    axes.plot(false, allowed, color=CLAIM, label=f"claim: {claim_text(result.claim)}")
    order = np.argsort(result.curve[0], kind="stable")
    axes.plot(*result.curve[:, order], color=FOUND, linestyle="--", label=f"found: {bound_text(result)}")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1))
    axes.set_title(f"{result.name}: {'refuted' if result.refuted else 'not refuted'}", loc="left", fontweight="bold")
    axes.legend(frameon=False, loc="lower right", fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    with atomic(path, "wb") as file:
        figure.savefig(file, format="png", dpi=150)
