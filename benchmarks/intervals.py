"""How often the intervals of ``privbandit cost`` cover the truth, on logs of worlds whose truth is known.

``python benchmarks/intervals.py [--repetitions 30] [--logs small,wide,skewed,wrong]`` prints, for each log and agent,
the number of repetitions whose 95 % interval has the agent's true reward, and how often the check is alarmed.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from privbandit_agents import Log, make, play
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.cli.cost import estimated
from privbandit_agents.logs.simulator import LOG_ENV, check_simulator, simulator
from privbandit_agents.zoo.registry import can_play

import privbandit_envs
from privbandit_envs.families.clicks import ClicksProblem
from privbandit_envs.problem import Array, Floats

Env = gym.Env[Any, Any]
AGENTS = ("linucb", "auto-joint", "reward-dp-linucb", "shuffle-linucb", "auto-local")
LOGS = {"small": (4, 6, 20_000), "wide": (10, 12, 50_000), "skewed": (4, 6, 20_000), "wrong": (4, 6, 20_000)}
"""Arms, features and users of each log."""


class Crossed(ClicksProblem):
    """Clicks that depend on the product of two features, which no line follows."""

    def means(self, contexts: Array) -> Floats:
        usual = super().means(contexts)
        sign = np.sign(contexts[..., 0] * contexts[..., 1])[..., None] * np.where(np.arange(usual.shape[-1]) % 2, 1, -1)
        return np.asarray(np.clip(usual + 0.25 * sign, 0.02, 0.98))


def world(name: str, horizon: int) -> Env:
    arms, dim, _ = LOGS[name]
    if name != "wrong":
        return gym.make("privbandit/Clicks-v0", instance_seed=5, n_arms=arms, dim=dim, horizon=horizon)
    return privbandit_envs.BanditEnv(Crossed, instance_seed=5, n_arms=arms, dim=dim, horizon=horizon)


def logged(name: str, seed: int) -> Log:
    """Return a log of a policy that knows a noisy version of the truth; the one of ``skewed`` goes down to .01."""
    arms, _, users = LOGS[name]
    env = world(name, users)
    env.reset(seed=seed)
    contexts = env.unwrapped.upcoming(users)  # type: ignore[attr-defined]
    rng = default_rng([seed, 7])
    law = policy(contexts, arms, rng, 0.01 if name == "skewed" else 0.3 / arms, 4.0 if name == "skewed" else 1.0)
    actions = np.minimum((law.cumsum(axis=1) < rng.random((users, 1))).sum(axis=1), arms - 1)
    served = env.unwrapped.serve(actions)  # type: ignore[attr-defined]
    p = law[np.arange(users), actions]
    return Log(contexts, actions, served.reward, p, served.reward, np.zeros(users), {"uniform": 1 / arms})


def policy(contexts: Array, arms: int, rng: Generator, least: float, sharpness: float) -> NDArray[np.float64]:
    """Return a softmax policy with random weights, mixed so that no arm has less than ``least``, shape (n, K)."""
    scores = sharpness * contexts @ rng.normal(0, 0.5, (contexts.shape[1], arms))
    law = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(least + (1 - arms * least) * law / law.sum(axis=1, keepdims=True))


def truths(name: str, agents: list[str], runs: int = 24) -> dict[str, float]:
    """Return each agent's true mean reward a user, by runs in the world itself."""
    users = LOGS[name][2]
    found = {}
    for agent in agents:
        means = []
        for seed in range(runs):
            env = world(name, users)
            result = play(env, made(agent, env, seed), seed=10_000 + seed)
            means.append(result.reward[-1] / users)
        found[agent] = float(np.mean(means))
    return found


def made(agent: str, env: Env, seed: int) -> AnyAgent:
    return make(agent, env, seed=seed, **({} if agent == "linucb" else {"epsilon": 1.0}))


def covered(name: str, repetitions: int, seeds: int) -> Iterator[str]:
    """Yield a line for each agent, and one for the check."""
    agents = [agent for agent in AGENTS if can_play(agent, world(name, 100))]
    true = truths(name, agents)
    hits, widths, off = dict.fromkeys(agents, 0), dict.fromkeys(agents, 0.0), 0
    for repetition in range(repetitions):
        log = logged(name, 500 + repetition)
        fitted = simulator(log, "logistic" if name == "wrong" else "auto")
        off += any(gap.off for gap in check_simulator(fitted))
        for agent in agents:
            curves = []
            for seed in range(seeds):
                env = gym.make(LOG_ENV, source=fitted, horizon=len(log))
                result = play(env, made(agent, env, seed), seed=seed)
                curves.append(result.reward)
            mean, half = estimated(curves, result.checkpoints, len(log))
            hits[agent] += abs(mean - true[agent]) <= half
            widths[agent] += half / repetitions
    for agent in agents:
        found = f"{hits[agent]:3} of {repetitions}   true {true[agent]:.4f}   half width {widths[agent]:.4f}"
        yield f"{name:8} {agent:18} {found}"
    yield f"{name:8} the check is alarmed in {off} of {repetitions}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--logs", default=",".join(LOGS))
    asked = parser.parse_args()
    for name in asked.logs.split(","):
        for line in covered(name, asked.repetitions, asked.seeds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
