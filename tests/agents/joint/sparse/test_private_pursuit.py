import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.joint.sparse.estimate import clipped
from privbandit_agents.joint.sparse.pursuit import agent as pursuit_agent
from privbandit_agents.joint.sparse.pursuit import plan, releases
from privbandit_agents.joint.sparse.pursuit.agent import PrivatePursuit
from privbandit_agents.joint.sparse.pursuit.belief import Belief
from privbandit_agents.joint.sparse.pursuit.learning import Pursuit
from privbandit_agents.joint.sparse.pursuit.releases import LEVELS, Batch
from privbandit_agents.privacy.accounting.costs import zcdp
from privbandit_agents.privacy.accounting.ledger import PrivacyBudgetExceeded
from privbandit_agents.privacy.contributions.support import in_own_units
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from privbandit_agents.privacy.vectors import LIMIT
from privbandit_agents.testing.noise import check_noise
from privbandit_agents.testing.replay import check_replay, replay
from privbandit_agents.testing.runs import environment
from privbandit_agents.testing.watchers import Writer, loss

SPARSE = "privbandit/SparseLinear-v0"
SMALL = "pursuit-test/SparseLinear-v0"
USERS, DIM = 40, 12
WILD = [1e38, -1e38, 1e308, 1e-308, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.0]
SUPPORT, THETA = np.array([2, 7, 5]), np.array([0.5, -0.4, 0.1])
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True, scope="module")
def small() -> None:
    from privbandit_envs import ENV_IDS, register

    if SMALL not in ENV_IDS:
        register(SMALL, "privbandit_envs.families.sparse:SparseLinearProblem", dim=25)


# what one record can move

CALLS: dict[str, Callable[[Batch], Any]] = {
    "quantile": lambda batch: batch.quantile(SUPPORT, THETA, 0.5, np.zeros(len(LEVELS)), 0.1),
    "newcomer": lambda batch: batch.newcomer(SUPPORT, THETA, 0.7, 0.8, 0.1),
    "newcomers": lambda batch: batch.newcomers(SUPPORT, THETA, 0.7, 3, 0.5, 0.1),
    "products": lambda batch: batch.products(SUPPORT, 3, 1.5, 0.1),
    "gradient": lambda batch: batch.gradient(SUPPORT, THETA, 0.7, 1.5, 0.1),
    "hessian": lambda batch: batch.hessian(SUPPORT, 1.5, 0.1),
    "choose": lambda batch: batch.choose([(SUPPORT, THETA), (SUPPORT[:1], THETA[:1])], 0.7, np.zeros(2), 0.1),
}


def told(record: tuple[Any, float], call: str) -> tuple[Any, Any, Any]:
    """Return (mechanism, exact value, what is released) of a batch whose first user has the given record."""
    rng, seen = np.random.default_rng(5), []
    x, y = rng.standard_normal((USERS, DIM)), rng.standard_normal(USERS)
    x[0], y[0] = record

    def publish(mechanism: Any, exact: Any, draw: Any, cost: Any) -> Any:
        assert cost == zcdp(mechanism.rho)
        seen.append((mechanism, exact, draw()))
        return seen[-1][2]

    batch = Batch(*in_own_units(*clipped(x, y, LIMIT, LIMIT)), 0.3, publish, np.random.default_rng(6), "numpy")
    batch.cap(0.4)
    CALLS[call](batch)
    assert len(seen) == 1 and batch.left == pytest.approx(0.9)
    return seen[0]


def cost(call: str, one: tuple[Any, float], other: tuple[Any, float]) -> float:
    """Return what replacing one record by another costs, over what the release may cost."""
    mechanism, exact, released = told(one, call)
    return float(loss(mechanism, exact, told(other, call)[1], released).as_rho() / mechanism.cost.as_rho())


def unit(*ones: int) -> Any:
    x = np.zeros(DIM)
    x[list(ones)] = 1.0
    return x


