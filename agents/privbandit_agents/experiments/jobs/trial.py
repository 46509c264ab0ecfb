"""A trial: one agent plays one environment with one seed."""

import dataclasses
import math
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.guarantee import UnprovenCalibration
from privbandit_agents.experiments.jobs.catalogue import (
    agent_defaults,
    agent_source,
    env_defaults,
    env_settings,
    env_source,
)
from privbandit_agents.experiments.jobs.job import JSON, Desk, Ran, one_thread
from privbandit_agents.experiments.names import (
    TALLIES,
    TRIAL_EVENTS,
    agent_text,
    as_text,
    canonical,
    described,
    folder_name,
    name_of,
    plain,
    short,
    unfinished,
    with_settings,
    world_text,
)
from privbandit_agents.experiments.store.provenance import code
from privbandit_agents.experiments.store.results import HUGE, Finished
from privbandit_agents.playing.play import Result, play
from privbandit_agents.playing.snapshots import Snapshots
from privbandit_agents.zoo import registry
from privbandit_agents.zoo.entries import AGENTS, FAMILIES
from privbandit_agents.zoo.reading import reading
from privbandit_envs.validate import count
from privbandit_envs.validate import seed as checked_seed
from privbandit_envs.wrappers import RegretCurve, even_checkpoints

ERRORS = ("mad", "mse", "static")
"""Arrays that only some results have: errors of predictions, and static regret of worlds that change."""


