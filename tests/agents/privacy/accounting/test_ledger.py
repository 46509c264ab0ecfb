import math
import threading
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from privbandit_agents.base.state import restore_into, state_of
from privbandit_agents.privacy.accounting.conversions import (
    epsilon_to_rho,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    rho_to_epsilon,
)
from privbandit_agents.privacy.accounting.costs import SLACK, Cost, approximate, at_least, gaussian_dp, pure, zcdp
from privbandit_agents.privacy.accounting.ledger import PURE_IN_GAUSSIAN, Ledger, PrivacyBudgetExceeded


def test_releases_about_the_same_users_add_and_overspending_is_refused_before_it_happens() -> None:
    ledger = Ledger(epsilon=1.0)
    for _ in range(4):
        ledger.spend(pure(0.25))
    assert ledger.spent_epsilon() == pytest.approx(1.0)
    with pytest.raises(PrivacyBudgetExceeded, match=r"= \(1.25, 0\) would exceed the budget"):
        ledger.spend(pure(0.25))
    assert ledger.spent_epsilon() == pytest.approx(1.0) and ledger.releases == 4


def test_releases_about_disjoint_users_cost_the_largest() -> None:
    ledger = Ledger(rho=0.5)
    for group, rho in enumerate((0.2, 0.5, 0.1)):
        ledger.spend(zcdp(rho), group=group)
    assert ledger.spent().as_rho() == 0.5
    with pytest.raises(PrivacyBudgetExceeded, match=r"rho = 0\.6"):
        ledger.spend(zcdp(0.1))
    with pytest.raises(PrivacyBudgetExceeded):
        ledger.spend(zcdp(0.45), group=2)
    with pytest.raises(ValueError, match="group must be 2 or a later one; got 1"):
        ledger.spend(zcdp(0.1), group=1)


def test_everything_inside_a_group_adds() -> None:
    ledger = Ledger(rho=1.0)
    for _ in range(4):
        ledger.spend(zcdp(0.25), group=0)
    ledger.spend(zcdp(1.0), group=1)
    assert ledger.spent().as_rho() == 1.0


def test_a_billion_users_with_one_report_each_cost_one_report() -> None:
    ledger = Ledger(epsilon=1.0)
    ledger.spend(pure(1.0), group=0, groups=10**9)
    ledger.spend(pure(1.0), group=10**9)
    assert ledger.spent_epsilon() == 1.0
    with pytest.raises(ValueError, match="users were closed"):
        ledger.spend(pure(1.0), group=5, groups=2)


def test_the_last_of_many_groups_is_still_open() -> None:
    ledger = Ledger(epsilon=1.0)
    ledger.spend(pure(0.6), group=0, groups=3)
    with pytest.raises(PrivacyBudgetExceeded):
        ledger.spend(pure(0.6), group=2)


def test_the_first_release_fixes_the_currency() -> None:
    # zCDP, and pure releases by their squares; Gaussian ones that come later count in it too
    ledger = Ledger(epsilon=3.0, delta=1e-5)
    for cost in (pure(0.1), zcdp(0.05), gaussian_dp(0.01)):
        ledger.spend(cost)
    assert ledger.spent_epsilon() == pytest.approx(rho_to_epsilon(0.06 + 0.1**2 / 2, 1e-5))
    # approximate and pure ones by basic composition
    ledger = Ledger(epsilon=3.0, delta=1e-5)
    for cost in (approximate(0.5, 4e-6), pure(0.1), approximate(0.1, 6e-6)):
        ledger.spend(cost)
    assert ledger.spent_epsilon() == pytest.approx(0.7)
    assert ledger.spent_epsilon(1e-6) == math.inf and ledger.spent().as_rho() == math.inf


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (gaussian_dp(0.01), zcdp(0.01)),
        (gaussian_dp(0.01), approximate(0.1, 1e-7)),
        (zcdp(0.01), approximate(0.1, 1e-7)),
        (approximate(0.1, 1e-7), gaussian_dp(0.01)),
        (pure(0.1) + approximate(0.1, 1e-7), zcdp(0.01)),
        (pure(0.1), approximate(0.1, 1e-7)),
        (pure(0.1), pure(0.1) + approximate(0.1, 1e-7)),
    ],
)
@pytest.mark.parametrize("people", [(None, None), ("anna", "boris"), ("anna", None), (None, "boris")])
def test_kinds_without_a_common_currency_are_refused_with_a_way_out(
    first: Cost, second: Cost, people: tuple[str | None, str | None]
) -> None:
    ledger = Ledger(epsilon=3.0, delta=1e-5)
    ledger.spend(first, person=people[0])
    before = ledger.spent()
    with pytest.raises(PrivacyBudgetExceeded, match=r"^[^\n]*keep a ledger for each kind, and their budgets add up\.$"):
        ledger.spend(second, person=people[1])
    assert ledger.spent() == before


