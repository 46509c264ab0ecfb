"""TRPO of sb3-contrib, with one network that scores every arm."""

import gymnasium as gym
from privbandit_agents.baselines.rl import actor_critic_policy, to_sb3
from sb3_contrib import TRPO

users = to_sb3(gym.make_vec("privbandit/Linear-fixed-v0", num_envs=4))
TRPO(actor_critic_policy(), users, gamma=0.0, n_steps=32, batch_size=32, device="cpu").learn(256)
