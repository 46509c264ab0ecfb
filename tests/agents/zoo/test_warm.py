"""A warm start: the people of an old log are an agent's first users."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import Log, log, make, play

WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "jdp-linucb": ("privbandit/Linear-v0", {"n_arms": 5, "dim": 4}),
    "newton-mnl": ("privbandit/Assortment-v0", {"n_items": 10, "capacity": 2, "dim": 3}),
}
OLD, USERS = 1000, 1500


def logged(env_id: str, settings: dict[str, Any], seed: int, people: Any = None) -> Log:
    env: Any = gym.make(env_id, horizon=OLD, **settings).unwrapped
    return replace(log(env, make("uniform", env, seed=99), OLD, seed=seed), people=people)


@pytest.mark.wide_at("jdp-linucb")
@pytest.mark.parametrize("name", WORLDS)
def test_a_joint_agent_starts_where_the_log_ends(name: str) -> None:
    env_id, settings = WORLDS[name]
    cold = warm = 0.0
    for seed in range(3):
        env = gym.make(env_id, horizon=USERS, **settings)
        old = logged(env_id, settings, seed)
        cold += play(env, make(name, env, seed=seed), USERS, seed=seed).regret[-1]
        warm += play(env, make(name, env, seed=seed, warm=old), USERS, seed=seed).regret[-1]
    assert warm <= 0.6 * cold


def test_the_log_s_people_are_users_like_others() -> None:
    """The agent is the one that served them itself: horizon, ledger, sums and noise."""
    env_id, settings = WORLDS["jdp-linucb"]
    env, old = gym.make(env_id, horizon=USERS, **settings), logged(env_id, settings, 0)
    agent: Any = make("jdp-linucb", env, seed=3, warm=old)
    longer: Any = make("jdp-linucb", env, seed=3, horizon=OLD + USERS)
    for row in zip(old.contexts, old.actions, old.feedback, strict=True):
        longer.update(*row)
    assert agent.config == longer.config and agent.guarantee == longer.guarantee
    assert agent.ledger.releases == longer.ledger.releases
    assert agent.release == pytest.approx(longer.release, rel=1e-9, abs=1e-12)


def test_a_horizon_of_yours_stays() -> None:
    env_id, settings = WORLDS["jdp-linucb"]
    env, old = gym.make(env_id, horizon=USERS, **settings), logged(env_id, settings, 0)
    assert make("jdp-linucb", env, warm=old, horizon=9000).config.horizon == 9000
    assert make("jdp-linucb", env, warm=old).config.horizon == OLD + USERS


def test_a_person_of_the_log_counts_once() -> None:
    env_id, settings = WORLDS["jdp-linucb"]
    env = gym.make(env_id, horizon=USERS, **settings)
    twice: Any = make("jdp-linucb", env, seed=3, people=3000, warm=logged(env_id, settings, 0, np.arange(OLD) // 2))
    alone: Any = make("jdp-linucb", env, seed=3, people=3000, horizon=OLD + USERS)
    old = logged(env_id, settings, 0)
    alone.update(old.contexts[::2], old.actions[::2], old.feedback[::2], person=np.arange(OLD // 2))
    assert twice.release == pytest.approx(alone.release, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "env_id", "message"),
    [
        ("dp-se", "privbandit/Bandit-v0", "dp-se learns from arms that it chose itself"),
        ("ldp-ucb", "privbandit/Bandit-v0", "ldp-ucb learns from arms that it chose itself"),
        ("ldp-clicks", "privbandit/Clicks-v0", "ldp-clicks learns from arms that it chose itself"),
        ("jdp-linucb", "privbandit/Linear-v0", r"the log has contexts of shape \(5, 4\); jdp-linucb plays \(5, 7\)"),
    ],
)
def test_what_cannot_learn_from_it_says_so(name: str, env_id: str, message: str) -> None:
    settings: dict[str, Any] = {"dim": 7, "n_arms": 5} if "Linear" in env_id else {}
    env = gym.make(env_id, horizon=USERS, **settings)
    with pytest.raises((TypeError, ValueError), match=message):
        make(name, env, warm=logged(*WORLDS["jdp-linucb"], 0))


def test_a_log_whose_levels_come_from_its_rows_warms_no_private_agent() -> None:
    """One row with an arm of its own gives other arms' rows other numbers."""
    rng = np.random.default_rng(0)
    table = {"x": rng.random(60), "arm": rng.choice(["a", "b", "c"], 60), "won": rng.integers(2, size=60)}
    read = Log.from_table(table, action="arm", reward="won")
    env = gym.make("privbandit/Clicks-v0", n_arms=3, dim=1, horizon=USERS)
    with pytest.raises(ValueError, match=r"levels or bounds of x, arm, won come from the log's rows.*give Log"):
        make("jdp-linucb", env, warm=read)
    assert make("linucb", env, warm=read)
    public = {"minimum": 0, "maximum": 1, "required": True}
    schema = {
        "fields": [
            {"name": "x", "type": "number", "constraints": public, "privbandit": {"public": True}},
            {"name": "arm", "constraints": {"enum": ["a", "b", "c"]}, "privbandit": {"public": True, "role": "action"}},
            {"name": "won", "type": "number", "constraints": public, "privbandit": {"public": True, "role": "reward"}},
        ]
    }
    warmed: Any = make("jdp-linucb", env, warm=Log.from_table(table, schema=schema))
    assert warmed.users == 60


def test_numbers_that_a_table_s_persons_were_given_are_nobody_s() -> None:
    rng = np.random.default_rng(0)
    table = {"who": 7000 + np.arange(60) // 2, "x": rng.random(60), "arm": np.arange(60) % 3, "won": np.arange(60) % 2}
    read = Log.from_table(table, action="arm", reward="won", person="who")
    env = gym.make("privbandit/Clicks-v0", n_arms=3, dim=1, horizon=USERS)
    with pytest.raises(ValueError, match="made numbers up"):
        make("jdp-linucb", env, people=9000, warm=replace(read, about={"renumbered": True}))


def test_a_delta_is_judged_by_the_log_s_people_too() -> None:
    env_id, settings = WORLDS["jdp-linucb"]
    env, old = gym.make(env_id, horizon=USERS, **settings), logged(env_id, settings, 0)
    with pytest.warns(UserWarning, match="may expose"):
        make("jdp-linucb", env, delta=1 / (USERS + 500), warm=old)
