"""Sums by shuffled bits: the bound against exact binomials, the law of what is sent, and what is estimated."""

import math
from bisect import bisect_right
from typing import Any

import numpy as np
import pytest
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.accounting.shuffling import coins_epsilon, coins_for
from privbandit_agents.privacy.randomizers import coins
from privbandit_agents.privacy.randomizers.coins import CoinSums, heads_of, shift_of, thresholds
from scipy.stats import binom, chi2

RNG = np.random.default_rng


def exact_delta(coins: int, move: int, epsilon: float) -> float:
    """Return the hockey-stick divergence of Binomial(coins, 1/2) and the same moved, the larger of the two."""
    x = np.arange(-move, coins + move + 1)
    one, other = binom.pmf(x, coins, 0.5), binom.pmf(x - move, coins, 0.5)
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in ((one, other), (other, one)))


@pytest.mark.parametrize(("tossed", "move"), [(30, 1), (200, 3), (2000, 10), (2000, 40), (20_000, 60), (20_000, 15)])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
def test_the_bound_holds_for_exact_binomials_and_is_near(tossed: int, move: int, delta: float) -> None:
    epsilon = coins_epsilon(tossed, delta, 1, move, move)
    assert epsilon == math.inf or exact_delta(tossed, move, epsilon) <= delta
    if tossed >= 2000 and delta < 0.01:
        assert exact_delta(tossed, move, 0.85 * epsilon) > delta


@pytest.mark.parametrize("moves", [(4, 0), (3, 2), (2, -3), (-1, 4)])
def test_the_bound_holds_in_two_coordinates(moves: tuple[int, int]) -> None:
    """All pairs of heads of 400 coins each, exactly."""
    x, size = np.arange(-8, 409), math.hypot(*moves)
    p = np.multiply.outer(binom.pmf(x, 400, 0.5), binom.pmf(x, 400, 0.5))
    q = np.multiply.outer(*(binom.pmf(x - move, 400, 0.5) for move in moves))
    for delta in (1e-5, 1e-2):
        epsilon = coins_epsilon(400, delta, 2, size, 4)
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= delta


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_the_fewest_coins_keep_the_budget_and_one_less_does_not(epsilon: float) -> None:
    found = coins_for(epsilon, 1e-5, 20, 150.0, 144)
    assert coins_epsilon(found, 1e-5, 20, 150.0, 144) <= epsilon < coins_epsilon(found - 1, 1e-5, 20, 150.0, 144)
    if epsilon <= 1:  # the remainder is small: the coins are those of Gaussian noise by zCDP
        assert found == pytest.approx(2 * 150.0**2 / epsilon_to_rho(epsilon, 1e-5), rel=0.01)


def test_coins_out_of_reach_are_refused_and_none_hide_nothing() -> None:
    assert coins_for(math.inf, 1e-5, 2, 10.0, 10) == 0 and coins_epsilon(0, 1e-5, 2, 10.0, 10) == math.inf
    assert coins_epsilon(20, 1e-5, 2, 10.0, 10) == math.inf  # fewer coins than the move is long
    with pytest.raises(ValueError, match=r"^epsilon must be larger: 0.001 at [^\n]*$"):
        coins_for(1e-3, 1e-5, 2, 1e9, 10)


