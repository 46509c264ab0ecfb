"""Cross-checks against jax-privacy, where it is installed: it is in no extra, as it brings another array library along.

pip install jax-privacy && pytest tests/agents/privacy/test_against_jax_privacy.py
"""

import math

import numpy as np
import pytest
from privbandit_agents.audits.claims import Claim
from privbandit_agents.audits.lower_bounds import bound_of
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


@pytest.mark.parametrize(("hits", "false"), [(900, 300), (997, 5), (520, 480)])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_bound_of_an_event(hits: int, false: int, delta: float) -> None:
    """Scores are 1 in the event and 0 outside of it, so that one threshold has exactly these rates."""
    runs = 1000
    inside, outside = (np.repeat([1.0, 0.0], [n, runs - n]) for n in (hits, false))
    auditor = auditing.CanaryScoreAuditor(inside, outside)
    theirs = auditor.epsilon_clopper_pearson(0.05, delta, threshold_strategy=auditing.Explicit(0.5))
    ours, _ = bound_of(Claim(1.0, delta), hits, false, runs, 0.05)
    assert ours == pytest.approx(float(theirs), abs=1e-6)


def test_gaussian_privacy() -> None:
    """Their epsilon of Gaussian scores at distance 2 is ours, within what 200 000 scores tell."""
    rng, n = np.random.default_rng(0), 200_000
    auditor = auditing.CanaryScoreAuditor(rng.standard_normal(n) + 2.0, rng.standard_normal(n))
    found = float(np.max(auditor.epsilon_from_gdp(0.05, 1e-5)))
    assert 0.9 * gaussian_epsilon(1e-5, 2.0) < found <= gaussian_epsilon(1e-5, 2.0) * 1.02 < math.inf
