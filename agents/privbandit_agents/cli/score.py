"""``privbandit score``: an agent plays the suite, is checked and audited, and gets a sheet; or the references do."""

import json
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path

from numpy.random import Generator
from rich.console import Console

from privbandit_agents.audits.registry import games, private
from privbandit_agents.cli.audit import audited
from privbandit_agents.cli.audit import verdict as verdict_of
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.running.attempt import Failure, told
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.suite.leaderboard import REPEATS, leaderboard, standings
from privbandit_agents.experiments.suite.price import price
from privbandit_agents.experiments.suite.records import (
    Record,
    own_references,
    record_of,
    reference_file,
    references,
    significant,
    write_references,
)
from privbandit_agents.experiments.suite.rows import cell_name, read_row, reference_row, same, write_row
from privbandit_agents.experiments.suite.scores import READING
from privbandit_agents.experiments.suite.sheet import Sheet, score_at
from privbandit_agents.experiments.suite.tasks import OPEN, Suite, Task, budget_name, load_suite
from privbandit_agents.experiments.text import paragraph
from privbandit_agents.experiments.usage import AGAINST, UNFINISHED, UsageError, sentence, unwritten, usage_errors
from privbandit_agents.experiments.views.style import save
from privbandit_agents.experiments.views.table import Column, Table
from privbandit_agents.playing.play import play
from privbandit_agents.testing import NotSeen, check_agent
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.entries import AGENTS, FAMILIES
from privbandit_agents.zoo.registry import find, make
from privbandit_envs.files import atomic

CELLS = 10
"""Of a row from outside that a check runs again."""
SHORT = 2000
"""Users of the run that measures memory."""


@dataclass(frozen=True)
class Plan:
    """The tasks, budgets and trials of an agent; no trials where it cannot play."""

    agent: str
    parts: Sequence[tuple[Task, str, Sequence[Trial]]]

    @property
    def trials(self) -> list[Trial]:
        return [trial for _, _, trials in self.parts for trial in trials]

    def record(self, results: Mapping[str, Finished], failures: Sequence[Failure]) -> Record:
        """Return the agent's record; a task with a failed run counts as refused."""
        failed = {failure.job.name: failure.error for failure in failures}
        lost = {task.name: failed[one.name] for task, _, trials in self.parts for one in trials if one.name in failed}
        found = []
        for task, budget, trials in self.parts:
            runs = [] if task.name in lost else [results[one.name] for one in trials]
            why = lost.get(task.name, "the agent does not play such contexts or actions.")
            found.append((task, budget, runs, why))
        record = record_of(self.agent, found)
        return record if record.regrets else replace(record, notion=find(self.agent).notion or OPEN)


def score(
    name: str,
    epsilon: float,
    quick: bool,
    folder: Path,
    engine: Engine,
    out: Console,
    err: Console,
    version: str,
    submit: Path | None = None,
) -> int:
    """Score an agent by a version of the suite and write its sheet; return the exit code.

    A row of the leaderboard is written to ``submit``.
    """
    with usage_errors("score"):
        suite = load_suite(version)
    if epsilon not in suite.budgets:
        known = ", ".join(map(budget_name, suite.budgets))
        raise UsageError(f"--epsilon must be a budget of suite {suite.version}, {known}; got {epsilon:g}.")
    seeds = list(suite.seeds)[: 2 if quick else None]
    budgets = [epsilon] if quick else list(suite.budgets)
    with usage_errors("score"):
        plan = Plan(name, list(suite.plays(name, budgets, seeds)))
        if not plan.trials:
            raise ValueError(f"{name} plays none of the suite's worlds; they are {', '.join(FAMILIES.values())}.")
        suite.check(list(dict.fromkeys(task.name for task, _, trials in plan.parts if trials)))
    results, failures = run_jobs(plan.trials, folder, engine, err)
    record = plan.record(results, failures)
    passed, conformance = conformity(name, plan)
    transcript = StringIO()
    refuted, verdict = audit_line(name, epsilon, quick, err, Console(file=transcript, width=100))
    sheet = Sheet(
        record,
        {key: other for key, other in references(version).items() if key != name},
        suite,
        epsilon,
        len(seeds),
        budgets,
        conformance,
        verdict,
        passed,
        refuted,
        memory_of(name, plan),
        list(told(failures)),
    )
    own = {} if submit is None else {"the row": partial(write_row, submit, name, sheet.json(), transcript.getvalue())}
    lost = unwritten(
        folder,
        {
            **own,
            "score.html": partial(write, folder / "score.html", sheet.page),
            "score.png": lambda: save(sheet.figure(), folder / "score.png"),
            "score.json": partial(write, folder / "score.json", lambda: json.dumps(sheet.json(), indent=1) + "\n"),
        },
    )
    for line in lines_of(sheet):
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    for line in lost:
        print(line, file=sys.stderr)
    if not lost:
        print(f"sheet: {folder / 'score.html'} (and .png, .json)", *([f"row: {submit}"] if submit else []), sep="\n")
    return AGAINST if refuted else UNFINISHED if failures or lost else 0


