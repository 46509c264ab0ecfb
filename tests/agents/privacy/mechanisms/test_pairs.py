import math
from typing import Any

import numpy as np
import pytest
from given import rng
from privbandit_agents.privacy.accounting.costs import Cost, zcdp
from privbandit_agents.privacy.mechanisms.additive import Gaussian, Laplace
from privbandit_agents.privacy.mechanisms.counters import BinaryTree, BufferedToeplitz, Counter, SquareRootToeplitz
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss
from privbandit_agents.privacy.mechanisms.objective_approximate import perturbation
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK, LaplacePeeling
from privbandit_agents.privacy.mechanisms.spherical import KNorm, WishartDifference
from privbandit_agents.testing.watchers import loss, standardised
from scipy import stats

HORIZONS = [1, 2, 7, 64]


def counter(kind: str, horizon: int, dim: int = 1, rho: float = 0.5, **kwargs: Any) -> Counter:
    kinds: dict[str, Any] = {"tree": BinaryTree, "toeplitz": SquareRootToeplitz, "buffered": BufferedToeplitz}
    cut = {"bandwidth": 5} if kind == "cut" else {}
    return kinds.get(kind, SquareRootToeplitz)(horizon, dim, 2.0, rho, rng(), **cut, **kwargs)  # type: ignore[no-any-return]


def decoder(kind: str, horizon: int) -> Any:
    """R, entry by entry."""
    R = np.zeros((horizon, horizon))
    u = np.arange(-3.0, math.log(horizon) + 3 + 1.25, 2.5)
    x = 1 / (1 + np.exp(-u))
    w = 2.5 / math.pi * np.sqrt(x * (1 - x))
    for t in range(horizon):
        if kind == "tree":
            left = t + 1
            while left:  # the blocks that make up t + 1
                R[t, left - 1] = 1
                left -= left & -left
            continue
        for k in range(t + 1):
            square_root = math.comb(2 * k, k) / 4**k
            R[t, t - k] = w @ x**k if kind == "buffered" else square_root * (kind == "toeplitz" or k < 5)
    return R


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("kind", ["tree", "toeplitz", "cut", "buffered"])
def test_a_counters_loss_and_noise_are_those_of_dense_matrices(kind: str, horizon: int) -> None:
    mechanism, R = counter(kind, horizon, dim=3), decoder(kind, horizon)
    exact, other = rng(1).standard_normal((2, horizon, 3))
    other[horizon // 2 :: 2] = exact[horizon // 2 :: 2]  # not all users differ
    moved = np.linalg.solve(R, np.tril(np.ones((horizon, horizon))) @ (exact - other))
    expected = (moved**2).sum() / (2 * mechanism.scale**2)
    assert loss(mechanism, exact, other, None).as_rho() == pytest.approx(expected, rel=1e-9)
    Z = rng(2).standard_normal((horizon, 3))
    released = np.cumsum(exact, axis=0) + mechanism.scale * R @ Z
    assert np.allclose(standardised(mechanism, exact, released), Z.ravel(), atol=1e-9)


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("kind", ["tree", "toeplitz", "cut", "buffered"])
def test_the_first_user_costs_what_a_counter_declares_and_no_other_one_more(kind: str, horizon: int) -> None:
    mechanism, nothing = counter(kind, horizon), np.zeros((horizon, 1))
    costs = [loss(mechanism, nothing, 2.0 * np.eye(horizon)[:, [t]], None).as_rho() for t in range(horizon)]
    assert costs[0] == pytest.approx(0.5, rel=1e-5) and max(costs) <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["tree", "toeplitz", "cut", "buffered"])
def test_what_a_counter_releases_has_its_noise(kind: str) -> None:
    mechanism, terms = counter(kind, 300, dim=4), rng(1).standard_normal((300, 4))
    released = np.concatenate([mechanism.extend(part) for part in np.split(terms, [1, 7, 200])])
    assert stats.kstest(standardised(mechanism, terms, released), "norm").pvalue > 1e-3


def test_terms_beyond_the_bound_of_a_counter_cost_what_is_left_of_them() -> None:
    mechanism = counter("tree", 4, bound=1.0)
    first = np.array([[1e9], [0.0], [0.0], [0.0]])
    assert loss(mechanism, first, -first, None).as_rho() == pytest.approx(0.5)


