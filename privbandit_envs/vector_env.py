"""A stream of users behind the Gymnasium vector interface, many users a step."""

from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from privbandit_envs.problem import Array, Problem, Served
from privbandit_envs.stream import Bookmark, UserStream, World
from privbandit_envs.validate import count
from privbandit_envs.validate import seed as checked_seed

INFO = ("feedback", "regret", "expected_reward", "optimal_action")


class BanditVectorEnv(VectorEnv[Array, Array, Array]):
    """``num_envs`` users of the *same* world in every step, as parallel actors share an MDP.

    The users of an episode are those of ``BanditEnv`` with the same seed, in the same order. The horizon counts users:
    an episode lasts ``ceil(horizon / num_envs)`` steps and all its slots are truncated together, with same-step
    autoreset. A reset without a seed passes over the users who were shown and not served, here ``num_envs`` of them.

    Args:
        problem: the Problem class of the family, or ``"module:Class"``.
        num_envs: users a step.
        horizon: users an episode; default: the family's.
        instance_seed: pins the world, so that seeds change only the users.
        render_mode: ``None``; the single environment renders.
        **config: keyword arguments of the problem class.
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
        **config: Any,
    ) -> None:
        """Check the arguments; the world itself is drawn by the first ``reset``."""
        self.num_envs = count(num_envs=num_envs)
        self._world = World(problem, horizon, instance_seed, config)
        self.horizon, self.render_mode = self._world.horizon, render_mode
        self.single_observation_space = self._world.observation_space
        self.single_action_space = self._world.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._stream: UserStream | None = None
        self._seed = self._left = 0

    @property
    def problem(self) -> Problem:
        """The world being played: for tests and oracles, never for agents."""
        if self._stream is None:
            raise ResetNeeded("No world yet; call reset() first.")
        return self._stream.problem

    @property
    def public_data(self) -> tuple[Array, Array] | None:
        """Public features and labels (X_Q, y_Q), where the family has them."""
        return self._world.public_data

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start an episode: a new world if a seed is given (or none was drawn yet), else new users of the same one."""
        if isinstance(seed, list | tuple):
            raise TypeError(f"seed must be one integer, since all slots share one world; got {seed!r}.")
        super().reset(seed=checked_seed(seed=seed))
        if self._stream is None or seed is not None:
            self._seed = int(self.np_random.integers(2**63)) if seed is None else seed
            self._stream = self._world.stream(self._seed)
        else:
            self._stream.skip(self.num_envs)
        self._left = self.horizon
        return self._stream.upcoming(self.num_envs), {}

    def bookmark(self) -> Bookmark:
        """Return the place of the next users, as JSON values."""
        if self._stream is None:
            raise ResetNeeded("No world yet; call reset() first.")
        return {"seed": self._seed, "left": self._left, "stream": self._stream.bookmark()}

    def go_to(self, bookmark: Bookmark) -> Array:
        """Go to the place that an environment with the same arguments returned; return the next users' contexts."""
        self._seed, self._left = bookmark["seed"], bookmark["left"]
        self._stream = self._world.stream(self._seed)
        self._stream.go_to(bookmark["stream"])
        return self._stream.upcoming(self.num_envs)

    def step(self, actions: Array) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Serve ``num_envs`` users; return the contexts of the next ones."""
        stream = self._stream
        if stream is None:
            raise ResetNeeded("No world yet; call reset() first.")
        if len(actions) != self.num_envs:
            raise ValueError(f"actions must have one row for each of {self.num_envs} users; got {len(actions)}.")
        served = stream.serve(actions)
        self._left -= self.num_envs
        over = self._left <= 0
        info = batched(served, self.num_envs)
        contexts = stream.upcoming(self.num_envs)
        if over:
            everyone = np.ones(self.num_envs, dtype=bool)
            info = {"final_obs": contexts, "_final_obs": everyone, "final_info": info, "_final_info": everyone.copy()}
            contexts, _ = self.reset()
        truncated = np.full(self.num_envs, over)
        return contexts, served.reward, np.zeros(self.num_envs, dtype=bool), truncated, info


def batched(served: Served, n: int) -> dict[str, Any]:
    """Return the info of a vector step: an array and a mask for every key."""
    info: dict[str, Any] = {}
    for name in INFO:
        info[name] = getattr(served, name)
        info[f"_{name}"] = np.ones(n, dtype=bool)
    return info
