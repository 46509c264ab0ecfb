"""Users of a block who are served in order: the loop's trajectory, bit for bit."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from privbandit_agents import make, play
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.baselines.linucb import LinUCB
from privbandit_agents.playing.ahead import served_in_order

from privbandit_envs import BanditEnv
from privbandit_envs.families.classification import ClassificationProblem
from privbandit_envs.families.linear import LinearProblem
from privbandit_envs.problem import ArmProblem

NAMES = ("linucb", "greedy", "epsilon-greedy", "lints", "squarecb", "regcb")
WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "arms": ("privbandit/Linear-v0", {"n_arms": 4, "dim": 7}),
    "one arm": ("privbandit/Linear-v0", {"n_arms": 1, "dim": 1}),
    "many features": ("privbandit/SparseLinear-v0", {"n_arms": 3, "dim": 130}),
    "one context": ("privbandit/Classification-v0", {"source": "wine"}),
}


class Plain(ArmProblem):
    """Contexts of two arms and three features, and rewards, of any type and size."""

    def __init__(self, rng: Any, *, dtype: str = "float64", scale: float = 1.0, reward: float = 1.0) -> None:
        self.dtype, self.scale, self.reward = dtype, scale, reward
        self.observation_space, self.action_space = Box(-np.inf, np.inf, (2, 3)), Discrete(2)

    def contexts(self, n: int, rng: Any) -> Any:
        return self.scale * rng.standard_normal((n, 2, 3))

    def means(self, contexts: Any) -> Any:
        return np.tanh(contexts.sum(axis=-1))

    def rewards(self, means: Any, rng: Any) -> Any:
        return (self.reward * np.where(rng.random(means.shape) < 0.5, 1, -1)).astype(self.dtype)


def both(name: str, made: Any, horizon: int = 700, **config: Any) -> tuple[Any, Any, Any, Any]:
    """Return results and agents of the block path and of the step loop."""
    fast, slow = make(name, made(), seed=1, **config), make(name, made(), seed=1, **config)
    first = play(made(), fast, horizon, seed=2, checkpoints=[1, 3, 650, horizon])
    second = play(gym.Wrapper(made()), slow, horizon, seed=2, checkpoints=[1, 3, 650, horizon])
    return first, second, fast, slow


def same(first: Any, second: Any, fast: Any, slow: Any) -> bool:
    """Return whether curves, regressions and generators are the same bits."""
    curves = np.array_equal(first.regret, second.regret) and np.array_equal(first.reward, second.reward)
    matrices = np.array_equal(fast.regression.matrices, slow.regression.matrices)
    return curves and matrices and fast.rng.random() == slow.rng.random()


@pytest.mark.wide_at(
    "squarecb-*", "lints-one arm", "linucb-many features", "regcb-many features", "greedy-*", "epsilon-greedy-*"
)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", NAMES)
def test_serving_in_order_is_the_step_loop_bit_for_bit(name: str, world: str) -> None:
    env_id, config = WORLDS[world]
    results = both(name, lambda: gym.make(env_id, horizon=700, **config))
    assert served_in_order(results[2]) and same(*results)


@pytest.mark.parametrize("world", [{"dtype": "float32"}, {"dtype": "int64"}, {"scale": 1e5}])
def test_rewards_and_contexts_of_other_kinds_take_the_loop(world: Any) -> None:
    assert same(*both("linucb", lambda: BanditEnv(Plain, **world)))


@pytest.mark.parametrize("world", [{"reward": 2e6}, {"reward": np.nan}, {"scale": 1e7}])
def test_what_cannot_be_learned_is_ignored_with_the_warning_of_the_loop(world: Any) -> None:
    with pytest.warns(IgnoredRecord):
        results = both("linucb", lambda: BanditEnv(Plain, **world))
    assert np.array_equal(results[2].regression.matrices[0], np.eye(3, 4))
    assert np.array_equal(results[2].regression.matrices, results[3].regression.matrices)


HOSTILE = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e5)


class Spoilt(ArmProblem):
    """Another world in which every eighth user shows something hostile: all of a context, or one number of it."""

    def __init__(self, rng: Any, *, inner: type[ArmProblem], settings: Any, horizon: int) -> None:
        self.inner = inner(rng, **settings)  # type: ignore[call-arg]
        self.observation_space, self.action_space = self.inner.observation_space, self.inner.action_space
        self.public_data = getattr(self.inner, "public_data", None)
        self.contexts, self.users = self.inner.contexts, self.inner.users  # type: ignore[method-assign]
        self.means, self.rewards = self.inner.means, self.inner.rewards  # type: ignore[method-assign]

    def contexts(self, n: int, rng: Any) -> Any: ...
    def means(self, contexts: Any) -> Any: ...

    def observe(self, users: Any) -> Any:
        shown = np.array(self.inner.observe(users), np.float64)
        for number, row in enumerate(shown[3::8].reshape(-1, shown[0].size)):
            row[:: 1 if number % 2 else row.size] = HOSTILE[number % len(HOSTILE)]
        return shown


@pytest.mark.wide_at("lpct-labels", "tree-all-labels", "ldp-linucb-arms", "kernel-ldp-*")
@pytest.mark.filterwarnings("ignore::privbandit_agents.base.records.IgnoredRecord", "ignore:.*declare public bounds")
@pytest.mark.parametrize(
    ("name", "family"),
    [(name, "arms") for name in ("linucb", "lints", "shuffle-linucb", "reward-dp-linucb", "ldp-linucb", "jdp-linucb")]
    + [(name, "labels") for name in ("greedy", "squarecb", "kernel-ldp", "psgd-network", "lpct", "tree-all")],
)
def test_hostile_users_within_a_block_are_the_step_loop_bit_for_bit(name: str, family: str) -> None:
    inner, settings = (LinearProblem, {"n_arms": 3, "dim": 4}) if family == "arms" else (ClassificationProblem, {})
    found = []
    for wrapped in (lambda env: env, gym.Wrapper):
        env = BanditEnv(Spoilt, inner=inner, settings=settings, horizon=200)
        agent = make(name, env, seed=1)
        result = play(wrapped(env), agent, seed=2, by_counts=False)
        arrays, values = agent.state()
        found.append((result.regret, result.reward, *(arrays[key] for key in sorted(arrays)), np.array(str(values))))
    for fast, slow in zip(*found, strict=True):
        assert np.array_equal(fast, slow, equal_nan=fast.dtype.kind == "f")


def test_an_agent_whose_loop_was_changed_keeps_it() -> None:
    class Counting(LinUCB):
        users_seen = 0

        def update(self, *record: Any) -> None:
            self.users_seen += 1
            super().update(*record)

    env = gym.make("privbandit/Linear-v0", n_arms=2, dim=2, horizon=50)
    agent = Counting(env.observation_space, env.action_space, LinUCB.Config(), np.random.default_rng(0))
    assert not served_in_order(agent)
    play(env, agent, seed=0)
    assert agent.users_seen == 50
    watched: Any = make("linucb", env, seed=0)
    watched.select_action = watched.select_action
    assert not served_in_order(watched)


def test_an_agent_that_promises_privacy_learns_by_its_loop() -> None:
    """A joint agent of someone else's that inherits from LinUCB has no block of users whose releases nobody counts."""

    class Promising(LinUCB):
        guarantee = Guarantee.joint(1.0, 0.0, None, "nowhere")

    env = gym.make("privbandit/Linear-v0", n_arms=2, dim=2, horizon=50)
    agent = Promising(env.observation_space, env.action_space, LinUCB.Config(), np.random.default_rng(0))
    serve, world = served_in_order(agent), env.unwrapped
    assert isinstance(world, BanditEnv)
    world.reset(seed=0)
    assert serve is not None and serve(agent, world.upcoming(5), lambda user, arm: pytest.fail("asked")) is None
