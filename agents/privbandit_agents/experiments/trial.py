"""A trial: one agent, one environment, one seed."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import SeedSequence
from threadpoolctl import threadpool_limits

from privbandit_agents import registry
from privbandit_agents.agent import Agent
from privbandit_agents.experiments import store
from privbandit_agents.experiments.catalogue import env_defaults
from privbandit_agents.experiments.labels import as_text, folder_name, short, with_settings
from privbandit_agents.experiments.provenance import provenance
from privbandit_agents.play import Result, play
from privbandit_envs._validate import count
from privbandit_envs._validate import seed as checked_seed
from privbandit_envs.wrappers import RegretCurve, even_checkpoints

AGENT_STREAM = 2**20
"""Spawn key of the agent's seed; environments use small ones."""


@dataclass(frozen=True)
class Trial:
    """What is run: everything that the result depends on but the code.

    Attributes:
        env: id of the environment, ``"namespace/Name-v0"`` or ``"package:namespace/Name-v0"``.
        agent: a name in ``AGENTS``, or ``"package:name"`` if importing the package registers it.
        horizon: number of users.
        seed: of the environment; the agent's own seed is derived from it.
        env_kwargs: keyword arguments of the environment.
        config: settings of the agent.
        checkpoints: how many there are, evenly spaced; ``Result.checkpoints`` has the numbers of users they stand for.
    """

    env: str
    agent: str
    horizon: int
    seed: int = 0
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: int = 200

    def __post_init__(self) -> None:
        """Check the ranges, and bring the settings into plain JSON."""
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
    def spec(self) -> dict[str, Any]:
        """The trial as JSON values."""
        return dataclasses.asdict(self)

    @property
    def name(self) -> str:
        """The hash of the canonical JSON, 16 hex digits."""
        return store.name_of(self.spec)

    @property
    def env_label(self) -> str:
        """The environment's id with its keyword arguments."""
        return with_settings(self.env, self.env_kwargs)

    @property
    def agent_label(self) -> str:
        """The agent's name with its settings."""
        return with_settings(self.agent, self.config)

    @property
    def run_name(self) -> str:
        """Where TensorBoard shows it: ``Linear-v0-dim=30/linucb-alpha=0.5/seed-3-59c1a0f7``, with the name's start."""
        env_settings = dict(self.env_kwargs)
        if env_defaults(self.env).get("horizon") != self.horizon:
            env_settings["horizon"] = self.horizon
        parts = f"{short(self.env)}-{as_text(env_settings)}", f"{self.agent}-{as_text(self.config)}"
        return "/".join([*map(folder_name, parts), f"seed-{self.seed}-{self.name[:8]}"])

    @property
    def agent_seed(self) -> int:
        """A seed whose stream is independent of the environment's."""
        return int(SeedSequence(self.seed, spawn_key=(AGENT_STREAM,)).generate_state(1, np.uint64)[0])

    def make_env(self) -> gym.Env[Any, Any]:
        """Build the environment; its horizon is the trial's unless ``env_kwargs`` says otherwise."""
        kwargs = dict(self.env_kwargs)
        if "horizon" in env_defaults(self.env):
            kwargs.setdefault("horizon", self.horizon)
        return gym.make(self.env, **kwargs)

    def make_agent(self, env: gym.Env[Any, Any]) -> Agent:
        """Build the agent for its environment."""
        return registry.make(self.agent, env, seed=self.agent_seed, **self.config)


@dataclass(frozen=True)
class Outcome:
    """A finished trial.

    Attributes:
        trial: what was run.
        result: what it gave.
        provenance: versions, commit, host and date.
    """

    trial: Trial
    result: Result
    provenance: Mapping[str, str | None]

    @property
    def payload(self) -> store.Payload:
        """The outcome as JSON values."""
        return {
            "trial": self.trial.spec,
            "checkpoints": self.result.checkpoints.tolist(),
            "regret": self.result.regret.tolist(),
            "reward": self.result.reward.tolist(),
            "seconds": self.result.seconds,
            "provenance": dict(self.provenance),
        }

    @classmethod
    def of(cls, payload: store.Payload) -> "Outcome":
        """Return the outcome that ``payload`` came from."""
        checkpoints = np.array(payload["checkpoints"], dtype=np.int64)
        result = Result(checkpoints, np.array(payload["regret"]), np.array(payload["reward"]), payload["seconds"])
        return cls(Trial(**payload["trial"]), result, payload["provenance"])


def run_trial(trial: Trial, folder: str | Path, on_checkpoint: Callable[[RegretCurve], None] | None = None) -> Outcome:
    """Run a trial, or read its result back if the folder has it.

    Args:
        trial: what to run.
        folder: gets ``trials/<name>.json`` and ``tensorboard/<run name>/``.
        on_checkpoint: called with the curve so far at every checkpoint.
    """
    known = store.finished(folder, trial.name)
    if known is not None:
        return Outcome.of(known)
    with threadpool_limits(1):
        result = played(trial, Path(folder) / "tensorboard" / trial.run_name, on_checkpoint)
    outcome = Outcome(trial, result, provenance())
    store.write_result(folder, outcome.payload)
    return outcome


def played(trial: Trial, events: Path, on_checkpoint: Callable[[RegretCurve], None] | None) -> Result:
    """Play a trial, with TensorBoard events in ``events``."""
    from privbandit_agents.experiments.board import Board  # tensorboardX imports torch where it is installed

    env = trial.make_env()
    agent = trial.make_agent(env)
    with Board(events, agent) as board:

        def watch(curve: RegretCurve) -> None:
            board.write(curve)
            if on_checkpoint is not None:
                on_checkpoint(curve)

        checkpoints = even_checkpoints(trial.horizon, trial.checkpoints)
        result = play(env, agent, trial.horizon, trial.seed, checkpoints=checkpoints, on_checkpoint=watch)
        board.finish(trial.spec, float(result.regret[-1]))
    env.close()
    return result


def plain(value: Any) -> Any:
    """Return a value as JSON gives it back, with sorted keys, and 1.0 as 1 so that they are one trial."""
    if isinstance(value, Mapping):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
