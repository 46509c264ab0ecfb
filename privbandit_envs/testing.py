"""The conformance suite of bandit environments, for this package's and for outsiders' alike.

Register an environment, then call ``check_bandit_env("mine/Name-v0")`` in a test. To have a test for every check,
parametrise over ``CHECKS``.
"""

import importlib.util
import json
import pickle
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env

from privbandit_envs.changing.people import LAWS
from privbandit_envs.env import BanditEnv
from privbandit_envs.problem import Array, Served
from privbandit_envs.spaces import Assortments
from privbandit_envs.stream import JSON, block_size
from privbandit_envs.vector_env import INFO, BanditVectorEnv
from privbandit_envs.wrappers import FlattenContext, ScoreAction


def check_bandit_env(env_id: str, **kwargs: object) -> None:
    """Run every check on a registered environment.

    Args:
        env_id: as for ``gym.make``.
        **kwargs: arguments of the environment.

    Raises:
        AssertionError: a check failed; the message gives the expectation.
    """
    for check in CHECKS:
        check(env_id, **kwargs)


def check_gymnasium(env_id: str, **kwargs: object) -> None:
    """Gymnasium's own checker accepts it without a warning."""
    with warnings.catch_warnings(action="error"):
        check_env(make(env_id, **kwargs))


def check_stable_baselines(env_id: str, **kwargs: object) -> None:
    """The checker of stable-baselines3, if installed, accepts it, flattened and played by scores where needed."""
    if importlib.util.find_spec("stable_baselines3") is None:
        return
    from stable_baselines3.common.env_checker import check_env as check_sb3

    env: gym.Env[Any, Any] = make(env_id, **kwargs)
    if len(env.observation_space.shape or ()) > 1:
        env = FlattenContext(env)
    if isinstance(env.action_space, Assortments):
        env = ScoreAction(env)
    with warnings.catch_warnings(action="error"):
        check_sb3(env)


def check_seeds(env_id: str, **kwargs: object) -> None:
    """The same seed gives the same trajectory, another seed another one, and instance_seed pins the world alone."""
    kwargs = {"horizon": 3000, **kwargs}
    actions = sample_actions(env_id, kwargs)
    first, again, other = (run(make(env_id, **kwargs), seed, actions) for seed in (1, 1, 2))
    assert same(first, again), "equal seeds gave different trajectories"
    assert not same(first, other), "different seeds gave the same trajectory"
    pinned = [make(env_id, **{**kwargs, "instance_seed": 7}) for _ in range(2)]
    for env, seed in zip(pinned, (1, 2), strict=True):
        env.reset(seed=seed)
    contexts = pinned[0].upcoming(50)
    worlds = [env.problem for env in pinned]
    users = [world.users(0, 50, np.random.default_rng(0)) for world in worlds]
    assert np.array_equal(users[0], users[1]), "instance_seed did not pin the world"
    best = [world.best_action(users[0]) for world in worlds]
    assert np.array_equal(best[0], best[1]), "instance_seed did not pin the world"
    apart = isinstance(pinned[0].observation_space, Discrete) and pinned[0].observation_space.n == 1
    assert apart or not np.array_equal(contexts, pinned[1].upcoming(50)), "instance_seed pinned the users too"


def check_groups(env_id: str, **kwargs: object) -> None:
    """Users served one by one, in blocks of any size, or by the vector environment are the same, bit for bit."""
    kwargs = {**kwargs, "horizon": 3000}
    actions = sample_actions(env_id, kwargs)
    contexts, served = run(make(env_id, **kwargs), 3, actions)
    stepped = run_steps(make(env_id, **kwargs), 3, actions)
    assert same((contexts, served), stepped), "the step loop and one block differ"
    for size in (1, 7, 64):
        assert same((contexts, served), run(make(env_id, **kwargs), 3, actions, size)), f"blocks of {size} differ"
    for size in (1, 6):
        n = len(actions) // size * size
        slots = run_vector(env_id, kwargs, 3, actions[:n], size)
        assert same((contexts[:n], served[:n]), slots), f"{size} slots differ"


