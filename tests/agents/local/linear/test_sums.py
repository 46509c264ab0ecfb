"""Sums of a block's reports have the law of the reports that single devices send; error rates below 1e-3 a check."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.privacy.contributions.moments import Lifted, sanitise
from privbandit_agents.privacy.randomizers.sphere import Hemisphere
from scipy import stats

SUMMED = ["ldp-linucb", "ldp-oful", "ldp-greedy", "prec-ts", "ldp-sgd", "lplr"]


def agent_and_users(name: str, users: int, dim: int = 2, **config: Any) -> tuple[Any, list[Any]]:
    """Return an agent, and contexts, actions and rewards that are far from even."""
    env: Any = gym.make("privbandit/Linear-v0", n_arms=3, dim=dim, horizon=10_000)
    env.reset(seed=3)
    rng = np.random.default_rng(5)
    rewards = np.where(rng.random(users) < 0.8, 1.0, -0.3)
    return make(name, env, seed=2, **config), [env.unwrapped.upcoming(users), rng.integers(3, size=users), rewards]


def decoded(agent: Any, report: Any) -> Any:
    return agent.estimate(report)


def check_same_law(ours: Any, theirs: Any) -> None:
    """Compare every column by KS at p > 1e-5, and by its variance; 1.5 times the scale, or a shift, is rejected."""
    error = np.sqrt(2 / len(ours) + 2 / len(theirs))
    scales, shifts = [], []
    for one, other in zip(ours.T, theirs.T, strict=True):
        if np.ptp(other) == 0:
            continue
        assert stats.ks_2samp(one, other).pvalue > 1e-5
        scales.append(np.log(one.var() / other.var()) / error)
        shifts.append(stats.ks_2samp(one + 0.5 * other.std(), other).pvalue)
    assert np.abs(scales).max() < 5 < max(scales) + np.log(1.5**2) / error
    assert min(shifts) < 1e-3


@pytest.mark.parametrize("name", [name for name in SUMMED if name != "ldp-oful"])  # its devices are ldp-linucb's
@pytest.mark.wide
def test_the_sum_of_a_block_has_the_law_of_single_reports(name: str) -> None:
    agent, records = agent_and_users(name, 500, epsilon=4.0)
    assert 1 <= agent.fewest_summed <= 500
    single = np.array([decoded(agent, agent.randomize(*records)).sum(axis=0).ravel() for _ in range(120)])
    summed = np.array([agent.randomize_sum(*records).ravel() for _ in range(300)])
    check_same_law(summed[:, :40], single[:, :40])


@pytest.mark.parametrize(("users", "epsilon"), [(1, 1.0), (2, 6.0), (5, 1.0), (5, 6.0)])
@pytest.mark.wide
def test_few_users_in_many_dimensions(users: int, epsilon: float) -> None:
    """Along the users' own vectors, a fixed line, and in length: 6 / (n M) is the excess kurtosis that is off."""
    rng = np.random.default_rng(0)
    dim, z = 400, np.ones((5, 1)) + rng.standard_normal((5, 400))
    z = (z / np.linalg.norm(z, axis=1, keepdims=True) * [[1.0], [0.6], [0.0], [1.0], [0.9]])[:users]
    cells = np.array([0, 1, 0, -1, 0])[:users]
    randomizer = Hemisphere(epsilon, 2, dim)
    lines = np.concatenate([z, np.eye(dim)[:1]])
    single = [randomizer.estimate(randomizer.randomize(cells, z, rng)).sum(axis=0) for _ in range(800)]
    vectors = Lifted(z, np.zeros((users, 0)))
    summed = [randomizer.sum_of_each(cells, vectors, rng) for _ in range(800)]
    read = [np.concatenate([sums @ lines.T for sums in np.swapaxes(both, 0, 1)], axis=1) for both in (summed, single)]
    for one, other in zip(*(columns.T for columns in read), strict=True):
        assert np.ptp(other) == 0 or stats.ks_2samp(one, other).pvalue > 1e-5
    own = read[1][:, 0]
    assert stats.ks_2samp(1.5 * read[0][:, 0], own).pvalue < 1e-3
    # mean and squared length are those of the reports
    mean = np.zeros((2, dim))
    np.add.at(mean, cells[cells >= 0], z[cells >= 0])
    for sums in (np.array(summed), np.array(single)):
        error = (sums - mean).reshape(800, -1)
        expected = users * randomizer.scale**2 - (z[cells >= 0] ** 2).sum()
        assert (error**2).sum(axis=1).mean() == pytest.approx(expected, rel=0.03)


