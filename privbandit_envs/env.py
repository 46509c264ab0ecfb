"""A stream of users behind the Gymnasium interface, one user a step."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from privbandit_envs.population import Counts, Population, Tally
from privbandit_envs.problem import Array, Problem, Served, Support
from privbandit_envs.stream import Bookmark, UserStream, World
from privbandit_envs.validate import count
from privbandit_envs.validate import seed as checked_seed


class BanditEnv(gym.Env[Array, Any]):
    """A contextual bandit as a Gymnasium environment: one user, one context, one action, one step.

    ``reset(seed=s)`` draws a new world and new users from s; ``reset()`` keeps the world and goes on to new users.
    An episode is one horizon: ``terminated`` is always False, ``truncated`` is True in the last round.

    ``info`` of a step has ``feedback`` (what an agent may learn from: the reward, or the purchased item) and the
    oracle's ``regret`` (best mean minus the mean of the chosen action), ``expected_reward`` and ``optimal_action``.

    While a policy does not change, many users can be served at once: ``upcoming(n)`` shows the next n contexts and
    ``serve(actions)`` realises them. The users are the same, bit for bit, as those of the step loop.

    Args:
        problem: the Problem class of the family, or ``"module:Class"``; its docstring is the family's manual.
        horizon: rounds an episode; default: the family's.
        instance_seed: pins the world, so that seeds change only the users.
        render_mode: ``"ansi"`` prints the current round.
        **config: keyword arguments of the problem class.

    Raises:
        TypeError: an argument the family does not have.
        ValueError: an argument out of range.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (Gymnasium declares it so)

    def __init__(
        self,
        problem: type[Problem] | str,
        *,
        horizon: int | None = None,
        instance_seed: int | None = None,
        render_mode: str | None = None,
        **config: Any,
    ) -> None:
        """Check the arguments; the world itself is drawn by the first ``reset``."""
        self._world = World(problem, horizon, instance_seed, config)
        self.horizon = self._world.horizon
        self.observation_space, self.action_space = self._world.observation_space, self._world.action_space
        self.render_mode = render_mode
        self._stream: UserStream | None = None
        self._seed = self._left = 0
        self._last = ""

    @property
    def problem(self) -> Problem:
        """The world being played: for tests and oracles, never for agents."""
        return self._opened().problem

    @property
    def public_data(self) -> tuple[Array, Array] | None:
        """Public features and labels (X_Q, y_Q), where the family has them."""
        return self._world.public_data

    @property
    def rounds_left(self) -> int:
        """How many users this episode still has."""
        return self._left

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start an episode: a new world if a seed is given (or none was drawn yet), else new users of the same one."""
        super().reset(seed=checked_seed(seed=seed))
        if self._stream is None or seed is not None:
            self._seed = int(self.np_random.integers(2**63)) if seed is None else seed
            self._stream = self._world.stream(self._seed)
        else:
            self._stream.skip(1)
        self._left = self.horizon
        self._last = ""
        return self._stream.context(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Serve the user whose context was returned last; return the next user's context."""
        stream = self._stream
        if stream is None or not self._left:
            raise ResetNeeded(self._why())
        reward, info = stream.serve_one(action)
        self._left -= 1
        if self.render_mode is not None:
            self._last = f"action {action}, reward {reward:g}, regret {info['regret']:g}"
        return stream.context(), reward, False, not self._left, info

    def upcoming(self, n: int) -> Array:
        """Return the contexts of the next n users, shape (n, ...), without serving them."""
        self._fits(count(n=n))
        return self._opened().upcoming(n)

    def serve(self, actions: Array) -> Served:
        """Serve the next ``len(actions)`` users; the same as that many steps."""
        self._fits(len(actions))
        served = self._opened().serve(actions)
        self._left -= len(actions)
        return served

    @property
    def support(self) -> Support | None:
        """The contexts that exist, if users can be served by counts."""
        population = self._opened().population
        return population.support if population else None

    def draw_counts(self, n: int) -> Counts:
        """Return how many of n new users have each of the contexts ``support``, shape (m,), without serving them."""
        self._fits(count(n=n))
        return self._population().draw(n)

    def serve_counts(self, rows: Array, actions: Array, counts: Array) -> Tally:
        """Serve ``counts[i]`` users with the context ``rows[i]`` by ``actions[i]``; the number of users costs no time.

        These users are others than those of ``upcoming`` and ``step``, of the same law.

        Raises:
            ResetNeeded: more users than the episode has left.
            TypeError: the world has no finite set of contexts.
        """
        users = int(np.sum(counts))
        self._fits(users)
        tally = self._population().serve(rows, actions, counts)
        self._left -= users
        return tally

    def bookmark(self) -> Bookmark:
        """Return the place of the next user, as JSON values."""
        return {"seed": self._seed, "left": self._left, "stream": self._opened().bookmark()}

    def go_to(self, bookmark: Bookmark) -> Array:
        """Go to the place that an environment with the same arguments returned; return the next user's context.

        What follows is what followed there, bit for bit, and the users before it are not drawn again.
        """
        self._seed, self._left = bookmark["seed"], bookmark["left"]
        self._stream = self._world.stream(self._seed)
        self._stream.go_to(bookmark["stream"])
        return self._stream.context()

    def render(self) -> str | None:
        """Return the current round as text (``render_mode="ansi"``)."""
        if self.render_mode != "ansi":
            return None
        played = self.horizon - self._left
        text = f"round {played} of {self.horizon}" + (f": {self._last}" if self._last else "")
        return f"{text}\nnext context:\n{self._opened().context()}"

    def _population(self) -> Population:
        population = self._opened().population
        if population is None:
            raise TypeError("this world has no finite set of contexts; serve its users with step or serve.")
        return population

    def _opened(self) -> UserStream:
        if self._stream is None:
            raise ResetNeeded(self._why())
        return self._stream

    def _fits(self, n: int) -> None:
        if self._stream is None or n > self._left:
            raise ResetNeeded(
                self._why() if not self._left else f"{n} users asked for; the episode has {self._left} left."
            )

    def _why(self) -> str:
        if self._stream is None:
            return "No world yet; call reset() first."
        return f"The episode of {self.horizon} rounds is over; call reset() to go on with new users."
