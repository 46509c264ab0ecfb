"""Statistics against cases worked out by hand."""

import math

import numpy as np
import pytest
import scipy
from numpy.random import default_rng
from privbandit_agents.experiments.results.statistics import (
    Interval,
    common_seeds,
    estimate_alone,
    expanded,
    percentile_interval,
    seed_weights,
    signed_rank_p,
    student_interval,
    weighted_medians,
)


def test_percentiles_by_hand() -> None:
    found = percentile_interval(7, np.arange(101), 0.9)
    assert (found.value, found.low, found.high) == pytest.approx((7, 5, 95))
    assert not percentile_interval(7, [1, math.nan]).known and Interval(1, 0, 2).known and not estimate_alone(1).known


def test_seed_weights_are_samples_with_replacement() -> None:
    weights = seed_weights(4, default_rng(0), 20_000)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert set(np.unique(weights)) <= {0, 0.25, 0.5, 0.75, 1}
    # a binomial count of 4 draws at 1/4: mean 1, variance 3/4
    assert (4 * weights).mean() == pytest.approx(1, abs=0.01) and (4 * weights).var() == pytest.approx(0.75, abs=0.02)


def test_the_expanded_percentiles_give_students_width() -> None:
    # t(0.975, 9) = 2.262157; times sqrt(10 / 9) is 2.384523, beyond which a normal has 0.00855 on each side
    assert expanded(0.95, 10) == pytest.approx(1 - 2 * 0.008551, abs=2e-5)
    assert expanded(0.95, 10_000) == pytest.approx(0.95, abs=1e-4)
    values = default_rng(5).normal(size=10)
    drawn = seed_weights(10, default_rng(6), 50_000) @ values
    found = percentile_interval(values.mean(), drawn, expanded(0.95, 10))
    assert (found.high - found.low) / 2 == pytest.approx(student_interval(values[:, None]).half_width[0], rel=0.06)


def test_students_half_width_by_hand() -> None:
    # deviations 2 and 1 of three values; t(0.975, 2) = 4.302653
    widths = student_interval(np.array([[4.0, 1], [6, 2], [8, 3]])).half_width
    np.testing.assert_allclose(widths, [4.302653 * 2 / math.sqrt(3), 4.302653 / math.sqrt(3)], rtol=1e-6)
    assert np.isnan(student_interval(np.ones((1, 2))).half_width).all()


def test_common_seeds_are_those_that_all_have() -> None:
    assert common_seeds([3, 1, 2], [2, 3, 9], [3, 2]).tolist() == [2, 3] and not len(common_seeds([1], []))


def test_the_number_of_draws_is_checked() -> None:
    with pytest.raises(ValueError, match="draws must be an integer >= 1; got 0"):
        seed_weights(2, default_rng(0), draws=0)


def test_signed_ranks_by_hand() -> None:
    # five positive differences: 2 of the 32 signs are as extreme
    assert signed_rank_p([1, 2, 3, 4, 5]) == pytest.approx(2 / 32)
    # rank sum of the negative one is 1: {} and {1} on either side, 4 of 32
    assert signed_rank_p([-1, 2, 3, 4, 5]) == pytest.approx(4 / 32)
    assert signed_rank_p([0, 0, 0]) == 1


def test_weighted_medians_are_those_of_the_repeated_values() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(7, 3))
    for n in (7, 8):
        counts = rng.multinomial(n, np.full(7, 1 / 7), size=50)
        found = weighted_medians(counts / n, values)
        again = np.stack([np.median(np.repeat(values, row, axis=0), axis=0) for row in counts])
        np.testing.assert_allclose(found, again)


def test_bootstrap_percentiles_are_those_of_scipy() -> None:
    """The percentile bootstrap of a mean, within five standard errors of what 20 000 draws give either of them."""
    values = default_rng(8).exponential(size=15)
    drawn = seed_weights(15, default_rng(9), 20_000) @ values
    ours = percentile_interval(float(values.mean()), drawn, 0.9)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, confidence_level=0.9, n_resamples=20_000, method="percentile", rng=default_rng(10)
    ).confidence_interval
    spread = drawn.std()
    error = 5 * math.sqrt(2) * math.sqrt(0.05 * 0.95 / 20_000) / 0.103 * spread  # a normal's density at its 5 % point
    assert ours.low == pytest.approx(theirs.low, abs=error) and ours.high == pytest.approx(theirs.high, abs=error)
    assert percentile_interval(0.0, drawn, 0.8).low > theirs.low + error, "a narrower interval is told apart"
