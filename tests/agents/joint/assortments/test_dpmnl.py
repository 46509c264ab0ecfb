import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import load, make, play, save
from privbandit_agents.bounds.assortments import regret_upper_bound
from privbandit_agents.joint.assortments.dpmnl_settings import exploration_length, spread_trigger
from privbandit_agents.joint.assortments.private_cov import PrivateCov, gram_sensitivity, lemma_s6
from privbandit_agents.privacy.accounting.ledger import PrivacyBudgetExceeded
from privbandit_agents.privacy.mechanisms import objective
from privbandit_agents.privacy.mechanisms.counters import Counter
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss, certified_rho
from privbandit_agents.privacy.mechanisms.objective_approximate import perturbation, published
from privbandit_agents.testing.loops import check_frozen, check_resume
from privbandit_agents.testing.runs import same_parts, same_state
from scipy import stats

ASSORTMENT = "privbandit/Assortment-v0"
BOTH = ("dpmnl", "dpmnl-approx")
N, K, D, T = 12, 3, 2, 400
WILD = [math.nan, math.inf, -math.inf, 1e38, -1e38, 1e308]
both = pytest.mark.parametrize("name", BOTH)


def unwatched(mechanism: Any, exact: Any, draw: Any) -> Any:
    return draw()


def small(**kwargs: Any) -> Any:
    settings = {"n_items": N, "capacity": K, "dim": D, "horizon": T, **kwargs}
    return gym.make(ASSORTMENT, **settings).unwrapped


def agent_of(name: str = "dpmnl", seed: int = 0, env: Any = None, **config: Any) -> Any:
    return make(name, env or small(), seed=seed, **config)


