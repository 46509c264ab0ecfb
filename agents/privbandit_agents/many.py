"""One agent in one world with many seeds: runs in step where that is faster, else one after the other."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.agent import AnyAgent, Array
from privbandit_agents.base.turns import InTurn, serves_in_turn
from privbandit_agents.play import Result, check_match, curve_of, horizon_of, play, result_of, without_limit
from privbandit_agents.registry import make
from privbandit_envs import BanditEnv
from privbandit_envs.validate import count
from privbandit_envs.validate import seed as checked_seed

Pair = tuple[Any, AnyAgent]
"""An environment and the agent that plays it."""


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

    The results are those of single runs, bit for bit: ``env = gym.make(env_id, ...)`` and ``play(env, make(agent, env,
    seed=s, ...), seed=s)`` for every seed s. Agents without privacy that learn from every user before the next one
    comes (``linucb``, ``greedy``, ``epsilon-greedy``, ``lints``) play up to 32 seeds in step where features are few: a
    step of the interpreter then serves a user of every run. All others, and these in other worlds, play one seed after
    the other.

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
        A result for every seed, in order. Where runs went in step, ``seconds`` is a run's share of the time.

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

    def pair(seed: int) -> Pair:
        env = gym.make(env_id, **made_with)
        return env, make(agent, env, seed=seed, **(config or {}))

    results: list[Result] = []
    while left := listed[len(results) :]:
        first = pair(left[0])
        group = left[: runs_in_step(*first)]
        together = None
        if len(group) > 1:
            pairs = [first, *map(pair, group[1:])]
            together = play_in_step(pairs, group, horizon, checkpoints)
            first = pair(left[0]) if together is None else first
        if together is None:
            alone = [first, *map(pair, group[1:])]
            together = [
                play(env, player, horizon, seed, checkpoints=checkpoints, by_counts=by_counts)
                for (env, player), seed in zip(alone, group, strict=True)
            ]
        results += together
    return results


def checked(seeds: int | Sequence[int] | NDArray[np.integer[Any]]) -> list[int]:
    """Return the seeds: so many from 0 on, or those that are listed."""
    if isinstance(seeds, int | np.integer):
        return list(range(count(seeds=int(seeds))))
    if isinstance(seeds, str) or not hasattr(seeds, "__iter__") or any(one is None for one in seeds):
        raise ValueError(f"seeds must be a number of seeds or a list of integers >= 0; got {seeds!r:.60}.")
    return [checked_seed(seeds=one) or 0 for one in seeds]


def runs_in_step(env: Any, agent: AnyAgent) -> int:
    """Return how many runs of a pair to play in step, 1 if each is to be played alone."""
    bare = without_limit(env)
    if not isinstance(bare, BanditEnv) or bare.masked or agent.by_counts or not serves_in_turn(agent):
        return 1
    return agent.runs_in_step()


def play_in_step(
    pairs: Sequence[Pair],
    seeds: Sequence[int],
    horizon: int | None,
    checkpoints: Sequence[int] | NDArray[Any] | None,
) -> list[Result] | None:
    """Play one run for every pair, a user of each at a time; None if one of them must be played alone."""
    agents = [agent for _, agent in pairs]
    envs: list[BanditEnv] = [without_limit(env) for env, _ in pairs]  # type: ignore[misc]
    check_match(*pairs[0])
    horizon = horizon_of(envs[0]) if horizon is None else count(horizon=horizon)
    if horizon > envs[0].horizon:
        return None  # what a single run says of it
    curves = [curve_of(horizon, checkpoints) for _ in pairs]
    started = time.perf_counter()
    for env, seed in zip(envs, seeds, strict=True):
        env.reset(seed=seed)
    lead = agents[0]
    assert isinstance(lead, InTurn)
    step, left = lead.in_step(agents), horizon
    while left:
        contexts, rewards = zip(*(env.drawn() for env in envs), strict=True)
        if any(one is None or one.dtype != np.float64 for one in rewards):
            return None
        seen = [lead.contexts_of(one[:left]) for one in contexts]
        arms: Array | None = step.serve(seen, [one[:left] for one in rewards])
        if arms is None:
            return None
        for env, curve, actions in zip(envs, curves, arms, strict=True):
            served = env.serve(actions)
            curve.extend(served.regret, served.reward)
        left -= arms.shape[1]
    seconds = (time.perf_counter() - started) / len(pairs)
    return [
        result_of(env, agent, horizon, curve, seconds) for env, agent, curve in zip(envs, agents, curves, strict=True)
    ]
