"""Cross-checks against jax-privacy, where it is installed: it is in no extra, as it brings another array library along.

pip install jax-privacy && pytest tests/agents/privacy/test_against_jax_privacy.py
"""

import math

import numpy as np
import pytest
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon
from privbandit_agents.privacy.mechanisms.counters import SquareRootToeplitz, square_root_coefficients

pytest.importorskip("jax_privacy")
from jax_privacy import auditing
from jax_privacy.matrix_factorization import toeplitz


@pytest.mark.parametrize("n", [1, 2, 7, 500])
def test_the_coefficients_of_the_square_root_and_its_sensitivity(n: int) -> None:
    theirs = toeplitz.optimal_max_error_strategy_coefs(n)
    assert np.allclose(square_root_coefficients(n), theirs, rtol=1e-5)
    ours = SquareRootToeplitz(n, 1, 1.0, 1.0, np.random.default_rng(0)).column_norm()
    assert ours**2 == pytest.approx(float(toeplitz.minsep_sensitivity_squared(theirs, n)), rel=1e-5)


def test_gaussian_privacy() -> None:
    """Their epsilon of Gaussian scores at distance 2 is ours, within what 200 000 scores tell."""
    rng, n = np.random.default_rng(0), 200_000
    auditor = auditing.CanaryScoreAuditor(rng.standard_normal(n) + 2.0, rng.standard_normal(n))
    found = float(np.max(auditor.epsilon_from_gdp(0.05, 1e-5)))
    assert 0.9 * gaussian_epsilon(mu=2.0, delta=1e-5) < found <= gaussian_epsilon(mu=2.0, delta=1e-5) * 1.02 < math.inf
