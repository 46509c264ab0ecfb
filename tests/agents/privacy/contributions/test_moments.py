import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privbandit_agents.base.rows import Products
from privbandit_agents.local.linear.ldp_greedy import l1_bound
from privbandit_agents.privacy.contributions.moments import (
    NORM,
    SENSITIVITY,
    WEIGHED,
    mass,
    noise_of_gram,
    pack,
    packed_size,
    packed_sum,
    perturbed_ridge,
    raised_solution,
    sanitise,
    sensitivity,
    unpack,
    weighed,
)
from searches import search_sensitivity

WILD = st.sampled_from([0.0, 1.0, -1.0, 0.3, 1e38, -1e38, 1e308, math.inf, -math.inf, math.nan])


def record(features: Any, reward: float) -> np.ndarray:
    return np.asarray(pack(np.asarray(features, float)[None], np.array([reward]))[0])


@pytest.mark.wide_at("1", "7", "2")
@pytest.mark.parametrize("dim", [1, 2, 3, 7])
def test_the_sensitivity_is_attained_on_the_named_pair_and_never_exceeded(dim: int) -> None:
    def draw(rng: np.random.Generator) -> Any:
        x = rng.standard_normal(dim) * rng.choice([0.1, 1, 10])
        return (x / np.linalg.norm(x) if rng.random() < 0.5 else x), rng.choice([-1.0, 1.0, 0.3, 5.0])

    unit = np.eye(dim)[0]
    named = [((unit, 1.0), (unit, -1.0)), ((unit, 1.0), (-unit, 1.0))]
    found = search_sensitivity(lambda r: record(*r), draw, named, SENSITIVITY, np.random.default_rng(0))
    assert found.attained == pytest.approx(SENSITIVITY) and not found.exceeded


def by_information(features: Any, reward: float, stretch: np.ndarray) -> np.ndarray:
    x, y = weighed(*sanitise(np.asarray(features, float)[None], np.array([reward])), stretch)
    rows = np.concatenate([x, y[:, None]], axis=1)
    return packed_sum(rows.T @ rows, 1.0)


@pytest.mark.wide_at("1.0-3", "1.0-7", "900.0-3", "0.3-*", "1.0-[12]", "900.0-[12]")
@pytest.mark.parametrize("dim", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [0.3, 1.0, 900.0])
def test_weights_by_information_have_sensitivity_root_5_and_not_2(dim: int, size: float) -> None:
    """A record next to nothing against one of length 1 in its direction: 2, the number of ``pack``, is beaten."""
    root = np.random.default_rng(dim).standard_normal((dim, dim))
    stretch = size * root / np.linalg.norm(root, 2) + 0.1 * size * np.eye(dim)

    def draw(rng: np.random.Generator) -> Any:
        x = rng.standard_normal(dim)
        return rng.choice([1e-12, 1e-7, 1e-3, 0.1, 1, 10]) * x / np.linalg.norm(x), rng.choice([-1.0, 1.0, 0.3, 5.0])

    unit = np.linalg.solve(stretch, np.eye(dim)[0])
    long = unit if np.linalg.norm(unit) <= 1 else unit / np.linalg.norm(unit)
    named = [((1e-7 * long, 1.0), (long, -1.0))]
    found = search_sensitivity(lambda r: by_information(*r, stretch), draw, named, WEIGHED, np.random.default_rng(0))
    assert not found.exceeded
    if size > 1:  # features reach length 1 when stretched
        assert found.attained == pytest.approx(math.sqrt(5), rel=1e-6) and found.attained > SENSITIVITY * 1.1


@settings(max_examples=100)
@given(st.lists(WILD, min_size=3, max_size=3), WILD, st.lists(WILD, min_size=3, max_size=3), WILD)
def test_any_input_whatever_is_weighed_within_the_bound(x: list[float], y: float, other: list[float], z: float) -> None:
    stretch = np.array([[1.0, 0.2, 0.0], [0.2, 40.0, 3.0], [0.0, 3.0, 900.0]])
    one, two = by_information(x, y, stretch), by_information(other, z, stretch)
    assert np.isfinite(one).all()
    assert np.linalg.norm(one) <= math.sqrt(2) * (1 + 1e-12) and np.linalg.norm(one - two) <= WEIGHED


def test_weights_by_information_keep_the_regression() -> None:
    """The mean of the head is the Gram matrix times S^-T theta, exactly, for long and for short features."""
    draw, theta = np.random.default_rng(1), np.array([0.3, -0.5])
    x, stretch = draw.uniform(-0.6, 0.6, (50, 2)), np.array([[1.0, 2.0], [-0.5, 4.0]])
    rows = np.column_stack(weighed(x, x @ theta, stretch))
    products = rows.T @ rows
    assert np.allclose(products[:2, 2], products[:2, :2] @ np.linalg.solve(stretch.T, theta))


def test_a_larger_weight_would_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.privacy.contributions.moments.Lifted.__init__.__defaults__", (1.0, None))
    one, other = np.array([1.0, 0.0]), np.array([0.5, math.sqrt(0.75)])
    assert np.linalg.norm(record(one, 1.0) - record(other, -1.0)) > SENSITIVITY


