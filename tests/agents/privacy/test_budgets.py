"""What was calibrated to a budget fits it and leaves less than 1 % of it; noise that floats would lose is refused."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make
from privbandit_agents.privacy import Ledger, PrivacyBudgetExceeded
from privbandit_agents.privacy.contributions.means import BoundedMean
from privbandit_agents.privacy.mechanisms.additive import Gaussian, Laplace
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.counters import BinaryTree, BufferedToeplitz, SquareRootToeplitz
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian, noisy
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from privbandit_agents.privacy.mechanisms.spherical import KNorm, WishartDifference

RNG = np.random.default_rng
PURE: dict[str, Callable[[float], Any]] = {
    "laplace": lambda e: Laplace.from_epsilon(e, 2.0),
    "k-norm": lambda e: KNorm.from_epsilon(e, 2.0),
    "wishart": lambda e: WishartDifference.from_epsilon(e, 3),
}
CONCENTRATED: dict[str, Callable[[float], Any]] = {
    "gaussian": lambda r: Gaussian.from_rho(r, 2.0),
    "grid": lambda r: GridGaussian.from_rho(r, 2.0, dim=3),
    "gumbel": lambda r: GumbelTopK.from_rho(r, 3, 2.0),
    "choice": lambda r: ExponentialChoice.from_rho(r, 2.0),
    "mean": lambda r: BoundedMean.from_rho(r, 10, 2.0),
    "tree": lambda r: BinaryTree(10, 2, 1.0, r, RNG(0)),
    "toeplitz": lambda r: SquareRootToeplitz(10, 2, 1.0, r, RNG(0)),
    "buffered": lambda r: BufferedToeplitz(10, 2, 1.0, r, RNG(0)),
    "objective": lambda r: ObjectivePerturbation.from_rho(r, UserLoss(2, 1.0, 0.25)),
}
BOTH: dict[str, Callable[[float, float], Any]] = {
    "gaussian": lambda e, d: Gaussian.from_epsilon(e, d, 1.0),
    "grid": lambda e, d: GridGaussian.from_epsilon(e, d, 1.0, dim=3),
    "mean": lambda e, d: BoundedMean.from_epsilon(e, d, 10, 2.0),
}
SMALL_AND_LARGE = [1e-6, 1e-3, 0.1, 1.0, 8.0, 100.0]


def fits(ledger: Ledger, mechanism: Any, rest: Any) -> None:
    ledger.spend(mechanism.cost)
    with pytest.raises(PrivacyBudgetExceeded):
        ledger.spend(rest.cost)


@pytest.mark.parametrize("budget", SMALL_AND_LARGE)
@pytest.mark.parametrize("name", PURE)
def test_pure_mechanisms(name: str, budget: float) -> None:
    fits(Ledger(budget), PURE[name](budget), PURE[name](0.01 * budget))


@pytest.mark.wide_at("objective-1e-06", "objective-8.0")
@pytest.mark.parametrize("budget", SMALL_AND_LARGE)
@pytest.mark.parametrize("name", CONCENTRATED)
def test_concentrated_mechanisms_and_counters(name: str, budget: float) -> None:
    fits(Ledger(rho=budget), CONCENTRATED[name](budget), CONCENTRATED[name](0.01 * budget))


@pytest.mark.parametrize("epsilon", SMALL_AND_LARGE)
@pytest.mark.parametrize("delta", [1e-200, 1e-12, 1e-5, 0.01, 0.4, 0.9])
@pytest.mark.parametrize("name", BOTH)
def test_mechanisms_of_epsilon_and_delta(name: str, epsilon: float, delta: float) -> None:
    mechanism = BOTH[name](epsilon, delta)
    ledger = Ledger(epsilon, delta)
    ledger.spend(mechanism.cost)
    gaussian = mechanism.cost.gaussian > 0
    if gaussian and (name == "gaussian" or 1e-180 <= delta <= 0.5):  # all of the budget, not a zCDP bound on it
        more = Gaussian.from_rho(0.02 * mechanism.cost.as_rho(), 1.0)
        with pytest.raises(PrivacyBudgetExceeded):
            ledger.spend(more.cost)


def test_the_old_names_of_calibration_warn() -> None:
    old: list[tuple[Any, tuple[Any, ...]]] = [
        (Laplace, (1.0, 2.0)),
        (KNorm, (1.0, 2.0)),
        (WishartDifference, (1.0, 2)),
        (GumbelTopK, (1.0, 2, 2.0)),
        (ObjectivePerturbation, (1.0, UserLoss(2, 1.0, 0.25))),
    ]
    for kind, given in old:
        with pytest.warns(FutureWarning, match=r"calibrate is called from_\w+ now"):
            made = kind.calibrate(*given)
        assert made == (kind.from_rho if hasattr(kind, "from_rho") else kind.from_epsilon)(*given)


@pytest.mark.parametrize("budget", [1e12, 1e300, 1.7e308])
@pytest.mark.parametrize("name", [*PURE, *CONCENTRATED])
def test_a_finite_budget_has_noise_or_is_refused_however_large(name: str, budget: float) -> None:
    try:
        mechanism = (PURE | CONCENTRATED)[name](budget)
    except ValueError as error:
        assert str(error).endswith(".") and "\n" not in str(error)
    else:
        noises = vars(getattr(mechanism, "noise", mechanism)) if name == "mean" else vars(mechanism)
        scales = [noises[key] for key in ("sigma", "beta", "scale", "v", "Delta") if key in noises]
        assert scales or name == "mean", noises
        assert all(scale > 0 for scale in scales)


LOST: list[Callable[[], Any]] = [
    lambda: GridGaussian.from_rho(0.5, 1e-295),
    lambda: GridGaussian.from_rho(1e-6, 1e306),
    lambda: GridGaussian.from_rho(0.1, 1e308),
    lambda: GridGaussian.from_epsilon(0.1, 1e-5, 5e-324),
    lambda: GumbelTopK.from_rho(1e-3, 1, 1e-295),
    lambda: ExponentialChoice.from_rho(0.5, 5e-324),
    lambda: Gaussian.from_rho(1e300, 5e-324),
    lambda: Laplace.from_epsilon(1e300, 1e-300),
    lambda: Laplace.from_epsilon(1e-300, 1e300),
    lambda: KNorm.from_epsilon(1e300, 1e-300),
    lambda: WishartDifference.from_epsilon(1e300, 2, 1e-300),
    lambda: BinaryTree(10, 1, 5e-324, 1e300, RNG(0)),
    lambda: BufferedToeplitz(10, 1, 1e308, 1e-300, RNG(0)),
    lambda: BoundedMean.from_rho(1e-30, 10, 1.0),
    lambda: noisy(np.ones(2), math.inf, RNG(0)),
    lambda: noisy(np.ones(2), 1e-300, RNG(0)),
]


@pytest.mark.parametrize("lost", LOST)
def test_noise_that_floats_would_lose_is_refused_as_it_is_made(lost: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*(floats|on a grid)[^\n]*\.$"):
        lost()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fliphat", {"eta": 1e-300, "epsilon": 0.1}),
        ("fliphat", {"eta": 1e304, "epsilon": 0.01}),
        ("dp-dqn", {"clip": 5e-324, "epsilon": 100.0}),
        ("shuffle-linucb", {"epsilon": 1e-9, "delta": 3e-7}),
    ],
)
def test_agents_with_such_settings_are_refused_before_anybody_comes(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*\.$"):
        make(name, gym.make("privbandit/Linear-v0", horizon=100), seed=0, **settings)
