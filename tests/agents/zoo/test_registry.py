import dataclasses
import math
import re
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, load, make, play, register_agent, save
from privbandit_agents.base.guarantee import UnprovenCalibration
from privbandit_agents.base.state import read, restore_into, state_of, write
from privbandit_agents.zoo.auto import AutoJoint, AutoLocal
from privbandit_agents.zoo.entries import FAMILIES, preset_of, shelves
from privbandit_agents.zoo.registry import can_play, generator

LINEAR = "privbandit/Linear-v0"

BAD: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("linucp", {}, ValueError, "did you mean linucb?"),
    ("linucb", {"alfa": 1}, TypeError, "linucb has no setting 'alfa' (did you mean 'alpha'?)"),
    ("linucb", {"alpha": -1}, ValueError, "alpha must be >= 0; got -1."),
    ("linucb", {"alpha": float("nan")}, ValueError, "alpha must be a finite number; got nan."),
    ("linucb", {"ridge": 0}, ValueError, "ridge must be > 0; got 0."),
    ("epsilon-greedy", {"exploration": 1.2}, ValueError, "exploration must lie in [0, 1]; got 1.2."),
    ("sa-lasso", {"growth": 1}, ValueError, "growth must be > 1; got 1."),
    ("ucb-mnl", {}, ValueError, "ucb-mnl plays assortments of items with features and a revenue; got"),
    ("tree-all", {}, ValueError, "tree-all plays classification"),
]


@pytest.mark.parametrize(("name", "config", "kind", "message"), BAD)
def test_bad_requests_get_one_sentence(name: str, config: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        make(name, gym.make(LINEAR), **config)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_every_entry_has_a_summary_and_frozen_settings_with_documented_attributes() -> None:
    for name, entry in AGENTS.items():
        config = entry.load().Config
        assert entry.summary and dataclasses.is_dataclass(config), name
        assert config.__dataclass_params__.frozen, name  # type: ignore[attr-defined]
        for field in dataclasses.fields(config):
            assert f"{field.name}:" in "".join(base.__doc__ or "" for base in config.__mro__), (
                f"{name}: {field.name} is not documented"
            )


def test_a_retired_agent_is_built_with_a_warning_that_names_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AGENTS, "old", dataclasses.replace(AGENTS["greedy"], successor="linucb"))
    env = gym.make(LINEAR, horizon=10)
    with pytest.warns(DeprecationWarning, match="linucb") as told:
        assert make("old", env, seed=0).name == "old"
    assert [Path(one.filename) for one in told] == [Path(__file__)], "it points at the caller"
    assert make("linucb", env, seed=0).name == "linucb", "and the successor is built without one"


def test_the_first_shelf_has_what_the_defaults_build_and_yardsticks() -> None:
    first, papers, rest = shelves().values()
    assert sorted([*first, *papers, *rest]) == sorted(name for name, entry in AGENTS.items() if not entry.successor)
    worlds = [gym.make(id, horizon=10) for id in FAMILIES.values()]
    autos = [name for name in AGENTS if name.startswith("auto-")]
    built = {make(auto, env, seed=0).name for auto in autos for env in worlds if can_play(auto, env)}
    assert len(built) >= 5 and {*autos, *built} <= set(first)
    named = set(re.findall(r"``([\w-]+)``", f"{AutoLocal.__doc__} {AutoJoint.__doc__}"))
    assert {name for name in first if AGENTS[name].notion != "none"} == named | set(autos)


def test_presets_are_settings_of_another_agent() -> None:
    found = {name: preset_of(name) for name in AGENTS if preset_of(name)}
    windows = {f"sw-{name}": name for name in ("linucb", "ldp-linucb", "jdp-linucb")}
    assert found == {
        "greedy": "epsilon-greedy",
        "tree-public": "tree-all",
        "ldp-oful": "ldp-linucb",
        **dict.fromkeys(("lpct-p", "lpct-r", "lpdt"), "lpct"),
        **windows,
    }
    env = gym.make(LINEAR, horizon=400, n_arms=3, dim=2)
    for name, agent in windows.items():
        one, other = make(name, env, seed=1, window=100), make(agent, env, seed=1, window=100)
        assert (play(env, one, 400, seed=2).regret == play(env, other, 400, seed=2).regret).all()
        assert one.config == other.config and make(agent, env).config.window is None


def test_a_window_of_linucb_and_growth_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"growth = 1\.5.*window = 9"):
        make("linucb", gym.make(LINEAR), growth=1.5, window=9)
    with pytest.raises(TypeError, match="window"):
        make("reward-dp-linucb", gym.make(LINEAR), window=9)


