"""What every local randomizer promises, checked on all of them; seeds are fixed, error rates below 1e-4 a check."""

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset, UnaryEncoding
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere
from scipy import stats

ALL: dict[str, Callable[[float], LocalRandomizer]] = {
    "laplace": lambda e: LaplaceOneHot(e, 4),
    "laplace-vector": lambda e: LaplaceOneHot(e, 3, dim=2, bound=1.5),
    "grr": lambda e: KaryRandomizedResponse(e, 5),
    "grr-active": lambda e: KaryRandomizedResponse(e, 2, allow_inactive=False),
    "oue": lambda e: UnaryEncoding(e, 5),
    "subset": lambda e: SubsetSelection(e, 7),
    "subset-active": lambda e: SubsetSelection(e, 6, size=3, allow_inactive=False),
    "signed-all": lambda e: SignedSubset(e, 4, size=4),
    "signed-subset": lambda e: SignedSubset(e, 6, size=2),
    "signed-best": lambda e: SignedSubset(e, 12),
    "bin-cap-number": lambda e: BinCapSign(e, 4, 1),
    "bin-cap": lambda e: BinCapSign(e, 4, 3),
    "bin-cap-given": lambda e: BinCapSign(e, 3, 6, threshold=0.3, activity=0.4),
    "hemisphere": lambda e: Hemisphere(e, 3, 2),
    "hemisphere-radius": lambda e: Hemisphere(e, 2, 3, radius=1.5),
}
FIRST = ("laplace", "grr", "oue", "subset", "signed-subset", "bin-cap-number", "bin-cap", "hemisphere")
"""One of each class, and a sign alone; the others have other shapes, sizes and radii."""
every = pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.wide][name in FIRST :]) for name in ALL])
Input = tuple[int, Any]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def extreme(r: LocalRandomizer, sign: float = 1.0) -> Any:
    """The value of the largest norm that all coordinates share; None for categories."""
    return None if r.categorical else np.full(r.dim, sign * r.radius * r.dim ** (-1 / r.norm_order))


def users(r: LocalRandomizer, cell: int, value: Any, n: int) -> tuple[np.ndarray, Any]:
    return np.full(n, cell), None if value is None else np.tile(value, (n, 1))


def inputs(r: LocalRandomizer) -> list[Input]:
    """The worst pair first, then others, the inactive user among them."""
    found = [(0, extreme(r)), (1, extreme(r)), (r.cells - 1, extreme(r))]
    if not r.categorical:
        odd = np.linspace(-0.3, 0.6, r.dim)
        found += [(0, extreme(r, -1)), (1, odd), (0, 0 * odd), (1, odd * np.nan), (0, 1e38 * odd)]
    return [*found, (-1, extreme(r))] if r.allow_inactive else found


def reports_of(r: LocalRandomizer, who: list[Input], n: int, seed: int = 0) -> np.ndarray:
    noise = rng(seed)
    return np.concatenate([r.randomize(*users(r, cell, value, n), noise) for cell, value in who])


@pytest.mark.wide_at("4-hemisphere", "4-bin-cap", "0.5-*", "2-*", "8-*")
@every
@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4, 8])
def test_the_likelihood_ratio_reaches_epsilon_and_never_exceeds_it(name: str, epsilon: float) -> None:
    r = ALL[name](epsilon)
    who = inputs(r)
    logs = np.array([r.log_likelihood(reports_of(r, who, 400), *one) for one in who])
    assert (logs.max(axis=0) - logs.min(axis=0)).max() <= epsilon + 1e-9
    assert (logs[0] - logs[1]).max() >= epsilon - 1e-9
    assert (logs[1] - logs[0]).max() >= epsilon - 1e-9


@pytest.mark.wide_at("*-bin-cap-number", "*-signed-subset", "0.7-*")
@every
@pytest.mark.parametrize("epsilon", [0.7, 2.5])
def test_reports_follow_their_density(name: str, epsilon: float) -> None:
    """E_P[dQ/dP] = 1 both ways, and P(A) = E_Q[1_A dP/dQ] for sets A that Q favours."""
    r, n = ALL[name](epsilon), 20_000
    first, *others = inputs(r)
    p = reports_of(r, [first], n)
    for seed, other in enumerate(others, start=1):
        q = reports_of(r, [other], n, seed)
        ratio = [r.log_likelihood(x, *other) - r.log_likelihood(x, *first) for x in (p, q)]
        assert mean_is(np.exp(ratio[0]), 1.0) and mean_is(np.exp(-ratio[1]), 1.0)
        middle = np.median(ratio[1])
        gap = (ratio[0] >= middle).mean() - np.where(ratio[1] >= middle, np.exp(-ratio[1]), 0.0).mean()
        assert abs(gap) < 5 * math.sqrt(2 * math.exp(epsilon) / n)


