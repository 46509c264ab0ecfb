import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privbandit_agents.base import state
from privbandit_agents.privacy.mechanisms import counters, grid
from privbandit_agents.privacy.mechanisms.counters import (
    BinaryTree,
    BufferedToeplitz,
    Counter,
    SquareRootToeplitz,
    square_root_coefficients,
)
from privbandit_agents.privacy.vectors import eigenvalue_bound, repair, smat, svec
from scipy import stats

Make = Callable[..., Counter]
COUNTERS: dict[str, Make] = {
    "tree": BinaryTree,
    "toeplitz": SquareRootToeplitz,
    "banded": partial(SquareRootToeplitz, bandwidth=9),
    "buffered": BufferedToeplitz,
}
every_counter = pytest.mark.parametrize("make", COUNTERS.values(), ids=COUNTERS.keys())
GRIDS: dict[str, Make] = {f"{name}, grid": partial(kind, mass=1e4) for name, kind in COUNTERS.items()}
every_grid = pytest.mark.parametrize("make", GRIDS.values(), ids=GRIDS.keys())
of_each_kind = pytest.mark.parametrize("make", [*COUNTERS.values(), *GRIDS.values()], ids=[*COUNTERS, *GRIDS])
T = 45  # not a power of two; several chunks once STEPS_A_BLOCK is small


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "STEPS_A_BLOCK", 8)
    monkeypatch.setattr(counters, "NUMBERS_AHEAD", 16)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class Impulse:
    """Stands in for a generator: every draw is 0 but one, which is 1."""

    def __init__(self, position: int) -> None:
        self.left = position

    def standard_normal(self, size: Any) -> np.ndarray:
        drawn = np.zeros(size)
        if 0 <= self.left < drawn.size:
            drawn.flat[self.left] = 1
        self.left -= drawn.size
        return drawn


def decoder(make: Make, horizon: int = T) -> np.ndarray:
    """The matrix R of the code that runs: its answer to a unit impulse in each draw, in units of its scale."""
    columns = []
    for position in range(horizon):
        counter = make(horizon, 1, 1.0, 0.5, Impulse(position))
        columns.append([counter.add([0.0])[0] / counter.scale for _ in range(horizon)])
    return np.array(columns).T


def answers(make: Make, horizon: int, method: str) -> np.ndarray:
    """The matrix that the code of a counter on a grid applies: its answer to a unit impulse in each row."""
    columns = []
    for position in range(horizon):
        counter = make(horizon, 1, 1.0, 0.5, rng())
        column = []
        for counter.t in range(horizon):
            column.append(getattr(counter, method)(np.array([float(counter.t == position)]))[0])
        columns.append(column)
    return np.array(columns).T


def prefix_sums(horizon: int = T) -> np.ndarray:
    return np.tri(horizon)


def noise(make: Make, samples: int, rho: float = 0.5) -> tuple[np.ndarray, float]:
    """Noise of shape (T, samples): the coordinates are independent runs."""
    counter = make(T, samples, 1.0, rho, rng())
    return np.array([counter.add(np.zeros(samples)) for _ in range(T)]), counter.scale


@every_counter
@pytest.mark.parametrize("horizon", [1, 2, 16, T])
def test_condition_10_the_declared_norms_are_those_of_the_factors_that_run(make: Make, horizon: int) -> None:
    R = decoder(make, horizon)
    C = np.linalg.solve(R, prefix_sums(horizon))
    counter = make(horizon, 1, 1.0, 0.5, rng())
    np.testing.assert_allclose(R @ C, prefix_sums(horizon), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(C, axis=0).max(), counter.column_norm(), rtol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(R, axis=1), [counter.row_norm(t + 1) for t in range(horizon)], rtol=1e-9)
    assert np.linalg.norm(C, axis=0).max() <= counter.column_norm() * (1 + 1e-12)


