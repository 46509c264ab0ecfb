"""Smooth rewards under local privacy: what a device sends, what the server makes of it, and auxiliary records."""

import math
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import load, make, play, save
from privbandit_agents.base.local import Inputs

SMOOTH = "privbandit/Smooth-v0"
RIDGES: dict[str, Any] = {"n_arms": 3, "dim": 2}


def agent_of(env: Any = None, **config: Any) -> Any:
    """Return the agent for an environment; by default for ridges in two dimensions."""
    return make("smooth-ldp", gym.make(SMOOTH, **RIDGES) if env is None else env, **{"seed": 0, **config})


def learned(users: int = 4000, world: dict[str, Any] = RIDGES, **config: Any) -> Any:
    """Return an agent that has learned without noise, and goes on with the given settings."""
    env = gym.make(SMOOTH, **world, horizon=users)
    agent = agent_of(env, seed=0, **{"epsilon": math.inf, **config})
    play(env, agent, seed=0, by_counts=False)
    return agent


def records() -> list[tuple[list[float], int, float]]:
    """Return 24 records: corners and the middle, all arms, the least reward, the most and none."""
    places = ([0.0, 0.0], [1.0, 1.0], [0.3, 0.7], [math.nan, 0.9])
    answers = ((0, 0.0), (0, 1.0), (1, 1.0), (2, 0.4), (-1, 1.0), (1, math.nan))
    return [(place, arm, reward) for place in places for arm, reward in answers]


def worst_ratio(all_inputs: list[Inputs], reports: Any) -> float:
    """Return the largest log likelihood ratio of any two inputs over the given reports."""
    logs = np.array([given.log_likelihood(reports, 0) for given in all_inputs])
    assert logs.shape == (len(all_inputs), len(reports))
    return float(np.max(logs.max(axis=0) - logs.min(axis=0)))


@pytest.mark.wide_at("*-0.5", "*-3.0")
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("kind", ["reward", "place", "auxiliary"])
def test_no_two_records_are_told_apart_by_more_than_epsilon(epsilon: float, kind: str) -> None:
    """All reports of a device that has up to three cells, exactly; some pair reaches epsilon."""
    agent = agent_of(epsilon=epsilon)
    agent.order = np.arange(agent.n_arms)
    agent.open = np.array([1, 5, 6])  # a half, and the halves of the other one
    agent.left[5] = [True, False, False]  # decided: its users are inactive
    agent.run = 7 if kind == "place" else 2
    agent.lay_out()
    assert agent.asks_places == (kind == "place") and len(agent.undecided) == 2
    if kind == "auxiliary":
        given = [
            agent.logged_inputs(np.array([x]), np.array([arm]), np.array([np.nan_to_num(2 * y - 1)]))
            for x, arm, y in records()
        ]
    else:
        given = [agent.inputs(np.array([x]), np.array([arm]), np.array([y])) for x, arm, y in records()]
    device = given[0].randomizer
    assert all(one.randomizer.epsilon == epsilon for one in given)
    cells = device.cells
    size = device.size
    reports = np.array([r for r in product((-1, 0, 1), repeat=cells) if np.count_nonzero(r) == size])
    for one in given:
        total = np.exp(one.log_likelihood(reports, 0)).mean()
        assert total == pytest.approx(1), "densities are relative to uniform reports"
    assert epsilon * (1 - 1e-9) <= worst_ratio(given, reports) <= epsilon * (1 + 1e-9)


def test_noise_in_all_cells_is_epsilon_private_and_noise_in_the_own_cell_is_not() -> None:
    """The report of the paper's authors: 2000 reports of each record; one cell alone shows where a user is."""
    agent = agent_of(report="laplace")
    agent.open = np.array([1, 2])
    agent.lay_out()
    given = [agent.inputs(np.array([x]), np.array([arm]), np.array([y])) for x, arm, y in records()]
    reports = np.concatenate([one.randomize(agent.rng) for one in given for _ in range(200)])
    assert 0.9 < worst_ratio(given, reports) <= 1 + 1e-9
    own = given[0].cells[0]
    without = reports[:200].copy()
    without[:, np.arange(agent.device.cells) != own] = 0.0  # as in the authors' code
    elsewhere = np.array([(row[np.arange(len(row)) != own] == 0).all() for row in without])
    assert elsewhere.all() and not (reports[:, own] == 0).any(), "exact zeros never occur in another user's cell"


