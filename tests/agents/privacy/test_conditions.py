"""The conditions that every private agent and mechanism here has to keep, one test each (docs/privacy/index.md)."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import classification, clipped_derivatives
from privbandit_agents import make
from privbandit_agents.audits.games.servers import three_labels
from privbandit_agents.audits.registry import private_agents
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.privacy.accounting.costs import pure, zcdp
from privbandit_agents.privacy.accounting.ledger import Ledger, PrivacyBudgetExceeded
from privbandit_agents.privacy.mechanisms.counters import SquareRootToeplitz
from privbandit_agents.privacy.mechanisms.objective import UserLoss, certified_rho
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from privbandit_agents.privacy.mechanisms.spherical import WishartDifference
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset, UnaryEncoding
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere
from privbandit_agents.testing.watchers import Forcer, Writer
from privbandit_agents.zoo.registry import can_play, find

OWN_BOUNDS = (
    *("dp-se", "adap-klucb", "fliphat", "private-pursuit", "private-lasso"),
    *("dpmnl", "dpmnl-approx", "newton-mnl", "jdp-glm", "jdp-kernel", "shuffle-glm"),
)
"""Their sums have bounds of their own: tests/agents/joint, tests/agents/shuffle."""
SUMS = ("counter.total", "counter.sum", "counter.exact")
TOTALS = ("total", *SUMS, *(f"schedule.{name}" for name in SUMS))
WILD = [math.nan, math.inf, -math.inf, 1e38, -1e308]


def linear(**kwargs: Any) -> Any:
    return gym.make("privbandit/Linear-v0", n_arms=2, dim=3, horizon=200, **kwargs)


WORLDS: dict[str, tuple[Any, Any, Any]] = {
    "linear": (linear(), np.full((2, 3), 0.5), (1.0, -1.0)),
    "labels": (classification(200), np.full(2, 0.7), (1.0, 0.0)),
    "three labels": (three_labels(200), np.full(2, 0.7), (1.0, 0.0)),
    "sets": (gym.make("privbandit/Assortment-v0", n_items=4, capacity=2, dim=2, horizon=200), np.eye(4, 3), (1.0, 0.0)),
    "arms": (gym.make("privbandit/Bandit-v0", n_arms=2, horizon=200), np.zeros(()), (1.0, 0.0)),
}
"""A world of each kind, a context, and two answers that lie far apart."""
ACTIONS = {"sets": (np.array([1, 1, 0, 0], np.int8), np.array([0, 1, 1, 0], np.int8))}
"""Two actions, where they are not the numbers 0 and 1."""
AGENTS = [(name, world) for name in private_agents() for world, (env, *_) in WORLDS.items() if can_play(name, env)]
LOCAL = [(name, world) for name, world in AGENTS if issubclass(find(name).load(), LocalAgent)]
"""All local agents play one of these worlds."""


def action(world: str, number: int) -> Any:
    return ACTIONS[world][number] if world in ACTIONS else number


def test_all_local_agents_are_held_to_the_conditions() -> None:
    local = {name for name in private_agents() if issubclass(find(name).load(), LocalAgent)}
    assert {name for name, _ in LOCAL} == local and len(local) >= 17


@pytest.mark.every_agent
@pytest.mark.wide_at("1e+38-*", "*-kernel-ldp-*")
@pytest.mark.parametrize(("name", "world"), [(name, world) for name, world in AGENTS if name not in OWN_BOUNDS])
@pytest.mark.parametrize("wild", WILD)
def test_1_records_are_sanitised_first(name: str, world: str, wild: float) -> None:
    """Without noise, a user adds no more to a sum than a ball of radius 2 allows."""
    env, context, (answer, _) = WORLDS[world]
    agent = make(name, env, seed=0, epsilon=math.inf)
    for bad_context, feedback in ((np.full(context.shape, wild), answer), (context, wild)):
        before = agent.state()[0]
        agent.update(bad_context, action(world, 0), feedback)
        arrays = agent.state()[0]
        assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")
        totals = [key for key in arrays if key.removeprefix("schedule.") in TOTALS]
        assert totals, "the running sum has another name"
        for key in totals:
            assert np.linalg.norm(arrays[key] - before[key]) <= bound_of(agent) * (1 + 1e-9)


def bound_of(agent: Any) -> float:
    """Return what one user may add: 2, but where labels are explored over the chance that an answer revealed one."""
    labels = getattr(agent, "n_labels", 2)
    return 2.0 if labels == 2 or not agent.exploration else labels / agent.exploration


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


@pytest.mark.every_agent
@pytest.mark.wide_at("0.0-*", "*-kernel-ldp-*")
@pytest.mark.parametrize(("name", "world"), LOCAL)
@pytest.mark.parametrize("record", [math.nan, 0.0])
def test_2_records_that_say_nothing_are_reported_with_the_same_noise(name: str, world: str, record: float) -> None:
    env, context, _ = WORLDS[world]
    agent: Any = make(name, env, seed=0)
    spreads = []
    for entry in (0.5, record):
        contexts = np.full((600, *context.shape), entry, np.float32)
        reports = agent.randomize(contexts, np.array([action(world, 0)] * 600), np.full(600, entry))
        spreads.append(estimates_of(agent, reports).std(axis=0))
    assert (spreads[1] > 0.75 * spreads[0]).all() and (spreads[0] > 0).all()


def estimates_of(agent: Any, reports: Any) -> Any:
    """Return what a server of labels makes of reports: those of k-ary response are numbers of cells."""
    return agent.report.estimate(reports) if reports.ndim == 1 else reports


@pytest.mark.every_agent
@pytest.mark.wide_at("x-*", "y-*", "both-smooth-*", "both-[dl]*mnl-sets", "*-kernel-ldp-*", "*-jdp-kernel-three*")
@pytest.mark.parametrize(("name", "world"), AGENTS)
@pytest.mark.parametrize("differs", ["x", "y", "both"])
def test_3_schedules_do_not_depend_on_the_data(name: str, world: str, differs: str) -> None:
    """Two worlds, whose users differ in x alone, in y alone, and in both; what is released or reported is the same."""
    env, context, answers = WORLDS[world]
    schedules, writer = [], Writer()
    reports: list[Any] = []
    for other in (False, True):
        agent, frozen = make(name, env, seed=0), []
        if isinstance(agent, LocalAgent):
            randomize, sent = agent.randomize, iter(tuple(reports))

            def told(*record: Any, randomize: Any = randomize, sent: Any = sent, other: bool = other) -> Any:
                report = randomize(*record)
                if other:
                    return next(sent)
                reports.append(report)
                return report

            agent.randomize = told  # type: ignore[assignment,method-assign]
        if isinstance(agent, CentralAgent):
            agent.watcher = Forcer(writer.notes, "the other world") if other else writer
        moved = -1.0 if world == "linear" else 0.3
        x = context * moved if other and differs != "y" else context
        y = answers[int(other and differs != "x")]
        for t in range(100):
            frozen.append(agent.frozen_rounds())
            agent.update(x * (t % 7) / 7, action(world, t % 2), y)
        schedules.append(frozen)
    assert schedules[0] == schedules[1]
    assert len(set(schedules[0])) > 1 or schedules[0][0] == 1, "the policy never changes"


@pytest.mark.every_agent
@pytest.mark.wide_at("kernel-ldp-three*")
@pytest.mark.parametrize(("name", "world"), AGENTS)
def test_4_agents_read_spaces_and_the_horizon_alone(name: str, world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And public data, which everybody may know."""
    env, context, (answer, _) = WORLDS[world]

    def forbidden(*_: Any) -> Any:
        raise AssertionError("an agent looked into the world")

    for attribute in ("problem", "upcoming", "serve", "step", "reset"):
        monkeypatch.setattr(type(env.unwrapped), attribute, property(forbidden), raising=False)
    agent = make(name, env, seed=0)
    agent.update(context, action(world, 0), answer)
    assert env.action_space.contains(np.asarray(agent.select_action(context))[()])


@pytest.mark.wide
def test_5_the_difference_of_wisharts_attains_its_epsilon_in_the_corner() -> None:
    mechanism = WishartDifference.from_epsilon(1.0, 2)
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


@pytest.mark.wide
def test_8_selection_and_release_use_separate_noise() -> None:
    mechanism, rng = GumbelTopK(1, 50.0, 1.0, 1.0), np.random.default_rng(0)
    errors = []
    for _ in range(4000):
        chosen, value = mechanism.release(np.array([1.0, -1.0]), rng)
        errors.append(float(value[0]) - (1.0, -1.0)[int(chosen[0])])
    assert abs(np.mean(errors)) < 5 / math.sqrt(4000) and np.std(errors) == pytest.approx(1.0, rel=0.05)
    paid = GumbelTopK.from_rho(rho=0.3, k=4, sup_sensitivity=1.5, kept=2)
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
