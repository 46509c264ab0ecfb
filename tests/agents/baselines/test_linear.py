import copy as copy_module
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.baselines.lasso import lasso
from privbandit_agents.baselines.lints import correlate
from privbandit_agents.baselines.ridge import Ridge
from scipy import stats


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rank_one_steps_equal_the_direct_solution(dtype: Any) -> None:
    tolerance = 1e-11
    rng = np.random.default_rng(0)
    x, rewards = rng.standard_normal((300, 7)).astype(dtype), rng.standard_normal(300)
    ridge = Ridge(7, 0.5)
    for row, reward in zip(x, rewards, strict=True):
        ridge.learn(row, ridge.score(row), float(reward))
    gram = 0.5 * np.eye(7) + x.T.astype(float) @ x
    probe = rng.standard_normal((3, 7)).astype(dtype)
    probe = probe.astype(float)
    expected = probe @ np.linalg.inv(gram), probe @ np.linalg.solve(gram, x.T.astype(float) @ rewards)
    scored = ridge.score(probe)
    assert np.allclose(scored[:, :-1], expected[0], atol=tolerance) and np.allclose(
        scored[:, -1], expected[1], atol=tolerance
    )


def test_the_matrix_is_updated_in_place() -> None:
    ridge = Ridge(4, 1.0)
    before = ridge.matrices
    row = np.ones(4, np.float32)
    ridge.learn(row, ridge.score(row), 1.0)
    assert np.shares_memory(before, ridge.matrices) and not np.array_equal(ridge.matrices[0, :, :4], np.eye(4))


def test_arms_that_share_a_context_have_a_regression_each() -> None:
    rng = np.random.default_rng(0)
    env = gym.make("privbandit/Classification-v0", source="wine")
    agent: Any = make("linucb", env, seed=0)
    dim = agent.context_shape[0]
    contexts, arms, rewards = rng.standard_normal((60, dim)), rng.integers(0, 3, 60), rng.standard_normal(60)
    for n in range(20):
        agent.update(contexts[n], arms[n], rewards[n])
    agent.update(contexts[20:], arms[20:], rewards[20:])
    means = agent.predict(contexts[:5])
    x = np.column_stack([contexts, np.ones(60)])
    for arm in range(3):
        chosen = arms == arm
        gram = np.eye(dim + 1) + x[chosen].T @ x[chosen]
        assert np.allclose(means[:, arm], x[:5] @ np.linalg.solve(gram, x[chosen].T @ rewards[chosen]))


def agent_on(name: str, seed: int = 0, **config: Any) -> tuple[Any, Any]:
    env = gym.make("privbandit/Linear-v0", n_arms=4, dim=3, horizon=2000)
    return make(name, env, seed=seed, **config), env


def test_thompson_scores_have_the_posterior_law() -> None:
    """The frequency of each arm is that of argmax x . theta~ for theta~ drawn in full."""
    agent, env = agent_on("lints", v=0.7)
    play(env, agent, 60, seed=1)
    context = env.reset(seed=2)[0]
    m = agent.regression.matrices[0].T
    rng = np.random.default_rng(5)
    theta = rng.multivariate_normal(m[-1], 0.7**2 * (m[:-1] + m[:-1].T) / 2, size=20_000)
    samples = np.bincount((theta @ context.T.astype(float)).argmax(axis=1), minlength=4)
    counts = np.bincount([int(agent.select_action(context)) for _ in range(4000)], minlength=4)
    played = samples + counts > 0
    assert stats.chi2_contingency([samples[played], counts[played]]).pvalue > 1e-4
    assert stats.chi2_contingency([samples[played], np.roll(counts[played], 1)]).pvalue < 1e-4


def test_thompson_scores_of_arms_that_share_a_context_are_independent() -> None:
    env = gym.make("privbandit/Classification-v0", source="wine")
    agent: Any = make("lints", env, seed=0, v=0.7)
    play(env, agent, 60, seed=1)
    context = env.reset(seed=2)[0]
    rng, x = np.random.default_rng(5), np.append(context, 1.0)
    scores = [
        x @ rng.multivariate_normal(m[:, -1], 0.7**2 * (m[:, :-1] + m[:, :-1].T) / 2, size=20_000).T
        for m in agent.regression.matrices
    ]
    samples = np.bincount(np.argmax(scores, axis=0), minlength=3)
    counts = np.bincount([int(agent.select_action(context)) for _ in range(4000)], minlength=3)
    assert stats.chi2_contingency([samples, counts]).pvalue > 1e-4
    assert stats.chi2_contingency([samples, np.roll(counts, 1)]).pvalue < 1e-4


