from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import Explore, Ledger, Log, dr, ips, log, make, play, private_value, snips
from privbandit_agents.audits.games.values import bounded_mean
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.mechanisms import Request
from privbandit_agents.logs.estimates import ratio_error
from privbandit_agents.privacy import PrivacyBudgetExceeded
from scipy import stats

CHANCES, LAW = np.array([0.5, 0.3, 0.2]), np.array([[0.1, 0.9], [0.6, 0.4], [0.5, 0.5]])
MEANS, LOGGED = np.array([[0.2, 0.5], [-0.3, 0.6], [0.9, 0.0]]), np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])
TRUTH = float(CHANCES @ (LAW * MEANS).sum(axis=1))


def drawn(n: int, rng: np.random.Generator, shift: float = 0.0) -> Log:
    """A log of three contexts, two arms and rewards of +-1, by a law that is known."""
    rows = rng.choice(3, n, p=CHANCES)
    actions = (rng.random(n) > LOGGED[rows, 0]).astype(int)
    rewards = np.where(rng.random(n) < (1 + MEANS[rows, actions]) / 2, 1.0, -1.0) + shift
    contexts = np.eye(3)[rows]
    return Log(contexts, actions, rewards, LOGGED[rows, actions], rewards, np.zeros(n), {"least_propensity": 0.2})


def policy(contexts: np.ndarray) -> np.ndarray:
    return np.asarray(contexts @ LAW)


def exact(contexts: np.ndarray) -> np.ndarray:
    return np.asarray(contexts @ MEANS)


W = LAW / LOGGED
SPREADS = {
    ips: CHANCES @ (LAW * W).sum(axis=1) - TRUTH**2,
    snips: CHANCES @ (LAW * W * (1 - 2 * TRUTH * MEANS + TRUTH**2)).sum(axis=1),
    dr: CHANCES @ (LAW * W * (1 - MEANS**2)).sum(axis=1) + CHANCES @ (LAW * MEANS).sum(axis=1) ** 2 - TRUTH**2,
}
"""Variance of a user's term in closed form, rewards being +-1; that of dr with the exact model."""


@pytest.mark.parametrize("estimator", [ips, snips, dr])
def test_estimates_and_errors_are_those_of_closed_forms(estimator: Any) -> None:
    rng = np.random.default_rng(1)
    more = {"model": exact} if estimator is dr else {}
    found = [estimator(drawn(500, rng), policy, **more) for _ in range(400)]
    values, errors = np.array([one.value for one in found]), np.array([one.error for one in found])
    error = np.sqrt(SPREADS[estimator] / 500)
    assert np.abs(values.mean() - TRUTH) < 4 * error / 20
    assert values.std() == pytest.approx(error, rel=0.15) and errors.mean() == pytest.approx(error, rel=0.03)
    covered = np.mean([one.low <= TRUTH <= one.high for one in found])
    assert 0.91 < covered < 0.985, "four standard deviations around 95 %"


def test_the_model_of_earlier_users_leaves_dr_unbiased_and_shortens_it() -> None:
    rng = np.random.default_rng(2)
    found = [(dr(one, policy), ips(one, policy)) for one in (drawn(500, rng, shift=3.0) for _ in range(150))]
    values = np.array([one.value for one, _ in found])
    assert np.abs(values.mean() - TRUTH - 3) < 4 * values.std() / np.sqrt(150)
    assert np.mean([a.error / b.error for a, b in found]) < 0.6


def test_a_shift_of_rewards_moves_snips_by_as_much() -> None:
    plain, shifted = (snips(drawn(300, np.random.default_rng(3), shift), policy) for shift in (0.0, 5.0))
    assert shifted.value - plain.value == pytest.approx(5) and shifted.error == pytest.approx(plain.error)


def test_the_interval_of_snips_is_student_s_where_all_weigh_the_same() -> None:
    one = drawn(12, np.random.default_rng(8))
    found, rewards = snips(one, lambda x: x @ LOGGED, confidence=0.9), one.rewards
    low, high = stats.t.interval(0.9, 11, rewards.mean(), stats.sem(rewards))
    assert [found.low, found.high] == pytest.approx([low, high])


