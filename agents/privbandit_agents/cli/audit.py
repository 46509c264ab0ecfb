"""``privbandit audit``: the claim, the finding, and a picture of the two."""

import functools
import json
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.random import default_rng
from numpy.typing import NDArray
from rich.console import Console

from privbandit_agents.audits.claims import AuditResult, Claim, Game
from privbandit_agents.audits.lower_bounds import audit, plays, power_of_less_noise
from privbandit_agents.audits.lower_bounds import power as power_by_runs
from privbandit_agents.experiments.running.progress import LATE, Steps, duration
from privbandit_agents.experiments.schema.yaml_text import from_yaml
from privbandit_agents.experiments.text import paragraph, strong, table
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_agents.experiments.views.audits import CLAIM, FOUND, REFUTED, RIGHT, Audit
from privbandit_envs.files import atomic

STRONGER = 1.25
"""Factor on the claim for the true epsilon at which an audit reports its power."""
FACTORS = (STRONGER, 1.5, 2.0)
"""The same, if the audit's own runs show it."""
LARGE, HALF, SIZES = 2.0, 0.5, (4, 16, 64)
"""An audit says nothing if it has less than this power at so many times the claim; larger sizes that are tried then."""


def settings_of(name: str, assignments: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an agent's settings and its world's; values are YAML.

    The agent's are ``KEY=VALUE``, ``agent.KEY=VALUE`` or ``NAME.KEY=VALUE``, the world's ``env.KEY=VALUE``.
    """
    config, world = dict[str, Any](), dict[str, Any]()
    for assignment in assignments:
        place, equals, text = assignment.partition("=")
        target, _, key = place.strip().rpartition(".")
        if not (equals and key):
            raise UsageError(f"--set takes KEY=VALUE, a setting of the agent, or env.KEY=VALUE; got {assignment!r}.")
        if target not in ("", "agent", "env", name, name.rpartition(":")[2]):
            raise UsageError(f"--set of an audit is {key}=VALUE, of the agent, or env.{key}=VALUE; got {assignment!r}.")
        with usage_errors(f"--set {key}"):
            (world if target == "env" else config)[key] = from_yaml(text)
    return config, world


class Found(NamedTuple):
    """The finding of an audit by one game, and its power.

    Attributes:
        game: that was played.
        result: its finding.
        power: share of such audits that refute the claim, by how many times the claim the true epsilon is; empty where
            no way to make it larger is known, or where nothing that the game looks at moved; None if it was not asked
            for or if the claim is refuted anyway.
        enough: fresh runs from which on half of such audits refute the claim, if the truth is twice it and these runs
            do not; 0: not known.
    """

    game: Game
    result: AuditResult
    power: dict[float, float] | None
    enough: int = 0


def audited(
    games: Sequence[Game],
    truths: Callable[[float], Sequence[Game] | None],
    power: bool,
    runs: int | None,
    seed: int,
    confidence: float,
    console: Console,
) -> list[Found]:
    """Play all games of a target; return what each found, and its power.

    With several games each bound holds with enough confidence that all of them hold together (Bonferroni).

    Args:
        games: of the target.
        truths: makes the same games with an epsilon that is so many times as large.
        power: whether to estimate it.
        runs: fresh runs of each world; None: by game.
        seed: of everything.
        confidence: of all bounds together.
        console: where progress is shown.

    Returns:
        The findings; of fewer games if Ctrl-C was pressed.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1); got {confidence:g}.")
    each, truth = 1 - (1 - confidence) / len(games), functools.cache(truths)
    found: list[Found] = []
    announce(games, runs, seed, power, console)
    for k, game in enumerate(games):
        try:
            result, shares = run_audit(game, runs, seed, each, console), None
            found.append(Found(game, result, None))
            if power and not result.refuted:
                # what the audit's own runs show, if they do
                asked = () if game.blind else FACTORS
                seen = {factor: power_of_less_noise(result, factor, default_rng([seed, 1])) for factor in asked}
                shares = {factor: share for factor, share in seen.items() if share is not None}
                if not shares and not game.blind:
                    shares = played_power(game, truth, k, result, seed, console)
                size = 0 if shares.get(LARGE, 1.0) >= HALF else enough(game, truth, k, result, seed)
                found[-1] = Found(game, result, shares, size)
        except KeyboardInterrupt:
            break
    return found


