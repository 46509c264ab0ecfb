import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import load, make, play, save
from privbandit_agents.joint.sparse.clipped_iht import whitened
from privbandit_agents.joint.sparse.clipping import Presumed, largest_of, passed, power
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from privbandit_agents.testing.runs import same_parts, same_state

SPARSE = "privbandit/SparseLinear-v0"
WILD = [1e38, -1e38, 1e308, math.inf, -math.inf, math.nan, 1.0, -1.0]


def sparse(**kwargs: Any) -> Any:
    return gym.make(SPARSE, **{"dim": 30, "sparsity": 2, "horizon": 2000, **kwargs}).unwrapped


def taught(**config: Any) -> Any:
    """Return an agent a few batches old, so that theta, support and scale are released values."""
    env = sparse()
    agent: Any = make("clipped-iht", env, seed=0, **config)
    play(env, agent, 1000, seed=0)
    assert agent.batch > 1 and np.count_nonzero(agent.release[0]) > 1
    return agent


def contribution(agent: Any, features: Any, reward: float) -> tuple[Any, float]:
    """Return what one user adds to the two sums."""
    total, deviation = agent.total, agent.deviation
    agent.total, agent.deviation = np.zeros(agent.dim), 0.0
    users, agent.users = agent.users, 0
    agent.update(np.tile(features, (3, 1)), 1, reward)
    added = agent.total, agent.deviation
    agent.total, agent.deviation, agent.users = total, deviation, users
    return added


def test_one_user_moves_the_sums_by_the_declared_bounds_and_no_further() -> None:
    agent, rng = taught(), np.random.default_rng(1)
    declared = agent.clip.sensitivity
    off = agent.release[0] == 0
    loud = np.where(off, 5.0, 0.0)
    up, down = (contribution(agent, loud, reward)[0] for reward in (1e9, -1e9))
    assert np.abs(up - down).max() == pytest.approx(declared, rel=1e-12)
    quiet, noisy = (contribution(agent, 0 * loud, reward)[1] for reward in (0.0, 1e9))
    assert noisy - quiet == pytest.approx(3 * agent.residual_scale, rel=1e-12)
    for _ in range(200):
        sizes = WILD if rng.random() < 0.2 else WILD[:3] + WILD[-2:]
        records = [(rng.choice(sizes, agent.dim), rng.choice(WILD)) for _ in range(2)]
        (one, first), (other, second) = (contribution(agent, x, float(y)) for x, y in records)
        assert np.abs(one - other).max() <= declared * (1 + 1e-12)
        assert abs(first - second) <= 3 * agent.residual_scale * (1 + 1e-12)


def test_a_record_that_is_not_finite_counts_as_nothing() -> None:
    agent = taught()
    for features, reward in ((np.full(30, math.nan), 1.0), (np.ones(30), math.inf)):
        total, deviation = contribution(agent, features, reward)
        assert not total.any() and deviation == 0


def test_noise_covers_the_sensitivity_of_every_batch() -> None:
    agent, seen = taught(), []
    for _ in range(6):
        mechanism, unit = agent.clip.mechanism, agent.clip.sensitivity**2 / 2
        selecting = mechanism.k / mechanism.beta**2 if mechanism.k else 0.0
        cost = unit * (selecting + (mechanism.k + mechanism.kept) / mechanism.sigma**2)
        assert cost == pytest.approx(mechanism.rho) and mechanism.kept == np.count_nonzero(agent.release[1])
        assert cost + agent.rho * agent.config.scale_share == pytest.approx(agent.rho)
        n = agent.frozen_rounds()
        agent.update(np.random.default_rng(n).standard_normal((n, 3, 30)), np.zeros(n, int), np.ones(n))
        seen.append(agent.batch)
    assert seen == sorted(set(seen)) and agent.ledger.spent().at(1e-5) == pytest.approx(1.0)


def test_the_scale_of_the_residuals_is_noised_at_its_share() -> None:
    agent = taught()
    mechanism, sensitivity = agent._scale_mechanism(), 3 * agent.residual_scale
    assert sensitivity**2 / (2 * mechanism.sigma**2) == pytest.approx(agent.rho * agent.config.scale_share)
    measured = []
    for seed in range(2):
        agent.rng_noise = np.random.default_rng(seed)
        agent.batch += 1
        measured.append(agent._measure_scale(np.array(agent.deviation)))
    assert measured[0] != measured[1]


def serve_batch(agent: Any, seed: int) -> None:
    n, rng = agent.frozen_rounds(), np.random.default_rng(seed)
    agent.update(rng.standard_normal((n, 3, 30)), np.zeros(n, int), rng.standard_normal(n))


