"""A row of the leaderboard from outside: one folder, with which anyone can run its agent again."""

import hashlib
import inspect
import json
import math
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privbandit_agents.experiments.suite.records import JSON, Record, as_json, from_json, references
from privbandit_agents.experiments.suite.tasks import Suite
from privbandit_agents.zoo.registry import find
from privbandit_envs.files import atomic

SCORES, TRANSCRIPT = "score.json", "audit.txt"


@dataclass(frozen=True)
class Submitted:
    """A row from outside.

    Attributes:
        folder: with ``score.json``, the agent's file, and ``audit.txt``.
        told: the content of ``score.json``.
        record: what the agent did.
    """

    folder: Path
    told: Mapping[str, Any]
    record: Record

    @property
    def name(self) -> str:
        """The agent's name for ``make``: its file in the folder, or the package's module."""
        source = self.told["source"]
        return f"{self.folder / source['file']}:{source['class']}" if source["file"] else str(source["address"])

    @property
    def address(self) -> str:
        """Where its agent lies, in words."""
        source = self.told["source"]
        return f"{self.folder.name}/{source['file']}" if source["file"] else str(source["address"])

    def check(self, suite: Suite) -> None:
        """Raise a ValueError unless source, scores and worlds are those that the folder names."""
        if self.told["suite"] != suite.version:
            raise ValueError(f"{self.folder} has scores of suite {self.told['suite']!r}; this is {suite.version}.")
        if (found := source_of(self.name)["sha256"]) != self.told["source"]["sha256"]:
            raise ValueError(f"the source of {self.name} is another one: its hash is {found:.12}... here.")
        suite.check([name for name in self.record.regrets if name in suite.tasks])
        again = as_json(self.record, suite)["tasks"]
        for cell in ((task, budget) for task, budgets in again.items() for budget in budgets):
            stored, made = (np.array(one[cell[0]][cell[1]]["score"], float) for one in (self.told["tasks"], again))
            if not np.allclose(stored, made, atol=2e-4, equal_nan=True):
                raise ValueError(f"{cell_name(*cell)}: its score is not that of its regrets.")

    def lacking(self, suite: Suite) -> str:
        """Return why the leaderboard does not take it; "" if it does."""
        reasons = {
            "it failed check_agent": not self.told["passed"],
            "its audit refuted the claim": self.told["refuted"],
            "it was scored with --quick": self.told["seeds"] < len(suite.seeds),
        }
        return "; ".join(why for why, so in reasons.items() if so)


def read_row(folder: Path) -> Submitted:
    """Read a folder.

    Raises:
        ValueError: it is none, or a part of it is of another type.
    """
    path = folder / SCORES
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return Submitted(folder, told, from_json({**told, "users_a_second": told["times"]["users_a_second"]}))
    except FileNotFoundError:
        raise ValueError(f"{path} is missing; `privbandit score FILE:Class --submit DIR` writes it.") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no file of --submit: {type(error).__name__} {error}.") from error


def reference_row(name: str, suite: Suite) -> Submitted:
    """Return a reference in the form of a row from outside, so that its cells can be checked alike."""
    record = references(suite.version)[name]
    told = {**as_json(record, suite), "suite": suite.version, "source": source_of(name)}
    return Submitted(Path(name), told, record)


def write_row(folder: Path, name: str, told: JSON, transcript: str) -> None:
    """Write the folder of a row: its numbers, a copy of the agent's file if it is not of a package, and the audit."""
    source = source_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    if source["file"]:
        shutil.copyfile(name.rpartition(":")[0], folder / source["file"])
    machine = {"system": platform.system(), "processor": platform.machine()}
    told = {**told, "source": source, "made": {**told["made"], **machine}}
    for part, text in ((SCORES, json.dumps(told, indent=1) + "\n"), (TRANSCRIPT, transcript)):
        with atomic(folder / part) as file:
            file.write(text)


def source_of(name: str) -> JSON:
    """Return the file of an agent, or its address in a package, its class, and the hash of its source."""
    module, _, cls = name.rpartition(":")
    if module.endswith(".py"):
        path, address = Path(module), ""
    else:
        played = find(name).load()
        path, address, cls = Path(inspect.getfile(played)), name, played.__qualname__
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"file": "" if address else path.name, "class": cls, "address": address, "sha256": digest}


def cell_name(task: str, budget: str, seed: int | None = None) -> str:
    return f"{task}, epsilon {budget}" + ("" if seed is None else f", seed {seed}")


def same(stored: float, again: float) -> bool:
    """Return whether two regrets are equal, to the six digits that files have."""
    return math.isclose(stored, again, rel_tol=1e-5, abs_tol=1e-9)
