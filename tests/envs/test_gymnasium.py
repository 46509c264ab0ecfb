"""What Gymnasium asks of environments in its own tests: alone, and in vectors of each kind and autoreset mode."""

import dataclasses
import json
import pickle
import warnings
from contextlib import closing
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeAwareObservation, TimeLimit
from gymnasium.wrappers import vector as vector_wrappers
from privbandit_agents import make, play

from privbandit_envs import ENV_IDS, Assortments, BanditEnv
from privbandit_envs.changing.masks import stand_ins
from privbandit_envs.datasets.frames import armed, labelled
from privbandit_envs.wrappers import FlattenContext, RecordRegret, RecordVectorRegret, ScoreAction

Setting = tuple[str, dict[str, Any]]
LINEAR, ASSORTMENT, LABELS = "privbandit/Linear-v0", "privbandit/Assortment-v0", "privbandit/Classification-v0"
SPARSE, TABLE = "privbandit/SparseLinear-v0", "privbandit/Table-v0"
RNG = np.random.default_rng(7)
ROWS = {"age": RNG.normal(size=90), "dose": RNG.random(90), "ill": np.tile(["yes", "no", "perhaps"], 30)}
LONG = {"who": np.arange(90) // 3, "f": RNG.normal(size=90), "gain": RNG.uniform(-1, 1, 90)}
SMALL: list[Setting] = [
    *((env_id, {}) for env_id in ENV_IDS),
    (LINEAR, {"design": "case2", "dim": 2}),
    (LINEAR, {"design": "ill", "dim": 3, "n_arms": 3}),
    (LINEAR, {"design": "mixed", "dim": 3}),
    (LINEAR, {"dtype": "float64", "n_arms": 2}),
    (LINEAR, {"support": 20, "n_arms": 3, "dim": 2}),
    (LINEAR, {"instance_seed": 3}),
    (ASSORTMENT, {"features": "unit", "revenues": "random"}),
    (ASSORTMENT, {"n_items": 6, "capacity": 2, "dim": 2, "dtype": "float64"}),
    (ASSORTMENT, {"source": "expedia-sample"}),
    (LABELS, {"source": "digits"}),
    (LABELS, {"source": "wine", "n_public": 20}),
    (LINEAR, {"available": 0.5, "link": "logistic", "jumps": [2, 17], "drift": 0.01, "n_arms": 3, "dim": 2}),
    (LABELS, {"source": labelled(ROWS, "ill"), "n_public": 20, "available": 0.5}),
]
MORE: list[Setting] = [
    (LINEAR, {"available": 0.5, "n_arms": 4}),
    (LINEAR, {"jumps": [1, 2, 30]}),
    (LINEAR, {"drift": 0.1}),
    (LINEAR, {"shifts": {2: {"design": "ill"}, 20: {"design": "heavy"}}}),
    (LINEAR, {"link": "logistic", "theta_norm": 3.0}),
    (LINEAR, {"link": "band"}),
    (LINEAR, {"design": "heavy"}),
    (LINEAR, {"design": "mixed", "rotate": True, "jumps": [2, 17], "drift": 0.01}),
    (LINEAR, {"design": "adversarial", "available": 0.3}),
    (SPARSE, {"jumps": [3], "available": 0.5}),
    (SPARSE, {"drift": 0.05}),
    (ASSORTMENT, {"jumps": [3], "drift": 0.05}),
    (LABELS, {"shifts": {3: {"gamma": 0.5}}}),
    (LABELS, {"source": "digits", "available": 0.2}),
    (TABLE, {"table": armed(LONG, "who", "gain"), "n_public": 20}),
    (TABLE, {"table": armed(LONG, "who", "gain"), "n_public": 20, "available": 0.5}),
]
MODES = list(AutoresetMode)


def named(setting: Setting) -> str:
    said = (f"{name}={value}" for name, value in setting[1].items() if isinstance(value, (str, int, float, list, dict)))
    return "-".join([setting[0].split("/")[1], *said])


each = pytest.mark.parametrize(
    "setting", [*SMALL, *(pytest.param(setting, marks=pytest.mark.slow) for setting in MORE)], ids=named
)


def made(setting: Setting, **more: Any) -> gym.Env[Any, Any]:
    return gym.make(setting[0], **{**setting[1], **more})


def drawn(env: Any, info: dict[str, Any], masks: Any = None) -> tuple[Any, Any]:
    """Draw an action of present arms, as ``info`` says, and return it with the masks of all slots.

    Where only some slots were reset, the others' masks are as they were: give them.
    """
    if "action_mask" not in info:
        return env.action_space.sample(), masks
    masks = (
        info["action_mask"] if masks is None else np.where(info["_action_mask"][:, None], info["action_mask"], masks)
    )
    return env.action_space.sample(tuple(masks) if masks.ndim == 2 else masks), masks


@each
def test_the_checkers_find_nothing(setting: Setting) -> None:
    with warnings.catch_warnings(action="error"):
        env: Any = made(setting, horizon=40).unwrapped
        if "available" in setting[1]:  # the checker draws arms without a look at masks
            step = env.step
            env.step = lambda arm: step(stand_ins(env.action_masks())[arm])
        check_env(env, skip_render_check=True)
        checked = gym.make(setting[0], **setting[1], disable_env_checker=False)
        checked.step(drawn(checked, checked.reset(seed=0)[1])[0])


@each
def test_equal_seeds_give_equal_rollouts_and_copies_go_on(setting: Setting) -> None:
    first, again = made(setting, horizon=40), made(setting, horizon=40)
    shown: Any = first.reset(seed=5)
    assert data_equivalence(shown, again.reset(seed=5))
    first.action_space.seed(5)
    copies = [again]
    for step in range(40):
        if step == 20:
            copies += [deepcopy(first), pickle.loads(pickle.dumps(first))]
        action, _ = drawn(first, shown[-1])
        shown = first.step(action)
        assert first.observation_space.contains(shown[0])
        assert all(data_equivalence(shown, copy.step(action)) for copy in copies)
    assert shown[3] is True


@each
@pytest.mark.wide_at(
    "Disabled-Linear-v0-d*",
    "SameStep-Linear-v0-[dis]*",
    "Disabled-*=*sample",
    "Disabled-Assortment-v0-*",
    "SameStep-SparseLinear-*",
    "Disabled-Classification-v0-s*",
)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_vectors_of_equal_seeds_are_equal(setting: Setting, mode: AutoresetMode) -> None:
    """Gymnasium's own vector, and ours, over the ends of episodes."""
    vectors = (
        [SyncVectorEnv([lambda: made(setting, horizon=4)] * 2, autoreset_mode=mode) for _ in range(2)],
        [gym.make_vec(setting[0], num_envs=2, horizon=8, autoreset_mode=mode, **setting[1]) for _ in range(2)],
    )
    for one, other in vectors:
        assert one.action_space == other.action_space == batch_space(one.single_action_space, 2)
        assert one.observation_space == batch_space(one.single_observation_space, 2)
        assert one.metadata["autoreset_mode"] is mode
        for vector in (one, other):
            vector.action_space.seed(3)
        begun = [vector.reset(seed=3) for vector in (one, other)]
        assert data_equivalence(begun[0], begun[1])
        (_, info), (_, same), masks = *begun, None
        for _ in range(10):
            (actions, now), (again, _) = drawn(one, info, masks), drawn(other, same, masks)
            assert data_equivalence(actions, again)
            step, twin = one.step(actions), other.step(actions)
            info, same, masks = step[-1], twin[-1], now
            assert one.observation_space.contains(step[0]) and data_equivalence(step, twin)
            if mode is AutoresetMode.DISABLED and step[3].any():
                begun = [vector.reset(options={"reset_mask": step[3].copy()}) for vector in (one, other)]
                assert data_equivalence(begun[0], begun[1])
                (_, info), (_, same) = begun


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_one_slot_of_ours_is_gymnasium_s_vector_of_one_environment(mode: AutoresetMode) -> None:
    ours = gym.make_vec(LINEAR, num_envs=1, horizon=4, autoreset_mode=mode.value)
    theirs = SyncVectorEnv([lambda: gym.make(LINEAR, horizon=4)], autoreset_mode=mode)
    contexts = [one.reset(seed=9)[0] for one in (ours, theirs)]
    assert np.array_equal(*contexts)
    for arm in range(10):
        steps = [one.step(np.array([arm])) for one in (ours, theirs)]
        assert data_equivalence(steps[0][:4], steps[1][:4])
        told = [step[4].get("final_info", step[4]) for step in steps]
        assert told[0].keys() == told[1].keys()
        assert all(np.allclose(told[0][name], told[1][name]) for name in told[0])
        if mode is AutoresetMode.DISABLED and steps[0][3].any():
            with pytest.raises(ResetNeeded):
                ours.step(np.array([0]))
            after = [one.reset()[0] for one in (ours, theirs)]
            assert np.array_equal(*after)


MASKED = next(setting for setting in SMALL if "jumps" in setting[1])


@pytest.mark.parametrize("setting", [SMALL[0], SMALL[2], pytest.param(MASKED, marks=pytest.mark.slow)], ids=named)
def test_processes_are_threads_bit_for_bit(setting: Setting) -> None:
    vectors = [kind([lambda: made(setting, horizon=4)] * 2) for kind in (SyncVectorEnv, AsyncVectorEnv)]
    with closing(vectors[1]):
        shown: Any = vectors[0].reset(seed=2)
        assert data_equivalence(shown, vectors[1].reset(seed=2))
        for _ in range(6):
            actions, _ = drawn(vectors[0], shown[-1])
            shown = vectors[0].step(actions)
            assert data_equivalence(shown, vectors[1].step(actions))


def test_an_autoreset_mode_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="autoreset_mode must be one of NextStep, SameStep, Disabled; got 'nextstep'"):
        gym.make_vec(LINEAR, num_envs=2, autoreset_mode="nextstep")


