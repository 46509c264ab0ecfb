import math
from itertools import combinations
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbandit_envs.families.assortment import AssortmentProblem
from privbandit_envs.families.linear import DESIGNS, LINKS, LinearProblem
from privbandit_envs.families.sparse import SparseLinearProblem, correlate, draw_beta


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linear_features_lie_in_the_unit_ball_and_theta_has_its_norm(design: str, dtype: str) -> None:
    problem = LinearProblem(rng(), design=design, dim=4, dtype=dtype)
    x = problem.contexts(2000, rng(1))
    assert x.dtype == dtype and (np.linalg.norm(x.astype(float), axis=-1) <= 1).all()
    assert np.linalg.norm(problem.theta) == pytest.approx(0.8)
    assert np.abs(problem.means(x)).max() <= 0.8


def test_linear_rewards_are_plus_or_minus_one_or_stay_within() -> None:
    means = np.linspace(-0.8, 0.8, 9)[None]
    for noise, exact in (("rademacher", True), ("uniform", False)):
        problem = LinearProblem(rng(), noise=noise)
        rewards = problem.rewards(np.repeat(means, 20_000, axis=0), rng(2))
        assert (np.abs(rewards) == 1).all() if exact else (np.abs(rewards) <= 1).all()
        assert np.allclose(rewards.mean(axis=0), means, atol=5 / math.sqrt(20_000))


def test_case1_shows_the_rare_direction_with_probability_delta() -> None:
    x = LinearProblem(rng(), design="case1", dim=3, n_arms=1, horizon=10_000).contexts(100_000, rng(1))[:, 0]
    assert set(map(tuple, np.unique(x, axis=0))) == {(1, 0, 0), (0, 1, 0)}
    assert abs(x[:, 1].mean() - 0.01) < 5 * math.sqrt(0.01 / 100_000)


def test_case2_is_the_papers_design_and_ill_ends_at_the_same_scale() -> None:
    case2 = LinearProblem(rng(), design="case2", dim=2, n_arms=1, delta=0.04).contexts(1000, rng(1))[:, 0]
    assert np.allclose(np.abs(case2[:, 1] / case2[:, 0]), 0.2, rtol=1e-5)
    assert abs((case2[:, 1] > 0).mean() - 0.5) < 0.08
    ill = LinearProblem(rng(), design="ill", dim=3, n_arms=1, horizon=10**4).contexts(1000, rng(1))[:, 0]
    assert np.allclose(np.abs(ill / ill[:, :1]), [1, 10**-0.5, 0.1], rtol=1e-5)
    assert (ill[:, 0] > 0).all()


def test_ill_contexts_leave_the_decision_to_the_weak_directions() -> None:
    problem = LinearProblem(rng(3), design="ill", dim=2, n_arms=3)
    x = problem.contexts(500, rng(1))
    means, strong = problem.means(x), x[..., 0] * problem.theta[0]
    assert np.allclose(strong, strong.mean()) and (np.ptp(means, axis=1) > 0).mean() > 0.5


def test_a_finite_support_repeats_its_contexts() -> None:
    x = LinearProblem(rng(), support=5, n_arms=2, dim=3).contexts(1000, rng(1))
    assert len(np.unique(x.reshape(1000, -1), axis=0)) == 5


