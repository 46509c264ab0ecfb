"""The vector environment under skrl's wrapper."""

import gymnasium as gym
from skrl.envs.wrappers.torch import wrap_env

import privbandit_envs  # noqa: F401

users = wrap_env(gym.make_vec("privbandit/Linear-fixed-v0", num_envs=4))
contexts, infos = users.reset()
print(users.num_envs, contexts.shape)