@pytest.mark.parametrize("mask", [[True, False], [False, False], [True], [1, 1], "yes", [[True, True]]])
def test_slots_of_one_world_are_reset_together_or_not_at_all(mask: Any) -> None:
    slots = gym.make_vec(LINEAR, num_envs=2, horizon=20)
    slots.reset(seed=0)
    before, _, _, _, _ = slots.step(np.zeros(2, int))
    with pytest.raises(ValueError, match=r"must be True for all 2 slots, which share one world, or be left out; got"):
        slots.reset(options={"reset_mask": np.array(mask)})
    twin = gym.make_vec(LINEAR, num_envs=2, horizon=20)
    twin.reset(seed=0)
    assert np.array_equal(before, twin.step(np.zeros(2, int))[0])
    assert data_equivalence(slots.step(np.ones(2, int)), twin.step(np.ones(2, int))), "the refusal moved somebody"
    slots.reset(options={"reset_mask": np.array([True, True])})


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("own", [True, False])
def test_regret_is_recorded_once_for_every_user_who_was_served(mode: AutoresetMode, own: bool) -> None:
    if own:
        slots: Any = gym.make_vec(LINEAR, num_envs=2, horizon=8, instance_seed=0, autoreset_mode=mode)
    else:
        # episodes of two lengths: slots end at different times
        makers = [lambda n=n: gym.make(LINEAR, horizon=n, instance_seed=0) for n in (3, 4)]
        slots = SyncVectorEnv(makers, autoreset_mode=mode)
    recorded = RecordVectorRegret(slots, [2, 10])
    recorded.reset(seed=1)
    total, users, over = 0.0, 0, np.zeros(2, bool)
    for _ in range(12):
        if mode is AutoresetMode.DISABLED and over.any():
            recorded.reset(options={"reset_mask": over.copy()})
            over[:] = False
        served = ~over if mode is AutoresetMode.NEXT_STEP else np.ones(2, bool)
        _, _, _, over, info = recorded.step(np.zeros(2, int))
        for slot in np.flatnonzero(served):
            final = info.get("final_info", {})
            told = final if final.get("_regret", np.zeros(2))[slot] else info
            total += told["regret"][slot]
            users += 1
    assert recorded.curve.users == users and recorded.curve.total_regret == pytest.approx(total) and total > 0