@pytest.mark.parametrize("correlation", [0.1, -0.5, 0.9, 0.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_fast_recursion_is_the_autoregression(correlation: float, dtype: str) -> None:
    innovations = rng().standard_normal((4, 3, 37)).astype(dtype)
    expected = innovations.astype(float)
    scale = math.sqrt(1 - correlation**2)
    for j in range(1, 37):
        expected[..., j] = correlation * expected[..., j - 1] + scale * innovations[..., j]
    correlate(innovations, correlation)
    assert np.allclose(innovations, expected, atol=20 * np.finfo(dtype).eps)


def test_sparse_contexts_have_the_stated_covariance() -> None:
    x = SparseLinearProblem(rng(), dim=6, correlation=0.4, sparsity=2).contexts(60_000, rng(1)).reshape(-1, 6)
    lags = np.abs(np.subtract.outer(range(6), range(6)))
    assert np.abs(np.cov(x.T.astype(float)) - 0.4**lags).max() < 0.02


@pytest.mark.parametrize(("coefficients", "size"), [("equal", 1 / math.sqrt(5)), ("small", 0.2), ("uniform", None)])
def test_beta_has_the_stated_entries_at_random_positions(coefficients: str, size: float | None) -> None:
    betas = [draw_beta(50, 5, coefficients, rng(seed)) for seed in range(20)]
    assert all(np.count_nonzero(beta) == 5 for beta in betas)
    assert len({tuple(np.flatnonzero(beta)) for beta in betas}) > 15
    values = np.concatenate([beta[beta != 0] for beta in betas])
    assert np.allclose(np.abs(values), size) if size else np.abs(values).max() <= 1
    assert (values > 0).any() and (values < 0).any()


def test_signed_uniform_coefficients_are_half_to_one_with_either_sign() -> None:
    values = draw_beta(5000, 4000, "signed-uniform", rng())
    size = np.abs(values[values != 0])
    assert len(size) == 4000 and 0.5 <= size.min() < 0.51 and 0.99 < size.max() <= 1
    assert abs(size.mean() - 0.75) < 0.01 and abs((values > 0).sum() - 2000) < 4 * math.sqrt(1000)


def test_beta_may_be_given_by_its_first_entries() -> None:
    problem = SparseLinearProblem(rng(), dim=6, beta=[0.5, -1])
    assert problem.beta.tolist() == [0.5, -1, 0, 0, 0, 0]
    for wrong in ([1.0] * 7, [[1.0]], [math.nan], "x"):
        with pytest.raises(ValueError, match="beta must be"):
            SparseLinearProblem(rng(), dim=6, beta=wrong)


@pytest.mark.parametrize("margin", [0.1, 0.5, 2.0])
def test_a_margin_sets_the_best_arm_apart_and_leaves_all_else_as_it_is(margin: float) -> None:
    plain, apart = (SparseLinearProblem(rng(), dim=12, sparsity=3, margin=each) for each in (0.0, margin))
    before, after = (problem.contexts(3000, rng(1)) for problem in (plain, apart))
    best = plain.best_action(before)
    moved = (before != after).any(axis=-1)
    assert (moved == (np.arange(3) == best[:, None])).all() and (apart.best_action(after) == best).all()
    ordered = np.sort(apart.means(after), axis=1)
    assert (ordered[:, -1] - ordered[:, -2]).min() >= margin * (1 - 1e-4)
    off = np.setdiff1d(np.arange(12), np.flatnonzero(apart.beta))
    assert (before[..., off] == after[..., off]).all()


def test_without_a_margin_small_gaps_are_as_likely_as_they_are_small() -> None:
    problem = SparseLinearProblem(rng(), dim=12, sparsity=3)
    ordered = np.sort(problem.means(problem.contexts(100_000, rng(1))), axis=1)
    gaps = ordered[:, -1] - ordered[:, -2]
    assert (gaps < 0.02).mean() / (gaps < 0.01).mean() == pytest.approx(2, rel=0.2)  # alpha = 1


def test_a_world_in_which_nothing_counts_has_no_margin() -> None:
    x = SparseLinearProblem(rng(), dim=4, sparsity=1, beta=np.zeros(4), margin=1.0).contexts(5, rng(1))
    assert np.isfinite(x).all()


@pytest.mark.parametrize(("noise", "spread"), [("gaussian", 0.1), ("uniform", 0.1 / math.sqrt(3))])
def test_sparse_noise_has_the_stated_scale(noise: str, spread: float) -> None:
    problem = SparseLinearProblem(rng(), noise=noise)
    rewards = problem.rewards(np.zeros((40_000, 3)), rng(1))
    assert rewards.std() == pytest.approx(spread, rel=0.02)
    assert (rewards == rewards[:, :1]).all()


def test_assortment_revenues_are_public_in_the_last_column() -> None:
    fixed = np.linspace(0.5, 2, 100)
    for revenues, expected in (("ones", np.ones(100)), (fixed, fixed)):
        x = AssortmentProblem(rng(), revenues=revenues).contexts(3, rng(1))
        assert np.allclose(x[..., -1], expected)
    random = AssortmentProblem(rng(), revenues="random").contexts(300, rng(1))[..., -1]
    assert len(np.unique(random)) > 20_000 and abs(random.mean() - 0.5) < 0.01


def test_unit_features_have_norm_one() -> None:
    x = AssortmentProblem(rng(), features="unit").contexts(50, rng(1))[..., :-1]
    norms = np.linalg.norm(x.astype(float), axis=-1)
    assert norms.max() <= 1 and norms.min() > 0.99999


def test_one_hot_items_are_the_same_for_every_user_and_one_kind_sells_best() -> None:
    for dim, well in ((1, 0), (2, 1), (4, 1), (20, 5)):
        problem = AssortmentProblem(rng(), features="one-hot", n_items=25, dim=dim)
        x = problem.contexts(3, rng(1))[..., :-1]
        assert (x.sum(axis=1) == np.bincount(np.arange(25) % dim)).all() and (x.max(axis=2) == 1).all()
        assert problem.observation_space.contains(problem.contexts(1, rng())[0])
        assert sorted(problem.theta, reverse=True) == [2.0] + [1.0] * well + [0.0] * (dim - 1 - well)
    best = {int(AssortmentProblem(rng(seed), features="one-hot").theta.argmax()) for seed in range(20)}
    assert best == set(range(5))
    assert AssortmentProblem(rng(), features="one-hot", dim=2, theta=[3, 4]).theta.tolist() == [3, 4]


def test_the_best_assortment_follows_the_revenues_that_are_shown() -> None:
    problem = AssortmentProblem(rng(), revenues="ones")
    x = problem.contexts(6, rng(1))
    as_drawn = problem.best_action(x)
    x[0, :50, -1] = 0.0  # the other half is worth everything to the first user
    best = problem.best_action(x)
    assert best[0, :50].sum() == 0 and best[0].sum() == 10
    assert np.array_equal(best[1:], as_drawn[1:])


TURNED = [design for design in DESIGNS if design not in ("sphere", "heavy")]


@pytest.mark.parametrize("design", TURNED)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_turned_world_is_the_straight_one_of_its_seed_in_other_coordinates(design: str, dtype: str) -> None:
    kwargs: dict[str, Any] = {"design": design, "dim": 4, "dtype": dtype, "delta": 0.01, "horizon": 900}
    straight, turned = (LinearProblem(rng(), rotate=rotate, **kwargs) for rotate in (False, True))
    rotation = turned.rotation
    assert straight.rotation is None and rotation is not None
    assert np.allclose(rotation @ rotation.T, np.eye(4)) and np.linalg.det(rotation) == pytest.approx(1)
    assert np.array_equal(turned.theta, rotation @ straight.theta)
    before, after = (problem.users(0, 900, rng(1)) for problem in (straight, turned))
    assert after.dtype == dtype and (np.linalg.norm(after.astype(float), axis=-1) <= 1).all()
    assert np.allclose(after, before @ rotation.T, atol=3e-6)  # a feature of norm 1 is brought inside the ball
    assert np.allclose(turned.means(after), straight.means(before), atol=3e-6)
    assert np.array_equal(before, LinearProblem(rng(), **kwargs).users(0, 900, rng(1)))


def test_rotations_are_uniform_and_belong_to_the_world() -> None:
    """A fixed unit vector goes in all directions: mean 0 and second moments I/3, within 5 standard errors."""
    worlds = [LinearProblem(rng(seed), design="ill", dim=3, rotate=True) for seed in range(400)]
    first = np.array([world.rotation @ [1.0, 0.0, 0.0] for world in worlds if world.rotation is not None])
    assert len(first) == 400 and np.abs(first.mean(axis=0)).max() < 5 * math.sqrt(1 / 3 / 400)
    assert np.abs(first.T @ first / 400 - np.eye(3) / 3).max() < 5 * math.sqrt(4 / 45 / 400)
    again = LinearProblem(rng(7), design="ill", dim=3, rotate=True).rotation
    assert again is not None and worlds[7].rotation is not None and np.array_equal(again, worlds[7].rotation)


@pytest.mark.parametrize("support", [12, "all"])
def test_a_turned_support_has_the_means_and_chances_of_the_straight_one(support: int | str) -> None:
    straight, turned = (
        LinearProblem(rng(3), design="ill", dim=3, n_arms=2, delta=4e-4, support=support, rotate=rotate)
        for rotate in (False, True)
    )
    before, after = straight.support(), turned.support()
    assert before is not None and after is not None and turned.rotation is not None
    assert np.array_equal(before.probabilities, after.probabilities)
    assert np.allclose(after.contexts, before.contexts @ turned.rotation.T, atol=1e-6)
    assert np.allclose(turned.means(after.contexts), straight.means(before.contexts), atol=1e-6)
    shown = turned.contexts(50, rng(1))
    assert all((shown[i] == after.contexts).all(axis=(1, 2)).any() for i in range(50))


def test_a_band_turns_with_the_features() -> None:
    straight, turned = (LinearProblem(rng(), design="ill", dim=4, link="band", rotate=r) for r in (False, True))
    assert np.allclose(
        turned.means(turned.contexts(200, rng(1))), straight.means(straight.contexts(200, rng(1))), atol=1e-5
    )


def test_explicit_parameters_pin_the_world() -> None:
    theta = [0.1, 0.2, 0.3]
    env: Any = gym.make("privbandit/Linear-v0", dim=3, theta=theta).unwrapped
    env.reset(seed=5)
    assert env.problem.theta.tolist() == theta


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("Linear", {"n_arms": 0}, "n_arms must be an integer >= 1; got 0."),
    ("Linear", {"design": "spher"}, "did you mean 'sphere'?"),
    ("Linear", {"delta": float("nan")}, "delta must be a finite number; got nan."),
    ("Linear", {"delta": 0}, "delta must be > 0; got 0."),
    ("Linear", {"theta_norm": 1.5}, "theta_norm must lie in [0, 1]; got 1.5."),
    ("Linear", {"design": "case1", "dim": 1}, "dim must be >= 2"),
    ("Linear", {"theta": [1, 1], "dim": 2}, "norm at most 1"),
    ("Linear", {"theta": [float("nan"), 0], "dim": 2}, "theta must be 2 finite numbers"),
    ("Linear", {"theta": "abc"}, "theta must be 20 finite numbers; got 'abc'."),
    ("Linear", {"dtype": "float16"}, "dtype must be one of float32, float64"),
    ("Linear", {"support": -3}, "support must be an integer >= 1; got -3."),
    ("Linear", {"rotate": True}, "rotate must be False for design 'sphere': its law has no direction; got True."),
    ("Linear", {"rotate": True, "design": "heavy"}, "rotate must be False for design 'heavy'"),
    ("Linear", {"rotate": 1, "design": "ill"}, "rotate must be True or False; got 1."),
    ("SparseLinear", {"sparsity": 500}, "sparsity must be at most dim = 400; got 500."),
    ("SparseLinear", {"correlation": 1.0}, "correlation must lie in (-1, 1); got 1.0."),
    ("SparseLinear", {"margin": -0.1}, "margin must be >= 0; got -0.1."),
    ("SparseLinear", {"noise_scale": -0.1}, "noise_scale must be >= 0; got -0.1."),
    ("SparseLinear", {"beta": [1.0] * 401}, "beta must be 400 finite numbers"),
    ("Assortment", {"capacity": 101}, "capacity must be at most n_items = 100; got 101."),
    ("Assortment", {"revenues": "one"}, "did you mean 'ones'?"),
    ("Assortment", {"revenues": [-1] * 100}, "numbers >= 0"),
    ("Assortment", {"theta": [float("inf")] * 5}, "theta must be 5 finite numbers"),
]


@pytest.mark.parametrize(("family", "kwargs", "message"), BAD)
def test_bad_arguments_are_refused_in_one_sentence(family: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        gym.make(f"privbandit/{family}-v0", **kwargs)
    assert message in str(error.value) and "\n" not in str(error.value)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_shapes_follow_the_arguments(n_arms: int, dim: int, seed: int) -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=n_arms, dim=dim)
    context, _ = env.reset(seed=seed)
    assert context.shape == (n_arms, dim) and context in env.observation_space
    again, _ = env.reset(seed=seed)
    assert np.array_equal(context, again)


def test_a_band_is_best_near_two_orthogonal_hyperplanes() -> None:
    env: Any = gym.make("privbandit/Linear-v0", dim=5, link="band").unwrapped
    env.reset(seed=0)
    problem = env.problem
    along, across = problem._hidden.T / np.sqrt(5)
    assert along @ problem.theta == pytest.approx(0.8) and abs(along @ across) < 1e-12
    x = problem.contexts(4000, np.random.default_rng(0)).astype(np.float64)
    z = np.sqrt(5) * np.stack([x @ along, x @ across])
    means = problem.means(x)
    np.testing.assert_allclose(means, 0.9 * np.tanh(1.5 - 1.5 * np.abs(z).sum(axis=0)), atol=1e-12)
    assert z.reshape(2, -1).std(axis=1) == pytest.approx(1, abs=0.02)
    assert -0.9 <= means.min() < -0.5 and 0.7 < means.max() <= 0.9 * np.tanh(1.5)
    # nothing linear: no correlation beyond 5 standard errors of 40 000 rows with any feature
    assert np.abs(np.corrcoef(x.reshape(-1, 5).T, means.ravel())[-1, :-1]).max() < 5 / 200


@pytest.mark.parametrize("design", ["sphere", "ill", "mixed"])
def test_a_link_changes_means_and_nothing_that_is_drawn_before(design: str) -> None:
    """The hidden theta, and with a pinned theta the features, are those of the linear world of the seed."""
    worlds: list[Any] = [gym.make("privbandit/Linear-v0", dim=4, design=design, link=link).unwrapped for link in LINKS]
    shown = [world.reset(seed=3)[0] for world in worlds]
    for one, other in combinations(range(len(worlds)), 2):
        assert np.array_equal(shown[one], shown[other])
        assert np.array_equal(worlds[one].problem.theta, worlds[other].problem.theta)
        assert not np.allclose(*(worlds[k].problem.means(shown[0][None]) for k in (one, other)))
    assert worlds[0].problem._hidden is None


@pytest.mark.parametrize("link", LINKS)
def test_a_link_has_a_law_of_outcomes_by_counts(link: str) -> None:
    env: Any = gym.make("privbandit/Linear-v0", dim=3, n_arms=2, design="ill", support="all", link=link).unwrapped
    env.reset(seed=0)
    contexts = env.support.contexts
    outcomes, chances = env.problem.outcome_law(contexts, np.zeros(len(contexts), int))
    np.testing.assert_allclose((outcomes * chances).sum(axis=1), env.problem.means(contexts)[:, 0], atol=1e-12)


@pytest.mark.parametrize("noise", ["rademacher", "uniform"])
def test_a_logistic_reward_is_one_as_often_as_the_sigmoid_says(noise: str) -> None:
    """Within 5 standard errors of 40 000 users; the oracle's regret is the gap of the sigmoids."""
    env: Any = gym.make("privbandit/Linear-v0", dim=3, link="logistic", theta_norm=6.0, noise=noise).unwrapped
    env.reset(seed=1)
    problem = env.problem
    assert np.linalg.norm(problem.theta) == pytest.approx(6)
    contexts = np.tile(problem.contexts(1, rng(0)), (40_000, 1, 1))
    means = 1 / (1 + np.exp(-(contexts[0].astype(float) @ problem.theta)))
    rewards = problem.rewards(problem.means(contexts), rng(1))
    assert np.abs(rewards.mean(axis=0) - means).max() < 5 * 0.6 / 200 and np.ptp(means) > 0.5
    assert set(np.unique(rewards)) == {0, 1} if noise == "rademacher" else np.abs(rewards).max() <= 1
    context, _ = env.reset(seed=1)
    shown = 1 / (1 + np.exp(-(context.astype(float) @ problem.theta)))
    info = env.step(3)[-1]
    assert info["regret"] == pytest.approx(shown.max() - shown[3])
    assert (info["expected_reward"], info["optimal_action"]) == (pytest.approx(shown[3]), shown.argmax())


@pytest.mark.parametrize("norm", [-1.0, np.nan, np.inf, "6"])
def test_a_logistic_theta_has_any_finite_norm(norm: Any) -> None:
    with pytest.raises(ValueError, match=r"^theta_norm must [^\n]*$"):
        gym.make("privbandit/Linear-v0", link="logistic", theta_norm=norm)
    with pytest.raises(ValueError, match="theta_norm must lie in"):
        gym.make("privbandit/Linear-v0", theta_norm=1.5)


@pytest.mark.parametrize("kwargs", [{"dim": 1}, {"theta_norm": 0.0}, {"theta": [0.0] * 5}])
def test_a_band_needs_two_directions(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="link 'band' needs dim >= 2 and a theta that is not 0"):
        gym.make("privbandit/Linear-v0", **{"dim": 5, "link": "band", **kwargs}).reset(seed=0)


def test_theorem_2_has_its_features_and_no_noise() -> None:
    env: Any = gym.make(
        "privbandit/Linear-v0", n_arms=1, dim=3, design="theorem2", horizon=1000, support="all"
    ).unwrapped
    env.reset(seed=0)
    problem = env.problem
    np.testing.assert_allclose(env.support.contexts[:, 0], [[0.5, 0.1, 0], [0.5, -0.1, 0]], atol=1e-7)
    means = problem.means(env.support.contexts)
    assert np.array_equal(problem.rewards(means, rng()), means)
    outcomes, chances = problem.outcome_law(env.support.contexts, np.zeros(2, int))
    assert np.array_equal(outcomes, means) and (chances == 1).all()
    with_noise = LinearProblem(rng(), design="theorem2", noise="rademacher", n_arms=1, dim=2)
    assert set(np.unique(with_noise.rewards(np.zeros((50, 1)), rng()))) == {-1.0, 1.0}
    assert LinearProblem(rng(), design="theorem2", n_arms=1, dim=2, horizon=1).weak == 0.5  # within the ball


@pytest.mark.parametrize(("power", "delta"), [(0.25, 0.1), (0.5, 0.01), (1, 1e-4), (0, 1)])
def test_delta_is_a_power_of_the_horizon(power: float, delta: float) -> None:
    assert LinearProblem(rng(), design="ill", dim=2, horizon=10_000, delta_power=power).delta == pytest.approx(delta)
    assert LinearProblem(rng(), design="ill", dim=2, delta=0.3, delta_power=power).delta == 0.3
    with pytest.raises(ValueError, match="delta_power must be"):
        LinearProblem(rng(), design="ill", dim=2, delta_power=-1.0)


def test_hard_parameters_shrink_with_the_horizon() -> None:
    for horizon in (10_000, 1_000_000):
        theta = LinearProblem(rng(), dim=4, theta_norm="hard", horizon=horizon).theta
        assert np.linalg.norm(theta) == pytest.approx(4 / horizon**0.5)
        beta = SparseLinearProblem(rng(), dim=50, coefficients="hard", horizon=horizon).beta
        assert np.allclose(np.abs(beta[beta != 0]), 0.1 * math.sqrt(math.log(10) / horizon))
    with pytest.raises(ValueError, match="hard"):
        LinearProblem(rng(), theta_norm="soft")
