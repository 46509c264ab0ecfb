"""Units: private agents scale by public bounds that the environment declares; who declares none is told."""

from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box
from privbandit_agents import AGENTS, load, make, play, save
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.local import Devices
from privbandit_agents.zoo.registry import can_play

from privbandit_envs import Assortments, Units

WORLDS: dict[str, dict[str, Any]] = {
    "linear": {"id": "privbandit/Linear-v0", "n_arms": 4, "dim": 3, "dtype": "float64"},
    "sparse": {"id": "privbandit/SparseLinear-v0", "n_arms": 3, "dim": 20, "dtype": "float64"},
    "clicks": {"id": "privbandit/Clicks-v0", "n_arms": 4, "dim": 2, "dtype": "float64"},
    "smooth": {"id": "privbandit/Smooth-v0", "dtype": "float64"},
    "arms": {"id": "privbandit/Bandit-v0", "n_arms": 4},
    "labels": {"id": "privbandit/Classification-v0", "source": "wine", "dtype": "float64"},
    "two labels": {"id": "privbandit/Classification-v0", "dtype": "float64"},
    "assortments": {"id": "privbandit/Assortment-v0", "n_items": 6, "capacity": 2, "dtype": "float64"},
}


class Abroad(gym.Env[Any, Any]):
    """A world in other units: features are ``years`` times as large, rewards ``dollars`` times and ``more`` besides."""

    def __init__(self, world: str, years: float, dollars: float, more: float, declared: bool, horizon: int) -> None:
        self.inner = cast(Any, gym.make(**WORLDS[world], horizon=horizon).unwrapped)
        self.horizon: int = horizon
        self.auxiliary_data: Any = self.inner.auxiliary_data
        self.action_space: Any = self.inner.action_space
        space: Any = self.inner.observation_space
        self.boxed = isinstance(space, Box)
        self.years, self.dollars, self.more = years if self.boxed else 1.0, dollars, more
        box: Any = Box  # in float64, as the worlds are
        self.observation_space = box(space.low * years, space.high * years, dtype=np.float64) if self.boxed else space
        data = self.inner.public_data
        self.public_data: Any = None if data is None else (data[0] * years, data[1])
        rewards = None if isinstance(self.action_space, Assortments) else (more, more + dollars)
        self.units = Units(rewards, years if self.boxed else None) if declared else None

    def of(self, context: Any) -> Any:
        return context * self.years if self.boxed else context

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        context, info = self.inner.reset(seed=seed)
        return self.of(context), info

    def step(self, action: Any) -> Any:
        context, reward, ended, cut, info = self.inner.step(action)
        if not isinstance(self.action_space, Assortments):
            info = info | {"feedback": info["feedback"] * self.dollars + self.more}
        info = info | {"regret": info["regret"] * self.dollars}
        return self.of(context), reward * self.dollars + self.more, ended, cut, info


PRIVATE = [name for name, entry in AGENTS.items() if issubclass(entry.load(), Devices | CentralAgent)]
MADE = {world: gym.make(**given) for world, given in WORLDS.items()}
PAIRS = [(name, world) for world, env in MADE.items() for name in PRIVATE if can_play(name, env)]
FIRST = {name: world for name, world in reversed(PAIRS)}


@pytest.mark.few_agents
@pytest.mark.wide_at("kernel-ldp-*")
@pytest.mark.parametrize(
    ("name", "world", "years", "dollars"),
    [
        pytest.param(name, world, *scales, marks=() if brief and FIRST[name] == world else pytest.mark.wide)
        for name, world in PAIRS
        for brief, scales in enumerate([(73.0, 49.5), (64.0, 32.0)])
    ],
)
@pytest.mark.filterwarnings("ignore:.*count as")  # rewards with Gaussian noise
def test_regrets_are_those_of_the_world_in_the_unit_ball(name: str, world: str, years: float, dollars: float) -> None:
    """To 1e-9, after scaling back; bit for bit if scales are powers of two."""
    regrets, signed = [], len(gym.make(**WORLDS[world]).observation_space.shape or ()) == 2
    config: dict[str, Any] = {"epsilon": 50.0}
    for units in ((1.0, 1.0, 0.0), (years, dollars, 0.0 if signed else 8.0)):
        env = Abroad(world, *units, True, 80)
        agent = make(name, env, seed=1, **config)
        assert (agent.units is not None) == (not env.units.plain)  # type: ignore[union-attr]
        regrets.append(play(env, agent, 80, seed=2).regret)
    assert np.allclose(regrets[1] / dollars, regrets[0], rtol=1e-9, atol=1e-9 * dollars)
    assert years != 64 or np.array_equal(regrets[1] / dollars, regrets[0])