def verdict(found: Sequence[Found], confidence: float) -> str:
    """Return a line on the joint finding of a target's games, and a second one on presumptions, if any."""
    told, presumed = [one.result for one in found], [one.result.presumed for one in found if one.result.presumed]
    lines = [said(told, confidence, len(found) > 1)]
    known, refuted = best_power(found), any(result.refuted for result in told)
    if not refuted and known.get(LARGE, (1.0, ""))[0] < HALF:
        sizes = [one.enough for one in found if one.enough]
        later = (
            f"from about {min(sizes):,} runs on it could (--runs)" if sizes else f"{SIZES[-1]} times the runs do not"
        )
        lines[0] = f"not auditable: of twice the claim an audit of this size finds {short(known[LARGE][0])}; {later}"
    elif not refuted and all(one.power == {} and one.game.blind for one in found):
        lines[0] = "not auditable: nothing that was looked at moved"
    elif STRONGER in known and not refuted:
        share, part = known[STRONGER]
        lines[0] += f"; power at {STRONGER:g} times: {short(share)}" + (
            f" by {part}" if part and len(found) > 1 else ""
        )
    if presumed:
        lines.append(f"if all noise is Gaussian, as the agent declares: {said(presumed, confidence, len(found) > 1)}")
    return "\n".join(lines)


def colored(verdict: str) -> list[str]:
    """Return the lines of a verdict as the terminal shows them: red if it is refuted."""
    folded = [list(paragraph(line)) for line in verdict.splitlines()]
    red = [line[0].startswith("REFUTED") for line in folded]
    return [strong(part, "31") if is_red else part for lines, is_red in zip(folded, red, strict=True) for part in lines]


def said(results: Sequence[AuditResult], confidence: float, several: bool) -> str:
    """Return the verdict of results: the bound that refutes most, or the strongest one."""
    best = max(results, key=lambda one: (one.refuted, one.share))
    name, bound = "epsilon" if best.claim.rho is None else "rho", best.bound
    if best.refuted:
        by = f" by {best.name.partition(', ')[2]}" if several and ", " in best.name else ""
        return f"REFUTED{by}: {name} >= {short(bound)} at {100 * confidence:.6g} %"
    by = f" by {best.name.partition(', ')[2]}" if several and ", " in best.name and best.bound else ""
    return f"not refuted: strongest bound {short(bound)} of {name} {short(best.claim.level)}{by}".replace(
        "of epsilon ", "of "
    )


def best_power(found: Sequence[Found]) -> dict[float, tuple[float, str]]:
    """Return the largest power of all games, and the game's part, by how many times the claim the true epsilon is."""
    best: dict[float, tuple[float, str]] = {}
    for one in found:
        for factor, share in (one.power or {}).items():
            best[factor] = max(best.get(factor, (-1.0, "")), (share, one.game.part))
    return best


def short(number: float) -> str:
    """Return a number as a line has it: 1.32, .56, .0314."""
    text = f"{number:.2f}" if number >= 0.1 or not number else f"{number:.3g}"
    return text.removesuffix(".00").removeprefix("0") or "0"


def run_audit(game: Game, runs: int | None, seed: int, confidence: float, console: Console) -> AuditResult:
    runs = game.runs if runs is None else runs
    with progress_of(f"auditing {game.title}", plays(game, runs), console) as show:
        return audit(game, runs, default_rng(seed), confidence, on_progress=show)


def played_power(
    game: Game,
    truths: Callable[[float], Sequence[Game] | None],
    k: int,
    result: AuditResult,
    seed: int,
    console: Console,
) -> dict[float, float]:
    """Return the power by runs of the target with ``STRONGER`` times its epsilon, and with ``LARGE`` if that is little.

    Empty if there is no such target.
    """
    found: dict[float, float] = {}
    for factor in (STRONGER, LARGE):
        truth = larger(game, truths, k, factor) if found.get(STRONGER, 0.0) < HALF else None
        if truth is not None:
            with progress_of("its power", plays(truth, result.runs), console) as show:
                rng = default_rng([seed, 1])
                found[factor] = power_by_runs(game.claim, truth, result.runs, rng, result.confidence, on_progress=show)
    return found


def larger(game: Game, truths: Callable[[float], Sequence[Game] | None], k: int, factor: float) -> Game | None:
    """Return the k-th game with ``factor`` times its epsilon; None if there is none."""
    truth = game.stronger(factor)
    several = truths(factor) if truth is None else None
    return truth if several is None else several[k]


def enough(game: Game, truths: Callable[[float], Sequence[Game] | None], k: int, result: AuditResult, seed: int) -> int:
    """Return from how many runs on half of the audits find ``LARGE`` times the claim; 0: it takes yet more."""
    for times in SIZES:
        share = power_of_less_noise(result, LARGE, default_rng([seed, 1]), 20, times)
        if share is None and (truth := larger(game, truths, k, LARGE)) is not None:
            rng = default_rng([seed, 1])
            share = power_by_runs(game.claim, truth, result.runs, rng, result.confidence, 8, times=times)
        if share is not None and share >= HALF:
            return times * result.runs
    return 0