def test_gaussian_releases_are_converted_exactly_and_pure_ones_count_among_them() -> None:
    ledger = Ledger(epsilon=3.0, delta=1e-5)
    for _ in range(5):
        ledger.spend(gaussian_dp(0.02))
    assert ledger.spent_epsilon() == pytest.approx(gaussian_epsilon(mu=math.sqrt(0.2), delta=1e-5))
    assert ledger.spent().as_rho() == pytest.approx(0.1) and ledger.spent_epsilon() < rho_to_epsilon(0.1, 1e-5)
    ledger.spend(pure(0.1))
    assert ledger.spent_epsilon() == pytest.approx(
        gaussian_epsilon(mu=math.sqrt(0.2 + math.pi / 2 * 0.1**2), delta=1e-5)
    )


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 30.0])
def test_a_pure_release_is_dominated_by_the_gaussian_one_that_is_entered(epsilon: float) -> None:
    mu = math.sqrt(2 * PURE_IN_GAUSSIAN * epsilon**2 / 2)
    for at in np.linspace(0, epsilon, 20)[:-1]:
        response = (math.exp(epsilon) - math.exp(at)) / (1 + math.exp(epsilon))  # its delta at epsilon = at
        assert gaussian_delta(float(at), mu) >= response * (1 - 1e-9)
    tight = gaussian_delta(0.0, 0.98 * mu) < math.tanh(epsilon / 2)
    assert tight == (epsilon <= 1)  # and not by much less noise, if epsilon is small


@given(st.floats(1e-3, 1000), st.floats(1e-9, 0.3))
def test_the_whole_budget_can_be_spent_in_one_gaussian_release(epsilon: float, delta: float) -> None:
    ledger, cost = Ledger(epsilon=epsilon, delta=delta), gaussian_dp(gaussian_mu(epsilon, delta) ** 2 / 2)
    ledger.spend(cost)
    with pytest.raises(PrivacyBudgetExceeded):
        ledger.spend(cost)


def test_many_pure_releases_profit_from_concentration() -> None:
    ledger = Ledger(epsilon=10.0, delta=1e-6)
    for _ in range(400):
        ledger.spend(pure(0.05))
    spent = ledger.spent_epsilon()
    assert spent == pytest.approx(rho_to_epsilon(400 * 0.05**2 / 2, 1e-6)) and spent < 400 * 0.05


def test_a_zcdp_release_has_no_pure_epsilon() -> None:
    with pytest.raises(PrivacyBudgetExceeded):
        Ledger(epsilon=100.0).spend(zcdp(1e-6))


@given(st.floats(1e-3, 1000), st.floats(1e-9, 0.3))
def test_the_whole_budget_can_be_spent_in_one_release(epsilon: float, delta: float) -> None:
    ledger = Ledger(epsilon=epsilon, delta=delta)
    ledger.spend(zcdp(epsilon_to_rho(epsilon, delta)))
    with pytest.raises(PrivacyBudgetExceeded):
        ledger.spend(zcdp(epsilon_to_rho(epsilon, delta)))