def test_what_follows_a_release_reads_what_was_released_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two data sets with the same released numbers leave the same agent."""
    agents = [taught() for _ in range(2)]
    fixed = np.random.default_rng(3).standard_normal(30)

    def select(self: Any, value: Any, rng: Any, public: Any) -> Any:
        return np.union1d(public, [1, 2, 3]), fixed[np.union1d(public, [1, 2, 3])]

    monkeypatch.setattr(GumbelTopK, "release", select)
    monkeypatch.setattr(GridGaussian, "release", lambda self, value, rng: np.array(40.0))
    for seed, agent in enumerate(agents):
        serve_batch(agent, seed)
    assert same_state(*agents) and agents[0].clip == agents[1].clip


def test_every_released_coordinate_has_noise_kept_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, seen = taught(), []
    release = GumbelTopK.release

    def watched(self: Any, value: Any, rng: Any, public: Any = None) -> Any:
        found, noisy = release(self, value, rng, public)
        seen.append((self.kept, np.abs(noisy - np.asarray(value)[found]) / self.sigma))
        return found, noisy

    monkeypatch.setattr(GumbelTopK, "release", watched)
    for seed in range(12):
        serve_batch(agent, seed)
    noise = np.concatenate([one for _, one in seen])
    assert all(kept > 0 for kept, _ in seen) and (noise > 0).all()
    assert 0.5 < float(np.sqrt((noise**2).mean())) < 1.5  # some 120 standard normals: 0.87 to 1.13 in 95 of 100


def test_a_group_that_is_refused_was_not_taken_in() -> None:
    agent = taught()
    before, n = agent.state(), 200
    contexts = np.zeros((n, 3, 30))
    for feedback, actions in ((np.zeros(n), np.zeros(n + 1, int)), (np.zeros(n - 1), np.zeros(n, int))):
        with pytest.raises(ValueError):
            agent.update(contexts, actions, feedback)
    assert same_parts(before, agent.state())


@pytest.mark.parametrize("name", ["fliphat", "clipped-iht"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wild_records_leave_finite_releases(name: str, dtype: Any) -> None:
    """Three hundred users, no other ones, through several episodes or batches."""
    agent: Any = make(name, sparse(), seed=0, epsilon=5.0, **({"first": 50} if name == "clipped-iht" else {}))
    rng = np.random.default_rng(0)
    values = [value for value in WILD if dtype is np.float64 or not 1e38 < abs(value) < math.inf]
    for _ in range(30):
        contexts = rng.choice(values, (10, 3, 30)).astype(dtype)
        played_arms = agent.select_action(contexts)
        assert ((played_arms >= 0) & (played_arms < 3)).all()
        agent.update(contexts, rng.choice([0, 1, 2, -1, 7, 0.5, math.nan], 10), rng.choice(WILD, 10))
    arrays = agent.state()[0]
    assert np.isfinite(agent.release).all() and agent.release.any()
    assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")


def test_batches_end_at_public_times() -> None:
    schedules = []
    for sign in (1.0, -1.0):
        agent, ends = make("clipped-iht", sparse(), seed=0), []
        for k in range(8):
            ends.append(agent.frozen_rounds())
            contexts = sign * np.random.default_rng(k).standard_normal((ends[-1], 3, 30))
            agent.update(contexts, np.zeros(ends[-1], int), sign * contexts[:, 0, 0])
        schedules.append(ends)
    assert schedules[0] == schedules[1]
    assert all(later == math.ceil(1.25 * sooner) for sooner, later in pairwise(ends))
    assert make("clipped-iht", sparse(), epsilon=1e-3).frozen_rounds() == 2000 // 4
    assert make("clipped-iht", sparse(), rho=0.1).ledger.rho == 0.1  # type: ignore[attr-defined]


def test_a_support_that_is_full_still_lets_better_coordinates_in() -> None:
    env = sparse(sparsity=4, horizon=6000)
    agent: Any = make("clipped-iht", env, seed=1, s=4, epsilon=10.0)
    play(env, agent, seed=1)
    assert np.count_nonzero(agent.release[0]) == 4
    curve = play(env, make("clipped-iht", env, seed=1, s=4, epsilon=10.0), seed=1).regret
    assert curve[-1] - curve[len(curve) // 2] < 10


def test_whitening_undoes_the_second_moment_of_greedy_play() -> None:
    rng, theta = np.random.default_rng(0), np.array([0.6, -0.8, 0.0])
    x = rng.standard_normal((200_000, 10, 3))
    greedy = x[np.arange(len(x)), (x @ theta).argmax(axis=1)]
    moments = greedy.T @ greedy / len(x)
    assert moments[0, 0] > 1.5  # what a step of 1 would overshoot by
    assert np.allclose(whitened(greedy, theta, 10).T @ greedy / len(x), np.eye(3), atol=0.02)


def test_the_constants_of_clipping_are_those_of_gaussians() -> None:
    z = np.random.default_rng(0).standard_normal((400_000, 10))
    for level in (0.5, 1.5):
        clipped = np.clip(z[:, 0], -level, level)
        assert float((clipped * z[:, 0]).mean()) == pytest.approx(passed(level), abs=0.01)
        assert float((clipped**2).mean()) == pytest.approx(power(level), abs=0.01)
    for arms in (1, 3, 10):
        assert float((z[:, :arms].max(axis=1) ** 2).mean()) == pytest.approx(largest_of(arms), abs=0.02)


def test_users_needed_are_as_few_as_detect_the_coefficient() -> None:
    presumed = Presumed(400, 1.0, 1.0, 0.1, 0.8, 0)
    n = presumed.users_needed(3, 0.7)
    assert presumed.detectable(presumed.best(n, 3)) <= 0.7 < presumed.detectable(presumed.best(n - 1, 3))
    assert Presumed(400, 1.0, 1.0, math.inf, 0.8, 0).users_needed(3, 0.7) < n


@pytest.mark.parametrize("wrong", [0.3, 1.0, 4.0])
def test_a_wrong_reward_scale_costs_regret_but_does_not_break_play(wrong: float) -> None:
    """Of 1700 at random; the right scale gives about 310."""
    env = gym.make(SPARSE, horizon=3000)
    totals = [play(env, make("clipped-iht", env, seed=s, reward_scale=wrong), seed=s).regret[-1] for s in range(3)]
    assert np.mean(totals) < 1100


@pytest.mark.wide
def test_regret_is_within_the_target_and_stops() -> None:
    """Three seeds at epsilon 1: 700 must be reached, about 310 is usual; at random it is 3400 by then."""
    for arms, bound in ((3, 700.0), (10, 3 * 700.0)):
        env = gym.make(SPARSE, horizon=4000, n_arms=arms)
        curves = [play(env, make("clipped-iht", env, seed=s), seed=s).regret for s in range(3)]
        assert np.mean([curve[-1] for curve in curves]) < bound
        assert np.mean([curve[-1] - curve[len(curve) // 2] for curve in curves]) < 10


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "goal"), [(0.5, 600), (1.0, 430), (2.0, 240), (5.0, 160), (10.0, 120)])
def test_the_goals_of_the_main_setting(epsilon: float, goal: float) -> None:
    """Twenty seeds, means."""
    env = gym.make(SPARSE)
    curves = [play(env, make("clipped-iht", env, seed=s, epsilon=epsilon), seed=s).regret for s in range(20)]
    assert np.mean([curve[-1] for curve in curves]) <= goal
    assert np.mean([curve[-1] - curve[len(curve) // 2 - 1] for curve in curves]) <= 10


def test_resuming_in_mid_batch_is_bit_for_bit(tmp_path: Path) -> None:
    whole, rest = sparse(), sparse()
    agent: Any = make("clipped-iht", whole, seed=2)
    play(whole, agent, 777, seed=2)
    assert 0 < agent.users < agent.length
    save(agent, tmp_path / "agent.npz")
    copy: Any = load(tmp_path / "agent.npz", rest, fork=False)
    assert copy.clip == agent.clip
    rest.reset(seed=3)
    for _ in range(5):
        contexts = rest.upcoming(300)
        actions = np.asarray(agent.select_action(contexts))
        assert np.array_equal(actions, copy.select_action(contexts))
        feedback = rest.serve(actions).feedback
        agent.update(contexts, actions, feedback)
        copy.update(contexts, actions, feedback)
        assert same_state(agent, copy)
    assert (tmp_path / "agent.npz").stat().st_size < 40_000  # sums, not users


BAD: list[tuple[dict[str, Any], str]] = [
    ({"s": 0}, "s must be an integer >= 1; got 0."),
    ({"growth": 1.0}, "growth must be > 1; got 1.0."),
    ({"first": 0}, "first must be an integer >= 1; got 0."),
    ({"selection": 1.0}, "selection must lie in (0, 1); got 1.0."),
    ({"reward_scale": math.inf}, "reward_scale must be a finite number; got inf."),
    ({"epsilon": -1.0}, "epsilon must be > 0; got -1.0."),
]


@pytest.mark.parametrize(("config", "message"), BAD)
def test_bad_settings_get_one_sentence(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        make("clipped-iht", sparse(), **config)
    assert message in str(error.value)