@pytest.mark.parametrize("heavy", [0.1, 0.5, 0.9, 0.99])
def test_error_and_freedom_are_those_of_the_quadratic_form(heavy: float) -> None:
    """With errors of variance 1 the squared error has the mean sum h^2, and the variance 2 tr G^2."""
    shares = np.append(np.array([0.0, 0.2, 0.3, 0.5]) * (1 - heavy), heavy)
    left = np.eye(5) - shares  # from errors to residuals: each row less the weighted mean
    form = np.array([[ratio_error(shares, left @ (a + b))[0] ** 2 for a in np.eye(5)] for b in np.eye(5)])
    alone = np.array([ratio_error(shares, left @ a)[0] ** 2 for a in np.eye(5)])
    form = (form - alone - alone[:, None]) / 2  # by polarisation
    assert np.trace(form) == pytest.approx(shares @ shares)
    assert ratio_error(shares, np.ones(5))[1] == pytest.approx(np.trace(form) ** 2 / np.trace(form @ form))


def test_snips_covers_where_few_users_have_most_of_the_weight() -> None:
    """100 users, of whom about ten have nine tenths of the weight; the first-order interval covers 87 %."""
    rng, covered = np.random.default_rng(9), 0
    for _ in range(1000):
        likely = rng.random(100) < 0.6
        chance = np.where(likely, 0.8, 0.1)
        actions = (rng.random(100) > chance).astype(int)
        rewards = np.where(likely, 0.5, -0.1) + 0.3 * rng.standard_normal(100)
        one = Log(np.ones((100, 1)), actions, rewards, np.abs(actions - chance), rewards, np.zeros(100), {})
        found = snips(one, np.tile([1.0, 0.0], (100, 1)))
        covered += found.low <= 0.26 <= found.high
    assert 925 <= covered <= 972, "three and a half standard deviations around 95 %"


@pytest.mark.parametrize("rest", [1e-3, 1e-6, 1e-12])
def test_a_share_of_nearly_all_leaves_one_degree_of_freedom(rest: float) -> None:
    shares = np.append(np.full(3, rest / 3), 1 - rest)
    error, freedom = ratio_error(shares, np.array([3.0, -1, 2, -1e-3 * rest]))
    assert 0 < error < 10 and freedom == pytest.approx(1, rel=1e-2)


def test_one_user_with_all_the_weight_is_no_interval() -> None:
    one, law = drawn(50, np.random.default_rng(0)), np.zeros((50, 2))
    law[np.arange(50), 1 - one.actions] = 1
    with pytest.raises(ValueError, match="no information"):
        snips(one, law)
    law[0] = law[0, ::-1]
    with pytest.raises(ValueError, match="2 users"):
        snips(one, law)


def test_the_policy_that_logged_has_its_own_mean() -> None:
    one = drawn(300, np.random.default_rng(4))
    assert ips(one, lambda x: x @ LOGGED).value == pytest.approx(one.rewards.mean())


def test_an_agent_is_a_policy_and_sets_can_be_judged() -> None:
    env: Any = gym.make("privbandit/Assortment-v0", n_items=4, capacity=1, horizon=2000).unwrapped
    logged = log(env, make("uniform", env, seed=0), 400, seed=0)
    assert ips(logged, make("uniform", env, seed=1)).value == pytest.approx(logged.rewards.mean())
    assert ips(logged, make("ucb-mnl", env, seed=1)).effective > 50
    with pytest.raises(TypeError, match="sets"):
        dr(logged, make("uniform", env, seed=1))


@pytest.mark.parametrize(
    "given", [LAW, LAW[:, 0], np.full((50, 2), 0.7), np.full((50, 2), np.nan), np.ones((50, 1)), lambda x: x[:3]]
)
def test_what_is_no_policy_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="polic"):
        ips(drawn(50, np.random.default_rng(0)), given)


def test_secure_noise_of_a_private_value_has_no_seed_and_the_same_size() -> None:
    one = drawn(400, np.random.default_rng(0))
    found = [
        private_value(one, policy, 1.0, rng=np.random.default_rng(0), noise=noise)
        for noise in ("numpy", "numpy", "secure", "secure")
    ]
    assert found[0].value == found[1].value and len({each.value for each in found}) == 3
    assert len({each.noise for each in found}) == 1
    values = [private_value(one, policy, 1.0, noise="secure").value for _ in range(200)]
    assert abs(np.std(values) / found[0].noise - 1) < 5 / np.sqrt(400)


