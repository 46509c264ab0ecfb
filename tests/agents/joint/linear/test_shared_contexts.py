"""Arms that share a context: a regression for each, in one counter."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import rng
from privbandit_agents import make, play
from privbandit_agents.base.arms import with_intercept
from privbandit_agents.privacy.contributions.moments import pack, packed_size
from privbandit_agents.testing.runs import same_state

T, K, D = 120, 3, 2
NAMES = ("jdp-linucb", "reward-dp-linucb")


def agent_of(name: str = "jdp-linucb", horizon: int = T, **config: Any) -> Any:
    return make(name, world(horizon=horizon), seed=0, **config)


def world(**kwargs: Any) -> Any:
    return gym.make("privbandit/Clicks-v0", **{"n_arms": K, "dim": D, "horizon": T, **kwargs}).unwrapped


def records(n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    draw = rng(seed)
    return draw.standard_normal((n, D)).astype(np.float32), draw.integers(K, size=n), draw.integers(2, size=n) * 1.0


@pytest.mark.parametrize("name", NAMES)
def test_each_arm_has_a_ridge_regression_of_its_own_users(name: str) -> None:
    agent = agent_of(name, epsilon=np.inf, bonus_scale=0.0, growth=1.01)
    contexts, actions, clicks = records(50)
    agent.update(contexts, actions, clicks)
    probe = with_intercept(rng(1).standard_normal((400, D)))
    scores = []
    for arm in range(K):
        z, y = with_intercept(contexts[actions == arm]), 2 * clicks[actions == arm] - 1
        scores.append(probe @ np.linalg.solve(z.T @ z + np.eye(D + 1), z.T @ y))
    assert agent.schedule.ends == 51
    seen = rng(1).standard_normal((400, D))
    assert np.array_equal(agent.select_action(seen), np.argmax(scores, axis=0))


@pytest.mark.parametrize("name", NAMES)
def test_users_may_be_grouped_at_will(name: str) -> None:
    T = 700
    whole, parts = (agent_of(name, T) for _ in range(2))
    sent = records(T)
    whole.update(*sent)
    for part in np.split(np.arange(T), [1, 2, 255, 256, 257, 611]):
        parts.update(*(column[part] for column in sent))
    assert same_state(whole, parts) and np.array_equal(whole.release, parts.release)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -1e300, 1e300])
def test_replacing_any_record_moves_a_term_by_at_most_two(odd: float) -> None:
    """A user's term is the block of the arm; records on two arms are sqrt(3) apart, on one arm at most 2."""
    agent = agent_of()
    contexts, actions, clicks = records(60, 4)
    contexts = contexts.astype(np.float64)
    contexts[0], clicks[1], actions[2] = odd, odd, -1
    terms = []
    for row in range(60):
        sent = agent.records_of(contexts[row], int(actions[row]), clicks[row])
        agent.schedule.add(agent, *agent.regressed(*sent))
        terms.append(agent.term(agent.schedule.epoch.take()))
    apart = np.linalg.norm(np.subtract.outer(terms, terms).diagonal(axis1=1, axis2=3), axis=-1)
    assert len(terms[0]) == agent.counted == K * packed_size(D + 1)
    assert 1.5 < apart.max() <= 2 and np.isfinite(apart).all()
    block = pack(with_intercept(contexts[5:6]), 2 * clicks[5:6] - 1)[0]
    assert np.allclose(terms[5].reshape(K, -1)[actions[5]], block)
    assert np.allclose(np.delete(terms[5].reshape(K, -1), actions[5], axis=0), 0)


def test_rewards_beyond_clicks_are_clipped_to_zero_and_one() -> None:
    agents = [agent_of() for _ in range(2)]
    contexts, actions, clicks = records(T)
    agents[0].update(contexts, actions, clicks)
    agents[1].update(contexts, actions, np.where(clicks > 0, 7.0, -3.0))
    assert np.array_equal(agents[0].release, agents[1].release)


@pytest.mark.wide_at("reward-*", "jdp-linucb")
@pytest.mark.parametrize("name", NAMES)
def test_budgets_decide_how_far_it_is_from_chance(name: str) -> None:
    env, seeds = world(horizon=5000, n_arms=4, dim=6, instance_seed=3), range(3)
    chance = play(env, make("uniform", env, seed=0), seed=0).regret[-1]
    share = {
        epsilon: np.mean([play(env, make(name, env, seed=s, epsilon=epsilon), seed=s).regret[-1] for s in seeds])
        / chance
        for epsilon in (0.01, 1.0, np.inf)
    }
    assert share[np.inf] < 0.15 and share[np.inf] < share[1.0] < 0.7 and share[0.01] < 1.3, share


@pytest.mark.parametrize(
    ("id", "settings", "people", "name"),
    [
        ("Clicks-v0", {}, None, "jdp-linucb"),
        ("Classification-v0", {}, None, "jdp-kernel"),
        ("Classification-v0", {}, 40, "jdp-kernel"),
        ("Classification-v0", {"n_public": 19}, None, "jdp-smooth"),
        ("Classification-v0", {"n_public": 49, "source": "digits"}, None, "jdp-smooth"),
        ("Classification-v0", {"n_public": 19}, 40, "jdp-linucb"),
    ],
)
def test_auto_joint_plays_clicks_and_labels(id: str, settings: Any, people: int | None, name: str) -> None:
    env = gym.make(f"privbandit/{id}", horizon=300, **settings)
    agent = make("auto-joint", env, seed=0, people=people)
    assert agent.name == name and agent.guarantee.notion == "joint"
    assert play(env, agent, seed=0).regret[-1] > 0