def write(path: Path, text: Callable[[], str]) -> None:
    with atomic(path) as file:
        file.write(text())


def lines_of(sheet: Sheet) -> Iterator[str]:
    """Yield the lines that the terminal shows."""
    for line in sheet.headlines():
        yield from paragraph(line)
    yield ""
    budgets = [column._replace(title=column.title.removeprefix("at ")) for column in sheet.budget_columns]
    task, best = (Column(title, key, True) for title, key in (("task", "task"), ("best reference", "best")))
    yield from Table(sheet.task_rows, [task, *budgets, best, Column("its score", score_at("best_score"))]).lines()
    yield ""
    for line in (sheet.conformance, sheet.audit, *sheet.promised(), sheet.speed()):
        yield from paragraph(line)
    yield from paragraph(READING)


def check(folder: Path, out: Path, engine: Engine, err: Console, version: str, rng: Generator) -> int:
    """Run ten random cells of a row of the leaderboard again, and compare them; return the exit code.

    The row is a folder from outside, or, by its name, a reference of a version of the suite.
    """
    with usage_errors("--check"):
        own = not folder.exists() and str(folder) in references(version)
        row = reference_row(str(folder), load_suite(version)) if own else read_row(folder)
        suite = load_suite(row.told["suite"])
    regrets, seeds = row.record.regrets, list(suite.seeds)
    cells = [
        (task, budget, k) for task in regrets for budget in regrets[task] for k in range(len(regrets[task][budget]))
    ]
    try:
        row.check(suite)
        plays = {(task.name, budget): trials for task, budget, trials in suite.plays(row.name, suite.budgets, seeds)}
        chosen = [cells[i] for i in sorted(rng.choice(len(cells), min(CELLS, len(cells)), replace=False))]
        trials = {cell: plays[cell[:2]][cell[2]] for cell in chosen if plays.get(cell[:2])}
    except ValueError as error:
        print(f"{folder} fails: {error}")
        return AGAINST
    results, failures = run_jobs(list(trials.values()), out, engine, err)
    for line in told(failures):
        print(line, file=sys.stderr)
    wrong = 0
    for task, budget, k in chosen:
        trial, stored, again = trials.get((task, budget, k)), regrets[task][budget][k], "no result"
        if right := trial is not None and trial.name in results:
            here = results[trial.name]
            regret, notion = significant(here.arrays["regret"][-1]), here.notes["guarantee"]["notion"]
            right, again = same(stored, regret) and notion == row.record.notion, f"{regret:.6g} (privacy: {notion})"
        wrong += not right
        said = "equal" if right else f"FAILS: {stored:.6g} in the folder, {again} here"
        print(f"{cell_name(task, budget, seeds[k])}: {said}")
    lacking = "" if own else row.lacking(suite)
    print(f"{folder}: {len(chosen) - wrong} of {len(chosen)} cells are equal, of {len(cells)}.", end="")
    print(f" The leaderboard does not take it: {lacking}." if lacking else "")
    return AGAINST if wrong else 0


def conformity(name: str, plan: Plan) -> tuple[bool, str]:
    """Return whether ``check_agent`` passes in a world of the first family that the agent plays, and a sentence."""
    task, _, trials = next(part for part in plan.parts if part[2])
    env = task.where or FAMILIES[task.family]
    promise = {key: value for key, value in trials[0].config.items() if key != "people"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSeen)
        try:
            check_agent(name, env, **promise)
        except AssertionError as error:
            return False, f"check_agent fails in {env}: {' '.join(str(error).split())[:300]}"
        except Exception as error:
            return False, f"check_agent could not run in {env}: {sentence(error)[:300]}"
    return True, f"check_agent passes in {env}."