@pytest.mark.parametrize("epsilon", [1000.0, math.inf])
def test_large_and_infinite_budgets_are_valid(epsilon: float) -> None:
    ledger = Ledger(epsilon=epsilon)
    ledger.spend(pure(epsilon))
    assert ledger.spent_epsilon() == epsilon
    if epsilon == math.inf:
        ledger.spend(zcdp(math.inf))


def test_bad_declarations_are_refused() -> None:
    for bad in ({}, {"epsilon": 1.0, "rho": 1.0}, {"epsilon": -1.0}, {"epsilon": 1.0, "delta": 1.0}, {"rho": math.nan}):
        with pytest.raises(ValueError, match="got"):
            Ledger(**bad)
    for kind, parameters in ((pure, (0,)), (zcdp, (-1,)), (approximate, (1, 0))):
        with pytest.raises(ValueError, match="got"):
            kind(*parameters)


def test_costs_cannot_give_budget_back() -> None:
    for bad in ({"pure": -5.0}, {"rho": -1e-9}, {"delta": math.nan}):
        with pytest.raises(ValueError, match="a cost must be >= 0"):
            Cost(**bad)
    with pytest.raises(ValueError, match="groups must be numbered"):
        Ledger(epsilon=1.0).spend(pure(0.5), groups=4)


def test_a_person_who_comes_again_spends_again() -> None:
    ledger = Ledger(epsilon=1.0)
    ledger.spend(pure(0.25))
    for name in ("anna", "boris", "anna"):
        ledger.spend(pure(0.3), person=name)
    assert ledger.spent_by("anna").pure == pytest.approx(0.6) and ledger.spent_by("boris").pure == pytest.approx(0.3)
    assert ledger.spent_by("chen") == Cost() and ledger.spent_epsilon() == pytest.approx(0.85)
    with pytest.raises(PrivacyBudgetExceeded):
        ledger.spend(pure(0.3), person="anna")
    with pytest.raises(PrivacyBudgetExceeded):  # anna would have spent too much
        ledger.spend(pure(0.2))
    ledger.spend(pure(0.45), person="boris")
    assert ledger.spent_by("anna").pure == pytest.approx(0.6) and ledger.releases == 5
    with pytest.raises(ValueError, match="a person or a group"):
        ledger.spend(pure(0.1), group=0, person="anna")


def test_people_are_saved_and_restored() -> None:
    ledger, copy = Ledger(epsilon=2.0), Ledger(epsilon=2.0)
    ledger.spend(pure(0.5), person="anna")
    restore_into(copy, *state_of(ledger))
    assert copy.spent_by("anna") == ledger.spent_by("anna") == copy.spent() == pure(0.5)
    copy.spend(pure(1.0), person="boris")
    assert copy.spent() == copy.spent_by("boris") == pure(1.0)


def test_a_ledger_is_saved_and_restored() -> None:
    ledger, copy = Ledger(epsilon=2.0, delta=1e-6), Ledger(epsilon=2.0, delta=1e-6)
    ledger.spend(zcdp(0.01), group=3)
    restore_into(copy, *state_of(ledger))
    assert copy.spent() == ledger.spent() == Cost(rho=0.01) and copy.group == 3


@given(st.floats(0, 1e300), st.floats(0, 1e300))
def test_sums_of_costs_are_rounded_up_by_less_than_one_part_in_2_to_the_52(a: float, b: float) -> None:
    exact, total = Fraction(a) + Fraction(b), Fraction(at_least(a, b))
    assert exact <= total <= exact * (1 + Fraction(1, 2**52)) + Fraction(5e-324)
    assert at_least(b, a) == at_least(a, b) and at_least(a, math.inf) == math.inf


