import pickle
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play

from privbandit_envs import BanditEnv, Features
from privbandit_envs.changing.mixing import mixing_wrappers
from privbandit_envs.testing import check_bandit_env

WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "shared": ("privbandit/Smooth-v0", {}),
    "wide": ("privbandit/Clicks-v0", {"n_arms": 3, "dim": 2}),
    "own": ("privbandit/Linear-v0", {"n_arms": 3, "dim": 2}),
    "labels": ("privbandit/Classification-v0", {"source": "wine", "n_public": 20}),
}
KINDS = ("fourier", "interactions", "bins")


def squares(contexts: np.ndarray) -> np.ndarray:
    return 3 * contexts**2


def world(kind: str, features: Any, **more: Any) -> Any:
    env_id, given = WORLDS[kind]
    return gym.make(env_id, horizon=600, features=features, **given, **more).unwrapped


@pytest.mark.parametrize("features", [*KINDS, squares], ids=[*KINDS, "squares"])
@pytest.mark.parametrize("kind", WORLDS)
def test_features_lie_in_the_ball_or_the_cube(kind: str, features: Any) -> None:
    env = world(kind, features)
    env.reset(seed=1)
    shown = env.upcoming(500)
    assert shown.shape == (500, *env.observation_space.shape) and shown.dtype == np.float32
    assert all(env.observation_space.contains(row) for row in shown) and shown.std(axis=0).max() > 0.05
    assert shown.min() >= (0 if kind == "labels" or features == "bins" else -1) and shown.max() <= 1
    if kind == "own":
        assert np.linalg.norm(shown, axis=-1).max() <= 1 + 1e-6


@pytest.mark.parametrize("kind", WORLDS)
def test_users_rewards_and_regret_are_those_of_the_world(kind: str) -> None:
    env_id, given = WORLDS[kind]
    worlds: list[Any] = [world(kind, "fourier"), gym.make(env_id, horizon=600, **given).unwrapped]
    for env in worlds:
        env.reset(seed=3)
    seen = [env.upcoming(600) for env in worlds]
    assert np.array_equal(seen[0], worlds[0].features(seen[1]))
    assert all(np.array_equal(row, worlds[0].features(one)) for row, one in zip(*seen, strict=True))
    one, other = (env.serve(np.arange(600) % env.action_space.n) for env in worlds)
    assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one.__slots__)


@pytest.mark.wide_at("own-more3", "shared-more1")
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("shared", {"features": "fourier", "support": 30}),
        ("shared", {"features": "bins", "people": 40, "person_spread": 0.5}),
        ("own", {"features": {"kind": "fourier", "n": 5, "seed": 2}, "jumps": [20, 90], "drift": 0.01}),
        ("own", {"features": "interactions"}),
        ("labels", {"features": "fourier"}),
    ],
)
def test_an_environment_with_features_conforms(kind: str, more: dict[str, Any]) -> None:
    env_id, given = WORLDS[kind]
    check_bandit_env(env_id, **given, **more)


def test_static_regret_is_that_of_the_world() -> None:
    def gaps(features: Any) -> Any:
        env = world("own", features, jumps=[200])
        env.reset(seed=4)
        return env.static_gaps(500)

    assert np.array_equal(gaps("fourier"), gaps(None))


def test_the_map_is_pinned_by_its_declaration_whatever_the_seed_of_users() -> None:
    def shown(users: int, **declared: Any) -> Any:
        env = world("shared", {"kind": "fourier", **declared})
        env.reset(seed=users)
        return env, env.features(np.full((1, 2), 0.3))

    assert np.array_equal(shown(1)[1], shown(2)[1]) and not np.array_equal(shown(1)[1], shown(1, seed=1)[1])
    assert np.array_equal(shown(1)[1], pickle.loads(pickle.dumps(shown(1)[0])).features(np.full((1, 2), 0.3)))


def test_cosines_are_the_features_of_a_gaussian_kernel() -> None:
    """Products of 4000 features are the kernel within .05: their deviation is at most 4000^-1/2 / sqrt(2)."""
    env = world("shared", Features("fourier", n=4000, length=0.5))
    x = np.random.default_rng(0).random((20, 2))
    z = env.features(x).astype(float)
    kernel = np.exp(-((x[:, None] - x) ** 2).sum(axis=-1) / (2 * 0.5**2))
    assert np.abs(2 * z @ z.T / 4000 - kernel).max() < 0.05


def test_contexts_that_are_not_finite_give_no_usable_features() -> None:
    for kind in KINDS:
        made = world("shared", kind).features(np.array([[np.nan, 0.5]], np.float32))
        assert np.isnan(made).any() or not made[0, :6].any()


def test_public_and_auxiliary_data_are_shown_by_the_same_map() -> None:
    labels = world("labels", "fourier")
    assert labels.public_data[0].shape == (20, 16) and labels.observation_space.contains(labels.public_data[0][0])
    smooth = world("shared", "bins", n_auxiliary=7)
    assert smooth.auxiliary_data.contexts.sum(axis=1).tolist() == [2.0] * 7


@pytest.mark.parametrize(("name", "more"), [("linucb", {"available": 0.6}), ("jdp-linucb", {})])
def test_blocks_steps_and_slots_play_alike(name: str, more: dict[str, Any]) -> None:
    env_id, given = WORLDS["shared"]
    env: Any = gym.make(env_id, horizon=600, features="fourier", **given, **more)
    runs = [play(one, make(name, one, seed=0), 300, seed=5) for one in (env, gym.wrappers.TimeLimit(env, 10**4))]
    assert np.array_equal(runs[0].regret, runs[1].regret) and mixing_wrappers(env) == ()
    slots = gym.make_vec(env_id, num_envs=4, features="fourier", **given, **more)
    assert np.array_equal(slots.reset(seed=5)[0], (env.reset(seed=5), env.unwrapped.upcoming(4))[1])


def test_a_family_keeps_its_own_features() -> None:
    env: Any = gym.make("privbandit/Assortment-v0", features="unit").unwrapped
    assert isinstance(env, BanditEnv) and env.features is None and env._world.config["features"] == "unit"


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ("fourrier", "kind must be one of"),
        ({"kind": "bins", "m": 3}, "features take kind, n, length, seed; got 'm'."),
        ({"kind": "fourier", "n": 1}, "n must be at least 2; got 1."),
        ({"n": 20_000}, "features must be at most 10,000"),
        (lambda x: x[:-1], "must be as many rows"),
    ],
)
def test_a_wrong_declaration_is_refused_in_one_sentence(features: Any, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        world("shared", features)
    with pytest.raises(ValueError, match="arms and contexts of numbers"):
        gym.make("privbandit/Bandit-v0", features="bins")
