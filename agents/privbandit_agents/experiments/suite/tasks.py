"""The tasks of a suite: pinned worlds, what an agent plays in them, and the score of its regret."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.results.statistics import Floats
from privbandit_agents.experiments.schema.yaml_text import content_of
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.entries import FAMILIES
from privbandit_agents.zoo.registry import can_play, field_names, find, public_data, resolved, spaces_of
from privbandit_envs.validate import unknown

VERSION = "v1"
PINNED = 100
"""Users whose contexts and rewards pin a world."""
OPEN = "none"
"""The budget of agents that promise nothing."""


class ChangedWorldError(ValueError):
    """A task's world is not the one that its version names."""


@dataclass(frozen=True)
class Task:
    """One world, one horizon and one question.

    Attributes:
        name: such as ``"linear-small"``.
        family: of worlds, as in ``FAMILIES``.
        group: what is hard about it.
        question: in words.
        users: horizon.
        world: keyword arguments of the environment.
        uniform: mean regret of uniform play over the suite's seeds, frozen.
        best: the same of the best agent without privacy.
        best_agent: its name.
        pin: two numbers of the first users' contexts and rewards.
        where: the environment, if it is another than the family's.
    """

    name: str
    family: str
    group: str
    question: str
    users: int
    world: Mapping[str, Any]
    uniform: float = math.nan
    best: float = math.nan
    best_agent: str = ""
    pin: Sequence[float] = ()
    where: str = ""

    @property
    def people(self) -> int | None:
        """How many people come again, each of whom is promised a budget; None where everyone is new."""
        return self.world.get("people")

    def trial(self, agent: str, seed: int, config: Mapping[str, Any] | None = None) -> Trial:
        return Trial(
            self.where or FAMILIES[self.family], agent, self.users, seed, self.world, config or {}, checkpoints=20
        )

    def env(self, seed: int = 0) -> gym.Env[Any, Any]:
        return self.trial("uniform", seed).make_env()

    def scores(self, regrets: ArrayLike) -> Floats:
        """Return log(uniform / regret) / log(uniform / best): 0 as uniform play, 1 as the best without privacy.

        Scores below 0 are kept. None is above 2, which a regret has that is as far below the best one as that is below
        uniform play's: a regret of 0 would have infinity.
        """
        least = self.best**2 / self.uniform
        lost = np.maximum(np.asarray(regrets, dtype=np.float64), least)
        return np.asarray(np.log(self.uniform / lost) / math.log(self.uniform / self.best))

    def pinned(self, seed: int) -> tuple[float, float]:
        """Return the numbers that pin the world: cosine sums of the first users' contexts and of their rewards.

        User t gets the arm t mod K, or the next one that is there; of items those that fill an assortment.
        """
        env = self.env(seed)
        context, info = env.reset(seed=seed)
        contexts, rewards = [], []
        for user in range(PINNED):
            contexts.append(np.asarray(context, dtype=np.float64))
            there = np.asarray(info.get("action_mask", np.ones(arms_of(env))))
            context, reward, _, _, info = env.step(action_of(env, user, there))
            rewards.append(float(reward))
        env.close()
        return cosine_sum(np.stack(contexts)), cosine_sum(np.array(rewards))

    def check(self, seed: int) -> None:
        """Raise ChangedWorldError unless the world is the pinned one, to six digits."""
        now = self.pinned(seed)
        if not np.allclose(now, self.pin, rtol=1e-6, atol=1e-6):
            what = "contexts" if not np.isclose(now[0], self.pin[0], rtol=1e-6, atol=1e-6) else "rewards"
            raise ChangedWorldError(
                f"the world of {self.name} has changed: the first {PINNED} {what} of seed {seed} are not those of "
                "its suite, so that no score of it can be compared; take the version of privbandit that has them."
            )