def check_regret(env_id: str, **kwargs: object) -> None:
    """Regret is the best mean minus the mean of the action: >= 0, and 0 for the optimal action."""
    kwargs = {"horizon": 3000, **kwargs}
    actions = sample_actions(env_id, kwargs)
    _, served = run(make(env_id, **kwargs), 4, actions)
    assert (served.regret >= 0).all(), f"regret must be >= 0; got {served.regret.min():g}"
    _, best = run(make(env_id, **kwargs), 4, served.optimal_action)
    at = int(best.regret.argmax())
    assert (best.regret == 0).all(), (
        f"best_action() must have regret 0; user {at} has {best.regret[at]:g} by action {best.optimal_action[at]}"
    )
    gap = best.expected_reward - served.expected_reward
    at = int(np.abs(gap - served.regret).argmax())
    assert np.allclose(gap, served.regret, atol=1e-9), unlike(actions, served, best, at)


def unlike(actions: Array, served: Served, best: Served, at: int) -> str:
    """Return in words why the regret of a user is not exact: its action, the best one, and both means."""
    means = served.expected_reward[at], best.expected_reward[at]
    oracles = served.optimal_action[at]
    found = f"user {at}: action {actions[at]} has mean {means[0]:.6g}, action {oracles} has {means[1]:.6g}"
    if means[0] > means[1]:
        return f"{found}, and best_action() calls the second one best; let it return an action with the highest mean"
    return f"{found}, and regret is {served.regret[at]:.6g}; let it be the difference of these means"


def check_rewards(env_id: str, **kwargs: object) -> None:
    """The mean reward is the expected reward, within five standard errors (a false alarm in 1.7 million)."""
    n = 4000
    env = make(env_id, **{**kwargs, "horizon": n})
    actions = np.stack([env.action_space.sample() for _ in range(200)])[np.arange(n) % 200]
    _, served = run(env, 5, actions)
    excess = served.reward - served.expected_reward
    error = excess.std() / np.sqrt(n)
    assert abs(excess.mean()) <= 5 * error + 1e-12, f"mean reward is off by {excess.mean():.3g} +- {error:.2g}"


def check_units(env_id: str, **kwargs: object) -> None:
    """Warns if agents clip rewards or contexts of more than a twentieth of the users, beyond what is declared."""
    env = make(env_id, **{**kwargs, "horizon": 400})
    if isinstance(env.action_space, Assortments):
        return
    low, high = (-1.0, 1.0) if env.units is None else env.units.rewards or (-np.inf, np.inf)
    contexts, served = run(env, 15, np.stack([env.action_space.sample() for _ in range(400)]))
    beyond = (served.feedback < low - 1e-9) | (served.feedback > high + 1e-9)
    lost = f"rewards lie outside of [{low:g}, {high:g}], to which private agents clip"
    found = [(beyond, lost, "rewards=(low, high)")]
    by_public = getattr(env, "public_data", None) is not None  # agents scale features of labels by these rows
    if isinstance(env.observation_space, Box) and not by_public and (env.units is None or env.units.contexts is None):
        beyond = (np.linalg.norm(contexts, axis=-1) > 3 * np.sqrt(contexts.shape[-1])).reshape(400, -1).any(axis=1)
        lost = "contexts are longer than thrice features of unit variance, and private agents clip them"
        found.append((beyond, lost, "contexts=scale"))
    for beyond, lost, way in found:
        if (share := 100 * beyond.mean()) > 5:
            declare = f"declare public bounds in the family: units = Units({way})"
            warnings.warn(f"{share:.0f} % of {lost}; {declare}.", stacklevel=3)


def check_pickle(env_id: str, **kwargs: object) -> None:
    """A copy pickled in the middle of an episode continues in the same way."""
    env = make(env_id, **{**kwargs, "horizon": 3000})
    actions = sample_actions(env_id, kwargs)
    env.reset(seed=6)
    for action in actions[:40]:
        env.step(action)
    copy = pickle.loads(pickle.dumps(env))
    for action in actions[40:]:
        (context, reward, *_), (context_2, reward_2, *_) = env.step(action), copy.step(action)
        assert np.array_equal(context, context_2) and reward == reward_2, "the pickled copy went another way"


