"""A vector and a matrix with noise of their own; error rates below 1e-3 a check."""

import math

import numpy as np
import pytest
from privbandit_agents.privacy.randomizers.matrices import LaplaceWishart, PublishedLayer
from privbandit_agents.privacy.vectors import smat, svec

WEIGHTS = (0.5, 0.5, math.sqrt(0.5))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def correct(epsilon: float = 1.0) -> LaplaceWishart:
    return LaplaceWishart(epsilon, 3, 3, 2, bound=1.5, trace=0.7)


def published(epsilon: float = 1.0) -> PublishedLayer:
    return PublishedLayer(epsilon, 3, 2, WEIGHTS)


def record(v: tuple[float, float] = (0.6, 0.8)) -> np.ndarray:
    row = np.array(v)
    return np.concatenate([[0.5], 0.5 * row, 0.7 * svec(np.outer(row, row))])[None]


@pytest.mark.parametrize("make", [correct, published])
def test_estimates_are_unbiased_with_the_stated_spread(make: type) -> None:
    mechanism, n = make(), 40_000
    estimates = mechanism.estimate(mechanism.randomize(np.ones(n, int), np.repeat(record(), n, axis=0), rng()))
    vectors, matrix = mechanism.spread
    stated = np.concatenate([vectors, np.full(3, matrix)])
    centre = np.zeros((3, 6))
    centre[1] = record()[0]
    assert (np.abs(estimates.mean(axis=0) - centre) <= 5 * stated / math.sqrt(n)).all()
    assert np.allclose(estimates.std(axis=0) / stated, 1.0, atol=0.05)
    assert math.isclose(mechanism.variance(own=True), (stated**2).mean())


@pytest.mark.parametrize("make", [correct, published])
def test_noise_is_independent_between_cells_and_coordinates(make: type) -> None:
    """Correlations of 40 000 inactive users' reports; noise that cells share would cancel in a difference.

    Entries of one Wishart matrix are uncorrelated but dependent, so that the limit is eight standard errors.
    """
    mechanism, n = make(), 40_000
    reports = mechanism.randomize(np.full(n, -1), np.zeros((n, 6)), rng(3)).reshape(n, -1)
    assert np.abs(np.corrcoef(reports.T) - np.eye(18)).max() < 8 / math.sqrt(n)


@pytest.mark.parametrize("make", [correct, published])
def test_a_report_does_not_depend_on_how_many_were_drawn_together(make: type) -> None:
    cells, values, one, other = np.array([0, -1, 2, 1]), np.repeat(record(), 4, axis=0), rng(4), rng(4)
    mechanism = make()
    together = mechanism.randomize(cells, values, one)
    alone = [mechanism.randomize(cells[i : i + 1], values[i : i + 1], other)[0] for i in range(4)]
    assert np.array_equal(together, alone)


@pytest.mark.wide_at("correct")
@pytest.mark.parametrize("make", [correct, published])
def test_sums_have_the_law_of_many_reports(make: type) -> None:
    mechanism = make()
    cells, values, counts = np.array([0, -1]), np.repeat(record(), 2, axis=0), np.array([30, 20])
    many = np.repeat(cells, counts), np.repeat(values, counts, axis=0)
    noise = rng(1)
    single = np.array([mechanism.randomize(*many, noise).sum(axis=0) for _ in range(800)])
    summed = np.array([mechanism.randomize_sum(cells, values, noise, counts) for _ in range(800)])
    error = np.sqrt((single.var(axis=0) + summed.var(axis=0)) / 800)
    assert (np.abs(single.mean(axis=0) - summed.mean(axis=0)) <= 4.5 * error).all()
    ratio = summed.std(axis=0) / single.std(axis=0)
    assert (ratio > 0.85).all() and (ratio < 1.18).all()


def test_values_are_brought_within_the_bounds_whatever_they_are() -> None:
    mechanism, noise = correct(), rng(2)
    wild = np.concatenate([noise.standard_normal((50, 6)) * 10.0 ** noise.integers(-3, 30, (50, 1)), record()])
    wild[0, 0], wild[1, 5] = math.nan, math.inf
    kept = mechanism.sanitise(np.zeros(51, int), wild)[1]
    spectra = np.linalg.eigvalsh(smat(kept[:, 3:]))
    assert (np.abs(kept[:, :3]).sum(axis=1) <= 1.5 * (1 + 1e-9)).all()
    assert (spectra >= -1e-9).all() and (spectra.sum(axis=1) <= 0.7 * (1 + 1e-9)).all()
    assert np.allclose(kept[-1], record()) and not kept[:2].any()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_two_halves_cost_epsilon_together(epsilon: float) -> None:
    mechanism = correct(epsilon)
    assert math.isclose(2 * mechanism.bound / mechanism.scales[0] + mechanism.trace / mechanism.v, epsilon)


@pytest.mark.wide
def test_the_published_density_is_that_of_the_reports_and_betrays_users() -> None:
    """E_P[dQ/dP] is the share of Q that P can reach; the rest identifies the world."""
    mechanism, n = published(), 40_000
    p, q = record((1.0, 0.0)), record((0.0, 1.0))
    reports = [
        mechanism.randomize(np.zeros(n, int), np.repeat(z, n, axis=0), rng(seed)) for seed, z in enumerate((p, q))
    ]
    under = [[mechanism.log_likelihood(x, 0, z[0]) for z in (p, q)] for x in reports]
    assert np.isfinite(under[0][0]).all() and np.isfinite(under[1][1]).all()
    alone = np.isneginf(under[1][0]).mean()
    ratios = np.exp(under[0][1] - under[0][0])
    assert alone > 0.01
    assert abs(ratios.mean() - (1 - alone)) <= 5 * (ratios.std() + 1) / math.sqrt(n)


def test_the_correct_density_is_not_claimed() -> None:
    with pytest.raises(NotImplementedError, match="closed form"):
        correct().log_likelihood(np.zeros((1, 3, 6)), 0, record()[0])
