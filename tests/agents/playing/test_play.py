from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import NormalizeObservation, TransformReward
from privbandit_agents import Agent, make, play
from privbandit_agents.base.agent import NEVER
from privbandit_agents.playing.play import UnseenReward
from privbandit_agents.zoo.registry import can_play

from privbandit_envs import Assortments
from privbandit_envs.wrappers import RecordVectorRegret

LINEAR, CLASSIFICATION = "privbandit/Linear-v0", "privbandit/Classification-v0"


class Scripted(Agent[dict[str, Any]]):
    """Plays arm 0 and freezes for a scripted number of rounds; it counts what it is asked."""

    Config = dict

    def __init__(self, env: Any, frozen: int) -> None:
        super().__init__(env.observation_space, env.action_space, {}, np.random.default_rng(0))
        self.frozen, self.blocks, self.learned = frozen, [], 0  # type: ignore[var-annotated]

    def select_action(self, context: Any) -> Any:
        self.blocks.append(1 if context.ndim == 2 else len(context))
        return 0 if context.ndim == 2 else np.zeros(len(context), int)

    def update(self, context: Any, action: Any, feedback: Any) -> None:
        self.learned += np.size(feedback)

    def frozen_rounds(self) -> int:
        return self.frozen


@pytest.mark.parametrize(("frozen", "blocks"), [(1, [1] * 10), (4, [4, 4, 2]), (NEVER, [10])])
def test_frozen_rounds_set_the_blocks(frozen: int, blocks: list[int]) -> None:
    env = gym.make(LINEAR, horizon=10)
    agent = Scripted(env, frozen)
    result = play(env, agent, 10, seed=0)
    assert agent.blocks == blocks and agent.learned == 10 and len(result.regret) == 10


def test_the_result_is_the_sum_of_the_infos() -> None:
    env = gym.make(LINEAR, horizon=40)
    result = play(env, Scripted(env, 7), seed=3, checkpoints=[5, 40])
    env.reset(seed=3)
    steps = [env.step(0) for _ in range(40)]
    regrets, rewards = np.cumsum([step[4]["regret"] for step in steps]), np.cumsum([step[1] for step in steps])
    assert result.checkpoints.tolist() == [5, 40]
    assert np.array_equal(result.regret, regrets[[4, 39]]) and np.array_equal(result.reward, rewards[[4, 39]])
    assert result.seconds > 0


def test_a_wrapped_environment_goes_on_over_several_episodes() -> None:
    env = gym.Wrapper(gym.make(LINEAR, horizon=15))
    agent = Scripted(env, 5)
    assert len(play(env, agent, 40, seed=0).regret) == 40 and agent.learned == 40


@pytest.mark.parametrize("horizon", [-3, 0, 1.5, 61])
def test_impossible_horizons_are_refused(horizon: Any) -> None:
    env = gym.make(LINEAR, horizon=60)
    with pytest.raises(ValueError, match=r"horizon must be .*; got"):
        play(env, Scripted(env, 1), horizon)


def test_an_environment_without_a_horizon_is_said_to_have_none() -> None:
    class Endless(gym.Wrapper[Any, Any, Any, Any]):
        unwrapped = property(lambda self: self)

    env = Endless(gym.make(LINEAR))
    with pytest.raises(ValueError, match=r"no horizon; give the number of users, as in horizon=1000\.$"):
        play(env, Scripted(env, 1))
    assert len(play(env, Scripted(env, 1), 30).regret) == 30