def check_bookmark(env_id: str, **kwargs: object) -> None:
    """A fresh environment, single or vector, continues from a bookmark taken anywhere."""
    kwargs = {**kwargs, "horizon": 3000}
    actions = sample_actions(env_id, kwargs)
    for served, shown in ((0, 1), (40, 1), (700, 1), (701, 900), (1, 700)):
        env, other = make(env_id, **kwargs), make(env_id, **kwargs)
        env.reset(seed=11)
        env.serve(actions[np.arange(served) % len(actions)])
        context = env.upcoming(shown)[0]
        assert np.array_equal(context, other.go_to(json.loads(json.dumps(env.bookmark())))), "go_to went elsewhere"
        assert env.rounds_left == other.rounds_left == 3000 - served, "go_to lost the rounds left"
        after = [(one.upcoming(900), one.serve(actions[np.arange(900) % len(actions)])) for one in (env, other)]
        assert same(*after), "a bookmarked environment went another way"
    slots, twin = (make_vector(env_id, 6, **kwargs) for _ in range(2))
    slots.reset(seed=12)
    slots.step(actions[:6])
    assert np.array_equal(slots.step(actions[6:12])[0], twin.go_to(slots.bookmark()))
    assert np.array_equal(slots.step(actions[:6])[1], twin.step(actions[:6])[1]), "a vector environment went elsewhere"


def check_episode(env_id: str, **kwargs: object) -> None:
    """An episode is one horizon, truncated and never terminated; then reset() keeps the world and brings new users."""
    env = make(env_id, **{**kwargs, "horizon": 20})
    first, _ = env.reset(seed=7)
    steps = [env.step(env.action_space.sample()) for _ in range(20)]
    assert [step[3] for step in steps] == [False] * 19 + [True], "truncated is not True in the last round alone"
    assert not any(step[2] for step in steps), "terminated"
    for forbidden in (lambda: env.step(env.action_space.sample()), lambda: env.upcoming(1)):
        assert raises(ResetNeeded, forbidden), "served beyond the horizon"
    world = env.problem
    shown, _ = env.reset()
    assert env.problem is world, "reset() without a seed drew a new world"
    seen = [first, *(step[0] for step in steps)]
    if env.support is not None:  # then different users may well have the same context
        return
    assert not np.array_equal(shown, seen[-1]), "reset() brought the user who was left unserved"
    old = [any(np.array_equal(user, context) for context in seen) for user in env.upcoming(20)]
    assert not all(old), "reset() brought the old users"  # some may come again where users are drawn from finite data


def check_contexts(env_id: str, **kwargs: object) -> None:
    """Contexts lie in a bounded space of the right type, and are the caller's to keep."""
    env = make(env_id, **kwargs)
    context, _ = env.reset(seed=8)
    space = env.observation_space
    bounded = isinstance(space, Discrete) or (isinstance(space, Box) and space.is_bounded())
    assert bounded, "the observation space is neither a bounded Box nor Discrete"
    kept = env.upcoming(150)
    assert all(space.contains(one) for one in kept), "a context is outside the observation space"
    before = kept.copy()
    kept[...] = -1
    if isinstance(context, np.ndarray):  # a number is nobody else's
        context[...] = -1
    assert np.array_equal(env.upcoming(150), before), "a returned context is not a copy"


def check_actions(env_id: str, **kwargs: object) -> None:
    """A malformed action raises one sentence and serves nobody."""
    env = make(env_id, **kwargs)
    env.reset(seed=9)
    before = env.upcoming(5)
    malformed: list[Any] = [None, "x", 10**9, -1, 1.5, np.nan, np.full((2, 3), 1), np.full(3, np.nan)]
    if isinstance(env.action_space, Assortments):
        n = env.action_space.n_items
        malformed += [np.ones(n, np.int8) * 2, np.ones(n + 1, np.int8), -np.ones(n, np.int8), np.full(n, np.nan)]
        if env.action_space.capacity < n:
            malformed.append(np.ones(n, np.int8))
    for action in malformed:
        message = raises(ValueError, partial(env.step, action))
        assert message, f"action {action!r} was accepted"
        assert "got" in message and message.endswith("."), f"not a sentence with the value: {message}"
        pair = np.empty(2, dtype=object)  # an array of two entries, whatever the action is
        pair[0] = pair[1] = action
        assert raises(ValueError, partial(env.serve, pair)), f"action {action!r} was accepted in a block"
    assert np.array_equal(env.upcoming(5), before), "a malformed action served a user"


