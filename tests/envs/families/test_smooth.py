from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

from privbandit_envs.families.smooth import SmoothProblem


def world(seed: int = 0, **kwargs: Any) -> SmoothProblem:
    return SmoothProblem(np.random.default_rng(seed), **kwargs)


def test_ridges_are_those_of_the_papers_simulation() -> None:
    problem, x = world(n_arms=2), np.array([[1 / 3, 0.9], [2 / 3, 0.1], [0.5, 0.5], [0.0, 0.0]])
    near = np.exp(-8 * np.array([0, 1 / 9, 1 / 36, 1 / 9]))
    assert np.allclose(problem.means(x)[:, 0], 2 * near / (1 + near))
    assert problem.means(x)[0, 0] == pytest.approx(1) and problem.means(x)[1, 1] == pytest.approx(1)
    assert problem.best_action(x)[[0, 1, 3]].tolist() == [0, 1, 0]


@pytest.mark.wide_at("0.3-3", "1.0-2")
@pytest.mark.parametrize(("exponent", "dim"), [(1.0, 1), (1.0, 2), (0.5, 2), (0.3, 3)])
def test_rewards_are_smooth_with_the_stated_exponent_and_with_no_larger_one(exponent: float, dim: int) -> None:
    """|f(x) - f(x')| / |x - x'|^beta over 200 000 near pairs, at distances down to 10^-4."""
    problem, rng = (
        world(rewards="scales", exponent=exponent, dim=dim, margin=0.5, dtype="float64"),
        np.random.default_rng(1),
    )
    x = problem.contexts(200_000, rng)
    apart = 10.0 ** -rng.uniform(1, 4, (200_000, 1)) * rng.uniform(-1, 1, x.shape)
    y = np.clip(x + apart, 0, 1)
    moved, distance = np.abs(problem.means(x) - problem.means(y)).max(axis=1), np.abs(x - y).max(axis=1)
    steep = moved / distance**exponent
    assert steep.max() <= 4 * problem.bumps.unit * 1.001  # type: ignore[union-attr]
    near = distance < 1e-3
    assert (moved[near] / distance[near] ** (exponent + 0.3)).max() > 2 * steep.max()


@pytest.mark.wide_at("0.5-1.0-2")
@pytest.mark.parametrize(("margin", "exponent", "dim"), [(0.5, 1.0, 1), (0.5, 1.0, 2), (1.0, 0.5, 1), (0.0, 1.0, 2)])
def test_the_margin_has_the_stated_exponent(margin: float, exponent: float, dim: int) -> None:
    """The share of users with a gap of at most t is t^alpha within a factor of 3, for t from .05 to .8."""
    problem = world(rewards="scales", margin=margin, exponent=exponent, dim=dim, n_arms=3)
    means = np.sort(problem.means(problem.contexts(400_000, np.random.default_rng(2))), axis=1)
    gaps = means[:, -1] - means[:, -2]
    assert gaps.min() >= 0 and gaps.max() <= 1 and means.min() >= 0 and means.max() <= 1
    shares = [(gaps <= t).mean() / t**margin for t in (0.05, 0.1, 0.2, 0.4, 0.8)]
    assert max(shares) < 3 * min(shares)


def test_auxiliary_contexts_have_the_stated_density_and_uniform_arms() -> None:
    """R = |x - 1/2| has P(2 R <= r) = r^(d + shift): 100 000 records, five standard errors."""
    for shift in (0.0, 2.0):
        x, arms, y = world(n_auxiliary=100_000, shift=shift, dim=3).auxiliary_data  # type: ignore[misc]
        inside = (2 * np.abs(x.astype(float) - 0.5).max(axis=1) <= 0.7).mean()
        assert abs(inside - 0.7 ** (3 + shift)) < 5 * 0.5 / 100_000**0.5
        assert (np.abs(np.bincount(arms) / 100_000 - 1 / 3) < 5 * (2 / 9 / 100_000) ** 0.5).all()
        best = np.abs(x[:, 0].astype(float) - 0.25) < 0.05
        assert y[best & (arms == 0)].mean() > y[best & (arms == 2)].mean() + 0.5


def test_auxiliary_records_are_of_the_world_whatever_the_seed() -> None:
    one, other = (world(seed, rewards="scales", n_auxiliary=50, world=3) for seed in (0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(one.auxiliary_data, other.auxiliary_data, strict=True))  # type: ignore[arg-type]
    assert (one.bumps.best == other.bumps.best).all()  # type: ignore[union-attr]
    assert (one.bumps.best != world(rewards="scales", world=4).bumps.best).any()  # type: ignore[union-attr]
    env = gym.make("privbandit/Smooth-v0", n_auxiliary=20, shifts={50: {"shift": 0.0}})
    assert env.unwrapped.auxiliary_data[0].shape == (20, 2)  # type: ignore[attr-defined]
    assert gym.make("privbandit/Smooth-v0").unwrapped.auxiliary_data is None  # type: ignore[attr-defined]


def test_finitely_many_contexts_are_served_by_counts() -> None:
    env = gym.make("privbandit/Smooth-v0", support=50, horizon=1_000_000)
    counted = play(env, make("uniform", env, seed=0), seed=0)
    assert counted.simulation == "counts"
    alone = play(env, make("uniform", env, seed=0), 50_000, seed=0, by_counts=False)
    rates = [run.reward[-1] / run.checkpoints[-1] for run in (counted, alone)]
    assert abs(rates[0] - rates[1]) < 5 * (0.25 / 50_000) ** 0.5


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_arms": 0}, "n_arms.*0"),
        ({"rewards": "flat"}, "rewards.*flat"),
        ({"exponent": 0.5}, "ridges"),
        ({"rewards": "scales", "exponent": 1.5}, "1.5"),
        ({"rewards": "scales", "exponent": 0.5, "margin": 3.0}, "margin 3"),
        ({"rewards": "scales", "margin": -1.0}, "margin.*-1"),
        ({"n_auxiliary": 5, "shift": -1.0}, "shift.*-1"),
        ({"support": 0}, "support.*0"),
    ],
)
def test_bad_arguments_are_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        world(**kwargs)