@pytest.mark.parametrize("tiny", [1e-17, 1e-30, 1e-300])
def test_costs_far_below_the_last_digit_of_the_total_are_counted(tiny: float) -> None:
    ledger = Ledger(rho=1.0)
    ledger.spend(zcdp(1.0))
    before = ledger.spent().rho
    for _ in range(100):
        ledger.spend(zcdp(tiny))
    assert ledger.spent().rho >= before * (1 + 100 * 2.0**-53)


@pytest.mark.parametrize("epsilon", [1e-162, 1e-161, 1e-155])
def test_pure_releases_with_squares_below_the_smallest_floats_are_counted(epsilon: float) -> None:
    ledger = Ledger(rho=1000 * 5e-324)
    taken = sum(accepts(ledger, pure(epsilon)) for _ in range(1001))
    assert taken * Fraction(epsilon) ** 2 / 2 <= Fraction(ledger.rho or 0.0) and taken <= 1000


def test_a_budget_near_the_largest_float_is_no_infinite_one() -> None:
    largest = 1e300
    for ledger, cost in ((Ledger(largest), pure(math.inf)), (Ledger(rho=largest), zcdp(math.inf))):
        assert not accepts(ledger, cost)
    assert accepts(Ledger(largest), pure(largest)) and pure(largest).pure_rho == math.inf


@pytest.mark.parametrize("group", [None, 0])
def test_no_number_of_tiny_costs_passes_the_slack(group: int | None) -> None:
    ledger = Ledger(epsilon=1.0)
    ledger.spend(pure(1 + SLACK - 1e-15), group)
    with pytest.raises(PrivacyBudgetExceeded):
        for _ in range(20):
            ledger.spend(pure(1e-40), group)
    assert ledger.spent_epsilon() <= 1 + SLACK


def test_a_budget_may_be_cut_into_many_equal_parts() -> None:
    ledger, parts = Ledger(rho=1.0), 10_000
    for _ in range(parts):
        ledger.spend(zcdp(1 / parts))
    assert ledger.spent().rho == pytest.approx(1.0, rel=parts * 2.0**-52)


@pytest.mark.parametrize("parts", [3, 6, 10, 49, 1000])
def test_delta_may_be_cut_into_equal_parts_and_not_into_larger_ones(parts: int) -> None:
    ledger, greedy = Ledger(epsilon=1.0, delta=1e-5), Ledger(epsilon=1.0, delta=1e-5)
    for part in range(parts):
        ledger.spend(approximate(1 / parts, 1e-5 / parts))
        if part < parts - 1:
            greedy.spend(approximate(1 / parts, 1e-5 / parts))
    assert ledger.spent_epsilon() == pytest.approx(1.0)
    with pytest.raises(PrivacyBudgetExceeded):
        greedy.spend(approximate(1 / parts, 1e-5 / parts * (1 + 2 * parts * SLACK)))


@pytest.mark.parametrize("groups", [0, -1, 1.5])
def test_a_number_of_groups_that_is_none_records_nothing(groups: Any) -> None:
    ledger = Ledger(epsilon=1.0)
    with pytest.raises(ValueError, match="groups must be an integer >= 1"):
        ledger.spend(pure(1.0), group=0, groups=groups)
    assert ledger.spent() == Cost() and ledger.releases == 0


def accepts(ledger: Ledger, cost: Cost, person: str | None = None) -> bool:
    """Return whether a ledger takes a cost; it is entered."""
    try:
        ledger.spend(cost, person=person)
    except PrivacyBudgetExceeded:
        return False
    return True


def largest(costs: list[Cost], epsilon: float, delta: float, kind: Any, most: float) -> float:
    """Return the largest x for which the ledger accepts kind(x) after other costs, 0 if there is none."""
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        ledger = Ledger(epsilon, delta)
        taken = all(accepts(ledger, cost) for cost in costs) and middle > 0 and accepts(ledger, kind(middle))
        low, high = (middle, high) if taken else (low, middle)
    return low


