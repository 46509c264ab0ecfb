"""LinUCB of coba, whose learners read the features of each arm."""

import gymnasium as gym
from coba.learners import LinUCBLearner
from privbandit_agents import ForeignAgent, play

import privbandit_envs  # noqa: F401

env = gym.make("privbandit/Linear-v0", n_arms=5, dim=4, horizon=400, instance_seed=0)
learner = LinUCBLearner(alpha=0.3, features=["a"])


def choose(context):
    arms = [tuple(arm) for arm in context.tolist()]
    return arms.index(tuple(learner.predict(None, arms)[0]))


def learn(context, arm, reward):
    learner.learn(None, tuple(context[arm].tolist()), float(reward), 1.0)


regret = play(env, ForeignAgent(env, choose, learn, "coba"), seed=0).regret[-1]
print("regret", regret)
