import dataclasses
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import load, make, play, save
from privbandit_agents.audits.pairs.attacks import finite
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.baselines.rl import learners as rl
from privbandit_agents.baselines.rl.adapter import to_sb3, vector_face
from privbandit_agents.baselines.rl.settings import hyperparameters
from privbandit_agents.baselines.rl.state import one_torch_thread, parameters_of
from privbandit_agents.testing.runs import same_state
from privbandit_agents.zoo.registry import can_play

from privbandit_envs import Assortments, BanditEnv, BanditVectorEnv
from privbandit_envs.wrappers import FlattenContext, RecordVectorRegret, RegretCurve, ScoreAction

SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"n_envs": 4, "n_steps": 16, "batch_size": 32, "n_epochs": 2, "net_arch": (8,)},
    "a2c": {"n_envs": 4, "n_steps": 4, "net_arch": (8,)},
    "dqn": {"n_envs": 4, "learning_starts": 20, "batch_size": 16, "net_arch": (8,)},
}
CLASSIFICATION, LINEAR, ASSORTMENT = (f"privbandit/{name}-v0" for name in ("Classification", "Linear", "Assortment"))


@pytest.fixture(params=[pytest.param("a2c", marks=pytest.mark.wide), "dqn", "ppo"])  # a2c learns as ppo does
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def small(name: str, env: Any, seed: int = 0, **config: Any) -> rl.StableBaseline:
    agent = make(name, env, seed=seed, **{**SMALL[name], **config})
    assert isinstance(agent, rl.StableBaseline)
    return agent


def curve(name: str, env_id: str = CLASSIFICATION, agent_seed: int = 0, seed: int = 0, **config: Any) -> Any:
    env = gym.make(env_id, horizon=120)
    result = play(env, small(name, env, agent_seed, **config), seed=seed, checkpoints=range(10, 121, 10))
    return result.regret, result.reward


@pytest.mark.parametrize("env_id", [CLASSIFICATION, pytest.param(LINEAR, marks=pytest.mark.slow)])
@pytest.mark.wide
def test_same_seed_same_curve(name: str, env_id: str) -> None:
    first, again = curve(name, env_id), curve(name, env_id)
    assert np.array_equal(first, again) and (first[0][-1] > 0)
    assert not np.array_equal(first, curve(name, env_id, seed=1))
    assert not np.array_equal(first, curve(name, env_id, agent_seed=1))


@pytest.mark.wide_at("dqn")
def test_every_served_user_is_counted_once(name: str) -> None:
    env = gym.make(CLASSIFICATION, horizon=300)
    counted = RegretCurve([100, 300])
    agent = small(name, env)
    agent.learn(env, 300, counted, seed=0)
    assert counted.users == agent.model.num_timesteps >= 300 and counted.passed == 2


@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_world_is_that_of_the_seed(n_envs: int) -> None:
    env = gym.make(LINEAR, horizon=60)
    env.reset(seed=5)
    users = env.unwrapped.upcoming(60)  # type: ignore[attr-defined]
    adapter = to_sb3(vector_face(env, n_envs), 5)
    seen = [adapter.reset()]
    while len(seen) * n_envs < 60:
        seen.append(adapter.step(np.zeros(n_envs, int))[0])
    assert np.array_equal(np.concatenate(seen), users)


def test_a_second_reset_brings_new_users_of_the_same_world() -> None:
    vector: Any = vector_face(gym.make(LINEAR), 2)
    adapter = to_sb3(vector, 5)
    first, world = adapter.reset(), vector.problem
    assert not np.array_equal(first, adapter.reset()) and vector.problem is world