def check_spec(env_id: str, **kwargs: object) -> None:
    """The spec survives JSON and rebuilds the same environment; a wrong argument is named."""
    kwargs = {"horizon": 3000, **kwargs}
    env = make(env_id, **kwargs)
    assert env.spec is not None
    with warnings.catch_warnings(action="error"):
        rebuilt = gym.make(EnvSpec.from_json(env.spec.to_json())).unwrapped
    assert isinstance(rebuilt, BanditEnv)
    actions = sample_actions(env_id, kwargs)
    assert same(run(env, 10, actions), run(rebuilt, 10, actions)), "the spec rebuilt another environment"
    message = raises(TypeError, lambda: make(env_id, **kwargs, no_such_argument=1))
    assert "no_such_argument" in message, "an unknown argument is not named"
    for horizon in (0, -5, 1.5, float("nan"), "ten"):
        refused = raises(ValueError, partial(make, env_id, **{**kwargs, "horizon": horizon}))
        assert repr(horizon) in refused, f"horizon {horizon!r} was accepted"


def check_render(env_id: str, **kwargs: object) -> None:
    """The text rendering shows the round."""
    env = make(env_id, **{**kwargs, "render_mode": "ansi", "horizon": 9})
    env.reset(seed=11)
    env.step(env.action_space.sample())
    assert re.match(r"round 1 of 9", str(env.render())), "render() does not name the round"


def check_counts(env_id: str, **kwargs: object) -> None:
    """If a world serves users by counts, they have the contexts and the mean rewards of the stream."""
    env = make(env_id, **kwargs)
    env.reset(seed=8)
    own = env.problem.support()
    if env.support is None or own is None:
        return
    known = {kind.tobytes() for kind in env.support.contexts}
    assert all(context.tobytes() in known for context in env.upcoming(20)), "the stream has contexts outside support()"
    rows = np.flatnonzero(env.draw_counts(20))
    actions = np.array([env.action_space.sample() for _ in rows])
    contexts = own.contexts[rows]
    values, chances = env.problem.outcome_law(contexts, actions)
    assert np.allclose(chances.sum(axis=1), 1) and (chances >= 0).all(), "outcome_law() has no probabilities"
    means = env.problem.expected_reward(contexts, actions)
    assert np.allclose(np.vecdot(values, chances), means, atol=1e-6), "outcome_law() has other means than the stream"


def check_people(env_id: str, **kwargs: object) -> None:
    """Every user is somebody: the same in steps, blocks and slots; where people come again, no more than there are."""
    kwargs = {**kwargs, "horizon": 3000}
    actions = sample_actions(env_id, kwargs)
    again: list[JSON] = [] if kwargs.get("people") else [{"people": 7, "returns": law} for law in LAWS]
    for given in ({}, *again):
        settings = {**kwargs, **given}
        env, twin = make(env_id, **settings), make(env_id, **settings)
        _, first = env.reset(seed=13)
        people = env.upcoming_people(len(actions) + 1)
        assert people.shape == (len(actions) + 1,) and people.dtype == np.int64, "upcoming_people() is not int64 (n,)"
        told = [first["person"], *(env.step(action)[4]["person"] for action in actions)]
        assert {type(person) for person in told} == {int} and min(told) >= 0, "info['person'] is no integer >= 0"
        assert told == people.tolist(), "upcoming_people() and info['person'] differ"
        if given or not (env.visits(3000) > 1 or kwargs.get("people")):
            most = given.get("people", len(told))
            assert len(set(told)) <= most, f"{len(set(told))} persons came, of {most}"
            assert given or len(set(told)) == most, "somebody came again, where visits() says that all are new"
        twin.go_to(json.loads(json.dumps(env.bookmark())))
        copy = pickle.loads(pickle.dumps(env))
        for other in (twin, copy):
            assert np.array_equal(env.upcoming_people(700), other.upcoming_people(700)), "a copy has other people"
        if given:
            stepped, whole = run_steps(env, 14, actions), run(twin, 14, actions)
            assert same(stepped, whole), "with people the step loop and one block differ"
        slots = make_vector(env_id, 6, **settings)
        _, info = slots.reset(seed=13)
        assert np.array_equal(info["person"], people[:6]), "slots have other people"
        assert np.array_equal(slots.step(actions[:6])[4]["person"], people[6:12]), "slots have other people"


