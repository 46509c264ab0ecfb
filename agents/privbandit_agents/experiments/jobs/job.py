"""A job: one unit of work, everything but the code that its result depends on."""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from privbandit_envs.wrappers import RegretCurve

JSON = dict[str, Any]
Arrays = Mapping[str, NDArray[np.float64]]
SAVE_EVERY = 60.0
"""Seconds between two snapshots of a running job."""


@dataclass(frozen=True)
class Desk:
    """Where a job works.

    Attributes:
        folder: gets the files that the job writes beside its result.
        save_every: seconds between two snapshots.
        on_checkpoint: called with the curve so far at every checkpoint.
    """

    folder: Path
    save_every: float = SAVE_EVERY
    on_checkpoint: Callable[[RegretCurve], None] | None = None


@dataclass(frozen=True)
class Ran:
    """The result of a job: arrays by name, and notes; see ``Finished``."""

    arrays: Arrays
    notes: JSON = field(default_factory=dict)


class Job(Protocol):
    """One unit of work.

    Attributes:
        kind: ``"trial"`` or ``"fit"``.
        unit: the name of a replication.
        quantities: what can be read of the result; the first one is read by default.
    """

    kind: ClassVar[str]
    unit: ClassVar[str]
    quantities: ClassVar[tuple[str, ...]]

    @property
    def replication(self) -> int:
        """The seed."""

    @property
    def spec(self) -> JSON:
        """The job as JSON values; their hash is its name."""

    @property
    def name(self) -> str:
        """The hash of the spec, 16 hex digits."""

    @property
    def settings(self) -> JSON:
        """All settings with today's defaults, by ``env`` and ``agent``: they reveal stale results."""

    @property
    def sources(self) -> dict[str, str | None]:
        """Hashes of the source of what plays and is not ours, as ``agent_source`` and ``env_source``."""

    @property
    def cell(self) -> str:
        """The hash of the settings that the job shares with its other replications."""

    @property
    def traits(self) -> Mapping[str, Any]:
        """The settings by which statements and figures find the job."""

    @property
    def points(self) -> list[dict[str, Any]]:
        """The points of its grid; none for a trial."""

    @property
    def light(self) -> float:
        """How many users it serves; infinity unless it is sure to be done soon and to harm nothing."""

    @property
    def label(self) -> str:
        """The job in words, without its replication."""

    def called(self, key: str, told: Collection[str], swept: Collection[str] = ()) -> str | None:
        """Return a figure's label of the job by a key; None: by its traits alone.

        Settings of an agent that are ``swept`` are in it also where they are defaults, those ``told`` elsewhere never.
        """

    def run(self, desk: Desk) -> Ran:
        """Do the work."""


def one_thread() -> Any:
    """Return a context in which numerical libraries use one thread; enter it when all are imported."""
    return thread_pools(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def thread_pools(modules: int) -> ThreadpoolController:
    """Return the thread pools of this process; found anew when modules were imported since, which takes a while."""
    return ThreadpoolController()