VECTOR = np.array([3.0, -1.0, 0.5, 0.2])
MOVED = np.array([2.0, -1.5, -0.5, 0.2])
SUMS = [
    (Gaussian.from_rho(0.5, 2.0), Cost(gaussian=(1 + 0.25 + 1) / 8)),
    (Laplace(2.0, 1.0), Cost(pure=1.25, pure_rho=1.25**2 / 2)),
    (KNorm(2.0, 1.0), Cost(pure=0.75, pure_rho=0.75**2 / 2)),
]


@pytest.mark.parametrize(("mechanism", "cost"), SUMS, ids=lambda case: type(case).__name__)
def test_sums_cost_their_distance_and_have_the_declared_noise(mechanism: Any, cost: Cost) -> None:
    found = loss(mechanism, VECTOR, MOVED, None)
    assert vars(found) == pytest.approx(vars(cost))
    noise = np.concatenate([standardised(mechanism, VECTOR, mechanism.release(VECTOR, rng(i))) for i in range(800)])
    assert stats.kstest(noise, "norm").pvalue > 1e-3
    assert noise.size == 800 * (1 if isinstance(mechanism, KNorm) else 4)


@pytest.mark.parametrize(("mechanism", "cost"), SUMS, ids=lambda case: type(case).__name__)
def test_the_price_of_a_pair_is_the_supremum_of_its_log_ratio(mechanism: Any, cost: Cost) -> None:
    """A pure price bounds the log ratio everywhere and is attained; a Gaussian's is half of its variance."""
    outputs = np.concatenate([VECTOR + 3 * rng(1).standard_normal((20_000, 4)), [VECTOR + 1e3 * (VECTOR - MOVED)]])
    if isinstance(mechanism, Gaussian):
        outputs = VECTOR + mechanism.sigma * rng(1).standard_normal((200_000, 4))
    ratio = mechanism.log_density(outputs, VECTOR) - mechanism.log_density(outputs, MOVED)
    found = loss(mechanism, VECTOR, MOVED, None)
    if isinstance(mechanism, Gaussian):
        assert ratio.mean() == pytest.approx(found.as_rho(), abs=0.01) and ratio.var() / 2 == pytest.approx(
            found.as_rho(), rel=0.02
        )
    else:
        assert ratio.max() == pytest.approx(found.pure, rel=1e-2) and ratio.max() <= found.pure * (1 + 1e-9)


def test_matrices_cost_their_nuclear_distance() -> None:
    mechanism = WishartDifference.from_epsilon(1.0, 2)
    assert loss(mechanism, np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), None).pure == pytest.approx(1.0)  # the worst pair
    with pytest.raises(LookupError, match="no method standardised"):
        standardised(mechanism, np.eye(2), np.eye(2))


def choice_probabilities(exact: Any, beta: float) -> Any:
    """P(k = 2 choices, in order) of the exponential mechanism on the moduli, (d, d)."""
    weights = np.exp(np.abs(exact) / beta)
    return np.array([[w * v / (weights.sum() - w) for v in weights] for w in weights]) / weights.sum()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.wide
def test_the_price_of_a_choice_bounds_every_order_of_divergence(seed: int) -> None:
    """Against exact probabilities of two choices; one Monte Carlo run says that these are the mechanism's."""
    exact, other = rng(seed).standard_normal((2, 6)) * 2
    mechanism = GumbelTopK(2, 1.3, 1e9, 1.0)
    price = loss(mechanism, exact, other, (np.arange(2), np.zeros(2))).as_rho()
    p, q = (choice_probabilities(value, 1.3) for value in (exact, other))
    off = ~np.eye(6, dtype=bool)
    for order in (1.01, 2.0, 8.0, 64.0):
        divergence = math.log((p[off] * (p[off] / q[off]) ** (order - 1)).sum()) / (order - 1)
        assert divergence <= price * order * (1 + 1e-6)
    if seed == 0:
        chosen = [tuple(sorted(mechanism.release(exact, rng(i))[0])) for i in range(4000)]
        for one, two in ((0, 1), (2, 5), (3, 4)):
            expected = p[one, two] + p[two, one]
            assert chosen.count((one, two)) / 4000 == pytest.approx(expected, abs=5 * math.sqrt(expected / 4000))