def announce(games: Sequence[Game], runs: int | None, seed: int, power: bool, console: Console) -> None:
    """Say how long an audit will take, if that is long: by the time of a few runs of each game.

    They are of generators of their own, so that no number of the audit depends on them.
    """
    seconds = 0.0
    for game in games:
        few, spent = 2, 0.0
        while few < 1024 and spent < 0.1:  # mechanisms play many runs at once
            few, started = 8 * few, time.perf_counter()
            game.play(0, few, default_rng([seed, 2]))
            spent = time.perf_counter() - started
        seconds += spent / few * plays(game, game.runs if runs is None else runs)
    if seconds >= LATE:
        known = len(games), sum(game.runs if runs is None else runs for game in games)
        further = ", and its power may take as long again" if power else ""
        told = f"{known[0]} game{'s' * (known[0] > 1)}, {known[1]:,} runs of each world"
        console.print(f"about {duration(seconds)}: {told}{further}.", highlight=False, soft_wrap=False)


@contextmanager
def progress_of(what: str, total: int, console: Console) -> Iterator[Callable[[int], None]]:
    """Show progress; yield the function to call with the number of runs done."""
    with Steps(total, "runs", console, what) as steps:
        yield lambda done: steps.show(done, what)


def power_text(claim: Claim, power: dict[float, float]) -> str:
    """Return in words which share of such audits refute a claim, if the true epsilon is larger by a factor."""
    if not power:
        return "unknown: the target has no larger epsilon to compare with"
    name = "epsilon" if np.isfinite(claim.epsilon) else "rho"
    told = [f"{100 * share:.0f} if it is {getattr(claim.times(factor), name):.3g}" for factor, share in power.items()]
    return ", ".join(told).replace(" if it is", f" of 100 such audits refute the claim if the true {name} is", 1)


def result_lines(found: Found, calibration: str) -> Iterator[str]:
    """Yield an audit's finding, where it looked and where it did not, and its power in words."""
    game, result, power, _ = found
    rows = [("worlds", game.pair), ("looked at", game.seen), ("could not see", game.unseen)]
    rows.append(("claimed", claim_text(result.claim)))
    rows.append((f"found ({100 * result.confidence:.6g} %)", bound_text(result)))
    rows.append(("event", result.event))
    guessed = f"{result.runs:,}, each with {game.canaries} canaries; the audit guesses their coins"
    rows.append(("runs", guessed if game.canaries else f"{result.runs:,} fresh ones of each world"))
    if power is not None:
        nothing = "none: nothing that was looked at moved"
        rows.append(("power", nothing if game.blind else power_text(result.claim, power)))
    rows.append(("verdict", "REFUTED" if result.refuted else "not refuted (which proves nothing)"))
    if result.presumed is not None:
        bound, words = bound_text(result.presumed), "REFUTED" if result.presumed.refuted else "not refuted"
        rows.append(("if its noise is Gaussian", f"{words}: {bound}, which is no verdict on the claim"))
    red = {place: "31" for place, (label, text) in enumerate(rows) if label == "verdict" and result.refuted}
    yield from paragraph(f"{result.name}, {calibration} calibration")
    yield from table(rows, colors=red)


def claim_text(claim: Claim) -> str:
    text = f"epsilon = {claim.epsilon:.4g}" + (f", delta = {claim.delta:g}" if claim.delta else "")
    return text if claim.rho is None else f"{text} (rho = {claim.rho:.4g})"


def bound_text(result: AuditResult) -> str:
    if result.claim.rho is None:
        return f"epsilon >= {result.bound:.4g}"
    return f"rho >= {result.bound:.4g} (epsilon = {result.lower_bound:.4g} of Gaussian noise)"


