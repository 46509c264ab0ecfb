"""A kernel model of public rows that a curator moves: what a record adds, who is learned from, and what odd rows do."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from privbandit_agents import make, play
from privbandit_agents.joint.smooth.jdp_kernel import JDPKernel


def built(labels: int = 3, public: int = 12, **config: Any) -> Any:
    """Return an agent whose public rows are at random, but for the half of the first feature that a label has."""
    rng = np.random.default_rng(0)
    x = rng.random((public, 2))
    spaces = Box(0, 1, (2,), np.float64), Discrete(labels)
    known = x, np.floor(labels * x[:, 0]).astype(int)
    return JDPKernel(*spaces, JDPKernel.Config(**config), np.random.default_rng(0), known)


def term(agent: Any, contexts: Any, arms: Any, rewards: Any) -> Any:
    """Return what the records add to the sum of a batch."""
    agent.schedule.begin(agent)
    agent.schedule.add(agent, *agent.regressed(np.asarray(contexts, float), np.asarray(arms), np.asarray(rewards)))
    return agent.term(agent.schedule.epoch.take())


def records(rng: np.random.Generator, users: int, labels: int) -> Any:
    return rng.random((users, 2)), rng.integers(labels, size=users), rng.integers(2, size=users) * 1.0


@pytest.mark.wide_at("0.0-2", "1000.0-3")
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("sure", [0.0, 1e3])
def test_replacing_a_record_moves_the_sum_by_at_most_two(labels: int, sure: float) -> None:
    agent, rng, moves = built(labels), np.random.default_rng(1), []
    agent.server.means = agent.server.means + sure
    for _ in range(300):
        x, arms, rewards = records(rng, 9, labels)
        x[1] = x[0] if rng.random() < 0.5 else 4 * x[1] - 2
        one, other = (term(agent, np.delete(x, i, 0), np.delete(arms, i), np.delete(rewards, i)) for i in (0, 1))
        moves.append(np.linalg.norm(one - other))
    assert 1.5 < max(moves) <= agent.moved


def test_sums_are_exact_in_any_order_and_cut() -> None:
    agent, rng = built(), np.random.default_rng(2)
    x, arms, rewards = records(rng, 256, 3)
    whole = term(agent, x, arms, rewards)
    order = rng.permutation(256)
    assert (whole == term(agent, x[order], arms[order], rewards[order])).all() and whole.any()
    assert (whole * 2**20 % 1 == 0).all() and agent.batch == 256


def test_records_that_are_no_numbers_add_nothing() -> None:
    agent = built()
    odd = [([np.nan, 0.5], 0, 1.0), ([0.5, 0.5], 0, np.inf), ([0.5, 0.5], -1, 1.0), ([0.5, 0.5], 7, 1.0)]
    for x, arm, reward in odd:
        assert not term(agent, [x], [arm], [reward]).any()


def test_one_by_one_and_in_blocks_the_release_is_the_same() -> None:
    one, many = built(), built()
    x, arms, rewards = records(np.random.default_rng(4), 700, 3)
    many.update(x, arms, rewards)
    for row in zip(x, arms, rewards, strict=True):
        one.update(*row)
    assert (one.release == many.release).all() and (one.release != one.field.public).any()
    assert np.array_equal(one.select_action(x), many.select_action(x))


def test_the_noise_of_a_batch_does_not_grow_with_it() -> None:
    """The sum of vectors gets noise of deviation 2 / mu, whatever the batch."""
    agent, seen = built(rho=0.02, directions=12), list[float]()

    def watch(publication: Any) -> Any:
        seen.append(publication.mechanism.sigma)
        return publication.draw()

    agent.watcher = watch
    agent.update(*records(np.random.default_rng(5), 3000, 3))
    assert len(seen) > 8 and np.allclose(seen, 2 / 0.2, rtol=1e-3)


def test_no_record_stops_the_curator_where_numpy_raises_errors() -> None:
    """A context far from public rows that are close to each other has kernel values below the least float."""
    rng, spaces = np.random.default_rng(0), (Box(0, 1, (2,), np.float64), Discrete(2))
    public = 0.5 + rng.random((12, 2)) / 100, np.arange(12) % 2
    agent = JDPKernel(*spaces, JDPKernel.Config(), np.random.default_rng(0), public)
    with np.errstate(all="raise"):
        for _ in range(16):
            agent.update(np.zeros(2), 0, 1.0)
    assert agent.users == agent.batch == 16


@pytest.mark.parametrize(("rows", "labels"), [(0, 2), (1, 2), (2, 26)])
def test_public_rows_may_be_few(rows: int, labels: int) -> None:
    agent = built(labels, rows)
    agent.update(*records(np.random.default_rng(6), 300, labels))
    assert np.isfinite(agent.release).all() and agent.release.shape[1] == labels


@pytest.mark.wide_at("digits")
@pytest.mark.parametrize("source", ["wine", "digits"])
def test_it_is_ahead_of_agents_that_do_not_start_from_public_rows(source: str) -> None:
    env = gym.make("privbandit/Classification-v0", source=source, horizon=4000)
    regrets = {}
    for name in ("jdp-kernel", "jdp-smooth", "kernel-ldp"):
        regrets[name] = play(env, make(name, env, seed=0), 4000, seed=0).regret[-1]
    assert regrets["jdp-kernel"] < min(0.4 * regrets["jdp-smooth"], regrets["kernel-ldp"]), regrets


def crossed(rows: int, seed: int, turned: float = 0.0) -> Any:
    """Return contexts, and labels by the sign of a product of two features, some of them turned."""
    rng = np.random.default_rng(seed)
    x, wrong = rng.random((rows, 2)), rng.random(rows) < turned
    return x, (((x[:, 0] - 0.5) * (x[:, 1] - 0.5) > 0) ^ wrong).astype(int)


def test_users_correct_what_public_rows_tell() -> None:
    """A third of the public labels are turned."""
    spaces, (test, right) = (Box(0, 1, (2,), np.float64), Discrete(2)), crossed(2000, 1)
    agent = JDPKernel(*spaces, JDPKernel.Config(epsilon=2.0), np.random.default_rng(0), crossed(60, 2, 0.35))
    before = (agent.select_action(test) == right).mean()
    for part in zip(*(np.split(column, 20) for column in crossed(8000, 3)), strict=True):
        given = agent.select_action(part[0])
        agent.update(part[0], given, (given == part[1]) * 1.0)
    assert (agent.select_action(test) == right).mean() > max(0.9, before + 0.05)