def worst_delta(epsilon: float, delta: float, looks: int) -> float:
    """Return the exact delta at epsilon of an analyst who takes equal Gaussian releases, and stops as it pays.

    After every look randomized response with all that the ledger then accepts may be taken, in view of the loss. The
    value of a loss is found backwards: the law of the next Gaussian loss is integrated by Gauss-Hermite quadrature. The
    grid is so fine that what interpolation adds to a convex function, at every look, is below 1 % in all.
    """
    grid = 4000 * math.ceil(math.sqrt(looks / 20)) + 1
    whole = gaussian_mu(epsilon, delta) ** 2 / 2
    part = whole / looks * (1 - 1e-9)
    losses = np.linspace(-3 * epsilon - 12 * math.sqrt(2 * whole), 3 * epsilon + 12 * math.sqrt(2 * whole), grid)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    moves = part + math.sqrt(2 * part) * nodes  # of the loss in the first world
    stays = np.maximum(-np.expm1(epsilon - losses), 0.0)
    value = stays
    for look in range(looks, -1, -1):
        left = largest([gaussian_dp(look * part)] if look else [], epsilon, delta, pure, 2 * epsilon)
        right = scipy.special.expit(left)
        ends = [np.maximum(-np.expm1(epsilon - losses - end), 0.0) for end in (left, -left)]
        taken = right * ends[0] + (1 - right) * ends[1] if left else stays
        value = np.maximum(taken, value)
        if look:
            value = sum(w * np.interp(losses + move, losses, value) for move, w in zip(moves, weights, strict=True))
            value = np.asarray(value) / math.sqrt(2 * math.pi)
    return float(np.interp(0.0, losses, value))


@pytest.mark.wide_at("20-?.0-1e-05")
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (4.0, 1e-5), (4.0, 0.01)])
@pytest.mark.parametrize(
    "looks", [20, pytest.param(200, marks=pytest.mark.slow), pytest.param(800, marks=pytest.mark.slow)]
)
def test_no_look_is_a_new_chance(epsilon: float, delta: float, looks: int) -> None:
    """Gaussian releases, and one pure release when it pays; 1 % of delta is room for the grid of losses."""
    assert 0.99 * delta <= worst_delta(epsilon, delta, looks) <= 1.01 * delta


def failing_late(epsilon: float, delta: float, part: float, steps: int, takes: Any) -> float:
    """Return the exact delta at epsilon of an analyst who takes equal pure releases, or one that fails with ``delta``.

    A pure release is randomized response. Before each the analyst may take a release that tells the record with
    probability delta, if ``takes(number of pure ones)`` says that the ledger accepts it.
    """
    right = scipy.special.expit(part)
    value = np.maximum(-np.expm1(epsilon - (2 * np.arange(steps + 1) - steps) * part), 0.0)
    for step in range(steps - 1, -1, -1):
        value = right * value[1:] + (1 - right) * value[:-1]
        value = np.maximum(value, delta) if takes(step) else value
    return float(value[0])


@pytest.mark.wide_at("*-1.0-1e-05-0.02", "first[12]-3.0-*")
@pytest.mark.parametrize(("epsilon", "delta", "part"), [(1.0, 0.01, 0.1), (1.0, 1e-5, 0.02), (3.0, 0.01, 0.3)])
@pytest.mark.parametrize("first", [None, pure(1e-6), approximate(1e-6, 1e-12), gaussian_dp(1e-12)])
def test_no_release_that_may_fail_comes_after_pure_ones_that_count_in_zcdp(
    epsilon: float, delta: float, part: float, first: Cost | None
) -> None:
    """By the sum of epsilons alone it would be accepted, and delta exceeded by 5 % or more.

    A release about another person may be the first.
    """

    def after(step: int) -> Ledger | None:
        """Return the ledger after a number of pure releases; None if it does not accept them."""
        ledger = Ledger(epsilon, delta)
        if first is not None:
            ledger.spend(first, person="boris")
        return ledger if all(accepts(ledger, pure(part), "anna") for _ in range(step)) else None

    def accepted(step: int) -> bool:
        ledger = after(step)
        return ledger is not None and accepts(ledger, approximate(1e-6, delta * (1 - 1e-6)), "anna")

    steps = 1
    while after(steps + 1) is not None:
        steps += 1
    assert failing_late(epsilon, delta, part, steps, accepted) <= delta * (1 + 1e-9)
    if first is None:
        assert failing_late(epsilon, delta, part, steps, lambda step: step * part + 1e-6 <= epsilon) > 1.05 * delta


