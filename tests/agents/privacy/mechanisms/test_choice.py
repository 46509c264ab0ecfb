import math
from itertools import pairwise

import numpy as np
import pytest
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice, rank_scores
from privbandit_agents.testing.watchers import loss, standardised
from scipy import stats

SCORES = np.array([3.0, 0.0, 1.5, -2.0])


@pytest.mark.wide_at("numpy")
@pytest.mark.parametrize("noise", ["numpy", "secure"])
def test_candidates_are_chosen_with_the_odds_of_the_exponentials(noise: str) -> None:
    """Of 4000 choices, at an error rate of 1e-4; neither uniform choice nor half the noise passes."""
    mechanism, rng = ExponentialChoice(2.0, 0.1, noise), np.random.default_rng(1)
    found = np.bincount([mechanism.release(SCORES, rng) for _ in range(4000)], minlength=4)
    for beta, fits in ((2.0, True), (1.0, False), (1e9, False)):
        expected = 4000 * np.exp(SCORES / beta) / np.exp(SCORES / beta).sum()
        assert (stats.chisquare(found, expected).pvalue > 1e-4) == fits


def test_a_choice_costs_what_was_declared_for_the_worst_scores_and_no_more() -> None:
    mechanism, rng = ExponentialChoice.from_rho(0.2, sensitivity=1.0), np.random.default_rng(2)
    worst = loss(mechanism, SCORES, SCORES + np.array([1.0, -1.0, 0.0, 0.0]), 0).as_rho()
    assert worst == pytest.approx(0.2, rel=1e-6) and worst <= mechanism.cost.as_rho()
    for _ in range(50):
        moved = loss(mechanism, SCORES, SCORES + rng.uniform(-1, 1, 4), 0).as_rho()
        assert moved < mechanism.cost.as_rho()
    assert loss(mechanism, SCORES, SCORES + 1.0, 0).as_rho() == 0
    assert standardised(mechanism, SCORES, 0).shape == (0,)


def test_its_zcdp_bounds_the_renyi_divergence_of_its_law() -> None:
    """Computed from the two laws: of every order it is at most order times rho, and at large orders half of that."""
    mechanism, rng = ExponentialChoice.from_rho(0.3, 1.0), np.random.default_rng(3)
    largest = 0.0
    for _ in range(200):
        scores = rng.normal(size=5)
        moved = scores + rng.choice([-1.0, 1.0], 5)
        p, q = (np.exp(one / mechanism.beta) / np.exp(one / mechanism.beta).sum() for one in (scores, moved))
        for order in (1.01, 2.0, 8.0):
            divergence = math.log(np.sum(p**order * q ** (1 - order))) / (order - 1)
            largest = max(largest, divergence / order / 0.3)
    assert 0.5 < largest <= 1


def test_without_noise_the_best_candidate_wins() -> None:
    rng = np.random.default_rng(0)
    assert ExponentialChoice.from_rho(math.inf, 1.0).release(SCORES, rng) == 0
    assert {ExponentialChoice.from_rho(1e6, 1.0).release(SCORES, rng) for _ in range(20)} == {0}
    for rho, sensitivity in ((0.0, 1.0), (1.0, 0.0)):
        with pytest.raises(ValueError):
            ExponentialChoice.from_rho(rho, sensitivity)
    with pytest.raises(ValueError, match="finite"):
        ExponentialChoice.from_rho(1.0, 1.0).release([1.0, math.nan], rng)


def test_ranks_are_counted_and_one_value_moves_every_score_by_at_most_one() -> None:
    rng = np.random.default_rng(4)
    levels = np.sort(rng.uniform(0, 2, 30))
    edges = [0.0, *np.sqrt(levels[:-1] * levels[1:]), math.inf]
    values = np.abs(rng.normal(size=41))
    for q in (0.2, 0.5):
        scores = rank_scores(values, levels, q)
        between = [np.clip(q * 41, (values < low).sum(), (values < high).sum()) for low, high in pairwise(edges)]
        assert np.allclose(scores, -np.abs(np.array(between) - q * 41))
        moves = [
            np.abs(rank_scores(np.append(values[1:], other), levels, q) - scores).max()
            for other in (*rng.uniform(0, 2, 50), 0.0, 1e300, math.inf, math.nan)
        ]
        assert max(moves) == 1


@pytest.mark.parametrize("shared", [0.7, 1.0, 2.236])
def test_a_value_that_all_users_share_is_found(shared: float) -> None:
    """Rewards of 1 or -1 and features of one length: half of the users are below no level."""
    levels = 2.0 ** (np.arange(-40, 41) / 4)
    scores = rank_scores(np.full(90, shared), levels, 0.5)
    assert np.flatnonzero(scores == 0).tolist() == [np.abs(np.log(levels / shared)).argmin()] and scores.min() == -45