CHECKS: tuple[Callable[..., None], ...] = (
    *(
        check_gymnasium,
        check_stable_baselines,
        check_seeds,
        check_groups,
        check_regret,
        check_rewards,
        check_units,
        check_pickle,
    ),
    *(check_bookmark, check_episode, check_contexts, check_counts, check_people, check_actions, check_spec),
    check_render,
)


def make(env_id: str, **kwargs: Any) -> BanditEnv:
    env = gym.make(env_id, **kwargs).unwrapped
    assert isinstance(env, BanditEnv), f"{env_id} is no BanditEnv"
    return env


def make_vector(env_id: str, slots: int, **kwargs: Any) -> BanditVectorEnv:
    env = gym.make_vec(env_id, num_envs=slots, **kwargs).unwrapped
    assert isinstance(env, BanditVectorEnv), f"{env_id} is no BanditVectorEnv"
    return env


def sample_actions(env_id: str, kwargs: JSON) -> Array:
    """Return valid actions for more users than two blocks of the stream hold, always the same ones."""
    env = make(env_id, **kwargs)
    env.action_space.seed(0)
    some = np.stack([env.action_space.sample() for _ in range(101)])
    return np.resize(some, (2 * block_size(env.observation_space, env.action_space) + 13, *some.shape[1:]))


def run(env: BanditEnv, seed: int, actions: Array, size: int | None = None) -> tuple[Array, Served]:
    """Serve the actions in blocks: (contexts, what happened)."""
    env.reset(seed=seed)
    contexts, parts = [], []
    size = size or len(actions)
    for start in range(0, len(actions), size):
        part = actions[start : start + size]
        contexts.append(env.upcoming(len(part)))
        parts.append(env.serve(part))
    return np.concatenate(contexts), Served.concatenate(parts)


def run_steps(env: BanditEnv, seed: int, actions: Array) -> tuple[Array, Served]:
    context, _ = env.reset(seed=seed)
    steps = [env.step(action) for action in actions]
    column = {name: np.array([info[name] for *_, info in steps]) for name in INFO}
    contexts = np.array([context, *(step[0] for step in steps)][:-1])
    return contexts, Served(reward=np.array([step[1] for step in steps]), **column)


def run_vector(env_id: str, kwargs: JSON, seed: int, actions: Array, slots: int) -> tuple[Array, Served]:
    env = make_vector(env_id, slots, **kwargs)
    shown, _ = env.reset(seed=seed)
    steps = [env.step(actions[start : start + slots]) for start in range(0, len(actions), slots)]
    parts = [Served(reward=np.asarray(step[1]), **{name: step[4][name] for name in INFO}) for step in steps]
    return np.concatenate([shown, *(step[0] for step in steps)][:-1]), Served.concatenate(parts)


def same(one: tuple[Array, Served], other: tuple[Array, Served]) -> bool:
    """Return whether two trajectories agree bit for bit."""
    facts = (np.array_equal(getattr(one[1], name), getattr(other[1], name)) for name in Served.__slots__)
    return np.array_equal(one[0], other[0]) and all(facts)


def raises(kind: type[Exception], call: Callable[[], object]) -> str:
    """Return the message of the expected exception, or "" if none was raised."""
    try:
        call()
    except kind as error:
        return str(error)
    return ""
