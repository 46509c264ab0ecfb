import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privbandit_agents.privacy.audit import search_sensitivity
from privbandit_agents.privacy.choice import clipped_derivatives, sensitivities
from privbandit_agents.privacy.counters import svec
from scipy.optimize import approx_fprime

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
        part(0), draw, [((one, 1, theta), (one, -1, -theta))], both[0], np.random.default_rng(0)
    )
    flipped = search_sensitivity(
        part(0), draw, [((one, 1, theta), (two, 1, -theta))], both[0], np.random.default_rng(0)
    )
    assert max(gradients.attained, flipped.attained) == pytest.approx(both[0]) and not gradients.exceeded
    zero = np.zeros(2)
    across = [(np.array([[1.0, 0], [-1.0, 0]]), -1, zero), (np.array([[0, 1.0], [0, -1.0]]), -1, zero)]
    hessians = search_sensitivity(part(1), draw, [(across[0], across[1])], both[1], np.random.default_rng(0))
    assert hessians.attained == pytest.approx(both[1]) and not hessians.exceeded


def test_bounds_must_be_positive() -> None:
    with pytest.raises(ValueError, match="trace must be a finite number > 0; got 0"):
        clipped_derivatives(np.zeros((1, 2, 2)), [0], np.zeros(2), radius=1.0, gradient_norm=1.0, trace=0)