def test_private_intervals_cover_and_have_the_noise_s_width() -> None:
    rng = np.random.default_rng(5)
    found = [private_value(drawn(400, rng), policy, 1.0, rng=rng) for _ in range(250)]
    values, first = np.array([one.value for one in found]), found[0]
    error = np.sqrt(SPREADS[ips] / 400 + first.noise**2)
    assert first.bound == 5 and first.noise == pytest.approx(2 * 5 / 400 * 3.7306, rel=1e-3)  # the analytic Gaussian
    assert values.std() == pytest.approx(error, rel=0.15)
    assert 0.9 < np.mean([one.low <= TRUTH <= one.high for one in found]) < 0.99
    assert all(one.high - one.low >= 2 * 1.95 * one.noise for one in found)


def test_infinite_epsilon_is_the_estimate_itself() -> None:
    one = drawn(300, np.random.default_rng(6))
    found, plain = private_value(one, policy, np.inf), ips(one, policy)
    assert found.value == pytest.approx(plain.value) and found.error == pytest.approx(plain.error, rel=0.01)


def test_the_ledger_is_told_and_refuses() -> None:
    one, ledger = drawn(100, np.random.default_rng(7)), Ledger(1.0, 1e-5)
    private_value(one, policy, 0.9, ledger=ledger)
    assert 0.89 < ledger.spent_epsilon() <= 0.9
    with pytest.raises(PrivacyBudgetExceeded):
        private_value(one, policy, 0.9, ledger=ledger)


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"delta": 1}, {"bound": -1}, {"confidence": 1.0}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        private_value(drawn(50, np.random.default_rng(0)), policy, **{"epsilon": 1.0, **wrong})


def test_without_a_public_bound_nothing_is_released() -> None:
    env: Any = gym.make("privbandit/Linear-v0", n_arms=2, dim=2, horizon=100).unwrapped
    with pytest.raises(ValueError, match="bound must be given"):
        private_value(log(env, make("linucb", env, seed=0), 50, seed=0), make("uniform", env), 1.0)


@pytest.mark.parametrize(("noise", "refuted"), [(1.0, False), (0.8, True)])
def test_the_audit_refutes_a_wrong_scale_alone(noise: float, refuted: bool) -> None:
    game = bounded_mean(Request(1.0, 1e-5), noise)
    game.name = "private-value"
    assert audit(game, 100_000, np.random.default_rng(1)).refuted == refuted


def test_two_users_have_an_interval_and_one_has_none() -> None:
    found = ips(drawn(2, np.random.default_rng(0)), np.full((2, 2), 0.5))
    assert found.users == 2 and found.low <= found.value <= found.high
    with pytest.raises(ValueError, match="at least 2 users; got 1"):
        ips(drawn(1, np.random.default_rng(0)), np.full((1, 2), 0.5))


@pytest.mark.slow
def test_intervals_cover_the_value_of_linucb_in_worlds_that_a_private_agent_logged() -> None:
    """500 worlds of 2000 users, of 256 contexts each, so that the value of a policy is a finite sum."""
    covered = np.array([intervals_that_cover(990_000 + k) for k in range(500)]).mean(axis=0)
    assert np.all((covered > 0.9) & (covered < 0.98)), "three standard deviations around 93 to 95 %"


def intervals_that_cover(seed: int) -> list[bool]:
    """Whether the interval of each estimate has the value of ``linucb`` as it stands after 300 users."""
    env: Any = gym.make("privbandit/Linear-v0", n_arms=3, dim=3, support=256, horizon=2000).unwrapped
    judged = make("linucb", env, seed=seed)
    play(env, judged, 300, seed=seed)
    contexts = env.support.contexts
    law = np.asarray(judged.probabilities(contexts))
    truth = float(env.support.probabilities @ (law * env.problem.means(contexts)).sum(axis=1))
    logged = log(env, Explore(make("jdp-linucb", env, seed=seed + 1, epsilon=1.0), 0.1, seed), 2000)
    chances = np.asarray(judged.probabilities(logged.contexts))
    found: list[Any] = [estimator(logged, chances) for estimator in (ips, snips, dr)]
    found.append(private_value(logged, chances, 1.0, rng=np.random.default_rng(seed)))
    return [bool(one.low <= truth <= one.high) for one in found]
