from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from privbandit_agents import make, play

import privbandit_envs  # noqa: F401
from privbandit_envs.wrappers import (
    FlattenContext,
    PerArm,
    RecordRegret,
    RecordVectorRegret,
    RegretCurve,
    ScoreAction,
    even_checkpoints,
)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 1000))
def test_a_curve_does_not_depend_on_grouping(sizes: list[int], seed: int) -> None:
    total = max(sum(sizes), 1)
    rng = np.random.default_rng(seed)
    regret, reward = rng.random(total), rng.standard_normal(total)
    checkpoints = even_checkpoints(total, 7)
    single, grouped = RegretCurve(checkpoints), RegretCurve(checkpoints)
    for r, g in zip(regret, reward, strict=True):
        single.add(r, g)
    done = 0
    for size in [*sizes, total]:
        grouped.extend(regret[done : done + size], reward[done : done + size])
        done += size
    assert np.array_equal(single.regret, grouped.regret) and np.array_equal(single.reward, grouped.reward)
    assert np.allclose(single.regret, np.cumsum(regret)[checkpoints - 1])


def test_users_after_the_last_checkpoint_do_not_count() -> None:
    seen: list[int] = []
    curve = RegretCurve([2, 5], lambda c: seen.append(c.passed))
    for _ in range(9):
        curve.add(1.0, 2.0)
    assert curve.regret.tolist() == [2, 5] and curve.reward.tolist() == [4, 10] and seen == [1, 2]


@pytest.mark.parametrize("checkpoints", [[], [0, 1], [3, 3], [[1, 2]], [-1]])
def test_checkpoints_must_increase(checkpoints: Any) -> None:
    with pytest.raises(ValueError, match="increasing integers"):
        RegretCurve(checkpoints)


def test_even_checkpoints_end_at_the_horizon() -> None:
    assert even_checkpoints(1000).tolist() == list(range(5, 1001, 5))
    assert even_checkpoints(3).tolist() == [1, 2, 3]


def test_record_regret_measures_through_other_wrappers() -> None:
    env = ScoreAction(FlattenContext(RecordRegret(gym.make("privbandit/Assortment-v0", horizon=30), [10, 30])))
    context, _ = env.reset(seed=1)
    assert context.shape == (600,) and env.observation_space.contains(context)
    total = 0.0
    for _ in range(30):
        context, _, _, _, info = env.step(env.action_space.sample())
        total += info["regret"]
    assert env.get_wrapper_attr("curve").regret[-1] == total > 0


def test_record_vector_regret_counts_every_slot_once() -> None:
    single = RecordRegret(gym.make("privbandit/Linear-v0", horizon=60), [20, 60])
    vector = RecordVectorRegret(gym.make_vec("privbandit/Linear-v0", num_envs=6, horizon=60), [20, 60])
    single.reset(seed=4)
    vector.reset(seed=4)
    for _ in range(60):
        single.step(3)
    for _ in range(10):
        vector.step(np.full(6, 3))
    assert np.array_equal(single.curve.regret, vector.curve.regret)
    assert np.array_equal(single.curve.reward, vector.curve.reward)


def test_scores_become_the_top_items() -> None:
    env = ScoreAction(gym.make("privbandit/Assortment-v0", n_items=6, capacity=2))
    assert env.action(np.array([0.1, 0.9, -1, 0.5, 0, 0.2])).tolist() == [0, 1, 0, 1, 0, 0]
    with pytest.raises(ValueError, match="scores must be 6 numbers"):
        env.action(np.full(6, np.nan))
    with pytest.raises(ValueError, match="scores must be 6 numbers"):
        env.action(np.zeros(5))


def test_wrappers_refuse_what_they_cannot_wrap_and_rebuild_from_their_spec() -> None:
    with pytest.raises(TypeError, match="only assortments"):
        ScoreAction(gym.make("privbandit/Linear-v0"))
    wrapped = FlattenContext(gym.make("privbandit/Linear-v0", dim=3))
    assert wrapped.spec is not None
    rebuilt = gym.make(wrapped.spec)
    assert rebuilt.observation_space == wrapped.observation_space


def test_an_environment_that_is_no_bandit_is_one_sentence() -> None:
    env = RecordRegret(gym.make("CartPole-v1"), [5])
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"CartPole-v1.* is not a bandit: the info of a step has no 'feedback' and no"):
        env.step(env.action_space.sample())


def test_features_per_arm_are_the_shared_context_in_a_block() -> None:
    env = gym.make("privbandit/Clicks-v0", n_arms=3, dim=2)
    shown, _ = PerArm(env, radius=2.0).reset(seed=1)
    context, _ = env.reset(seed=1)
    block = np.append(context / 2, 1) / 2**0.5
    block /= max(1.0, float(np.linalg.norm(block)))
    assert np.allclose(shown, np.kron(np.eye(3), block[None]), atol=1e-6)
    assert PerArm(env).observation_space.contains(PerArm(env).reset(seed=1)[0])


def test_agents_of_arms_with_features_play_shared_contexts_per_arm() -> None:
    env = gym.make("privbandit/Clicks-v0", n_arms=3, dim=2, horizon=400)
    with pytest.raises(ValueError, match=r"PerArm\(env\)"):
        make("ldp-greedy", env)
    assert play(PerArm(env), make("ldp-greedy", PerArm(env), seed=0), seed=0).regret[-1] > 0


@pytest.mark.parametrize("id", ["privbandit/Linear-v0", "privbandit/Assortment-v0"])
def test_only_one_context_for_arms_is_shown_per_arm(id: str) -> None:
    with pytest.raises(TypeError, match="one context for all arms"):
        PerArm(gym.make(id))
