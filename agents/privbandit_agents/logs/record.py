"""Logs: contexts, actions, rewards, and the probability with which each action was taken."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_agents.base import state
from privbandit_agents.base.agent import AnyAgent, Array
from privbandit_agents.base.chances.laws import DRAWS, uniform_propensity
from privbandit_agents.base.learning import AnyEnv, LearningAgent
from privbandit_agents.play import BLOCK_BYTES, check_match, learn_from
from privbandit_envs import BanditEnv
from privbandit_envs.files import atomic
from privbandit_envs.validate import count, one_of

Floats = NDArray[np.float64]
ARRAYS = ("contexts", "actions", "rewards", "propensities", "feedback", "errors")
SUFFIXES = (".npz", ".parquet")


@dataclass(frozen=True)
class Log:
    """What happened to n users; the leading axis of every array is the user.

    Attributes:
        contexts: shape (n, ...).
        actions: shape (n,), or sets of shape (n, N).
        rewards: shape (n,).
        propensities: the probability with which each user's action was taken, given all that came before, shape (n,).
        feedback: what the agent was told, shape (n,): the reward, or the purchased item.
        errors: standard errors of the propensities, shape (n,); 0 where they are exact.
        about: JSON values: the agent's name and guarantee, how many arms there are, and ``least_propensity``, a public
            number below which no propensity is, or None.

    Raises:
        ValueError: the arrays have not the same length, or a propensity is not in (0, 1].
    """

    contexts: Array
    actions: Array
    rewards: Floats
    propensities: Floats
    feedback: Array
    errors: Floats
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in ARRAYS}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"the arrays of a log must have one row a user; got {lengths}.")
        p = self.propensities
        if not ((p > 0) & (p <= 1)).all():
            raise ValueError("propensities must lie in (0, 1]: every action that was taken could be taken.")

    def __len__(self) -> int:
        return len(self.rewards)

    def __getitem__(self, users: slice) -> "Log":
        rows: dict[str, Any] = {name: getattr(self, name)[users] for name in ARRAYS}
        return Log(**rows, about=self.about)

    def write(self, path: str | Path) -> None:
        """Write ``.npz``, or ``.parquet`` (extra ``bench``): whole or not at all, readable by its owner alone.

        A log holds raw data of every user, whatever the agent promised.

        Raises:
            ValueError: another ending.
            OSError: the file cannot be written.
        """
        path = Path(path)
        if one_of(SUFFIXES, ending=path.suffix) == ".npz":
            state.write(path, {name: getattr(self, name) for name in ARRAYS}, self.about, secret=True)
            return
        import polars as pl

        flat = {name: getattr(self, name).reshape(len(self), -1) for name in ARRAYS}
        columns = {name: rows[:, 0] if rows.shape[1] == 1 else rows for name, rows in flat.items()}
        shapes = {name: getattr(self, name).shape[1:] for name in ARRAYS}
        about = pl.Series("about", [json.dumps({"about": self.about, "shapes": shapes})] * len(self), pl.Categorical)
        with atomic(path, "wb", 0o600) as file:
            pl.DataFrame(columns).with_columns(about).write_parquet(file)

    @classmethod
    def read(cls, path: str | Path) -> "Log":
        """Read what ``write`` wrote.

        Raises:
            ValueError: it is no log, or damaged.
            OSError: the file cannot be read.
        """
        path = Path(path)
        try:
            if one_of(SUFFIXES, ending=path.suffix) == ".npz":
                arrays, about = state.read(path)
                rows: dict[str, Any] = {name: arrays[name] for name in ARRAYS}
                return cls(**rows, about=about)
            import polars as pl

            frame = pl.read_parquet(path.read_bytes())
            kept = json.loads(frame["about"][0])
            rows = {name: frame[name].to_numpy().reshape(-1, *kept["shapes"][name]) for name in ARRAYS}
            return cls(**rows, about=kept["about"])
        except (OSError, ImportError):
            raise
        except Exception as error:  # whatever damage does to a file
            raise ValueError(f"{path} is no log, or is damaged: {error}.") from error


def log(env: AnyEnv, agent: AnyAgent, n: int, seed: int | None = None, *, draws: int = DRAWS) -> Log:
    """Let an agent play and learn from n users, as ``play`` does, and keep what happened.

    Args:
        env: as for ``play``; no vector of environments.
        agent: as for ``play``; none that owns its loop.
        n: number of users.
        seed: of the environment's ``reset``, and of the draws; None: fresh ones.
        draws: how many, for an agent whose propensities have no closed form.

    Raises:
        ValueError: more users than the environment's horizon, or an environment that does not fit the agent.
        TypeError: an agent that owns its loop, or something that is no environment or agent.

    Examples:
        >>> import privbandit_envs
        >>> from privbandit_agents import Explore, make
        >>> env = gym.make("privbandit/Linear-v0", n_arms=4, dim=2, horizon=100)
        >>> logged = log(env, Explore(make("linucb", env, seed=0), 0.2, seed=0), 50, seed=0)
        >>> logged.contexts.shape, sorted(set(logged.propensities.round(2).tolist()))
        ((50, 4, 2), [0.05, 0.85])
    """
    check_match(env, agent)
    if isinstance(agent, LearningAgent) or not isinstance(env, gym.Env):
        raise TypeError(f"{agent.name} is logged one user after the other, which it or its environment cannot do.")
    if getattr(env.unwrapped, "masked", False):
        raise ValueError(f"arms come and go in this environment, and no propensity of {agent.name} knows of that.")
    if isinstance(env, BanditEnv) and count(n=n) > env.horizon:
        raise ValueError(f"n must be at most the environment's horizon {env.horizon}; got {n}.")
    rng = default_rng() if seed is None else default_rng([seed, 20])
    context, _ = env.reset(seed=seed)
    parts: list[list[Array]] = []
    left = count(n=n)
    largest = max(64, BLOCK_BYTES // max(1, context.nbytes))
    while left:
        if isinstance(env, BanditEnv):
            m = min(agent.frozen_rounds(), left, largest)
            part = logged_block(env, agent, m, draws, rng)
        else:
            m = 1
            part, context = logged_step(env, agent, context, draws, rng)
        parts.append(part)
        left -= m
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows: dict[str, Any] = dict(zip(ARRAYS, columns, strict=True))
    return Log(**rows, about=about_of(agent))


def logged_block(env: BanditEnv, agent: AnyAgent, m: int, draws: int, rng: Generator) -> list[Array]:
    """Serve m users while the policy is frozen; return their rows in the order of ``ARRAYS``."""
    contexts = env.upcoming(m)
    actions = np.asarray(agent.select_action(contexts))
    law = agent.propensities(contexts, actions, draws, rng)
    served = env.serve(actions)
    agent.update(contexts, actions, served.feedback)
    return [contexts, actions, served.reward, np.array(law), np.asarray(served.feedback), errors_of(law)]


def logged_step(
    env: gym.Env[Any, Any], agent: AnyAgent, context: Array, draws: int, rng: Generator
) -> tuple[list[Array], Array]:
    """Serve one user through any wrappers; return the row, and the next context."""
    action = agent.select_action(context)
    law = agent.propensities(context[None], np.asarray(action)[None], draws, rng)
    following, reward, terminated, truncated, info = env.step(action)
    learn_from(info, agent, context, action, None, env)
    told = info.get("feedback", reward)
    row = [context[None], np.asarray(action)[None], np.array([float(reward)])]
    if terminated or truncated:
        following = env.reset()[0]
    return [*row, np.array(law), np.atleast_1d(told), errors_of(law)], following


def errors_of(law: Any) -> Floats:
    return np.zeros(len(law)) if law.error is None else np.asarray(law.error, np.float64)


def about_of(agent: AnyAgent) -> dict[str, Any]:
    """Return what a log says of the agent that made it."""
    promise = agent.guarantee
    return {
        "agent": agent.name,
        "notion": promise.notion,
        "guarantee": promise.words,
        "uniform": uniform_propensity(agent.action_space),
        "least_propensity": getattr(agent, "least_propensity", None),
    }