@pytest.mark.wide_at("smooth-*")
@pytest.mark.parametrize(
    ("name", "world", "sentence"),
    [
        ("jdp-linucb", "linear", r"^\d+ % of features of arms were longer than 1 and count as 1; declare .*contexts="),
        ("jdp-linucb", "clicks", r"^\d+ % of rewards were above 1 and count as 1; declare .*rewards=\(low, high\)"),
        ("ldp-ucb", "arms", "of rewards were above 1"),
        ("smooth-ldp", "smooth", "of rewards were above 1"),
        (
            "shuffle-linucb",
            "clicks",
            r"^\d+ % of contexts were longer than thrice .* length is lost; declare .*contexts=",
        ),
    ],
)
def test_who_declares_nothing_is_told(name: str, world: str, sentence: str) -> None:
    years, dollars, more = (50.0, 1.0, 0.0) if "rewards" not in sentence else (1.0, 50.0, 5.0)
    env = Abroad(world, years, dollars, more, False, 60)
    with pytest.warns(UserWarning, match=sentence):
        play(env, agent := make(name, env, seed=0), seed=0)
    assert agent.units is None
    env = Abroad(world, 1.0, 0.2, 0.1, False, 60)
    play(env, make(name, env, seed=0), seed=0)  # nothing is clipped, nothing is said


def test_bounds_that_do_not_hold_are_told() -> None:
    env = Abroad("arms", 1.0, 50.0, 0.0, True, 60)
    env.units = Units(rewards=(0, 10))
    with pytest.warns(UserWarning, match=r"^\d+ % of rewards were above 10 and count as 10; "):
        play(env, make("ldp-ucb", env, seed=0), seed=0)


def test_a_saved_agent_keeps_its_units_and_is_not_loaded_for_others(tmp_path: Any) -> None:
    env = Abroad("clicks", 64.0, 32.0, 0.0, True, 90)
    save(make("jdp-linucb", env, seed=0), tmp_path / "agent.npz")
    assert load(tmp_path / "agent.npz", env).units == env.units
    env.units = Units(rewards=(0, 1))
    with pytest.raises(ValueError, match=r"was saved for .*scaled by Units\(rewards=\(0.0, 32.0\), contexts=64.0\)"):
        load(tmp_path / "agent.npz", env)


@pytest.mark.parametrize("name", ["ldp-linucb", "lpct", "jdp-linucb", "shuffle-linucb"])
def test_devices_and_servers_scale_alike_one_by_one_and_predictions_are_in_dollars(name: str) -> None:
    world = "labels" if name == "lpct" else "linear"
    plain, env = Abroad(world, 1.0, 1.0, 0.0, True, 90), Abroad(world, 64.0, 32.0, 0.0, True, 90)
    one, other = make(name, plain, seed=3, epsilon=20.0), make(name, env, seed=3, epsilon=20.0)
    context, _ = plain.reset(seed=1)
    if isinstance(one, Devices):
        reports = one.randomize(context, 1, 0.5), other.randomize(64 * context, 1, 16.0)  # type: ignore[attr-defined]
        assert np.array_equal(*reports)
    one.update(context, 1, 0.5)
    other.update(64 * context, 1, 16.0)
    assert np.array_equal(one.select_action(context[None]), other.select_action(64 * context[None]))
    predicted = one.predict(context[None]), other.predict(64 * context[None])
    assert predicted[0] is None or (predicted[1] is not None and np.allclose(32 * predicted[0], predicted[1]))
    assert np.array_equal(one.probabilities(context[None]), other.probabilities(64 * context[None]))


@pytest.mark.parametrize("name", ["ldp-linucb", "jdp-linucb", "shuffle-linucb"])
def test_no_record_warns_where_it_is_scaled_and_arguments_may_be_named(name: str) -> None:
    env = Abroad("linear", 64.0, 0.5, 0.0, True, 90)
    one, other = make(name, env, seed=3), make(name, env, seed=3)
    context, _ = env.reset(seed=1)
    one.update(context, 1, 1e308)
    other.update(context, action=1, feedback=1e308)
    assert np.array_equal(one.select_action(context[None]), other.select_action(context[None]))
