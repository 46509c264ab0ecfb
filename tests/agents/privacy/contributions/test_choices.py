import math
from typing import Any

import numpy as np
import pytest
from given import clipped_derivatives
from hypothesis import given, settings
from hypothesis import strategies as st
from privbandit_agents.privacy.contributions.choices import clipped_sums, sensitivities
from privbandit_agents.privacy.vectors import svec
from scipy.optimize import approx_fprime
from searches import search_sensitivity

WILD = st.sampled_from([0.0, 1.0, -3.0, 27.0, 1e38, -1e308, math.inf, math.nan])
BOUNDS = {"radius": 1.0, "gradient_norm": 0.8, "trace": 0.3}
LOOSE = {"radius": 100.0, "gradient_norm": 1e6, "trace": 1e6}


def loss(theta: np.ndarray, x: np.ndarray, item: int) -> float:
    utilities = np.append(0.0, x @ theta)
    return float(np.log(np.exp(utilities).sum()) - utilities[item + 1])


@pytest.mark.parametrize("item", [-1, 0, 2])
def test_inside_the_bounds_they_are_the_derivatives(item: int) -> None:
    rng = np.random.default_rng(0)
    x, theta = rng.standard_normal((4, 3)), rng.standard_normal(3)
    gradient, hessian = clipped_derivatives(x[None], [item], theta, **LOOSE)
    assert np.allclose(gradient[0], approx_fprime(theta, loss, 1e-7, x, item), atol=1e-5)
    for j in range(3):
        up, down = (
            clipped_derivatives(x[None], [item], theta + s * 1e-5 * np.eye(3)[j], **LOOSE)[0][0] for s in (1, -1)
        )
        assert np.allclose(hessian[0, j], (up - down) / 2e-5, atol=1e-5)


@settings(max_examples=150)
@given(st.lists(WILD, min_size=6, max_size=6), WILD, st.lists(WILD, min_size=2, max_size=2))
@pytest.mark.wide
def test_any_input_whatever_is_within_the_bounds(values: list[float], item: float, theta: list[float]) -> None:
    gradient, hessian = clipped_derivatives(np.reshape(values, (1, 3, 2)), [item], theta, **BOUNDS)
    assert np.linalg.norm(gradient) <= 0.8 * (1 + 1e-12)
    assert np.trace(hessian[0]) <= 0.3 * (1 + 1e-12) and np.linalg.norm(hessian) <= 0.3 * (1 + 1e-12)
    assert np.linalg.eigvalsh(hessian[0]).min() >= -1e-15


def test_large_norms_do_not_break_the_form() -> None:
    """The difference form E[xx'] - mm' is indefinite from norms of about 27 on; the centred one is not."""
    rng = np.random.default_rng(1)
    x = 40 * rng.standard_normal((500, 5, 3))
    _, hessian = clipped_derivatives(x, np.zeros(500), rng.standard_normal(3), radius=1e6, gradient_norm=1.0, trace=1.0)
    assert np.linalg.eigvalsh(hessian).min() >= -1e-12


@pytest.mark.wide
def test_sensitivities_are_attained_and_never_exceeded() -> None:
    theta = np.array([30.0, 0.0])
    both = sensitivities(BOUNDS["gradient_norm"], BOUNDS["trace"])

    def part(index: int) -> Any:
        def statistic(record: Any) -> Any:
            derivatives = clipped_derivatives(record[0][None], [record[1]], record[2], **BOUNDS)
            return derivatives[0][0] if index == 0 else svec(derivatives[1][0])

        return statistic

    def draw(rng: np.random.Generator) -> Any:
        return rng.standard_normal((3, 2)) * rng.choice([0.3, 3.0]), rng.integers(-1, 3), theta / 30

    one, two = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[-1.0, 0.0], [1.0, 0.0]])
    gradients = search_sensitivity(
        part(0), draw, [((one, 1, theta), (one, -1, -theta))], both[0], np.random.default_rng(0), pairs=600
    )
    flipped = search_sensitivity(
        part(0), draw, [((one, 1, theta), (two, 1, -theta))], both[0], np.random.default_rng(0), pairs=600
    )
    assert max(gradients.attained, flipped.attained) == pytest.approx(both[0]) and not gradients.exceeded
    zero = np.zeros(2)
    across = [(np.array([[1.0, 0], [-1.0, 0]]), -1, zero), (np.array([[0, 1.0], [0, -1.0]]), -1, zero)]
    hessians = search_sensitivity(part(1), draw, [(across[0], across[1])], both[1], np.random.default_rng(0), pairs=600)
    assert hessians.attained == pytest.approx(both[1]) and not hessians.exceeded