@settings(max_examples=100)
@given(st.lists(WILD, min_size=3, max_size=3), WILD, st.lists(WILD, min_size=3, max_size=3), WILD)
def test_any_input_whatever_is_within_the_bounds(x: list[float], y: float, other: list[float], z: float) -> None:
    one, two = record(x, y), record(other, z)
    assert np.isfinite(one).all()
    assert np.linalg.norm(one) <= NORM * (1 + 1e-12) and np.linalg.norm(one - two) <= SENSITIVITY * (1 + 1e-12)
    assert np.abs(one).sum() <= l1_bound(3) * (1 + 1e-12)


def test_records_are_clipped_and_bad_ones_count_as_zero() -> None:
    x, y = sanitise([[3.0, 4.0], [math.nan, 0.0], [0.1, 0.0]], [7.0, 1.0, math.inf])
    assert x.tolist() == [[0.6, 0.8], [0, 0], [0, 0]] and y.tolist() == [1, 0, 0]


def test_a_record_alone_is_what_it_is_among_others() -> None:
    rng = np.random.default_rng(3)
    features = rng.standard_normal((9, 5))
    features *= np.array([0.2, 1 - 1e-10, 1.0, 1 + 1e-10, 3.0, 0.5, 1e200, math.nan, 0.5])[:, None] / np.linalg.norm(
        features, axis=1, keepdims=True
    )
    rewards = np.array([0.3, -1.0, 1.0, 0.2, -0.0, 1.5, 0.1, 0.4, math.inf])
    together = sanitise(features, rewards)
    for user in range(len(rewards)):
        alone = sanitise(features[user : user + 1], rewards[user : user + 1])
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, all_of_them[user : user + 1])


def test_unpacking_gives_the_sums_back() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-0.5, 0.5, (40, 3)), rng.uniform(-1, 1, 40)
    total = pack(x, y).sum(axis=0)
    assert total.shape == (packed_size(3),)
    gram, moment = unpack(total, 3)
    assert np.allclose(gram, x.T @ x) and np.allclose(moment, x.T @ y)


def test_noise_on_packed_sums_is_the_gaussian_orthogonal_ensemble() -> None:
    rng = np.random.default_rng(2)
    grams = np.array([unpack(3.0 * rng.standard_normal(packed_size(4)), 4)[0] for _ in range(8000)])
    assert grams[:, 0, 1].std() == pytest.approx(noise_of_gram(3.0), rel=0.03)
    assert grams[:, 0, 0].std() == pytest.approx(math.sqrt(2) * noise_of_gram(3.0), rel=0.03)


def test_the_ridge_is_exact_without_noise_and_positive_definite_with_any() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-0.5, 0.5, (40, 3)), rng.uniform(-1, 1, 40)
    root, theta, added = perturbed_ridge(pack(x, y).sum(axis=0), 3, 0.0, 1.0)
    a = x.T @ x + np.eye(3)
    assert added == 1 and np.allclose(root @ a @ root.T, np.eye(3)) and np.allclose(theta, np.linalg.solve(a, x.T @ y))
    sums = 100 * rng.standard_normal((50, packed_size(3)))
    roots, thetas, _ = perturbed_ridge(sums, 3, 1.0, 1.0)
    for packed, root, theta in zip(sums, roots, thetas, strict=True):
        assert np.linalg.norm(root, 2) <= 1 + 1e-9 and np.isfinite(theta).all()
        alone = perturbed_ridge(packed, 3, 1.0, 1.0)
        assert np.array_equal(alone[0], root) and np.array_equal(alone[1], theta)


@pytest.mark.parametrize("size", [0.1, 3.0, 1e4])
def test_an_eigenvalue_is_raised_just_where_it_is_too_small(size: float) -> None:
    rng = np.random.default_rng(5)
    for dim in (1, 3, 20):
        turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        for smallest in (-size, 0.999, 1.001):
            values = np.array([smallest, *(1.01 + size * rng.random(dim - 1))])
            root, solution = raised_solution((turn * values) @ turn.T, turn[:, 0], 1.0)
            assert np.allclose(solution, turn[:, 0] / max(smallest, 1.0))
            assert np.allclose(root @ ((turn * np.maximum(values, 1.0)) @ turn.T) @ root.T, np.eye(dim))


@pytest.mark.parametrize("users", [1, 255, 256, 700])
def test_sums_of_packed_records_are_as_far_off_as_their_bound_says_at_most(users: int) -> None:
    """Against rational arithmetic; the bound holds two such sums and the distance of two records."""
    rng, dim = np.random.default_rng(users), 3
    x = rng.standard_normal((users, dim)) * 10.0 ** rng.integers(-8, 1, (users, 1))
    z = np.column_stack(sanitise(x, rng.uniform(-1, 1, users)))
    sums = Products(dim + 1)
    sums.add(z)
    floats = sums.take()[0]
    parts = [[Fraction(number) for number in row] for row in z]
    off = [
        floats[i, j] - float(sum((row[i] * row[j] for row in parts), Fraction(0)))
        for i in range(dim + 1)
        for j in range(dim + 1)
    ]
    room = sensitivity(users, Products.AT_ONCE) - 2 * (1 + 1e-12)
    assert 2 * math.hypot(*off) <= room
    packed = packed_sum(floats)
    assert np.linalg.norm(packed) <= mass(users)


def test_the_bound_of_sums_grows_by_less_than_a_thousandth_up_to_ten_million_users_in_an_epoch() -> None:
    assert sensitivity(1, 256) < 2 + 1e-9 and sensitivity(10**7, 256) < 2.0005
