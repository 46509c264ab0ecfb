"""What audits would find: for every target, the power of its default runs at 1.1, 1.25, 1.5 and 2 times the claim.

The power is the share of audits that refute the claim if the truth is so many times it. Where noise is Gaussian, and
where canaries are guessed, the audit's own runs tell it; elsewhere the target is played with a larger budget: by all
factors at epsilon = 1, by 1.25 alone at 0.5 and 4. Rows are kept in a file as they are measured, and a second call goes
on from there. Seconds are of the CPU, for games, audit and the power at 1.25 together.

``--table docs/privacy/audit-power.csv`` plays nothing. It writes that file: every target of ours at epsilon = 1.
Power comes from the file of the rows, else from the table, unless the default runs have changed.

``--noise`` prints which power the conformance suite's test of published noise has, which sees exact values.

``--strangers`` prints which faults of somebody else's joint agents are found instead.

``--honest`` prints how often audits refute what keeps its promise, at 95 and at 99.9 %, both read from the same audits:
400 audits with 1000 runs of each of twelve laws, and 40 at quick effort of each of eight agents, whose games are
prepared once; with ``--only NAME`` 200 of an agent of the zoo. Beside each number stands what one in a thousand such
numbers exceeds if audits err as often as is said.

``--mistakes`` prints which of the agents with one mistake each are refuted, and whether the same agents without it are.
"""

import csv
import io
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from harness import Line, options, results, written
from privbandit_agents.audits.lower_bounds import audit, power, power_of_less_noise
from privbandit_agents.audits.pairs.records import WORLDS
from privbandit_agents.audits.registry import TARGETS, WATCH, game_classes, games, prepared, private_agents, stronger
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.testing import HORIZON, check_agent
from privbandit_agents.testing.noise import drawn, draws, together
from privbandit_agents.testing.noise import power as by_noise
from privbandit_agents.testing.runs import environment
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import can_play, find
from scipy.stats import binom

FACTORS = (1.1, 1.25, 1.5, 2.0)
CLAIMS = (0.5, 1.0, 4.0)
STATED = 1.25
"""Of ``FACTORS``: the one that ``privbandit audit`` states, and that is measured at all claims."""
REPEATS = 40
"""Audits that are repeated on the runs of a target with a larger budget, but for the factor that is stated."""
CONFIDENCE = 0.999
ENOUGH = 0.9
"""Power that an audit should have at 1.25 times its claim."""
STRANGERS = Path(__file__).parents[1] / "tests" / "agents" / "audits"
LAWS = ("laplace", "gaussian", "gram", "tree")
FAULTS = ("", "noise x 0.8", "noise x 0.5", "ten times epsilon", "no noise", "raw reads")
MENDED = "mended: bound / claim"
GAMES = 4
"""With a stranger's agent, at most."""
BATCHES = ("schedule leak", "counted twice", "one more report")
"""Faults that the agent with a tree does not have."""
HONEST: dict[str, tuple[str, dict[str, Any]]] = {
    "Laplace batches that end by the sparse vector technique": ("joint_strangers:stranger", {"trigger": 1.0}),
    "the same with Gaussian noise": ("joint_strangers:stranger", {"law": "gaussian", "trigger": 1.0}),
    "Gaussian batches that promise rho alone": ("joint_strangers:stranger", {"law": "gaussian", "claim": "zcdp"}),
    "five steps that promise rho alone": ("mistakes:curator-of-somebody", {"mistake": "epochs", "mended": True}),
    "devices with a generator of their own": ("mistakes:device-of-somebody", {"own": True}),
    "randomized response that is shuffled": ("mistakes:box-of-somebody", {"mistake": "amplified", "mended": True}),
    "the same with three kinds": ("mistakes:box-of-somebody", {"mistake": "missing-kind", "mended": True}),
    "shuffle-linucb": ("shuffle-linucb", {"epsilon": 4.0}),
}
"""Agents that keep their promise, each with its settings."""
ASIDE = (0.5, 4.0)
"""Claims besides 1 that the table has the power of, at the factor that is stated."""
HEAD = ("target", "looks at", "cannot see", "epsilon", "runs", *(f"{factor:g}" for factor in FACTORS))
HEAD += (*(f"{STATED:g} at epsilon = {claim:g}" for claim in ASIDE), "CPU seconds")
"""Columns of the table; those of the factors have the power."""
UNKNOWN = ("not measured",) * (len(FACTORS) + len(ASIDE) + 1)
"""Cells of power and seconds."""
NOT_PLAYED = "not played"
"""Power of a game that an audit left out, since pilot runs saw nothing to play for."""


