import math

import numpy as np
import pytest
from privbandit_agents.privacy.accounting.conversions import gaussian_mu
from privbandit_agents.privacy.contributions.means import WEIGHT, BoundedMean

GOLDEN = (1 + math.sqrt(5)) / 2
WILD = [0.0, 1.0, -1.0, 0.3, 5.0, -7.0, 1e308, math.inf, -math.inf, math.nan]


def test_no_two_rows_are_further_apart_than_two() -> None:
    release = BoundedMean.from_epsilon(1.0, 1e-5, 3, 1.0)
    grid = np.linspace(-1, 1, 401)
    vectors = np.stack([grid, WEIGHT * grid**2], axis=1)
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    assert apart.max() == pytest.approx(2, abs=1e-12)
    for first in WILD:
        for second in WILD:
            one, other = (release.encoded([0.1, row, -0.9]) for row in (first, second))
            assert np.linalg.norm(one - other) <= 2 * (1 + 1e-12) + 24 * 2.0**-53


def test_the_weight_is_below_the_golden_bound_and_beyond_it_the_claim_is_false() -> None:
    assert WEIGHT**2 < GOLDEN**5 / 4
    k, y = 1.05 * math.sqrt(GOLDEN**5 / 4), GOLDEN**-2
    u, v = 1.0, -1 + 2 * y  # |u - v| = 2 (1 - y), |u + v| = 2 y
    assert math.hypot(u - v, k * (u**2 - v**2)) > 2


@pytest.mark.parametrize(("epsilon", "bound"), [(0.1, 1.0), (1.0, 30.0), (8.0, 0.01)])
@pytest.mark.wide
def test_what_is_released_is_the_mean_and_the_square(epsilon: float, bound: float) -> None:
    rng = np.random.default_rng(0)
    numbers = bound * rng.uniform(-1.2, 1.2, 40)
    release = BoundedMean.from_epsilon(epsilon, 1e-6, 40, bound)
    found = np.array([release.release(numbers, rng) for _ in range(4000)])
    clipped = np.clip(numbers, -bound, bound)
    sigma = 2 / gaussian_mu(epsilon, 1e-6) / 40 * bound
    assert found[0, 2] == pytest.approx(sigma, rel=1e-3)
    assert abs(found[:, 0].mean() - clipped.mean()) < 4 * sigma / math.sqrt(4000)
    assert found[:, 0].std() == pytest.approx(sigma, rel=0.05)
    assert abs(found[:, 1].mean() - (clipped**2).mean()) < 4 * sigma * bound / WEIGHT / math.sqrt(4000)


def test_as_many_numbers_as_users() -> None:
    with pytest.raises(ValueError, match="one a user"):
        BoundedMean.from_epsilon(1.0, 1e-5, 3, 1.0).encoded([1.0, 2.0])
