"""LinUCB of mabwiser, which takes one context for all arms."""

import gymnasium as gym
from mabwiser.mab import MAB, LearningPolicy
from privbandit_agents import ForeignAgent, play

import privbandit_envs  # noqa: F401

env = gym.make("privbandit/Classification-v0", source="wine", n_public=20, horizon=400)
learner, started = MAB(list(range(env.action_space.n)), LearningPolicy.LinUCB(alpha=0.3, l2_lambda=1.0)), []


def choose(context):
    return int(learner.predict(context[None])) if started else 0


def learn(context, arm, reward):
    (learner.partial_fit if started else learner.fit)([int(arm)], [float(reward)], context[None])
    started.append(arm)


regret = play(env, ForeignAgent(env, choose, learn, "mabwiser"), seed=0).regret[-1]
print("regret", regret)