def main() -> int:
    parser = options(__doc__)
    parser.set_defaults(markdown=True)
    parser.add_argument("--only", action="append", help="a target, or a stranger's law; may be repeated")
    parser.add_argument("--claims", type=float, nargs="+", default=CLAIMS, help="epsilons that are claimed")
    parser.add_argument("--rows", type=Path, default=Path("runs/audits.jsonl"), help="file of the rows")
    parser.add_argument("--table", type=Path, help="write this CSV of all targets, and play nothing")
    parser.add_argument("--strangers", action="store_true", help="faults of joint agents of others")
    parser.add_argument("--honest", action="store_true", help="how often honest laws and agents are refuted")
    parser.add_argument("--mistakes", action="store_true", help="agents of others with one mistake each")
    parser.add_argument("--effort", default="normal", help="of --mistakes: quick, normal or long")
    parser.add_argument("--noise", action="store_true", help="what the test of published noise finds at noise / 1.25")
    given = parser.parse_args()
    if given.noise:
        written(given, noise())
        return 0
    if given.mistakes or given.strangers or given.honest:
        sys.path.insert(0, str(STRANGERS))
    if given.mistakes:
        return int(any("REFUTED" in line[MENDED] for line in written(given, mistakes(given.only, given.effort))))
    if given.strangers:
        lines = written(given, strangers(given.only or LAWS))
        return int(any(line["fault"] == "none" and line["found by"] != "-" for line in lines))
    if given.honest:
        return int(any(above(line) for line in written(given, honest(given.only))))
    known = rows_of(given.rows)
    if given.table:
        given.table.write_text(tabled(given.table.read_text(encoding="utf-8"), known), encoding="utf-8")
        return 0
    cases = [(name, claim) for name in given.only or [*TARGETS, *private_agents()] for claim in given.claims]
    left = [case for case in cases if case not in known]
    for case, rows in zip(left, results(given, measured, left), strict=True):
        known[case] = rows
        with given.rows.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    shown = [row for case in cases for row in known[case]]
    written(given, map(line_of, shown))
    return 0 if all(stated(row) >= ENOUGH for row in shown) else 1


def strangers(laws: Sequence[str]) -> Iterator[Line]:
    """Yield what audits and ``check_agent`` say of strangers' faults.

    An audit ends with the first game that refutes the claim, or what is presumed of Gaussian noise.
    """
    confidence = 1 - (1 - CONFIDENCE) / GAMES
    for law in laws:
        for fault in FAULTS + BATCHES * (law != "tree"):
            started, config, best, caught = time.process_time(), {"law": law, "fault": fault}, 0.0, ""
            for game in prepared("joint_strangers:stranger", 1.0, config=config):
                one = audit(game, game.runs, np.random.default_rng(14), confidence)
                verdicts = [one] if one.presumed is None else [one, one.presumed]
                best = max(best, *(verdict.share for verdict in verdicts))
                if any(verdict.refuted for verdict in verdicts):
                    caught = game.part
                    break
            seconds, told = time.process_time() - started, checked(config, bool(caught))
            line = {"law": law, "fault": fault or "none", "found by": caught or "-", "bound / claim": f"{best:.2f}"}
            yield {**line, "CPU seconds": f"{seconds:.0f}", "check_agent": told}


def mistakes(only: Sequence[str] | None, effort: str) -> Iterator[Line]:
    """Yield what audits say of agents with a mistake, and of those without it."""
    made = import_module("mistakes")
    for mistake in only or made.MISTAKES:
        (by, best), (accused, share) = (
            judged(made.agent_of(mistake), {"mistake": mistake, "mended": mended}, effort) for mended in (False, True)
        )
        line = {"mistake": mistake, "what it is": made.MISTAKES[mistake], "found by": by or "-"}
        yield {**line, "bound / claim": f"{best:.2f}", MENDED: f"{share:.2f}{' REFUTED' * bool(accused)}"}


