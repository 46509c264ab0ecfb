"""LinUCB of contextualbandits, which takes one context for all arms."""

import gymnasium as gym
import numpy as np
from contextualbandits.online import LinUCB
from privbandit_agents import ForeignAgent, play

import privbandit_envs  # noqa: F401

env = gym.make("privbandit/Classification-v0", source="wine", n_public=20, horizon=400)
learner, started = LinUCB(nchoices=int(env.action_space.n), alpha=0.3, random_state=1), []


def choose(context):
    return int(learner.predict(context[None].astype(float))[0]) if started else 0


def learn(context, arm, reward):
    started.append(arm)
    learner.partial_fit(context[None].astype(float), np.array([arm]), np.array([float(reward)]))


regret = play(env, ForeignAgent(env, choose, learn, "contextualbandits"), seed=0).regret[-1]
print("regret", regret)
