"""Many seeds in one call: the results of single runs, bit for bit."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import Result, make, play, play_many

LINEAR, SEEDS = "privbandit/Linear-v0", (3, 0, 11, 2**70)
NAMES = ("linucb", "greedy", "epsilon-greedy", "lints")
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


@pytest.mark.wide_at("lints-changes", "epsilon-greedy-*context", "linucb-arms", "lints-arms", "greedy-*")
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", NAMES)
def test_many_seeds_are_single_runs_bit_for_bit(name: str, world: str) -> None:
    env_id, kwargs = WORLDS[world]
    assert same(env_id, name, kwargs, {}, checkpoints=[1, 50, kwargs["horizon"] - 7])


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
def test_other_agents_and_worlds_are_single_runs_too(name: str, env_kwargs: Any, config: Any) -> None:
    assert same(LINEAR, name, {"n_arms": 2, "dim": 2, "horizon": 40, **env_kwargs}, config, seeds=(4, 1))


def test_seeds_come_in_order_and_a_number_counts_from_zero() -> None:
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
