"""Local randomizers of a cell: exact laws by enumeration, and the variances of the literature."""

import itertools
import math

import numpy as np
import pytest
from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset, UnaryEncoding
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from scipy import stats


def bits(n: int) -> np.ndarray:
    return np.array(list(itertools.product([0, 1], repeat=n)))


def signed(n: int) -> np.ndarray:
    return np.array(list(itertools.product([-1, 0, 1], repeat=n)))


def outcomes(r: LocalRandomizer) -> tuple[np.ndarray, float]:
    """Every report there is, and the base measure of each."""
    if isinstance(r, KaryRandomizedResponse):
        return np.arange(r.categories), 1 / r.categories
    if isinstance(r, UnaryEncoding):
        return bits(r.cells), 1.0
    if isinstance(r, SubsetSelection):
        rows = bits(r.categories)
        rows = rows[rows.sum(axis=1) == r.size]
    else:
        assert isinstance(r, SignedSubset)
        rows = signed(r.cells)
        rows = rows[np.abs(rows).sum(axis=1) == r.size]
    return rows, 1 / len(rows)


FINITE = [
    (KaryRandomizedResponse(1.0, 4), None),
    (KaryRandomizedResponse(3.0, 4, allow_inactive=False), None),
    (UnaryEncoding(1.0, 4), None),
    (SubsetSelection(1.0, 5, size=2), None),
    (SubsetSelection(0.3, 4, size=3, allow_inactive=False), None),
    (SubsetSelection(2.0, 1), None),
    (SignedSubset(1.0, 4, size=2), np.array([0.4])),
    (SignedSubset(2.0, 3, size=3), np.array([-1.0])),
    (SignedSubset(1.5, 4, size=1), np.array([0.0])),
    (SignedSubset(1.5, 1), np.array([0.5])),
]


@pytest.mark.wide_but("KaryRandomizedResponse-NoneType0", "SubsetSelection-NoneType2", "SignedSubset-ndarray3")
@pytest.mark.parametrize(("r", "value"), FINITE, ids=lambda x: type(x).__name__)
def test_densities_sum_to_one_and_are_the_law_of_the_reports(r: LocalRandomizer, value: np.ndarray | None) -> None:
    """Chi-square at level 1e-4; reports of 1.5 epsilon are rejected below it."""
    rows, base = outcomes(r)
    n = 20_000
    codes = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    assert len(set(codes)) == len(rows)
    for cell in range(-1 if r.allow_inactive else 0, r.cells):
        law = base * np.exp(r.log_likelihood(rows, cell, value))
        assert law.sum() == pytest.approx(1.0, abs=1e-12)
        who = (np.full(n, cell), None if value is None else np.tile(value, (n, 1)))
        assert stats.chisquare(counts(r.randomize(*who, np.random.default_rng(cell + 1)), rows), n * law).pvalue > 1e-4
    if value is None or value[0] != 0:
        rebuilt = rebuild(r, 1.5 * r.epsilon)
        assert stats.chisquare(counts(rebuilt.randomize(*who, np.random.default_rng(9)), rows), n * law).pvalue < 1e-4


def rebuild(r: LocalRandomizer, epsilon: float) -> LocalRandomizer:
    settings = {"size": r.size} if isinstance(r, SubsetSelection | SignedSubset) else {}
    if isinstance(r, KaryRandomizedResponse | SubsetSelection):
        return type(r)(epsilon, r.cells, allow_inactive=r.allow_inactive, **settings)  # type: ignore[arg-type]
    return type(r)(epsilon, r.cells, **settings)  # type: ignore[arg-type]


def counts(reports: np.ndarray, rows: np.ndarray) -> np.ndarray:
    where = {tuple(np.atleast_1d(row)): i for i, row in enumerate(rows)}
    return np.bincount([where[tuple(np.atleast_1d(report))] for report in reports.astype(int)], minlength=len(rows))