def mean_is(sample: np.ndarray, mean: float) -> bool:
    return bool(abs(sample.mean() - mean) <= 5 * sample.std() / math.sqrt(len(sample)) + 1e-12)


@every
def test_samples_of_another_epsilon_do_not_follow_the_density(name: str) -> None:
    right, wrong = ALL[name](1.0), ALL[name](1.5)
    who = inputs(right)
    sample = reports_of(wrong, who[:1], 20_000)
    ratio = right.log_likelihood(sample, *who[1]) - right.log_likelihood(sample, *who[0])
    assert not mean_is(np.exp(ratio), 1.0)


@pytest.mark.wide_at("3.0-*")
@every
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_estimates_are_unbiased_in_every_cell_for_every_input(name: str, epsilon: float) -> None:
    r = ALL[name](epsilon)
    for seed, (cell, value) in enumerate(inputs(r)):
        estimates = r.estimate(reports_of(r, [(cell, value)], 10_000, seed))
        own, z = r.sanitise(np.array([cell]), None if value is None else np.reshape(value, (1, -1)))
        expected = np.zeros((r.cells + 1, r.dim))
        expected[own] = z
        error = np.abs(estimates.mean(axis=0) - expected[:-1])
        assert (error <= 5 * estimates.std(axis=0) / 100 + 1e-12).all()


@pytest.mark.wide_at("0.5-*", "3.0-*")
@every
@pytest.mark.parametrize("epsilon", [0.5, 1.5, 3.0])
def test_variances_are_the_stated_ones(name: str, epsilon: float) -> None:
    r, n = ALL[name](epsilon), 40_000
    estimates = r.estimate(reports_of(r, [(1, extreme(r))], n))
    for cell, own in ((1, True), (0, False)):
        squares = ((estimates[:, cell] - estimates[:, cell].mean(axis=0)) ** 2).mean(axis=1)
        error = 5 * squares.std() / math.sqrt(n)
        assert abs(squares.mean() - r.variance(own)) <= error + 1e-12
        assert error < 0.15 * r.variance(own)  # so a formula that is off by 15 % would be caught


def crowd(r: LocalRandomizer, n: int) -> tuple[np.ndarray, Any]:
    """Users of all cells, a few of them inactive, with values of all lengths."""
    noise = rng(5)
    cells = noise.integers(-1 if r.allow_inactive else 0, min(r.cells, 3), n)
    values = None if r.categorical else r.radius * noise.uniform(-1, 1, (n, r.dim))
    if values is not None:
        values[::7] = 0.0
    return cells, values


@pytest.mark.wide_at("bin-cap*", "hemisphere-radius", "signed-all", "subset-active")
@every
def test_sums_have_the_law_of_the_summed_reports(name: str) -> None:
    """KS at p > 1e-4 for an own cell, another one and a contrast of all; 3/2 and 2/3 of the scale are rejected."""
    r = ALL[name](1.2)
    n, repeats = (100 if r.exact_sum else 500), 1200
    who = crowd(r, n)
    draw = r.randomize_sum if r.exact_sum else r.approximate_sum
    noise = rng(1)
    single = np.array([r.estimate(r.randomize(*who, noise)).sum(axis=0) for _ in range(repeats)])
    summed = np.array([draw(*who, noise) for _ in range(repeats)])
    contrast = rng(2).standard_normal((r.cells, r.dim))
    for weights in (np.eye(r.cells)[:1].T, np.eye(r.cells)[-1:].T, contrast):
        ours, theirs = ((x * weights).sum(axis=(1, 2)).round(9) for x in (summed, single))  # ties stay ties
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-4
        centre = theirs.mean()
        for wrong in (2 / 3, 3 / 2):
            assert stats.ks_2samp(centre + wrong * (ours - centre), theirs).pvalue < 1e-4