@pytest.mark.parametrize("most", [2**30, 0])
@pytest.mark.parametrize("users", [1, 7])
def test_numbers_of_heads_have_the_binomial_law(users: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chi-square test of the variance and a bound on the mean, at 0.001 each, both ways of drawing."""
    monkeypatch.setattr(coins, "MOST_COINS", most)
    sums = CoinSums(2, 4, 61)
    tossed = sums.tosses(users)
    heads = sums.randomize(np.zeros((6000, 2)), users, RNG(0))[:, :2] - 4
    assert tossed == math.ceil(61 / max(1, users - 1)) and heads.min() >= 0 and heads.max() <= tossed
    scaled = (heads - tossed / 2) / math.sqrt(tossed / 4)
    assert abs(scaled.mean()) < 3.3 / math.sqrt(scaled.size)
    kurtosis = 3 - 2 / tossed
    spread = (np.mean(scaled**2) - 1) / math.sqrt((kurtosis - 1) / scaled.size)
    assert abs(spread) < 3.3 and abs(np.corrcoef(scaled.T)[0, 1]) < 4 / math.sqrt(6000)


def exact_thresholds(tosses: int, bits: int) -> list[int]:
    """Return P(k heads or fewer) for k below ``tosses`` in units of 2^-bits, rounded down, by whole numbers."""
    found, ways, total = list[int](), 1, 0
    for k in range(tosses):
        total += ways
        found.append((total << bits) >> tosses)
        ways = ways * (tosses - k) // (k + 1)
    return found


class Words:
    """A generator whose words are given."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def integers(self, low: int, high: int, size: int, kind: Any) -> Any:
        return np.array([self.left.pop(0) for _ in range(size)], kind)


@pytest.mark.parametrize("tosses", [1, 2, 3, 63, 64, 65, 100, 999, 6057])
def test_heads_are_those_of_the_exact_inverse(tosses: int) -> None:
    """At random words, and at all that are next to a threshold, where more words decide."""
    exact, finer = exact_thresholds(tosses, 64), exact_thresholds(tosses, 384)
    first, low, high, _ = thresholds(tosses)
    assert all(
        a <= exact[first + k] <= b for k, (a, b) in enumerate(zip(low[:-1].tolist(), high[:-1].tolist(), strict=True))
    )
    assert tosses < 999 or first > tosses // 4  # the farther ones are no more than a word tells
    near = np.unique(np.concatenate([low, high, low - np.uint64(1), high + np.uint64(1)]))
    for words in (RNG(tosses).integers(0, 2**64, 3000, np.uint64), near[:: max(1, len(near) // 400)]):
        for more in (1, 2**63 + 1, 2**64 - 2):
            found = [heads_of(np.array([[word]]), tosses, Words(more, *[7] * 9)).item() for word in words]  # type: ignore[arg-type]
            rest = sum(digit << 64 * place for place, digit in enumerate([7, 7, 7, 7, more]))
            assert found == [bisect_right(finer, (int(word) << 320) + rest) for word in words]


def test_sums_are_unbiased_with_the_stated_deviation() -> None:
    """Over 4000 batches of five users; the deviation is a bound, and near."""
    sums, vectors = CoinSums.from_epsilon(2.0, 1e-3, 3, 2.0), RNG(2).uniform(-1, 1, (5, 3))
    sent = sums.randomize(np.tile(vectors, (4000, 1)), 5, RNG(3)).reshape(4000, 5, 6)
    found = np.array([sums.estimate(bag, 5) for bag in sent.sum(axis=1)])
    assert (np.abs(found.mean(axis=0) - vectors.sum(axis=0)) < 4 * sums.sigma(5) / math.sqrt(4000)).all()
    assert (found.std(axis=0) < 1.05 * sums.sigma(5)).all() and (found.std(axis=0) > 0.9 * sums.sigma(5)).all()


@pytest.mark.parametrize("seed", range(3))
def test_with_the_same_uniforms_integers_move_no_farther_than_is_declared(seed: int) -> None:
    """Random and extreme pairs in the unit ball, at distance 2 at most."""
    rng, dim, steps = RNG(seed), 6, 40
    sums = CoinSums(dim, steps, 0)
    ends = rng.standard_normal((2, 500, dim)) * rng.choice([1e-3, 1.0, 1e3], (2, 500, dim))
    one, other = ends / np.linalg.norm(ends, axis=-1, keepdims=True)
    other[:100] = -one[:100]
    moved = sums.randomize(one, 1, RNG(9))[:, :dim] - sums.randomize(other, 1, RNG(9))[:, :dim]
    lengths = np.linalg.norm(moved, axis=1)
    assert lengths.max() <= shift_of(dim, steps, 2.0) and lengths.max() > 0.95 * 2 * steps
    assert np.abs(moved).max() <= 2 * steps


@pytest.mark.parametrize("most", [2**30, 0])
def test_users_are_drawn_alike_however_they_are_cut_and_send_equally_many_bits(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coins, "MOST_COINS", most)
    sums, vectors = CoinSums(3, 5, 103), RNG(0).uniform(-2, 2, (11, 3))
    whole, rng = sums.randomize(vectors, 11, RNG(4)), RNG(4)
    parts = [sums.randomize(vectors[part], 11, rng) for part in (slice(0, 1), slice(1, 6), slice(6, 11))]
    assert np.array_equal(whole, np.concatenate(parts))
    assert set((whole[:, :3] + whole[:, 3:]).ravel()) == {sums.messages(11)} and whole.min() >= 0


@pytest.mark.parametrize("honest", [1.0, 0.5, 0.01])
@pytest.mark.parametrize("users", [1, 3, 1000])
def test_the_honest_ones_toss_enough(users: int, honest: float) -> None:
    sums = CoinSums(2, 4, 10_001, honest)
    assert sums.tosses(users) * max(1, math.floor(honest * users)) >= 10_001


@pytest.mark.wide
def test_the_bag_of_a_batch_is_refuted_where_half_the_coins_are_missing() -> None:
    """The likelihood ratio of Gaussian noise, 5000 bags of each world: the loss is chi-square far too large."""
    sums: Any = CoinSums.from_epsilon(1.0, 1e-5, 2, 2.0)
    few = CoinSums(2, sums.steps, sums.coins // 2)
    for tossed, honest in ((sums, True), (few, False)):
        ones = tossed.randomize(np.zeros((5000, 2)), 1, RNG(5))[:, :2] - tossed.tosses(1) / 2 - tossed.steps
        size = float(np.sum(ones**2) / (sums.coins / 4))
        assert (chi2.cdf(size, 10_000) > 1e-4) == honest
