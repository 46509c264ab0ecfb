"""What agents did in the tasks of a suite, as JSON: of one agent, and the references that come with the package."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from privbandit_agents.experiments.names import canonical
from privbandit_agents.experiments.results.statistics import student_interval
from privbandit_agents.experiments.store.provenance import code
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.suite.tasks import VERSION, Suite, Task, load_suite
from privbandit_envs.files import atomic

JSON = dict[str, Any]
VISIT, PERSON = "visit", "person"
BY_TASK = ("regrets", "promises", "refused", "speed")


@dataclass(frozen=True)
class Record:
    """What an agent did.

    Attributes:
        agent: its name.
        notion: of privacy; ``"none"`` without.
        regrets: by task and budget, one for each seed.
        promises: by task, the guarantee in words at the last budget.
        refused: why it did not play a task of a family that it plays, in a sentence.
        speed: users a second by task, the median over runs.
    """

    agent: str
    notion: str = "none"
    regrets: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    promises: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    speed: Mapping[str, float] = field(default_factory=dict)

    def scores(self, task: Task, budget: str, seeds: int) -> Any:
        """Return the score of every seed, shape (seeds,); 0 where it refused the task, None where it was not asked."""
        if task.name in self.refused:
            return np.zeros(seeds)
        regrets = self.regrets.get(task.name, {}).get(budget)
        return None if not regrets else task.scores(regrets)


SCHEMA = TypeAdapter(Record)


def record_of(agent: str, found: Iterable[tuple[Task, str, Sequence[Finished], str]]) -> Record:
    """Return the record of an agent.

    Args:
        agent: its name.
        found: task, budget, the result of every seed, and why there are none.
    """
    regrets: dict[str, dict[str, list[float]]] = {}
    promises, refused, speed, notion = {}, {}, {}, "none"
    for task, budget, results, why in found:
        if not results:
            refused[task.name] = why
            continue
        regrets.setdefault(task.name, {})[budget] = [significant(run.arrays["regret"][-1]) for run in results]
        promises[task.name] = str(results[0].notes["privacy"])
        notion = str(results[0].notes["guarantee"]["notion"])
        speed[task.name] = median(task.users / max(run.seconds, 1e-9) for run in results)
    return Record(agent, notion, regrets, promises, refused, speed)


def significant(value: float) -> float:
    """Return a number with six digits."""
    return float(f"{value:.6g}")


def as_json(record: Record, suite: Suite) -> JSON:
    """Return a record, with the mean score of each task and budget and Student's 95 % interval; times stand apart."""
    told: JSON = {"agent": record.agent, "notion": record.notion, "tasks": {}, "refused": dict(record.refused)}
    for name, by_budget in record.regrets.items():
        told["tasks"][name] = {}
        for budget, regrets in by_budget.items():
            found = student_interval(suite.tasks[name].scores(regrets))
            ends = [float(one) for one in (found.value, found.low, found.high)]
            score = [round(one, 4) if math.isfinite(one) else None for one in ends]
            told["tasks"][name][budget] = {"regret": list(regrets), "score": score}
    speed = {task: round(users) for task, users in record.speed.items()}
    return {**told, "promises": dict(record.promises), "users_a_second": speed}


def from_json(told: Mapping[str, Any]) -> Record:
    """Return a record; a ValueError of pydantic names a part of another type."""
    regrets = {
        task: {budget: found["regret"] for budget, found in by_budget.items()}
        for task, by_budget in told["tasks"].items()
    }
    parts = told["agent"], told["notion"], regrets, told["promises"], told["refused"], told["users_a_second"]
    return SCHEMA.validate_json(json.dumps(dict(zip(Record.__match_args__, parts, strict=True))), strict=True)


def made() -> JSON:
    """Return the versions of what runs, and the day."""
    from datetime import UTC, datetime

    versions = {key: value for key, value in code().items() if key != "commit"}
    return {**versions, "date": datetime.now(UTC).date().isoformat()}


def reference_file(version: str = VERSION) -> Path:
    return Path(__file__).parent / f"references-{version}.json"


def write_references(records: Mapping[str, Record], suite: Suite, path: Path) -> None:
    """Write the records of agents, each on a line of its own."""
    lines = [f'"{name}": {canonical(as_json(record, suite))}' for name, record in sorted(records.items())]
    head = f'{{"suite": "{suite.version}", "made": {canonical(made())}, "agents": {{\n'
    with atomic(path) as file:
        file.write(head + ",\n".join(lines) + "\n}}\n")


@cache
def references(version: str = VERSION) -> dict[str, Record]:
    """Return what every agent of the zoo did in each task that it plays; the file ships with the package.

    Examples:
        >>> from privbandit_agents.experiments.suite import load_suite, references
        >>> uniform, task = references()["uniform"], load_suite().tasks["linear-small"]
        >>> bool(abs(uniform.scores(task, "none", 6).mean()) < 0.2)
        True
    """
    own, suite = own_references(version), load_suite(version)
    if not suite.extends:
        return own
    base = {name: kept_of(record, suite.tasks) for name, record in references(suite.extends).items()}
    return {name: joined(base[name], own[name]) if name in own else base[name] for name in base} | {
        name: record for name, record in own.items() if name not in base
    }


def own_references(version: str) -> dict[str, Record]:
    """Return what agents did in a suite's own tasks."""
    path = reference_file(version)
    found = json.loads(path.read_text(encoding="utf-8"))["agents"] if path.is_file() else {}
    return {name: from_json(told) for name, told in found.items()}


def kept_of(record: Record, tasks: Mapping[str, Task]) -> Record:
    """Return a record of some tasks alone."""
    parts = {part: getattr(record, part) for part in BY_TASK}
    kept: JSON = {part: {k: v for k, v in by.items() if k in tasks} for part, by in parts.items()}
    return replace(record, **kept)


def joined(one: Record, other: Record) -> Record:
    """Return a record of the tasks of both."""
    parts: JSON = {part: {**getattr(one, part), **getattr(other, part)} for part in BY_TASK}
    return replace(one, notion=one.notion if one.regrets else other.notion, **parts)


def made_when(version: str = VERSION) -> JSON:
    """Return the versions that made the references, and the day."""
    told: JSON = json.loads(reference_file(version).read_text(encoding="utf-8"))["made"]
    return told
