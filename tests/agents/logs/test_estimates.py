import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import Explore, Ledger, Log, dm, dr, ips, log, make, play, private_value, snips
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.mechanisms import Request, bounded_mean
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


@pytest.mark.wide_at("ips", "snips")
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


def test_limited_weights_lie_between_the_direct_method_and_dr() -> None:
    """The formulas of the papers, written out; 0 and infinity are dm and dr."""
    one = drawn(400, np.random.default_rng(5))
    q, rows = exact(one.contexts) + 0.1, np.arange(400)
    w, off = policy(one.contexts)[rows, one.actions] / one.propensities, one.rewards - q[rows, one.actions]
    direct = float((policy(one.contexts) * q).sum(axis=1).mean())
    model = lambda _: q  # noqa: E731
    assert dm(one, policy, model).value == pytest.approx(direct, abs=1e-12) and "model" in dm(one, policy).assumes
    limit: Any
    for limit, used in (("switch", np.where(w <= 1.2, w, 0)), ("shrink", 1.2 * w / (w**2 + 1.2))):
        found = dr(one, policy, model, limit=limit, threshold=1.2)
        assert found.value == pytest.approx(direct + float((used * off).mean()), abs=1e-12)
        assert f"{float(((used - w) * off).mean()):.3g}" in found.assumes
        for threshold, same in ((0.0, dm), (np.inf, dr)):
            ends = dr(one, policy, model, limit=limit, threshold=threshold).value, same(one, policy, model).value
            assert ends[0] == pytest.approx(ends[1], abs=1e-12)


