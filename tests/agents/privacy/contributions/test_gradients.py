from typing import Any

import numpy as np
import pytest
from given import rng
from privbandit_agents.joint.sparse.pursuit.releases import within
from privbandit_agents.privacy.contributions.choices import sanitise as clipped_choices
from privbandit_agents.privacy.contributions.gradients import clipped_gradients, sensitivity
from privbandit_agents.privacy.vectors import modest


@pytest.mark.parametrize("bound", [0.5, 1.0, 1e-6, 37.0])
@pytest.mark.parametrize("size", [1e-200, 1e-3, 1.0, 1e6, 1e100])
@pytest.mark.parametrize("dim", [1, 7, 400])
def test_no_gradient_is_longer_than_the_bound_and_short_ones_stay(bound: float, size: float, dim: int) -> None:
    draw = rng(dim)
    scores, answers, features = (
        size * draw.standard_normal(300),
        draw.standard_normal(300),
        draw.standard_normal((300, dim)),
    )
    clipped = clipped_gradients(scores, answers, features, bound)
    lengths = [np.sqrt(sum(value**2 for value in row)) for row in clipped.astype(np.longdouble)]
    assert 2 * max(lengths) <= sensitivity(bound, 1, dim)
    plain = (scores - answers)[:, None] * features
    short = np.linalg.norm(plain, axis=1) < bound * (1 - 1e-9)
    assert np.array_equal(clipped[short], plain[short])
    np.testing.assert_allclose(np.linalg.norm(clipped[~short], axis=1), bound, rtol=1e-12)


def test_a_gradient_is_the_slope_of_the_squared_loss() -> None:
    draw = rng(0)
    weights, features, answers = draw.standard_normal(5), draw.standard_normal((20, 5)), draw.standard_normal(20)
    found = clipped_gradients(features @ weights, answers, features, 1e9)
    step = 1e-6
    for k, unit in enumerate(np.eye(5)):
        up, down = (0.5 * (features @ (weights + way * step * unit) - answers) ** 2 for way in (1, -1))
        np.testing.assert_allclose(found[:, k], (up - down) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("users", [1, 200, 5000])
def test_a_record_moves_a_sum_by_no_more_than_the_sensitivity_and_attains_it(users: int) -> None:
    draw, bound = rng(users), 0.7
    answers = 9 * draw.standard_normal(users)
    features = draw.standard_normal((users, 4))
    replaced: list[Any] = []
    for way in (1e6, -1e6):
        answers[0], features[0] = way, np.eye(4)[1]
        replaced.append(clipped_gradients(np.zeros(users), answers, features, bound).sum(axis=0))
    moved = np.linalg.norm(replaced[0] - replaced[1])
    assert 2 * bound * (1 - 1e-9) < moved <= sensitivity(bound, users, 4) < 2 * bound * (1 + 1e-7)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf])
def test_a_bound_that_is_none_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="bound must be"):
        clipped_gradients(np.zeros(1), np.zeros(1), np.zeros((1, 1)), bound)
    with pytest.raises(ValueError, match="bound must be"):
        sensitivity(bound, 1, 1)


@pytest.mark.parametrize("bound", [1e-9, 1e-140, 1e-160, 1e-200, 1e-300])
@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e-155, 1e-140, 1.0])
def test_no_bound_is_passed_by_a_record_whose_squares_underflow(bound: float, size: float) -> None:
    features = size * np.array([[1.0, 0.0, 0.0], [0.6, -0.8, 0.0]])
    rows = clipped_gradients(np.zeros(2), np.array([1.0, -1.0]), features, bound)
    shown = np.abs(clipped_choices(features[:, None], np.zeros(2), bound)[0])
    for clipped in (rows, within(features, bound)[0], shown[:, 0]):
        assert (np.hypot.reduce(clipped, axis=1) <= bound * (1 + 1e-12)).all()
        assert np.array_equal(clipped[:, 2], np.zeros(2))
    assert modest(features, bound) <= (np.abs(features).max() <= bound)
