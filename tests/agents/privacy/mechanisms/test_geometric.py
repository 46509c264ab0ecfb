"""Noise on the integers: its law, exact, and what it refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest
from privbandit_agents.privacy import GridLaplace
from privbandit_agents.privacy.mechanisms.geometric import chance_of_exp, two_sided
from scipy.stats import chisquare


@pytest.mark.wide_at("x2")
@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1)])
def test_a_coin_of_exp_has_its_chance(x: Fraction) -> None:
    rng, n = np.random.default_rng(0), 10_000
    found = sum(chance_of_exp(x, rng) for _ in range(n)) / n
    assert abs(found - math.exp(-x)) <= 5 * 0.5 / n**0.5 and (x or found == 1)


def law(rate: float) -> np.ndarray:
    weights = np.exp(-rate * np.abs(np.arange(-8, 9)))
    whole = (1 + math.exp(-rate)) / (1 - math.exp(-rate))
    return np.append(weights / whole, 1 - weights.sum() / whole)


@pytest.mark.wide_at("rate1")
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(7, 3)])
def test_integers_have_the_stated_law(rate: Fraction) -> None:
    """A chi-square test at 1e-4 accepts the law, and rejects two thirds and three halves of the scale."""
    rng, n = np.random.default_rng(1), 5000
    drawn = np.array([two_sided(rate, rng) for _ in range(n)])
    seen = np.append([(drawn == k).sum() for k in range(-8, 9)], (np.abs(drawn) > 8).sum())

    def p_value(of: float) -> float:
        expected = n * law(of)
        kept = expected > 5
        cells = [np.append(one[kept], one[~kept].sum()) for one in (seen, expected)]
        return float(chisquare(*(one + 1e-9 for one in cells), sum_check=False).pvalue)

    assert p_value(float(rate)) > 1e-4
    assert p_value(float(rate) * 1.5) < 1e-4 and p_value(float(rate) / 1.5) < 1e-4


def test_the_cost_is_that_of_the_shift_in_steps() -> None:
    mechanism = GridLaplace.of_integers(0.5, 2**20)
    assert mechanism.scale == 2**21 and mechanism.loss([0.0], [2.0**20], [3.0]).pure == 0.5
    drawn = np.array([mechanism.release([7.0], np.random.default_rng(s))[0] for s in range(1000)])
    assert (drawn == np.floor(drawn)).all()
    assert abs(np.abs(drawn - 7).mean() / 2**21 - 1) < 5 / 1000**0.5


def test_numbers_that_are_not_whole_are_refused_and_infinity_adds_nothing() -> None:
    with pytest.raises(ValueError, match="whole"):
        GridLaplace.of_integers(1.0, 1).release([0.5], np.random.default_rng(0))
    assert GridLaplace.of_integers(math.inf, 1).release([3.0], np.random.default_rng(0)).tolist() == [3.0]
    assert GridLaplace.of_integers(1.0, 1, "secure").release([3.0], np.random.default_rng(0))[0].is_integer()