def test_the_threshold_is_chosen_for_the_least_error() -> None:
    """Weights up to 100 on noise: a right model makes them needless, and the square error falls to a half or less."""
    errors: dict[str, list[float]] = {"none": [], "switch": [], "shrink": []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.random((300, 1))
        p = np.where(x[:, 0] < 0.1, 0.01, 0.5)
        actions = (rng.random(300) < p).astype(int)
        rewards = (rng.random(300) < 0.5).astype(float)
        one = Log(x, actions, rewards, np.where(actions == 1, p, 1 - p), rewards, np.zeros(300))
        law = np.tile([0.0, 1.0], (300, 1))
        for limit, found in errors.items():
            found.append((dr(one, law, lambda _: np.full((300, 2), 0.5), limit=limit).value - 0.5) ** 2)  # type: ignore[arg-type]
    assert max(np.mean(errors["switch"]), np.mean(errors["shrink"])) < 0.5 * np.mean(errors["none"])


def test_the_model_of_earlier_users_leaves_dr_unbiased_and_shortens_it() -> None:
    rng = np.random.default_rng(2)
    found = [(dr(one, policy), ips(one, policy)) for one in (drawn(500, rng, shift=3.0) for _ in range(60))]
    values = np.array([one.value for one, _ in found])
    assert np.abs(values.mean() - TRUTH - 3) < 4 * values.std() / np.sqrt(60)
    assert np.mean([a.error / b.error for a, b in found]) < 0.6


def test_a_shift_of_rewards_moves_snips_by_as_much() -> None:
    plain, shifted = (snips(drawn(300, np.random.default_rng(3), shift), policy) for shift in (0.0, 5.0))
    assert shifted.value - plain.value == pytest.approx(5) and shifted.error == pytest.approx(plain.error)


@pytest.mark.parametrize(("clicks", "rows"), [(0, 20), (0, 10_000), (1, 50), (5, 1000), (40, 100), (99, 100), (7, 7)])
def test_the_interval_of_one_arm_is_exact(clicks: int, rows: int) -> None:
    """Clopper and Pearson's; ips of one arm in two has it for twice the rate, cut to [0, 1]."""
    rewards = np.repeat([1.0, 0.0], [clicks, rows - clicks])
    exact = stats.binomtest(clicks, rows).proportion_ci(0.95, "exact")
    one = Log(np.ones((rows, 1)), np.zeros(rows, int), rewards, np.full(rows, 0.5), rewards, np.zeros(rows))
    for estimator, scale in ((snips, 1), (ips, 2)):
        found = estimator(one, np.ones((rows, 1)))
        assert [found.low, found.high] == pytest.approx(
            np.clip([scale * exact.low, scale * exact.high], 0, 1), abs=1e-7
        )


@pytest.mark.wide
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
    assert 925 <= covered <= 992, "three and a half standard deviations around 95 to 98 %"


def test_a_row_is_an_interval_and_none_is_refused() -> None:
    one, law = drawn(50, np.random.default_rng(0)), np.zeros((50, 2))
    law[np.arange(50), 1 - one.actions] = 1
    for estimator in (ips, snips, dr):
        with pytest.raises(ValueError, match=r"arms 0, 1.*no information"):
            estimator(one, law)
    law[0] = law[0, ::-1]
    found = snips(one, law)
    assert found.effective == 1 and found.high - found.low > 1.9, "one of two rewards says next to nothing"


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
    one = drawn(2, np.random.default_rng(0), shift=1.0)
    one = dataclasses.replace(one, about={"reward_range": [0, 2]})
    found = ips(one, np.eye(2)[one.actions])
    assert found.users == 2 and found.low <= found.value <= found.high
    with pytest.raises(ValueError, match="at least 2 users; got 1"):
        ips(drawn(1, np.random.default_rng(0)), np.full((1, 2), 0.5))


def clicks_of(n: int, seed: int, people: bool = False, **about: Any) -> Log:
    """A log of four arms with rare clicks, few kinds of context and propensities that differ."""
    rng = np.random.default_rng(seed)
    contexts = rng.integers(3, size=(n, 2)).astype(float)
    law = rng.dirichlet(np.ones(4), size=3)[contexts[:, 0].astype(int)] * 0.8 + 0.05
    actions = np.array([rng.choice(4, p=one) for one in law])
    rewards = (rng.random(n) < 0.02 * (1 + actions)).astype(float)
    who = rng.integers(n // 3, size=n) if people else None
    return Log(contexts, actions, rewards, law[np.arange(n), actions], rewards, np.zeros(n), about, people=who)


def shuffled(one: Log, order: np.ndarray) -> Log:
    return Log(**{name: array[order] for name, array in one.arrays.items()}, about=one.about)


@pytest.mark.wide_at("False")
@pytest.mark.parametrize("people", [False, True])
def test_no_order_of_the_rows_changes_an_estimate(people: bool) -> None:
    one = clicks_of(900, 0, people)
    law = np.random.default_rng(1).dirichlet(np.ones(4), size=900)
    orders = [np.random.default_rng(seed).permutation(900) for seed in range(10)]
    orders += [np.argsort(key, kind="stable") for key in (one.actions, one.rewards, one.propensities)]
    for estimator in (ips, snips, dr):
        first = np.array(dataclasses.astuple(estimator(one, law))[:-1])
        for order in orders:
            again = np.array(dataclasses.astuple(estimator(shuffled(one, order), law[order]))[:-1])
            assert np.abs(again - first).max() < 1e-12
    values = [dr(one, law, rng=np.random.default_rng(seed)).value for seed in range(20)]
    assert 0 < np.std(values) < (first[3] - first[2]) / 5, "folds matter less than rows"


def test_estimates_from_a_table_have_no_order_of_rows_though_propensities_are_estimated() -> None:
    pytest.importorskip("sklearn")
    one = clicks_of(300, 2)
    columns = {"x": one.contexts[:, 0], "y": one.contexts[:, 1], "arm": one.actions, "click": one.rewards}
    found = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(300)
        read = Log.from_table({name: column[order] for name, column in columns.items()}, action="arm", reward="click")
        found.append(dr(read, lambda x: np.eye(4)[x[:, 1].astype(int)]))
    assert np.ptp([one.value for one in found]) < 1e-12 and np.ptp([one.high for one in found]) < 1e-12


def test_rows_sorted_by_arm_have_each_arm_s_mean() -> None:
    rng = np.random.default_rng(0)
    actions = np.repeat([0, 1], 5000)
    rewards = (rng.random(10_000) < np.where(actions == 0, 0.6, 0.4)).astype(float)
    one = Log(rng.normal(size=(10_000, 2)), actions, rewards, np.full(10_000, 0.5), rewards, np.zeros(10_000))
    for arm, truth in enumerate((0.6, 0.4)):
        found = dr(one, np.tile(np.eye(2)[arm], (10_000, 1)))
        assert abs(found.value - truth) < 0.02 and found.low < truth < found.high


def test_earlier_users_alone_teach_the_model_if_the_log_says_that_it_is_in_order(tmp_path: Any) -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=2, dim=2, horizon=400)
    logged = log(env, Explore(make("linucb", env, seed=0), 0.5, seed=0), 400, seed=0)
    law = np.full((400, 2), 0.5)
    assert dr(shuffled(logged, np.arange(400)), law) == dr(logged, law)
    assert dr(logged[::-1], law).value != dr(logged, law).value and not logged[::-1].about["in_order"]
    free = dataclasses.replace(logged, about=logged.about | {"in_order": False})
    assert dr(free, law).value == pytest.approx(dr(logged[::-1], law).value, abs=1e-12) != dr(logged, law).value
    rows = {"x": logged.contexts[:, 0, 0], "arm": logged.actions, "r": logged.rewards, "p": logged.propensities}
    roles: dict[str, Any] = {"action": "arm", "reward": "r", "propensity": "p"}
    read, claimed = Log.from_table(rows, **roles), Log.from_table(rows, in_order=True, **roles)
    assert "in_order" not in read.about and claimed.about["in_order"]
    assert dr(read, law).value != dr(claimed, law).value


NOTHING: dict[str, tuple[Any, str]] = {
    "an arm that no row has": (np.tile([0.5, 0, 0, 0.5], (60, 1)), "arms dead00 for 50.00% of users"),
    "a log that could take nothing else": (np.tile([0.5, 0.5, 0, 0], (60, 1)), r"arms one, two.*propensity 1"),
}


@pytest.mark.parametrize("case", NOTHING)
@pytest.mark.parametrize("estimator", [ips, snips, dr])
def test_a_policy_that_the_log_could_not_follow_is_refused(case: str, estimator: Any) -> None:
    law, why = NOTHING[case]
    about = {"arms": ["one", "two", "three", "dead00"]}
    actions = np.arange(60) % 3
    one = Log(np.ones((60, 1)), actions, np.zeros(60), np.ones(60), np.zeros(60), np.zeros(60), about)
    with pytest.raises(ValueError, match=why) as told:
        estimator(one, law)
    assert "\n" not in str(told.value)
    same = estimator(one, np.eye(4)[actions])
    assert same.value == 0 < same.high < 0.07, "the logged policy itself can be judged"


def test_no_interval_has_width_0() -> None:
    one = clicks_of(400, 3)
    for rewards in (np.zeros(400), np.ones(400)):
        same = dataclasses.replace(one, rewards=rewards)
        for estimator in (ips, snips, dr):
            found = estimator(same, np.full((400, 4), 0.25))
            assert 0 <= found.low < found.high <= 1
    with pytest.raises(ValueError, match="all rewards are 5: about"):
        ips(dataclasses.replace(one, rewards=np.full(400, 5.0)), np.full((400, 4), 0.25))
    known = dataclasses.replace(one, rewards=np.full(400, 5.0), about={"reward_range": [0, 10]})
    assert snips(known, np.full((400, 4), 0.25)).low < 5 < snips(known, np.full((400, 4), 0.25)).high
    with pytest.raises(ValueError, match="reward_range must"):
        snips(dataclasses.replace(known, about={"reward_range": [0, 4]}), np.full((400, 4), 0.25))


def test_a_weight_that_a_policy_cannot_have_does_not_widen_its_interval() -> None:
    """A policy that spreads over half of the arms has at most half the weight of one that takes one of them."""
    one = clicks_of(2000, 4)
    one = dataclasses.replace(one, propensities=np.full(2000, 0.25))
    spread, alone = (snips(one, np.tile(law, (2000, 1))) for law in ([0.5, 0.5, 0, 0], [1.0, 0, 0, 0]))
    pooled = one.rewards[one.actions < 2]
    exact = stats.binomtest(int(pooled.sum()), len(pooled)).proportion_ci(0.95, "exact")
    assert [spread.low, spread.high] == pytest.approx([exact.low, exact.high], abs=1e-6)
    assert alone.high - alone.low > spread.high - spread.low


@pytest.mark.parametrize("off", [-1.0, 2.0])
def test_a_model_beyond_the_rewards_leaves_rows_of_weight_0_possible(off: float) -> None:
    """All five users got the policy's arm by chance, so that nothing corrects the model: the interval is wide."""
    clicks = np.array([0.0, 1, 0, 1, 0])
    log = Log(np.ones((5, 1)), np.zeros(5, int), clicks, np.full(5, 0.5), clicks, np.zeros(5))
    found = dr(log, np.tile([1.0, 0], (5, 1)), lambda contexts: np.full((5, 2), off))
    assert found.value == pytest.approx(0.8 - off) and found.high - found.low > 0.2


def test_people_who_return_make_rows_count_less() -> None:
    """200 people of 20 visits, half of whom always click: 4000 rows say as much as 200."""
    clicks = np.repeat(np.arange(200) % 2, 20).astype(float)
    arms, who, law = np.tile([0, 1], 2000), np.repeat(np.arange(200), 20), np.full((4000, 2), 0.5)
    rows: tuple[Any, ...] = (np.ones((4000, 1)), arms, clicks, np.full(4000, 0.5), clicks, np.zeros(4000))
    exact = stats.binomtest(100, 200).proportion_ci(0.95, "exact")
    for estimator in (ips, snips, dr):
        named, apart = estimator(dataclasses.replace(Log(*rows), people=who), law), estimator(Log(*rows), law)
        assert [named.low, named.high] == pytest.approx([exact.low, exact.high], abs=3e-3)
        assert apart.high - apart.low < 0.3 * (named.high - named.low)


RARE = [(0.002, 40, 1.0), (0.002, 1000, 1.0), (0.02, 150, 0.2), (0.02, 1000, 0.05), (0.2, 40, 0.1)]
"""Rates, rows an arm, and the least propensity's share of 1 / K in a skewed log."""


@pytest.mark.wide
@pytest.mark.parametrize(("rate", "rows", "skew"), RARE)
def test_intervals_of_rare_clicks_cover_the_truth(rate: float, rows: int, skew: float) -> None:
    """Two standard errors of 200 logs below .95 are .92; clicks lie where the log seldom looked."""
    rng, law = np.random.default_rng([rows, 1]), np.tile([1.0, 0, 0], (3 * rows, 1))
    chances = skew ** np.linspace(0, 1, 10) / 3
    rates = rate * chances**-0.5 / np.mean(chances**-0.5)
    hits = np.zeros(3)
    for _ in range(200):
        kinds = rng.integers(10, size=3 * rows)
        actions = np.where(rng.random(3 * rows) < chances[kinds], 0, rng.integers(1, 3, size=3 * rows))
        rewards = (rng.random(3 * rows) < rates[kinds]).astype(float)
        p = np.where(actions == 0, chances[kinds], (1 - chances[kinds]) / 2)
        one = Log(np.eye(10)[kinds], actions, rewards, p, rewards, np.zeros(3 * rows))
        found = [estimator(one, law) for estimator in (ips, snips, dr)]
        hits += [each.low <= rate <= each.high for each in found]
    assert (hits / 200 > 0.915).all(), hits / 200


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
