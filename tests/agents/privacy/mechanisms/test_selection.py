import math

import numpy as np
import pytest
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from scipy import stats


@pytest.mark.parametrize("beta", [1e-9, 1e-4, 0.01])
def test_what_lies_far_below_the_best_is_still_chosen_in_order(beta: float) -> None:
    """Scores are cut off 200 beta below the best one that is left, whatever was chosen or public before."""
    value, public = np.array([5.0, 0.0, -1e6, 1.0, 90.0, -40.0]), np.array([2])
    mechanism = GumbelTopK(4, beta, 0.0, math.inf, kept=1)
    for seed in range(5):
        chosen, _ = mechanism.release(value, np.random.default_rng(seed), public)
        assert chosen.tolist() == [2, 4, 5, 0, 3]


@pytest.mark.wide
def test_odds_after_a_far_choice_are_those_of_the_exponentials() -> None:
    """After 1000 comes 2, 1 or 0: by the second choice among 4000 runs, at an error rate of 1e-4."""
    mechanism = GumbelTopK(2, 1.0, 0.0, math.inf)
    second = [mechanism.release([1000.0, 2.0, 1.0, 0.0], np.random.default_rng(s))[0][1] for s in range(4000)]
    expected = 4000 * np.exp([2.0, 1.0, 0.0]) / np.exp([2.0, 1.0, 0.0]).sum()
    found = np.bincount(second, minlength=4)[1:]
    assert stats.chisquare(found, expected).pvalue > 1e-4 > stats.chisquare(found, expected[::-1]).pvalue
