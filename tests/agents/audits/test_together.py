"""The lower bound from runs that two worlds make together: it holds, and it is worth something."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from given import rng
from hypothesis import given, settings
from hypothesis import strategies as st
from privbandit_agents.audits.bounds.together import (
    Hits,
    Tallies,
    best_together,
    bound_together,
    error_of,
    promise_of,
    stake_of,
)
from privbandit_agents.audits.claims import Claim, Floats
from privbandit_agents.audits.lower_bounds import Event, bound_of, choose

RUNS = 2000


Worlds = tuple[Floats, Floats]
Law = Callable[[float, int, int, bool], Worlds]


def laplace(epsilon: float, runs: int, seed: int, apart: bool = False) -> Worlds:
    """Return what two worlds at distance 1 release, by the same noise or each by its own, shape (runs, 1)."""
    noise = rng(seed).laplace(scale=1 / epsilon, size=(2, runs, 1))
    return noise[0], 1 + noise[apart * 1]


def response(epsilon: float, runs: int, seed: int, apart: bool = False) -> Worlds:
    """Return the bits that two worlds report by randomized response with the same coins, shape (runs, 1)."""
    flips = rng(seed).random((2, runs, 1)) > 1 / (1 + math.exp(-epsilon))
    return flips[0] * 1.0, 1.0 - flips[apart * 1]


def bound(worlds: Worlds, pilot: int, alpha: float) -> float:
    zero, one = worlds
    tried, fresh, runs = (zero[:pilot], one[:pilot]), (zero[pilot:], one[pilot:]), len(zero) - pilot
    event = choose(Claim(1.0), tried, alpha, runs)
    return bound_together(event.hits(fresh), stake_of(event.hits(tried), runs, 0.0, alpha), 0.0, alpha)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("law", [laplace, response])
@pytest.mark.wide
def test_bounds_exceed_the_truth_as_seldom_as_is_said(law: Law, apart: bool) -> None:
    """Of 200 bounds at 10 % at most 34 are above the truth, but with a probability of 1e-3."""
    found = [bound(law(1.0, RUNS, seed, apart), RUNS // 4, 0.1) for seed in range(200)]
    assert sum(one > 1.0 for one in found) <= 34
    assert np.median(found) > 0.75


def test_delta_is_taken_from_what_an_event_shows() -> None:
    """A leak of probability delta is not held against (epsilon, delta)-DP; ten times the delta is."""
    claim, runs, delta = 1.0, 20_000, 0.01
    for leak, refuted in ((delta, False), (10 * delta, True)):
        zero, one = response(claim, runs, 3)
        told = rng(4).random((runs, 1)) < leak
        worlds = np.where(told, 5.0, zero), np.where(told, -5.0, one)
        event = Event(0, 1, 5.0, 0)
        hits, known = event.hits(worlds), event.hits((zero, one))
        assert (bound_together(hits, stake_of(known, runs, delta, 0.001), delta, 0.001) > claim) == refuted


def test_same_noise_is_worth_more_runs() -> None:
    """Together the same runs give a better bound than apart, and than two intervals do."""
    worlds = laplace(0.5, 4000, 5)
    event = choose(Claim(0.5), worlds, 0.001)
    hits = event.hits(worlds)
    found = [bound_together(one, stake_of(one, 4000, 0.0, 0.001), 0.0, 0.001) for one in (hits, hits.apart)]
    single, _ = bound_of(Claim(0.5), *event.hits(worlds).rates, 4000, 0.001)
    assert found[0] > found[1] + 0.03
    assert found[0] > single + 0.03


def test_worlds_that_exclude_each_other_are_played_apart() -> None:
    zero, one = response(1.0, 4000, 6)
    event = Event(0, 1, 1.0, 1)
    assert not best_together(event.hits((zero, one)), 0.0, 0.001, 4000)
    assert best_together(Event(0, 1, 0.5, 1).hits(laplace(1.0, 4000, 6)), 0.0, 0.001, 4000)


def test_a_value_that_some_runs_of_one_world_have_is_an_event() -> None:
    """A tenth of the runs says -1000, and all others have different numbers near 0."""
    zero = rng(0).laplace(size=(2000, 1))
    one = np.where(rng(1).random((2000, 1)) < 0.1, -1000.0, rng(2).laplace(size=(2000, 1)))
    event = choose(Claim(1.0), (zero, one), 0.001)
    assert (event.sign, event.likely, event.threshold) == (-1, 1, 1000.0)


def test_both_tails_are_counted() -> None:
    worlds = np.array([[3.0], [-3.0], [0.0], [3.0]]), np.array([[3.0], [3.0], [-3.0], [0.0]])
    hits = Event(0, 1, 2.0, 0, counter=2.0).hits(worlds)
    assert hits.runs.tolist() == [[0, 1, 0], [1, 0, 1], [0, 0, 1]]
    assert hits.events == 2
    alone = Event(0, 1, 2.0, 0).hits(worlds)
    assert alone.runs.tolist() == [[1, 0, 1], [1, 0, 1], [0, 0, 0]]
    many = Tallies(np.array([1.0]), np.array([2.0]), np.array([3.0]), 5)
    same = Hits(np.array([[1.2, 0, 1.8], [0.8, 0, 1.2], [0, 0, 0]]), 1)  # 2 x 3 / 5 > 1
    for one, other in zip(many.moments(2.0, 0.1), same.moments(2.0, 0.1), strict=True):
        assert one == pytest.approx(float(other))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 300), min_size=9, max_size=9), st.floats(0.001, 0.5), st.floats(0.0, 0.1), st.data())
def test_less_is_shown_at_a_smaller_error(counts: list[int], stake: float, delta: float, data: st.DataObject) -> None:
    """The bound falls with alpha, and with every further run in which an event happens where it is not likely."""
    table = np.array(counts, float).reshape(3, 3)
    hits = Hits(table, 2)
    found = [bound_together(hits, stake, delta, alpha) for alpha in (0.1, 0.001)]
    assert found[0] >= found[1] >= 0
    worse = table.copy()
    worse[2, data.draw(st.sampled_from([0, 2]))] += 1
    assert bound_together(Hits(worse, 2), stake, delta, 0.1) <= found[0]


def test_promises_of_one_and_of_many_events_agree() -> None:
    zero, one = laplace(1.0, 4000, 7)
    cuts = [0.0, 0.5, 2.0]
    tables = [Event(0, 1, cut, 1).hits((zero, one)) for cut in cuts]
    both, likely, other = (
        np.array([float(part) for part in parts])
        for parts in (
            [((zero >= cut) & (one >= cut)).sum() for cut in cuts],
            [(one >= cut).sum() for cut in cuts],
            [(zero >= cut).sum() for cut in cuts],
        )
    )
    many = promise_of(Tallies(both, likely, other, 4000), 0.0, 0.001, 10_000)
    assert many == pytest.approx([float(promise_of(table, 0.0, 0.001, 10_000)) for table in tables])
    assert error_of(0.001, 100) > error_of(0.001, 1000)
