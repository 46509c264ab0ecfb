"""The conditions that every private agent and mechanism here has to keep, one test each (docs/privacy/index.md)."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import clipped_derivatives
from privbandit_agents import make
from privbandit_agents.audits.registry import private_agents
from privbandit_agents.privacy.accounting.ledger import Ledger, PrivacyBudgetExceeded, pure, zcdp
from privbandit_agents.privacy.mechanisms.counters import SquareRootToeplitz
from privbandit_agents.privacy.mechanisms.objective import UserLoss, certified_rho
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from privbandit_agents.privacy.mechanisms.spherical import WishartDifference
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset, UnaryEncoding
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere
from privbandit_agents.registry import can_play, find

AGENTS = [name for name in private_agents() if can_play(name, gym.make("privbandit/Linear-v0"))]
SPARSE = ("fliphat", "clipped-iht")  # their sums have bounds of their own: tests/agents/joint
WILD = [math.nan, math.inf, -math.inf, 1e38, -1e308]


def linear(**kwargs: Any) -> Any:
    return gym.make("privbandit/Linear-v0", n_arms=2, dim=3, horizon=200, **kwargs)


@pytest.mark.parametrize("name", [name for name in AGENTS if name not in SPARSE])
@pytest.mark.parametrize("wild", WILD)
def test_1_records_are_sanitised_first(name: str, wild: float) -> None:
    agent = make(name, linear(), seed=0, epsilon=math.inf)
    context = np.full((2, 3), 0.5)
    for bad_context, feedback in ((np.full((2, 3), wild), 1.0), (context, wild)):
        before = agent.state()[0]
        agent.update(bad_context, 0, feedback)
        arrays = agent.state()[0]
        assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")
        totals = [key for key in arrays if key in ("total", "counter.total", "counter.sum", "counter.exact")]
        assert totals, "the running sum has another name"
        for key in totals:
            assert np.linalg.norm(arrays[key] - before[key]) <= 2 * (1 + 1e-9)


@pytest.mark.parametrize(
    "randomizer",
    [LaplaceOneHot(1.0, 6), UnaryEncoding(1.0, 6), SignedSubset(1.0, 6), BinCapSign(1.0, 6, 3), Hemisphere(1.0, 6, 3)],
    ids=lambda r: type(r).__name__,
)
def test_2_every_user_noises_every_cell_inactive_ones_too(randomizer: Any) -> None:
    values = None if randomizer.categorical else np.ones((4000, randomizer.dim)) / 2
    for cell in (0, -1):
        reports = randomizer.randomize(np.full(4000, cell), values, np.random.default_rng(0))
        spread = randomizer.estimate(reports).std(axis=0)
        others = spread[1:] if cell == 0 else spread
        assert (others > 0.5 * math.sqrt(randomizer.variance(own=False))).all()


@pytest.mark.parametrize("name", [name for name in AGENTS if hasattr(find(name).load(), "randomize")])
@pytest.mark.parametrize("record", [math.nan, 0.0])
def test_2_records_that_say_nothing_are_reported_with_the_same_noise(name: str, record: float) -> None:
    agent: Any = make(name, linear(), seed=0)
    spreads = []
    for entry in (0.5, record):
        contexts = np.full((3000, 2, 3), entry, np.float32)
        spreads.append(agent.randomize(contexts, np.zeros(3000, int), np.full(3000, entry)).std(axis=0))
    assert (spreads[1] > 0.8 * spreads[0]).all() and (spreads[0] > 0).all()


@pytest.mark.parametrize("name", AGENTS)
def test_3_schedules_do_not_depend_on_the_data(name: str) -> None:
    schedules = []
    for sign in (1.0, -1.0):
        agent, frozen = make(name, linear(), seed=0), []
        for t in range(100):
            frozen.append(agent.frozen_rounds())
            agent.update(np.full((2, 3), sign * (t % 7) / 7), t % 2, sign)
        schedules.append(frozen)
    assert schedules[0] == schedules[1] and len(set(schedules[0])) > 1


@pytest.mark.parametrize("name", AGENTS)
def test_4_agents_read_spaces_and_the_horizon_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = linear()
    env.reset(seed=0)

    def forbidden(*_: Any) -> Any:
        raise AssertionError("an agent looked into the world")

    for attribute in ("problem", "upcoming", "serve", "step", "reset"):
        monkeypatch.setattr(type(env.unwrapped), attribute, property(forbidden))
    agent = make(name, env, seed=0)
    agent.update(np.full((2, 3), 0.1), 0, 1.0)
    assert agent.select_action(np.full((2, 3), 0.1)) in (0, 1)


def test_5_the_difference_of_wisharts_attains_its_epsilon_in_the_corner() -> None:
    mechanism = WishartDifference.calibrate(1.0, 2)
    row, n = np.diag([1.0, 0.0]), 400_000
    noise = mechanism.noise(np.random.default_rng(0), (n, 2))
    least = np.linalg.eigvalsh

    def corner(z: np.ndarray) -> int:
        return int(((least(z[:, 0] - row)[:, 0] >= 0) & (least(z[:, 1])[:, 1] <= 0)).sum())

    likely, other = noise.copy(), noise.copy()
    likely[:, 0] += row
    other[:, 1] += row
    assert math.log(corner(likely) / corner(other)) == pytest.approx(1.0, abs=0.1)


def test_6_the_own_bin_varies_more_than_the_others() -> None:
    mechanism = BinCapSign(4.0, 20, 6)
    reports = mechanism.randomize(np.zeros(20_000, int), np.tile(np.eye(6)[0], (20_000, 1)), np.random.default_rng(0))
    spread = mechanism.estimate(reports).var(axis=0).mean(axis=1)
    assert spread[0] == pytest.approx(mechanism.variance(own=True), rel=0.05)
    assert spread[1:].mean() == pytest.approx(mechanism.variance(own=False), rel=0.05)
    assert mechanism.variance(own=True) > 3 * mechanism.variance(own=False)


@pytest.mark.parametrize(("epsilon", "own"), [(1.0, 0.92), (2.0, 0.49), (4.0, 0.164)])
def test_7_the_signed_subset_varies_as_stated_in_its_own_leaf(epsilon: float, own: float) -> None:
    mechanism = SignedSubset(epsilon, 16)
    assert mechanism.variance(own=True) / 4 == pytest.approx(own, rel=0.02)  # in units of S, half of the sign


def test_8_selection_and_release_use_separate_noise() -> None:
    mechanism, rng = GumbelTopK(1, 50.0, 1.0, 1.0), np.random.default_rng(0)
    errors = []
    for _ in range(4000):
        chosen, value = mechanism.release(np.array([1.0, -1.0]), rng)
        errors.append(float(value[0]) - (1.0, -1.0)[int(chosen[0])])
    assert abs(np.mean(errors)) < 5 / math.sqrt(4000) and np.std(errors) == pytest.approx(1.0, rel=0.05)
    paid = GumbelTopK.calibrate(rho=0.3, k=4, sup_sensitivity=1.5, kept=2)
    bounded_range, values = 2 * 1.5 / paid.beta, 6 * 1.5**2 / (2 * paid.sigma**2)
    assert 4 * bounded_range**2 / 8 + values == pytest.approx(0.3)  # epsilon^2 / 8 for each of the four choices


def test_9_the_slope_at_small_orders_is_not_the_price_of_objective_perturbation() -> None:
    sigma, delta, user = 13.2, 16.6, UserLoss.multinomial_logit(5, 10)
    assert certified_rho(sigma, delta, user) > 1.5 * (2 * 2**2 / sigma**2 + 1 / delta**2)


def test_10_a_counter_cut_to_bounded_memory_is_calibrated_to_its_own_encoder() -> None:
    rng = np.random.default_rng(0)
    cut, whole = (SquareRootToeplitz(10_000, 1, 1.0, 1.0, rng, bandwidth=b) for b in (100, None))
    assert cut.column_norm() ** 2 == pytest.approx(80.6, rel=0.01)
    assert whole.column_norm() ** 2 == pytest.approx(4.0, rel=0.01)
    assert cut.scale / whole.scale == pytest.approx(cut.column_norm() / whole.column_norm())
    with pytest.raises(ValueError):
        whole.add(np.array([math.nan]))


@pytest.mark.parametrize("wild", WILD)
def test_11_a_users_hessian_is_clipped_whatever_the_record(wild: float) -> None:
    bounds = {"radius": 1e6, "gradient_norm": 1.0, "trace": 1.0}
    features = np.array([[[wild, 2.0], [1.0, 30.0]]])
    gradient, hessian = clipped_derivatives(features, [0], [50.0, 1.0], **bounds)
    assert np.linalg.norm(gradient) <= 1 + 1e-12 and np.trace(hessian[0]) <= 1 + 1e-12
    assert np.linalg.eigvalsh(hessian[0]).min() >= -1e-12


def test_12_disjoint_episodes_cost_the_largest_and_everything_inside_one_adds() -> None:
    ledger = Ledger(rho=1.0)
    for episode in range(5):
        for _ in range(4):
            ledger.spend(zcdp(0.25), group=episode)
    assert ledger.spent().as_rho() == 1.0
    with pytest.raises(PrivacyBudgetExceeded):
        ledger.spend(zcdp(0.01), group=4)
    returning = Ledger(epsilon=3.0)
    for _ in range(3):
        returning.spend(pure(1.0))
    assert returning.spent_epsilon() == 3.0


def test_the_published_linucb_enters_what_it_really_spends() -> None:
    for epsilon, more in ((1.0, False), (1000.0, True)):
        with pytest.warns(UserWarning, match="published"):
            agent = make("ldp-linucb", linear(), seed=0, epsilon=epsilon, calibration="published")
        agent.update(np.full((2, 3), 0.1), 0, 1.0)
        assert not agent.guarantee.proven
        assert (agent.ledger.spent_epsilon(1e-5) > epsilon) == more  # type: ignore[attr-defined]