# variance of (2 y - 1) / 2 at the own leaf and at another one, by epsilon and m = 16, 64, 256
SIGNED_OTHER = {
    0.5: (4.17, 4.17, 4.17),
    1.0: (1.17, 1.17, 1.17),
    2.0: (0.289, 0.308, 0.312),
    4.0: (0.0149, 0.0292, 0.0354),
    8.0: (1.70e-4, 1.75e-4, 1.97e-4),
}
SIGNED_OWN = {
    1.0: (0.92, 0.92, 0.92),
    2.0: (0.49, 0.42, 0.41),
    4.0: (0.164, 0.319, 0.285),
    8.0: (0.0029, 0.0109, 0.043),
}


def test_signed_subset_has_the_tabulated_variances() -> None:
    for own, table in ((False, SIGNED_OTHER), (True, SIGNED_OWN)):
        for epsilon, row in table.items():
            for m, variance in zip((16, 64, 256), row, strict=True):
                assert SignedSubset(epsilon, m).variance(own) / 4 == pytest.approx(variance, rel=0.02)


def test_signed_subset_beats_two_one_hot_laplace_releases_at_uniform_occupancy() -> None:
    for m, gain in ((16, 103), (64, 74), (256, 69)):
        r = SignedSubset(4.0, m)
        variance = (r.variance(own=True) + (m - 1) * r.variance(own=False)) / m / 4
        assert 40 / 4.0**2 / variance == pytest.approx(gain, rel=0.02)


@pytest.mark.parametrize("m", [1, 2, 16, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 4.0])
def test_the_size_of_a_signed_subset_is_the_best_one(m: int, epsilon: float) -> None:
    best = SignedSubset(epsilon, m)
    assert best.variance(own=False) <= min(SignedSubset(epsilon, m, w).variance(own=False) for w in range(1, m + 1))
    assert best.size == m or epsilon > math.log(3) or m == 2
    assert best.exact_sum == (best.size == m)


@pytest.mark.wide
def test_noise_of_a_node_counts_its_own_users_apart() -> None:
    """Noise of a sum over L leaves of n users, n_node of them inside: n L v_off + n_node (v_own - v_off)."""
    r, n, inside, leaves = SignedSubset(4.0, 16), 300, 120, 4
    cells = np.where(np.arange(n) < inside, np.arange(n) % leaves, leaves + np.arange(n) % 12)
    rng = np.random.default_rng(0)
    nodes = [r.estimate(r.randomize(cells, np.ones((n, 1)), rng)).sum(axis=0)[:leaves].sum() for _ in range(4000)]
    other, own = r.variance(own=False), r.variance(own=True)
    assert np.var(nodes) == pytest.approx(n * leaves * other + inside * (own - other), rel=0.12)  # 5 s.e.
    assert np.var(nodes) > 2 * n * leaves * other


# variance of (2 y - 1) / 2 at another leaf by randomized response of the 2 m pairs (leaf, y)
KARY = {0.5: (38.8, 153, 609), 1.0: (5.71, 22.0, 87), 2.0: (0.470, 1.65, 6.35), 4.0: (0.0149, 0.0316, 0.0984)}


def test_kary_randomized_response_has_the_tabulated_variances() -> None:
    for epsilon, row in KARY.items():
        for m, variance in zip((16, 64, 256), row, strict=True):
            r = KaryRandomizedResponse(epsilon, 2 * m, allow_inactive=False)
            both = r.lie / r.truth**2 / 2  # (q (1 - q) + q^2) / 2 over (p - q)^2
            assert both == pytest.approx(variance, rel=0.02)
            assert r.variance(own=False) == pytest.approx(r.lie * (1 - r.lie) / r.truth**2, rel=1e-12)


def test_unary_encoding_and_subset_selection_have_the_tabulated_variances() -> None:
    for epsilon, unary, least, most in ((1.0, 3.68, 3.40, 3.66), (2.0, 0.72, 0.62, 0.72), (4.0, 0.076, 0.029, 0.072)):
        exact = 4 * math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2
        assert UnaryEncoding(epsilon, 32).variance(own=False) == pytest.approx(exact, rel=1e-12)
        assert exact == pytest.approx(unary, rel=0.02)
        for m, variance in ((16, least), (256, most)):
            r = SubsetSelection(epsilon, 2 * m, allow_inactive=False)
            assert r.variance(own=False) == pytest.approx(variance, rel=0.03)