@every
@pytest.mark.parametrize("epsilon", [pytest.param(1.0, marks=pytest.mark.slow), 3.0])
@pytest.mark.wide
def test_sums_have_the_exact_mean_and_covariance(name: str, epsilon: float) -> None:
    """Eight users of one kind, or of four kinds, so that every term of the covariance matters; 5 s.e. each entry."""
    r, repeats, noise = ALL[name](epsilon), 1500, rng(6)
    kinds = inputs(r)
    alone = {0, min(4, len(kinds) - 1), min(5, len(kinds) - 1), len(kinds) - 1}  # long, short, zero, inactive
    for mix in (kinds[:4], *([kinds[i]] * 4 for i in alone)):
        cells = np.repeat([cell for cell, _ in mix], 8 // len(mix))
        values = None if r.categorical else np.repeat([value for _, value in mix], 8 // len(mix), axis=0)
        tiled = None if values is None else np.tile(values, (repeats, 1))
        single = r.estimate(r.randomize(np.tile(cells, repeats), tiled, noise))
        theirs = single.reshape(repeats, len(cells), -1).sum(axis=1)
        ours = np.array([r.approximate_sum(cells, values, noise).ravel() for _ in range(repeats)])
        assert_moments_agree(ours, theirs)


def assert_moments_agree(ours: np.ndarray, theirs: np.ndarray) -> None:
    moments = []
    for x in (ours, theirs):
        centred = x - x.mean(axis=0)
        products = centred[:, :, None] * centred[:, None, :]
        moments.append((x.mean(axis=0), x.var(axis=0), products.mean(axis=0), products.var(axis=0)))
    (mean, var, cov, cov_var), (mean_, var_, cov_, cov_var_) = moments
    assert (np.abs(mean - mean_) <= 5 * np.sqrt((var + var_) / len(ours)) + 1e-9).all()
    assert (np.abs(cov - cov_) <= 5 * np.sqrt((cov_var + cov_var_) / len(ours)) + 1e-9).all()


@every
def test_sums_exist_where_they_should(name: str) -> None:
    r = ALL[name](2.0)
    assert r.exact_sum == (name not in {"subset", "subset-active", "signed-subset", "signed-best"} and not is_sphere(r))
    assert r.approximate_sum(*crowd(r, 50), rng()).shape == (r.cells, r.dim)
    if not r.exact_sum:
        with pytest.raises(NotImplementedError, match=r"approximate_sum.*\.$"):
            r.randomize_sum(*crowd(r, 50), rng())
    assert ALL[name](math.inf).exact_sum


@pytest.mark.wide_at("subset", "signed-subset", "grr", "bin-cap*", "hemisphere-radius", "signed-all", "subset-active")
@every
def test_users_by_counts_are_users(name: str) -> None:
    """KS at p > 1e-4 against the sum over the same users one by one; a user more or fewer shows in the mean."""
    r = ALL[name](1.2)
    cells, values = crowd(r, 6)
    counts = np.array([200, 0, 7, 300, 1, 92])
    each = np.repeat(cells, counts), None if values is None else np.repeat(values, counts, axis=0)
    noise = rng(4)
    one = np.array([r.approximate_sum(*each, noise) for _ in range(800)])
    other = np.array([r.approximate_sum(cells, values, noise, counts) for _ in range(800)])
    contrast = rng(2).standard_normal((r.cells, r.dim))
    for weights in (np.eye(r.cells)[:1].T, contrast):
        ours, theirs = ((x * weights).sum(axis=(1, 2)).round(9) for x in (other, one))
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-4
    nobody = ALL[name](math.inf).approximate_sum(cells, values, noise, 0 * counts)
    assert not nobody.any()
    with pytest.raises(ValueError, match=r"counts must be 6 integers >= 0"):
        r.approximate_sum(cells, values, noise, counts - 1)


def is_sphere(r: LocalRandomizer) -> bool:
    return isinstance(r, BinCapSign | Hemisphere) and r.cells * r.dim > r.cells


@every
def test_reports_do_not_depend_on_how_users_are_grouped(name: str) -> None:
    r = ALL[name](1.2)
    cells, values = crowd(r, 30)
    parts = [slice(0, 1), slice(1, 2), slice(2, 30)]
    noise = rng(3)
    apart = [r.randomize(cells[p], None if values is None else values[p], noise) for p in parts]
    assert np.array_equal(np.concatenate(apart), r.randomize(cells, values, rng(3)))


@every
def test_infinite_epsilon_reports_exactly(name: str) -> None:
    r = ALL[name](math.inf)
    cells, values = crowd(r, 40)
    block = np.zeros((40, r.cells + 1, r.dim))
    block[range(40), cells] = r.sanitise(cells, values)[1]
    reports = r.randomize(cells, values, rng())
    assert np.array_equal(r.estimate(reports), block[:, :-1])
    assert r.variance(True) == r.variance(False) == 0.0
    assert r.randomize_sum(cells, values, rng()) == pytest.approx(block[:, :-1].sum(axis=0))
    one = (int(cells[3]), None if values is None else values[3])
    logs = r.log_likelihood(reports, *one)
    assert logs[3] == 0.0 and set(logs) <= {0.0, -math.inf} and (logs == -math.inf).any()


@every
@pytest.mark.parametrize("epsilon", [1e-3, 40.0, 1000.0, 1e6])
def test_extreme_epsilons_neither_overflow_nor_leak(name: str, epsilon: float) -> None:
    r = ALL[name](epsilon)
    who = inputs(r)
    reports = reports_of(r, who, 50)
    assert np.isfinite(r.estimate(reports)).all()
    logs = np.array([r.log_likelihood(reports, *one) for one in who])
    assert not np.isnan(logs).any()
    assert (logs.max(axis=0) - logs.min(axis=0)).max() <= epsilon * (1 + 1e-9) + 1e-9
    assert r.variance(True) >= 0 and math.isfinite(r.variance(False))
    assert np.isfinite(r.approximate_sum(*crowd(r, 100), rng())).all()


@every
def test_a_large_epsilon_tells_the_cell(name: str) -> None:
    r = ALL[name](1000.0)
    estimates = r.estimate(reports_of(r, [(1, extreme(r))], 200)).sum(axis=2)
    assert (estimates.mean(axis=0).argmax() == 1) and abs(estimates[:, 0]).mean() < 1.5 * r.dim


numbers = st.floats(width=64) | st.sampled_from([math.nan, math.inf, -math.inf, 1e38, -1e308, 5e-324])


@pytest.mark.wide_at("bin-cap", "signed-subset", "grr", "laplace", "subset")
@every
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_record_is_sanitised_before_use(name: str, data: st.DataObject) -> None:
    r = ALL[name](1.0)
    n = data.draw(st.integers(1, 4))
    cells = np.array(data.draw(st.lists(st.integers(0, r.cells - 1), min_size=n, max_size=n)))
    values = None
    if not r.categorical:
        rows = st.lists(st.lists(numbers, min_size=r.dim, max_size=r.dim), min_size=n, max_size=n)
        values = np.array(data.draw(rows))
    reports = r.randomize(cells, values, rng())
    assert np.isfinite(r.estimate(reports)).all()
    assert np.isfinite(r.approximate_sum(cells, values, rng())).all()
    logs = r.log_likelihood(reports, int(cells[0]), None if values is None else values[0])
    assert np.abs(logs - r.log_likelihood(reports, 1, extreme(r))).max() <= 1.0 + 1e-9
    _, z = r.sanitise(cells, values)
    assert (np.linalg.norm(z, r.norm_order, axis=1) <= r.radius * (1 + 1e-12)).all()


@every
def test_records_that_are_not_finite_count_as_zero_and_long_ones_keep_their_direction(name: str) -> None:
    r = ALL[name](1.0)
    if r.categorical:
        with pytest.raises(ValueError, match=r"values must be None: the cell is all there is; got ndarray\.$"):
            r.randomize(np.zeros(2, int), np.ones((2, 1)), rng())
        return
    z = np.stack([np.full(r.dim, np.nan), np.full(r.dim, np.inf), 1e38 * extreme(r), extreme(r) / 2])
    assert r.sanitise(np.zeros(4, int), z)[1] == pytest.approx(
        np.stack([0 * extreme(r), 0 * extreme(r), extreme(r), extreme(r) / 2])
    )
    assert z[3] == pytest.approx(extreme(r) / 2)
    single = r.randomize(np.zeros(4, int), z.astype(np.float32), rng())
    assert np.isfinite(single).all()


@every
def test_what_cannot_be_a_cell_or_a_value_is_refused_in_one_sentence(name: str) -> None:
    r = ALL[name](1.0)
    good = crowd(r, 2)[1]
    for cells in ([0, r.cells], [0, -2], [0.0, 1.0], [[0, 1]]):
        with pytest.raises(ValueError, match=r"^cells must be .*; got [^.]*(\.\d)?[^.]*\.$"):
            r.randomize(np.array(cells), good, rng())
    if not r.allow_inactive:
        with pytest.raises(ValueError, match=r"cells must be 0, .*; got others \(not shown.*\)\.$"):
            r.randomize(np.array([0, -1]), good, rng())
    if good is not None:
        for values in (None, good[:1], np.ones((2, r.dim + 1)), np.ones(2 * r.dim)):
            with pytest.raises(ValueError, match=r"^values must .*; got .*\.$"):
                r.randomize(np.array([0, 1]), values, rng())


@every
@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_an_epsilon_that_is_not_positive_is_refused(name: str, epsilon: float) -> None:
    with pytest.raises(ValueError, match=rf"^epsilon must be > 0; got {epsilon}\.$"):
        ALL[name](epsilon)


@every
def test_randomizers_pickle(name: str) -> None:
    r = ALL[name](1.2)
    who = crowd(r, 10)
    assert np.array_equal(pickle.loads(pickle.dumps(r)).randomize(*who, rng()), r.randomize(*who, rng()))