def test_seeds_set_by_the_library_do_not_change_the_world() -> None:
    env = gym.make(LINEAR)
    contexts = []
    for library_seed in (1, 2):
        adapter = to_sb3(vector_face(env, 2), 5)
        adapter.seed(library_seed)
        contexts.append(adapter.reset())
    assert np.array_equal(*contexts)


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_episode_ends_in_the_vector_face_as_the_library_expects(wrapped: bool) -> None:
    env: Any = gym.make(LINEAR, horizon=4)
    env = gym.Wrapper(env) if wrapped else env
    slots = 1 if wrapped else 2
    users = RecordVectorRegret(vector_face(env, 2), [8])
    adapter = to_sb3(users, 0)
    adapter.reset()
    steps = [adapter.step(np.zeros(slots, int)) for _ in range(8 // slots)]
    last = 4 // slots - 1
    for number, (contexts, rewards, done, infos) in enumerate(steps):
        over = number % (last + 1) == last
        assert contexts.shape == (slots, 10, 20) and rewards.shape == (slots,) and done.tolist() == [over] * slots
        assert [info.get("TimeLimit.truncated") for info in infos] == [True if over else None] * slots
    terminal = np.stack([info["terminal_observation"] for info in steps[last][3]])
    assert terminal.shape == (slots, 10, 20) and not np.array_equal(terminal, steps[last][0])
    assert users.curve.users == 8 and users.curve.regret[0] > 0


@pytest.mark.wide_at("dqn", "ppo")
def test_learning_goes_on_past_the_horizon(name: str) -> None:
    env = gym.make(CLASSIFICATION, horizon=50)
    counted = RegretCurve([200])
    small(name, env).learn(env, 200, counted, seed=0)
    assert counted.passed == 1


@pytest.mark.wide_at("dqn")
def test_learning_twice_goes_on_with_the_same_model(name: str) -> None:
    env = gym.make(CLASSIFICATION)
    agent = small(name, env)
    agent.learn(env, 64, seed=0)
    model, users = agent.model, agent.model.num_timesteps
    agent.learn(env, 64, seed=1)
    assert agent.model is model and model.num_timesteps >= users + 64


@pytest.mark.wide
def test_wrapped_environments_are_played_one_user_a_step(name: str) -> None:
    env = gym.Wrapper(gym.make(LINEAR, horizon=100))
    first, again = (play(env, small(name, env), seed=3, checkpoints=[100]).regret for _ in range(2))
    assert first[0] > 0 and np.array_equal(first, again)


@pytest.mark.parametrize(("name", "setting"), [("ppo", "n_steps"), ("a2c", "n_steps"), ("dqn", "train_freq")])
def test_updates_have_the_same_number_of_users_with_one_slot(name: str, setting: str) -> None:
    per_update = []
    for env in (gym.make(CLASSIFICATION), gym.Wrapper(gym.make(CLASSIFICATION))):
        agent = small(name, env)
        agent.learn(env, 32, seed=0)
        steps = getattr(agent.model, setting)
        per_update.append(agent.model.n_envs * (steps if setting == "n_steps" else steps.frequency))
    assert per_update == [4 * agent.hyperparameters[setting]] * 2


@pytest.mark.wide_at("dqn")
def test_vector_environments_are_played_as_they_are(name: str) -> None:
    env = gym.make_vec(CLASSIFICATION, num_envs=4, horizon=100)
    same = gym.make(CLASSIFICATION, horizon=100)
    first, again = (play(one, small(name, one), 100, seed=3, checkpoints=[50, 100]) for one in (env, same))
    assert np.array_equal(first.reward, again.reward)


@pytest.mark.wide_at("*-True")
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("name", ["ppo", "a2c"])
def test_assortments_are_played_by_scores(name: str, wrapped: bool) -> None:
    env: Any = gym.make(ASSORTMENT, n_items=12, capacity=3, dim=2, horizon=100)
    env = gym.Wrapper(env) if wrapped else env
    agent = small(name, env)
    result = play(env, agent, seed=0, checkpoints=[100])
    assert 0 < result.reward[0] < 100
    context, _ = env.reset()
    assert isinstance(env.action_space, Assortments) and env.action_space.contains(agent.select_action(context))
    many = np.asarray(agent.select_action(np.stack([context] * 5)))
    assert many.shape == (5, 12) and (many.sum(axis=1) == 3).all()


def test_actions_for_one_user_and_for_many_agree(name: str) -> None:
    env: Any = gym.make(LINEAR, horizon=100)
    agent = small(name, env)
    agent.learn(env, 100, seed=0)
    env.reset(seed=1)
    contexts = env.unwrapped.upcoming(20)
    many = np.asarray(agent.select_action(contexts))
    assert [agent.select_action(context) for context in contexts] == many.tolist()
    assert isinstance(agent.select_action(contexts[0]), int) and set(many.tolist()) <= set(range(10))


@pytest.mark.slow
def test_dqn_learns() -> None:
    env = gym.make(CLASSIFICATION, horizon=4000)
    regrets = [play(env, make(one, env, seed=0), seed=0, checkpoints=[4000]).regret[0] for one in ("dqn", "uniform")]
    assert regrets[0] < 0.8 * regrets[1]


@pytest.mark.parametrize("env_id", [CLASSIFICATION, LINEAR, "privbandit/SparseLinear-v0", ASSORTMENT])
def test_wrapped_environments_pass_the_librarys_check(env_id: str) -> None:
    from stable_baselines3.common.env_checker import check_env

    env: Any = FlattenContext(gym.make(env_id, horizon=50))
    env = ScoreAction(env) if isinstance(env.action_space, Assortments) else env
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)


@pytest.mark.wide_at("dqn")
def test_settings_override_the_file(name: str) -> None:
    env = gym.make(CLASSIFICATION)
    defaults = hyperparameters(name.upper(), "mlp", {"policy": None})
    assert defaults["net_arch"] == [64, 64] and None not in defaults.values()
    known = {field.name for field in dataclasses.fields(small(name, env).config)}
    for kind in ("mlp", "arms", "wide", "items"):
        if (name, kind) != ("dqn", "items"):
            assert known <= set(hyperparameters(name.upper(), kind, {"policy": None})) == set(defaults)
    assert hyperparameters(name.upper(), "arms", {"policy": "mlp"}) == defaults
    agent = small(name, env, learning_rate=0.5, schedule="constant", n_envs=2, net_arch=(5, 6))
    agent.learn(env, 64, seed=0)
    given = {"learning_rate": 0.5, "schedule": "constant", "n_envs": 2, "net_arch": (5, 6)}
    assert agent.hyperparameters == {**defaults, **SMALL[name], **given}
    assert agent.model.learning_rate == 0.5 and agent.model.n_envs == 2 and agent.model.gamma == 0
    assert agent.model.policy_kwargs["net_arch"] == [5, 6] and str(agent.model.device) == "cpu"


def test_infos_say_what_the_environment_says_and_episodes_sum_rewards_as_they_were() -> None:
    users = RecordVectorRegret(vector_face(gym.make(LINEAR, horizon=8), 2), [8])
    adapter = to_sb3(users, 0, reward_scale=0.5)
    adapter.reset()
    steps = [adapter.step(np.zeros(2, int)) for _ in range(4)]
    infos = [info for step in steps for info in step[3]]
    assert sum(info["regret"] for info in infos) == pytest.approx(users.curve.regret[0])
    assert [info["feedback"] for info in infos] == (2 * np.concatenate([step[1] for step in steps])).tolist()
    episodes = [info["episode"] for info in infos if "episode" in info]
    assert sum(episode["r"] for episode in episodes) == users.curve.reward[0]
    assert [episode["l"] for episode in episodes] == [4, 4]


def test_the_number_of_torch_threads_is_given_back() -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with one_torch_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_dqn_plays_arms_alone() -> None:
    env = gym.make(ASSORTMENT)
    assert not can_play("dqn", env) and can_play("ppo", env) and can_play("a2c", env)
    with pytest.raises(ValueError, match="dqn plays arms with real contexts"):
        make("dqn", env)


def test_what_the_agent_does_not_do_is_said(name: str) -> None:
    env = gym.make(CLASSIFICATION)
    agent = small(name, env)
    context, _ = env.reset(seed=0)
    with pytest.raises(RuntimeError, match=f"{name} has no policy yet"):
        agent.select_action(context)
    with pytest.raises(TypeError, match=f"{name} learns inside learn"):
        agent.update(context, 0, 1.0)


@pytest.mark.wide_at("a2c-*", "dqn-privbandit/Linear-v0")
@pytest.mark.parametrize("env_id", [LINEAR, ASSORTMENT])
def test_a_saved_agent_acts_the_same_and_can_go_on_learning(name: str, env_id: str, tmp_path: Path) -> None:
    if name == "dqn" and env_id == ASSORTMENT:
        pytest.skip("dqn plays arms alone")
    env: Any = gym.make(env_id)
    agent = small(name, env)
    agent.learn(env, 64, seed=0)
    save(agent, tmp_path / "agent.npz")
    copy = load(tmp_path / "agent.npz", env)
    assert isinstance(copy, rl.StableBaseline)
    env.reset(seed=2)
    contexts = env.unwrapped.upcoming(200)
    actions = agent.select_action(contexts)
    assert np.array_equal(actions, copy.select_action(contexts)) and len(np.unique(actions, axis=0)) > 1
    assert same_state(agent, copy)
    before = agent.model.num_timesteps
    for one in (copy, agent):
        one.learn(env, 40, seed=1)
    assert same_state(agent, copy) and copy.model.num_timesteps >= before + 40
    agent.learn(env, 40, seed=2)
    assert not same_state(agent, copy)


@pytest.mark.wide_at("dqn")
def test_the_global_generators_are_given_back(name: str) -> None:
    import torch

    np.random.set_state(np.random.RandomState(3).get_state())  # noqa: NPY002
    torch.manual_seed(3)
    before = np.random.get_state()[1].copy(), torch.get_rng_state().numpy().copy()  # type: ignore[index]  # noqa: NPY002
    env = gym.make(CLASSIFICATION, horizon=300)
    play(env, small(name, env), seed=0)
    after = np.random.get_state()[1], torch.get_rng_state().numpy()  # type: ignore[index]  # noqa: NPY002
    assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))