@pytest.fixture(scope="module")
def worlds() -> dict[str, Any]:
    return {family: gym.make(env_id, horizon=100) for family, env_id in FAMILIES.items()}


def test_families_of_entries_are_those_that_they_can_play(worlds: dict[str, Any]) -> None:
    for name, entry in AGENTS.items():
        assert {family for family, env in worlds.items() if can_play(name, env)} == set(entry.families), name


@pytest.mark.wide_at("psgd-*", "pglm", "a2c", "dqn", "ppo")
@pytest.mark.parametrize("name", AGENTS)
def test_an_entry_says_what_is_built(name: str, worlds: dict[str, Any]) -> None:
    """Notion and arithmetic are those of its promise, and secure noise is taken or not."""
    entry = AGENTS[name]
    env = worlds[entry.families[0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        promise = make(name, env, seed=0).guarantee
        try:
            secure = make(name, env, epsilon=1.0, noise="secure").guarantee
        except (TypeError, ValueError) as error:
            assert not entry.secure or "take a larger budget" in str(error) or "exact" in str(error), error
        else:
            assert entry.secure and secure.notion == entry.notion
    assert promise.notion == entry.notion and (entry.notion == "none" or promise.arithmetic == entry.arithmetic)


def test_non_private_agents_say_so() -> None:
    assert make("linucb", gym.make(LINEAR)).guarantee.notion == "none"


def test_outside_agents_can_be_registered() -> None:
    register_agent("linucb-wide", "privbandit_agents.baselines.linucb:LinUCB", "LinUCB with a large bonus", alpha=5.0)
    try:
        agent = make("linucb-wide", gym.make(LINEAR))
        assert agent.config.alpha == 5.0 and agent.name == "linucb-wide"
    finally:
        del AGENTS["linucb-wide"]


def test_saving_is_all_or_nothing(tmp_path: Path) -> None:
    env = gym.make(LINEAR, horizon=50)
    agent = make("linucb", env, seed=1)
    play(env, agent, seed=1)
    path = tmp_path / "deep" / "agent.npz"
    save(agent, path)
    before = path.read_bytes()
    agent.unsaveable = object()  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        save(agent, path)
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == ["agent.npz"]
    assert np.array_equal(load(path, env).regression.matrices, agent.regression.matrices)  # type: ignore[attr-defined]


def test_a_saved_agent_fits_the_environment_it_was_saved_for(tmp_path: Path) -> None:
    env = gym.make(LINEAR, dim=4)
    save(make("linucb", env), tmp_path / "a.npz")
    for other in ({"dim": 5}, {"dim": 4, "dtype": "float64"}, {"dim": 4, "n_arms": 3}):
        with pytest.raises(ValueError, match="was saved for float32 contexts of shape"):
            load(tmp_path / "a.npz", gym.make(LINEAR, **other))
    with pytest.raises(ValueError, match="the saved state has extra, which a new Outer lacks: make it in begin"):
        restore_into(Outer(), {}, {"extra": 1})


def test_something_that_is_no_environment_gets_one_sentence(tmp_path: Path) -> None:
    save(make("linucb", gym.make(LINEAR)), tmp_path / "a.npz")
    wrong: Any = LINEAR
    for call in (
        lambda: make("linucb", wrong),
        lambda: load(tmp_path / "a.npz", wrong),
        lambda: can_play("ppo", wrong),
    ):
        with pytest.raises(
            TypeError, match=r"^env must be a Gymnasium environment, as gym.make returns it; got 'privb"
        ):
            call()


def test_the_horizon_is_the_agents_own_where_the_environment_has_none() -> None:
    class Endless(gym.Env[Any, Any]):
        observation_space, action_space = gym.make(LINEAR).observation_space, gym.make(LINEAR).action_space

    for name in ("lplr", "jdp-linucb"):
        assert make(name, Endless()).frozen_rounds() >= 1
    with pytest.raises(ValueError, match="lplr plays arms with features"):
        make("lplr", gym.make("CartPole-v1"))


def test_a_seed_counts_whole() -> None:
    """Seeds that agree in their lowest 31, 32, 64 or 128 bits are different seeds."""
    seeds = [5, 5 + 2**31, 5 + 2**32, 5 + 2**64, 5 + 2**128, 5 + 2**64 + 2**128]
    assert len({generator(seed).random() for seed in seeds}) == len(seeds)
    assert generator(5).random() == generator(5).random() == make("uniform", gym.make(LINEAR), seed=5).rng.random()


@pytest.mark.parametrize("seed", [-1, 1.5, "x", True])
def test_a_seed_that_is_none_gets_one_sentence(seed: Any) -> None:
    with pytest.raises(ValueError, match=r"^seed must be an integer >= 0; got"):
        make("uniform", gym.make(LINEAR), seed=seed)


def test_an_agents_noise_is_no_stream_of_a_world_with_the_same_seed() -> None:
    """Neither the agent's generator nor its first children draw what the world's three generators draw."""
    for seed in range(5):
        env = gym.make(LINEAR, dim=4)
        env.reset(seed=seed)
        agent = make("jdp-linucb", env, seed=seed)
        world = [np.random.default_rng(child).standard_normal(3) for child in np.random.SeedSequence(seed).spawn(3)]
        noise = [agent.rng, *agent.rng.spawn(3), agent.schedule.counter.rng]  # type: ignore[attr-defined]
        drawn = [one.standard_normal(3) for one in noise]
        assert not any(np.allclose(one, other) for one in world for other in drawn)


def test_the_file_of_a_private_agent_is_its_owners_alone(tmp_path: Path) -> None:
    env = gym.make(LINEAR, dim=4)
    for name, mode in (("jdp-linucb", 0o600), ("ldp-greedy", 0o600)):
        save(make(name, env), tmp_path / name)
        assert (tmp_path / name).stat().st_mode & 0o777 == mode
    save(make("linucb", env), tmp_path / "open")
    assert (tmp_path / "open").stat().st_mode & 0o077 != 0


class Inner:
    def __init__(self) -> None:
        self.array = np.zeros(3)


class Outer:
    fixed = frozenset({"cache"})

    def __init__(self) -> None:
        self.inner, self.count, self.rng, self.cache = Inner(), 0, np.random.default_rng(0), object()


def test_state_covers_nested_objects_and_generators(tmp_path: Path) -> None:
    one, other = Outer(), Outer()
    one.inner.array[1], one.count = 5, 7
    one.rng.random(3)
    write(tmp_path / "state.npz", *state_of(one))
    restore_into(other, *read(tmp_path / "state.npz"))
    assert other.inner.array.tolist() == [0, 5, 0] and other.count == 7 and one.rng.random() == other.rng.random()


PROMISING = [name for name, entry in AGENTS.items() if entry.notion != "none"]


def played_by(name: str, horizon: int) -> Any:
    return next(env for env_id in FAMILIES.values() if can_play(name, env := gym.make(env_id, horizon=horizon)))


@pytest.mark.filterwarnings("error:.* promises little")
@pytest.mark.parametrize("name", PROMISING)
def test_no_default_promises_little(name: str) -> None:
    make(name, played_by(name, 20_000), seed=0)


@pytest.mark.parametrize("epsilon", [10.5, 1000.0, math.inf])
@pytest.mark.parametrize("name", ["jdp-linucb", "ldp-linucb", "adap-klucb", "auto-local"])
def test_a_budget_that_protects_nobody_is_warned_of_once_with_the_odds(name: str, epsilon: float) -> None:
    odds = "99.99725" if epsilon == 10.5 else "100"
    adds = "no noise" if epsilon == math.inf else f"epsilon = {epsilon:g}"
    with pytest.warns(
        UserWarning, match=rf" promises little: with {adds} a guess .* right {odds} % of the time\.$"
    ) as all_:
        make(name, played_by(name, 20_000), seed=0, epsilon=epsilon)
    assert len(all_) == 1 and "\n" not in str(all_[0].message)


@pytest.mark.parametrize("name", ["fliphat", "jdp-linucb", "pglm"])
def test_a_delta_of_one_over_the_horizon_is_warned_of(name: str) -> None:
    env = played_by(name, 20_000)
    with pytest.warns(UserWarning, match=r"delta = 0.01 may expose 200 of 20,000 users; take one below 5e-05\.$"):
        make(name, env, seed=0, delta=0.01)
    with pytest.warns(UserWarning, match="delta = 5e-05 may expose 1 of"):
        make(name, env, seed=0, delta=5e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        make(name, env, seed=0, delta=4.9e-5)


def test_a_published_calibration_is_not_warned_of_twice() -> None:
    with pytest.warns(UnprovenCalibration) as all_:
        make("fliphat", gym.make(LINEAR, horizon=100), seed=0, calibration="published", epsilon=1000.0, delta=0.5)
    assert len(all_) == 1
