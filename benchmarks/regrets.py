"""What the benchmarks share: regret over seeds, and the cost of a run beside that of drawing its contexts."""

import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from privbandit_agents import make, play
from scipy.stats import t as student

import privbandit_envs  # noqa: F401

Settings = dict[str, Any]


def regret(env_id: str, env_config: Settings, name: str, config: Settings, horizon: int, seed: int) -> list[float]:
    """Return the regret of one run at half of the horizon and at its end."""
    env = gym.make(env_id, horizon=horizon, **env_config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the published calibration says that it is one
        agent = make(name, env, seed=seed, **config)
    curve = play(env, agent, horizon, seed=seed, checkpoints=[horizon // 2, horizon]).regret
    return [float(value) for value in curve]


def regrets(
    env_id: str, env_config: Settings, name: str, config: Settings, horizon: int, seeds: int, jobs: int
) -> NDArray[np.float64]:
    """Return the regret of all seeds at half of the horizon and at its end, shape (seeds, 2)."""
    job = delayed(regret)
    runs = Parallel(n_jobs=jobs)(job(env_id, env_config, name, config, horizon, seed) for seed in range(seeds))
    return np.array(runs)


def interval(values: NDArray[np.float64], digits: int = 0) -> str:
    """Return mean and 95 % half-width."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.{digits}f} +- {half:.{digits}f}"


def drawing(env_id: str, env_config: Settings, horizon: int, block: int = 512) -> float:
    """Return the CPU seconds of drawing the contexts and serving random actions, in blocks as ``play`` does."""
    env: Any = gym.make(env_id, horizon=horizon, **env_config).unwrapped
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = np.array([env.action_space.sample() for _ in range(block)])
    started, left = time.process_time(), horizon
    while left:
        n = min(left, block)
        env.upcoming(n)
        env.serve(actions[:n])
        left -= n
    return time.process_time() - started


def playing(env_id: str, env_config: Settings, name: str, config: Settings, horizon: int) -> float:
    """Return the CPU seconds of a run, drawing included."""
    env = gym.make(env_id, horizon=horizon, **env_config)
    agent = make(name, env, seed=0, **config)
    started = time.process_time()
    play(env, agent, horizon, seed=0)
    return time.process_time() - started
