"""MaskablePPO of sb3-contrib finds the masks of absent arms while it learns; `predict` takes them."""

import gymnasium as gym
import numpy as np
from privbandit_agents import make, play
from privbandit_agents.baselines.rl import to_sb3
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_util import make_vec_env

import privbandit_envs  # noqa: F401

world = {"id": "privbandit/Linear-fixed-v0", "n_arms": 4, "dim": 2, "available": 0.5}
learned = {"gamma": 0.0, "n_steps": 16, "batch_size": 64, "learning_rate": 0.01, "device": "cpu", "seed": 0}
users = to_sb3(gym.make_vec(**world, num_envs=16))
model = MaskablePPO("MlpPolicy", users, **learned).learn(8192)

contexts, regret = users.reset(), 0.0
for _ in range(125):  # times 16 users
    masks = np.stack(users.env_method("action_masks"))
    arms, _ = model.predict(contexts, action_masks=masks)
    assert masks[np.arange(16), arms].all()  # never an absent arm
    contexts, _, _, infos = users.step(arms)
    regret += sum(info["regret"] for info in infos)
env = gym.make(**world, horizon=2000)
at_random = play(env, make("uniform", env, seed=0), seed=0).regret[-1]
print("regret", regret, "at random", at_random)

# the library's own vectors, where an absent arm would be an error
slots = make_vec_env(world.pop("id"), n_envs=2, env_kwargs=world)
MaskablePPO("MlpPolicy", slots, **learned).learn(128)