def audit_line(name: str, epsilon: float, quick: bool, err: Console, transcript: Console) -> tuple[bool, str]:
    """Return whether the agent's audit refutes its claim, and the verdict in one line; write what each game found."""
    if issubclass(find(name).load(), Auto):
        return False, f"audit: {name} stands for other agents; privbandit audit takes their names."
    if not private(find(name)):
        return False, "audit: it promises nothing."
    try:
        played = games(name, epsilon, effort="quick" if quick else "normal")
        err.print(f"auditing {name} ...", highlight=False, markup=False)
        found = audited(played, lambda factor: None, False, None, 0, 0.999, Console(quiet=True))
        told = f"audit at epsilon = {epsilon:g}: {' '.join(verdict_of(found, 0.999).split())}."
        for one in found:
            game, result = one.game, one.result
            line = f"{game.part or game.name}: {game.seen}, for {game.pair}; {result.runs} runs of each world; bound "
            line += f"{result.bound:.3g} of {result.claim.level:.3g} at {result.confidence:.5g}, by {result.event}."
            transcript.print(line, markup=False, highlight=False)
        transcript.print(told, markup=False, highlight=False)
        return any(one.result.refuted for one in found), told
    except Exception as error:
        return False, f"audit: it could not run: {sentence(error)[:300]}"


def memory_of(name: str, plan: Plan) -> float | None:
    """Return the MiB that a short run of the first task takes at its peak, those of the world included.

    None if the run fails.
    """
    task, _, trials = next(part for part in plan.parts if part[2])
    env = task.env()
    tracemalloc.start()
    try:
        play(env, make(name, env, seed=0, **trials[0].config), min(SHORT, task.users), 0)
        return tracemalloc.get_traced_memory()[1] / 2**20
    except Exception:  # the agent's; its runs tell it
        return None
    finally:
        tracemalloc.stop()


def remake(
    names: Sequence[str], folder: Path, engine: Engine, err: Console, version: str, path: Path | None = None
) -> int:
    """Play a suite's own tasks with agents of the zoo and write the references; return the exit code.

    Args:
        names: the agents to record; none: all. The records of others stay.
        folder: of the results.
        engine: where to run.
        err: shows progress.
        version: of the suite.
        path: of the file; default: the one in the package.
    """
    path = path or reference_file(version)
    with usage_errors("score"):
        suite = load_suite(version)
        suite.check(suite.own)
        plans = [plan_of(name, suite) for name in names or zoo()]
    trials = {trial.name: trial for plan in plans for trial in plan.trials}
    known = own_references(version)
    hours = sum(last_time(plan, known[plan.agent]) for plan in plans if plan.agent in known) / 3600
    err.print(f"{len(trials)} runs, which took {hours:.2g} CPU hours last time; those in {folder} stay.", markup=False)
    results, failures = run_jobs(list(trials.values()), folder, engine, err)
    for line in told(failures):
        print(line, file=sys.stderr)
    records = known if names else {}
    records |= {plan.agent: plan.record(results, failures) for plan in plans}
    kept = {name: record for name, record in records.items() if record.regrets}
    lost = unwritten(path.parent, {path.name: lambda: write_references(kept, suite, path)})
    print(*(lost or [f"references: {path}"]), sep="\n")
    return UNFINISHED if lost else 0


def last_time(plan: Plan, record: Record) -> float:
    """Return the seconds that an agent's runs took when its reference was made."""
    parts = [(len(trials) * task.users, record.speed.get(task.name)) for task, _, trials in plan.parts]
    return sum(users / speed for users, speed in parts if speed)


def drawn(path: Path, rows: Sequence[Path], version: str) -> int:
    """Write a suite's leaderboard with rows from outside, or, by the suffix, the price of privacy.

    With the page it prints whether the order of agents repeats.
    """
    with usage_errors("--board"):
        suite, known = load_suite(version), references(version)
        if path.suffix == ".html":
            told = standings(rows=[read_row(one) for one in rows], suite=suite, records=known)
            made: Callable[[], object] = partial(write, path, partial(leaderboard, told))
            print(*Table(told["repeats"], REPEATS).lines(), sep="\n")
        elif path.suffix == ".png":
            made = partial(save, price(known, suite), path)
        else:
            raise ValueError(f"takes a page, .html, or a picture, .png; got {path}.")
    lost = unwritten(path.parent, {path.name: made})
    print(*(lost or [f"board: {path}"]), sep="\n", file=sys.stderr if lost else sys.stdout)
    return UNFINISHED if lost else 0


def zoo() -> list[str]:
    """Return the agents that have a reference."""
    return [name for name, entry in AGENTS.items() if not entry.successor and entry.agent.startswith("privbandit_")]


def plan_of(name: str, suite: Suite) -> Plan:
    """Return the plan of a reference: own tasks that it can play; of slow agents without privacy short ones."""
    own = suite.own
    parts = [part for part in suite.plays(name, suite.budgets, suite.seeds) if part[0].name in own]
    if any(slow in find(name).agent for slow in (".rl.learners", ".kernel_ucb", ".neural_linear")):
        parts = [part for part in parts if part[0].users <= 5000]
    return Plan(name, parts)
