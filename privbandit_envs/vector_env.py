"""A stream of users behind the Gymnasium vector interface, many users a step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from privbandit_envs.env import Place
from privbandit_envs.problem import Array, Problem
from privbandit_envs.stream import UserStream
from privbandit_envs.validate import count, shown
from privbandit_envs.validate import seed as checked_seed

INFO = ("feedback", "regret", "expected_reward", "optimal_action")


class BanditVectorEnv(Place, VectorEnv[Array, Array, Array]):
    """``num_envs`` users of the *same* world in every step, as parallel actors share an MDP.

    The users of an episode are those of ``BanditEnv`` with the same seed, in the same order. The horizon counts users:
    an episode lasts ``ceil(horizon / num_envs)`` steps and all its slots are truncated together, with same-step
    autoreset. A reset without a seed passes over the ``num_envs`` users who were shown and not served.

    Args:
        problem: the Problem class of the family, or ``"module:Class"``.
        num_envs: users a step.
        horizon: users an episode; default: the family's.
        instance_seed: pins the world, so that seeds change only the users.
        render_mode: ``None``; only the single environment renders.
        **config: keyword arguments of the problem class.

    Example:
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
        render_mode: str | None = None,
        **config: object,
    ) -> None:
        self.num_envs = self._slots = count(num_envs=num_envs)
        self.render_mode = render_mode
        world = self._plan(problem, horizon, instance_seed, config)
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
        super().reset(seed=seed)
        self._begin(int(self.np_random.integers(2**63)) if self._stream is None and seed is None else seed)
        return self._shown(self._opened()), {}

    def step(self, actions: Array) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Serve ``num_envs`` users; return the contexts of the next ones."""
        stream = self._opened()
        if len(actions) != self.num_envs:
            raise ValueError(f"actions must have one row for each of {self.num_envs} users; got {len(actions)}.")
        served = stream.serve(actions)
        self._left -= self.num_envs
        over = self._left <= 0
        info: dict[str, Any] = {name: getattr(served, name) for name in INFO}
        info |= {f"_{name}": np.ones(self.num_envs, dtype=bool) for name in INFO}  # which slots have it: all
        contexts = self._shown(stream)
        if over:
            everyone = np.ones(self.num_envs, dtype=bool)
            info = {"final_obs": contexts, "_final_obs": everyone, "final_info": info, "_final_info": everyone.copy()}
            contexts, _ = self.reset()
        truncated = np.full(self.num_envs, over)
        return contexts, served.reward, np.zeros(self.num_envs, dtype=bool), truncated, info

    def _shown(self, stream: UserStream) -> Array:
        return stream.upcoming(self.num_envs)
