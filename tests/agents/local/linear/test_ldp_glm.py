"""Private gradients of a logistic model: the gradient, its bound, the steps, and what is learned."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

WILD = [math.nan, math.inf, -math.inf, 1e38, -1e38]


def world(horizon: int = 4000, **kwargs: Any) -> Any:
    return gym.make("privbandit/Linear-v0", **{"n_arms": 3, "dim": 2, "link": "logistic", **kwargs}, horizon=horizon)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_the_gradient_is_that_of_the_logistic_loss(y: float) -> None:
    agent: Any = make("ldp-glm", world(), seed=0)
    agent.scorer[:, -1] = theta = np.array([1.3, -0.4])
    x, step = np.array([0.5, 0.7]), 1e-6

    def loss(at: np.ndarray) -> float:
        return float(np.log1p(np.exp(x @ at)) - y * (x @ at))

    numeric = [(loss(theta + step * e) - loss(theta - step * e)) / (2 * step) for e in np.eye(2)]
    assert np.allclose(agent.encode(np.tile(x, (1, 3, 1)), 0, y)[0], numeric, atol=1e-8)


@pytest.mark.parametrize("theta", [0.0, 1e3])
def test_no_gradient_leaves_the_ball_whatever_the_record_and_theta(theta: float) -> None:
    agent: Any = make("ldp-glm", world(), seed=0)
    agent.scorer[:, -1] = [theta, -theta]
    contexts = np.array([[[a, b]] * 3 for a in [*WILD, 1.0, -1.0] for b in (0.0, 1.0)])
    for reward in [*WILD, 0.0, 1.0, -1.0]:
        gradients = agent.encode(contexts, np.zeros(len(contexts), int), np.full(len(contexts), reward))
        assert (np.linalg.norm(gradients, axis=1) <= 1 + 1e-12).all()
        assert math.isfinite(reward) or not gradients.any() or agent.mean(0.0) > 0


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_worst_pair_of_records_has_a_ratio_of_epsilon(epsilon: float) -> None:
    """Exact densities of reports of the reward 0 and 1 at both ends of an axis; never beyond epsilon."""
    agent: Any = make("ldp-glm", world(), seed=0, epsilon=epsilon)
    contexts = np.repeat(np.array([[1.0, 0], [-1, 0], [0.6, 0.8]])[:, None], 3, axis=1).repeat(2, axis=0)
    rewards = np.tile([0.0, 1.0], 3)
    vectors = agent.encode(contexts, np.zeros(6, int), rewards)
    reports = agent.randomize(contexts.repeat(200, axis=0), np.zeros(1200, int), rewards.repeat(200))
    density = np.array([agent.device.log_likelihood(reports, 0, vector) for vector in vectors])
    worst = (density.max(axis=0) - density.min(axis=0)).max()
    assert 0.2 * epsilon < worst <= epsilon * (1 + 1e-9)  # gradients of one theta do not fill the ball


def test_a_step_goes_against_the_mean_report_and_stays_in_the_ball() -> None:
    agent: Any = make("ldp-glm", world(), seed=0, step=40.0, radius=3.0)
    agent.users, agent.stepped, agent.total = 1000, 990, np.array([-5.0, 2.5])
    agent.learn()
    assert np.allclose(agent.scorer[:, -1], [0.4 * 0.5, -0.4 * 0.25]) and not agent.total.any()
    agent.users, agent.total = 1001, np.array([-500.0, 0.0])
    agent.learn()
    assert np.linalg.norm(agent.scorer[:, -1]) == pytest.approx(3.0)


def test_without_noise_it_finds_theta_and_predicts_probabilities() -> None:
    env = world(200_000, theta_norm=2.0, support=100)
    agent: Any = make("ldp-glm", env, seed=1, epsilon=math.inf)
    play(env, agent, seed=1, checkpoints=[200_000])
    theta = env.unwrapped.problem.theta
    assert np.allclose(agent.scorer[:, -1], theta, atol=0.15)
    contexts = env.unwrapped.support.contexts
    assert np.abs(agent.predict(contexts) - env.unwrapped.problem.means(contexts)).max() < 0.03


@pytest.mark.slow
def test_a_logistic_model_beats_a_linear_gradient_on_logistic_rewards() -> None:
    """Means of two worlds of five features at epsilon = 2; uniform play has some 40 000."""
    means = {}
    for name in ("ldp-glm", "ldp-sgd"):
        envs = [world(100_000, n_arms=10, dim=5, theta_norm=4.0, instance_seed=seed) for seed in range(2)]
        means[name] = np.mean([play(env, make(name, env, seed=0, epsilon=2.0), seed=0).regret[-1] for env in envs])
    assert means["ldp-glm"] < 0.5 * means["ldp-sgd"]
