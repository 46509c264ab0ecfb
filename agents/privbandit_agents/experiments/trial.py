"""A trial: one agent, one environment, one seed."""

import dataclasses
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from threadpoolctl import ThreadpoolController

from privbandit_agents import registry
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.experiments import store
from privbandit_agents.experiments.catalogue import agent_defaults, env_defaults
from privbandit_agents.experiments.claims import claim, started, unfinished
from privbandit_agents.experiments.labels import as_text, folder_name, short, with_settings
from privbandit_agents.experiments.provenance import code, provenance
from privbandit_agents.play import Result, play
from privbandit_agents.snapshots import Snapshots
from privbandit_envs.files import remove_leftovers
from privbandit_envs.validate import count
from privbandit_envs.validate import seed as checked_seed
from privbandit_envs.wrappers import RegretCurve, even_checkpoints

SAVE_EVERY = 60.0
"""Seconds between two snapshots of a running trial."""
UNPROVEN = ".*published calibration is kept for comparison"
"""What agents without a proof warn of: once where trials are planned, not again in every worker."""


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

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings, the defaults included, as JSON values: by them a result is known to be of today's trial."""
        env, agent = env_defaults(self.env), agent_defaults(self.agent)
        if "horizon" in env:
            env = {**env, "horizon": self.horizon}
        return {"env": described({**env, **self.env_kwargs}), "agent": described({**agent, **self.config})}

    @cached_property
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

    def make_env(self) -> gym.Env[Any, Any]:
        """Build the environment; its horizon is the trial's unless ``env_kwargs`` says otherwise.

        A seed among its settings, such as ``public_seed``, whose value is the word "seed" is the trial's seed.
        """
        own = {key: self.seed for key, value in self.env_kwargs.items() if key.endswith("seed") and value == "seed"}
        kwargs = {**self.env_kwargs, **own}
        if "horizon" in env_defaults(self.env):
            kwargs.setdefault("horizon", self.horizon)
        return gym.make(self.env, **kwargs)

    def make_agent(self, env: gym.Env[Any, Any]) -> AnyAgent:
        """Build the agent for its environment; a published calibration is called so by the results' settings."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", UNPROVEN)
            return registry.make(self.agent, env, seed=self.seed, **self.config)


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
        errors = {name: getattr(self.result, name) for name in store.ERRORS}
        return {
            "trial": self.trial.spec,
            "settings": self.trial.settings,
            "checkpoints": self.result.checkpoints.tolist(),
            "regret": self.result.regret.tolist(),
            "reward": self.result.reward.tolist(),
            "seconds": self.result.seconds,
            "simulation": self.result.simulation,
            "provenance": dict(self.provenance),
            **{name: series.tolist() for name, series in errors.items() if series is not None},
        }

    @classmethod
    def of(cls, payload: store.Payload) -> "Outcome":
        """Return the outcome that ``payload`` came from."""
        checkpoints = np.array(payload["checkpoints"], dtype=np.int64)
        series = np.array(payload["regret"]), np.array(payload["reward"])
        errors = (np.array(payload[name]) if name in payload else None for name in store.ERRORS)
        result = Result(checkpoints, *series, payload["seconds"], payload["simulation"], *errors)
        return cls(Trial(**payload["trial"]), result, payload["provenance"])


def run_trial(
    trial: Trial,
    folder: str | Path,
    on_checkpoint: Callable[[RegretCurve], None] | None = None,
    *,
    save_every: float = SAVE_EVERY,
    wait: bool = True,
) -> Outcome:
    """Run a trial, or read its result back if the folder has it, or go on where a killed process left it.

    Args:
        trial: what to run.
        folder: gets ``trials/<name>.json`` and ``tensorboard/<run name>/``; while the trial runs,
            ``unfinished/<name>.npz`` has its last snapshot.
        on_checkpoint: called with the curve so far at every checkpoint.
        save_every: seconds between two snapshots.
        wait: for another process that is running the same trial, and take its result.

    Raises:
        BusyError: another process is running the trial and ``wait`` is False.
    """
    known = store.finished(folder, trial.name, trial.settings)
    if known is not None:
        return Outcome.of(known)
    again = started(folder, trial.name)
    with claim(folder, trial.name, wait):
        known = store.finished(folder, trial.name, trial.settings)  # another process may have held the claim
        if known is not None:
            return Outcome.of(known)
        if again:
            for path in (unfinished(folder, trial.name, "npz"), store.path_of(folder, trial.name)):
                remove_leftovers(path)
        return finish(trial, Path(folder), on_checkpoint, save_every)


def finish(
    trial: Trial, folder: Path, on_checkpoint: Callable[[RegretCurve], None] | None, save_every: float
) -> Outcome:
    """Run a claimed trial to its end, and store its result."""
    from privbandit_agents.experiments.board import Board  # a third of a second

    env = trial.make_env()
    agent = trial.make_agent(env)
    with thread_pools(len(sys.modules)).limit(limits=1), Board(folder / "tensorboard" / trial.run_name, agent) as board:

        def watch(curve: RegretCurve) -> None:
            board.write(curve)
            if on_checkpoint is not None:
                on_checkpoint(curve)

        snapshots = Snapshots(unfinished(folder, trial.name, "npz"), label(trial), save_every, board)
        checkpoints = even_checkpoints(trial.horizon, trial.checkpoints)
        result = play(
            env,
            agent,
            trial.horizon,
            trial.seed,
            checkpoints=checkpoints,
            on_checkpoint=watch,
            snapshots=snapshots,
        )
        board.finish(trial.spec, trial.settings, float(result.regret[-1]))
    env.close()
    outcome = Outcome(trial, result, provenance())
    store.write_result(folder, outcome.payload)
    snapshots.remove()
    return outcome


def label(trial: Trial) -> str:
    """Return what a snapshot must have been written by: the same trial, settings and code."""
    return store.canonical({"trial": trial.name, "settings": trial.settings, "code": code()})


@lru_cache(maxsize=1)
def thread_pools(modules: int) -> ThreadpoolController:
    """Return the thread pools of this process; found anew when modules were imported since, which takes a while."""
    return ThreadpoolController()


def described(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON values; what JSON does not know, by its type."""
    return {key: plain(value) if is_plain(value) else f"<{type(value).__name__}>" for key, value in settings.items()}


def is_plain(value: Any) -> bool:
    """Return whether ``plain`` turns a value into JSON."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | np.ndarray | np.generic)


def plain(value: Any) -> Any:
    """Return a value as JSON gives it back, with sorted keys, and 1.0 as 1 so that they are one trial."""
    if isinstance(value, Mapping):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