@pytest.mark.parametrize("seed", range(5))
def test_a_root_is_one_though_arms_are_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6, 3))
    x[4] = x[1]
    covariance = x @ x.T * 10.0 ** rng.integers(-6, 6)
    root, none = np.zeros((6, 6)), np.zeros(3)
    for unit, column in zip(np.eye(6), root.T, strict=True):
        correlate(covariance, unit, column)
    assert np.allclose(root @ root.T, covariance, rtol=1e-8, atol=1e-9 * covariance.max())
    correlate(np.full((3, 3), np.nan), np.ones(3), none)
    assert not none.any()


def test_the_bonus_makes_linucb_try_what_it_does_not_know() -> None:
    agent, _ = agent_on("linucb", alpha=2.0)
    context = np.zeros((4, 3), np.float32)
    context[0, 0], context[1, 1] = 1, 1
    for _ in range(30):
        agent.update(context, 0, 0.5)
    assert agent.select_action(context) == 1
    greedy, _ = agent_on("greedy")
    for _ in range(30):
        greedy.update(context, 0, 0.5)
    assert greedy.select_action(context) == 0


def test_epsilon_greedy_explores_as_often_as_it_says() -> None:
    agent, env = agent_on("epsilon-greedy", exploration=0.4)
    context = env.reset(seed=0)[0]
    agent.update(context, 1, 0.5)
    best = int(agent.predict(context[None]).argmax())
    other = np.mean([agent.select_action(context) != best for _ in range(4000)])
    assert abs(other - 0.4 * 3 / 4) < 5 * np.sqrt(0.3 * 0.7 / 4000)


def test_updates_for_many_users_equal_updates_in_order() -> None:
    together, env = agent_on("linucb")
    apart, _ = agent_on("linucb")
    env.reset(seed=3)
    contexts, arms = env.unwrapped.upcoming(50), np.arange(50) % 4
    feedback = np.linspace(-1, 1, 50)
    together.update(contexts, arms, feedback)
    for context, arm, reward in zip(contexts, arms, feedback, strict=True):
        apart.update(context, arm, reward)
    assert np.array_equal(together.regression.matrices, apart.regression.matrices)


def test_delayed_feedback_is_learned_with_the_regression_of_the_moment() -> None:
    (delayed, env), (direct, _) = agent_on("linucb"), agent_on("linucb")
    env.reset(seed=5)
    x, y = env.unwrapped.upcoming(2)
    delayed.select_action(x)
    for agent in (delayed, direct):
        agent.update(y, 1, 1.0)
        agent.update(x, 0, -1.0)
    assert np.array_equal(delayed.regression.matrices, direct.regression.matrices)


@pytest.mark.parametrize("name", ["linucb", "lints", "greedy", "sa-lasso"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1.1e6])
def test_a_record_that_cannot_be_learned_from_is_ignored_with_a_warning(name: str, bad: float) -> None:
    agent, env = agent_on(name)
    context = env.reset(seed=0)[0]
    learned = "beta" if name == "sa-lasso" else "regression.matrices"
    before = agent.state()[0][learned].copy()
    with pytest.warns(IgnoredRecord, match="counts as nothing"):
        agent.update(context, agent.select_action(context), bad)
    with pytest.warns(IgnoredRecord):
        agent.update(np.full_like(context, bad), 0, 1.0)
    assert np.array_equal(agent.state()[0][learned], before)


def test_the_inverse_stays_positive_definite_where_single_precision_would_lose_it() -> None:
    env = gym.make("privbandit/Linear-v0", dim=20, n_arms=2)
    agent: Any = make("linucb", env, seed=0, ridge=1e-4)
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((40_000, 2, 20)).astype(np.float32)
    contexts *= 100 / np.linalg.norm(contexts, axis=2, keepdims=True)
    rewards = contexts[:, 0, 0] / 100
    agent.update(contexts, np.zeros(len(contexts), int), rewards)
    x = contexts[:, 0].astype(float)
    fresh = np.linalg.inv(x.T @ x + 1e-4 * np.eye(20))
    inverse = agent.regression.matrices[0, :, :-1]
    assert np.abs(inverse - fresh).max() < 1e-4 * np.abs(fresh).max()
    assert np.linalg.eigvalsh(inverse)[0] > 0


def test_agents_can_be_copied() -> None:
    agent, env = agent_on("linucb")
    play(env, agent, 30, seed=0)
    copy = copy_module.deepcopy(agent)
    context = env.reset(seed=1)[0]
    for each in (agent, copy):
        each.update(context, 0, 1.0)
    assert np.array_equal(agent.regression.matrices, copy.regression.matrices)


@pytest.mark.parametrize("name", ["linucb", "lints", "greedy", "epsilon-greedy"])
def test_linear_agents_beat_uniform_play(name: str) -> None:
    agent, env = agent_on(name)
    uniform, _ = agent_on("uniform")
    assert play(env, agent, seed=4).regret[-1] < 0.4 * play(env, uniform, seed=4).regret[-1]


