from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog

from privbandit_envs.families.mnl import attraction, best_assortment, offer, purchase


def revenue_of_set(weights: np.ndarray, revenues: np.ndarray, items: tuple[int, ...]) -> float:
    chosen = list(items)
    return float((weights[chosen] * revenues[chosen]).sum() / (1 + weights[chosen].sum()))


def brute_force(weights: np.ndarray, revenues: np.ndarray, capacity: int) -> float:
    n = len(weights)
    sets = (items for size in range(capacity + 1) for items in combinations(range(n), size))
    return max(revenue_of_set(weights, revenues, items) for items in sets)


def linear_program(weights: np.ndarray, revenues: np.ndarray, capacity: int) -> float:
    """The sales-based program: p_0 + sum p_i = 1, p_i <= w_i p_0, sum p_i / w_i <= K p_0."""
    n = len(weights)
    bounds = np.hstack([-weights[:, None], np.eye(n)])
    cardinality = np.append(-float(capacity), 1 / weights)
    solution = linprog(
        -np.append(0, revenues),
        A_ub=np.vstack([bounds, cardinality]),
        b_ub=np.zeros(n + 1),
        A_eq=np.ones((1, n + 1)),
        b_eq=[1],
    )
    return float(-solution.fun)


def value(weights: np.ndarray, revenues: np.ndarray, capacity: int) -> float:
    sets = best_assortment(weights[None], revenues[None], capacity)
    assert sets.sum() <= capacity
    return float(offer(weights[None], revenues[None], sets).expected_revenue[0])


def test_oracle_agrees_with_brute_force() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 10))
        capacity = min(int(rng.integers(1, 6)), n)
        weights, revenues = np.exp(2 * rng.standard_normal(n)), rng.exponential(size=n) ** 2
        assert value(weights, revenues, capacity) == pytest.approx(brute_force(weights, revenues, capacity)), seed


@pytest.mark.parametrize("revenues_kind", ["uniform", "heavy", "equal", "few"])
def test_oracle_agrees_with_a_linear_program_at_full_size(revenues_kind: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(8):
        weights = np.exp(1.5 * rng.standard_normal(100))
        revenues = {
            "uniform": rng.random(100),
            "heavy": rng.exponential(size=100) ** 3,
            "equal": np.ones(100),
            "few": rng.integers(0, 3, 100).astype(float),
        }[revenues_kind]
        assert value(weights, revenues, 10) == pytest.approx(linear_program(weights, revenues, 10), rel=1e-7)


def test_oracle_serves_many_users_at_once_like_one_at_a_time() -> None:
    rng = np.random.default_rng(0)
    weights, revenues = np.exp(rng.standard_normal((300, 40))), rng.random((300, 40))
    together = best_assortment(weights, revenues, 5)
    apart = [best_assortment(w[None], r[None], 5)[0] for w, r in zip(weights, revenues, strict=True)]
    assert np.array_equal(together, apart)


def test_one_users_revenues_never_change_another_users_set() -> None:
    rng = np.random.default_rng(1)
    weights, revenues = np.exp(rng.standard_normal((12, 30))), np.ones((12, 30))
    revenues[1::3], revenues[2::3] = rng.random((4, 30)), rng.exponential(size=(4, 30)) ** 3
    alone = [best_assortment(w[None], r[None], 5)[0] for w, r in zip(weights, revenues, strict=True)]
    assert np.array_equal(best_assortment(weights, revenues, 5), alone)
    for damaged in (0, 4, 11):
        spoilt = revenues.copy()
        spoilt[damaged, ::2] = np.nan
        together = best_assortment(weights, spoilt, 5)
        others = np.arange(12) != damaged
        assert np.array_equal(together[others], np.array(alone)[others])


def test_a_set_among_others_of_any_size_and_content_sums_like_alone() -> None:
    rng = np.random.default_rng(2)
    weights, revenues = rng.exponential(size=(40, 25)), rng.random((40, 25))
    sets = (rng.random((40, 25)) < rng.random((40, 1))).astype(np.int8)
    sets[3] = 0
    assert len(set(sets.sum(axis=1).tolist())) > 5
    revenues[0], weights[1] = np.nan, np.nan
    luck = rng.random(40)
    together = offer(weights, revenues, sets)
    bought = purchase(together, luck)
    for user in range(2, 40):
        row = slice(user, user + 1)
        alone = offer(weights[row], revenues[row], sets[row])
        assert together.expected_revenue[user] == alone.expected_revenue[0]
        assert together.cumulative_weight[user, -1] == alone.cumulative_weight[0, -1]
        assert bought[user] == purchase(alone, luck[row])[0]


def test_oracle_with_tied_weights_keeps_to_the_capacity() -> None:
    sets = best_assortment(np.ones((3, 20)), np.ones((3, 20)), 4)
    assert sets.sum(axis=1).tolist() == [4, 4, 4]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 6))
def test_an_offer_sums_like_a_loop(seed: int, n_items: int, users: int) -> None:
    rng = np.random.default_rng(seed)
    weights, revenues = rng.exponential(size=(users, n_items)), rng.random((users, n_items))
    sets = (rng.random((users, n_items)) < 0.4).astype(np.int8)
    got = offer(weights, revenues, sets).expected_revenue
    for user in range(users):
        total = earned = 0.0
        for item in np.flatnonzero(sets[user]):
            total += weights[user, item]
            earned += weights[user, item] * revenues[user, item]
        assert got[user] == earned / (1 + total)


def test_purchases_have_the_logit_frequencies_and_others_are_rejected() -> None:
    rng = np.random.default_rng(3)
    n = 40_000
    weights = np.tile([0.5, 2.0, 1.0, 3.0], (n, 1))
    sets = np.tile(np.array([1, 0, 1, 1], np.int8), (n, 1))
    bought = purchase(offer(weights, np.ones_like(weights), sets), rng.random(n))
    counts = np.array([(bought == item).sum() for item in (-1, 0, 2, 3)])
    law = np.array([1, 0.5, 1, 3]) / 5.5
    assert (bought != 1).all()
    assert stats.chisquare(counts, n * law).pvalue > 1e-4
    assert stats.chisquare(counts, n * np.array([1.1, 0.5, 1, 2.9]) / 5.5).pvalue < 1e-4


def test_nothing_is_bought_from_an_empty_set() -> None:
    empty = offer(np.ones((5, 3)), np.ones((5, 3)), np.zeros((5, 3), np.int8))
    assert (purchase(empty, np.linspace(0, 0.999, 5)) == -1).all()
    assert (empty.expected_revenue == 0).all()


def test_attraction_is_finite_for_any_utility() -> None:
    assert np.isfinite(attraction(np.array([-1e9, 0.0, 1e9, np.inf]))).all()
