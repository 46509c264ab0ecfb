"""Local randomizers of a vector: the geometry of caps, the tabulated variances, and the law of the own cell."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from privbandit_agents.privacy.contributions.moments import Lifted, Moments
from privbandit_agents.privacy.randomizers.caps import Cap, best_activity, best_cap
from privbandit_agents.privacy.randomizers.one_hot import SignedSubset
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere
from scipy import integrate, stats


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("dim", [2, 3, 6, 21])
@pytest.mark.parametrize("threshold", [0.0, 0.13, 0.6, 0.99])
def test_moments_of_a_cap_agree_with_quadrature(dim: int, threshold: float) -> None:
    cap = Cap(dim, threshold)

    def moment(power: int, low: float) -> float:  # x = sin(angle) has density proportional to cos^(dim - 2)
        return float(integrate.quad(lambda a: math.sin(a) ** power * math.cos(a) ** (dim - 2), low, math.pi / 2)[0])

    whole = moment(0, -math.pi / 2)
    for mine, power in ((cap.mass, 0), (math.exp(cap.log_first), 1), (cap.second, 2)):
        assert mine == pytest.approx(moment(power, math.asin(threshold)) / whole, rel=1e-6)


@pytest.mark.parametrize(("dim", "threshold"), [(2, 0.3), (3, 0.0), (6, 0.24), (50, 0.1)])
def test_heights_are_drawn_inside_or_outside_the_cap(dim: int, threshold: float) -> None:
    cap, noise = Cap(dim, threshold), rng()
    uniform = noise.standard_normal((20_000, dim))
    height = uniform[:, 0] / np.linalg.norm(uniform, axis=1)
    for inside in (True, False):
        expected = height[(height >= threshold) == inside]
        drawn = cap.heights(np.full(20_000, inside), noise.random(20_000))
        assert ((drawn >= threshold) == inside).all()
        assert stats.ks_2samp(drawn, expected).pvalue > 1e-4


# variance by coordinate of (1, y x, x x') packed with equal weights, d = 2, 3, 5
PACKED = {0.5: (69.8, 72.0, 73.9), 1.0: (17.7, 18.2, 18.6), 2.0: (4.42, 4.50, 4.57), 4.0: (0.53, 0.54, 0.55)}


def test_bin_cap_has_the_tabulated_variances() -> None:
    for epsilon, row in PACKED.items():
        for d, variance in zip((2, 3, 5), row, strict=True):
            packed = Moments(d)
            r = BinCapSign(epsilon, 100, packed.dim)
            assert r.variance(own=False) / packed.weights[0] ** 2 == pytest.approx(variance, rel=0.02)


def test_bin_cap_of_the_second_moments_alone_has_the_tabulated_variances() -> None:
    for d, flat, best in ((2, 6.24, 5.56), (3, 6.77, 5.91), (5, 7.11, 6.16)):
        dim = d * (d + 1) // 2
        assert BinCapSign(1.0, 50, dim, 0.0, 1.0).variance(own=False) == pytest.approx(flat, rel=0.02)
        assert BinCapSign(1.0, 50, dim).variance(own=False) == pytest.approx(best, rel=0.02)


def test_the_best_caps_are_the_tabulated_ones() -> None:
    for epsilon, low, high in (
        (0.5, (1, 0.08), (1, 0.04)),
        (1.0, (1, 0.17), (1, 0.09)),
        (2.0, (0.50, 0.24), (0.56, 0.13)),
    ):
        for dim, (activity, threshold) in ((6, low), (21, high)):
            t, act = best_cap(epsilon, 10**6, dim)
            assert t == pytest.approx(threshold, abs=0.01) and act == pytest.approx(activity, rel=0.05)


def test_the_own_cell_is_kept_far_more_often_and_has_its_own_variance() -> None:
    r = BinCapSign(4.0, 10**6, 6)
    assert r.kept / r.activity == pytest.approx(8.4, rel=0.02)
    p, f = r.tilt.agree, r.tilt.chance
    assert r.kept == pytest.approx(p + (1 - p) * (r.activity - f) / (1 - f), rel=1e-12)
    assert r.variance(own=True) == pytest.approx((r.kept / r.mean**2 - 1) / 6, rel=1e-12)
    assert r.variance(own=False) == pytest.approx(r.activity / r.mean**2 / 6, rel=1e-12)


@pytest.mark.wide_at("50-1-*", "1-6-*")
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 8.0])
@pytest.mark.parametrize(("cells", "dim"), [(1, 6), (3, 6), (50, 3), (50, 1)])
def test_threshold_and_activity_minimise_the_variance_at_equal_shares(epsilon: float, cells: int, dim: int) -> None:
    def mixture(threshold: float | None, activity: float | None) -> float:
        r = BinCapSign(epsilon, cells, dim, threshold, activity)
        return (r.variance(own=True) + (cells - 1) * r.variance(own=False)) / cells

    best = mixture(None, None)
    grid = [(t, a) for t in np.linspace(0, 0.95, 20) for a in np.geomspace(1e-3, 1, 25)]
    assert best <= min(mixture(float(t), float(a)) for t, a in grid) * (1 + 1e-6)
    t, act = best_cap(epsilon, cells, dim)
    assert best_activity(epsilon, cells, Cap(dim, t), None)[0] == act
    assert mixture(t, None) == pytest.approx(best) and mixture(None, act) == pytest.approx(best, rel=1e-4)


def test_bin_cap_of_numbers_without_gaps_is_the_signed_subset_of_all_cells() -> None:
    cap, subset = BinCapSign(0.9, 5, 1, activity=1.0), SignedSubset(0.9, 5, size=5)
    for own in (True, False):
        assert cap.variance(own) == pytest.approx(subset.variance(own), rel=1e-12)
    reports = subset.randomize(np.zeros(100, int), np.ones((100, 1)), rng())
    for cell, value in ((0, 1.0), (3, -0.4), (-1, 0.0)):
        assert cap.log_likelihood(reports[..., None], cell, value) == pytest.approx(
            subset.log_likelihood(reports, cell, value)
        )


@pytest.mark.parametrize("norm", [1.0, 0.5, 0.0])
@pytest.mark.wide
def test_the_own_cell_has_the_law_of_a_tilted_cap_and_the_others_the_base_law(norm: float) -> None:
    """Shares of the four outcomes to 5 s.e.; heights over z and directions across it by KS at 1e-4."""
    r, n = BinCapSign(1.5, 3, 4, threshold=0.3, activity=0.6), 40_000
    z = np.array([1.0, 2.0, -1.0, 0.5])
    axis = z / np.linalg.norm(z)
    reports = r.randomize(np.ones(n, int), np.tile(norm * axis, (n, 1)), rng(1))
    assert np.linalg.norm(reports, axis=2)[(reports != 0).any(axis=2)] == pytest.approx(1.0)
    mass, low, high = Cap(4, 0.3).mass, r.tilt.low, r.tilt.low + r.tilt.contrast
    height, kept = reports @ axis, (reports != 0).any(axis=2)
    up, down = ((1 + norm) / 2, (1 - norm) / 2) if norm else (mass, mass)
    tilted = {
        "up": 0.6 * mass * (up * high + (1 - up) * low),
        "down": 0.6 * mass * (down * high + (1 - down) * low),
        "gone": 0.4 * low,
    }
    base = {"up": 0.6 * mass, "down": 0.6 * mass, "gone": 0.4}
    for cell, law in ((1, tilted), (0, base), (2, base)):
        seen = {"up": height[:, cell] >= 0.3, "down": height[:, cell] <= -0.3, "gone": ~kept[:, cell]}
        for event, probability in law.items():
            assert abs(seen[event].mean() - probability) < 5 * math.sqrt(probability / n)
    inside = reports[height[:, 1] >= 0.3, 1] @ axis
    reference = rng(2).standard_normal((60_000, 4))
    reference = reference[:, 0] / np.linalg.norm(reference, axis=1)
    assert stats.ks_2samp(inside, reference[reference >= 0.3]).pvalue > 1e-4
    across = np.array([2.0, -1.0, 0.0, 0.0]) / math.sqrt(5)  # orthogonal to z: its law is symmetric
    side = reports[kept[:, 1], 1] @ across
    assert stats.ks_2samp(side, -side).pvalue > 1e-4


def test_hemisphere_has_the_exact_constant_of_its_dimension() -> None:
    for d, variance in ((2, 7.33), (3, 7.34), (5, 7.35)):  # over 50 bins, the second moments alone
        assert Hemisphere(1.0, 50, d * (d + 1) // 2).variance(own=False) == pytest.approx(variance, rel=0.02)
    limit = math.pi / 2 * (math.e + 1) ** 2 / (math.e - 1) ** 2
    large = Hemisphere(1.0, 1000, 5, radius=2.0)
    assert large.variance(own=False) == pytest.approx(4 * limit, rel=1e-3)
    assert large.variance(own=False) - large.variance(own=True) == pytest.approx(4 / 5)
    tiny = Hemisphere(1.0, 1, 3)  # E|u_1| = 1/2 on the sphere of R^3
    assert tiny.scale == pytest.approx(2 * (math.e + 1) / (math.e - 1), rel=1e-9)


def test_settings_out_of_range_are_refused_in_one_sentence() -> None:
    for build, message in (
        (lambda: BinCapSign(1.0, 2, 3, threshold=1.0), "threshold must lie in [0.0, 0.99999998]; got 1.0."),
        (lambda: BinCapSign(1.0, 2, 3, threshold=-0.1), "threshold must lie in [0.0, 0.99999998]; got -0.1."),
        (lambda: BinCapSign(1.0, 2, 3, activity=0.0), "activity must lie in [1e-100, 1.0]; got 0.0."),
        (lambda: BinCapSign(1.0, 2, 3, activity=math.nan), "activity must lie in [1e-100, 1.0]; got nan."),
        (lambda: Hemisphere(1.0, 2, 3, radius=0.0), "radius must be a finite number > 0; got 0.0."),
        (lambda: Moments(2, bound=0.0), "bound must be a finite number > 0; got 0.0."),
        (lambda: Moments(2, weights=(1.0, 0.0, 1.0)), "weight must be a finite number > 0; got 0.0."),
        (
            lambda: Moments(2).pack(np.ones((3, 4)), np.ones(3)),
            "x and y must have shapes (n, 2) and (n,); got (3, 4), (3,).",
        ),
    ):
        with pytest.raises(ValueError) as error:
            build()
        assert str(error.value) == message
    with pytest.raises(ValueError, match=r"^threshold must lie in \[0.0, 0\.\d+\]; got 0.999\.$"):
        BinCapSign(1.0, 2, 500, threshold=0.999)  # a cap of mass 1e-680


numbers = st.floats(width=64) | st.sampled_from([math.nan, math.inf, 1e38, -1e308])


@given(x=arrays.arrays(float, (3, 2), elements=numbers), y=arrays.arrays(float, 3, elements=numbers))
@settings(max_examples=200, deadline=None)
@pytest.mark.wide
def test_packed_records_lie_in_the_unit_ball(x: np.ndarray, y: np.ndarray) -> None:
    z = Moments(2, bound=2.0, weights=(1.0, 3.0, 2.0)).pack(x, y)
    assert np.isfinite(z).all() and (np.linalg.norm(z, axis=1) <= 1 + 1e-12).all()


def test_packing_attains_the_unit_norm_and_defaults_bad_records() -> None:
    packed = Moments(3, bound=2.0)
    x, y = (
        np.array([[0.6, 0.0, -0.8], [3.0, 4.0, 0.0], [np.nan, 0.0, 0.0], [1.0, 0.0, 0.0]]),
        np.array([2.0, -9.0, 1.0, np.inf]),
    )
    z = packed.pack(x, y)
    assert np.linalg.norm(z[:2], axis=1) == pytest.approx(1.0)
    assert z[2:] == pytest.approx(np.outer(np.ones(2), np.eye(packed.dim)[0]) / math.sqrt(3))
    count, moment, gram = packed.unpack(z[1])
    assert count == pytest.approx(1.0) and moment == pytest.approx([-1.2, -1.6, 0.0])
    assert gram == pytest.approx(np.outer([0.6, 0.8, 0.0], [0.6, 0.8, 0.0]))


@pytest.mark.parametrize("epsilon", [math.inf, 2.0])
def test_private_moments_estimate_the_sums_of_every_bin(epsilon: float) -> None:
    packed, n, noise = Moments(2, weights=(1.0, 2.0, 2.0)), 6000, rng(4)
    x = noise.uniform(-0.7, 0.7, (n, 2))
    y, cells = x @ [0.5, -0.5], noise.integers(-1, 3, n)
    r = BinCapSign(epsilon, 3, packed.dim)
    count, moment, gram = packed.unpack(r.estimate(r.randomize(cells, packed.pack(x, y), noise)).sum(axis=0))
    w0, w1, w2 = packed.weights
    error = 5 * math.sqrt(n * max(r.variance(own=False), r.variance(own=True) + 1 / packed.dim))
    for cell in range(3):
        mine = cells == cell
        assert abs(count[cell] - mine.sum()) <= error / w0
        assert np.abs(moment[cell] - x[mine].T @ y[mine]).max() <= error / w1 + 1e-9
        assert np.abs(gram[cell] - x[mine].T @ x[mine]).max() <= error / w2 + 1e-9
        assert np.array_equal(gram[cell], gram[cell].T)


@pytest.mark.parametrize("kind", [BinCapSign, Hemisphere])
@pytest.mark.parametrize("length", [1e-3, 1e-99, 1e-101, 1e-160, 1e-161, 1e-162, 5e-324])
def test_reports_of_the_shortest_values_are_unit_vectors_too(kind: type, length: float) -> None:
    """Squares of such numbers underflow: a direction made of them is not on the sphere, which would give them away."""
    randomizer, n = kind(1.0, 2, 3), 2000
    values = np.tile(np.array([1.0, 0.3, -0.4]) * length, (n, 1))
    reports = randomizer.randomize(np.zeros(n, int), values, rng())
    norms = np.linalg.norm(reports if kind is BinCapSign else reports.reshape(n, -1), axis=-1)
    assert np.allclose(norms[norms > 0], 1.0, rtol=0, atol=1e-6) and (norms > 0).any()  # caps are on a grid
    if length < 1e-100:
        logs = [randomizer.log_likelihood(reports, 0, value) for value in (values[0], np.zeros(3))]
        assert np.array_equal(*logs)


class Scripted:
    """A generator whose next normals are given."""

    def __init__(self, normals: np.ndarray) -> None:
        self.normals = normals

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.normals.reshape(shape).copy()


@pytest.mark.parametrize("radius", [1.0, 0.3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("most", [5, 10**9])
def test_a_sum_by_factors_has_the_mean_and_covariance_of_the_dense_one(
    epsilon: float, radius: float, most: int
) -> None:
    noise = rng(3)
    x, head = noise.standard_normal((30, 4)), noise.standard_normal((30, 5))
    x[:9] = x[0]  # one direction has nearly all users of a cell
    lifted = Lifted(head, x)
    lengths = np.linalg.norm(lifted.dense(), axis=1)[:, None] / radius
    lifted = Lifted(head / lengths, x / np.sqrt(lengths))
    own, counts = np.repeat([0, 1, -1, 0, 1], 6), noise.integers(0, most, 30)
    counts[own == 1] //= 2
    randomizer = Hemisphere(epsilon, 3, lifted.size, radius)  # the last cell is empty
    silence = np.zeros((3, lifted.size))
    mean = randomizer.sum_by_counts(own, lifted, Scripted(silence), counts)  # type: ignore[arg-type]
    roots = []
    for normals in np.eye(lifted.size):
        drawn = randomizer.sum_by_counts(own, lifted, Scripted(np.tile(normals, (3, 1))), counts)  # type: ignore[arg-type]
        roots.append(drawn - mean)
    for cell, root in enumerate(np.swapaxes(roots, 0, 1)):
        z, number = lifted.dense()[own == cell], counts[own == cell]
        spread = counts.sum() * randomizer.variance(own=False)
        assert np.allclose(mean[cell], number @ z, rtol=1e-12, atol=1e-12 * max(number.sum(), 1))
        expected = spread * np.eye(lifted.size) - z.T @ (z * number[:, None])
        assert np.abs(root.T @ root - expected).max() <= 1e-11 * spread