@every_counter
def test_the_exact_zcdp_of_all_releases_is_rho_and_the_first_user_attains_it(make: Make) -> None:
    sensitivity, rho = 3.0, 0.2
    counter = make(T, 1, sensitivity, rho, rng())
    R = decoder(make)
    covariance = counter.scale**2 * R @ R.T
    shift = sensitivity * prefix_sums()  # column j: what replacing user j moves
    spent = np.einsum("tj,tj->j", shift, np.linalg.solve(covariance, shift)) / 2  # D_alpha / alpha between Gaussians
    assert spent.max() == pytest.approx(rho, rel=4e-6)
    assert (spent <= rho * (1 + 1e-9)).all()
    assert spent[0] == pytest.approx(spent.max(), rel=1e-9)


@every_grid
@pytest.mark.parametrize("horizon", [1, 2, 16, T])
def test_on_a_grid_the_declared_norms_are_those_of_the_factors_that_run(make: Make, horizon: int) -> None:
    R, C = answers(make, horizon, "_decoded"), answers(make, horizon, "_encoded")
    counter = make(horizon, 1, 1.0, 0.5, rng())
    np.testing.assert_allclose(R @ C, prefix_sums(horizon), atol=1e-9)
    assert np.linalg.norm(C, axis=0).max() <= counter.column_norm() * (1 + 1e-12)
    assert counter.column_norm() <= np.linalg.norm(C, axis=0).max() * (1 + 2e-6)
    np.testing.assert_allclose(np.linalg.norm(R, axis=1), [counter.row_norm(t + 1) for t in range(horizon)], rtol=1e-9)


