"""The laws of discrete reports as 53-bit uniforms draw them, held against e^epsilon in rational arithmetic."""

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from exact_laws import Input, epsilon_of, law, realised, within
from privbandit_agents.privacy.mechanisms import grid
from privbandit_agents.privacy.mechanisms.additive import Gaussian, Laplace
from privbandit_agents.privacy.randomizers import thresholds
from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset, UnaryEncoding
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere
from privbandit_agents.privacy.randomizers.thresholds import STEPS

EPSILONS = (1e-6, 0.1, 1.0, 16.0, 32.0, 40.0, 1000.0)
SIGN = np.ones(1)


def small(name: str, epsilon: float) -> tuple[LocalRandomizer, list[Input]]:
    """A randomizer of small size, and its worst inputs with others among them."""
    categories = [Input(0), Input(2), Input(-1)]
    vectors = [Input(0, np.array([1.0, 0.0])), Input(0, np.array([-1.0, 0.0])), Input(0, np.array([0.1, 0.5]))]
    built: dict[str, Callable[[], tuple[LocalRandomizer, list[Input]]]] = {
        "grr": lambda: (KaryRandomizedResponse(epsilon, 5), categories),
        "subset": lambda: (SubsetSelection(epsilon, 4, size=2), categories),
        "oue": lambda: (UnaryEncoding(epsilon, 3), categories),
        "signed": lambda: (SignedSubset(epsilon, 3, size=1), [Input(0, SIGN), Input(1, -SIGN), Input(-1, SIGN)]),
        "signed-all": lambda: (SignedSubset(epsilon, 2, size=2), [Input(0, SIGN), Input(0, -SIGN), Input(-1, SIGN)]),
        "ternary": lambda: (BinCapSign(epsilon, 2, 1), [Input(0, SIGN), Input(1, SIGN)]),
        "hemisphere": lambda: (Hemisphere(epsilon, 1, 2), vectors),
    }
    return built[name]()