@pytest.mark.wide_at("dqn")
def test_an_agent_saved_before_it_learned_learns_as_it_would_have(name: str, tmp_path: Path) -> None:
    env = gym.make(CLASSIFICATION, horizon=100)
    agent = small(name, env, seed=5)
    assert agent.state()[0] == {}
    save(agent, tmp_path / "agent.npz")
    first, again = (play(env, one, seed=1) for one in (agent, load(tmp_path / "agent.npz", env)))
    assert np.array_equal(first.reward, again.reward)


@pytest.mark.wide_at("dqn")
def test_another_number_of_slots_goes_on_with_the_same_policy(name: str) -> None:
    env = gym.make(CLASSIFICATION)
    agent = small(name, env, learning_rate=1e-9)
    agent.learn(env, 64, seed=0)
    before, users = parameters_of(agent.model.policy), agent.model.num_timesteps
    agent.learn(gym.Wrapper(env), 64, seed=0)
    assert agent.model.n_envs == 1 and agent.model.num_timesteps >= users + 64
    for key, array in parameters_of(agent.model.policy).items():
        np.testing.assert_allclose(array, before[key], atol=1e-6)


@pytest.mark.wide_at("dqn-*", "dqn-False", "ppo-True")
@pytest.mark.parametrize("wrapped", [False, True])
def test_learning_on_without_a_seed_brings_new_users_of_the_same_world(
    name: str, wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[Any, Any]] = []
    family: Any = BanditEnv if wrapped else BanditVectorEnv
    reset = family.reset

    def recorded(self: Any, **kwargs: Any) -> Any:
        contexts, info = reset(self, **kwargs)
        shown.append((self.problem, contexts))
        return contexts, info

    monkeypatch.setattr(family, "reset", recorded)
    env: Any = gym.make(LINEAR)
    env = gym.Wrapper(env) if wrapped else env
    agent = small(name, env)
    for _ in range(3):
        agent.learn(env, 32)
    assert len(shown) == 3 and len({id(world) for world, _ in shown}) == 1
    assert not any(np.array_equal(shown[i][1], shown[j][1]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_vector_environments_must_reset_in_the_same_step(name: str) -> None:
    env = gym.make_vec(CLASSIFICATION, num_envs=2, vectorization_mode="sync")
    with pytest.raises(ValueError, match=r"must have autoreset_mode=AutoresetMode\.SAME_STEP; got .*NEXT_STEP\.$"):
        small(name, env).learn(env, 10)


@pytest.mark.parametrize("missing", ["stable_baselines3", "yaml"])
def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"run pip install 'privbandit\[rl\]'"):
        make("ppo", gym.make(CLASSIFICATION))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"n_envs": 0}, "n_envs must be an integer >= 1; got 0"),
        ({"learning_rate": 0}, "learning_rate must be > 0; got 0"),
        ({"net_arch": (64, 0)}, "net_arch must be an integer >= 1; got 0"),
    ],
)
def test_bad_settings_are_named(name: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(name, gym.make(CLASSIFICATION), **config)


class Hostile(gym.Wrapper[Any, Any, Any, Any]):
    """Every tenth user sends a context that is no number, and another one a reward."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        context, reward, terminated, truncated, info = self.env.step(action)
        self.turn += 1
        turn = self.turn % 10
        wild = [np.nan, np.inf, 3e38][self.turn % 3]
        return context * (wild if turn == 0 else 1), wild if turn == 5 else reward, terminated, truncated, info

    turn = 0


@pytest.mark.wide_at("ppo")
def test_hostile_users_do_not_poison_a_policy(name: str) -> None:
    env = gym.make(LINEAR, horizon=200).unwrapped
    agent = small(name, env)
    with pytest.warns(IgnoredRecord), np.errstate(over="ignore", invalid="ignore"):
        agent.learn(Hostile(env), 120)
    assert finite(agent)
    contexts = np.stack([np.full((10, 20), value) for value in (0.1, np.nan, np.inf, 1e308)])
    nothing: Any = [[None] * 20] * 10
    assert np.shape(agent.select_action(contexts)) == (4,)
    assert env.action_space.contains(agent.select_action(nothing))


def test_no_folder_is_left_behind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    curve(name)
    assert not list(tmp_path.iterdir())
