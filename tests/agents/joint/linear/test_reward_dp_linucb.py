"""Privacy of rewards alone: what is hidden, and what is not."""

import dataclasses
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, make, play
from privbandit_agents.audits.pairs.populations import populations
from privbandit_agents.audits.pairs.records import Record, drawn
from privbandit_agents.audits.pairs.scenes import joint_pairs
from privbandit_agents.audits.pairs.targets import targets
from privbandit_agents.base.guarantee import SAME
from privbandit_agents.base.rows import Products
from privbandit_agents.privacy.contributions.moments import sanitise, sanitise_apart
from privbandit_agents.testing import replay as replays
from privbandit_agents.testing.replay import replay

LINEAR, NAME = "privbandit/Linear-v0", "reward-dp-linucb"
WILD = [math.nan, math.inf, -math.inf, 1e308, -3.0, "one", None]


def world(horizon: int = 400, **kwargs: Any) -> Any:
    return gym.make(LINEAR, n_arms=3, dim=3, horizon=horizon, instance_seed=0, **kwargs)


def test_the_promise_says_what_is_not_protected() -> None:
    promise = make(NAME, world(), epsilon=2.0).guarantee
    assert (promise.notion, promise.neighbours, promise.epsilon) == ("reward", "replace-one-reward", 2.0)
    assert "every context and every action, which are not protected" in promise.protects
    assert promise.words.startswith("reward 2, 1e-05")


def test_the_worst_pair_of_rewards_costs_nearly_all_that_is_promised_and_no_more() -> None:
    """The replay fails by itself if a pair costs more."""
    costs, unseen = replay(NAME, LINEAR, 120, {"epsilon": 1.0}, 0)
    rho = make(NAME, world(), epsilon=1.0).guarantee.rho
    assert not unseen and 0.9 * rho < max(cost.as_rho() for cost in costs) <= rho * (1 + 1e-6)  # type: ignore[operator]


