"""Lower bounds of finite arms and linear bandits: their numbers, their order, and where privacy is free."""

import math
from typing import Literal

import numpy as np
import pytest
from privbandit_agents.base.divergence import coin_divergence, farthest_mean
from privbandit_agents.bounds import arms_lower_bound, arms_worst_case, linear_lower_bound, smooth_worst_case
from privbandit_agents.bounds.arms import information


def test_divergence_and_its_inverse_agree() -> None:
    p, bound = np.array([0.0, 0.2, 0.9, 1.0]), np.array([0.1, 0.05, 0.01, 0.3])
    q = farthest_mean(p, bound)
    assert np.allclose(coin_divergence(p[:3], q[:3]), bound[:3], rtol=1e-5) and q[3] == 1
    assert coin_divergence(0.5, 0.6) == pytest.approx(0.5 * math.log(0.5 / 0.6) + 0.5 * math.log(0.5 / 0.4))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 4])
def test_bounds_are_ordered_by_notion(epsilon: float) -> None:
    plain, joint, local = (
        float(arms_lower_bound(1e5, gap=0.1, notion=notion, epsilon=epsilon)) for notion in ("none", "joint", "local")
    )
    assert plain <= joint <= local
    assert (joint == plain) == (epsilon >= 0.201), "privacy is free above twice the gap"
    assert local / plain == pytest.approx(1 / math.tanh(epsilon / 2) ** 2, rel=0.02)


def test_a_jointly_private_agent_pays_log_t_over_epsilon_for_each_arm() -> None:
    assert arms_lower_bound(1e5, gap=0.1, notion="joint", epsilon=0.01) == pytest.approx(9 * math.log(1e5) / 0.01)
    assert information(0.4, 0.6, "joint", 0.01) == pytest.approx(0.002)


def test_worst_cases_have_their_rates() -> None:
    assert arms_worst_case(1e6, n_arms=4, notion="local", epsilon=1) == pytest.approx(2000 / math.tanh(0.5))
    assert arms_worst_case(100, n_arms=10, notion="joint", epsilon=0.01) == 1000
    joint = linear_lower_bound(1e6, dim=4, n_arms=2, notion="joint", epsilon=0.5)
    assert joint == pytest.approx(linear_lower_bound(1e6, dim=4, n_arms=2) + 8)
    assert linear_lower_bound(1e6, dim=4, notion="local", epsilon=0.1) == pytest.approx(20_000)


@pytest.mark.parametrize(("notion", "power"), [("none", 1 / 3), ("local", 1 / 2)])
def test_smooth_rewards_have_their_rates(notion: Literal["none", "local"], power: float) -> None:
    one, two = (float(smooth_worst_case(T, dim=1, notion=notion, epsilon=0.5)) for T in (1e4, 1e6))
    assert math.log10(two / one) / 2 == pytest.approx(power)
    flat = smooth_worst_case([1e4, 1e6], dim=3, exponent=0.5, margin=0.0, notion=notion, epsilon=0.5)
    assert math.log10(flat[1] / flat[0]) / 2 == pytest.approx(1 - 0.5 / (4 if notion == "none" else 7))


def test_privacy_is_no_gain_for_smooth_rewards() -> None:
    private = smooth_worst_case([10, 1e5], dim=2, notion="local", epsilon=1e-3)
    assert private.tolist() == [10, 1e5], "reports that tell nothing leave the regret of play at random"
    assert float(smooth_worst_case(1e5, dim=2, notion="local", epsilon=50)) == float(smooth_worst_case(1e5, dim=2))
