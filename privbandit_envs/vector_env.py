"""A stream of users behind the Gymnasium vector interface, many users a step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from privbandit_envs.changing.masks import Available
from privbandit_envs.changing.people import Returns
from privbandit_envs.env import Place
from privbandit_envs.problem import Array, Problem
from privbandit_envs.stream import UserStream
from privbandit_envs.validate import count, one_of, shown
from privbandit_envs.validate import seed as checked_seed

INFO = ("feedback", "regret", "expected_reward", "optimal_action")


class BanditVectorEnv(Place, VectorEnv[Array, Array, Array]):
    """``num_envs`` users of the *same* world in every step, as parallel actors share an MDP.

    The users of an episode are those of ``BanditEnv`` with the same seed, in the same order. The horizon counts users:
    an episode lasts ``ceil(horizon / num_envs)`` steps and all its slots are truncated together. A reset without a seed
    passes over the ``num_envs`` users who were shown and not served. Since all slots share one world, they are reset
    together: ``options={"reset_mask": mask}`` takes a mask of True alone.

    Args:
        problem: the Problem class of the family, or ``"module:Class"``.
        num_envs: users a step.
        horizon: users an episode; default: the family's.
        instance_seed: pins the world, so that seeds change only the users.
        available: share of arms that are present, as in ``BanditEnv``; ``info["action_mask"]`` has shape (n, K).
        people: how many people there are, as in ``BanditEnv``; ``info["person"]`` has shape (n,).
        returns: how people come again, as in ``BanditEnv``.
        person_spread: how much the contexts of a person differ, as in ``BanditEnv``.
        render_mode: ``None``; only the single environment renders.
        max_episode_steps: steps an episode at most, where that is sooner than the horizon.
        autoreset_mode: Gymnasium's ``AutoresetMode``, or its value. ``"SameStep"``: the step that ends an episode shows
            the next one's first users. ``"NextStep"``: the step after it does, serves nobody and gives rewards of 0.
            ``"Disabled"``: ``reset`` must be called.
        **config: keyword arguments of the problem class.

    Examples:
        >>> import gymnasium as gym
        >>> envs = gym.make_vec("privbandit/Linear-v0", num_envs=4, n_arms=3, dim=2)
        >>> contexts, _ = envs.reset(seed=1)
        >>> contexts.shape
        (4, 3, 2)
        >>> contexts, rewards, terminated, truncated, info = envs.step(np.array([0, 1, 2, 0]))
        >>> rewards.shape, info["regret"].shape
        ((4,), (4,))
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        problem: type[Problem] | str,
        *,
        num_envs: int = 1,
        horizon: int | None = None,
        instance_seed: int | None = None,
        available: Available | None = None,
        people: int | None = None,
        returns: str = "uniform",
        person_spread: float | None = None,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        **config: object,
    ) -> None:
        self.num_envs = self._slots = count(num_envs=num_envs)
        self.render_mode = render_mode
        self.autoreset_mode = mode_of(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        returning = Returns.of(people, returns, person_spread)
        world = self._plan(problem, horizon, instance_seed, available, returning, config)
        if max_episode_steps is not None:
            self._longest = self.num_envs * count(max_episode_steps=max_episode_steps)
        self.single_observation_space, self.single_action_space = world.observation_space, world.action_space
        self.observation_space = batch_space(world.observation_space, num_envs)
        self.action_space = batch_space(world.action_space, num_envs)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode: in a new world if a seed is given or none was drawn yet, else with new users of the old."""
        if isinstance(seed, list | tuple):
            raise TypeError(f"seed must be one integer, since all slots share one world; got {shown(seed)}.")
        seed = checked_seed(seed=seed)
        self._check_mask((options or {}).get("reset_mask"))
        super().reset(seed=seed)
        self._begin(int(self.np_random.integers(2**63)) if self._stream is None and seed is None else seed)
        return self._shown(self._opened()), self._told()

    def step(self, actions: Array) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Serve ``num_envs`` users; return the contexts of the next ones."""
        stream = self._opened()
        if len(actions) != self.num_envs:
            raise ValueError(f"actions must have one row for each of {self.num_envs} users; got {len(actions)}.")
        if self._left <= 0:
            return self._after_the_end()
        served = stream.serve(actions)
        self._left -= self.num_envs
        over = self._left <= 0
        info: dict[str, Any] = {name: getattr(served, name) for name in INFO}
        info |= {f"_{name}": np.ones(self.num_envs, dtype=bool) for name in INFO}  # which slots have it: all
        info |= self._told()
        contexts = self._shown(stream)
        if over and self.autoreset_mode is AutoresetMode.SAME_STEP:
            everyone = np.ones(self.num_envs, dtype=bool)
            info = {"final_obs": contexts, "_final_obs": everyone, "final_info": info, "_final_info": everyone.copy()}
            contexts, told = self.reset()
            info |= told
        truncated = np.full(self.num_envs, over)
        return contexts, served.reward, np.zeros(self.num_envs, dtype=bool), truncated, info

    def _after_the_end(self) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Start the next episode and serve nobody, or raise an error that asks for ``reset``."""
        if self.autoreset_mode is AutoresetMode.DISABLED:
            raise ResetNeeded("The episode is over; call reset() to go on with new users.")
        contexts, info = self.reset()
        n = self.num_envs
        return contexts, np.zeros(n), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), info

    def _check_mask(self, mask: object) -> None:
        """Raise ValueError for a mask that would leave some slots where they are."""
        if mask is None:
            return
        given = np.asarray(mask)
        if given.shape != (self.num_envs,) or given.dtype != np.bool_ or not given.all():
            wanted = f"True for all {self.num_envs} slots, which share one world"
            raise ValueError(f"options['reset_mask'] must be {wanted}, or be left out; got {shown(mask)}.")

    def _told(self) -> dict[str, Any]:
        everyone = np.ones(self.num_envs, dtype=bool)
        told: dict[str, Any] = {"person": self.upcoming_people(self.num_envs), "_person": everyone}
        if self.masked:
            told["action_mask"] = self.action_masks(self.num_envs).astype(np.int8)
            told["_action_mask"] = everyone.copy()
        return told

    def _shown(self, stream: UserStream) -> Array:
        return stream.upcoming(self.num_envs)


def mode_of(mode: AutoresetMode | str) -> AutoresetMode:
    """Return an autoreset mode by its value, so that a spec of JSON values can name it."""
    if isinstance(mode, AutoresetMode):
        return mode
    return AutoresetMode(one_of([known.value for known in AutoresetMode], autoreset_mode=mode))