def test_bounds_must_be_positive() -> None:
    with pytest.raises(ValueError, match="trace must be a finite number > 0; got 0"):
        clipped_derivatives(np.zeros((1, 2, 2)), [0], np.zeros(2), radius=1.0, gradient_norm=1.0, trace=0)


def test_items_that_are_not_on_offer_have_no_influence() -> None:
    rng = np.random.default_rng(2)
    x, theta, there = rng.standard_normal((40, 5, 3)), rng.standard_normal(3), rng.random((40, 5)) < 0.6
    item = rng.integers(-1, 5, 40)
    masked = clipped_derivatives(x, item, theta, there, **BOUNDS)
    wild = np.where(there[..., None], x, rng.choice([math.nan, math.inf, 1e38], x.shape))
    alone = []
    for features, offered, bought in zip(x, there, item, strict=True):
        short = int(offered[:bought].sum()) if bought >= 0 and offered[bought] else -1
        alone.append(clipped_derivatives(features[offered][None], [short], theta, **BOUNDS))
    for part in (0, 1):
        assert np.allclose(masked[part], np.concatenate([one[part] for one in alone]), atol=1e-14)
        assert np.array_equal(masked[part], clipped_derivatives(wild, item, theta, there, **BOUNDS)[part])
    nothing = clipped_derivatives(x, item, theta, np.zeros_like(there), **BOUNDS)
    assert not nothing[0].any() and not nothing[1].any()


@settings(max_examples=150)
@given(
    st.lists(WILD, min_size=12, max_size=12),
    st.lists(WILD, min_size=2, max_size=2),
    st.lists(st.sampled_from([0, 1, -3, math.nan]), min_size=6, max_size=6),
)
def test_any_mask_whatever_is_within_the_sensitivities(values: list[float], items: Any, mask: Any) -> None:
    x, there = np.reshape(values, (2, 3, 2)), np.reshape(mask, (2, 3))
    gradient, hessian = clipped_derivatives(x, items, np.array([2.0, -30.0]), there, **BOUNDS)
    both = sensitivities(BOUNDS["gradient_norm"], BOUNDS["trace"])
    assert np.linalg.norm(gradient[0] - gradient[1]) <= both[0] * (1 + 1e-12)
    assert np.linalg.norm(hessian[0] - hessian[1]) <= both[1] * (1 + 1e-12)
    assert (np.trace(hessian, axis1=1, axis2=2) <= 0.3 * (1 + 1e-12)).all()


@pytest.mark.wide
def test_a_search_over_masks_never_exceeds_the_sensitivities() -> None:
    both = sensitivities(BOUNDS["gradient_norm"], BOUNDS["trace"])

    def draw(rng: np.random.Generator) -> Any:
        x = rng.standard_normal((4, 2)) * rng.choice([0.3, 3.0, 300.0])
        return x, rng.integers(-2, 5), rng.standard_normal(2) * 5, rng.random(4) < rng.random()

    def statistic(part: int) -> Any:
        def value(record: Any) -> Any:
            x, item, theta, there = record
            found = clipped_derivatives(x[None], [item], theta, there[None], **BOUNDS)[part][0]
            return svec(found) if part else found

        return value

    junk, mask, zero = [[7.0, -9.0], [math.nan, 0.0]], np.array([True, True, False, False]), np.zeros(2)
    along, across = (np.concatenate([[axis, -axis], junk]) for axis in np.eye(2))
    pairs = [((along, 0, zero, mask), (along, 1, zero, mask)), ((along, 2, zero, mask), (across, 2, zero, mask))]
    for part in (0, 1):
        found = search_sensitivity(statistic(part), draw, pairs, both[part], np.random.default_rng(part), pairs=600)
        assert not found.exceeded and found.attained == pytest.approx(both[part])


