import itertools
from fractions import Fraction

import numpy as np
import pytest
from privbandit_agents.privacy.randomizers.categories import subsets
from privbandit_agents.privacy.randomizers.one_hot import SignedSubset, fair_signs
from privbandit_agents.privacy.randomizers.thresholds import agreeing, staying
from scipy.stats import chisquare


@pytest.mark.wide_at("[56]")
@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_subsets_are_uniform_given_the_own_element(k: int) -> None:
    """Chi-square tests over all subsets; each fails by chance once in 10 000, with fixed seeds."""
    rng, n = np.random.default_rng(k), 20_000
    for size, own, holds in itertools.product(range(1, k), range(k), (True, False)):
        uniforms = rng.random((n, min(size, k - size)))
        members = subsets(size, k, uniforms, np.full(n, own), np.full(n, holds))
        assert (members.sum(axis=1) == size).all() and (members[:, own] == holds).all()
        found = np.bincount(members @ (1 << np.arange(k)), minlength=2**k)
        able = [sum(1 << i for i in s) for s in itertools.combinations(range(k), size) if (own in s) == holds]
        assert found[able].sum() == n
        assert len(able) == 1 or chisquare(found[able]).pvalue > 1e-4


@pytest.mark.parametrize("m", [1, 7, 32, 33, 70])
def test_signs_are_fair_and_independent(m: int) -> None:
    rng, n = np.random.default_rng(m), 40_000
    signs = fair_signs(rng.random((n, -(-m // 32))), m).astype(float)
    assert set(np.unique(signs)) == {-1, 1} and signs.shape == (n, m)
    assert np.abs(signs.mean(axis=0)).max() < 5 / np.sqrt(n)
    products = signs.T @ signs / n - np.eye(m)
    assert np.abs(products).max() < 5 / np.sqrt(n)


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_inactive_users_choose_cells_uniformly(epsilon: float) -> None:
    """Every cell equally often, within 5 standard errors; pairs as in uniform subsets."""
    randomizer, n, m = SignedSubset(epsilon, 6), 60_000, 6
    chosen = np.abs(randomizer.randomize(np.full(n, -1), np.zeros((n, 1)), np.random.default_rng(0))).astype(float)
    share = randomizer.size / m
    assert (chosen.sum(axis=1) == randomizer.size).all()
    assert np.abs(chosen.mean(axis=0) - share).max() <= 5 * np.sqrt(share * (1 - share) / n)
    pairs = (chosen.T @ chosen / n)[~np.eye(m, dtype=bool)]
    both = share * (randomizer.size - 1) / (m - 1)
    assert np.abs(pairs - both).max() <= 5 * np.sqrt(both * (1 - both) / n) + 1e-12


def test_sums_of_estimates_are_those_of_the_reports() -> None:
    randomizer = SignedSubset(2.0, 9)
    reports = randomizer.randomize(np.arange(300) % 9, np.ones((300, 1)), np.random.default_rng(0))
    assert randomizer.estimate_sum(reports) == pytest.approx(randomizer.estimate(reports).sum(axis=0))


@pytest.mark.parametrize("size", [1, 3, 2**20 - 1])
def test_odds_are_lowered_by_the_picks_of_the_smaller_side_alone(size: int) -> None:
    """Cells that are in are picked, or those that are out, whichever are fewer: each pick costs 2^-51 m of the odds."""
    report = SignedSubset(1.0, 2**20, size)
    kept = Fraction(size, 2**20)
    whole = agreeing(1.0, kept, staying(kept), Fraction(1))
    assert 0 < 1 - report.agreed / whole < 1e-8