@pytest.mark.wide
def test_equal_vectors_leave_no_room_across() -> None:
    """All users have the same vector: the covariance is singular along it but for the heights."""
    rng = np.random.default_rng(1)
    z = np.tile(np.array([[0.6, 0.8]]), (600, 1))
    randomizer = Hemisphere(2.0, 1, 2)
    summed = np.array(
        [randomizer.sum_of_each(np.zeros(600, int), Lifted(z, np.zeros((600, 0))), rng) for _ in range(300)]
    )
    single = np.array(
        [randomizer.estimate(randomizer.randomize(np.zeros(600, int), z, rng)).sum(axis=0) for _ in range(150)]
    )
    check_same_law(summed[:, 0], single[:, 0])


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_factors_give_what_the_vectors_give(dim: int) -> None:
    rng = np.random.default_rng(dim)
    x, y = sanitise(rng.standard_normal((9, dim)), rng.standard_normal(9))
    lifted = Lifted.packed(x, y, rng.standard_normal((9, 2)))
    dense, weights, vector = lifted.dense(), rng.standard_normal(9), rng.standard_normal(lifted.size)
    assert dense.shape == (9, lifted.size)
    np.testing.assert_allclose(lifted.sum(weights), weights @ dense, atol=1e-12)
    np.testing.assert_allclose(lifted.sum(), dense.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(lifted.times(vector), dense @ vector, atol=1e-12)
    np.testing.assert_allclose(lifted.gram(), dense @ dense.T, atol=1e-12)
    np.testing.assert_array_equal(lifted[2:5].dense(), dense[2:5])


def test_records_that_are_not_finite_are_in_the_sum_as_zeros() -> None:
    for name in SUMMED:
        agent, (contexts, actions, rewards) = agent_and_users(name, 600)
        contexts, rewards = contexts.copy(), rewards.copy()
        contexts[:200], contexts[200:300], rewards[300:400] = np.nan, np.inf, np.nan
        agent.update_counts(contexts, actions, rewards)
        assert np.isfinite(agent.total).all()


@pytest.mark.wide_at("ldp-greedy", "lplr", "ldp-oful", "ldp-linucb", "input-perturbation")
@pytest.mark.parametrize("name", [*SUMMED, "input-perturbation"])
def test_users_served_alone_are_those_of_the_step_loop(name: str) -> None:
    """Portions of any size leave the bits as they are, and so does the block path of ``by_counts=False``."""
    regrets = []
    for wrapped in (False, True):
        env: Any = gym.make("privbandit/Linear-v0", n_arms=3, dim=3, horizon=700)
        agent = make(name, env, seed=1, epsilon=3.0)
        played = gym.wrappers.TimeLimit(env, 10**6) if wrapped else env
        result = play(played, agent, 700, seed=1, by_counts=False)
        assert result.simulation == "users"
        regrets.append(result.regret)
    np.testing.assert_array_equal(regrets[0], regrets[1])


@pytest.mark.parametrize(("name", "word"), [("ldp-linucb", "sums"), ("ldp-sgd", "sums, normal"), ("linucb", "users")])
def test_a_run_says_that_it_drew_sums(name: str, word: str) -> None:
    env: Any = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=30_000)
    growth = {} if name == "linucb" else {"growth": 1.4}
    result = play(env, make(name, env, seed=1, **growth), 3000, seed=1)
    assert result.simulation == word
    agent: Any = make(name, env, seed=1, **growth)
    assert play(env, agent, 3000, seed=1, by_counts=False).simulation == "users"


def test_what_may_not_be_summed_is_not() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [("input-perturbation", {}), ("ldp-greedy", {"release": "laplace"})]
    for name, config in cases:
        agent, records = agent_and_users(name, 10, **config)
        assert agent.fewest_summed == np.inf
        with pytest.raises(TypeError, match="no law of summed reports"):
            agent.update_counts(*records)


def test_sums_of_infinite_budgets_are_exact() -> None:
    agent, records = agent_and_users("ldp-greedy", 12, epsilon=np.inf)
    np.testing.assert_allclose(agent.randomize_sum(*records), agent.encode(*records).sum(axis=0))
