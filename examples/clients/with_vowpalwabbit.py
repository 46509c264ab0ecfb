"""SquareCB of Vowpal Wabbit, which needs the probability of the played arm."""

import gymnasium as gym
import numpy as np
from privbandit_agents import ForeignAgent, play
from vowpalwabbit.pyvw import Workspace

import privbandit_envs  # noqa: F401

env = gym.make("privbandit/Linear-v0", n_arms=5, dim=4, horizon=400, instance_seed=0)
learner, rng = (
    Workspace("--cb_explore_adf --squarecb --gamma_scale 100 --quiet --random_seed 1"),
    np.random.default_rng(0),
)
chances = {}


def lines(context):
    return ["|a " + " ".join(f"f{i}:{x:.6g}" for i, x in enumerate(arm)) for arm in context.tolist()]


def choose(context):
    law = np.array(learner.predict("\n".join(lines(context))))
    arm = int(rng.choice(len(law), p=law / law.sum()))
    chances[arm] = law[arm]
    return arm


def learn(context, arm, reward):
    told = lines(context)
    told[arm] = f"0:{-float(reward)}:{chances[int(arm)]} {told[arm]}"
    learner.learn("\n".join(told))


regret = play(env, ForeignAgent(env, choose, learn, "vowpalwabbit"), seed=0).regret[-1]
print("regret", regret)