def records(n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return n users who buy one of the first K items, or nothing."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((n, N, D + 1))
    contexts[..., -1] = 1.0
    sets = np.zeros((n, N), np.int8)
    sets[:, :K] = 1
    return contexts, sets, rng.integers(-1, K, n)


def taught(name: str = "dpmnl", users: int = 200, **config: Any) -> Any:
    env, agent = small(), agent_of(name, **config)
    play(env, agent, users, seed=0)
    return agent


# Calibration


@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
@pytest.mark.parametrize("radius", [0.5, 2.5])
def test_the_counter_covers_the_gram_matrices_at_its_share(counter: str, radius: float) -> None:
    agent = agent_of(rho=0.7, mle_share=0.8, radius=radius, counter=counter)
    built = agent.cov.counter
    expected = math.sqrt(2) * K * radius**2 * built.column_norm() / math.sqrt(2 * 0.2 * 0.7)
    assert built.scale == pytest.approx(expected, rel=1e-12) and built.horizon == T
    assert agent.ledger.spent().rho == pytest.approx(0.2 * 0.7)


@pytest.mark.wide_at("[13].0-dimension-free")
@pytest.mark.parametrize("calibration", ["dimension-free", "published"])
@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_a_call_costs_its_share_and_no_more(calibration: str, radius: float) -> None:
    for rho in (1e-3, 1.0, 100.0):
        mle = agent_of(rho=rho, radius=radius, calls=5, objective=calibration).mle
        exact = certified_rho(mle.sigma, mle.Delta, UserLoss.multinomial_logit(D, K, radius))
        spent = exact + (2 * mle.tau / mle.Delta) ** 2 / (2 * mle.output_sigma**2)
        assert spent <= 0.9 * rho / 5 * (1 + 1e-9)
        assert mle.cost.rho == pytest.approx(0.9 * rho / 5)
        if calibration == "dimension-free":
            assert spent >= 0.9 * rho / 5 * (1 - 1e-6)


def test_the_published_objective_is_theorem_1_with_the_right_constants() -> None:
    q, rho = 0.5, 0.9 / 8 * (1 - 1e-4)
    mle = agent_of(objective="published", radius=2.0).mle
    assert mle.Delta == pytest.approx(4 / math.expm1((1 - q) * rho / min(D, K)))
    assert mle.sigma == pytest.approx(4 * (math.sqrt(D + 2 * q * rho) + math.sqrt(D)) / (q * rho))


def test_epsilon_and_delta_are_converted_tightly() -> None:
    agent = agent_of(epsilon=1.0, delta=1e-6)
    assert (agent.guarantee.epsilon, agent.guarantee.delta) == (1.0, 1e-6)
    assert agent_of(rho=agent.guarantee.rho).mle == agent.mle
    assert agent_of().guarantee.rho == 1.0 and agent_of(epsilon=1.0).guarantee.delta == 1e-5


def test_the_benchmark_splits_epsilon_and_delta() -> None:
    agent, calls = agent_of("dpmnl-approx", calls=4, rho=0.5, radius=1.5), 4
    delta = 1 / T**2
    epsilon = 0.5 + 2 * math.sqrt(0.5 * math.log(T**2))
    assert agent.guarantee.epsilon == pytest.approx(epsilon) and agent.guarantee.delta == pytest.approx(delta)
    one = agent.mle.cost
    assert (one.epsilon, one.delta) == pytest.approx((0.9 * epsilon / calls, 0.9 * delta / calls), rel=1e-6)
    user, u = UserLoss.multinomial_logit(D, K, 1.5), 3.0 / agent.mle.sigma
    left = one.epsilon * (1 - 1e-3) - 2 * u**2 - D * math.log1p(1.5**2 / agent.mle.Delta / D)
    assert user.trace == 1.5**2 and stats.chi.sf(left / (2 * u), D) <= one.delta
    counter, e, d = agent.cov.counter, 0.1 * epsilon, 0.1 * delta
    m = counter.column_norm() ** 2
    assert counter.scale**2 == pytest.approx(32 * m * (K * 1.5**2) ** 2 * math.log(4 / d) ** 2 / e**2)
    mu = math.sqrt(2) * K * 1.5**2 * math.sqrt(m) / counter.scale
    assert stats.norm.sf(e / mu - mu / 2) - math.exp(e) * stats.norm.sf(e / mu + mu / 2) <= d


@both
def test_an_infinite_budget_adds_no_noise(name: str) -> None:
    agent = agent_of(name, rho=math.inf)
    assert agent.cov.counter.scale == agent.mle.sigma == agent.mle.output_sigma == 0
    assert play(small(), agent, seed=0).regret[-1] < 0.4 * play(small(), agent_of("uniform"), seed=0).regret[-1]


@both
@pytest.mark.parametrize("rho", [1e-3, 1000.0])
def test_small_and_large_budgets_play(name: str, rho: float) -> None:
    agent = taught(name, T, rho=rho)
    assert np.isfinite(agent.release).all() and agent.users == T and 1 <= agent.calls <= 8


def test_it_learns() -> None:
    env = gym.make(ASSORTMENT, horizon=3000)
    regret, uniform = (play(env, make(name, env, seed=0), 3000, seed=0).regret[-1] for name in ("dpmnl", "uniform"))
    assert regret < 0.15 * uniform


# What one user can do


def gram_of(agent: Any, features: Any) -> Any:
    """Return what one user with items of these features adds to the exact sum."""
    before = agent.cov.counter.total.copy()
    context = np.zeros((N, D + 1))
    context[:, :-1] = features
    agent.update(context, records(1)[1][0], 0)
    return agent.cov.counter.total - before


@pytest.mark.wide_at("0.5-*", "1.0-dpmnl", "4.0-dpmnl-approx")
@both
@pytest.mark.parametrize("radius", [0.5, 1.0, 4.0])
def test_features_are_clipped_and_the_sensitivity_is_attained(name: str, radius: float) -> None:
    agent = agent_of(name, radius=radius)
    one, other = (gram_of(agent, 1e3 * np.eye(D)[axis]) for axis in (0, 1))
    assert np.linalg.norm(one - other) == pytest.approx(math.sqrt(2) * K * radius**2, rel=1e-12)
    assert gram_sensitivity(K, radius) == pytest.approx(math.sqrt(2) * K * radius**2)
    rng = np.random.default_rng(0)
    sizes = [*WILD, 1.0, 0.1]
    for _ in range(100):
        one, other = (gram_of(agent, rng.choice(sizes, (N, D)) * rng.random((N, D))) for _ in range(2))
        assert np.linalg.norm(one - other) <= math.sqrt(2) * K * radius**2 * (1 + 1e-12)
    assert np.linalg.norm(agent.choices.features.view(), axis=-1).max() <= radius * (1 + 1e-12)


@both
def test_one_choice_keeps_to_the_bounds_that_the_mechanism_was_given(name: str) -> None:
    agent, rng = agent_of(name, radius=1.5), np.random.default_rng(0)
    user = UserLoss.multinomial_logit(D, K, 1.5)
    for _ in range(100):
        agent.choices.bought.clear(), agent.choices.features.clear(), agent.choices.offered.clear()
        contexts, sets, bought = records(1, int(rng.integers(1000)))
        agent.update(contexts * rng.choice([0.1, 1, 100]), sets, bought)
        _, gradient, hessian = agent.choices.likelihood(rng.standard_normal(D) * 5, 0.0)
        assert np.linalg.norm(gradient) <= user.lipschitz * (1 + 1e-9)
        assert np.trace(hessian) <= user.trace * (1 + 1e-9)


@both
def test_wild_records_leave_a_sane_agent(name: str) -> None:
    rng, agent = np.random.default_rng(0), agent_of(name, exploration=20, rho=50.0)
    contexts, sets, _ = records(T, 1)
    contexts[rng.random(contexts.shape) < 0.2] = 1.0
    contexts[rng.random(contexts.shape) < 0.1] = rng.choice(WILD)
    for start in range(0, T, 10):
        part = slice(start, start + 10)
        chosen = agent.select_action(contexts[part])
        assert (chosen.sum(axis=1) <= K).all() and np.isin(chosen, (0, 1)).all()
        agent.update(contexts[part], sets[part], rng.choice([*WILD, 1e6, -7.0, 1.0], 10))
    arrays = agent.state()[0]
    assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")
    assert agent.calls >= 1 and agent.choices.bought.view().max() < K


@both
@pytest.mark.wide_at("nan-*", "inf-*")
@pytest.mark.parametrize("bad", WILD[:3])
def test_a_user_of_zero_weight_is_seen_by_nobody_else(name: str, bad: float) -> None:
    """Features 0 and a record that is not finite tell nothing: all others' outputs are the same bits."""
    agents = [agent_of(name, seed=5, rho=100.0) for _ in range(2)]
    contexts, sets, bought = records(T, 2)
    at = 30
    for world, agent in enumerate(agents):
        own = contexts.copy()
        own[at, :, :-1] = 0.0 if world == 0 else bad
        purchases = bought.copy()
        purchases[at] = 0 if world == 0 else -1
        for start in range(0, T, 20):
            agent.update(own[start : start + 20], sets[start : start + 20], purchases[start : start + 20])
    np.testing.assert_array_equal(agents[0].release, agents[1].release)
    assert agents[0].calls == agents[1].calls > 1
    probe = records(50, 3)[0]
    np.testing.assert_array_equal(*(agent.select_action(probe) for agent in agents))


# Policy and trigger read releases only


class Scripted:
    """Releases that do not depend on the data: those of the counter, and those of PrivateMLE."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, strength: float = 40.0) -> None:
        self.called: list[tuple[Any, int]] = []
        self.strength = strength
        extend = Counter.extend

        def counted(counter: Any, terms: Any) -> Any:
            n = len(extend(counter, terms))
            noise = np.random.default_rng(counter.t).standard_normal(counter.dim)
            ramp = np.concatenate([np.ones(D), np.zeros(counter.dim - D)])
            return np.tile(self.strength * counter.t * ramp + noise, (n, 1))

        def minimised(mechanism: Any, loss: Any, rng: Any, start: Any = None) -> Any:
            self.called.append((mechanism, loss(np.zeros(D))[0]))
            return np.random.default_rng(sum(m is mechanism for m, _ in self.called)).standard_normal(D)

        monkeypatch.setattr(Counter, "extend", counted)
        monkeypatch.setattr(ObjectivePerturbation, "minimise", minimised)


@both
def test_equal_releases_leave_equal_policies_whatever_the_data(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Scripted(monkeypatch)
    agents = [agent_of(name, exploration=20, growth=1.2, trigger=3.0) for _ in range(2)]
    seen: list[list[Any]] = [[], []]
    for world, agent in enumerate(agents):
        contexts, sets, bought = records(T, world)
        contexts[..., :-1] *= 10.0**-world  # other totals, other choices
        bought = bought if world == 0 else np.full(T, -1)
        for start in range(0, T, 10):
            agent.update(contexts[start : start + 10], sets[start : start + 10], bought[start : start + 10])
            seen[world].append((agent.release.tolist(), agent.calls, agent.log_det, agent.frozen_rounds()))
    assert seen[0] == seen[1] and seen[0][-1][1] > 2
    totals = [agent.cov.counter.total for agent in agents]
    assert np.linalg.norm(totals[0] - totals[1]) > 1
    probe = records(50, 3)[0]
    np.testing.assert_array_equal(*(agent.select_action(probe) for agent in agents))


@pytest.mark.wide_at("dpmnl-approx")
@both
def test_calls_are_made_when_the_released_determinant_has_grown_and_are_capped(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = Scripted(monkeypatch)
    agent = agent_of(name, exploration=10, growth=1, trigger=2.0, calls=3)
    calls_at: list[int] = []
    log_dets = [-math.inf]
    for t, record in enumerate(zip(*records(T), strict=True), 1):
        agent.update(*record)
        if t >= 10:
            log_det = np.linalg.slogdet(agent.cov.matrix())[1]
            due = len(calls_at) < 3 and log_det > log_dets[-1] + math.log(2)
            if due:
                calls_at.append(t)
                log_dets.append(log_det)
        assert len(scripted.called) == agent.calls == len(calls_at), t
    assert calls_at[0] == 10 and len(calls_at) == 3
    assert min(later - earlier for earlier, later in pairwise(calls_at)) > 1


@both
def test_no_call_is_made_beyond_the_budget(name: str) -> None:
    agent = agent_of(name, exploration=5, growth=1, trigger=1 + 2e-9, calls=8, rho=1.0)
    contexts, sets, bought = records(T)
    agent.update(contexts[:200], sets[:200], bought[:200])
    assert agent.calls == 8
    spent = agent.ledger.spent()
    agent.calls, agent.log_det = 0, -math.inf
    with pytest.raises(PrivacyBudgetExceeded):
        agent.update(contexts[200], sets[200], bought[200])
    assert agent.ledger.spent() == spent
    total = spent.rho if name == "dpmnl" else spent.epsilon
    declared = agent.guarantee.rho if name == "dpmnl" else agent.guarantee.epsilon
    assert total == pytest.approx(declared)


def test_the_cost_is_entered_before_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, seen = agent_of(exploration=10), []
    minimise = ObjectivePerturbation.minimise

    def watched(mechanism: Any, *args: Any) -> Any:
        seen.append(agent.ledger.spent().rho)
        return minimise(mechanism, *args)

    monkeypatch.setattr(ObjectivePerturbation, "minimise", watched)
    agent.update(*records(T))
    assert seen == pytest.approx([0.1 + 0.9 * (call + 1) / 8 for call in range(len(seen))]) and len(seen) > 2


@both
def test_no_two_draws_of_noise_or_actions_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, states = agent_of(name, exploration=10, growth=1, trigger=2.0), []
    generators = agent.rng, agent.rng_mle, agent.cov.counter.rng
    first = np.concatenate([generator.random(50) for generator in generators])
    assert len(set(map(id, generators))) == 3 and len(set(first.tolist())) == 150
    minimise = ObjectivePerturbation.minimise

    def watched(mechanism: Any, loss: Any, rng: Any, start: Any = None) -> Any:
        states.append(str(rng.bit_generator.state))
        return minimise(mechanism, loss, rng, start)

    monkeypatch.setattr(ObjectivePerturbation, "minimise", watched)
    agent.update(*records(T))
    assert len(set(states)) == len(states) == agent.calls > 1


@both
def test_a_reload_gives_no_budget_back(name: str, tmp_path: Path) -> None:
    agent = agent_of(name, exploration=5, growth=1, trigger=1 + 2e-9, calls=8)
    contexts, sets, bought = records(T)
    agent.update(contexts[:200], sets[:200], bought[:200])
    save(agent, tmp_path / "agent.npz")
    copy: Any = load(tmp_path / "agent.npz", small(), fork=False)
    assert copy.calls == 8 and copy.ledger.spent() == agent.ledger.spent()
    for one in (agent, copy):
        one.update(contexts[200:], sets[200:], bought[200:])
    np.testing.assert_array_equal(copy.release, agent.release)


# Failures


@both
def test_without_a_certificate_the_release_stays_and_the_call_counts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_of(name, exploration=20, rho=5.0)
    contexts, sets, bought = records(T)
    agent.update(contexts[:20], sets[:20], bought[:20])
    release, spent = agent.release, agent.ledger.spent()
    agent.log_det = -math.inf  # so that the next look calls

    def lost(*_: Any) -> Any:
        raise RuntimeError("the norm of the gradient must fall")

    with monkeypatch.context() as patched:
        patched.setattr(objective, "stationary_point", lost)
        n = agent.frozen_rounds()
        with pytest.raises(RuntimeError, match="norm of the gradient"):
            agent.update(contexts[20 : 20 + n], sets[20 : 20 + n], bought[20 : 20 + n])
    assert agent.calls == 2 and agent.ledger.spent() != spent
    np.testing.assert_array_equal(agent.release, release)
    assert agent.users == len(agent.choices) == agent.cov.counter.t == 20 + n and agent.frozen_rounds() >= 1
    agent.update(contexts[20 + n :], sets[20 + n :], bought[20 + n :])
    assert agent.users == T and agent.calls <= 8 and not np.array_equal(agent.release, release)


def test_a_group_is_taken_in_whole_though_a_call_in_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> Any:
        raise RuntimeError("the norm of the gradient must fall")

    monkeypatch.setattr(objective, "stationary_point", lost)
    agent = agent_of(exploration=20)
    with pytest.raises(RuntimeError, match="norm of the gradient"):
        agent.update(*records(T))
    assert agent.users == len(agent.choices) == T and not agent.release[:, -1].any()


@both
def test_a_group_that_is_refused_was_not_taken_in(name: str) -> None:
    agent = taught(name)
    before = agent.state()
    before = {key: array.copy() for key, array in before[0].items()}, before[1]
    contexts, sets, bought = records(T - 200 + 1)
    for group, kind in (
        ((contexts, sets, bought), RuntimeError),
        ((contexts[:5], sets[:5], bought[:4]), ValueError),
        ((contexts[:5, :-1], sets[:5], bought[:5]), ValueError),
    ):
        with pytest.raises(kind):
            agent.update(*group)
        assert same_parts(before, agent.state())
    agent.update(contexts[1:], sets[1:], bought[1:])
    with pytest.raises(RuntimeError, match=f"{name} ends after its horizon of {T} users"):
        agent.update(contexts[0], sets[0], bought[0])


# Groups, V, defaults


@pytest.mark.wide_at("*-tree-*", "*-toeplitz-*")
@both
@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
@pytest.mark.parametrize("growth", [pytest.param(1, marks=pytest.mark.slow), 1.3])
def test_any_grouping_of_users_leads_to_the_same_bits(name: str, counter: str, growth: float) -> None:
    contexts, sets, bought = records(T)
    sets[::3, 0] = 0  # smaller sets too
    agents = [agent_of(name, rho=50.0, counter=counter, growth=growth) for _ in range(3)]
    for agent, sizes in zip(agents, ([1] * T, [T], [3, 0, 100, 297]), strict=True):
        for start, end in pairwise(np.cumsum([0, *sizes])):
            agent.update(contexts[start:end], sets[start:end], bought[start:end])
    assert same_state(agents[0], agents[1]) and same_state(agents[0], agents[2]) and agents[0].calls > 1


@pytest.mark.wide_at("config1-dpmnl-approx", "config[02]-*")
@both
@pytest.mark.parametrize("config", [{"counter": "tree"}, {"counter": "buffered", "growth": 1}, {"growth": 2.0}])
def test_runs_stop_and_go_on_whatever_the_settings(name: str, config: dict[str, Any]) -> None:
    check_resume(name, ASSORTMENT, 200, config)
    check_frozen(name, ASSORTMENT, 200, config)


@both
def test_smaller_sets_are_learned_from_as_what_they_are(name: str) -> None:
    agent = agent_of(name)
    contexts, sets, bought = records(50)
    sets[::2, 0], sets[::5, 1] = 0, 0
    agent.update(contexts, sets, bought)
    np.testing.assert_array_equal(agent.choices.offered.view().sum(axis=1), sets.sum(axis=1))
    assert (agent.choices.bought.view() < sets.sum(axis=1)).all()
    assert not agent.choices.features.view()[~agent.choices.offered.view()].any()


def test_general_revenues_are_played_exactly() -> None:
    env = small(revenues="random", horizon=800)
    agent, uniform = (make(name, env, seed=0) for name in ("dpmnl", "uniform"))
    assert play(env, agent, seed=0).regret[-1] < 0.8 * play(env, uniform, seed=0).regret[-1]


@pytest.mark.parametrize("published", [False, True])
def test_V_is_positive_definite_whatever_was_released(published: bool) -> None:  # noqa: N802
    cov = PrivateCov("tree", 100, 3, 1.0, 2.5, 0.1, np.random.default_rng(0), published)
    cov.extend(np.ones((1, 2, 3)), unwatched)
    for scale in (0.0, 1.0, 1e6):
        cov.release = scale * np.random.default_rng(1).standard_normal(6)
        assert np.linalg.eigvalsh(cov.matrix()).min() >= 2.5 * (1 - 1e-9)


def test_the_shift_is_a_bound_on_the_noise() -> None:
    norms = []
    for seed in range(300):
        cov = PrivateCov("toeplitz", 20, 3, 1.0, 1e-9, 0.1, np.random.default_rng(seed))
        cov.extend(np.zeros((20, 1, 3)), unwatched)
        norms.append(np.linalg.norm(cov.matrix() - cov.shift() * np.eye(3), 2))
    assert np.quantile(norms, 0.99) <= cov.shift() <= 2 * max(norms)  # beyond with probability 1/T^2 = 1/400 each


def test_the_bonus_is_the_width_of_the_paper() -> None:
    agent = taught(bonus_scale=0.5, growth=1)
    mle, V = agent.mle, agent.cov.matrix()
    alpha = math.sqrt(D / 2 * math.log(1 + 200 / D) + math.log(200)) + mle.Delta / math.sqrt(K)
    alpha += math.sqrt(4 * D * math.log(T)) * mle.sigma / math.sqrt(K) + math.sqrt(3 * agent.cov.shift())
    root = agent.release[:, :-1]
    np.testing.assert_allclose(root @ root.T, (0.5 * alpha) ** 2 * np.linalg.inv(V), rtol=1e-9)
    x = np.random.default_rng(0).standard_normal((N, D + 1))
    x[:, -1] = 1.0
    width = 0.5 * alpha * np.sqrt(np.einsum("nd,de,ne->n", x[:, :-1], np.linalg.inv(V), x[:, :-1]))
    utility = x[:, :-1] @ agent.release[:, -1] + width
    assert set(np.flatnonzero(agent.select_action(x))) == set(np.argsort(utility)[-K:])


def test_defaults_follow_from_public_constants() -> None:
    lengths = [agent_of(env=small(horizon=100_000), rho=rho).exploration for rho in (0.1, 1.0, 10.0)]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] > 2 * lengths[1] > 2 * lengths[2]
    assert agent_of(rho=1e-6).exploration == T // 20 and agent_of(exploration=7).exploration == 7
    assert agent_of(radius=2.0).exploration == pytest.approx(agent_of(radius=1.0).exploration, abs=3)
    assert exploration_length(0.0, 5, 10_000) == 20 and exploration_length(1e300, 5, 100) == 5
    assert spread_trigger(10_000, 9000, 5, 8) == math.log(2)
    assert spread_trigger(10_000, 100, 10_000, 1) == pytest.approx(4000 * math.log(100))
    assert agent_of(trigger=2.0).log_trigger == math.log(2)


# The published calibration


@both
def test_the_published_calibration_is_marked_and_claims_nothing(name: str) -> None:
    with pytest.warns(UserWarning, match="DPMNL.*: the published calibration is kept for comparison only"):
        agent = agent_of(name, calibration="published", rho=0.4, counter="tree")
    assert not agent.guarantee.proven and agent.ledger.spent_epsilon(1e-5) == math.inf
    levels, rank = T.bit_length(), min(D, K - 1)
    scale, mle = agent.cov.counter.scale, agent.mle
    if name == "dpmnl":
        rho = 0.9 * 0.4 / 8 * (1 - 1e-4)
        assert scale**2 == pytest.approx(K * levels / (0.1 * 0.4))
        assert mle.Delta == pytest.approx(4 / math.expm1(0.5 * rho / rank))
    else:
        epsilon, delta = 0.4 + 2 * math.sqrt(0.4 * math.log(T**2)), 1 / T**2
        assert scale**2 == pytest.approx(32 * levels * K * math.log(40 / delta) ** 2 / (0.1 * epsilon) ** 2)
        one = 0.9 * epsilon / math.sqrt(64 * math.log(1 / (0.9 * delta)))
        assert mle == perturbation(one, 0.9 * delta / 16, UserLoss(D, 2.0, 1.0, rank=rank), as_printed=True)
        assert mle.Delta == pytest.approx(published(one * (1 - 1e-3), 1e-9, UserLoss(D, 2.0, 1.0, rank=rank))[1])
    assert np.linalg.norm(gram_of(agent, 50.0 * np.eye(D)[0])) == pytest.approx(K * 2500)  # not clipped


@both
def test_the_published_calibration_plays(name: str) -> None:
    with pytest.warns(UserWarning, match="published"):
        agent = agent_of(name, calibration="published")
    play(small(), agent, seed=0)
    assert agent.calls >= 1 and np.isfinite(agent.release).all()


@both
def test_one_item_has_published_rank_0(name: str) -> None:
    with pytest.raises(ValueError, match=r"capacity must be >= 2 for the published calibration"):
        agent_of(name, env=small(capacity=1), calibration="published")
    assert agent_of(name, env=small(capacity=1)).mle.sigma > 0


def test_the_bound_of_lemma_s6() -> None:
    log, d, beta = math.log(5), 5, 1e-8
    third = (log / d) ** (1 / 3)
    stated = 2 * math.sqrt(d) + 2 * d ** (1 / 6) * log ** (1 / 3)
    stated += 6 * (1 + third) * math.sqrt(log) / math.sqrt(math.log(1 + third)) + 2 * math.sqrt(2 * math.log(1 / beta))
    assert lemma_s6(d, beta) == pytest.approx(stated)
    assert lemma_s6(1, beta) == pytest.approx(2 + 2 * math.sqrt(2 * math.log(1 / beta)))


@both
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rho": 0.0}, "rho must be > 0; got 0.0"),
        ({"rho": math.nan}, "rho must be > 0"),
        ({"rho": True}, "rho must be > 0; got True"),
        ({"epsilon": 0.0}, "epsilon must be > 0"),
        ({"epsilon": 1.0, "rho": 1.0}, "give rho or epsilon, not both; got rho=1.0 and epsilon=1.0."),
        ({"rho": 1.0, "delta": 2.0}, "delta must lie in (0, 1); got 2.0"),
        ({"rho": 1.0, "delta": 0.0}, "delta must lie in (0, 1); got 0.0"),
        ({"radius": 1e-300}, "radius must lie in [1e-06, 1000000.0]; got 1e-300"),
        ({"radius": 1e300}, "radius must lie in [1e-06, 1000000.0]; got 1e+300"),
        ({"calls": 0}, "calls must be an integer >= 1"),
        ({"exploration": 0}, "exploration must be an integer >= 1"),
        ({"counter": "trie"}, "did you mean 'tree'"),
        ({"calibration": "right"}, "calibration must be one of"),
        ({"mle_share": 1.0}, "mle_share must lie in (0, 1)"),
        ({"trigger": 1.0}, "trigger must be > 1"),
        ({"growth": 0.9}, "growth must be >= 1"),
        ({"bonus_scale": -1.0}, "bonus_scale must be >= 0"),
    ],
)
def test_bad_settings_get_one_sentence(name: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        agent_of(name, **config)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(ValueError, match="objective must be one of"):
        agent_of(objective="best")


# As printed


@pytest.mark.filterwarnings("ignore:dpmnl")
def test_determinants_of_consecutive_users_do_not_call_again_and_printed_prices_exceed_the_budget() -> None:
    shared: dict[str, Any] = {"calibration": "published", "objective": "published", "counter": "tree", "trigger": 2.0}
    shared |= {"exploration": 50, "calls": 20, "rho": 1.0}
    tallies = {}
    for compare, price, growth in (("user", "printed", 1.0), ("call", "printed", 1.02), ("call", "equal", 1.02)):
        agent = taught(users=T, compare=compare, price=price, growth=growth, **shared)
        tallies[compare, price] = agent.tally
    assert tallies["user", "printed"] == {"calls": 1.0, "claimed": 0.05}
    calls, claimed = tallies["call", "printed"].values()
    assert calls > 1 and claimed == pytest.approx(1 / 20 + sum(1 / k for k in range(1, int(calls)))) and claimed > 1
    assert tallies["call", "equal"]["claimed"] == pytest.approx(tallies["call", "equal"]["calls"] / 20)


def test_printed_prices_have_no_guarantee() -> None:
    with pytest.raises(ValueError, match="price printed adds up to more than the budget"):
        agent_of(price="printed")


def test_theorem_4_has_the_powers_of_its_terms() -> None:
    T = np.array([100.0, 400.0])
    bound = regret_upper_bound(T, dim=5, rho=1.0, mle_share=0.9)
    assert bound[1] / bound[0] == pytest.approx(2)
    assert bound[0] == pytest.approx(10 * (5 + 5**2.5 / 0.9 + 5**0.75 / 0.1**0.25))
