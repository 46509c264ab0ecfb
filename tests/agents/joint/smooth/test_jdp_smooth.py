"""Kernel regression on a private histogram: what a record moves, what is learned, and what odd records do."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.joint.smooth.jdp_smooth import GRID, Histogram, JDPSmooth


def world(dim: int = 2, horizon: int = 5000, **given: Any) -> Any:
    return gym.make("privbandit/Smooth-v0", dim=dim, horizon=horizon, **given)


def term(agent: JDPSmooth, contexts: Any, arms: Any, rewards: Any) -> Any:
    """Return what the records add to the counter's term."""
    agent.schedule.begin(agent)  # type: ignore[attr-defined]
    agent.schedule.add(agent, *agent.regressed(np.asarray(contexts, float), np.asarray(arms), np.asarray(rewards)))
    return agent.term(agent.schedule.epoch.take())  # type: ignore[attr-defined]


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_replacing_a_record_moves_the_sum_by_at_most_one(dim: int) -> None:
    agent: Any = make("jdp-smooth", world(dim), seed=0)
    rng = np.random.default_rng(0)
    moves = []
    for _ in range(400):
        x = rng.random((2, 8, dim)) * rng.choice([1, 3]) - rng.choice([0, 1])
        x[1, 1:] = x[0, 1:]
        arms, rewards = rng.integers(3, size=(2, 8)), rng.choice([0.0, 1.0, 0.5, -9.0, 9.0], size=(2, 8))
        arms[1, 1:], rewards[1, 1:] = arms[0, 1:], rewards[0, 1:]
        one, other = (term(agent, *world_) for world_ in zip(x, arms, rewards, strict=True))
        moves.append(np.linalg.norm(one - other))
    assert 0.99 < max(moves) <= agent.moved * (1 + 1e-12)


def test_sums_are_exact_in_any_order() -> None:
    agent: Any = make("jdp-smooth", world(), seed=0)
    rng = np.random.default_rng(1)
    x, arms, rewards = rng.random((3000, 2)), rng.integers(3, size=3000), rng.random(3000)
    order = rng.permutation(3000)
    assert (term(agent, x, arms, rewards) == term(agent, x[order], arms[order], rewards[order])).all()


def test_sums_of_very_many_users_move_by_what_one_record_adds() -> None:
    one, other = Histogram(1, 1), Histogram(1, 1)
    one.totals[:], other.totals[:] = 2**35 * GRID, 2**35 * GRID
    other.add(np.array([[0.0, 1.0]]), np.array([0]))
    rest = np.zeros((2000, 2))
    rest[:, 1] = 0.5 + np.where(np.arange(2000) % 2, -3, 5) / GRID
    for each in (one, other):
        each.add(rest, np.zeros(2000, np.intp))
    assert np.abs((other.take() - one.take())[0, 0] - 0.5).max() <= 2**-16  # the spacing of floats near 2^36


def test_records_that_are_no_numbers_add_nothing() -> None:
    agent: Any = make("jdp-smooth", world(), seed=0)
    for x, arm, reward in (
        ([np.nan, 0.5], 0, 1.0),
        ([0.5, 0.5], 0, np.inf),
        ([0.5, 0.5], -1, 1.0),
        ([0.5, 0.5], 7, 1.0),
    ):
        assert not term(agent, [x], [arm], [reward]).any()


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_without_noise_the_functions_are_learned(dim: int) -> None:
    env = world(dim, 20_000)
    agent: Any = make("jdp-smooth", env, seed=0, epsilon=math.inf)
    env.reset(seed=0)
    rng, problem = np.random.default_rng(2), env.unwrapped.problem
    x, arms = rng.random((20_000, dim), np.float32), rng.integers(3, size=20_000)
    means = problem.means(x)
    agent.update(x, arms, (rng.random(20_000) < means[np.arange(20_000), arms]).astype(float))
    probes = rng.random((500, dim), np.float32)
    assert np.abs(agent.means(probes) + 0.5 - problem.means(probes)).mean() < 0.08


@pytest.mark.wide_at("5-0.8", "2-0.7")
@pytest.mark.parametrize(("dim", "most"), [(1, 0.5), (2, 0.7), (5, 0.8)])
def test_it_is_ahead_of_a_regression_that_is_straight(dim: int, most: float) -> None:
    regrets = []
    for name in ("jdp-smooth", "jdp-linucb"):
        runs = [play(world(dim), make(name, world(dim), seed=s, epsilon=2.0), 5000, seed=s).regret[-1] for s in (0, 1)]
        regrets.append(sum(runs))
    assert regrets[0] < most * regrets[1]


def test_one_by_one_and_in_blocks_the_release_is_the_same() -> None:
    one, many = (make("jdp-smooth", world(), seed=3) for _ in range(2))
    rng = np.random.default_rng(4)
    x, arms, rewards = rng.random((300, 2), np.float32), rng.integers(3, size=300), rng.integers(2, size=300) * 1.0
    many.update(x, arms, rewards)
    for row in zip(x, arms, rewards, strict=True):
        one.update(*row)
    assert (one.release == many.release).all()  # type: ignore[attr-defined]
    assert np.array_equal(one.select_action(x), many.select_action(x))


@pytest.mark.parametrize("sigma", [0.0, 0.3, 40.0])
def test_parts_that_add_up_are_learned_as_if_all_cells_were_solved_at_once(sigma: float) -> None:
    agent: Any = make("jdp-smooth", world(4), seed=0)
    rng, size = np.random.default_rng(3), agent.parts * agent.along
    noisy = rng.uniform(-2, 200, (agent.models, size, 2))
    noisy[0, :7] = 0.0  # a part and more of which nobody is known
    noisy[1, agent.along :, 0] = -1.0
    found = agent.learned(noisy.ravel() / agent.parts**0.5, sigma / agent.parts**0.5, 1000)
    prior, own = (np.kron(np.eye(agent.parts), one) for one in (agent.prior, np.ones((agent.along, agent.along))))
    for arm, part in enumerate(noisy):
        counts = np.maximum(2 * part[:, 0], 0.0)
        root = np.sqrt(counts / 4 + 1.5 * sigma**2 + 1e-9)
        by_part = counts.reshape(agent.parts, agent.along)
        share = (by_part / np.maximum(by_part.sum(axis=1, keepdims=True), 1e-9)).ravel()
        seen = (np.diag(counts) + np.outer(counts, share) * (1 - own)) / root[:, None]
        gain = prior @ seen.T @ np.linalg.inv(seen @ prior @ seen.T + np.eye(size))
        np.testing.assert_allclose(prior @ found[:, 0, arm], gain @ (part[:, 1] / root), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found[:, 1, arm], np.diagonal(prior - gain @ seen @ prior), rtol=0, atol=1e-8)
