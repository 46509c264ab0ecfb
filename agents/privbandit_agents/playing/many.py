"""One agent in one world with many seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from privbandit_agents.playing.play import Result, play
from privbandit_agents.zoo.registry import make
from privbandit_envs import BanditEnv
from privbandit_envs.validate import count
from privbandit_envs.validate import seed as checked_seed


def play_many(
    env_id: str,
    agent: str,
    seeds: int | Sequence[int] | NDArray[np.integer[Any]],
    horizon: int | None = None,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    checkpoints: Sequence[int] | NDArray[Any] | None = None,
    by_counts: bool = True,
) -> list[Result]:
    """Let an agent play an environment with many seeds, in this process.

    The results are those of ``env = gym.make(env_id, ...)`` and ``play(env, make(agent, env, seed=s, ...), seed=s)``
    for every seed s, one after the other.

    Args:
        env_id: of a Gymnasium environment.
        agent: its name.
        seeds: how many, from 0 on, or which ones; a seed is the world's and the agent's.
        horizon: users of each run; default: the environment's. An environment of ``privbandit_envs`` is made with it.
        env_kwargs: arguments of the environment.
        config: settings of the agent.
        checkpoints: as in ``play``.
        by_counts: as in ``play``.

    Returns:
        A result for every seed, in order.

    Raises:
        ValueError: a seed that is no integer >= 0; what ``make`` and ``play`` refuse.
        TypeError: an argument that the environment or the agent does not have.

    Examples:
        >>> results = play_many("privbandit/Linear-v0", "linucb", [3, 5], horizon=50)
        >>> env = gym.make("privbandit/Linear-v0", horizon=50)
        >>> results[1].regret.tolist() == play(env, make("linucb", env, seed=5), seed=5).regret.tolist()
        True
    """
    listed = checked(seeds)
    made_with = dict(env_kwargs or {})
    if horizon is not None and isinstance(gym.make(env_id, **made_with).unwrapped, BanditEnv):
        made_with.setdefault("horizon", count(horizon=horizon))

    def single(seed: int) -> Result:
        env = gym.make(env_id, **made_with)
        made = make(agent, env, seed=seed, **(config or {}))
        return play(env, made, horizon, seed, checkpoints=checkpoints, by_counts=by_counts)

    return [single(seed) for seed in listed]


def checked(seeds: int | Sequence[int] | NDArray[np.integer[Any]]) -> list[int]:
    """Return the seeds: this number of them from 0 on, or those that are listed."""
    if isinstance(seeds, int | np.integer):
        return list(range(count(seeds=int(seeds))))
    if isinstance(seeds, str) or not hasattr(seeds, "__iter__") or any(one is None for one in seeds):
        raise ValueError(f"seeds must be a number of seeds or a list of integers >= 0; got {seeds!r:.60}.")
    return [checked_seed(seeds=one) or 0 for one in seeds]