@dataclass(frozen=True)
class Suite:
    """Tasks and how they are played.

    Attributes:
        version: such as ``"v1"``.
        seeds: of the worlds.
        budgets: epsilons.
        delta: of agents that have one.
        tasks: by name.
        extends: the version that it takes tasks over from, as they are, with their results; "" for none.
    """

    version: str
    seeds: Sequence[int]
    budgets: Sequence[float]
    delta: float
    tasks: Mapping[str, Task]
    extends: str = ""

    @property
    def own(self) -> list[str]:
        """The names of the tasks that no other version has."""
        return [name for name in self.tasks if not self.extends or name not in load_suite(self.extends).tasks]

    def check(self, names: Sequence[str] | None = None) -> None:
        """Raise ChangedWorldError unless all worlds are the pinned ones."""
        for name in names or self.tasks:
            self.tasks[name].check(self.seeds[0])

    def settings(self, agent: str, task: Task, epsilon: float) -> dict[str, Any] | None:
        """Return an agent's settings in a task: its budget, for each person where people come again; none without one.

        None stands where people come again and the agent promises nothing to a person.
        """
        known = field_names(find(agent).load().Config)
        if "epsilon" not in known:
            return {}
        if task.people and "people" not in known:
            return None
        promised = {"epsilon": epsilon, "delta": self.delta, "people": task.people}
        return {key: value for key, value in promised.items() if key in known and value is not None}

    def plays(
        self, agent: str, budgets: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[Task, str, list[Trial]]]:
        """Yield (task, budget, trials) of all that an agent plays; the budget is ``"none"`` without privacy.

        Of a task that it cannot play, in a family of which it plays others, the trials are empty.
        """
        able = {name: can_play(agent, task.env()) for name, task in self.tasks.items()}
        families = {self.tasks[name].family for name, can in able.items() if can}
        for name, task in self.tasks.items():
            if task.family not in families:
                continue
            for epsilon in budgets:
                config = self.settings(agent, task, epsilon)
                if config is None:
                    break
                played = stands_for(agent, task, config) if able[name] else agent
                trials = [task.trial(played, seed, config) for seed in seeds] if able[name] else []
                yield task, budget_name(epsilon) if config else OPEN, trials
                if not config:
                    break


def budget_name(epsilon: float) -> str:
    return f"{epsilon:g}"


@cache
def load_suite(version: str = VERSION) -> Suite:
    """Return a suite of tasks.

    Raises:
        ValueError: an unknown version.

    Examples:
        >>> suite = load_suite("v1")
        >>> suite.tasks["linear-small"].users, suite.budgets
        (5000, [0.5, 1, 4])
        >>> suite.tasks["linear-small"].scores([1e9]).item() < 0
        True
    """
    path = Path(__file__).parent / f"{version}.yaml"
    if not path.is_file():
        known = [one.stem for one in Path(__file__).parent.glob("v*.yaml")]
        raise unknown("no suite", version, known, "privbandit score --help")
    content = content_of(path)
    tasks = {name: Task(name=name, **given) for name, given in content["tasks"].items()}
    if extends := content.get("extends", ""):
        base = load_suite(extends)
        kept = {name: task for name, task in base.tasks.items() if name not in content["without"]}
        return replace(base, version=version, tasks=kept | tasks, extends=extends)
    first, number = content["seeds"]["first"], content["seeds"]["number"]
    return Suite(version, range(first, first + number), content["budgets"], content["delta"], tasks)


def stands_for(agent: str, task: Task, config: Mapping[str, Any]) -> str:
    """Return the agent that a choosing name plays as, if it does so with the same settings; else the name itself.

    So results of that agent are its results, too.
    """
    cls = find(agent).load()
    if not issubclass(cls, Auto):
        return agent
    env = task.env()
    chosen = cls.chosen(*spaces_of(env), public_data(env), cls.Config(**config))
    taken = {key: value for key, value in config.items() if key in field_names(find(chosen).load().Config)}
    alike = taken == dict(config) and resolved(agent, env, config) == resolved(chosen, env, taken)
    return chosen if alike else agent


def arms_of(env: gym.Env[Any, Any]) -> int:
    space: Any = env.action_space
    return int(space.n if np.ndim(space.n) == 0 else space.n[0])


def action_of(env: gym.Env[Any, Any], user: int, there: Floats) -> Any:
    """Return the action that pins: the next arm that is there, or the first items that are there, from ``user`` on."""
    space: Any = env.action_space
    order = np.roll(np.arange(len(there)), -(user % len(there)))
    present = order[there[order] > 0]
    if hasattr(space, "capacity"):
        offer = np.zeros(len(there), np.int8)
        offer[present[: space.capacity]] = 1
        return offer
    return int(present[0])


def cosine_sum(values: Floats) -> float:
    """Return the sum of values times cos(1), cos(2), ..., over the root of their number."""
    flat = values.ravel()
    return float(flat @ np.cos(np.arange(1, len(flat) + 1)) / math.sqrt(len(flat)))