SIGNS = np.where(np.arange(DIM) % 2, -1.0, 1.0)
CROSS = np.where(np.isin(np.arange(DIM), SUPPORT), -1.0, 1.0)
ON_THE_BALL = np.sqrt(np.where(CROSS < 0, 1.5**2 / 3, (DIM - 1.5**2) / (DIM - 3)))  # |x| = R on the support
WORST: dict[str, tuple[tuple[Any, float], tuple[Any, float]]] = {
    "newcomer": ((SIGNS, 1e5), (-0.0001 * SIGNS, -1e5)),
    "newcomers": ((SIGNS, 1e5), (-0.0001 * SIGNS, -1e5)),
    "products": ((np.ones(DIM), 0.0), (CROSS, 0.0)),
    "gradient": ((ON_THE_BALL, 1e5), (ON_THE_BALL, -1e5)),
    "hessian": ((unit(2), 0.0), (unit(7), 0.0)),
    "choose": ((unit(2), 0.6), (unit(2, 7), -0.9)),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_replacing_a_record_costs_no_more_than_is_declared(call: str) -> None:
    rng = np.random.default_rng(7)
    records = [(rng.choice(WILD, DIM), float(rng.choice(WILD))) for _ in range(12)]
    records += [(rng.choice([1e3, 1.0, 0.1]) * rng.standard_normal(DIM), 10 * rng.standard_normal()) for _ in range(12)]
    records += [(np.where(rng.random(DIM) < 0.4, 10.0, 0.0), float(rng.choice([-9.0, 9.0]))) for _ in range(12)]
    records += list(WORST.get(call, ()))
    values = [told(record, call) for record in records]
    dearest = 0.0
    for mechanism, exact, released in values:
        costs = [loss(mechanism, exact, other, released).as_rho() for _, other, _ in values]
        dearest = max(dearest, max(costs) / mechanism.cost.as_rho())
    assert dearest <= 1 + 1e-9
    assert dearest > 0.2  # the records reach far, though not always the worst pair


@pytest.mark.parametrize("call", ["gradient", "hessian"])
def test_the_worst_pairs_attain_what_is_declared(call: str) -> None:
    assert cost(call, *WORST[call]) == pytest.approx(1, rel=1e-6)


def test_replacing_one_user_moves_the_sum_of_a_new_feature_by_twice_the_clips() -> None:
    far = np.where(np.isin(np.arange(DIM), SUPPORT), 0.0, 1.0)
    mechanism, up, _ = told((far, 1e5), "newcomer")
    _, down, _ = told((far, -1e5), "newcomer")
    assert np.abs(up - down).max() == pytest.approx(2 * 0.4 * 0.7, rel=1e-9)
    declared = (2 * 0.4 * 0.7) ** 2 / 2 * (1 / mechanism.beta**2 + 1 / mechanism.sigma**2)
    assert declared == pytest.approx(mechanism.rho, rel=1e-6)


def test_a_record_in_its_own_units_is_a_function_of_itself_and_finite() -> None:
    rng = np.random.default_rng(8)
    x, y = rng.choice(WILD, (50, DIM)), rng.choice(WILD, 50)
    features, rewards = in_own_units(*clipped(x, y, LIMIT, LIMIT))
    assert np.isfinite(features).all() and np.isfinite(rewards).all()
    assert (np.sqrt(np.mean(features**2, axis=1)) <= 1 + 1e-9).all()
    for k in range(50):
        alone = in_own_units(*clipped(x[k : k + 1], y[k : k + 1], LIMIT, LIMIT))
        assert np.array_equal(alone[0][0], features[k]) and alone[1][0] == rewards[k]


# the budget


def test_no_path_through_a_plan_needs_more_than_the_budget() -> None:
    for rho in (1e-6, 0.03, 0.5, 50.0, math.inf):
        for users in (1, 100, 5000):
            for known, tries in ((0, 1), (0, 2), (1, 3), (5, 80), (79, 1), (80, 0)):
                one = plan.planned(users, 400, known, tries, rho)
                spent = one.scale + one.again * max(tries - 1, 0) + tries * one.feature + one.last + one.choice
                assert spent <= 1 + 1e-12 and one.feature > 0
                if known:
                    assert 1 - spent >= 0.4 * known / (known + tries) - 1e-12 > 0


def pursuing(env_id: str = SMALL, horizon: int = 400, **config: Any) -> Any:
    env = gym.make(env_id, horizon=horizon)
    return env, make("private-pursuit", env, seed=0, **{"first": 20, **config})


@pytest.mark.parametrize("config", [{}, {"epsilon": 20.0}, {"rho": 3.0}, {"epsilon": 1e-3}])
def test_every_batch_spends_what_it_may_and_the_number_of_releases_varies(config: dict[str, Any]) -> None:
    env, agent = pursuing(**config)
    writer = agent.watcher = Writer()
    play(env, agent, 400, seed=0)
    sums: dict[int | None, float] = {}
    for note in writer.notes:
        assert note.cost is not None
        sums[note.group] = sums.get(note.group, 0.0) + note.cost.as_rho()
    dearest = max(sums.values())
    assert 0.9 * agent.rho < dearest <= agent.rho * (1 + 1e-9) and len(sums) > 4
    assert agent.ledger.spent().as_rho() == pytest.approx(dearest, rel=1e-9)
    assert len(set(Counter(note.group for note in writer.notes).values())) > 1


def test_shares_that_sum_to_more_than_the_budget_are_refused(monkeypatch: Patch) -> None:
    made = plan.planned

    def greedy(*args: Any) -> Any:
        one = made(*args)
        return dataclasses.replace(one, feature=1.3 * one.feature)

    monkeypatch.setattr(pursuit_agent, "planned", greedy)
    env, agent = pursuing()
    with pytest.raises(PrivacyBudgetExceeded):
        play(env, agent, 400, seed=0)


# leaks, and who finds them


def a_third_of_the_sensitivities(patch: Patch) -> None:
    patch.setattr(releases, "with_rounding", lambda bound, users: bound / 3)


def quantiles_for_half_a_user(patch: Patch) -> None:
    real = ExponentialChoice.from_rho
    patch.setattr(ExponentialChoice, "from_rho", lambda rho, D, noise="numpy": real(rho, D / 2, noise))


def vectors_of_any_length(patch: Patch) -> None:
    patch.setattr(releases, "within", lambda vectors, radius: (3 * vectors, np.ones(len(vectors))))


def failures_by_the_exact_residuals(patch: Patch) -> None:
    real = Pursuit._try

    def peeking(self: Pursuit, batch: Batch, one: Any) -> None:
        real(self, batch, one)
        exact = batch.residuals(self.belief.support, self.belief.theta)
        self.failed = 99 if np.abs(exact[0]) > 1 else 0

    patch.setattr(Pursuit, "_try", peeking)


def lengths_by_the_exact_rewards(patch: Patch) -> None:
    real = PrivatePursuit._learned

    def peeking(self: PrivatePursuit) -> Any:
        longer = int(self.rewards.view()[0] > 0)
        released = real(self)
        self.length += longer
        return released

    patch.setattr(PrivatePursuit, "_learned", peeking)


def a_free_scale(patch: Patch) -> None:
    patch.setattr(
        Batch,
        "quantile",
        lambda self, support, theta, q, prior, share: float(np.median(np.abs(self.residuals(support, theta)))),
    )


def unpaid(patch: Patch) -> None:
    publish = CentralAgent.publish
    patch.setattr(CentralAgent, "publish", lambda self, m, e, d, cost, group: publish(self, m, e, d, None, group))


def batches_that_keep_their_first_user(patch: Patch) -> None:
    real = PrivatePursuit._learned

    def keeping(self: PrivatePursuit) -> Any:
        x, y = self.features.view()[:1].copy(), self.rewards.view()[:1].copy()
        released = real(self)
        self.features.append(x)
        self.rewards.append(y)
        return released

    patch.setattr(PrivatePursuit, "_learned", keeping)


def half_the_noise_of_sums(patch: Patch) -> None:
    release = GumbelTopK.release
    half = lambda self, *args: release(dataclasses.replace(self, sigma=self.sigma / 2), *args)  # noqa: E731
    patch.setattr(GumbelTopK, "release", half)


SHORT: dict[str, Any] = {"first": 20, "epsilon": 5.0}
EARLY: dict[str, Any] = {"first": 12, "epsilon": 30.0, "fast": 1.1}  # knows features early: all kinds of releases


def late_replay(name: str, env_id: str, users: int, config: dict[str, Any]) -> None:
    """Replay with a target who comes when features are known, so that gradient, Hessian and choice are released."""
    costs, unseen = replay(name, env_id, users, config, 3 * users // 4)
    assert costs and not unseen


LEAKS: list[tuple[Callable[[Patch], None], Any, str]] = [
    (a_third_of_the_sensitivities, check_replay, "GumbelTopK costs"),
    (quantiles_for_half_a_user, check_replay, "ExponentialChoice costs"),
    (vectors_of_any_length, late_replay, "GridGaussian costs"),
    (failures_by_the_exact_residuals, check_replay, "publishes|frozen_rounds"),
    (lengths_by_the_exact_rewards, check_replay, "frozen_rounds"),
    (a_free_scale, check_replay, "publishes|release differs"),
    (unpaid, check_replay, "in the ledger"),
    (batches_that_keep_their_first_user, check_replay, "counts in groups"),
    (half_the_noise_of_sums, check_noise, "GumbelTopK"),
]


@pytest.mark.wide_at("batches_that_*", "a_third_*", "quantiles_*", "vectors_*", "half_the_noise_*")
@pytest.mark.parametrize(("leak", "check", "words"), LEAKS, ids=lambda case: getattr(case, "__name__", None))
def test_a_leak_is_found(leak: Any, check: Any, words: str, monkeypatch: Patch) -> None:
    leak(monkeypatch)
    with pytest.raises(AssertionError, match=words):
        check("private-pursuit", SMALL, 120, SHORT if check is check_noise else EARLY)


@pytest.mark.wide
def test_the_agent_as_it_is_passes_in_short_batches() -> None:
    for config in (SHORT, EARLY):
        check_replay("private-pursuit", SMALL, 120, config)
    late_replay("private-pursuit", SMALL, 120, EARLY)


def test_all_kinds_of_releases_are_seen_by_the_replay_of_short_batches() -> None:
    env = environment(SMALL, 100)
    agent: Any = make("private-pursuit", env, seed=12, **EARLY)
    writer = agent.watcher = Writer()
    play(env, agent, 200, seed=12)
    kinds = {(type(note.mechanism).__name__, np.ndim(note.exact), np.size(note.exact)) for note in writer.notes}
    assert ("ExponentialChoice", 1, 3) in kinds and ("ExponentialChoice", 1, len(LEVELS)) in kinds
    assert {"GumbelTopK", "GridGaussian"} <= {name for name, _, _ in kinds}


# what is learned


def test_a_belief_learns_as_conditioned_gaussians_do() -> None:
    rng = np.random.default_rng(9)
    belief = Belief()
    for feature in (4, 1, 8):
        belief.add(feature, np.zeros(len(belief)), math.inf, 2.0)
    slopes, noise = rng.standard_normal((2, 3)), np.diag([0.5, 0.1])
    found = rng.standard_normal(2)
    belief.measure(slopes, found, noise)
    precision = np.eye(3) / 2 + slopes.T @ np.linalg.solve(noise, slopes)
    assert np.allclose(np.linalg.inv(belief.covariance), precision)
    assert np.allclose(belief.theta, np.linalg.solve(precision, slopes.T @ np.linalg.solve(noise, found)))
    theta, covariance = belief.theta, belief.covariance
    belief.drop(1)
    gain = covariance[[0, 2], 1] / covariance[1, 1]
    assert np.allclose(belief.theta, theta[[0, 2]] - gain * theta[1]) and belief.support.tolist() == [4, 8]
    assert np.allclose(belief.covariance, covariance[np.ix_([0, 2], [0, 2])] - np.outer(gain, covariance[1, [0, 2]]))


def test_a_feature_that_stood_in_for_its_neighbour_gives_way() -> None:
    """Features 0 and 1 have correlation .8, and only 1 counts: 0 has .8 of its coefficient until 1 is found."""
    belief = Belief()
    belief.add(0, np.zeros(0), math.inf, 4.0)
    belief.measure(np.eye(1), np.array([0.8]), np.eye(1) * 1e-6)
    belief.add(1, np.array([0.8]), 1e-6, 4.0)
    gram = belief.gram()
    assert gram[0, 1] == pytest.approx(0.8, abs=1e-9)
    belief.measure(gram[1:], gram[1:] @ (np.array([0.0, 1.0]) - belief.theta), np.eye(1) * 1e-8)
    assert np.allclose(belief.theta, [0.0, 1.0], atol=0.01)


def test_products_that_may_be_noise_count_as_none() -> None:
    belief = Belief()
    belief.add(0, np.zeros(0), math.inf, 1.0)
    belief.add(1, np.array([0.4]), 0.2**2, 1.0)
    assert belief.gram()[0, 1] == pytest.approx(0, abs=1e-12)
    belief.weigh(np.array([[1.0, 0.4], [0.4, 1.0]]), np.full((2, 2), 0.01**2))
    assert belief.gram()[0, 1] == pytest.approx(0.4, abs=0.01)
    assert np.linalg.eigvalsh(belief.gram()).min() > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wild_records_leave_finite_releases(dtype: Any) -> None:
    _, agent = pursuing(epsilon=5.0)
    rng = np.random.default_rng(0)
    values = [value for value in WILD if dtype is np.float64 or not 1e38 < abs(value) < math.inf]
    for _ in range(30):
        contexts = rng.choice(values, (10, 3, 25)).astype(dtype)
        arms = agent.select_action(contexts)
        assert ((arms >= 0) & (arms < 3)).all()
        agent.update(contexts, rng.choice([0, 1, 2, -1, 7, 0.5, math.nan], 10), rng.choice(WILD, 10))
    arrays = agent.state()[0]
    assert agent.batch > 3
    assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")


@pytest.mark.wide_at("world[12]-*")
@pytest.mark.parametrize(
    ("world", "epsilon", "bound"),
    [({"correlation": 0.9}, 5.0, 0.3), ({"correlation": -0.8}, 5.0, 0.3), ({"sparsity": 20}, 20.0, 0.45)],
)
def test_regret_is_low_where_clipped_steps_diverge_or_miss(world: dict[str, Any], epsilon: float, bound: float) -> None:
    """Three thousand users; the usual ratios to uniform play are about half of the bounds."""
    env = gym.make(SPARSE, horizon=3000, dim=200, **world)
    agents = [make("private-pursuit", env, seed=s, epsilon=epsilon) for s in range(2)]
    regret = sum(play(env, agent, seed=s).regret[-1] for s, agent in enumerate(agents))
    uniform = sum(play(env, make("uniform", env, seed=s), seed=s).regret[-1] for s in range(2))
    assert regret < bound * uniform


def test_the_scale_of_rewards_is_found() -> None:
    ratios = []
    for scale in (1.0, 0.1, 100.0):
        env = gym.make(SPARSE, dim=100, horizon=2000, beta=[scale] * 4 + [0.0] * 96, noise_scale=0.1 * scale)
        agent, uniform = make("private-pursuit", env, seed=1, epsilon=5.0), make("uniform", env, seed=1)
        ratios.append(play(env, agent, seed=1).regret[-1] / play(env, uniform, seed=1).regret[-1])
    assert max(ratios) < 0.3


def test_the_scale_of_rewards_of_two_values_is_found() -> None:
    """Until a feature is found, all residuals are of one size, which half of them are never clearly below."""
    env = gym.make("privbandit/Linear-v0", n_arms=5, dim=5, horizon=2000)
    scales = []
    for seed in range(6):
        agent: Any = make("private-pursuit", env, seed=seed)
        play(env, agent, seed=1)
        scales.append(agent.pursuit.scale)
    assert max(scales) < 10 and min(scales) > 0.1


def test_without_noise_it_is_matching_pursuit() -> None:
    env = gym.make(SPARSE, dim=100, horizon=1500)
    agent: Any = make("private-pursuit", env, seed=0, epsilon=math.inf)
    play(env, agent, seed=0)
    beta = env.unwrapped.problem.beta  # type: ignore[attr-defined]
    assert np.linalg.norm(agent.release - beta) < 0.1


def test_the_first_batch_ends_at_a_public_time() -> None:
    assert make("private-pursuit", gym.make(SPARSE), epsilon=1e-4).frozen_rounds() == 5000
    assert 300 < make("private-pursuit", gym.make(SPARSE)).frozen_rounds() < 340
    assert make("private-pursuit", gym.make(SPARSE), epsilon=5.0).frozen_rounds() == 120


BAD: list[tuple[dict[str, Any], str]] = [
    ({"growth": 1.0}, "growth must be > 1; got 1.0."),
    ({"fast": 0.5}, "fast must be > 1; got 0.5."),
    ({"first": 0}, "first must be an integer >= 1; got 0."),
    ({"most": 0}, "most must be an integer >= 1; got 0."),
    ({"reward_scale": math.inf}, "reward_scale must be a finite number; got inf."),
    ({"noise": "loud"}, "noise must be one of"),
]


@pytest.mark.parametrize(("config", "message"), BAD)
def test_bad_settings_get_one_sentence(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        make("private-pursuit", gym.make(SPARSE), **config)
    assert message in str(error.value)
