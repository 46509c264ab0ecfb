"""Regret where an arm comes and another goes every 2500 users, over that of an agent made anew at each change.

    python benchmarks/arms.py > docs/measured/arms.csv

Of 15 arms 8 are there at a time, by a public calendar; 20,000 users come, and epsilon is 1.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from harness import Line, options, results, written
from privbandit_agents import make, play
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import field_names

USERS, EVERY, THERE = 20_000, 2500, 8
CALENDAR = {start: list(range(start // EVERY, start // EVERY + THERE)) for start in range(0, USERS, EVERY)}
WORLDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "Linear-v0": ({"n_arms": 15, "dim": 5}, ("linucb", "jdp-linucb", "ldp-greedy")),
    "Clicks-v0": ({"n_arms": 15, "dim": 3}, ("linucb", "jdp-linucb", "jdp-glm")),
    "Bandit-v0": ({"n_arms": 15}, ("linucb", "ucb1")),
}


def regret(name: str, world: str, seed: int, users: int) -> float:
    """Return the regret over all users of agents that are made anew after so many users."""
    settings = WORLDS[world][0]
    env = gym.make(f"privbandit/{world}", horizon=EVERY, available=CALENDAR, **settings)
    known = field_names(AGENTS[name].load().Config)
    chosen = {key: value for key, value in {"epsilon": 1.0, "horizon": users}.items() if key in known}
    regrets = list[float]()
    agent: Any = None
    for start in range(0, USERS, EVERY):  # the stream of users goes on
        if start % users == 0:
            agent = make(name, env, seed=1000 * seed + start, **chosen)
        else:
            agent.retire_arms([str(CALENDAR[start][0] - 1)])
        agent.add_arms([str(arm) for arm in range(len(agent.arm_states), CALENDAR[start][-1] + 1)])
        regrets.append(play(env, agent, EVERY, seed=None if start else seed, checkpoints=[EVERY]).regret[-1])
    return sum(regrets)


def line(world: str, name: str, seeds: int) -> Line:
    """Return the mean regret of an agent that is made anew at each change, and of one that goes on."""
    anew, on = (np.mean([regret(name, world, seed, users) for seed in range(seeds)]) for users in (EVERY, USERS))
    found = {"made anew": f"{anew:.0f}", "goes on": f"{on:.0f}", "goes on over made anew": f"{on / anew:.2f}"}
    return {"world": world, "agent": name, **found}


if __name__ == "__main__":
    given = options(__doc__, seeds=2).parse_args()
    cases = [(world, name, given.seeds) for world, (_, names) in WORLDS.items() for name in names]
    written(given, results(given, line, cases))
