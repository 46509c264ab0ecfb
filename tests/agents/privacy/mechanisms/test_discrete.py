"""Exact noise on a grid: the law of the sampler, what decides where floats cannot, and what it costs."""

import math
from typing import Any

import numpy as np
import pytest
from privbandit_agents.privacy.mechanisms import discrete
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian, decided, integers
from privbandit_agents.privacy.mechanisms.grid import FINER, covering, step_of
from privbandit_agents.privacy.mechanisms.secure import System
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK, below, peeled
from scipy import stats


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def p_value(drawn: np.ndarray, deviation: float) -> float:
    """Of a chi-square test against the discrete Gaussian."""
    support = np.arange(-40, 41)
    weights = np.exp(-(support**2) / (2 * deviation**2))
    expected = len(drawn) * weights / weights.sum()
    seen = np.array([(drawn == k).sum() for k in support])
    kept = expected > 5
    rows = [np.append(counts[kept], len(drawn) - counts[kept].sum()) for counts in (seen, expected)]
    return float(stats.chisquare(*rows).pvalue)


@pytest.mark.parametrize("deviation", [1.0, 1.3, 1.99, 2.0, 3.7])
def test_integers_have_the_law_of_the_discrete_gaussian(deviation: float) -> None:
    drawn = integers(deviation, 50_000, rng(1))
    assert p_value(drawn, deviation) > 1e-4
    assert p_value(drawn, 1.05 * deviation) < 1e-6


@pytest.mark.parametrize("deviation", [2.0**32, 1.7 * 2.0**32, 2.0**40])
def test_fine_grids_look_continuous(deviation: float) -> None:
    drawn = integers(deviation, 20_000, rng()) / deviation
    assert stats.kstest(drawn, "norm").pvalue > 1e-4 and stats.kstest(1.15 * drawn, "norm").pvalue < 1e-10


def test_rational_arithmetic_decides_by_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrete, "BLOCKS", 0)
    assert p_value(integers(1.7, 3000, rng()), 1.7) > 1e-4


def test_where_floats_are_sure_rational_arithmetic_agrees() -> None:
    """The same words and uniforms, once with floats and once without."""
    deviation, source = 1.4 * 2.0**20, rng(3)
    width = 20
    for word, place, uniform in zip(
        source.integers(2**63, size=300), source.integers(2**width, size=300), source.random(300), strict=True
    ):
        k, accepted = decided(int(word), int(place), float(uniform), deviation, width, source)
        block = 64 - int(word).bit_length()
        size = (block << width) + int(place)
        chance = 2.0**block * math.exp(-0.5 * (size / deviation) ** 2) / discrete.ceiling(deviation)
        assert chance < 1 and accepted == (uniform < chance) and k == (size if accepted else 0)


def test_words_of_zeros_go_on_to_further_blocks() -> None:
    class Words:
        def bytes(self, length: int) -> bytes:
            return (1).to_bytes(length, "little")

    k, accepted = decided(0, 5, 0.0, 1.5, 0, Words())  # type: ignore[arg-type]
    assert (k, accepted) == (0, False)  # block 64 + 63: never accepted but with a uniform of many zeros


def test_ceilings_bound_the_chances() -> None:
    for deviation in np.linspace(1, 8, 200):
        width = 2 ** (math.frexp(deviation)[1] - 1)
        k = np.arange(60 * width)
        chances = 2.0 ** (k // width) * np.exp(-0.5 * (k / deviation) ** 2)
        assert 0.9 < chances.max() / discrete.ceiling(deviation) <= 1


@pytest.mark.parametrize("noise", ["numpy", "secure"])
def test_releases_are_on_the_grid_and_cover_its_rounding(noise: str) -> None:
    mechanism, value = GridGaussian.from_rho(0.5, 2.0, noise, dim=100), rng(1).random(100)
    step = step_of(mechanism.sigma, FINER)
    released = mechanism.release(value, rng())
    assert (released / step == np.rint(released / step)).all()
    assert (2.0 + step * 10) ** 2 / (2 * mechanism.sigma**2) <= 0.5
    assert mechanism.sigma == pytest.approx(2.0, rel=1e-8)
    assert 0.5 < np.std(released - value) / mechanism.sigma < 1.6


def test_without_a_budget_the_value_is_exact_and_a_tiny_one_is_refused() -> None:
    assert GridGaussian.from_rho(math.inf, 1.0).release([0.1], rng()).tolist() == [0.1]
    for make in (lambda: GridGaussian.from_rho(1e-30, 1.0), lambda: GumbelTopK.from_rho(1e-30, 2, 1.0)):
        with pytest.raises(ValueError, match="budget is too small"):
            make()
    for deviation in (0.5, math.inf, math.nan):
        with pytest.raises(ValueError, match="deviation must be in"):
            integers(deviation, 1, rng())
    assert covering(1.0, 1.0) > 1 + 2.0**-32


@pytest.mark.wide
def test_peeling_has_the_law_of_gumbel_noise() -> None:
    value, beta, n = np.array([0.0, 1.0, 2.0, -3.0, 0.5]), 1.5, 8000
    pairs: Any = np.zeros((2, 25))
    source = rng()
    for _ in range(n):
        one, two = peeled(value, beta, np.empty(0, np.intp), 2, source)
        pairs[0, 5 * one + two] += 1
    scores = np.argsort(-(np.abs(value) + beta * source.gumbel(size=(n, 5))), axis=1)
    pairs[1] = np.bincount(5 * scores[:, 0] + scores[:, 1], minlength=25)
    pairs = pairs[:, pairs.sum(axis=0) > 0]
    assert stats.chi2_contingency(pairs).pvalue > 1e-4
    flat = np.bincount(5 * scores[:, 1] + scores[:, 0], minlength=25)
    assert stats.chi2_contingency(np.stack([pairs[0], flat[flat > 0]])).pvalue < 1e-6


def test_scores_far_below_the_best_can_still_be_chosen() -> None:
    """Weights of e^-200 are whole numbers above 0: every set is possible in every world."""
    chosen = peeled(np.array([1e9, 0.0, 0.0, 5.0]), 1.0, np.array([0]), 3, rng())
    assert sorted(chosen.tolist()) == [1, 2, 3]
    assert peeled(np.array([1.0, 1e300]), 1.0, np.empty(0, np.intp), 1, rng()).tolist() == [1]


def test_uniform_integers_below_a_limit() -> None:
    counts = np.bincount([below(6, rng(seed)) for seed in range(600)], minlength=6)
    assert stats.chisquare(counts).pvalue > 1e-4 and below(1, rng()) == 0
    assert 0 <= below(10**100, System()) < 10**100  # type: ignore[arg-type]


def test_a_release_takes_the_same_of_its_generator_whatever_the_value() -> None:
    states = []
    for scale in (0.0, 1.0, 1e6):
        source = rng()
        GumbelTopK.from_rho(0.1, 3, 1.0).release(scale * rng(1).standard_normal(30), source)
        states.append(source.bit_generator.state)
    assert states[0] == states[1] == states[2]
