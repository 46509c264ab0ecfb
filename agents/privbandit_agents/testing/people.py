"""Checks of agents with ``people``: only the first visit of each of n people counts, whatever happens in between."""

import pickle
from typing import Any

import numpy as np

from privbandit_agents.base.local import Devices
from privbandit_agents.base.people import Seen
from privbandit_agents.testing.loops import check_frozen
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
    if isinstance(env, BanditEnv):
        check_frozen(name, env_id, horizon, config, people=people, returns="zipf")
