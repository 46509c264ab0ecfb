"""Many seeds in one call: the results of single runs, bit for bit, whether the runs go in step or not."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import register
from gymnasium.spaces import Box, Discrete
from privbandit_agents import Result, make, many, play, play_many
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.baselines.linucb import LinUCB

from privbandit_envs.problem import ArmProblem

LINEAR, SEEDS = "privbandit/Linear-v0", (3, 0, 11, 2**70)
IN_STEP = ("linucb", "greedy", "epsilon-greedy", "lints")
WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "arms": (LINEAR, {"n_arms": 4, "dim": 7, "horizon": 600}),
    "one arm": (LINEAR, {"n_arms": 1, "dim": 1, "horizon": 70}),
    "one context": ("privbandit/Classification-v0", {"source": "wine", "horizon": 600}),
    "changes": (LINEAR, {"n_arms": 3, "dim": 2, "horizon": 300, "jumps": [100]}),
}


def single(env_id: str, name: str, seed: int, env_kwargs: Any, config: Any, **how: Any) -> Result:
    env = gym.make(env_id, **env_kwargs)
    return play(env, make(name, env, seed=seed, **config), seed=seed, **how)


def same(env_id: str, name: str, env_kwargs: Any, config: Any, seeds: Any = SEEDS, **how: Any) -> bool:
    """Return whether ``play_many`` gives what single runs give."""
    together = play_many(env_id, name, seeds, env_kwargs=env_kwargs, config=config, **how)
    alone = [single(env_id, name, seed, env_kwargs, config, **how) for seed in seeds]
    fields = ("checkpoints", "regret", "reward", "static")
    equal = [
        one.simulation == other.simulation
        and all(np.array_equal(getattr(one, field), getattr(other, field)) for field in fields)
        for one, other in zip(together, alone, strict=True)
    ]
    return len(equal) == len(seeds) and all(equal)


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets a word for each group of runs: whether they were played in step."""
    seen: list[bool] = []
    plain = many.play_in_step

    def watched(*given: Any) -> Any:
        results = plain(*given)
        seen.append(results is not None)
        return results

    monkeypatch.setattr(many, "play_in_step", watched)
    return seen


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", IN_STEP)
def test_seeds_in_step_are_single_runs_bit_for_bit(name: str, world: str, stepped: list[bool]) -> None:
    env_id, kwargs = WORLDS[world]
    assert same(env_id, name, kwargs, {}, checkpoints=[1, 50, kwargs["horizon"] - 7])
    assert stepped == [True]


@pytest.mark.parametrize(
    ("name", "env_kwargs", "config"),
    [
        ("linucb", {}, {"growth": 1.5}),
        ("uniform", {}, {}),
        ("ldp-linucb", {}, {"epsilon": 1.0}),
        ("squarecb", {}, {}),
        ("linucb", {"available": 0.5}, {}),
        ("linucb", {"support": 20}, {"growth": 1.1}),
        ("linucb", {"dim": 300}, {}),
    ],
)
def test_all_others_are_played_alone(name: str, env_kwargs: Any, config: Any, stepped: list[bool]) -> None:
    assert same(LINEAR, name, {"n_arms": 2, "dim": 2, "horizon": 40, **env_kwargs}, config, seeds=(4, 1))
    assert stepped == []


class Odd(LinUCB):
    """Chooses by what it has chosen before."""

    def choose(self, features: Any, directions: Any, estimates: Any, random: Any) -> Any:
        self.asked = getattr(self, "asked", 0) + 1
        return super().choose(features, directions, estimates, random) if self.asked % 3 else np.intp(0)


def test_a_class_derived_from_one_that_goes_in_step_is_played_alone() -> None:
    env = gym.make(LINEAR, horizon=20)
    assert make("linucb", env).runs_in_step() == 32  # type: ignore[attr-defined]
    assert Odd(env.observation_space, env.action_space, LinUCB.Config()).runs_in_step() == 1


class Extreme(ArmProblem):
    """Contexts and rewards of any size and type."""

    def __init__(self, rng: Any, *, dtype: str = "float64", scale: float = 1.0, reward: float = 1.0) -> None:
        self.dtype, self.scale, self.reward = dtype, scale, reward
        self.observation_space, self.action_space = Box(-np.inf, np.inf, (3, 2)), Discrete(3)

    def contexts(self, n: int, rng: Any) -> Any:
        return rng.normal(scale=self.scale, size=(n, 3, 2))

    def means(self, contexts: Any) -> Any:
        return np.cos(contexts[..., 0])

    def rewards(self, means: Any, rng: Any) -> Any:
        return (rng.choice([-1, 1], means.shape) * self.reward).astype(self.dtype)


@pytest.mark.parametrize("world", [{"reward": 2e6}, {"dtype": "float32"}, {"scale": 1e7}])
def test_what_cannot_be_learned_in_step_is_played_alone(world: Any, stepped: list[bool]) -> None:
    kwargs = {"problem": Extreme, "horizon": 30}
    register("Plain-v0", "privbandit_envs:BanditEnv", kwargs=kwargs, order_enforce=False, disable_env_checker=True)
    try:
        if "dtype" in world:
            assert same("Plain-v0", "linucb", world, {})
        else:
            with pytest.warns(IgnoredRecord):
                assert same("Plain-v0", "linucb", world, {})
    finally:
        del gym.registry["Plain-v0"]
    assert stepped == [False]


def test_more_seeds_than_go_in_step_come_in_order_and_a_number_counts_from_zero() -> None:
    found = play_many(LINEAR, "greedy", 34, horizon=20)
    kwargs = {"horizon": 20}
    assert [one.reward[-1] for one in found] == [
        single(LINEAR, "greedy", seed, kwargs, {}).reward[-1] for seed in range(34)
    ]
    assert all(one.seconds > 0 and one.checkpoints[-1] == 20 for one in found)
    assert play_many(LINEAR, "greedy", []) == []


@pytest.mark.parametrize("seeds", [[-1], [1, None], ["a"], "12", 0, 1.5, [True]])
def test_seeds_that_are_none_are_refused(seeds: Any) -> None:
    with pytest.raises(ValueError, match="seeds must be"):
        play_many(LINEAR, "greedy", seeds, horizon=5)


def test_checkpoints_beyond_the_horizon_are_refused() -> None:
    with pytest.raises(ValueError, match="must not exceed the horizon 5"):
        play_many(LINEAR, "greedy", 2, horizon=5, checkpoints=[6])