@pytest.mark.parametrize("report", ["signed-subset", "laplace"])
@pytest.mark.parametrize("record", [(5, 1.0), (-1, 1.0), (0, math.nan), (0, math.inf)])
def test_who_has_nothing_to_tell_reports_nothing(report: str, record: tuple[int, float]) -> None:
    agent = agent_of(report=report)
    given = agent.inputs(np.array([[0.2, 0.2]]), np.array([record[0]]), np.array([record[1]]))
    assert given.cells[0] == (0 if report == "signed-subset" else -1)
    assert report == "laplace" or given.values[0, 0] == 0
    clipped = agent.inputs(np.array([[0.2, 0.2]]), np.array([0]), np.array([7.0]))
    assert clipped.values[0, -1] == 1


@pytest.mark.wide
@pytest.mark.parametrize(("report", "epsilon"), [("signed-subset", 2.0), ("laplace", 10.0)])
def test_estimates_are_right_up_to_the_stated_variance(report: str, epsilon: float) -> None:
    """Four cells, 20 runs of 4000 users: at most 5 standard deviations, mean square .6 to 1.6."""
    errors = []
    for seed in range(20):
        env = gym.make(SMOOTH, **RIDGES, horizon=4000)
        agent = agent_of(env, seed=seed, epsilon=epsilon, report=report, width=100.0)
        agent.open = np.array([3, 4, 5, 6])
        agent.lay_out()
        agent.total = np.zeros(agent.device.entries)
        play(env, agent, seed=seed, by_counts=False)
        assert len(agent.open) == 4 and agent.left[agent.open].all()
        x = np.random.default_rng(0).random((100_000, 2))
        truth = np.array([2 * env.unwrapped.problem.means(x[agent.places(x) == c]).mean(axis=0) - 1 for c in range(4)])  # type: ignore[attr-defined]
        means, variances = agent.estimates()
        errors.append((means - truth) / np.sqrt(variances))
    inside = np.abs(np.array(errors)) < 5
    assert inside.mean() > 0.99 and 0.6 < np.mean(np.array(errors)[inside] ** 2) < 1.6


def test_without_noise_cells_are_halved_where_arms_are_near_and_the_best_ones_stay() -> None:
    agent = learned(20_000)
    assert len(agent.open) > 8
    x = np.random.default_rng(1).random((20_000, 2))
    env = gym.make(SMOOTH, **RIDGES)
    env.reset(seed=0)
    means = env.unwrapped.problem.means(x)  # type: ignore[attr-defined]
    gaps = np.sort(means, axis=1)[:, -1] - np.sort(means, axis=1)[:, -2]
    best = agent.left[agent.open][agent.places(x), means.argmax(axis=1)]
    assert best[gaps > 0.3].mean() > 0.97
    decided = agent.left[agent.open][agent.places(x)].sum(axis=1) == 1
    assert gaps[decided].mean() > gaps[~decided].mean()
    assert np.abs(agent.predict(x)[decided].max(axis=1) - means[decided].max(axis=1)).mean() < 0.2


def test_cells_partition_the_cube_and_arms_of_halves_are_those_of_the_whole() -> None:
    agent = learned(20_000, epsilon=8.0)
    places = agent.cell_of
    assert set(places) == set(range(len(agent.open))) and len(agent.open) > 2
    shares = 0.5 ** agent.level[agent.open]
    assert shares.sum() == 1 and np.allclose(np.bincount(places) / len(places), shares)
    parents = agent.tree.parent[agent.open]
    assert (agent.left[agent.open] <= agent.left[parents]).all() and agent.left[agent.open].any(axis=1).all()


@pytest.mark.wide_at("private")
@pytest.mark.parametrize("auxiliary", ["private", "public"])
def test_auxiliary_records_cost_what_they_promise_and_help(auxiliary: str) -> None:
    """Medians over seeds of 4000 users at epsilon = 2, with 40 000 records and with none."""
    found = []
    for records in (0, 40_000):
        env = gym.make(SMOOTH, **RIDGES, horizon=4000, n_auxiliary=records)
        runs = []
        for seed in range(5 if auxiliary == "private" else 3):
            agent = agent_of(env, seed=seed, epsilon=2.0, auxiliary=auxiliary)
            assert agent.logged == records
            assert agent.ledger.releases == (records if auxiliary == "private" else 0)
            runs.append(play(env, agent, seed=seed).regret[-1])
        found.append(np.median(runs))
    assert found[1] < (0.6 if auxiliary == "private" else 0.2) * found[0]


