"""A figure of seaborn, from the polars frames of results."""

import gymnasium as gym
import matplotlib
import polars as pl
import seaborn
from privbandit_agents import make, play

import privbandit_envs  # noqa: F401

matplotlib.use("agg")
env = gym.make("privbandit/Linear-v0", n_arms=4, dim=3, horizon=1000)
runs = [
    play(env, make(name, env, seed=seed), seed=seed).to_frame().with_columns(agent=pl.lit(name), seed=pl.lit(seed))
    for name in ("linucb", "uniform")
    for seed in range(3)
]
table = pl.concat(runs)
seaborn.lineplot(table.to_pandas(), x="checkpoint", y="regret", hue="agent").figure.savefig("regret.png")
