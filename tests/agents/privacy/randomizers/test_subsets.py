import itertools

import numpy as np
import pytest
from privbandit_agents.privacy.randomizers.categories import subsets
from privbandit_agents.privacy.randomizers.one_hot import SignedSubset, fair_signs
from scipy.stats import chisquare


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