@every_grid
@pytest.mark.parametrize(
    ("horizon", "dim", "mass"), [(1, 1, 1.5), (139, 20, 1.3e4), (187, 5150, 1.3e5), (350, 20, 1e8)]
)
def test_a_grid_adds_less_than_a_percent_of_variance_and_covers_all_rounding(
    make: Make, horizon: int, dim: int, mass: float
) -> None:
    rho = 0.009  # epsilon = 0.5
    kind: Any = make
    settings = {key: value for key, value in kind.keywords.items() if key != "mass"}
    counter = kind.func(horizon, dim, 2.0, rho, rng(), **settings | {"mass": mass})
    plain = kind.func(horizon, dim, 2.0, rho, rng(), **settings)
    for t in {1, horizon // 2 or 1, horizon}:
        assert 1 <= (counter.standard_deviation(t) / plain.standard_deviation(t)) ** 2 <= 1.01
    # of the sum of both worlds' floats, and of all rows of the grid
    step = grid.step_of(counter.scale, grid.FINER)
    norm = counter.column_norm()
    moved = norm * (2.0 + 2 * counters.rounding(horizon) * mass) + step * math.sqrt(horizon * dim)
    assert moved**2 / (2 * counter.scale**2) <= rho


@every_grid
@pytest.mark.parametrize("horizon", [7, 157])
@pytest.mark.wide
def test_rows_are_as_far_off_as_their_bound_says_at_most(make: Make, horizon: int) -> None:
    """Against sums in rational arithmetic, of the coefficients that are in use."""
    counter = make(horizon, 1, 1.0, 0.5, rng())
    terms = rng(3).standard_normal(horizon) * 10.0 ** rng(4).integers(-6, 6, horizon)
    C = encoder(make, horizon)
    for counter.t in range(horizon):
        row = counter._encoded(terms[counter.t : counter.t + 1])[0]
        parts = [C[counter.t][j] * Fraction(terms[j]) for j in range(counter.t + 1)]
        off = abs(Fraction(row) - sum(parts, Fraction(0)))
        assert off <= Fraction(counters.rounding(horizon)) * sum(map(abs, parts))


def encoder(make: Make, horizon: int) -> list[list[Fraction]]:
    """C in rational arithmetic, by the floats that the counter keeps."""
    counter: Any = make(horizon, 1, 1.0, 0.5, rng())
    if isinstance(counter, BinaryTree):
        lowest = [t & -t for t in range(1, horizon + 1)]
        return [[Fraction(int(t - lowest[t] < j <= t)) for j in range(horizon)] for t in range(horizon)]
    if isinstance(counter, SquareRootToeplitz):
        column = [Fraction(c) for c in counter.encoder]
    else:
        rates = [(Fraction(a), Fraction(p)) for a, p in zip(counter.residues, counter.rates, strict=True)]
        column = [sum((a * p**k for a, p in rates), Fraction(0)) for k in range(horizon)]
    return [[column[t - j] if j <= t else Fraction(0) for j in range(horizon)] for t in range(horizon)]


@pytest.mark.parametrize("horizon", [1, 2, 10, 1000, 10**5, 10**8])
def test_the_encoder_of_buffers_is_a_sum_of_exponentials_with_weights_above_zero(horizon: int) -> None:
    """A term's weight in a row is never the difference of larger ones, which the bound on rounding rests on."""
    counter = BufferedToeplitz(horizon, 1, 1.0, 0.5, rng(), mass=1.0)
    assert (counter.residues > 0).all() and (np.diff(counter.rates) > 0).all()
    assert counter.rates[0] == 0 and counter.rates[-1] == 1
    if horizon <= 10**5:
        plain = BufferedToeplitz(horizon, 1, 1.0, 0.5, rng())
        assert counter.column_norm() == pytest.approx(plain.column_norm(), rel=1e-7)


@every_grid
def test_releases_read_terms_through_the_rows_of_the_encoder_alone(make: Make) -> None:
    """A counter of other terms that is made to encode the same rows releases the same, bit for bit."""
    one, other = (make(T, 2, 1.0, 0.5, rng(5)) for _ in range(2))
    encoded, rows = one._encoded, []

    def kept(row: np.ndarray) -> np.ndarray:
        rows.append(encoded(row).copy())
        return rows[-1]

    one._encoded = kept  # type: ignore[method-assign]
    released = one.extend(rng(1).standard_normal((T, 2)))
    forced = iter(rows)
    other._encoded = lambda row: next(forced)  # type: ignore[method-assign]
    np.testing.assert_array_equal(other.extend(np.full((T, 2), 7.0)), released)


@every_grid
@pytest.mark.parametrize("noise", ["numpy", "secure"])
def test_what_a_grid_tells_is_on_it_with_noise_of_the_declared_size(make: Make, noise: str) -> None:
    counter = make(T, 600, 1.0, 0.5, Refusing() if noise == "secure" else rng(2), noise=noise)
    told: list[np.ndarray] = []
    decoded = counter._decoded

    def heard(row: np.ndarray) -> np.ndarray:
        told.append(row.copy())
        return decoded(row)

    counter._decoded = heard  # type: ignore[method-assign]
    counter.extend(np.full((T, 600), 0.1))
    rows = np.array(told) / grid.step_of(counter.scale, grid.FINER)
    assert (rows == np.rint(rows)).all()
    clean = answers(make, T, "_encoded") @ np.full((T, 1), 0.1)
    white = (np.array(told) - clean) / counter.scale
    assert abs(white.std() - 1) < 4 / math.sqrt(2 * white.size) and abs(white.mean()) < 4 / math.sqrt(white.size)
    assert np.abs(np.corrcoef(white) - np.eye(T)).max() < 6 / math.sqrt(600)


class Refusing:
    """A generator that nobody may use."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"numpy's generator was asked for {name}")


def test_secure_noise_needs_a_mass() -> None:
    with pytest.raises(ValueError, match="noise='secure' needs a mass"):
        BinaryTree(4, 1, 1.0, 0.5, rng(), noise="secure")
    with pytest.raises(ValueError, match="noise must be one of"):
        BinaryTree(4, 1, 1.0, 0.5, rng(), mass=1.0, noise="opendp")
    with pytest.raises(ValueError, match="mass must be"):
        BinaryTree(4, 1, 1.0, 0.5, rng(), mass=0.0)


@every_grid
def test_noise_that_was_drawn_ahead_is_forgotten(make: Make) -> None:
    counter, fork = (make(T, 1, 1.0, 0.5, rng(1)) for _ in range(2))
    for made in (counter, fork):
        made.extend(np.zeros((3, 1)))
    fork.rng = rng(2)
    fork.forget()
    one, other = (made.extend(np.zeros((T - 3, 1)))[0, 0] for made in (counter, fork))
    assert one != other


@pytest.mark.wide_at("banded", "tree")
@every_counter
def test_the_noise_has_the_declared_law_in_time(make: Make) -> None:
    drawn, scale = noise(make, 4000)
    white = np.linalg.solve(decoder(make), drawn) / scale  # independent N(0, 1), if the covariance is scale^2 R R'
    correlation = np.corrcoef(white) - np.eye(T)
    assert np.abs(correlation).max() < 5 / math.sqrt(4000)
    assert stats.kstest(white.ravel(), "norm").pvalue > 1e-4


@pytest.mark.wide_at("1-*, grid", "31-*")
@of_each_kind
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
@pytest.mark.parametrize("t", [1, 31, T])
def test_right_scale_accepted_two_thirds_and_three_halves_rejected(
    make: Make, factor: float, accepted: bool, t: int
) -> None:
    drawn, _ = noise(make, 4000, rho=0.5 / factor**2)
    claimed = make(T, 1, 1.0, 0.5, rng()).standard_deviation(t)
    assert (stats.kstest(drawn[t - 1] / claimed, "norm").pvalue > 1e-4) == accepted


@of_each_kind
def test_without_noise_the_sums_are_exact(make: Make) -> None:
    counter = make(T, 3, 1.0, math.inf, rng())
    terms = rng(1).standard_normal((T, 3))
    np.testing.assert_array_equal([counter.add(x) for x in terms], np.cumsum(terms, axis=0))
    assert counter.standard_deviation(T) == 0


@of_each_kind
@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("sizes", [[T], [1] * T, [0, 7, 8, 0, 1, 20, 9], [40, 5]])
def test_any_grouping_gives_the_same_bits(make: Make, dim: int, sizes: list[int]) -> None:
    terms = 1e3 * rng(1).standard_normal((T, dim))
    grouped, single = (make(T, dim, 1.0, 0.5, rng(), bound=1200.0) for _ in range(2))
    one_by_one = np.array([single.add(x) for x in terms])
    bounds = np.cumsum([0, *sizes])
    groups = [grouped.extend(terms[start:end]) for start, end in pairwise(bounds)]
    assert [len(group) for group in groups] == sizes
    np.testing.assert_array_equal(np.concatenate(groups), one_by_one)
    assert same(grouped, single)


@of_each_kind
def test_a_group_that_is_refused_was_not_taken_in(make: Make) -> None:
    counter, untouched = (make(T, 2, 1.0, 0.5, rng()) for _ in range(2))
    for made in (counter, untouched):
        made.extend(np.ones((30, 2)))
    rows = np.ones((15, 2))
    rows[-1, -1] = math.nan
    for bad in (rows, np.ones((15, 3)), np.ones(2)):
        with pytest.raises(ValueError):
            counter.extend(bad)
    with pytest.raises(RuntimeError, match=r"horizon of 45 terms"):
        counter.extend(np.ones((16, 2)))
    assert same(counter, untouched)
    counter.extend(np.ones((15, 2)))


def same(one: Counter, other: Counter) -> bool:
    (arrays, values), (others, rest) = (state.state_of(counter) for counter in (one, other))
    return values == rest and all(np.array_equal(arrays[key], others[key]) for key in arrays)


@every_counter
def test_noise_is_added_to_the_sums_and_depends_on_no_term(make: Make) -> None:
    terms = rng(1).standard_normal((T, 2))
    data, zeros = make(T, 2, 1.0, 0.5, rng()), make(T, 2, 1.0, 0.5, rng())
    difference = np.array([data.add(x) - zeros.add(np.zeros(2)) for x in terms])
    np.testing.assert_allclose(difference, np.cumsum(terms, axis=0), atol=1e-12)


@pytest.mark.parametrize("bandwidth", [None, 1, 9, 1000])
def test_any_chunking_gives_the_same_noise(bandwidth: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(chunk: int) -> list[np.ndarray]:
        monkeypatch.setattr(counters, "STEPS_A_BLOCK", chunk)
        counter = SquareRootToeplitz(300, 2, 1.0, 0.5, rng(), bandwidth=bandwidth)
        return [counter.add(np.zeros(2)) for _ in range(300)]

    for chunk in (7, 300):
        np.testing.assert_allclose(run(chunk), run(1), atol=1e-12)


def test_a_bandwidth_bounds_the_memory() -> None:
    counter = SquareRootToeplitz(3000, 1, 1.0, 0.5, rng(), bandwidth=20)
    held = [counter.add([0.0]) is not None and len(counter.drawn) + len(counter.prepared) for _ in range(3000)]
    assert max(held) <= 3 * 20
    buffers = BufferedToeplitz(10**6, 1, 1.0, 0.5, rng())
    assert buffers.sums.shape[0] == 9 < BinaryTree(10**6, 1, 1.0, 0.5, rng()).blocks.shape[0]


@pytest.mark.parametrize("make", [SquareRootToeplitz, BufferedToeplitz])
def test_toeplitz_against_tree(make: Make) -> None:
    horizon = 10_000
    tree, toeplitz = (m(horizon, 1, 1.0, 0.5, rng()) for m in (BinaryTree, make))
    of_tree, of_toeplitz = (
        np.array([counter.standard_deviation(t + 1) for t in range(horizon)]) for counter in (tree, toeplitz)
    )
    assert of_tree.mean() / of_toeplitz.mean() >= 2.3
    assert of_tree.max() / of_toeplitz.max() >= 3.3


def test_condition_10_a_truncated_factor_is_calibrated_to_its_own_encoder() -> None:
    full, banded = (SquareRootToeplitz(10_000, 1, 1.0, 0.5, rng(), bandwidth=b) for b in (None, 100))
    assert full.column_norm() ** 2 == pytest.approx(4.0, abs=0.05)
    assert banded.column_norm() ** 2 == pytest.approx(80.6, abs=0.05)
    assert banded.scale**2 / full.scale**2 == pytest.approx(20.2, abs=0.1)  # what the wrong calibration would hide


@pytest.mark.parametrize("horizon", [10, 1000, 100_000])
def test_buffers_lose_less_than_a_percent_of_variance(horizon: int) -> None:
    exact, buffered = (make(horizon, 1, 1.0, 0.5, rng()) for make in (SquareRootToeplitz, BufferedToeplitz))
    assert 1 <= buffered.standard_deviation(horizon) ** 2 / exact.standard_deviation(horizon) ** 2 < 1.01


def test_coefficients_are_the_square_root() -> None:
    r = square_root_coefficients(T)
    np.testing.assert_allclose(np.convolve(r, r)[:T], 1)


def test_the_tree_scale_is_the_one_of_the_gram_matrices() -> None:
    K, rho = 10, 0.1
    tree = BinaryTree(10_000, 15, math.sqrt(2) * K, rho, rng())
    assert tree.scale**2 == pytest.approx(K**2 * 14 / rho)


@of_each_kind
def test_condition_10_it_stops_at_the_horizon(make: Make) -> None:
    counter = make(3, 1, 1.0, 0.5, rng())
    for _ in range(3):
        counter.add([1.0])
    with pytest.raises(RuntimeError, match=r"horizon of 3 terms"):
        counter.add([1.0])


@of_each_kind
@pytest.mark.parametrize("bad", [[math.nan, 0], [math.inf, 0], [-math.inf, math.nan], [1.0], [[1.0, 2.0]], "ab"])
def test_a_bad_term_is_refused_and_changes_nothing(make: Make, bad: Any) -> None:
    damaged, untouched = make(T, 2, 1.0, 0.5, rng()), make(T, 2, 1.0, 0.5, rng())
    for _ in range(10):
        with pytest.raises(ValueError):
            damaged.add(bad)
        np.testing.assert_array_equal(damaged.add([1.0, 2.0]), untouched.add([1.0, 2.0]))


@settings(max_examples=200, deadline=None)
@given(x=st.lists(st.floats(-1e308, 1e308), min_size=3, max_size=3), bound=st.floats(1e-3, 1e3))
def test_condition_1_terms_beyond_the_bound_are_clipped(x: list[float], bound: float) -> None:
    counter = BinaryTree(2, 3, 2 * bound, math.inf, rng(), bound=bound)
    term = counter.add(np.array(x))
    assert np.isfinite(term).all()
    assert np.linalg.norm(term) <= bound * (1 + 1e-12)
    if max(map(abs, x)) < 1e100 and np.linalg.norm(x) <= bound:
        np.testing.assert_array_equal(term, x)
    else:
        assert np.linalg.norm(term) == pytest.approx(bound)


@pytest.mark.parametrize(
    "bad", [{"horizon": 0}, {"dim": 0}, {"sensitivity": 0}, {"rho": 0}, {"rho": math.nan}, {"rho": -1}, {"bound": 0}]
)
@of_each_kind
def test_bad_arguments_are_refused(make: Make, bad: dict[str, Any]) -> None:
    good = {"horizon": 4, "dim": 2, "sensitivity": 1.0, "rho": 0.5, "rng": rng(), "bound": None}
    with pytest.raises(ValueError, match=next(iter(bad))):
        make(**(good | bad))


def test_times_beyond_the_horizon_have_no_deviation() -> None:
    with pytest.raises(ValueError, match="at most the horizon 4"):
        BinaryTree(4, 1, 1.0, 0.5, rng()).standard_deviation(5)


@pytest.mark.parametrize(("bandwidth", "terms"), [(None, 3), (None, 21), (9, 20), (9, 24), (2, 11), (1, 30), (40, 41)])
def test_noise_that_was_prepared_is_forgotten_and_what_was_released_stays(bandwidth: int | None, terms: int) -> None:
    """After a new key the noise is R Z, where the rows of Z are old for old releases and new for new ones."""
    counter = SquareRootToeplitz(T, 1, 1.0, 0.5, rng(1), bandwidth=bandwidth)
    noise = [counter.add([0.0])[0] for _ in range(terms)]
    counter.rng = rng(2)
    counter.forget()
    noise += [counter.add([0.0])[0] for _ in range(T - terms)]
    drawn = np.concatenate([rng(1).standard_normal(T)[:terms], rng(2).standard_normal(T)[: T - terms]])
    kept = np.convolve(counter.decoder, counter.scale * drawn)[:T]
    np.testing.assert_allclose(noise, kept, atol=1e-12)


@every_counter
def test_two_continuations_of_a_counter_share_no_noise_and_keep_what_was_released(make: Make) -> None:
    """Given the past, the noise of later releases has the right law in both, and they are independent."""
    runs, early, late = 2000, 13, (14, 16, 21, T)
    first = make(T, runs, 1.0, 0.5, rng(1))
    released = first.extend(np.zeros((early, runs)))
    assert np.isfinite(released).all()
    found = []
    for _ in range(2):
        fork = make(T, runs, 1.0, 0.5, rng(2))
        state.restore_into(fork, *state.state_of(first))
        state.rekey(fork)
        found.append(fork.extend(np.zeros((T - early, runs)))[[t - early - 1 for t in late]])
    R = decoder(make)
    for place, t in enumerate(late):
        old = R[t - 1, :early] @ np.linalg.pinv(R[:early, :early]) @ released / first.scale  # the part of old draws
        new = [noise[place] / first.scale - old for noise in found]
        spread = np.linalg.norm(R[t - 1, early:])
        assert [one.std() / spread for one in new] == pytest.approx([1, 1], abs=0.15)
        assert abs(np.corrcoef(*new)[0, 1]) < 0.2


@of_each_kind
def test_a_saved_counter_goes_on_bit_for_bit(make: Make, tmp_path: Path) -> None:
    first, second = make(T, 2, 1.0, 0.5, rng()), make(T, 2, 1.0, 0.5, rng(1))
    for _ in range(20):
        first.add([1.0, 2.0])
    state.write(tmp_path / "counter.npz", *state.state_of(first))
    state.restore_into(second, *state.read(tmp_path / "counter.npz"))
    for _ in range(T - 20):
        np.testing.assert_array_equal(first.add([3.0, 4.0]), second.add([3.0, 4.0]))


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_svec_is_an_isometry_and_smat_its_inverse(dim: int) -> None:
    a = rng().standard_normal((4, dim, dim))
    a += a.swapaxes(-1, -2)
    assert svec(a).shape == (4, dim * (dim + 1) // 2)
    np.testing.assert_allclose(smat(svec(a)), a)
    np.testing.assert_allclose(np.linalg.norm(svec(a), axis=-1), np.linalg.norm(a, axis=(-2, -1)))


def gram(features: np.ndarray) -> np.ndarray:
    return svec(features.T @ features)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), dim=st.integers(2, 4))
def test_gram_matrices_have_sensitivity_root_two_times_their_bound(seed: int, dim: int) -> None:
    K = 10
    x = rng(seed).standard_normal((2, K, dim))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    assert np.linalg.norm(gram(x[0]) - gram(x[1])) <= math.sqrt(2) * K * (1 + 1e-12)


def test_the_worst_pair_of_gram_matrices_attains_the_sensitivity() -> None:
    K = 10
    e1, e2 = np.tile([1.0, 0, 0], (K, 1)), np.tile([0, 1.0, 0], (K, 1))
    assert np.linalg.norm(gram(e1) - gram(e2)) == pytest.approx(math.sqrt(2) * K)


def test_repair_makes_positive_definite_and_spares_what_is() -> None:
    a = rng().standard_normal((6, 6))
    indefinite, definite = a + a.T, a @ a.T + np.eye(6)
    repaired = repair(indefinite, floor=0.5)
    assert np.linalg.eigvalsh(repaired).min() >= 0.5 - 1e-9
    np.testing.assert_array_equal(repaired, repaired.T)
    np.testing.assert_allclose(repair(definite, floor=0.5), definite)
    np.testing.assert_allclose(repair(definite, floor=0.5, shift=2.0), definite + 2 * np.eye(6))
    kept, raised = np.linalg.eigvalsh(indefinite), np.linalg.eigvalsh(repaired)
    np.testing.assert_allclose(raised, np.maximum(kept, 0.5))


@pytest.mark.parametrize("floor", [0, -1, math.nan, math.inf])
def test_repair_refuses_a_floor_that_repairs_nothing(floor: float) -> None:
    with pytest.raises(ValueError, match="floor must be"):
        repair(np.eye(2), floor=floor)


def test_repair_refuses_what_is_not_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        repair(np.array([[math.nan, 0], [0, 1]]), floor=1)


@pytest.mark.parametrize("dim", [1, 5, 20])
def test_the_eigenvalue_bound_holds_and_is_not_loose(dim: int) -> None:
    largest = np.linalg.eigvalsh(smat(3.0 * rng().standard_normal((4000, dim * (dim + 1) // 2))))[:, -1]
    bound = eigenvalue_bound(3.0, dim, 0.05)
    assert (largest > bound).mean() <= 0.05
    assert bound <= 2.5 * np.quantile(largest, 0.95)


@pytest.mark.parametrize("counter", [SquareRootToeplitz, BufferedToeplitz])
def test_horizons_that_would_fill_the_memory_are_refused(counter: Any) -> None:
    with pytest.raises(ValueError, match="takes horizons up to 100000000, a tree longer ones; got 1000000000000"):
        counter(10**12, 2, 1.0, 1.0, np.random.default_rng(0))
    assert BinaryTree(10**12, 2, 1.0, 1.0, np.random.default_rng(0)).add([1.0, 0.0]).shape == (2,)
