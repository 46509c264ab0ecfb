"""Private gradients of choices from assortments: the gradient, its bound, the steps, the report, what is learned."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.pairs.scenes import sets
from privbandit_agents.audits.registry import game
from privbandit_agents.local.assortments.ldp_mnl import LDPMNL
from privbandit_agents.local.linear.moments import MomentAgent
from privbandit_agents.privacy.contributions.choices import clipped_gradients, clipped_sums
from privbandit_agents.privacy.randomizers.sphere import Hemisphere

WILD = [math.nan, math.inf, -math.inf, 1e38, -1e38, 0.0, 8.0]


def world(horizon: int = 4000, **kwargs: Any) -> Any:
    return gym.make("privbandit/Assortment-v0", **{"n_items": 6, "capacity": 3, "dim": 2, **kwargs}, horizon=horizon)


@pytest.mark.parametrize("bought", [-1, 0, 4])
def test_the_gradient_is_that_of_the_negative_log_likelihood(bought: int) -> None:
    agent: Any = make("ldp-mnl", world(), seed=0, gradient_norm=100.0)
    agent.scorer[:, 0] = theta = np.array([1.3, -0.4])
    context = np.random.default_rng(0).normal(size=(6, 3))
    offered = np.array([1, 0, 0, 0, 1, 0])

    def loss(at: np.ndarray) -> float:
        utilities = context[:, :-1] @ at
        return float(np.log1p(np.exp(utilities[offered == 1]).sum()) - (utilities[bought] if bought >= 0 else 0.0))

    numeric = [(loss(theta + 1e-6 * e) - loss(theta - 1e-6 * e)) / 2e-6 for e in np.eye(2)]
    assert np.allclose(agent.encode(context[None], offered[None], np.array([bought]))[0], numeric, atol=1e-7)


@pytest.mark.parametrize("theta", [0.0, 1e3])
@pytest.mark.parametrize("bound", [1e-6, 0.7, 3.0])
def test_no_gradient_leaves_the_ball_whatever_the_record_and_theta(theta: float, bound: float) -> None:
    agent: Any = make("ldp-mnl", world(), seed=0, gradient_norm=bound)
    agent.scorer[:, 0] = [theta, -theta]
    contexts = np.array([np.outer([a, b, -b, -a, 1.0, 2.0], [1.0, 0.5, 1.0]) for a in WILD for b in WILD])
    offered = np.tile(np.array([1, 1, 1, 0, 0, 0]), (len(contexts), 1))
    for bought in [*WILD, 1.0, 2.0, -1.0, 5.0]:
        gradients = agent.encode(*agent.records_of(contexts, offered, np.full(len(contexts), bought)))
        assert (np.linalg.norm(gradients, axis=1) <= bound * (1 + 1e-12)).all()
        assert math.isfinite(bought) or (np.isfinite(gradients)).all()


def test_gradients_are_those_that_newton_steps_add_up() -> None:
    rng = np.random.default_rng(1)
    x, bought, offered = 3 * rng.normal(size=(1100, 4, 3)), rng.integers(-1, 4, 1100), rng.random((1100, 4)) < 0.8
    found = clipped_gradients(x, bought, np.ones(3), offered, radius=5.0, gradient_norm=0.9)
    expected, _ = clipped_sums(x, bought, np.ones(3), offered, radius=5.0, gradient_norm=0.9, trace=0.2)
    assert np.allclose(found.sum(axis=0), expected)
    alone = clipped_gradients(x[7:8], bought[7:8], np.ones(3), offered[7:8], radius=5.0, gradient_norm=0.9)
    assert np.allclose(found[7], alone[0], rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_worst_pair_of_records_has_a_ratio_of_epsilon_and_none_a_larger_one(epsilon: float) -> None:
    """Exact densities of the reports that the audit's pairs of records send to a new server."""
    env = world()
    agent: Any = make("ldp-mnl", env, seed=0, epsilon=epsilon)
    ratios = {}
    for pair in sets(env.action_space, 2):
        inputs = agent.inputs(*(getattr(pair.records, part) for part in ("contexts", "actions", "feedback")))
        two = pair.users(0, 300)
        reports = agent.randomize(two.contexts, two.actions, two.feedback)
        ratios[pair.words] = np.abs(inputs.log_likelihood(reports, 0) - inputs.log_likelihood(reports, 1)).max()
    assert max(ratios.values()) == pytest.approx(epsilon)
    assert ratios["the purchase of an item or of its opposite"] == pytest.approx(epsilon)
    assert ratios["features of what was not on offer"] == 0


