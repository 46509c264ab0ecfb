"""A fit: one classifier, with all points of its grid, fitted to the rows of one replication and scored."""

import math
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from privbandit_agents.base.guarantee import UnprovenCalibration
from privbandit_agents.experiments.jobs.catalogue import agent_defaults, agent_source
from privbandit_agents.experiments.jobs.job import JSON, Desk, Ran, one_thread
from privbandit_agents.experiments.jobs.method import Method
from privbandit_agents.experiments.jobs.rows import Sample, World, draw
from privbandit_agents.experiments.names import as_text, described, name_of, plain
from privbandit_agents.experiments.usage import sentence


@dataclass(frozen=True)
class Fit:
    """Everything that the scores of a method depend on but the code.

    Attributes:
        world: where the rows come from.
        method: with its grid.
        epsilon: budget of every private row; None for methods that have none.
        replication: the seed of the rows; the noise has a seed from all attributes.
        shrink: private and test rows are divided by it.
    """

    kind: ClassVar[str] = "fit"
    light: ClassVar[float] = math.inf
    unit: ClassVar[str] = "replication"
    quantities: ClassVar[tuple[str, ...]] = ("accuracy", "excess", "seconds")

    world: World
    method: Method
    epsilon: float | None
    replication: int
    shrink: int = 1

    @cached_property
    def spec(self) -> JSON:
        return {
            "world": plain(self.world.settings),
            "method": self.method.spec,
            "epsilon": plain(self.epsilon),
            "replication": self.replication,
            "shrink": self.shrink,
        }

    @cached_property
    def name(self) -> str:
        return name_of(self.spec)

    @cached_property
    def cell(self) -> str:
        """The hash of what fits of other replications share with this one, the method's name included."""
        shared = {key: value for key, value in self.spec.items() if key != "replication"}
        return name_of({**shared, "name": self.method.name})

    @cached_property
    def settings(self) -> JSON:
        return {"env": {}, "agent": described({**agent_defaults(self.method.agent), **self.method.settings})}

    @property
    def sources(self) -> dict[str, str | None]:
        return {"agent_source": agent_source(self.method.agent)}

    @cached_property
    def traits(self) -> Mapping[str, Any]:
        """``method``, ``agent``, ``epsilon`` if there is one, and the settings of the world."""
        budget = {} if self.epsilon is None else {"epsilon": plain(self.epsilon)}
        return {"method": self.method.name, "agent": self.method.agent, **budget, **plain(self.world.settings)}

    @property
    def points(self) -> list[dict[str, Any]]:
        return self.method.points

    @property
    def label(self) -> str:
        budget = "" if self.epsilon is None else f" at epsilon {self.epsilon:g}"
        return f"{self.method.name}{budget} on {as_text(self.world.settings)}"

    def called(self, key: str, told: Collection[str], swept: Collection[str] = ()) -> str | None:
        return self.method.name if key == "agent" else None

    def run(self, desk: Desk) -> Ran:
        """Fit the method at every point of its grid and count the right predictions of the test set.

        A method that refuses the world, by a ValueError, has this as its result; whatever else it raises is a failure.
        """
        count = len(self.points)
        accuracy, seconds = np.full(count, np.nan), np.full(count, np.nan)
        reasons: list[str | None] = [None] * count
        sample = draw(self.world, self.replication, self.shrink)
        # apart from the draws of the rows
        noise = default_rng(SeedSequence([68002, int(self.name, 16)])).spawn(len(self.method.fits))
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UnprovenCalibration)
            for places, rng in zip(self.method.fits, noise, strict=True):
                try:
                    accuracy[places], seconds[places] = self.fitted(places, sample, rng)
                except ValueError as error:  # the method cannot run on this world, whatever the day
                    for place in places:
                        reasons[place] = sentence(error)
        return Ran({"accuracy": accuracy, "seconds": seconds}, {"reasons": reasons})

    def fitted(self, places: list[int], sample: Sample, rng: Generator) -> tuple[list[float], float]:
        """Return the accuracy at points that share a fit, and the seconds of the fit."""
        first, *others = [self.points[place] for place in places]
        estimator = self.method.build(first, self.epsilon, sample.n_labels, rng)
        start = perf_counter()
        estimator.fit(*sample.private, *sample.public)
        seconds = perf_counter() - start
        changes = [{key: value for key, value in point.items() if value != first[key]} for point in others]
        x, y = sample.test
        fitted = [estimator, *(estimator.reprocessed(**change) for change in changes)]
        return [float(np.mean(one.predict(x) == y)) for one in fitted], seconds
