"""Wrappers that carry something from one user to another are told from those that look at one user at a time."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers as w
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import vector as v

import privbandit_envs  # noqa: F401
from privbandit_envs.changing.mixing import mixing_wrappers, unseen_rewards
from privbandit_envs.wrappers import FlattenContext, RecordRegret, RecordVectorRegret, ScoreAction


def world() -> Any:
    return gym.make("privbandit/Linear-v0", n_arms=3, dim=2)


def worlds() -> Any:
    return SyncVectorEnv([world, world])


class Centred(gym.ObservationWrapper[Any, Any, Any]):
    def observation(self, observation: Any) -> Any:
        return observation - 0.5


class CentredPerUser(Centred):
    per_user = True


class Heir(CentredPerUser):
    """May do more than what it inherits from, and says nothing."""


class Silent(gym.Wrapper[Any, Any, Any, Any]):
    def render(self) -> Any:
        return "nothing"


class Halved(gym.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> float:
        return float(reward) / 2


class Resetting(gym.Wrapper[Any, Any, Any, Any]):
    def reset(self, **kwargs: Any) -> Any:
        return self.env.reset(**kwargs)


MIXING: list[Callable[[Any], Any]] = [
    w.NormalizeObservation,
    lambda env: w.FrameStackObservation(env, 2),
    lambda env: w.DelayObservation(env, 1),
    lambda env: w.MaxAndSkipObservation(env, 2),
    lambda env: w.StickyAction(env, 0.5),
    lambda env: w.RepeatAction(env, 2),
    lambda env: w.TransformObservation(env, lambda x: x, env.observation_space),
    lambda env: w.TransformAction(env, lambda a: a, env.action_space),
    Centred,
    Heir,
    Resetting,
]
HARMLESS: list[Callable[[Any], Any]] = [
    w.FlattenObservation,
    lambda env: w.RescaleObservation(env, np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32)),
    lambda env: w.DtypeObservation(env, np.float64),
    lambda env: w.ReshapeObservation(env, (6,)),
    lambda env: w.TimeAwareObservation(w.TimeLimit(env, 5)),
    lambda env: w.TimeLimit(env, 5),
    w.OrderEnforcing,
    w.PassiveEnvChecker,
    w.RecordEpisodeStatistics,
    w.Autoreset,
    lambda env: w.ClipReward(env, 0, 1),
    w.NormalizeReward,
    lambda env: w.TransformReward(env, lambda r: 0.0 * float(r)),
    FlattenContext,
    lambda env: RecordRegret(env, [5]),
    CentredPerUser,
    Silent,
    Halved,
]


@pytest.mark.parametrize("wrap", MIXING)
def test_a_wrapper_that_may_mix_users_is_named_wherever_it_stands(wrap: Callable[[Any], Any]) -> None:
    name = type(wrap(world())).__name__
    assert mixing_wrappers(wrap(world())) == (name,)
    assert mixing_wrappers(w.TimeLimit(wrap(FlattenContext(world())), 5)) == (name,)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # RescaleObservation compares bounds of two precisions
@pytest.mark.parametrize("wrap", HARMLESS)
def test_a_wrapper_that_looks_at_one_user_at_a_time_is_not_named(wrap: Callable[[Any], Any]) -> None:
    assert mixing_wrappers(world()) == mixing_wrappers(wrap(world())) == ()


def test_a_stack_is_named_from_the_outside_in() -> None:
    stack = w.FrameStackObservation(w.TimeLimit(w.NormalizeObservation(world()), 9), 2)
    assert mixing_wrappers(stack) == ("FrameStackObservation", "NormalizeObservation")
    scored = ScoreAction(gym.make("privbandit/Assortment-v0", n_items=4, capacity=2))
    assert mixing_wrappers(scored) == ()


def test_an_author_declares_an_object_or_takes_it_back() -> None:
    shifted: Any = w.TransformObservation(world(), lambda x: x + 1, None)
    shifted.per_user = True
    assert mixing_wrappers(shifted) == ()
    silent: Any = Silent(world())
    silent.per_user = False
    assert mixing_wrappers(silent) == ("Silent",)


def test_vectors_of_environments_are_looked_into() -> None:
    assert mixing_wrappers(v.NormalizeObservation(worlds())) == ("NormalizeObservation",)
    assert mixing_wrappers(v.TransformObservation(worlds(), lambda x: x)) == ("TransformObservation",)
    for wrap in (v.FlattenObservation, v.NormalizeReward, v.RecordEpisodeStatistics):
        assert mixing_wrappers(wrap(RecordVectorRegret(worlds(), [5]))) == ()
    inside = SyncVectorEnv([lambda: w.NormalizeObservation(world()), lambda: w.NormalizeObservation(world())])
    assert mixing_wrappers(inside) == ("NormalizeObservation",)


def test_what_runs_elsewhere_cannot_be_looked_into() -> None:
    elsewhere = AsyncVectorEnv([world], context="fork")
    try:
        assert mixing_wrappers(elsewhere) == ("AsyncVectorEnv",)
    finally:
        elsewhere.close()


def test_rewards_that_no_agent_sees_are_named() -> None:
    assert unseen_rewards(world()) == unseen_rewards(w.NormalizeObservation(world())) == ()
    stack = Halved(w.TransformReward(w.NormalizeReward(w.ClipReward(world(), 0, 1)), lambda r: 0.0 * float(r)))
    assert unseen_rewards(stack) == ("Halved", "TransformReward", "NormalizeReward", "ClipReward")
    assert unseen_rewards(v.NormalizeReward(v.ClipReward(worlds(), 0, 1))) == ("NormalizeReward", "ClipReward")


def test_the_rewards_named_are_those_that_agents_do_not_learn_from() -> None:
    wrapped = w.TransformReward(world(), lambda r: 0.0 * float(r))
    wrapped.reset(seed=0)
    _, reward, _, _, info = wrapped.step(0)
    assert reward == 0 and info["feedback"] != 0