def test_steps_go_against_the_reports_and_the_average_forgets_what_was_first() -> None:
    agent: Any = make("ldp-mnl", world(), seed=0, step=2.0, radius=3.0)
    unit = agent.device.scale
    agent.users, agent.total = 1, np.array([unit, 0.0])
    agent.learn()
    assert np.allclose(agent.scorer, [[-2.0, -2.0], [0.0, 0.0]]) and not agent.total.any()
    agent.users, agent.total = 2, np.array([-unit, unit])
    agent.learn()
    theta = np.array([-2.0, 0.0]) + math.sqrt(2.0) * np.array([1.0, -1.0])
    assert np.allclose(agent.scorer[:, 0], theta)
    assert np.allclose(agent.scorer[:, 1], np.array([-2.0, 0.0]) / 16 + 15 / 16 * theta)
    agent.users, agent.total = 10_002, np.array([-unit * 5000, 0.0])
    agent.learn()  # at most four lengths, and a ball: 4 * 2 * 0.5 on top of theta
    moved = theta + np.array([4.0, 0.0])
    assert np.allclose(agent.scorer[:, 0], 3 * moved / np.linalg.norm(moved))


def test_without_noise_it_finds_theta() -> None:
    env = world(10_000, theta=[0.9, -0.5], features="unit")
    agent: Any = make("ldp-mnl", env, seed=1, epsilon=math.inf)
    play(env, agent, seed=1, checkpoints=[10_000])
    assert np.allclose(agent.scorer[:, 1], [0.9, -0.5], atol=0.15)


def loud(self: Any, context: Any, action: Any, feedback: Any) -> Any:
    """Randomize with 1.5 epsilon."""
    inputs = self.inputs(context, action, feedback)
    more = Hemisphere(1.5 * self.config.epsilon, 1, self.dim, radius=self.config.gradient_norm)
    return more.randomize(inputs.cells, inputs.values, self.rng)


@pytest.mark.parametrize("louder", [False, True])
@pytest.mark.wide
def test_the_audit_refutes_devices_that_use_more_and_no_others(louder: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 99.9 %; of the promise of 1 the honest devices show 0.9 at least, the loud ones 1.3."""
    monkeypatch.setattr(LocalGame, "pilots", 200)
    monkeypatch.setattr(LDPMNL, "randomize", loud if louder else MomentAgent.randomize)
    found = audit(game("ldp-mnl", 1.0), 20_000, np.random.default_rng(0), 0.999)
    assert found.refuted == louder and found.lower_bound > (1.3 if louder else 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("revenues", ["ones", "random"])
def test_it_learns_and_more_budget_is_less_regret(revenues: str) -> None:
    """Shares of uniform play's regret after 20 000 users, means of three worlds."""
    regrets: dict[float, list[float]] = {0.0: [], 1.0: [], 8.0: []}
    for seed in range(3):
        for epsilon, found in regrets.items():
            env = world(20_000, n_items=50, capacity=5, dim=5, revenues=revenues, instance_seed=seed)
            agent = make("ldp-mnl", env, seed=seed, epsilon=epsilon) if epsilon else make("uniform", env, seed=seed)
            found.append(play(env, agent, seed=seed, checkpoints=[20_000]).regret[-1])
    uniform, one, eight = (np.mean(found) for found in regrets.values())
    assert eight < one < 0.1 * uniform
