"""Wrappers that measure regret, make bandits of other environments, flatten contexts, and offer by scores."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from privbandit_envs.problem import Array, Floats
from privbandit_envs.spaces import Assortments, top_k
from privbandit_envs.stream import JSON
from privbandit_envs.validate import count, positive, reported, shown

Checkpoints = Sequence[int] | NDArray[np.int64]


class RegretCurve:
    """Cumulative pseudo-regret and reward at a few checkpoints; its memory does not grow with the rounds.

    Sums run from the first user to the last in double precision, so users added one by one or in groups of any size
    give the same numbers, bit for bit. After the last checkpoint the sums go on, but none is kept.

    Args:
        checkpoints: increasing numbers of users after which the sums are kept.
        on_checkpoint: called with the curve at every checkpoint.

    Attributes:
        regret, reward: the sums at the checkpoints; 0 at those that are not reached yet.
        users: how many users were added.
        passed: how many checkpoints were reached.
        counted: how many users were added by ``add_many``, as sums; ``play`` adds those whose reports were summed.
        notes: further numbers at the checkpoints, by name; NaN where none was noted.

    Raises:
        ValueError: the checkpoints are not increasing integers >= 1.

    Examples:
        >>> curve = RegretCurve([2, 4])
        >>> curve.extend(np.array([0.5, 0.25, 0.0]), np.array([1.0, 0.0, 1.0]))
        >>> curve.add(0.25, 0.0)
        >>> curve.regret.tolist(), curve.reward.tolist()
        ([0.75, 1.0], [1.0, 2.0])
    """

    def __init__(self, checkpoints: Checkpoints, on_checkpoint: Callable[["RegretCurve"], None] | None = None) -> None:
        self.checkpoints = np.asarray(checkpoints, dtype=np.int64)
        if self.checkpoints.ndim != 1 or not len(self.checkpoints) or (np.diff(self.checkpoints, prepend=0) < 1).any():
            raise ValueError(f"checkpoints must be increasing integers >= 1; got {shown(checkpoints)}.")
        self.regret, self.reward = np.zeros(len(self.checkpoints)), np.zeros(len(self.checkpoints))
        self.notes: dict[str, Floats] = {}
        self.total_regret = self.total_reward = 0.0
        self.users = self.passed = self.counted = 0
        self._aim()
        self._on_checkpoint = on_checkpoint

    def add(self, regret: float, reward: float) -> None:
        self.total_regret += regret
        self.total_reward += reward
        self.users += 1
        if self.users == self._next:
            self._mark(self.total_regret, self.total_reward)

    def extend(self, regret: Floats, reward: Floats) -> None:
        """Count n users, in order."""
        regrets = np.cumsum(np.concatenate([[self.total_regret], regret]))
        rewards = np.cumsum(np.concatenate([[self.total_reward], reward]))
        start, self.users = self.users, self.users + len(regret)
        while start < self._next <= self.users:
            self._mark(float(regrets[self._next - start]), float(rewards[self._next - start]))
        self.total_regret, self.total_reward = float(regrets[-1]), float(rewards[-1])

    def add_many(self, users: int, regret: float, reward: float) -> None:
        """Count users by their sums.

        Raises:
            ValueError: the users go beyond the next checkpoint.
        """
        if not 0 < users <= self.to_next:
            raise ValueError(f"users must be 1, ..., {self.to_next}, the next checkpoint; got {users}.")
        self.total_regret += regret
        self.total_reward += reward
        self.users += users
        self.counted += users
        if self.users == self._next:
            self._mark(self.total_regret, self.total_reward)

    def note(self, **values: float) -> None:
        """Keep further numbers at the last checkpoint that was reached."""
        for name, value in values.items():
            row = self.notes.setdefault(name, np.full(len(self.checkpoints), np.nan))
            row[self.passed - 1] = value

    @property
    def to_next(self) -> int:
        """How many users are missing until the next checkpoint; 2^62 after the last one."""
        return self._next - self.users if self._next > 0 else 2**62

    def state(self) -> dict[str, Any]:
        """Return the sums so far as JSON values."""
        sums = {"total_regret": self.total_regret, "total_reward": self.total_reward}
        kept = {name: getattr(self, name)[: self.passed].tolist() for name in ("regret", "reward")}
        notes = {
            name: [None if np.isnan(value) else value for value in row.tolist()]  # JSON has no NaN
            for name, row in self.notes.items()
        }
        places = {"users": self.users, "passed": self.passed, "counted": self.counted}
        return {**sums, **kept, **places, "notes": notes}

    def restore(self, state: JSON) -> None:
        """Go on from the state of a curve with the same checkpoints."""
        self.total_regret, self.total_reward = state["total_regret"], state["total_reward"]
        self.users, self.passed, self.counted = state["users"], state["passed"], state["counted"]
        self.regret[: self.passed], self.reward[: self.passed] = state["regret"], state["reward"]
        self.notes = {name: np.array(row, dtype=np.float64) for name, row in state["notes"].items()}
        self._aim()

    def _aim(self) -> None:
        """Find the next checkpoint; -1 after the last one."""
        self._next = int(self.checkpoints[self.passed]) if self.passed < len(self.checkpoints) else -1

    def _mark(self, regret: float, reward: float) -> None:
        self.regret[self.passed], self.reward[self.passed] = regret, reward
        self.passed += 1
        self._aim()
        if self._on_checkpoint is not None:
            self._on_checkpoint(self)


class RecordRegret(gym.Wrapper[Array, Any, Array, Any], RecordConstructorArgs):
    """Measure every step's pseudo-regret and reward in ``self.curve``.

    It also works inside the wrappers of stable-baselines3; then learning steps count. A spec keeps the checkpoints: an
    environment made from it records in a curve of its own.

    Args:
        env: an environment whose ``info`` has ``regret``.
        curve: where to record, or the checkpoints of a new RegretCurve.

    Examples:
        >>> env = RecordRegret(gym.make("privbandit/Linear-v0", n_arms=3, dim=2, theta=[0.6, 0.8]), [5, 10])
        >>> _ = env.reset(seed=0)
        >>> for _ in range(10):
        ...     _ = env.step(0)
        >>> env.curve.users, bool(0 < env.curve.regret[0] < env.curve.regret[1])
        (10, True)
    """

    def __init__(self, env: gym.Env[Array, Any], curve: RegretCurve | Checkpoints) -> None:
        self.curve = curve if isinstance(curve, RegretCurve) else RegretCurve(curve)
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, curve=self.curve.checkpoints.tolist())
        super().__init__(env)

    def step(self, action: object) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        step = self.env.step(action)
        if "regret" not in step[4]:
            reported(step[4], self.env.unwrapped, "feedback", "regret")
        self.curve.add(step[4]["regret"], step[1])  # type: ignore[arg-type]
        return step


class RecordVectorRegret(VectorWrapper):  # it takes no types before Gymnasium 1.4
    """RecordRegret for a vector environment; the users of a step count in the order of their slots."""

    def __init__(self, env: VectorEnv[Any, Any, Any], curve: RegretCurve | Checkpoints) -> None:
        super().__init__(env)
        self.curve = curve if isinstance(curve, RegretCurve) else RegretCurve(curve)
        self._resting = np.zeros(env.num_envs, dtype=bool)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._resting[:] = False
        return super().reset(**kwargs)

    def step(self, actions: Array) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        step = self.env.step(actions)
        _, rewards, terminated, truncated, info = step
        regrets, known = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=bool)
        for told in (info, info.get("final_info", {})):  # slots whose episode ended report in the second
            here = told.get("_regret", np.ones_like(known)) if "regret" in told else np.zeros_like(known)
            regrets[here], known = np.asarray(told.get("regret", regrets), dtype=float)[here], known | here
        served = ~self._resting
        if not known[served].all():
            reported({}, self.env, "feedback", "regret")
        self.curve.extend(regrets[served], rewards[served])
        if self.env.metadata.get("autoreset_mode") is AutoresetMode.NEXT_STEP:
            self._resting = terminated | truncated  # the next step resets these and serves nobody there
        return step


class FlattenContext(gym.ObservationWrapper[Array, Any, Array], RecordConstructorArgs):
    """Show contexts of shape (K, d) as vectors of length K d, as policies of stable-baselines3 expect.

    Examples:
        >>> FlattenContext(gym.make("privbandit/Linear-v0", n_arms=3, dim=2)).observation_space.shape
        (6,)
    """

    def __init__(self, env: gym.Env[Array, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self.observation_space = flat_space(env.observation_space)

    def observation(self, observation: Array) -> Array:
        return observation.reshape(-1)


class PerArm(gym.ObservationWrapper[Array, Any, Array], RecordConstructorArgs):
    """Show a context that all K arms share as features of each arm, for agents that play arms with features.

    A context x of shape (d,) becomes shape (K, K (d + 1)): the k-th block of row k is (x / radius, 1) / sqrt(2), cut to
    the unit ball, and the rest is zeros. A model that is linear in these features has a theta and an intercept for each
    arm.

    Args:
        env: contexts of shape (d,), and arms.
        radius: length of contexts whose features weigh as much as the intercept, > 0; longer ones are cut. Default:
            0.7 sqrt(d), for standardized features. It is public: choose it without a look at private contexts.

    Raises:
        TypeError: other spaces.
        ValueError: a radius out of range.

    Examples:
        >>> env = PerArm(gym.make("privbandit/Clicks-v0", n_arms=3, dim=2))
        >>> context, _ = env.reset(seed=0)
        >>> context.shape, (context != 0).sum(axis=1).tolist()
        ((3, 9), [3, 3, 3])
    """

    def __init__(self, env: gym.Env[Array, Any], radius: float | None = None) -> None:
        RecordConstructorArgs.__init__(self, radius=radius)
        super().__init__(env)
        shared, arms = env.observation_space, env.action_space
        if not (isinstance(shared, Box) and len(shared.shape) == 1 and isinstance(arms, Discrete)):
            raise TypeError(f"one context for all arms is needed; got {shared} and {arms}.")
        self.radius = 0.7 * math.sqrt(shared.shape[0]) if radius is None else positive(radius=radius)
        self.n_arms, width = int(arms.n), shared.shape[0] + 1
        dtype = shared.dtype if shared.dtype == np.float32 else np.dtype(np.float64)
        self.observation_space = Box(-1, 1, (self.n_arms, self.n_arms * width), dtype.type)

    def observation(self, observation: Array) -> Array:
        block = np.append(observation.astype(np.float64) / self.radius, 1.0) / math.sqrt(2)
        block /= max(1.0, float(np.linalg.norm(block)))
        rows = np.zeros((self.n_arms, self.n_arms, len(block)), self.observation_space.dtype)
        rows[np.arange(self.n_arms), np.arange(self.n_arms)] = block
        return rows.reshape(self.n_arms, -1)


class AsBandit(gym.Wrapper[Array, Any, Array, Any], RecordConstructorArgs):
    """Play any Gymnasium environment as a bandit: a step is a user, the observation its context.

    ``info["feedback"]`` is the reward, and ``info["regret"]`` is ``best`` less the reward: regret with the noise of
    rewards, which has the mean of regret if ``best`` is the mean reward of the best action.

    Args:
        env: whose next observation depends on no action; else the future reward of an action is not seen.
        best: the mean reward of the best action, or a function of the context that returns it.

    Examples:
        >>> env = AsBandit(gym.make("CartPole-v1"), best=1.0)
        >>> _ = env.reset(seed=0)
        >>> env.step(0)[4]
        {'feedback': 1.0, 'regret': 0.0}
    """

    def __init__(self, env: gym.Env[Array, Any], best: float | Callable[[Array], float]) -> None:
        RecordConstructorArgs.__init__(self, best=best)
        super().__init__(env)
        self.best = best

    def reset(self, **kwargs: Any) -> tuple[Array, dict[str, Any]]:
        self._context, info = self.env.reset(**kwargs)
        return self._context, info

    def step(self, action: Any) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        context, reward, terminated, truncated, info = self.env.step(action)
        best = self.best(self._context) if callable(self.best) else self.best
        self._context = context
        told = {"feedback": float(reward), "regret": float(best) - float(reward)}
        return context, reward, terminated, truncated, info | told


class ScoreAction(gym.ActionWrapper[Array, Any, Any], RecordConstructorArgs):
    """Play an assortment problem by N real scores in [-1, 1]: the K items of the largest scores are offered.

    Examples:
        >>> env = ScoreAction(gym.make("privbandit/Assortment-v0", n_items=4, capacity=2))
        >>> env.action(np.array([0.5, -1.0, 0.1, 0.3], np.float32))
        array([1, 0, 0, 1], dtype=int8)
    """

    def __init__(self, env: gym.Env[Array, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self.assortments = env.action_space
        self.action_space = score_space(env.action_space)

    def action(self, action: Array) -> Array:
        return top_scores(action, self.assortments)


def flat_space(space: gym.Space[object]) -> Box:
    """Return the Box of a Box's elements as vectors."""
    if not isinstance(space, Box):
        raise TypeError(f"only Box contexts can be flattened; got {space}.")
    return Box(space.low.reshape(-1), space.high.reshape(-1), dtype=space.dtype.type)


def score_space(space: gym.Space[object], largest: float = 1.0) -> Box:
    """Return the space of one score in [-largest, largest] for every item."""
    if not isinstance(space, Assortments):
        raise TypeError(f"only assortments can be played by scores; got {space}.")
    return Box(-largest, largest, space.shape, np.float32)


def top_scores(scores: Array, space: gym.Space[object]) -> Array:
    """Return the assortments of the K largest scores; scores of shape (N,) or (n, N)."""
    assert isinstance(space, Assortments)
    scores = np.asarray(scores)
    if scores.shape[-1:] != space.shape[-1:] or np.isnan(scores).any():
        raise ValueError(f"scores must be {space.n_items} numbers; got {shown(scores)}.")
    return top_k(scores, space.capacity)


def even_checkpoints(horizon: int, points: int = 200) -> NDArray[np.int64]:
    """Return up to ``points`` evenly spaced numbers of users, the last of them the horizon.

    Examples:
        >>> even_checkpoints(10, points=4)
        array([ 3,  5,  8, 10])
    """
    steps = np.arange(1, points + 1, dtype=np.int64)
    return np.unique(-(-steps * count(horizon=horizon) // points))