def judged(name: str, config: dict[str, Any], effort: str, epsilon: float = 1.0) -> tuple[str, float]:
    """Return the part of the first game that refutes an agent, or "", and the strongest bound over the claim."""
    best, kinds = 0.0, len(game_classes(name))
    for game in prepared(name, epsilon, config=config, effort=effort):
        one = audit(game, game.runs, np.random.default_rng(0), 1 - (1 - CONFIDENCE) / kinds)
        best = max(best, one.share)
        if one.refuted:
            return game.part or "reports", best
    return "", best


def noise() -> Iterator[Line]:
    """Yield for every joint agent how many draws the suite's test of published noise sees, and its power."""
    for name in own_targets():
        if name in TARGETS or not issubclass(find(name).load(), CentralAgent):
            continue
        world = next(world["id"] for world in WORLDS if can_play(name, environment(world["id"], HORIZON)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = drawn(name, world, HORIZON, {}).noise
        counts = {kind: draws(found) for kind, found in (runs | together(runs)).items()}
        for kind, found in by_noise(runs, 1 / STATED).items():
            line = {"agent": f"`{name}`", "noise of": kind, "draws": f"{counts[kind]:,}"}
            yield {**line, "power at noise / 1.25": f"{found:.2f}"}


def checked(config: dict[str, Any], caught: bool) -> str:
    """Return whether ``check_agent(..., audit=True)`` fails; its audit is the one that was played."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_agent("joint_strangers:stranger", "privbandit/Linear-v0", **config)
        except AssertionError:
            return "fails without the audit"
    return "fails by the audit" if caught else "passes"


def honest(only: Sequence[str] | None) -> Iterator[Line]:
    """Yield how many audits of honest laws and agents refute their claim, and the bound on that."""
    laws = import_module("laws")
    for name in only or [*laws.LAWS, *HONEST]:
        if name in laws.LAWS:
            audits, found = 400, laws.accusations([laws.law_game(name)], 400, 1000)
        else:
            agent, config = HONEST.get(name, (name, {}))
            audits = 40 if name in HONEST else 200
            found = laws.accusations(games(agent, 1.0, config=config, effort="quick"), audits)
        line: dict[str, Any] = {"law or agent": name, "audits": audits}
        for level, refuted in found.items():
            percent = f"{100 * level:g} %"
            line |= {f"refuted at {percent}": refuted, f"bound at {percent}": int(binom.isf(0.001, audits, 1 - level))}
        yield line


def above(line: Line) -> bool:
    """Return whether more honest audits refute the claim than the bound, at any level."""
    levels = list(line.values())[2:]
    return any(refuted > bound for refuted, bound in zip(levels[::2], levels[1::2], strict=True))


def rows_of(path: Path) -> dict[tuple[str, float], list[dict[str, Any]]]:
    """Return the rows that were measured before, one for each game; the folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in map(json.loads, path.read_text().splitlines() if path.exists() else []):
        known.setdefault((row["target"], row["claim"]), []).append(row)
    return known


def measured(name: str, claim: float) -> list[dict[str, Any]]:
    """Return what a target's audits found at their default runs, and their power, one row for each game."""
    clock, found, truths = Clock(), [], dict[float, Any]()
    played = games(name, claim)
    confidence = 1 - (1 - CONFIDENCE) / max(len(played), 1)
    for k, game in enumerate(played):
        result, shares = audit(game, game.runs, np.random.default_rng(0), confidence), []
        shares = [power_of_less_noise(result, factor, np.random.default_rng([0, 1])) for factor in FACTORS]
        clock.stop()
        for place, factor in enumerate(FACTORS):
            if shares[place] is None and (factor == STATED or claim == 1):
                clock.run(factor == STATED)
                truth = game.stronger(factor)
                if truth is None:
                    truths[factor] = truths.get(factor) or stronger(name, factor, claim)
                    truth = truths[factor][k]
                rng = np.random.default_rng([0, 1])
                repeats = 100 if factor == STATED else REPEATS
                shares[place] = power(game.claim, truth, game.runs, rng, confidence, repeats)
                clock.stop()
        clock.run()
        row = {"target": name, "name": game.title, "claim": claim, "runs": game.runs, "power": shares}
        seen = f"{game.seen} for {game.pair}" if name in TARGETS else game.seen
        row |= {"bound": result.lower_bound, "refuted": result.refuted, "seen": seen, "unseen": game.unseen}
        found.append(row)
    return [row | {"seconds": clock.spent} for row in found]


class Clock:
    """CPU seconds of what an audit does by itself; it runs from the start."""

    def __init__(self) -> None:
        self.spent, self.since = 0.0, time.process_time()
        self.counts = True

    def run(self, counts: bool = True) -> None:
        self.since, self.counts = time.process_time(), counts

    def stop(self) -> None:
        self.spent += self.counts * (time.process_time() - self.since)


def line_of(row: dict[str, Any]) -> Line:
    """Return a row with what is seen and not seen."""
    cells = line(row["name"], row["seen"], row["unseen"], row["claim"], row["runs"], numbers_of(row))
    return dict(zip(HEAD, cells, strict=True))


def line(title: str, seen: str, unseen: str, claim: float, runs: int, numbers: Sequence[str]) -> list[str]:
    return [quoted(title), seen, unseen, f"{claim:g}", f"{runs:,}", *numbers]


def quoted(title: str) -> str:
    """Return a title with its target as code."""
    name, comma, part = title.partition(", ")
    return f"`{name}`{comma}{part}"


def numbers_of(row: dict[str, Any]) -> list[str]:
    """Return the cells of power, "" where a factor or a claim was not asked for, and of seconds."""
    shares = ["" if share is None else f"{share:.2f}" for share in row["power"]]
    return shares + [""] * len(ASIDE) + [f"{row['seconds']:.0f}"]


def tabled(text: str, known: dict[tuple[str, float], list[dict[str, Any]]], claim: float = 1.0) -> str:
    """Return the CSV made anew, of all our targets at one claim.

    Args:
        text: of the CSV so far.
        known: rows that were measured, by target and claim.
        claim: epsilon.

    Raises:
        ValueError: a text with other columns.
    """
    head, *before = list(csv.reader(io.StringIO(text))) or [[]]
    if tuple(head) != HEAD:
        raise ValueError(f"the columns must be {', '.join(HEAD)}; got {', '.join(head)}.")
    # numbers by title and runs: those of the table so far, then those of the file
    numbers = {(cells[0], cells[4]): cells[5:] for cells in before}
    table = []
    for name in own_targets():
        for title, seen, unseen, runs in looks(name):
            found = numbers.get((quoted(title), f"{runs:,}"), list(UNKNOWN))
            for epsilon in (claim, *ASIDE):
                rows = {row["name"]: row for row in known.get((name, epsilon), [])}
                if rows and rows.get(title, {}).get("runs", runs) == runs:
                    fill(found, rows.get(title), epsilon == claim, epsilon)
            table.append(line(title, seen, unseen, claim, runs, found))
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows([HEAD, *table])
    return made.getvalue()


def fill(cells: list[str], row: dict[str, Any] | None, whole: bool, epsilon: float) -> None:
    """Write into a line's cells what was measured of its game at one claim: all factors, or the one that is stated.

    Args:
        cells: of power and seconds; changed in place.
        row: None if the audit did not play this game.
        whole: whether this is the claim of the table.
        epsilon: the claim.
    """
    if whole:
        cells[: len(FACTORS)] = numbers_of(row)[: len(FACTORS)] if row else [NOT_PLAYED] * len(FACTORS)
        cells[-1] = numbers_of(row)[-1] if row else "0"
    else:
        cells[len(FACTORS) + ASIDE.index(epsilon)] = f"{stated(row):.2f}" if row else NOT_PLAYED


def own_targets() -> list[str]:
    """Return the names of all targets but those of other packages: mechanisms first."""
    return [*TARGETS, *(name for name in private_agents() if AGENTS[name].agent.startswith("privbandit_agents."))]


def looks(name: str) -> Iterator[tuple[str, str, str, int]]:
    """Yield title, what is seen, what is not, and default runs of each game; those of agents are not prepared."""
    if name in TARGETS:
        (played,) = games(name, 1.0)
        yield name, f"{played.seen} for {played.pair}", played.unseen, played.runs
        return
    kinds = game_classes(name)
    if not kinds:
        yield name, WATCH, "what is not published", 0
    for k, game in enumerate(kinds):
        title = f"{name}, {game.part}" if game.part else name
        yield title, game.seen, game.unseen, (AGENTS[name].runs if k == 0 else 0) or game.runs


def stated(row: dict[str, Any]) -> float:
    """Return the power of a row at the factor that is stated."""
    return float(row["power"][FACTORS.index(STATED)])


if __name__ == "__main__":
    raise SystemExit(main())
