"""Thompson sampling of bayesianbandits, with a learner for each arm."""

import gymnasium as gym
import numpy as np
from bayesianbandits import Arm, ContextualAgent, NormalRegressor, ThompsonSampling
from privbandit_agents import ForeignAgent, play

import privbandit_envs  # noqa: F401

env = gym.make("privbandit/Classification-v0", source="wine", n_public=20, horizon=400)
arms = [Arm(arm, learner=NormalRegressor(alpha=1.0, beta=10.0)) for arm in range(env.action_space.n)]
learner = ContextualAgent(arms, ThompsonSampling(), random_seed=1)


def choose(context):
    return learner.pull(context[None].astype(float))[0]


def learn(context, arm, reward):
    learner.select_for_update(int(arm)).update(context[None].astype(float), np.array([float(reward)]))


regret = play(env, ForeignAgent(env, choose, learn, "bayesianbandits"), seed=0).regret[-1]
print("regret", regret)
