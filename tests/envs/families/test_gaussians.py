import numpy as np
import pytest
from scipy import stats

from privbandit_envs.families.gaussians import gaussians

N = 200_000  # a KS test of this size rejects a scale that is off by 2 %
ALPHA = 1e-4


def draw(n: int = N, seed: int = 0) -> np.ndarray:
    return gaussians(np.random.default_rng(seed), (n,), np.dtype("float32"))


def p_value(sample: np.ndarray) -> float:
    return float(stats.kstest(sample.astype(float), "norm").pvalue)


@pytest.mark.wide
def test_law_is_standard_gaussian_and_a_wrong_scale_is_rejected() -> None:
    sample = draw()
    assert p_value(sample) > ALPHA
    assert p_value(sample * 1.02) < ALPHA
    assert p_value(sample + 0.02) < ALPHA


def test_both_halves_of_the_transform_and_their_squares_are_uncorrelated() -> None:
    first, second = draw().reshape(2, -1).astype(float)
    bound = stats.norm.isf(ALPHA / 2) / np.sqrt(N / 2)
    assert abs(np.corrcoef(first, second)[0, 1]) < bound
    assert abs(np.corrcoef(first**2, second**2)[0, 1]) < bound
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < bound


@pytest.mark.parametrize("threshold", [1.0, 2.0, 3.0, 4.0])
def test_tails_have_the_right_weight(threshold: float) -> None:
    n = 4_000_000
    beyond = int((np.abs(draw(n, 1)) > threshold).sum())
    p = 2 * stats.norm.sf(threshold)
    assert stats.binomtest(beyond, n, p).pvalue > ALPHA
    assert stats.binomtest(beyond, n, 1.5 * p).pvalue < ALPHA


@pytest.mark.parametrize("shape", [(1,), (3, 5), (7, 1, 9), (0, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shape_and_type(shape: tuple[int, ...], dtype: str) -> None:
    sample = gaussians(np.random.default_rng(2), shape, np.dtype(dtype))
    assert sample.shape == shape and sample.dtype == dtype and np.isfinite(sample).all()


def test_no_value_is_zero() -> None:
    class Extreme:
        def integers(self, high: int, *, size: int, **_: object) -> np.ndarray:
            return np.resize(np.array([0, high], dtype=np.uint64), size)

    sample = gaussians(Extreme(), (400,), np.dtype("float32"))  # type: ignore[arg-type]
    assert (sample != 0).all() and np.isfinite(sample).all()


def test_values_are_bounded_as_documented() -> None:
    assert np.abs(draw(4_000_000, 3)).max() < np.sqrt(66 * np.log(2)) + 1e-3
