"""``privbandit audit``: what was claimed, what was found, and a picture of the two."""

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.random import default_rng
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from scipy.stats import norm

from privbandit_agents.audits.lower_bounds import Claim, Verdict, audit, pilot_runs
from privbandit_agents.audits.published import RUNS
from privbandit_agents.audits.registry import game
from privbandit_envs.files import atomic

CLAIM, FOUND = "#0072b2", "#d55e00"


def run_audit(
    name: str,
    epsilon: float,
    delta: float | None,
    runs: int | None,
    calibration: str,
    seed: int,
    confidence: float,
    console: Console,
) -> tuple[Verdict, str]:
    """Audit a target with a progress bar; return the verdict and the pair of records in words."""
    played = game(name, epsilon, delta, calibration)
    runs = runs or default_runs(name)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"auditing {name}", total=2 * (runs + pilot_runs(runs)))
        show = partial(progress.update, task)
        verdict = audit(played, runs, default_rng(seed), confidence, on_progress=lambda done: show(completed=done))
    return verdict, played.pair


def default_runs(name: str) -> int:
    """Return how many runs of each world an audit has by default."""
    return RUNS.get(name, 20_000)


def verdict_table(verdict: Verdict, pair: str, calibration: str) -> Table:
    """Return the verdict as a table."""
    table = Table(title=f"{verdict.name}, {calibration} calibration", show_header=False, title_justify="left")
    table.add_row("worlds", pair)
    table.add_row("claimed", claim_text(verdict.claim))
    table.add_row(f"lower bound ({100 * verdict.confidence:g} % confidence)", bound_text(verdict))
    table.add_row("event", verdict.event)
    table.add_row("fresh runs of each world", f"{verdict.runs:,}")
    table.add_row("verdict", "REFUTED" if verdict.refuted else "not refuted (which proves nothing)")
    return table


def claim_text(claim: Claim) -> str:
    """Return a claim in words."""
    text = f"epsilon = {claim.epsilon:.4g}" + (f", delta = {claim.delta:g}" if claim.delta else "")
    return text if claim.rho is None else f"{text} (Gaussian type, rho = {claim.rho:.4g})"


def bound_text(verdict: Verdict) -> str:
    """Return what was found in words."""
    text = f"epsilon >= {verdict.lower_bound:.4g}"
    return text if verdict.rho_bound is None else f"{text} (rho >= {verdict.rho_bound:.4g}, the noise being Gaussian)"


def claimed_power(claim: Claim, false: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest true positive rate that the claim allows at false positive rates."""
    if claim.rho is not None:
        return np.asarray(norm.cdf(norm.ppf(false) + (2 * claim.rho) ** 0.5))
    with np.errstate(over="ignore"):
        steep = np.exp(claim.epsilon) * false + claim.delta
    flat = 1 - np.exp(-claim.epsilon) * (1 - claim.delta - false)
    return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))


def draw_trade_off(verdict: Verdict, path: Path) -> None:
    """Write a picture: error rates of the best statistic found, and the region that the claim allows."""
    false = np.linspace(0, 1, 501)
    figure = Figure(figsize=(4.6, 4.4), layout="constrained")
    axes = figure.subplots()
    allowed = claimed_power(verdict.claim, false)
    axes.fill_between(false, false, allowed, color=CLAIM, alpha=0.12, linewidth=0)
    axes.plot(false, allowed, color=CLAIM, label=f"claim: {claim_text(verdict.claim)}")
    order = np.argsort(verdict.curve[0], kind="stable")
    axes.plot(*verdict.curve[:, order], color=FOUND, linestyle="--", label=f"found: {bound_text(verdict)}")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1))
    axes.set_title(f"{verdict.name}: {'refuted' if verdict.refuted else 'not refuted'}", loc="left", fontweight="bold")
    axes.legend(frameon=False, loc="lower right", fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    with atomic(path, "wb") as file:
        figure.savefig(file, format="png", dpi=150)
