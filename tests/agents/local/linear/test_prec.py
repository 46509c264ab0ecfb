"""Adaptive preconditioning: what leaves the device, how P adapts, how it plays."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.local.linear.prec import KEPT, Generation, most_precise
from privbandit_agents.privacy.contributions.moments import NORM, pack
from privbandit_agents.testing import CHECKS
from privbandit_agents.testing.twins import check_local

ILL: dict[str, Any] = {"n_arms": 3, "dim": 2, "design": "ill", "support": 200}


def agent_on(horizon: int = 10**6, seed: int = 0, **config: Any) -> Any:
    return make("prec", gym.make("privbandit/Linear-v0", horizon=horizon, **ILL), seed=seed, **config)


def sums(x: Any, y: Any, scale: Any) -> Any:
    """Return the exact sum of the packed records of many users."""
    agent = agent_on()
    agent.scale = np.asarray(scale, dtype=float)
    contexts = np.asarray(x)[:, None, :].repeat(3, axis=1)
    return agent.encode(contexts, np.zeros(len(contexts), int), np.asarray(y)).sum(axis=0)


@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf, 1e38, -1e38])
@pytest.mark.parametrize("where", ["context", "reward"])
def test_no_record_leads_to_a_longer_vector(wild: float, where: str) -> None:
    agent = agent_on()
    agent.scale = np.array([[300.0, -7.0], [0.5, 1e-3]])
    contexts, rewards = np.full((4, 3, 2), 0.3, np.float32), np.ones(4)
    (contexts if where == "context" else rewards)[0] = wild
    encoded = agent.encode(contexts, np.zeros(4, int), rewards)
    assert np.isfinite(encoded).all()
    assert (np.linalg.norm(encoded, axis=1) <= math.hypot(NORM, KEPT) * (1 + 1e-12)).all()
    assert np.isfinite(agent.randomize(contexts, np.zeros(4, int), rewards)).all()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_no_two_records_have_a_likelihood_ratio_beyond_epsilon(epsilon: float) -> None:
    """Exact densities at reports of both records; the worst pair nearly reaches e^epsilon, twice it fails."""
    agent, rng = agent_on(epsilon=epsilon), np.random.default_rng(1)
    agent.scale = np.array([[0.6, 0.0], [0.2, 40.0]])
    x = rng.standard_normal((12, 2)) * [1, 0.02]
    x[:3] = np.array([[0, 1], [0, -1], [1e30, 1e30]])
    contexts, rewards = x[:, None, :].repeat(3, axis=1), np.where(rng.random(12) < 0.5, -1.0, 1e9)
    inputs = agent.encode(contexts, np.zeros(12, int), rewards)
    reports = agent.randomize(contexts.repeat(200, axis=0), np.zeros(2400, int), rewards.repeat(200))
    density = np.array([agent.channel.randomizer.log_likelihood(reports, 0, one) for one in inputs])
    worst = (density.max(axis=0) - density.min(axis=0)).max()
    assert 0.7 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_records_outside_the_ball_keep_the_linear_model_exact() -> None:
    rng = np.random.default_rng(2)
    x = np.clip(rng.standard_normal((500, 2)), -2, 2) * [0.4, 0.1]
    scale, theta = np.array([[1.5, 0.3], [0.0, 9.0]]), np.array([0.4, -0.3])
    total = sums(x, x @ theta, scale)
    generation = Generation.of(total, len(x), scale, 1e-9)
    assert 0 < generation.kept < 1
    evidence = generation.evidence(1.0)
    assert np.allclose(np.linalg.solve(evidence[:, :-1], evidence[:, -1]), theta, atol=1e-6)


def test_inside_the_ball_the_report_is_that_of_ldp_greedy_and_a_coordinate() -> None:
    x, y = np.array([[0.3, 0.4], [0.8, 0.8]]), np.array([1.0, -1.0])
    agent = agent_on()
    encoded = agent.encode(x[:, None, :].repeat(3, axis=1), np.zeros(2, int), y)
    assert np.allclose(encoded[:, :-1], pack(x, y), atol=1e-7)
    agent.scale = 2 * np.eye(2)
    encoded = agent.encode(x[:, None, :].repeat(3, axis=1), np.zeros(2, int), y)
    assert encoded[:, -1].tolist() == [KEPT, 0.0]


def generation(values: tuple[float, float], kept: float, noise: float, scale: Any = None) -> Generation:
    matrix = np.eye(2) if scale is None else np.asarray(scale, dtype=float)
    return Generation(10**4, matrix, np.array(values), np.eye(2), np.zeros(2), kept, noise)


def test_the_guard_shrinks_when_too_few_are_kept_and_only_then() -> None:
    error = 0.01
    low, enough = 0.5 - 2.1 * error, 0.5 - 1.9 * error
    shrunk = generation((0.3, 0.4), low, error * KEPT).rescaled(0.8, 4.0, 1e3)
    assert shrunk is not None and np.allclose(shrunk, np.eye(2) / 1.4)
    assert generation((0.3, 0.4), enough, error * KEPT).rescaled(0.8, 4.0, 1e3) is None


def test_weak_directions_are_stretched_as_far_as_the_noise_lets_see() -> None:
    weak = generation((0.001, 0.9), 1.0, 0.003)
    scale = weak.rescaled(0.8, 4.0, 1e3)
    assert scale is not None
    assert scale[0, 0] == pytest.approx(math.sqrt(0.4 / weak.floor))
    assert scale[1, 1] == pytest.approx(math.sqrt(0.4 / 0.9))
    assert weak.rescaled(0.8, 4.0, 2.0)[0, 0] == pytest.approx(2.0)  # type: ignore[index]
    assert generation((0.001, 0.9), 1.0, 0.05).rescaled(0.8, 4.0, 1e3) is None, "nothing is seen yet"


def test_a_direction_that_only_users_outside_the_ball_have_is_not_stretched() -> None:
    assert generation((0.05, 0.6), 0.95, 1e-4).rescaled(0.8, 4.0, 1e3) is None
    assert generation((0.05, 0.6), 0.99, 1e-4).rescaled(0.8, 4.0, 1e3) is not None


def test_evidence_of_the_noise_alone_is_left_out() -> None:
    one = Generation(100, np.eye(2), np.array([0.01, 0.7]), np.eye(2), np.array([0.1, 0.2]), 1.0, 0.05)
    evidence = one.evidence(1.0)
    assert not evidence[0].any() and evidence[1, 1] > 0 and not one.resolved


def test_the_posterior_is_calibrated() -> None:
    """Over 300 generations z-scores have variance 1 within 4 standard errors; twice the variance is rejected."""
    rng, theta = np.random.default_rng(3), np.array([0.5, -0.5])
    scale, agent = np.diag([0.7, 35.0]), agent_on()
    x = np.array([[0.9, 0.01], [0.9, -0.01]])
    contexts, actions = np.repeat(x[:, None, :].repeat(3, axis=1), 2, axis=0), np.zeros(4, int)
    rewards, agent.scale = np.array([1.0, -1.0, 1.0, -1.0]), scale
    scores = []
    for _ in range(300):
        up = rng.binomial(10**6, (1 + x @ theta) / 2)
        counts = np.array([up[0], 10**6 - up[0], up[1], 10**6 - up[1]])
        total = agent.randomize_sum(contexts, actions, rewards, counts)
        evidence = Generation.of(total, 2 * 10**6, scale, agent.sigma).evidence(1.0)
        root = np.linalg.cholesky(evidence[:, :-1]).T
        scores.append(root @ (np.linalg.solve(evidence[:, :-1], evidence[:, -1]) - theta))
    variance = np.var(scores, axis=0)
    assert (np.abs(variance - 1) < 4 * math.sqrt(2 / 300)).all()
    assert (np.abs(variance / 2 - 1) > 4 * math.sqrt(2 / 300)).all()


def test_the_most_precise_evidence_wins() -> None:
    small, large = np.eye(2, 3), 2 * np.eye(2, 3)
    assert most_precise(small, large) is large and most_precise(large, small) is large


def test_p_depends_on_reports_alone() -> None:
    """A server that gets the reports, and no user, comes to the same P and the same policy."""
    env: Any = gym.make("privbandit/Linear-v0", horizon=40_000, **ILL).unwrapped
    one, other = (make("prec", env, seed=4, epsilon=4.0) for _ in range(2))
    env.reset(seed=4)
    done = 0
    while done < 40_000:
        many = min(one.frozen_rounds(), 40_000 - done)
        contexts = env.upcoming(many)
        actions = one.select_action(contexts)
        report = one.randomize(contexts, actions, env.serve(actions).feedback)  # type: ignore[attr-defined]
        one.absorb(report)  # type: ignore[attr-defined]
        other.absorb(report)  # type: ignore[attr-defined]
        done += many
    assert not np.array_equal(one.scale, np.eye(2))  # type: ignore[attr-defined]
    assert np.array_equal(one.scale, other.scale)  # type: ignore[attr-defined]
    assert np.array_equal(one.drawn, other.drawn)  # type: ignore[attr-defined]


def test_without_noise_it_finds_theta() -> None:
    env = gym.make("privbandit/Linear-v0", horizon=10**6, **ILL)
    agent: Any = make("prec", env, seed=5, epsilon=math.inf)
    result = play(env, agent, seed=5, checkpoints=[10**6])
    assert result.simulation == "counts"
    theta = env.unwrapped.problem.theta  # type: ignore[attr-defined]
    assert np.allclose(agent.scorer[:, -1], theta, atol=0.1)


def mean_regret(name: str, horizon: int, runs: int, **config: Any) -> float:
    regret = []
    for seed in range(runs):
        env = gym.make("privbandit/Linear-v0", horizon=horizon, instance_seed=seed, **ILL)
        agent = make(name, env, seed=seed, **config)
        regret.append(play(env, agent, seed=seed, checkpoints=[horizon]).regret[-1])
    return float(np.mean(regret))


@pytest.mark.wide
def test_it_learns_the_weak_direction_and_ldp_greedy_does_not() -> None:
    """Means of 4 runs at T = 10^7; uniform play has 76 000."""
    assert 500 < mean_regret("prec", 10**7, 4) < 32_000 < mean_regret("ldp-greedy", 10**7, 4)


@pytest.mark.wide
@pytest.mark.parametrize(("policy", "runs"), [("thompson", 3), pytest.param("elimination", 8, marks=pytest.mark.slow)])
def test_more_noise_costs_regret(policy: str, runs: int) -> None:
    """Means of runs at T = 10^6, four standard errors within their limits or more; uniform play has 13 500."""
    quiet, loud = (mean_regret("prec", 10**6, runs, epsilon=epsilon, policy=policy) for epsilon in (4.0, 0.2))
    assert quiet < 0.7 * loud and loud > 9_000


def test_elimination_plays_arms_that_may_be_best() -> None:
    agent = agent_on(policy="elimination", width=1.0)
    agent.best = np.array([[100.0, 0.0, 50.0], [0.0, 1.0, 0.0]])
    agent.choose(agent.best)
    context = np.array([[0.9, 0.0], [0.5, 0.0], [0.85, 0.2]])
    assert agent.plausible(context).tolist() == [True, False, True]
    played = set()
    for _ in range(40):
        agent.choose(agent.best)
        played.add(int(agent.select_action(context)))
    assert played == {0, 2}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_elimination_conforms(check: Any) -> None:
    check("prec", "privbandit/Linear-v0", 300, {"policy": "elimination"})
    assert check_local.__name__ in {check.__name__ for check in CHECKS}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"policy": "greedy"}, "policy must be one of"),
        ({"target": 0.0}, "target"),
        ({"target": 1.5}, "target"),
        ({"stretch": 1.0}, "stretch"),
        ({"width": -1.0}, "width"),
    ],
)
def test_settings_out_of_range_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agent_on(**setting)
