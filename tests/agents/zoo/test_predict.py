"""Predictions of all agents: a number for every arm and context, or None."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, make
from privbandit_agents.baselines.rl import actor_critic_policy, q_policy
from privbandit_agents.zoo.registry import can_play

WORLDS: dict[str, Any] = {
    "Linear-v0": {"n_arms": 3, "dim": 2},
    "Clicks-v0": {"n_arms": 3, "dim": 2},
    "Bandit-v0": {},
    "Smooth-v0": {},
    "Assortment-v0": {"n_items": 5, "capacity": 2, "dim": 2},
}


@pytest.mark.filterwarnings("ignore:.*:privbandit_agents.base.guarantee.UnprovenCalibration")
@pytest.mark.parametrize("world", [*WORLDS, pytest.param("Classification-v0", marks=pytest.mark.wide)])
def test_predict_is_a_number_for_every_arm_or_none(world: str) -> None:
    env: Any = gym.make(f"privbandit/{world}", horizon=100, **WORLDS.get(world, {})).unwrapped
    env.reset(seed=0)
    contexts = env.upcoming(4)
    for name in AGENTS:
        if can_play(name, env) and name not in ("ppo", "a2c", "dqn"):
            predicted = make(name, env, seed=0).predict(contexts)
            assert predicted is None or np.shape(predicted) == (4, env.action_space.n), name


@pytest.mark.wide
@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_a_policy_of_rows_refuses_one_context_for_all_arms(algorithm: str) -> None:
    library = pytest.importorskip("stable_baselines3")
    env = gym.make("privbandit/Clicks-v0", n_arms=3, dim=2, horizon=100)
    policy = actor_critic_policy() if algorithm == "PPO" else q_policy()
    with pytest.raises(TypeError, match=r"needs contexts of shape \(K, d\); got \(2,\): privbandit_envs.PerArm\(env\)"):
        getattr(library, algorithm)(policy, env)
