"""Plays every agent that needs numpy, scipy and gymnasium alone: run it where nothing else is installed."""

import importlib.util
import sys
import warnings

import gymnasium as gym
from privbandit_agents import AGENTS, make, play
from privbandit_agents.zoo.registry import can_play

import privbandit_envs

EXTRAS = ("torch", "sklearn", "stable_baselines3", "polars", "matplotlib", "rich")
NEED_AN_EXTRA = {"tree-public", "tree-all", "logistic-public", "kernel-public", "ppo", "a2c", "dqn"}

present = [name for name in EXTRAS if importlib.util.find_spec(name)]
if present:
    sys.exit(f"the core has to be tested without {', '.join(present)}.")
warnings.filterwarnings("ignore", r".* is retired", DeprecationWarning)  # agents that still play, for one release
played = set()
for env_id in privbandit_envs.ENV_IDS:
    env = gym.make(env_id, horizon=64)
    for name in sorted(AGENTS.keys() - NEED_AN_EXTRA):
        if name not in played and can_play(name, env):
            play(env, make(name, env, seed=0), seed=0)
            played.add(name)
missing = AGENTS.keys() - NEED_AN_EXTRA - played
sys.exit(f"not played: {', '.join(sorted(missing))}" if missing else 0)