def lacking(what: str) -> Any:
    class Lacking(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            step = self.env.step(action)
            del step[4][what]
            return step

    return Lacking(gym.make(LINEAR))


@pytest.mark.parametrize("what", ["regret", "feedback"])
def test_an_environment_that_lacks_what_a_bandit_tells_gets_one_sentence(what: str) -> None:
    env = lacking(what)
    with pytest.raises(
        ValueError, match=rf"is not a bandit: the info of a step has no '{what}'; privbandit_envs.AsBandit"
    ):
        play(env, Scripted(env, 1), 20)


@pytest.mark.parametrize("horizon", [None, 20])
@pytest.mark.parametrize("name", ["uniform", "linucb"])
def test_what_is_no_bandit_gets_one_sentence(name: str, horizon: int | None) -> None:
    env, bandit = gym.make("CartPole-v1"), gym.make(LINEAR)
    with pytest.raises(ValueError, match=r"^the environment has no horizon|is not a bandit"):
        play(env, make(name, env), horizon)
    with pytest.raises(ValueError, match=r"was made for contexts of shape \(10, 20\); those of the environment have"):
        play(env, make(name, bandit), horizon)


def test_several_environments_that_are_no_bandits_get_one_sentence() -> None:
    env = RecordVectorRegret(gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2), [10])
    env.reset(seed=0)
    with pytest.raises(ValueError, match="is not a bandit: the info of a step has no"):
        env.step(np.zeros(2, int))


def test_what_is_no_environment_or_no_agent_gets_one_sentence() -> None:
    env: Any = gym.make(LINEAR)
    agent: Any = Scripted(env, 1)
    no_agent: Any = "linucb"
    wrong: Any
    for wrong in (LINEAR, agent):
        with pytest.raises(TypeError, match=r"^env must be a Gymnasium environment, as gym.make returns it; got"):
            play(wrong, agent)
    with pytest.raises(TypeError, match=r"^agent must be an Agent, as make returns it; got 'linucb'\.$"):
        play(env, no_agent)


def test_checkpoints_beyond_the_horizon_are_refused() -> None:
    env = gym.make(LINEAR, horizon=60)
    with pytest.raises(ValueError, match="checkpoints must not exceed the horizon 50; got 100"):
        play(env, Scripted(env, 1), 50, checkpoints=[10, 100])


def test_a_vector_environment_is_for_agents_that_own_their_loop() -> None:
    env = gym.make_vec(LINEAR, num_envs=2)
    with pytest.raises(TypeError, match="plays one environment"):
        play(env, make("linucb", env))


def test_checkpoints_are_reported_as_they_come() -> None:
    env = gym.make(LINEAR, horizon=30)
    users: list[int] = []
    play(env, make("uniform", env), checkpoints=[10, 20, 30], on_checkpoint=lambda curve: users.append(curve.passed))
    assert users == [1, 2, 3]


@pytest.mark.parametrize("name", ["jdp-linucb", "ldp-greedy"])
def test_a_wrapper_that_mixes_users_is_refused_in_front_of_a_private_agent(name: str) -> None:
    """Its running mean is made of everybody's contexts, and no guarantee covers it."""
    env = NormalizeObservation(gym.make(LINEAR))
    with pytest.raises(ValueError, match=r"^NormalizeObservation may carry something from one user to another"):
        play(env, make(name, env, seed=0), 20)
    play(env, make("linucb", env, seed=0), 20)
    harmless = gym.wrappers.TimeLimit(gym.make(CLASSIFICATION), 100)
    play(harmless, make("lpct", harmless, seed=0), 20)
    env.per_user = True  # type: ignore[attr-defined]
    play(env, make(name, env, seed=0), 20)


def test_rewards_that_no_agent_sees_are_told() -> None:
    env = TransformReward(gym.make(LINEAR), lambda reward: 0.0)
    with pytest.warns(UnseenReward, match=r"^TransformReward changes rewards that linucb never sees"):
        play(env, make("linucb", env, seed=0), 20)


def test_a_semi_bandit_is_no_assortment_world() -> None:
    class Clicks(gym.Env[Any, Any]):
        observation_space, action_space = gym.spaces.Box(0, 1, (7, 3)), Assortments(6, 2)

    for name in ("ucb-mnl", "newton-mnl", "dpmnl"):
        assert not can_play(name, Clicks())
