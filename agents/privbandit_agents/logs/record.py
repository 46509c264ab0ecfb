"""Logs: contexts, actions, rewards, and the probability with which each action was taken."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_agents.base import state
from privbandit_agents.base.agent import AnyAgent, Array, n_arms
from privbandit_agents.base.chances.laws import DRAWS, uniform_propensity
from privbandit_agents.base.learning import AnyEnv, LearningAgent
from privbandit_agents.base.records import in_floats
from privbandit_agents.play import BLOCK_BYTES, check_match, choose, learn, learn_from
from privbandit_envs import BanditEnv
from privbandit_envs.files import atomic
from privbandit_envs.masks import Masks, masks_of
from privbandit_envs.validate import count, one_of

Floats = NDArray[np.float64]
ARRAYS = ("contexts", "actions", "rewards", "propensities", "feedback", "errors")
SUFFIXES = (".npz", ".parquet")


@dataclass(frozen=True)
class Log:
    """What happened to n users; the leading axis of every array is the user.

    Attributes:
        contexts: float32 or float64, shape (n, ...).
        actions: shape (n,), or sets of shape (n, N).
        rewards: shape (n,).
        propensities: the probability with which each user's action was taken, given all that came before, shape (n,).
        feedback: what the agent was told, shape (n,): the reward, or the purchased item.
        errors: standard errors of the propensities, shape (n,); 0 where they are exact.
        about: JSON values: the agent's name and guarantee, how many arms there are, and ``least_propensity``, a public
            number below which no propensity is, or None.
        masks: whether each arm was present, shape (n, K); None: all were, or actions are sets.

    Raises:
        ValueError: the arrays have not the same length, a propensity is not in (0, 1], a mask allows nothing, or an
            action was absent.
    """

    contexts: Array
    actions: Array
    rewards: Floats
    propensities: Floats
    feedback: Array
    errors: Floats
    about: dict[str, Any] = field(default_factory=dict)
    masks: Masks | None = None

    def __post_init__(self) -> None:
        for name in ("contexts", "rewards", "propensities", "errors"):  # one row's dtype must not round another's
            object.__setattr__(self, name, in_floats(getattr(self, name)))
        lengths = {name: len(getattr(self, name)) for name in ARRAYS}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"the arrays of a log must have one row a user; got {lengths}.")
        p = self.propensities
        if not ((p > 0) & (p <= 1)).all():
            raise ValueError("propensities must lie in (0, 1]: every action that was taken could be taken.")
        if self.masks is not None:
            object.__setattr__(self, "masks", self._checked(self.masks))

    def _checked(self, masks: Array) -> Masks:
        """Return the masks as booleans, or raise: they allow nothing, or not what was done."""
        if self.actions.ndim > 1:
            raise ValueError("masks say which arms were present; this log has sets.")
        arms = np.shape(masks)[1] if np.ndim(masks) == 2 else int(self.actions.max(initial=0)) + 1
        masks = masks_of(masks, (len(self), arms), "masks")
        if arms <= self.actions.max(initial=0) or not masks[np.arange(len(self)), self.actions].all():
            raise ValueError("masks must allow every action that was taken.")
        return masks

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by name, with the masks if there are any."""
        return {name: getattr(self, name) for name in (*ARRAYS, *(() if self.masks is None else ("masks",)))}

    def __len__(self) -> int:
        return len(self.rewards)

    def __getitem__(self, users: slice) -> "Log":
        rows: dict[str, Any] = {name: array[users] for name, array in self.arrays.items()}
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
            state.write(path, self.arrays, self.about, secret=True)
            return
        import polars as pl

        flat = {name: array.reshape(len(self), -1) for name, array in self.arrays.items()}
        columns = {name: rows[:, 0] if rows.shape[1] == 1 else rows for name, rows in flat.items()}
        shapes = {name: array.shape[1:] for name, array in self.arrays.items()}
        about = pl.Series("about", [json.dumps({"about": self.about, "shapes": shapes})] * len(self), pl.Categorical)
        with atomic(path, "wb", 0o600) as file:
            pl.DataFrame(columns).with_columns(about).write_parquet(file)

    @classmethod
    def read(cls, path: str | Path) -> "Log":
        """Read what ``write`` wrote, also before logs had masks.

        Raises:
            ValueError: it is no log, or damaged.
            OSError: the file cannot be read.
        """
        path = Path(path)
        try:
            if one_of(SUFFIXES, ending=path.suffix) == ".npz":
                arrays, about = state.read(path)
                rows: dict[str, Any] = {name: arrays[name] for name in (*ARRAYS, *({"masks"} & arrays.keys()))}
                return cls(**rows, about=about)
            import polars as pl

            frame = pl.read_parquet(path.read_bytes())
            kept = json.loads(frame["about"][0])
            rows = {name: frame[name].to_numpy().reshape(-1, *shape) for name, shape in kept["shapes"].items()}
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
    if isinstance(env, BanditEnv) and count(n=n) > env.horizon:
        raise ValueError(f"n must be at most the environment's horizon {env.horizon}; got {n}.")
    rng = default_rng() if seed is None else default_rng([seed, 20])
    context, told = env.reset(seed=seed)
    parts: list[list[Array]] = []
    left = count(n=n)
    largest = max(64, BLOCK_BYTES // max(1, context.nbytes))
    while left:
        if isinstance(env, BanditEnv):
            m = min(agent.frozen_rounds(), left, largest)
            part = logged_block(env, agent, m, draws, rng)
        else:
            m = 1
            part, context, told = logged_step(env, agent, context, told.get("action_mask"), draws, rng)
        parts.append(part)
        left -= m
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows: dict[str, Any] = dict(zip((*ARRAYS, "masks"), columns, strict=True))
    if rows["masks"].all():
        del rows["masks"]
    return Log(**rows, about=about_of(agent))


def logged_block(env: BanditEnv, agent: AnyAgent, m: int, draws: int, rng: Generator) -> list[Array]:
    """Serve m users while the policy is frozen; return their rows in the order of ``ARRAYS``, and the masks."""
    contexts, masks = env.upcoming(m), env.action_masks(m) if env.masked else None
    seen, chosen = choose(agent, contexts, masks)
    actions = np.asarray(chosen)
    law = agent.propensities(contexts, actions, draws, rng, masks)
    served = env.serve(actions)
    learn(agent, seen, actions, served.feedback, masks)
    told = np.asarray(served.feedback)
    return [contexts, actions, served.reward, np.array(law), told, errors_of(law), shown(masks, agent, m)]


def logged_step(
    env: gym.Env[Any, Any], agent: AnyAgent, context: Array, mask: Array | None, draws: int, rng: Generator
) -> tuple[list[Array], Array, dict[str, Any]]:
    """Serve one user through any wrappers; return the row, the next context, and what is told of it."""
    seen, action = choose(agent, context, mask)
    masks = None if mask is None else np.asarray(mask)[None]
    law = agent.propensities(context[None], np.asarray(action)[None], draws, rng, masks)
    following, reward, terminated, truncated, info = env.step(action)
    learn_from(info, agent, seen, action, mask, env)
    told = np.atleast_1d(info.get("feedback", reward))
    row = [context[None], np.asarray(action)[None], np.array([float(reward)]), np.array(law), told, errors_of(law)]
    row.append(shown(masks, agent, 1))
    if terminated or truncated:
        following, info = env.reset()
    return row, following, info


def shown(masks: Array | None, agent: AnyAgent, n: int) -> Masks:
    """Return which arms were present for n users, shape (n, K), or (n, 1) where actions are sets."""
    arms = n_arms(agent.action_space) if isinstance(agent.action_space, Discrete) else 1
    return np.ones((n, arms), bool) if masks is None else np.asarray(masks, bool)


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
