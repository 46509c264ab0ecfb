"""Methods that are compared on rows at rest: an agent of the zoo as an estimator, and the grid of settings to try."""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from pydantic import Field

from privbandit_agents.base.labels import OUTSIDE, SCALES, LabelAgent, ends_of
from privbandit_agents.experiments.fields import Grid, Model, combinations, given_once
from privbandit_agents.experiments.jobs.catalogue import agent_defaults
from privbandit_agents.experiments.names import canonical, plain
from privbandit_agents.zoo.registry import find, settings_of
from privbandit_envs.validate import one_of

ESTIMATOR = ("feature_range", "scale_by", "outside", "aggregate")
"""Settings of the estimator; all others are the agent's."""


class Method(Model):
    """A classifier with a grid.

    Attributes:
        name: in tables and figures.
        agent: in the zoo; it must learn from labels.
        settings: of the agent and of the estimator (``ESTIMATOR``).
        grid: lists of values of such settings; all combinations are tried.
        estimator: ``"module:Class"`` with the arguments and methods of ``AgentClassifier``.
    """

    name: str
    agent: str
    settings: dict[str, Any] = Field(default={})
    grid: Grid = Field(default={})
    estimator: str = "privbandit_agents.classifiers:AgentClassifier"

    @property
    def points(self) -> list[dict[str, Any]]:
        return combinations(self.grid)

    @property
    def private(self) -> bool:
        return "epsilon" in agent_defaults(self.agent)

    @property
    def spec(self) -> dict[str, Any]:
        """Everything but the name, on which results do not depend."""
        return dict(plain(self.model_dump(exclude={"name"})))

    @property
    def fits(self) -> list[list[int]]:
        """The places of the points that share a fit: they differ only in steps after the reports."""
        after: frozenset[str] = getattr(find(self.agent).load(), "postprocessing", frozenset())
        groups: dict[str, list[int]] = {}
        for place, point in enumerate(self.points):
            before = {key: value for key, value in point.items() if key not in after}
            groups.setdefault(canonical(plain(before)), []).append(place)
        return list(groups.values())

    def check(self) -> None:
        """Raise if the agent or the estimator is unknown or a setting is wrong at some point of the grid."""
        given_once(self.grid, self.settings, "in the settings.")
        for point in self.points:
            config = agent_part({**self.settings, **point})
            if "epsilon" in config:
                raise ValueError("epsilon is not a setting here; list epsilons next to the methods.")
            settings_of(self.agent, config)
            check_estimator({**self.settings, **point})
        if not issubclass(find(self.agent).load(), LabelAgent):
            raise ValueError(f"agent must be one that predicts labels, such as lpct; got {self.agent!r}.")
        resolve_name(self.estimator)

    def build(self, point: Mapping[str, Any], epsilon: float | None, n_labels: int, random_state: Any) -> Any:
        chosen = {**self.settings, **point}
        config = agent_part(chosen) | ({} if epsilon is None else {"epsilon": epsilon})
        told = {"feature_range": (0, 1), **chosen}
        own = {k: tuple(v) if isinstance(v, list) else v for k, v in told.items() if k in ESTIMATOR}
        build: Any = resolve_name(self.estimator)
        return build(self.agent, config, classes=list(range(n_labels)), random_state=random_state, **own)


def check_estimator(settings: Mapping[str, Any]) -> None:
    one_of(SCALES, scale_by=settings.get("scale_by", "public"))
    one_of(OUTSIDE, outside=settings.get("outside", "clip"))
    ends_of(settings.get("feature_range", (0, 1)))
    aggregate = settings.get("aggregate", False)
    if not isinstance(aggregate, bool):
        raise ValueError(f"aggregate must be true or false; got {aggregate!r}.")


def agent_part(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in ESTIMATOR}