def test_moved_features_are_seen_and_not_claimed_to_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the pairs that joint privacy is held to, the same releases of noise come with another policy."""

    def of_joint_privacy(agent: Any, ordinary: Any) -> Any:
        monkeypatch.setattr(agent, "guarantee", dataclasses.replace(agent.guarantee, notion="joint", neighbours=SAME))
        return targets(agent, ordinary)

    monkeypatch.setattr(replays, "targets", of_joint_privacy)
    with pytest.raises(AssertionError, match="release differs"):
        replay(NAME, LINEAR, 60, {}, 0)


def test_an_adversary_reads_the_features_of_a_user_without_a_reward() -> None:
    """Both worlds have the same sum of y x, 0, and the same noise; the policies differ, whatever epsilon is."""
    released: list[Any] = []
    for axis in (0, 1):
        agent: Any = make(NAME, world(), seed=0, epsilon=1e-3)
        agent.update(np.tile(np.eye(3)[axis], (3, 1)), 0, 0.0)
        assert not agent.schedule.counter.total.any()
        released.append(agent.release)
    assert not np.allclose(*released)


@pytest.mark.parametrize("wild", WILD)
def test_no_reward_changes_what_is_kept_of_the_features(wild: Any) -> None:
    grams = []
    for reward in (wild, 0.5):
        agent: Any = make(NAME, world(), seed=0)
        agent.update([[[0.6, 0.0, 0.8]] * 3], [1], [reward])
        grams.append(agent.gram)
    assert np.array_equal(*grams) and grams[0][0].trace() == pytest.approx(1)


REWARDS_ALONE = [name for name, entry in AGENTS.items() if entry.notion == "reward" and not name.startswith("auto")]
NO_NUMBERS = (math.nan, math.inf, -math.inf, None, "one", [1, 2], 1e308, -0.75)


def users(env_id: str, n: int) -> tuple[Any, Any, Any]:
    """Return an environment, and contexts of all sizes and arms of n users."""
    env: Any = gym.make(env_id, n_arms=3, dim=3, horizon=n).unwrapped
    rng, shape = np.random.default_rng(0), env.observation_space.shape
    contexts = rng.standard_normal((n, *shape)) * 10.0 ** rng.integers(-2, 4, (n, *(1,) * len(shape)))
    return env, contexts, rng.integers(0, 3, n)


@pytest.mark.wide_at("explore-*")
@pytest.mark.parametrize("env_id", [LINEAR, "privbandit/Clicks-v0"])
@pytest.mark.parametrize("name", [*REWARDS_ALONE, *(f"explore-{name}" for name in REWARDS_ALONE)])
def test_no_reward_tells_in_what_has_no_noise_whether_it_is_a_number(name: str, env_id: str) -> None:
    """One of some fifty contexts is longer than 1 by a rounding when it has been scaled to 1."""
    env, contexts, arms = users(env_id, 150)
    found = []
    for reward in (0.3, math.nan, math.inf, None):
        agent: Any = make(name, env, seed=0, growth=1.0001)  # each user is an epoch
        parts = []
        for context, arm in zip(contexts, arms, strict=True):
            agent.update(context, int(arm), reward)
            bonus = agent.release.reshape(agent.dim, agent.models, -1)[..., :-1]
            parts.append(agent.gram.tobytes() + bonus.tobytes())
            agent.gram[:] = 0.0  # a sum would hide the last bits of a part
        found.append(parts)
    assert len(set(found[0])) > 50 and all(parts == found[0] for parts in found)


@pytest.mark.wide
@pytest.mark.parametrize("env_id", [LINEAR, "privbandit/Clicks-v0"])
@pytest.mark.parametrize("name", REWARDS_ALONE)
def test_no_reward_moves_a_bit_of_anybodys_features(name: str, env_id: str) -> None:
    """Ten thousand users, each with a Gram matrix of its own, of whom a third have rewards that are no numbers."""
    env, contexts, arms = users(env_id, 10_000)
    agent: Any = make(name, env, seed=0)
    found = []
    for reward in (0.3, *NO_NUMBERS):
        own, grams = Products(agent.dim + 1, 250, agent.schedule.epoch.clean), []
        for start in range(0, len(arms), 250):
            part = slice(start, start + 250)
            rewards = [reward if user % 3 else 0.5 for user in range(250)]
            x, y, _ = agent.regressed(*agent.records_of(contexts[part], arms[part], rewards))
            own.add(np.concatenate([x, y[:, None]], axis=1), np.arange(250))
            grams.append(own.take()[:, :-1, :-1].tobytes())
        found.append(grams)
    assert all(grams == found[0] for grams in found)


def test_features_and_rewards_are_clipped_each_by_itself() -> None:
    x, y = np.array([[3.0, 4.0], [math.nan, 1.0], [0.3, 0.4]]), np.array([math.inf, 5.0, -0.25])
    features, rewards = sanitise_apart(x, y)
    assert np.allclose(features, np.array([[0.6, 0.8], [0, 0], [0.3, 0.4]])) and rewards.tolist() == [0, 1, -0.25]
    good = np.array([[0.1, 0.2], [2.0, 0.0]]), np.array([0.3, -7.0])
    assert all(np.array_equal(a, b) for a, b in zip(sanitise(*good), sanitise_apart(*good), strict=True))


def test_an_audit_tries_pairs_of_rewards_alone() -> None:
    env = world()
    seen = drawn(env, 20)
    reward, joint = (joint_pairs(env, seen, make(name, env)) for name in (NAME, "jdp-linucb"))
    assert len(joint) > len(reward) >= 4
    for pair in reward:
        one, other = (pair.users(k, 1) for k in (0, 1))
        assert np.array_equal(one.contexts, other.contexts) and np.array_equal(one.actions, other.actions)
        assert not np.array_equal(one.feedback, other.feedback)
    records = [*targets(make(NAME, env), Record(seen.contexts[0], seen.actions[0], seen.feedback[0])).values()]
    crowds = [*populations(env, 20, make(NAME, env)).values()]
    assert len(records) >= 4 and all(one.context is records[0].context for one in records)
    assert len(crowds) >= 8 and all(np.array_equal(crowd.contexts, crowds[0].contexts) for crowd in crowds)


def test_without_noise_it_is_ridge_regression() -> None:
    env = world()
    agent: Any = make(NAME, env, seed=0, epsilon=math.inf, bonus_scale=0.0)
    play(env, agent, 300, seed=0)
    assert np.allclose(agent.release[:, -1], env.unwrapped.problem.theta, atol=0.2)


@pytest.mark.slow
def test_it_learns_and_pays_less_with_more_budget() -> None:
    """Means of three worlds after 20 000 users; uniform play has about 10 000."""
    means = [
        np.mean(
            [
                play(env, make(NAME, env, seed=seed, epsilon=epsilon), seed=seed).regret[-1]
                for seed in range(3)
                for env in [gym.make(LINEAR, dim=5, horizon=20_000, instance_seed=seed)]
            ]
        )
        for epsilon in (0.5, 8.0)
    ]
    assert means[1] < 0.6 * means[0] and means[0] < 2000
