import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.base.choices import Choices, LaidOut, best_sets, lay_out, random_sets
from privbandit_agents.base.ties import Ties
from scipy.optimize import check_grad, minimize

from privbandit_envs.families.mnl import attraction, best_assortment


def choices(n: int = 200, seed: int = 0) -> Choices:
    env = gym.make("privbandit/Assortment-v0", n_items=12, capacity=4, dim=3, horizon=n).unwrapped
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    contexts = env.upcoming(n)  # type: ignore[attr-defined]
    sets = np.zeros((n, 12), np.int8)
    for row in sets:
        row[rng.choice(12, rng.integers(0, 5), replace=False)] = 1
    kept = Choices(4, 3)
    kept.append(contexts, sets, env.serve(sets).feedback)  # type: ignore[attr-defined]
    kept.truth = env.problem.theta  # type: ignore[attr-defined]
    return kept


def test_gradient_and_hessian_are_those_of_the_loss() -> None:
    data, theta = choices(), np.array([0.3, -0.5, 0.9])
    error = check_grad(lambda t: data.likelihood(t, 0.7)[0], lambda t: data.likelihood(t, 0.7)[1], theta)
    assert error < 1e-3
    step = 1e-5
    for j in range(3):
        up, down = (data.likelihood(theta + sign * step * np.eye(3)[j], 0.7)[1] for sign in (1, -1))
        assert np.allclose((up - down) / (2 * step), data.likelihood(theta, 0.7)[2][j], rtol=1e-4, atol=1e-4)


def test_the_loss_is_the_negative_log_likelihood() -> None:
    data, theta = choices(30), np.array([0.2, 0.1, -0.4])
    total = 0.0
    rows = zip(data.features.view(), data.offered.view(), data.bought.view(), strict=True)
    for features, offered, bought in rows:
        weights = np.exp(features[offered] @ theta)
        total -= np.log((np.exp(features[bought] @ theta) if bought >= 0 else 1.0) / (1 + weights.sum()))
    assert data.likelihood(theta, 0.0)[0] == pytest.approx(total)


@pytest.mark.parametrize("start", [np.zeros(3), np.array([30.0, -30.0, 30.0])])
def test_newton_finds_the_minimum_from_anywhere(start: np.ndarray) -> None:
    data = choices()
    found = data.fit(start, 1.0)
    reference = minimize(lambda t: data.likelihood(t, 1.0)[0], np.zeros(3), method="Nelder-Mead", tol=1e-10)
    assert np.allclose(found, reference.x, atol=1e-4)
    assert np.linalg.norm(data.likelihood(found, 1.0)[1]) < 1e-5


def test_the_estimate_approaches_the_truth() -> None:
    data = choices(8000)
    assert np.linalg.norm(data.fit(np.zeros(3), 1.0) - data.truth) < 0.15  # type: ignore[attr-defined]


def test_padding_with_smaller_sets_does_not_move_the_likelihood() -> None:
    wide, narrow = Choices(6, 3), Choices(4, 3)
    data = np.random.default_rng(1).standard_normal((5, 12, 4))
    sets = np.zeros((5, 12), np.int8)
    sets[:, [2, 7, 9]] = 1
    for kept in (wide, narrow):
        kept.append(data, sets, np.array([2, -1, 9, 7, -1]))
    theta = np.array([0.5, 1.0, -1.0])
    for one, other in zip(wide.likelihood(theta, 0.3), narrow.likelihood(theta, 0.3), strict=True):
        assert np.allclose(np.asarray(one), np.asarray(other))


def test_sets_of_any_integer_type_are_the_same() -> None:
    kept = [Choices(3, 2) for _ in range(2)]
    contexts, sets = np.ones((2, 6, 3)), np.zeros((2, 6), np.int8)
    sets[:, [1, 4]] = 1
    kept[0].append(contexts, sets, np.array([4, -1]))
    kept[1].append(contexts, sets.astype(np.uint8), np.array([4, -1]))
    assert np.array_equal(kept[0].offered.view(), kept[1].offered.view())
    assert kept[0].bought.view().tolist() == kept[1].bought.view().tolist() == [1, -1]