def response(epsilon: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the laws of randomized response under two records."""
    p = scipy.special.expit(epsilon)
    return np.array([p, 1 - p]), np.array([1 - p, p])


def leaking(epsilon: float, delta: float) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the laws of the worst (epsilon, delta)-DP release: it tells the record with probability delta."""
    one, other = response(epsilon)
    return np.array([delta, *((1 - delta) * one), 0.0]), np.array([0.0, *((1 - delta) * other), delta])


def on_lattice(rho: float, points: int = 7) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return a release that is sqrt(2 rho)-Gaussian DP: Gaussian noise of which one of a few intervals is told."""
    mu = math.sqrt(2 * rho)
    cuts = np.concatenate([[-np.inf], np.linspace(-2.5, 2.5 + mu, points - 1), [np.inf]])
    return np.diff(scipy.special.ndtr(cuts - mu)), np.diff(scipy.special.ndtr(cuts))


def adaptive_delta(epsilon: float, ledger: Ledger, p: float, q: float, depth: int, rng: np.random.Generator) -> float:
    """Return the exact sum of (P - e^epsilon Q)+ over all that a random adaptive analyst sees from here on."""
    if not depth:
        return max(p - math.exp(epsilon) * q, 0.0)
    for _ in range(3):  # kind and cost are drawn anew on every path, which is a choice in view of it
        kind, size = rng.integers(3), float(rng.uniform(0.05, 0.7))
        if kind == 0:
            laws, cost = response(size * epsilon), pure(size * epsilon)
        elif kind == 1:
            laws, cost = on_lattice(rho := size * 0.1 * epsilon), (zcdp, gaussian_dp)[rng.integers(2)](rho)
        else:
            laws, cost = leaking(*(pair := (size * epsilon, size * ledger.delta))), approximate(*pair)
        branch = Ledger(epsilon, ledger.delta)
        restore_into(branch, *state_of(ledger))
        if accepts(branch, cost):
            break
    else:
        return max(p - math.exp(epsilon) * q, 0.0)
    return sum(
        adaptive_delta(epsilon, branch, p * one, q * other, depth - 1, rng) for one, other in zip(*laws, strict=True)
    )


@pytest.mark.wide_at("8", "9", "[123][0-9]")
@pytest.mark.parametrize("seed", range(40))
def test_random_adaptive_sequences_of_mixed_kinds_keep_delta(seed: int) -> None:
    rng = np.random.default_rng(seed)
    epsilon, delta = float(rng.choice([0.5, 1.0, 4.0])), float(rng.choice([1e-3, 0.01, 0.1]))
    assert adaptive_delta(epsilon, Ledger(epsilon, delta), 1.0, 1.0, 4, rng) <= delta * (1 + 1e-9)


def test_threads_do_not_spend_one_budget_twice() -> None:
    for _ in range(30):
        ledger, taken = Ledger(1.0), list[bool]()
        start = threading.Barrier(8)

        def race(ledger: Ledger = ledger, taken: list[bool] = taken, start: threading.Barrier = start) -> None:
            start.wait()
            taken.append(accepts(ledger, pure(0.6)))

        threads = [threading.Thread(target=race) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert taken.count(True) == 1 and ledger.spent().pure == 0.6
