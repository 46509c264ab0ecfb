"""A task: one method, with all points of its grid, on the rows of one replication."""

import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from privbandit_agents.experiments import store
from privbandit_agents.experiments.catalogue import agent_defaults
from privbandit_agents.experiments.claims import claim
from privbandit_agents.experiments.labels import as_text
from privbandit_agents.experiments.offline import scores
from privbandit_agents.experiments.offline.method import Method
from privbandit_agents.experiments.offline.world import Sample, World, draw
from privbandit_agents.experiments.provenance import provenance
from privbandit_agents.experiments.trial import UNPROVEN, described, plain, thread_pools
from privbandit_agents.experiments.usage import missing_module

NOISE_STREAM = 68002
"""Keeps the noise apart from the draws of the rows."""
REFUSALS = (ValueError, MemoryError, OverflowError)
"""What a method raises that cannot run on a world, such as a histogram with more cells than memory."""


@dataclass(frozen=True)
class Task:
    """What is run: everything that its result depends on but the code.

    Attributes:
        world: where the rows come from.
        method: with its grid.
        epsilon: budget of every private row; None for methods that have none.
        replication: the seed of the rows; the noise has a seed from all attributes.
        shrink: private and test rows are divided by it.
    """

    world: World
    method: Method
    epsilon: float | None
    replication: int
    shrink: int = 1

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The task as JSON values."""
        return {
            "world": plain(self.world.settings),
            "method": self.method.spec,
            "epsilon": plain(self.epsilon),
            "replication": self.replication,
            "shrink": self.shrink,
        }

    @cached_property
    def name(self) -> str:
        """The hash of the canonical JSON, 16 hex digits."""
        return store.name_of(self.spec)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The agent's settings, the defaults included: by them a result is known to be of today's task."""
        return {"env": {}, "agent": described({**agent_defaults(self.method.agent), **self.method.settings})}

    def __str__(self) -> str:
        """Return method, budget and world."""
        budget = "" if self.epsilon is None else f" at epsilon {self.epsilon:g}"
        return f"{self.method.name}{budget} on {as_text(self.world.settings)}, replication {self.replication}"


def run(task: Task, folder: str | Path, wait: bool = True) -> scores.Scores:
    """Run a task, or read its result back if the folder has it.

    What cannot run for want of a package is not kept, as the package may be there tomorrow.

    Args:
        task: what to run.
        folder: gets ``trials/<name>.json``.
        wait: for another process that is running the same task, and take its result.

    Raises:
        BusyError: another process is running the task and ``wait`` is False.
    """
    with claim(folder, task.name, wait):
        known = scores.finished(folder, task.name, task.settings)
        if known is not None:
            return known
        try:
            found = evaluate(task)
        except ImportError as error:
            return refusal(task, missing_module(error))
        scores.write(folder, found)
        return found


def evaluate(task: Task) -> scores.Scores:
    """Fit the method at every point of its grid and count the right predictions of the test set."""
    count = len(task.method.points)
    accuracy: list[float | None] = [None] * count
    seconds: list[float | None] = [None] * count
    errors: list[str | None] = [None] * count
    sample = draw(task.world, task.replication, task.shrink)
    noise = default_rng(SeedSequence([NOISE_STREAM, int(task.name, 16)])).spawn(len(task.method.fits))
    with thread_pools(len(sys.modules)).limit(limits=1), warnings.catch_warnings():
        warnings.filterwarnings("ignore", UNPROVEN)
        for places, rng in zip(task.method.fits, noise, strict=True):
            try:
                found, took = fitted(task, places, sample, rng)
            except REFUSALS as error:
                for place in places:
                    errors[place] = sentence(error)
                continue
            for place, value in zip(places, found, strict=True):
                accuracy[place], seconds[place] = value, took
    return scores.Scores(task.spec, task.settings, accuracy, seconds, errors, provenance())


def fitted(task: Task, places: list[int], sample: Sample, rng: Generator) -> tuple[list[float], float]:
    """Return the accuracy at points that share a fit, and the seconds of the fit."""
    points = [task.method.points[place] for place in places]
    estimator = task.method.build(points[0], task.epsilon, sample.n_labels, rng)
    start = perf_counter()
    estimator.fit(*sample.private, *sample.public)
    seconds = perf_counter() - start
    others = [estimator.reprocessed(**point_after(points[0], point)) for point in points[1:]]
    x, y = sample.test
    return [float(np.mean(one.predict(x) == y)) for one in (estimator, *others)], seconds


def point_after(first: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a point that differ from the first one's."""
    return {key: value for key, value in point.items() if value != first[key]}


def refusal(task: Task, why: str) -> scores.Scores:
    """Return the result of a task that cannot run, with the reason."""
    none: list[None] = [None] * len(task.method.points)
    return scores.Scores(task.spec, task.settings, [*none], [*none], [why] * len(none), provenance())


def sentence(error: BaseException) -> str:
    """Return an error on one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
