"""The ten-line loop, and its block path."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from privbandit_agents.agent import Agent, LearningAgent
from privbandit_agents.snapshots import Snapshots
from privbandit_envs import BanditEnv
from privbandit_envs._validate import count
from privbandit_envs.wrappers import RecordRegret, RegretCurve, even_checkpoints

CHUNK_BYTES = 2**22


@dataclass(frozen=True)
class Result:
    """What a run gave.

    Attributes:
        checkpoints: numbers of users served, shape (c,).
        regret: cumulative pseudo-regret at the checkpoints, shape (c,).
        reward: cumulative reward at the checkpoints, shape (c,).
        seconds: wall-clock time of the run, over all the processes it took.
    """

    checkpoints: NDArray[np.int64]
    regret: NDArray[np.float64]
    reward: NDArray[np.float64]
    seconds: float


def play(
    env: Any,
    agent: Agent,
    horizon: int | None = None,
    seed: int | None = None,
    *,
    checkpoints: Sequence[int] | NDArray[Any] | None = None,
    on_checkpoint: Callable[[RegretCurve], None] | None = None,
    snapshots: Snapshots | None = None,
) -> Result:
    """Let an agent play an environment for ``horizon`` users.

    An unwrapped BanditEnv serves many users at once while the policy is frozen; the trajectory is that of the step
    loop, bit for bit.

    Args:
        env: a Gymnasium environment whose ``info`` has ``feedback`` and ``regret``; a vector environment for agents
            that own their loop.
        agent: from ``make``.
        horizon: number of users; default: the environment's.
        seed: of the environment's ``reset``.
        checkpoints: where to keep the sums; default: 200 evenly spaced.
        on_checkpoint: called with the curve so far at every checkpoint.
        snapshots: keeps the state of the run, and goes on from it if it has one; for environments of
            ``privbandit_envs``, others start anew.

    Raises:
        ValueError: a horizon beyond the environment's, or checkpoints beyond the horizon.
    """
    horizon = count(horizon=env.unwrapped.horizon if horizon is None else horizon)
    curve = RegretCurve(even_checkpoints(horizon) if checkpoints is None else checkpoints, on_checkpoint)
    if curve.checkpoints[-1] > horizon:
        raise ValueError(f"checkpoints must not exceed the horizon {horizon}; got {curve.checkpoints[-1]}.")
    if isinstance(env, VectorEnv) and not isinstance(agent, LearningAgent):
        raise TypeError(f"{agent.name} plays one environment; make it with gym.make, it serves users in blocks.")
    started = time.perf_counter()
    if isinstance(agent, LearningAgent):
        agent.learn(env, horizon, curve, seed, **({} if snapshots is None else {"snapshots": snapshots}))
    elif isinstance(env, BanditEnv):
        play_blocks(env, agent, horizon, curve, seed, snapshots)
    else:
        play_steps(env, agent, horizon, curve, seed)
    seconds = time.perf_counter() - started + (snapshots.seconds_before if snapshots else 0.0)
    return Result(curve.checkpoints, curve.regret, curve.reward, seconds)


def play_steps(env: Any, agent: Agent, horizon: int, curve: RegretCurve, seed: int | None) -> None:
    """Serve one user at a time, through any wrappers."""
    env = RecordRegret(env, curve)
    context, _ = env.reset(seed=seed)
    for _ in range(horizon):
        action = agent.select_action(context)
        following, _, terminated, truncated, info = env.step(action)
        agent.update(context, action, info["feedback"])
        context = env.reset()[0] if terminated or truncated else following


def play_blocks(
    env: BanditEnv,
    agent: Agent,
    horizon: int,
    curve: RegretCurve,
    seed: int | None,
    snapshots: Snapshots | None,
) -> None:
    """Serve users one at a time while the policy may change, and in blocks while it is frozen."""
    if horizon > env.horizon:
        raise ValueError(f"horizon must be at most the environment's {env.horizon}; got {horizon}.")
    context = snapshots.resume(env, agent, curve) if snapshots else None
    if context is None:
        context, _ = env.reset(seed=seed)
    recorded = RecordRegret(env, curve)
    largest = max(64, CHUNK_BYTES // context.nbytes)
    left = horizon - curve.users
    while left:
        frozen = agent.frozen_rounds()
        if frozen > 1 and left > 1:
            frozen = min(frozen, left, largest)
            contexts = env.upcoming(frozen)
            actions = agent.select_action(contexts)
            served = env.serve(actions)
            curve.extend(served.regret, served.reward)
            agent.update(contexts, actions, served.feedback)
            left -= frozen
            if left:
                context = env.upcoming(1)[0]
        else:
            action = agent.select_action(context)
            following, _, _, _, info = recorded.step(action)
            agent.update(context, action, info["feedback"])
            context = following
            left -= 1
        if snapshots is not None:
            snapshots.offer(env, agent, curve)
