"""Joint agents under delay: one record replaced, all releases forced to be the same."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.testing.replay import APART, BRIEFLY, replay
from privbandit_agents.testing.watchers import Forcer, Writer, joined, loss, releases_of

from privbandit_envs import Delay, DelayFeedback

WORLDS: dict[str, dict[str, Any]] = {
    "jdp-linucb": {"id": "privbandit/Linear-v0", "n_arms": 3, "dim": 2},
    "sw-jdp-linucb": {"id": "privbandit/Linear-v0", "n_arms": 3, "dim": 2},
    "newton-mnl": {"id": "privbandit/Assortment-v0", "n_items": 5, "capacity": 2},
    "jdp-glm": {"id": "privbandit/Linear-v0", "n_arms": 3, "dim": 2},
    "reward-dp-linucb": {"id": "privbandit/Linear-v0", "n_arms": 3, "dim": 2},
}
DELAY = Delay(6, missing=0.05)
BATCHES = (Delay(25, "batch"), Delay(10, "growing", 0.1), Delay(law="ends", ends=(7, 60, 100)))
SETTINGS: dict[str, dict[str, Any]] = {"sw-jdp-linucb": {"window": 40}}
USERS = 160


def served(name: str, target: int, replaced: bool, watcher: Any, law: Delay) -> tuple[list[Any], Any]:
    """Serve users whose reports are late; return the others' actions and when releases changed, and the agent."""
    env = DelayFeedback(gym.make(**WORLDS[name], horizon=USERS), law)
    agent: Any = make(name, env, seed=3, epsilon=2.0, **SETTINGS.get(name, {}))
    agent.watcher = watcher
    context, _ = env.reset(seed=2)
    secret, seen = context, []
    for user in range(USERS):
        action = agent.select_action(context)
        if user != target:
            seen.append((np.array(action), agent.frozen_rounds()))
        else:
            secret = context.copy()
        context, *_, info = env.step(action)
        if info["reports"] is not None:
            contexts, actions, feedback = (np.array(part) for part in info["reports"])
            theirs = (contexts == secret).all(axis=(1, 2))
            if replaced and user >= target and theirs.any():  # another context and another answer, at the same time
                if name != "reward-dp-linucb":
                    contexts[theirs] = contexts[theirs][..., ::-1]
                feedback[theirs] = 0
            agent.update(contexts, actions, feedback)
    return seen, agent


CASES = [(name, DELAY) for name in (*SETTINGS, "jdp-linucb", "newton-mnl")]
CASES += [(name, law) for name in WORLDS for law in BATCHES]


@pytest.mark.parametrize(("name", "law"), CASES)
@pytest.mark.parametrize("target", [0, 37])
@pytest.mark.wide_at("0-newton-mnl-law1?", "37-*", "0-sw-jdp-linucb-law[0-7]", "37-*-law[3-9]", "37-*-law1?")
def test_a_late_record_costs_no_more_than_is_promised(name: str, law: Delay, target: int) -> None:
    writer = Writer()
    seen, agent = served(name, target, False, writer, law)
    forcer = Forcer(writer.notes, "with a late record replaced")
    others, _ = served(name, target, True, forcer, law)
    assert len(forcer.exact) == len(writer.notes), "when something is released must not depend on records"
    assert all(np.array_equal(a, b) and f == g for (a, f), (b, g) in zip(seen, others, strict=True))
    rho, moved = 0.0, 0
    for release in releases_of(writer.notes):
        cost = loss(release.mechanism, release.exact, joined(release.notes, forcer.exact), release.released)
        rho, moved = rho + cost.as_rho(), moved + (cost.as_rho() > 0)
    assert 0 < rho <= agent.guarantee.rho * (1 + 1e-6)
    assert moved == 1 or name == "newton-mnl", "a counter's releases are one"


CURATORS = ("jdp-linucb", "sw-jdp-linucb", "jdp-glm", "reward-dp-linucb")
RUNS = ("adap-klucb", "dp-se")
TOLD = [(name, law) for name in CURATORS for law in BATCHES]
TOLD += [(name, law) for name in RUNS for law in (*BATCHES, Delay(20), Delay(15, "fixed"), Delay(4, "heavy", 0.2))]


@pytest.mark.parametrize(("name", "law"), TOLD)
@pytest.mark.wide_but("jdp-glm-law6", "adap-klucb-law1[45]")
def test_a_promise_about_feedback_changes_no_price(name: str, law: Delay) -> None:
    """Whatever the curator is told of delays: of records that come at once it says no more than it promises."""
    world = "privbandit/Bandit-v0" if name in RUNS else "privbandit/Linear-v0"
    settings = {"feedback": law, **SETTINGS.get(name, {})}
    for user in (0, 60):
        losses, unseen = replay(name, world, 100, settings, user, BRIEFLY)
        assert losses and not unseen
    replay(name, world, 100, settings, 0, APART[:4], every=True)


@pytest.mark.parametrize("name", CURATORS)
@pytest.mark.parametrize("law", BATCHES)
def test_releases_come_with_batches_and_no_more_often(name: str, law: Delay) -> None:
    """A curator who was told of batches releases where one ends, or less often than who was not."""
    users: list[list[int]] = []
    for told in ({}, {"feedback": None}):
        env = DelayFeedback(gym.make(**WORLDS[name], horizon=USERS), law)
        agent: Any = make(name, env, seed=3, **SETTINGS.get(name, {}), **told)
        ends: list[int] = []
        agent.watcher = lambda made, agent=agent, ends=ends: (ends.append(agent.users), made.draw())[1]
        play(env, agent, USERS, seed=1)
        users.append(ends)
    batches = {law.release(records) for records in range(1, USERS + 1)} | {*range(40, USERS + 1, 40)}
    assert users[0] and set(users[0]) <= batches and len(users[0]) < len(users[1])


@pytest.mark.parametrize("name", CURATORS)
def test_a_batch_longer_than_the_horizon_is_no_fault(name: str) -> None:
    env = gym.make(**WORLDS[name], horizon=20, feedback=Delay(40, "batch"))
    assert play(env, make(name, env, seed=0, epsilon=1.0), 20, seed=0).regret[-1] >= 0