def test_lasso_meets_its_optimality_conditions() -> None:
    rng = np.random.default_rng(0)
    for n in (5, 40, 500):
        x = rng.standard_normal((n, 60))
        y = x[:, :3] @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(n)
        gram, moment, penalty = x.T @ x / n, x.T @ y / n, 0.1
        beta = lasso(gram, moment, penalty, np.zeros(60))
        gradient = 2 * (moment - gram @ beta)
        assert np.allclose(gradient[beta != 0], penalty * np.sign(beta[beta != 0]), atol=1e-4)
        assert np.abs(gradient).max() <= penalty * (1 + 1e-4)
        assert 3 <= np.count_nonzero(beta) <= min(n, 60)
        again = lasso(gram, moment, penalty, rng.standard_normal(60))
        assert np.allclose(beta, again, atol=1e-4)


def test_lasso_survives_a_feature_that_is_always_zero() -> None:
    gram, moment = np.diag([1.0, 0.0]), np.array([1.0, 0.0])
    assert lasso(gram, moment, 0.2, np.array([0.0, 3.0])).tolist() == [pytest.approx(0.9), 0.0]


def test_the_lasso_bandit_is_near_optimal_where_uniform_play_pays_for_every_round() -> None:
    env = gym.make("privbandit/SparseLinear-v0", dim=100, horizon=2000)
    lasso_regret = play(env, make("sa-lasso", env), seed=0).regret[-1]
    uniform = play(env, make("uniform", env, seed=0), seed=0).regret[-1]
    assert lasso_regret < 30 < 1000 < uniform


def test_the_lasso_bandit_waits_for_its_first_users() -> None:
    env = gym.make("privbandit/SparseLinear-v0", dim=20, horizon=300).unwrapped
    agent: Any = make("sa-lasso", env, seed=0, first=200)
    play(env, agent, 200, seed=0)
    assert agent.frozen_rounds() > 1 and np.count_nonzero(agent.beta) > 0
    waiting: Any = make("sa-lasso", env, seed=0, first=200)
    play(env, waiting, 199, seed=0)
    assert waiting.frozen_rounds() == 1 and not waiting.beta.any()


def test_linucb_in_batches_is_linucb_at_the_ends_of_batches() -> None:
    one, _ = agent_on("linucb")
    many, _ = agent_on("linucb", growth=1.3)
    rng = np.random.default_rng(1)
    contexts = rng.standard_normal((500, 4, 3)).astype(np.float32) / 3
    arms, rewards = rng.integers(0, 4, 500), rng.standard_normal(500)
    one.update(contexts[:8], arms[:8], rewards[:8])
    many.update(contexts[:7], arms[:7], rewards[:7])
    assert many.refit_at == 8 and many.frozen_rounds() == 1
    many.update(contexts[7], arms[7], rewards[7])
    assert np.allclose(many.regression.matrices, one.regression.matrices, atol=1e-4)
    before = many.moments.copy()
    with pytest.warns(IgnoredRecord):
        many.update(contexts[8], arms[8], np.nan)
    assert np.array_equal(many.moments, before) and many.users == 9


@pytest.mark.wide
def test_linucb_in_batches_takes_users_by_counts() -> None:
    world: dict[str, Any] = {"n_arms": 3, "dim": 2, "support": 20}
    regrets = []
    for by_counts in (True, False):
        runs = []
        for seed in range(30):
            env = gym.make("privbandit/Linear-v0", horizon=4000, instance_seed=1, **world)
            agent = make("linucb", env, seed=seed, growth=1.2)
            result = play(env, agent, seed=seed, checkpoints=[4000], by_counts=by_counts)
            assert result.simulation == ("counts" if by_counts else "users")
            runs.append(result.regret[-1])
        regrets.append(runs)
    assert stats.ks_2samp(*regrets, method="asymp").pvalue > 1e-4
    assert not agent_on("linucb")[0].by_counts


def test_linucb_in_batches_does_not_depend_on_how_users_are_grouped() -> None:
    alone, env = agent_on("linucb", growth=1.1)
    blocks, _ = agent_on("linucb", growth=1.1)
    env = env.unwrapped
    env.reset(seed=3)
    contexts = env.upcoming(200)
    arms, rewards = np.arange(200) % 4, np.linspace(-1, 1, 200)
    for n in range(200):
        alone.update(contexts[n], arms[n], rewards[n])
    blocks.update(contexts[:90], arms[:90], rewards[:90])
    blocks.update(contexts[90:], arms[90:], rewards[90:])
    assert np.array_equal(alone.regression.matrices, blocks.regression.matrices)
    assert np.array_equal(alone.moments, blocks.moments)