@dataclass(frozen=True)
class Trial:
    """Everything that the result of a play depends on but the code.

    Attributes:
        env: id of the environment, ``"namespace/Name-v0"`` or ``"package:namespace/Name-v0"``.
        agent: a name in ``AGENTS``, or ``"package:name"`` if importing the package registers it.
        horizon: number of users.
        seed: of the environment; the agent's own seed is derived from it.
        env_kwargs: keyword arguments of the environment.
        config: settings of the agent.
        checkpoints: how many there are, evenly spaced; ``Result.checkpoints`` has the numbers of users they stand for.
    """

    kind: ClassVar[str] = "trial"
    unit: ClassVar[str] = "seed"
    quantities: ClassVar[tuple[str, ...]] = ("regret", "ratio", "regret_per_round", "reward", *ERRORS, *TALLIES)

    env: str
    agent: str
    horizon: int
    seed: int = 0
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: int = 200

    def __post_init__(self) -> None:
        seed = checked_seed(seed=self.seed)
        if seed is None:
            raise ValueError("seed must be an integer >= 0; got None.")
        keep = partial(object.__setattr__, self)
        keep("horizon", count(horizon=self.horizon))
        keep("seed", seed)
        keep("env_kwargs", plain(self.env_kwargs))
        keep("config", plain(self.config))
        keep("checkpoints", count(checkpoints=self.checkpoints))

    @property
    def replication(self) -> int:
        return self.seed

    @property
    def spec(self) -> JSON:
        return {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}

    @cached_property
    def name(self) -> str:
        return name_of(self.spec)

    @cached_property
    def cell(self) -> str:
        return name_of({key: value for key, value in self.spec.items() if key not in ("seed", "checkpoints")})

    @cached_property
    def settings(self) -> JSON:
        env, agent = env_defaults(self.env), agent_defaults(self.agent)
        if "horizon" in env:
            env = {**env, "horizon": self.horizon}
        return {"env": described({**env, **self.env_kwargs}), "agent": described({**agent, **self.config})}

    @property
    def sources(self) -> dict[str, str | None]:
        return {"agent_source": agent_source(self.agent), "env_source": env_source(self.env)}

    @cached_property
    def traits(self) -> Mapping[str, Any]:
        """``env``, ``agent``, ``horizon``, and every setting, given or by default, as ``env.KEY`` or ``agent.KEY``."""
        env = {key: value for key, value in env_settings(self.env).items() if key != "horizon"} | dict(self.env_kwargs)
        agent = agent_defaults(self.agent) | dict(self.config)
        return {
            "env": short(self.env),
            "agent": self.agent.rpartition(":")[2],
            "horizon": self.horizon,
            **{f"env.{key}": plain(value) for key, value in env.items()},
            **{f"agent.{key}": plain(value) for key, value in agent.items()},
        }

    @property
    def points(self) -> list[dict[str, Any]]:
        return []

    @property
    def light(self) -> float:
        """How many users it serves; infinity if something in it may take long, fill the memory or end the process."""
        path = AGENTS[self.agent].agent if self.agent in AGENTS else ""
        ours = path.startswith("privbandit_agents.") and ".rl." not in path and self.env in FAMILIES.values()
        given = [*self.env_kwargs.values(), *self.config.values()]
        modest = all(abs(value) <= 100 if isinstance(value, int | float) else value is None for value in given)
        return self.horizon if ours and modest else math.inf

    @property
    def label(self) -> str:
        return f"{with_settings(self.agent, self.config)} on {with_settings(self.env, self.env_kwargs)}"

    @property
    def run_name(self) -> str:
        """The run in TensorBoard: ``Linear-v0-dim=30/linucb-alpha=0.5/seed-3-59c1a0f7``, with the name's start."""
        env_settings = dict(self.env_kwargs)
        if env_defaults(self.env).get("horizon") != self.horizon:
            env_settings["horizon"] = self.horizon
        parts = f"{short(self.env)}-{as_text(env_settings)}", f"{self.agent}-{as_text(self.config)}"
        return "/".join([*map(folder_name, parts), f"seed-{self.seed}-{self.name[:8]}"])

    @property
    def snapshot_label(self) -> str:
        """The required origin of a snapshot: the same trial, settings and code."""
        return canonical({"trial": self.name, "settings": self.settings, "code": {**code(), **self.sources}})

    def called(self, key: str, told: Collection[str], swept: Collection[str] = ()) -> str | None:
        """Return the environment or the agent, with the given or swept settings that are not shown elsewhere."""
        if key == "env":
            kept = {name: value for name, value in self.env_kwargs.items() if f"env.{name}" not in told}
            return world_text(with_settings(self.env, kept))
        if key == "agent":
            wanted = [name for name in dict.fromkeys((*swept, *self.config)) if f"agent.{name}" not in told]
            both = {**(known_defaults(self.agent) if set(wanted) - set(self.config) else {}), **self.config}
            return agent_text(self.agent, {name: plain(both[name]) for name in wanted if name in both})
        return None

    def make_env(self) -> gym.Env[Any, Any]:
        """Build the environment; its horizon is the trial's unless ``env_kwargs`` sets another.

        Where a setting such as ``public_seed`` has the word "seed" for its value, it gets the trial's seed.
        """
        own = {key: self.seed for key, value in self.env_kwargs.items() if key.endswith("seed") and value == "seed"}
        kwargs = {**self.env_kwargs, **own}
        if "horizon" in env_defaults(self.env):
            kwargs.setdefault("horizon", self.horizon)
        return gym.make(self.env, **kwargs)

    def make_agent(self, env: gym.Env[Any, Any]) -> AnyAgent:
        """Build the agent for its environment; the result's settings show if its calibration is a published one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnprovenCalibration)
            warnings.filterwarnings("ignore", ".* promises little: ")  # the tables show every promise
            return registry.make(self.agent, env, seed=self.seed, **self.config)

    def run(self, desk: Desk) -> Ran:
        """Play, with events for TensorBoard and snapshots; go on where a killed process left it."""
        from privbandit_agents.playing.board import Board  # a third of a second

        env = self.make_env()
        agent = self.make_agent(env)
        with one_thread(), Board(desk.folder / TRIAL_EVENTS / self.run_name, agent) as board:

            def watch(curve: RegretCurve) -> None:
                check_sums(curve)
                board.write(curve)
                if desk.on_checkpoint is not None:
                    desk.on_checkpoint(curve)

            snapshot = unfinished(desk.folder, self.name, "npz")
            snapshots = Snapshots(snapshot, self.snapshot_label, desk.save_every, board)
            at = even_checkpoints(self.horizon, self.checkpoints)
            result = play(env, agent, self.horizon, self.seed, checkpoints=at, on_checkpoint=watch, snapshots=snapshots)
            board.finish(self.spec, self.settings)
        env.close()
        names = ("checkpoints", "regret", "reward", *ERRORS)
        found = {name: getattr(result, name) for name in names if getattr(result, name) is not None}
        arrays = {name: array.astype(np.float64) for name, array in found.items()}
        tally = getattr(agent, "tally", {})
        arrays |= {name: np.full(len(result.checkpoints), tally[name]) for name in TALLIES if name in tally}
        numbers = {key: getattr(agent.guarantee, key) for key in ("epsilon", "delta", "rho")}
        numbers["notion"] = agent.guarantee.kind
        promise = {"played": agent.name, "privacy": agent.guarantee.words, "guarantee": numbers}
        visits = visits_of(env, self.horizon)
        notes = {"simulation": result.simulation, **promise, "visits": visits}
        if visits > 1 and np.isfinite(worth := agent.guarantee.for_visits(visits, agent.gaussian)):
            notes["person"] = worth
        return Ran({**arrays, "seconds": np.array([result.seconds])}, notes)


def known_defaults(agent: str) -> dict[str, Any]:
    """Return the settings of an agent; none if it is of a package that is not here."""
    try:
        with reading():
            return agent_defaults(agent)
    except (Exception, SystemExit):
        return {}


def visits_of(env: gym.Env[Any, Any], users: int) -> int:
    """Return how often one person comes at most; 1 in worlds without such a number."""
    counted = getattr(env.unwrapped, "visits", None)
    return 1 if counted is None else int(counted(users))


def check_sums(curve: RegretCurve) -> None:
    """Raise ValueError if regret or reward is no number, or its square is none, at the last checkpoint."""
    for name, sums in (("regret", curve.regret), ("reward", curve.reward)):
        if not abs(sums[curve.passed - 1]) < HUGE:
            raise ValueError(f"the {name} is not finite; the environment must give numbers with a sum below {HUGE:g}.")


@dataclass(frozen=True)
class Outcome:
    """A finished trial, its result, and the versions, commit, host and date of the run."""

    trial: Trial
    result: Result
    provenance: Mapping[str, str | None]

    @classmethod
    def of(cls, finished: Finished) -> "Outcome":
        arrays = finished.arrays
        series = arrays["checkpoints"].astype(np.int64), arrays["regret"], arrays["reward"]
        result = Result(*series, finished.seconds, finished.notes["simulation"], *map(arrays.get, ERRORS))
        return cls(Trial(**finished.job), result, finished.provenance)