def test_choices_cost_the_range_of_what_moves_and_public_coordinates_do_not_count() -> None:
    exact, other = np.array([5.0, 1.0, 0.0, 0.0]), np.array([0.0, -3.0, 0.0, 1.0])
    released = np.array([0, 1]), np.zeros(2)  # the first one was public
    paid = loss(GumbelTopK(1, 2.0, 10.0, 1.0, kept=1), exact, other, released)
    assert paid.as_rho() == pytest.approx((2.0 / 2.0) ** 2 / 8 + (25 + 16) / 200)  # moduli move by 2, 0 and 1
    chosen = loss(GumbelTopK(2, 2.0, 10.0, 1.0), exact, other, released)
    assert chosen.as_rho() == pytest.approx(2 * (7.0 / 2.0) ** 2 / 8 + (25 + 16) / 200)  # and by -5
    peeled = loss(LaplacePeeling(2, 2.0, 1.0), exact, other, released)
    assert peeled.pure == pytest.approx(2 * 3.5 + 5 / 2 + 4 / 2)
    assert peeled.pure_rho == pytest.approx((2 * 3.5**2 + 2.5**2 + 2.0**2) / 2)


@pytest.mark.parametrize("mechanism", [GumbelTopK.from_rho(0.7, 3, 1.5), LaplacePeeling(3, 4.0, 1.5)])
def test_no_pair_within_the_sensitivity_costs_more_than_a_selection_declares(mechanism: Any) -> None:
    costs = []
    for seed in range(200):
        exact = rng(seed).uniform(-5, 5, 8)
        other = exact + 1.5 * np.sign(rng(seed + 1).standard_normal(8))
        costs.append(loss(mechanism, exact, other, mechanism.release(exact, rng(seed))).as_rho())
    assert max(costs) <= mechanism.cost.as_rho() * (1 + 1e-9) and max(costs) > 0.99 * mechanism.cost.as_rho()


@pytest.mark.wide_at("mechanism0")
@pytest.mark.parametrize("mechanism", [GumbelTopK.from_rho(0.7, 3, 1.5), LaplacePeeling(3, 4.0, 1.5)])
def test_values_of_a_selection_have_the_declared_noise(mechanism: Any) -> None:
    exact = np.linspace(-4, 4, 9)
    noise = [standardised(mechanism, exact, mechanism.release(exact, rng(i))) for i in range(500)]
    assert stats.kstest(np.concatenate(noise), "norm").pvalue > 1e-3


USER = UserLoss.multinomial_logit(3, 4)


def bowl(centre: float) -> Any:
    return lambda a: (0.0, 5 * (a - centre), 5 * np.eye(3))


@pytest.mark.parametrize("mechanism", [ObjectivePerturbation.from_rho(0.3, USER), perturbation(0.5, 1e-3, USER)])
def test_a_minimum_tells_the_linear_term_it_was_perturbed_by(mechanism: ObjectivePerturbation) -> None:
    noise = []
    for i in range(300):
        released = mechanism.minimise(bowl(0.3), rng(i))
        noise.append(standardised(mechanism, bowl(0.3)(released), released))
    assert np.allclose(noise[5], rng(5).standard_normal(3), atol=1e-3)
    assert stats.kstest(np.concatenate(noise), "norm").pvalue > 1e-3


@pytest.mark.parametrize(
    ("gradient", "hessian", "paid"),
    [
        ([0, 0, 0], [0, 0, 0], 0.0),
        ([2, 0, 0], [0, 0, 0], 1.0),
        ([2.1, 0, 0], [0, 0, 0], math.inf),
        ([0, 0, 0], [1, -1, 0], 1.0),
        ([0, 0, 0], [1.1, 0, 0], math.inf),  # beyond the curvature
        ([0, 0, 0], [-0.6, -0.6, 0], math.inf),  # beyond the trace
    ],
)
def test_two_users_of_a_minimum_are_held_against_the_bounds_of_one(gradient: Any, hessian: Any, paid: float) -> None:
    mechanism = ObjectivePerturbation.from_rho(0.3, UserLoss(3, 1.0, 1.0, trace=1.0))
    exact = 0.0, np.ones(3), 9 * np.eye(3)
    other = 0.0, np.ones(3) + gradient, 9 * np.eye(3) + np.diag(hessian)
    expected = {0.0: Cost(), 1.0: zcdp(0.3)}.get(paid, Cost(rho=math.inf))
    assert loss(mechanism, exact, other, np.zeros(3)) == expected
    assert math.isinf(expected.as_rho()) == math.isinf(expected.at(0.1))


def test_without_bounds_of_a_user_a_minimum_has_no_price() -> None:
    with pytest.raises(LookupError, match="UserLoss"):
        loss(ObjectivePerturbation(1.0, 1.0, 1, zcdp(1.0), 1e-8, 0.1), None, None, None)


def test_what_does_not_move_costs_nothing_even_without_noise() -> None:
    assert loss(Gaussian(0.0, math.inf), [1.0], [1.0], None) == Cost()
    assert math.isinf(loss(Gaussian(0.0, math.inf), [1.0], [2.0], None).as_rho())