def test_a_subset_of_one_is_randomized_response() -> None:
    one, kary = SubsetSelection(1.3, 6, size=1), KaryRandomizedResponse(1.3, 6)
    for own in (True, False):
        assert one.variance(own) == pytest.approx(kary.variance(own), rel=1e-12)
    reports = np.arange(7)
    assert one.log_likelihood(np.eye(7, dtype=bool), 2) == pytest.approx(kary.log_likelihood(reports, 2))


def test_laplace_is_calibrated_to_the_replacement_of_a_one_hot_block() -> None:
    assert LaplaceOneHot(2.0, 5).scale == 1.0
    r = LaplaceOneHot(2.0, 5, dim=4, bound=3.0)
    assert r.scale == 3.0 and r.variance(own=True) == r.variance(own=False) == 18.0
    blocks = LaplaceOneHot(math.inf, 5, dim=4, bound=3.0).randomize(
        np.array([0, 1]), np.ones((2, 4)), np.random.default_rng()
    )
    assert np.abs(blocks[0] - blocks[1]).sum() == pytest.approx(2 * 3.0)  # the sensitivity is attained
    assert LaplaceOneHot(1.0, 2, dim=9).radius == 3.0


def test_inactive_users_noise_every_cell() -> None:
    """The report of an inactive user is no rarer or more frequent than e^epsilon allows, and says nothing."""
    for r in (UnaryEncoding(0.8, 6), SignedSubset(0.8, 6), LaplaceOneHot(0.8, 6)):
        values = None if r.categorical else np.zeros((5000, 1))
        reports = r.randomize(np.full(5000, -1), values, np.random.default_rng(0))
        assert (reports.reshape(5000, -1).std(axis=0) > 0).all()
        for cell in range(6):
            ratio = r.log_likelihood(reports, cell, None if r.categorical else 1.0)
            ratio = ratio - r.log_likelihood(reports, -1, None if r.categorical else 0.0)
            assert np.abs(ratio).max() <= 0.8 + 1e-9


@pytest.mark.parametrize(
    ("r", "value"), [pair for pair in FINITE if pair[0].allow_inactive], ids=lambda x: type(x).__name__
)
def test_inactive_users_count_nowhere_on_average(r: LocalRandomizer, value: np.ndarray | None) -> None:
    """The mean over the law of the reports, by enumeration."""
    rows, base = outcomes(r)
    law = base * np.exp(r.log_likelihood(rows, -1, value))
    assert np.tensordot(law, r.estimate(rows), axes=1) == pytest.approx(np.zeros((r.cells, r.dim)), abs=1e-12)


def test_estimates_that_always_sum_to_one_need_a_category_for_inactive_users() -> None:
    with_one, without = KaryRandomizedResponse(1.0, 4), KaryRandomizedResponse(1.0, 4, allow_inactive=False)
    assert with_one.categories == 5 and without.categories == 4
    assert without.estimate(np.arange(4)).sum(axis=1) == pytest.approx(np.ones((4, 1)))


def test_settings_out_of_range_are_refused_in_one_sentence() -> None:
    for build, message in (
        (lambda: SignedSubset(1.0, 4, size=5), "size must be at most 4; got 5."),
        (lambda: SubsetSelection(1.0, 4, size=5), "size must be at most 4; got 5."),
        (lambda: SubsetSelection(1.0, 4, size=4, allow_inactive=False), "size must be at most 3; got 4."),
        (lambda: SubsetSelection(1.0, 4, size=0), "size must be an integer >= 1; got 0."),
        (lambda: UnaryEncoding(1.0, 0), "cells must be an integer >= 1; got 0."),
        (lambda: LaplaceOneHot(1.0, 2, dim=0), "dim must be an integer >= 1; got 0."),
        (lambda: LaplaceOneHot(1.0, 2, bound=-1.0), "bound must be a finite number > 0; got -1.0."),
        (
            lambda: KaryRandomizedResponse(1.0, 1, allow_inactive=False),
            "cells must be >= 2 where no user may be inactive; got 1.",
        ),
    ):
        with pytest.raises(ValueError) as error:
            build()
        assert str(error.value) == message