NAMES = ("grr", "subset", "oue", "signed", "signed-all", "ternary", "hemisphere")
SIGNS = {"signed": 3, "signed-all": 3}
PUBLIC = {"hemisphere": np.array([STEPS // 3, STEPS // 5])}


@pytest.mark.parametrize("epsilon", [pytest.param(0.1, marks=pytest.mark.slow), 32.0, 1000.0])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.wide
def test_the_law_as_implemented_is_within_epsilon(name: str, epsilon: float) -> None:
    randomizer, inputs = small(name, epsilon)
    laws = [law(randomizer, given, PUBLIC.get(name), SIGNS.get(name)) for given in inputs]
    assert all(sum(one.values()) == 1 for one in laws)
    ratio = realised(laws)
    assert ratio is not None and within(ratio, epsilon), f"{name} gives {epsilon_of(ratio or Fraction(1))}"
    assert not within(ratio, 0.999 * min(epsilon, 36.7)), "it is nearly reached, so that the check can fail"


def test_the_check_refutes_thresholds_that_are_too_high() -> None:
    randomizer = KaryRandomizedResponse(1.0, 5)
    randomizer.truthful *= 1 + 1e-9
    assert not within(realised([law(randomizer, Input(0)), law(randomizer, Input(2))]), 1.0)
    randomizer.truthful = 1.0
    assert realised([law(randomizer, Input(0)), law(randomizer, Input(2))]) is None
    assert not within(None, 1e3)


def test_the_check_notices_what_it_cannot_find() -> None:
    with pytest.raises(AssertionError, match="overlooked"):
        law(SignedSubset(1.0, 3, size=1), Input(0, SIGN))  # signs change with the uniform's 24th bit and on


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bounds_of_odds_are_on_the_safe_side(epsilon: float) -> None:
    bound = thresholds.exponential(epsilon)
    exact = Decimal(min(epsilon, 200.0)).exp(Context(prec=70))
    assert 0 < Fraction(exact) / bound - 1 < Fraction(1, 10**20)
    for odds in (bound, 1 / bound, bound / 7):
        p = Fraction(thresholds.at_most(odds))
        assert p * STEPS == int(p * STEPS) and p / (1 - p) <= odds
        higher = p + Fraction(1, STEPS)
        assert higher == 1 or higher / (1 - higher) > odds


@pytest.mark.parametrize("k", [2, 3, 5, 7, 100, 1023, 4099])
def test_no_pick_is_further_from_even_than_the_slack_covers(k: int) -> None:
    """floor(u k) as floats: the first uniform that gives c lies within one of c 2^53 / k."""
    for c in range(1, k):
        first = -(-c * STEPS // k)
        for j, low in ((first - 2, True), (first + 1, False)):
            assert (int(j / STEPS * k) < c) == low
    assert int((STEPS - 1) / STEPS * k) == k - 1


def test_which_reports_are_exact() -> None:
    exact = [KaryRandomizedResponse(1.0, 3), SubsetSelection(1.0, 4), UnaryEncoding(1.0, 3), SignedSubset(1.0, 4)]
    exact += [Hemisphere(1.0, 1, 5), BinCapSign(1.0, 3, 1), Hemisphere(math.inf, 1, 5)]
    assert {randomizer.arithmetic for randomizer in exact} == {"exact"}
    real = [
        LaplaceOneHot(1.0, 3),
        BinCapSign(1.0, 3, 2),
        SubsetSelection(1e-6, 10**5),
        BinCapSign(0.01, 1, 1, activity=1e-15),
    ]
    assert {randomizer.arithmetic for randomizer in real} == {"real"}


@pytest.mark.parametrize("kind", [SubsetSelection, UnaryEncoding, SignedSubset, Hemisphere])
def test_secure_reports_have_the_same_mean(kind: type) -> None:
    """The system cannot be seeded: within 6 standard deviations, which fails once in 10^8 runs."""
    arguments = (1.0, 3, 2) if kind is Hemisphere else (1.0, 3)
    randomizer, n = kind(*arguments, noise="secure"), 4000
    values = None if randomizer.categorical else np.tile(np.ones(randomizer.dim) / randomizer.dim, (n, 1))
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    estimates = randomizer.estimate(randomizer.randomize(np.ones(n, int), values, rng))
    assert rng.bit_generator.state == before
    target = np.zeros((3, randomizer.dim))
    target[1] = 1.0 if values is None else values[0]
    error = (estimates.mean(axis=0) - target) / (estimates.std(axis=0) / math.sqrt(n))
    assert np.abs(error).max() < 6


@pytest.mark.parametrize("scale", [1e-200, 0.3, 1.0, 5.0, 1e200])
def test_continuous_reports_are_on_a_public_grid(scale: float) -> None:
    step, rng = grid.step_of(scale), np.random.default_rng(0)
    assert math.frexp(step)[0] == 0.5 and 2.0**-21 < step / scale <= 2.0**-20
    for mechanism in (Laplace(scale, 1.0), Gaussian(scale, 1.0)):
        released = mechanism.release(scale * rng.random(100), rng)
        assert (released / step == np.rint(released / step)).all()
        assert abs(np.mean(released / scale)) < 2


def test_without_noise_there_is_no_grid() -> None:
    value = np.array([0.1, 1e-300, 1e300])
    assert grid.step_of(0.0) == 0 and grid.rounded(value.copy(), 0.0).tolist() == value.tolist()
    for scale in (math.inf, math.nan, 1e-320, 1e-275, 1e275):
        with pytest.raises(ValueError, match="beyond what floats can add"):
            grid.step_of(scale)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-47, 1e-49, 1e-300])
def test_odds_are_at_least_even_at_any_budget(epsilon: float) -> None:
    assert 1 <= thresholds.exponential(epsilon) <= 1 + 2 * Fraction(epsilon)
    assert thresholds.at_most(thresholds.exponential(epsilon)) >= 0.5
    assert Hemisphere(epsilon, 1, 2).right >= 0.5