def test_the_sums_are_those_of_the_derivatives_over_all_chunks() -> None:
    rng = np.random.default_rng(3)
    x, theta = rng.standard_normal((1100, 4, 3)), rng.standard_normal(3)
    item, there = rng.integers(-1, 4, 1100), rng.random((1100, 4)) < 0.8
    for offered in (None, there):
        each, sums = (f(x, item, theta, offered, **BOUNDS) for f in (clipped_derivatives, clipped_sums))
        for one, total in zip(each, sums, strict=True):
            assert np.allclose(one.sum(axis=0), total, rtol=1e-11, atol=1e-11)


def test_the_hessian_is_the_slope_of_the_expected_clipped_gradient_in_the_truth() -> None:
    rng, bounds = np.random.default_rng(4), {"radius": 100.0, "gradient_norm": 0.6, "trace": 1e6}
    x, theta = rng.standard_normal((4, 3)), rng.standard_normal(3)
    each = np.stack([clipped_derivatives(x[None], [item], theta, **bounds)[0][0] for item in range(-1, 4)])
    assert (np.linalg.norm(each, axis=1) > 0.6 - 1e-12).any()

    def expected(truth: np.ndarray) -> np.ndarray:
        weights = np.exp(np.append(0.0, x @ truth))
        return np.asarray(weights / weights.sum() @ each)

    steps = [(expected(theta - 1e-6 * e) - expected(theta + 1e-6 * e)) / 2e-6 for e in np.eye(3)]
    assert np.allclose(clipped_derivatives(x[None], [0], theta, **bounds)[1][0], steps, atol=1e-8)


@pytest.mark.parametrize(("length", "bias"), [(0.1, 1e-14), (1.0, 0.05), (30.0, 0.05)])
def test_gradients_are_near_zero_in_the_mean_at_the_truth_however_long_features_are(length: float, bias: float) -> None:
    """A purchase of chance p_k counts p_k times; but for the longest items each is clipped by the same weight."""
    rng = np.random.default_rng(5)
    x, theta = length * rng.standard_normal((4, 3)), rng.standard_normal(3) / length
    weights = np.exp(np.append(0.0, x @ theta))
    bounds = BOUNDS | {"radius": 1e3}
    each = np.stack([clipped_derivatives(x[None], [item], theta, **bounds)[0][0] for item in range(-1, 4)])
    assert np.linalg.norm(weights / weights.sum() @ each) <= bias
    assert np.linalg.norm(each, axis=1).max() <= 0.8 * (1 + 1e-12)


def test_a_mask_has_the_shape_of_the_items() -> None:
    with pytest.raises(ValueError, match=r"offered must have shape \(1, 2\); got \(1, 3\)\."):
        clipped_derivatives(np.zeros((1, 2, 2)), [0], np.zeros(2), np.ones((1, 3)), **BOUNDS)


@pytest.mark.parametrize("users", [1, 1000, 10**7])
def test_the_sensitivities_cover_rounding_and_grow_with_the_users(users: int) -> None:
    first, second = sensitivities(3.0, 5.0, users, terms=4)
    assert first > 6.0 * (1 + 5e-13) and second > 5.0 * math.sqrt(2) * (1 + 5e-13)
    more = sensitivities(3.0, 5.0, 10 * users, terms=4)
    assert more[0] > first and more[1] > second
    n = 2.0**-53 * users
    assert first >= 6.0 * (1 + 2 * n * users) and second >= 5.0 * math.sqrt(2) * (1 + 8 * n * users)