@pytest.mark.parametrize("name", ["FlattenObservation", "NormalizeObservation"])
def test_vector_wrappers_of_observations_take_our_vector(name: str) -> None:
    slots = gym.make_vec(LINEAR, num_envs=2, horizon=8, autoreset_mode="NextStep")
    wrapped = getattr(vector_wrappers, name)(slots)
    wrapped.reset(seed=0)
    for _ in range(6):
        shown = wrapped.step(wrapped.action_space.sample())[0]
        assert shown.shape == wrapped.observation_space.shape and np.isfinite(shown).all()


def test_batched_assortments_sample_as_their_space_was_seeded() -> None:
    space = Assortments(9, 3, seed=4)
    one, other = batch_space(space, 3), batch_space(Assortments(9, 3, seed=4), 3)
    assert np.array_equal(one.sample(), other.sample()) and space.n == 9
    assert not np.array_equal(batch_space(Assortments(9, 3, seed=5), 3).sample(), batch_space(space, 3).sample())
    before = deepcopy(space).sample()
    batch_space(space, 3).sample()
    assert np.array_equal(before, space.sample()), "batching moved the generator of the space"


@each
def test_a_spec_says_how_long_an_episode_is_and_makes_the_same_again(setting: Setting) -> None:
    env = made(setting, horizon=6)
    assert env.spec is not None and env.spec.max_episode_steps == 6
    arrays = any(dataclasses.is_dataclass(value) for value in setting[1].values())  # a table is no JSON
    again = gym.make(env.spec if arrays else EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(env, BanditEnv) and isinstance(again.unwrapped, BanditEnv)
    shown: Any = env.reset(seed=1)
    assert data_equivalence(shown, again.reset(seed=1))
    for step in range(6):
        action, _ = drawn(env, shown[-1])
        shown, twin = env.step(action), again.step(action)
        assert data_equivalence(shown, twin) and shown[3] == (step == 5)


def test_tools_that_ask_for_the_length_of_an_episode_get_it() -> None:
    timed: Any = TimeAwareObservation(
        FlattenContext(gym.make(LINEAR, n_arms=2, dim=2, horizon=3)), normalize_time=False
    )
    assert timed.observation_space.high[-1] == 3
    timed.reset(seed=0)
    assert [timed.step(0)[3] for _ in range(3)] == [False, False, True]
    shorter = gym.make(LINEAR, horizon=9, max_episode_steps=2)
    assert isinstance(shorter, TimeLimit) and shorter.spec is not None and shorter.spec.max_episode_steps == 2
    slots: Any = gym.make_vec(LINEAR, num_envs=4, horizon=40, max_episode_steps=2)
    slots.reset(seed=0)
    ends = [bool(slots.step(np.zeros(4, int))[3].all()) for _ in range(4)]
    assert ends == [False, True, False, True]
    rebuilt = gym.make_vec(slots.spec)
    assert rebuilt.num_envs == 4 and json.dumps(rebuilt.metadata["autoreset_mode"].value) == '"SameStep"'


def test_an_environment_made_from_a_spec_is_played_in_blocks_too() -> None:
    env: Any = gym.make(LINEAR, horizon=3000)
    again = gym.make(env.spec)
    assert isinstance(again, TimeLimit)
    results = [play(one, make("greedy", one, seed=0), seed=0) for one in (env, again)]
    assert np.array_equal(results[0].regret, results[1].regret)
    limited = gym.make(LINEAR, horizon=3000, max_episode_steps=100)
    assert play(limited, make("greedy", limited, seed=0), seed=0).checkpoints[-1] == 3000


@pytest.mark.parametrize("wrap", [lambda e: RecordRegret(e, [2, 4]), FlattenContext])
def test_wrapped_environments_are_made_again_from_their_spec(wrap: Any) -> None:
    env = wrap(gym.make(LINEAR, horizon=5))
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    for one in (env, again):
        one.reset(seed=2)
        for _ in range(4):
            one.step(1)
    if isinstance(env, RecordRegret):
        assert isinstance(again, RecordRegret) and again.curve is not env.curve
        assert again.curve.regret.tolist() == env.curve.regret.tolist() != [0, 0]


def test_scores_too() -> None:
    env = ScoreAction(gym.make(ASSORTMENT, horizon=5))
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))  # type: ignore[union-attr]
    assert again.action_space == env.action_space