def claimed_power(claim: Claim, false: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the true positive rates that a claim of epsilon allows at false ones, or that Gaussian noise has."""
    if claim.rho is not None:
        return np.asarray(scipy.special.ndtr(scipy.special.ndtri(false) + (2 * claim.rho) ** 0.5))
    with np.errstate(over="ignore"):
        steep = np.exp(claim.epsilon) * false + claim.delta
    flat = 1 - np.exp(-claim.epsilon) * (1 - claim.delta - false)
    return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))


def numbers_of(found: Found) -> dict[str, Any]:
    """Return an audit's finding and its power as JSON values."""
    game, result, power, _ = found
    claim = {
        key: value if np.isfinite(value) else None for key, value in vars(result.claim).items() if value is not None
    }
    told = {"target": result.name, "claim": claim, "confidence": result.confidence, "runs": result.runs}
    told |= {"epsilon": result.lower_bound, "rho": result.rho_bound, "refuted": result.refuted, "event": result.event}
    if result.presumed is not None:
        one = result.presumed
        told["presumed"] = {"epsilon": one.lower_bound, "rho": one.rho_bound, "refuted": one.refuted}
    told |= {"worlds": game.pair, "seen": game.seen, "unseen": game.unseen, "canaries": game.canaries, "power": power}
    return told


def write_numbers(found: Found, path: Path) -> None:
    """Write an audit's finding and its power as JSON."""
    with atomic(path, "wb") as file:
        file.write((json.dumps(numbers_of(found), indent=2) + "\n").encode())


def picture(found: Found, curve: bool = False) -> Figure:
    """Return the verdict on one scale; below it, if asked for, the error rates beside those that the claim allows."""
    result, seen = found.result, Audit.model_validate_json(json.dumps(numbers_of(found)))
    both = curve or seen.found is None
    figure = Figure(figsize=(5.6, 6.8) if both else (5.6, 1.9), layout="constrained", dpi=150)
    above, *below = figure.subplots(2, 1, height_ratios=(1, 3.4)) if both else [figure.subplots()]
    verdict = "the claim is REFUTED" if result.refuted else "not refuted, which proves nothing"
    figure.suptitle(textwrap.fill(f"{result.name}: {verdict}", 56), x=0.01, ha="left", fontweight="bold", fontsize=12)
    if seen.found is None:
        above.remove()
    else:
        draw_scale(above, seen.found, seen.shares, result)
    for axes in below:
        draw_trade_off(axes, found)
    return figure


def draw_scale(axes: Axes, share: float, power: Mapping[float, float], result: AuditResult) -> None:
    """Draw the finding as a bar, the claim as an upright line, and the power at some multiples of the claim."""
    right = max(RIGHT, 1.05 * min(share, 50.0))  # pictures end at 50 times the claim
    axes.barh(0, min(share, right), height=0.5, color=REFUTED if result.refuted else FOUND)
    axes.axvline(1, color=CLAIM, linewidth=2.5)
    axes.set_title(f"found: {bound_text(result)}\nclaimed: {claim_text(result.claim)}", loc="left", fontsize=9)
    for times, found in power.items():
        axes.plot(
            times, 0, "o", color=CLAIM, markerfacecolor=(*to_rgb(CLAIM), found), markersize=9, markeredgewidth=1.2
        )
        axes.annotate(f"{found:.0%}", (times, 0.42), ha="center", fontsize=9, color=CLAIM)
    what = "epsilon over the claim" + ("; dots: how many audits refute it there" if power else "")
    axes.set(xlim=(0, right), ylim=(-0.5, 0.9), yticks=[], xlabel=what)
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw_trade_off(axes: Axes, found: Found) -> None:
    """Draw error rates of the best statistic found with their band, and the region that the claim allows.

    The band holds for all thresholds together with the audit's confidence (Dvoretzky, Kiefer and Wolfowitz, with the
    constant of Massart 1990, for the rates of either world). Guesses of canaries have none: their runs are not
    independent users. A dotted curve is the region of a claim that is ``STRONGER`` times as large.
    """
    result, power = found.result, found.power or {}
    false = np.linspace(0, 1, 501)
    allowed = claimed_power(result.claim, false)
    axes.fill_between(false, false, allowed, color=CLAIM, alpha=0.12, linewidth=0)
    most = "Gaussian noise of the claim" if result.claim.rho else "the most that the claim allows"
    axes.plot(false, allowed, color=CLAIM, label=most)
    if STRONGER in power:
        more = claimed_power(result.claim.times(STRONGER), false)
        axes.plot(false, more, color=CLAIM, linestyle=":", label=f"at {STRONGER:g} times the claim")
    seen = result.curve[:, np.argsort(result.curve[0], kind="stable")]
    seen = np.concatenate([[[0.0], [0.0]], seen, [[1.0], [1.0]]], axis=1)  # who never or always says yes
    label = "seen"
    if not found.game.canaries:
        gap = np.sqrt(np.log(4 / (1 - result.confidence)) / (2 * result.runs))
        low, high = np.interp(false, seen[0] + gap, seen[1] - gap), np.interp(false, seen[0] - gap, seen[1] + gap)
        axes.fill_between(false, low.clip(0, 1), high.clip(0, 1), color=FOUND, alpha=0.2, linewidth=0)
        label = f"seen, with a {100 * result.confidence:.6g} % band"
    axes.plot(*seen, color=FOUND, linestyle="--", label=label)
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
