"""How often the intervals of off-policy estimates cover the truth, privately released ones too.

    python benchmarks/off_policy.py
    python benchmarks/off_policy.py --agent linucb --share 0.2 --users 1000 --repetitions 100

In each repetition a new world is drawn. The policy to judge is linucb, as it stands after 300 users of that world;
others are logged with Explore(agent, share). Contexts are finitely many, so the policy's true value is a sum. A row
has the share of intervals that cover it, the mean error in standard errors, the root mean square error, and the mean
half width.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import time
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import Explore, dr, ips, log, make, play, private_value, snips

import privbandit_envs  # noqa: F401  (registers the environments)

FIRST_SEED = 990_000
NAMES = ("ips", "snips", "dr", "private")


def repetition(seed: int, given: argparse.Namespace) -> list[tuple[float, float, float, float]]:
    """Return (estimate, standard error, half width, truth) of each estimate."""
    kwargs = {"n_arms": given.arms, "dim": given.dim, "support": 256, "horizon": max(given.users, 300)}
    env: Any = gym.make("privbandit/Linear-v0", **kwargs).unwrapped
    judged = make("linucb", env, seed=seed)
    play(env, judged, 300, seed=seed)
    law = np.asarray(judged.probabilities(env.support.contexts))
    truth = float(env.support.probabilities @ (law * env.problem.means(env.support.contexts)).sum(axis=1))
    # further users of the same world
    config = {} if given.epsilon is None else {"epsilon": given.epsilon}
    agent = Explore(make(given.agent, env, seed=seed + 1, **config), given.share, seed)
    logged = log(env, agent, given.users)
    chances = np.asarray(judged.probabilities(logged.contexts))
    found: list[Any] = [estimator(logged, chances) for estimator in (ips, snips, dr)]
    found.append(private_value(logged, chances, given.value_epsilon, rng=np.random.default_rng(seed)))
    return [(one.value, one.error, (one.high - one.low) / 2, truth) for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="jdp-linucb")
    parser.add_argument("--epsilon", type=float, default=1.0, help="of the agent that is logged")
    parser.add_argument("--value-epsilon", type=float, default=1.0, help="of the private estimate")
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--arms", type=int, default=3)
    parser.add_argument("--dim", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    given = parser.parse_args()
    if given.agent in ("linucb", "lints", "greedy", "epsilon-greedy", "uniform"):
        given.epsilon = None
    started = time.process_time()
    table = np.array([repetition(given.first_seed + k, given) for k in range(given.repetitions)])
    print(f"{'estimate':>10} {'covered':>8} {'mean z':>8} {'rmse':>8} {'width':>8}")
    for name, (value, error, half, truth) in zip(NAMES, np.moveaxis(table, 0, -1), strict=True):
        covered, off = (np.abs(value - truth) <= half).mean(), value - truth
        z = (off / error).mean()
        print(f"{name:>10} {covered:8.3f} {z:8.3f} {np.sqrt((off**2).mean()):8.4f} {half.mean():8.4f}")
    print(f"{given.repetitions} repetitions, {time.process_time() - started:.0f} CPU seconds")


if __name__ == "__main__":
    main()
