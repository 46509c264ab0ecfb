"""Checks of agents with ``people``: only the first visit of each of n people counts, whatever happens in between."""

import pickle
from typing import Any

import gymnasium as gym
import numpy as np

from privbandit_agents.base.agent import Devices
from privbandit_agents.base.people import Seen
from privbandit_agents.playing.play import play
from privbandit_agents.testing.runs import again, differing, environment, same_state
from privbandit_agents.zoo.registry import field_names, find, make
from privbandit_envs.env import BanditEnv


def check_people(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """With ``people=n`` an agent learns from each person's first visit alone, and promises privacy to persons.

    Whatever a person sends later changes nothing: not in the same group, nor after the agent was copied, or saved and
    loaded. Nobody beyond n people counts.
    """
    if "people" not in field_names(find(name).load().Config) or config.get("people") is not None:
        return
    people = max(horizon // 6, 2)
    config = config | {"people": people}
    env = environment(env_id, horizon)
    agent, twin = (make(name, env, seed=17, **config) for _ in range(2))
    promise = agent.guarantee
    assert agent.people_seen is not None and promise.unit == "person" and "person" in promise.words, (
        f"with people={people} the guarantee must be to persons: let the base class count, and say unit='person'"
    )
    if type(agent.people_seen) is not Seen and not isinstance(agent, Devices):
        return  # it counts all visits, in a way of its own, which is replayed
    # both serve the same visits; what returning people of the twin send is turned to nonsense
    env.reset(seed=17)
    rng = np.random.default_rng(17)
    whose = np.concatenate([rng.integers(0, people // 2, horizon // 2), rng.integers(0, 3 * people, horizon)])
    came, start, episodes = set[int](), 0, 0
    while start < horizon:
        n = min(7, agent.frozen_rounds(), horizon - start)
        ids = whose[start : start + n]
        contexts = env.upcoming(n)
        actions = np.asarray(agent.select_action(contexts))
        twin.select_action(contexts)
        feedback = np.asarray(env.serve(actions).feedback, np.float64)
        agent.update(contexts, actions, feedback, ids)  # type: ignore[call-arg]
        back = np.zeros(n, bool)
        for row, one in enumerate(ids.tolist()):
            back[row] = one in came or len(came) == people
            came |= set() if back[row] else {one}
        nonsense = np.where(back.reshape(-1, *[1] * (contexts.ndim - 1)), np.nan, contexts)
        twin.update(nonsense, actions, np.where(back, 1e9, feedback), ids)  # type: ignore[call-arg]
        assert same_state(agent, twin), (
            f"a person who returns counts: {differing(agent, twin)} depend on it; learn in curate(), randomize() "
            "and absorb() alone, which get first visits"
        )
        start += n
        if episodes < 2 and start > (episodes + 1) * horizon // 4:
            agent, twin = (again(one, env) if episodes else pickle.loads(pickle.dumps(one)) for one in (agent, twin))
            episodes += 1
    counted = min(len(came), people)
    assert agent.people_seen is not None and agent.people_seen.counted == counted, (
        f"{agent.people_seen and agent.people_seen.counted} people were counted of {counted}: people_seen must be kept "
        "by save and load"
    )
    in_blocks_and_steps(name, env_id, horizon, config)


def in_blocks_and_steps(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Check that blocks and single steps are the same run where people return."""
    env = environment(env_id, horizon)
    if not isinstance(env, BanditEnv):
        return
    returning = gym.make(env_id, horizon=2 * horizon, people=config["people"], returns="zipf").unwrapped
    agents = [make(name, returning, seed=18, **config) for _ in range(2)]
    results = [
        play(world, agent, horizon, seed=18)
        for world, agent in zip((returning, gym.Wrapper(returning)), agents, strict=True)
    ]
    assert np.array_equal(results[0].regret, results[1].regret), (
        "with people that return, blocks and single steps are different runs: choose by the context and released "
        "numbers, by settled() for who does not report, and by random numbers of each user, as "
        "uniforms_per_user draws them: two draws a call are in another order for a block"
    )
    assert same_state(*agents), f"blocks and single steps leave different agents: {differing(*agents)}"