def test_auxiliary_records_come_first() -> None:
    agent = learned(100)
    with pytest.raises(ValueError, match="100"):
        agent.learn_logged(np.zeros((1, 2)), np.zeros(1, int), np.ones(1))


def test_public_records_with_parts_missing_are_left_out() -> None:
    agent = agent_of(auxiliary="public")
    agent.learn_logged(np.full((3, 2), 0.4), np.array([0, -1, 1]), np.array([1.0, 1.0, math.nan]))
    assert agent.logged == 1 and agent.sums[0, 0, :, 3].tolist() == [1.0, 0.0, 0.0]


def test_an_absent_arm_is_replaced_and_tells_nothing() -> None:
    env = gym.make(SMOOTH, **RIDGES, horizon=500, available=0.5)
    agent = agent_of(env, seed=0)
    run = play(env, agent, seed=0)
    assert agent.users == 500 and run.regret[-1] >= 0


@pytest.mark.wide
def test_users_by_counts_and_blocks_have_the_law_of_reports() -> None:
    """2000 sums of 60 users in two cells: mean and covariance, five standard errors."""
    agent = agent_of(epsilon=0.5)
    agent.open, agent.run = np.array([1, 2]), 2
    agent.lay_out()
    agent.total = np.zeros(agent.device.entries)
    x = np.array([[0.1, 0.1], [0.9, 0.9], [0.2, 0.4]])
    actions, answers, counts = agent.select_action(x), np.array([1.0, 0.0, 0.7]), np.array([10, 30, 20])
    users = np.repeat(np.arange(3), counts)
    assert agent.fewest_summed == 1, "signs are independent at this budget"
    drawn = [
        [
            agent.device.estimate(agent.randomize(x[users], actions[users], answers[users])).sum(axis=0)[:, 0]
            for _ in range(2000)
        ],
        [agent.randomize_sum(x, actions, answers, counts) for _ in range(2000)],
        [agent.randomize_sum(x[users], actions[users], answers[users]) for _ in range(2000)],
    ]
    means, spreads = [np.mean(d, axis=0) for d in drawn], [np.cov(np.transpose(d)) for d in drawn]
    for mean, spread in zip(means[1:], spreads[1:], strict=True):
        assert (np.abs(mean - means[0]) < 5 * np.sqrt(2 * np.diag(spreads[0]) / 2000)).all()
        assert np.abs(spread - spreads[0]).max() < 5 * 2 * spreads[0].max() / 2000**0.5


def test_laplace_noise_is_not_secure() -> None:
    with pytest.raises(ValueError, match="signed-subset"):
        make("smooth-ldp", gym.make(SMOOTH), report="laplace", noise="secure")


@pytest.mark.wide
def test_regret_grows_with_the_power_of_the_lower_bound() -> None:
    """In one dimension with alpha = beta = 1 that is 1/2: eight seeds, medians at 10^4 and 10^6 users, within .1."""
    found = []
    for horizon in (10_000, 1_000_000):
        runs = []
        for seed in range(8):
            env = gym.make(SMOOTH, rewards="scales", dim=1, n_arms=2, horizon=horizon)
            runs.append(play(env, agent_of(env, seed=seed), seed=seed, checkpoints=[horizon]).regret[-1])
        found.append(np.median(runs))
    assert abs(math.log10(found[1] / found[0]) / 2 - 0.5) < 0.1


def test_a_saved_server_goes_on_with_what_auxiliary_records_told_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = gym.make(SMOOTH, **RIDGES, horizon=600, n_auxiliary=20_000)
    agent = agent_of(env, seed=0, epsilon=4.0)
    play(env, agent, 600, seed=0)
    save(agent, tmp_path / "server")
    loaded: Any = load(tmp_path / "server", env)
    assert (loaded.logged, loaded.users) == (20_000, 600) and loaded.ledger.releases == 20_600
    with monkeypatch.context() as patch:  # nobody reports once more
        patch.setattr(type(agent), "learn_logged", pytest.fail)
        load(tmp_path / "server", env)
    x = np.random.default_rng(0).random((500, 2), np.float32)
    assert np.array_equal(loaded.select_action(x), agent.select_action(x))
    assert np.array_equal(loaded.sums, agent.sums) and len(loaded.open) == len(agent.open) > 1
