"""A run in Weights & Biases, offline; `wandb sync` sends it later."""

import gymnasium as gym
import wandb
from privbandit_agents import make, play

import privbandit_envs  # noqa: F401

env = gym.make("privbandit/Linear-v0", n_arms=4, dim=3, horizon=1000)
agent = make("jdp-linucb", env, seed=0, epsilon=1.0)
with wandb.init(project="bandits", mode="offline", config={"agent": agent.name, "epsilon": 1.0}) as run:
    play(env, agent, seed=0, on_checkpoint=lambda curve: run.log({"regret": curve.total_regret}, step=curve.users))
