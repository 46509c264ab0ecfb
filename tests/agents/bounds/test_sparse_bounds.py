import math

import numpy as np
import pytest
from privbandit_agents.bounds.sparse import lower_bound, upper_bound

T = np.array([50.0, 400.0, 20_000.0])


def test_the_lower_bound_is_the_larger_of_privacy_and_learning() -> None:
    bound = lower_bound(T, dim=400, sparsity=5, epsilon=0.5, delta=0.01)
    learning, private = np.sqrt(5 * T * math.log(80)), math.sqrt(5 * math.log(80) ** 2 * math.log(100) / 0.25)
    assert np.allclose(bound, np.maximum(learning, private)) and bound[0] == private
    assert lower_bound(100, dim=400, sparsity=5, epsilon=1e-3, delta=0) == pytest.approx(5e3 * math.log(80) ** 1.5)
    assert np.allclose(
        lower_bound(T, dim=400, sparsity=5, epsilon=10, delta=0.01), learning
    )  # epsilon^2 > log(1/delta)


def test_the_upper_bound_grows_as_the_margin_says() -> None:
    known = {"dim": 400, "sparsity": 5, "epsilon": math.inf, "delta": 0.01}
    start = 10 * math.log(400)
    free = [upper_bound(T, **known, alpha=alpha) - start for alpha in (0.0, 1.0, math.inf)]  # type: ignore[arg-type]
    assert np.allclose(free[0], (np.sqrt(T) - 1) * 10 * math.sqrt(math.log(400)))
    assert np.allclose(free[1], np.log(T) / 2 * 100 * math.log(400)) and len(set(free[2])) == 1
    near = upper_bound(T, **known, alpha=1 - 1e-9) - start  # type: ignore[arg-type]
    assert np.allclose(near, free[1], rtol=1e-6)


def test_the_private_term_is_the_sum_over_episodes() -> None:
    known = {"dim": 400, "sparsity": 5, "epsilon": 1e-3, "delta": 0.01}
    private = 10**3 * math.log(400) ** 2 * math.log(100) / 1e-6
    for alpha in (0.0, 0.5, 2.0):
        episodes = range(int(math.log2(20_000)) + 2)
        psi = sum(n ** (2 * alpha + 2) / 2 ** (n * alpha) for n in episodes)
        bound = upper_bound(20_000, **known, alpha=alpha) - 10 * math.log(400)  # type: ignore[arg-type]
        assert bound == pytest.approx(psi * private ** ((1 + alpha) / 2))


def test_the_bounds_do_not_cross() -> None:
    for epsilon in (0.1, 1.0, 10.0):
        lower = lower_bound(T, dim=400, sparsity=5, epsilon=epsilon, delta=0.01)
        assert (lower <= upper_bound(T, dim=400, sparsity=5, epsilon=epsilon, delta=0.01)).all()


def test_a_sparsity_beyond_the_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="dim / sparsity must be > 1; got 0"):
        lower_bound(T, dim=4, sparsity=5, epsilon=1.0, delta=0.01)
