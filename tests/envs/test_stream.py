from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

from privbandit_envs import BanditEnv, BanditVectorEnv, Problem, register
from privbandit_envs.stream import block_size


class Coin(Problem):
    """A small Problem without tables, so it is served through the general path; its means are matrix products."""

    def __init__(self, rng: np.random.Generator, *, sides: int = 2) -> None:
        self.observation_space = gym.spaces.Box(0, 1, (17,), np.float32)
        self.action_space = gym.spaces.Discrete(sides)
        self.bias = rng.dirichlet(np.ones(17), 2)

    def contexts(self, n: int, rng: np.random.Generator) -> Any:
        return rng.random((n, 17), dtype=np.float32)

    def expected_reward(self, contexts: Any, actions: Any) -> Any:
        return (contexts @ self.bias.T.astype(np.float32))[np.arange(len(contexts)), actions].astype(float)

    def best_action(self, contexts: Any) -> Any:
        return (contexts @ self.bias.T.astype(np.float32)).argmax(axis=1)

    def outcome(self, contexts: Any, actions: Any, rng: np.random.Generator) -> Any:
        reward = (rng.random(len(contexts)) < self.expected_reward(contexts, actions)).astype(float)
        return reward, reward


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=6))
@pytest.mark.wide
def test_the_general_path_does_not_depend_on_grouping(sizes: list[int]) -> None:
    total = sum(sizes)
    actions = np.arange(total) % 2
    whole, parts = (BanditEnv(Coin, horizon=total) for _ in range(2))
    whole.reset(seed=1)
    parts.reset(seed=1)
    contexts, served = whole.upcoming(total), whole.serve(actions)
    done = 0
    for size in sizes:
        assert np.array_equal(parts.upcoming(size), contexts[done : done + size])
        part = parts.serve(actions[done : done + size])
        assert np.array_equal(part.reward, served.reward[done : done + size])
        assert np.array_equal(part.regret, served.regret[done : done + size])
        done += size


@pytest.mark.parametrize("problem", [Coin, "privbandit_envs.families.linear:LinearProblem"])
def test_a_bad_action_anywhere_serves_nobody(problem: Any) -> None:
    env = BanditEnv(problem, horizon=2000)
    env.reset(seed=0)
    before, actions = env.upcoming(5), np.zeros(1500, int)
    actions[-1] = 99
    with pytest.raises(ValueError, match="99"):
        env.serve(actions)
    assert env.rounds_left == 2000 and np.array_equal(env.upcoming(5), before)


def test_the_general_path_steps_like_it_serves() -> None:
    one, many = (BanditEnv(Coin, horizon=50) for _ in range(2))
    one.reset(seed=2)
    many.reset(seed=2)
    rewards = [one.step(k % 2)[1] for k in range(50)]
    assert np.array_equal(many.serve(np.arange(50) % 2).reward, rewards)
    with pytest.raises(ResetNeeded):
        one.step(0)


def test_blocks_depend_on_the_shape_of_a_context_alone() -> None:
    box, three = gym.spaces.Box, gym.spaces.Discrete(3)
    assert block_size(box(0, 1, (3, 400), np.float32), three) == 64
    assert block_size(box(0, 1, (10, 20), np.float32), three) == 512
    assert block_size(box(0, 1, (1000, 1000), np.float32), three) == 16
    assert block_size(box(0, 1, (4,), np.float32), gym.spaces.Discrete(4000)) == 16


def test_an_episode_needs_a_reset_before_and_after() -> None:
    env = BanditEnv(Coin, horizon=3)
    for call in (
        lambda: env.step(0),
        lambda: env.upcoming(1),
        lambda: env.serve(np.zeros(1, int)),
        lambda: env.problem,
    ):
        with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
            call()
    env.reset(seed=0)
    with pytest.raises(ResetNeeded, match="4 users asked for; the episode has 3 left"):
        env.upcoming(4)
    env.serve(np.zeros(3, int))
    with pytest.raises(ResetNeeded, match="episode of 3 rounds is over"):
        env.step(0)


def test_the_vector_environment_truncates_all_slots_together_and_goes_on() -> None:
    env = BanditVectorEnv(Coin, num_envs=4, horizon=10)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    first, _ = env.reset(seed=3)
    truncated, contexts = [], [first]
    for _ in range(4):
        context, _, terminated, over, info = env.step(np.zeros(4, int))
        truncated.append(over.tolist())
        contexts.append(context)
        assert not terminated.any()
        assert ("final_info" in info) == over.all()
    assert truncated == [[False] * 4, [False] * 4, [True] * 4, [False] * 4]
    assert len(np.unique(np.concatenate(contexts), axis=0)) == 20
    assert (info["_regret"]).all() and info["regret"].shape == (4,)


def test_the_vector_environment_refuses_several_seeds_and_wrong_shapes() -> None:
    env = BanditVectorEnv(Coin, num_envs=2)
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(2, int))
    with pytest.raises(TypeError, match="share one world"):
        env.reset(seed=[1, 2])  # type: ignore[arg-type]
    env.reset(seed=1)
    with pytest.raises(ValueError, match="got 3"):
        env.step(np.zeros(3, int))


def test_the_world_of_an_instance_seed_is_that_of_the_seed() -> None:
    pinned, seeded = BanditEnv(Coin, instance_seed=9), BanditEnv(Coin)
    pinned.reset(seed=1)
    seeded.reset(seed=9)
    assert np.array_equal(pinned.problem.bias, seeded.problem.bias)  # type: ignore[attr-defined]


def test_without_seeds_worlds_differ() -> None:
    biases = set()
    for _ in range(3):
        env = BanditEnv(Coin)
        env.reset()
        biases.add(env.problem.bias[0, 0])  # type: ignore[attr-defined]
    assert len(biases) == 3


@pytest.mark.parametrize("bad", [-1, 1.5, "abc", True])
def test_seeds_are_integers(bad: Any) -> None:
    with pytest.raises(ValueError, match=f"instance_seed must be an integer >= 0; got {bad!r}"):
        BanditEnv(Coin, instance_seed=bad)
    for env in (BanditEnv(Coin), BanditVectorEnv(Coin)):
        with pytest.raises(ValueError, match=f"seed must be an integer >= 0; got {bad!r}"):
            env.reset(seed=bad)


def test_an_id_belongs_to_one_problem() -> None:
    register("privbandit/Linear-v0", "privbandit_envs.families.linear:LinearProblem")
    with pytest.raises(ValueError, match="registered for another problem"):
        register("privbandit/Linear-v0", "privbandit_envs.families.sparse:SparseLinearProblem")


def test_unknown_arguments_get_the_nearest_name() -> None:
    with pytest.raises(TypeError, match="did you mean 'sides'"):
        BanditEnv(Coin, side=3)