def test_ucb_mnl_pays_little_more_than_its_exploration() -> None:
    env = gym.make("privbandit/Assortment-v0", horizon=1500)
    regret = play(env, make("ucb-mnl", env, seed=0), seed=0).regret
    assert regret[-1] < 6 and regret[-1] - regret[99] < 1
    assert play(env, make("uniform", env, seed=0), seed=0).regret[-1] > 30


def test_any_record_can_be_laid_out() -> None:
    contexts = np.arange(4 * 5 * 3, dtype=float).reshape(4, 5, 3)
    sets = np.array([[1, 1, 1, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 1, 0]])
    laid_out = lay_out(contexts, sets, np.array([4, 0, 2, 3]), 2)  # too large a set, and purchases outside the set
    assert laid_out.bought.tolist() == [-1, -1, -1, 1]
    assert laid_out.offered.tolist() == [[True, True], [True, False], [False, False], [True, True]]
    assert np.array_equal(laid_out.features[1], np.stack([contexts[1, 2, :2], np.zeros(2)]))
    assert np.array_equal(laid_out.features[3], contexts[3, [1, 3], :2])


@pytest.mark.parametrize("odd", ["nan revenue", "other revenues", "nan feature", "negative revenue", "huge"])
def test_a_user_never_changes_the_sets_of_the_others(odd: str) -> None:
    rng = np.random.default_rng(3)
    contexts = rng.standard_normal((6, 9, 4))
    contexts[..., -1] = np.where(np.arange(6) % 2, 1.0, rng.random((9, 6))).T
    changed = contexts.copy()
    row = changed[2]
    if odd == "nan feature":
        row[:, 0] = np.nan
    elif odd == "huge":
        row[:] = 1e300
    else:
        row[:, -1] = {"nan revenue": np.nan, "other revenues": rng.random(9), "negative revenue": -1.0}[odd]
    others = [0, 1, 3, 4, 5]
    with np.errstate(all="ignore"):
        before, after = (best_sets(x, x[..., :-1].sum(axis=-1), 3, Ties(0)) for x in (contexts, changed))
        ties = Ties(0)
        alone = [best_sets(changed[user], changed[user, :, :-1].sum(axis=-1), 3, ties) for user in range(6)]
    assert np.array_equal(before[others], after[others]) and np.array_equal(after, alone)
    assert (after.sum(axis=1) <= 3).all()


def test_best_sets_are_the_optimum() -> None:
    rng = np.random.default_rng(0)
    contexts, utilities = rng.random((50, 9, 3)), rng.standard_normal((50, 9))
    expected = best_assortment(attraction(utilities), contexts[..., -1], 3)
    assert np.array_equal(best_sets(contexts, utilities, 3, Ties(0)), expected)
    contexts[..., -1] = 0.5
    equal = best_assortment(attraction(utilities), contexts[..., -1], 3)
    assert np.array_equal(best_sets(contexts, utilities, 3, Ties(0)), equal)


def test_random_sets_are_full_and_do_not_depend_on_the_grouping() -> None:
    contexts = np.zeros((7, 6, 3))
    group = random_sets(np.random.default_rng(1), contexts, 2)
    rng = np.random.default_rng(1)
    assert np.array_equal(group, [random_sets(rng, context, 2) for context in contexts])
    assert (group.sum(axis=1) == 2).all()


def test_no_revenue_overflows() -> None:
    rng = np.random.default_rng(2)
    contexts = rng.random((40, 6, 2))
    contexts[::2, 1, -1], contexts[1::2, 2, -1] = 1e308, np.inf
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        sets = best_sets(contexts, rng.choice([1.0, 700.0, -700.0], (40, 6)), 3, Ties(0))
    assert ((sets.sum(axis=1) >= 1) & (sets.sum(axis=1) <= 3)).all()


def test_gradients_of_many_users_add_up_to_a_rounding() -> None:
    """What users of the same features contribute cancels: neither large partial sums nor their rounding remain."""
    n, theta = 200_000, np.array([0.1, 0.2])
    data = Choices(2, 2)
    features, p = np.full((n, 2, 2), 1 / 3), np.exp(0.1) / (1 + 2 * np.exp(0.1))
    bought = np.where(np.arange(n) < n * 2 * p, 0, -1)
    data.store(LaidOut(features, np.ones((n, 2), np.bool_), bought))
    exact = (n * 2 * p - (bought == 0).sum()) / 3
    assert np.abs(data.likelihood(theta, 0.0)[1] - exact).max() < 1e-9
