"""A stream of users behind the Gymnasium interface, one user a step."""

from collections.abc import Mapping
from copy import copy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded

from privbandit_envs.changing.masks import Available
from privbandit_envs.changing.people import Ids, Returns
from privbandit_envs.population import Counts, Population, Tally
from privbandit_envs.problem import Array, Floats, Problem, Served, Support
from privbandit_envs.stream import JSON, Bookmark, UserStream, World
from privbandit_envs.validate import count
from privbandit_envs.validate import seed as checked_seed


class Place:
    """A place in a stream of users: the base of the single and the vector environment."""

    _slots = 1
    _stream: UserStream | None = None
    _seed = _left = _first = 0
    _longest: int | None = None
    """Users an episode at most, where that is fewer than the horizon."""

    def _plan(
        self,
        problem: type[Problem] | str,
        horizon: int | None,
        pin: int | None,
        available: Available | None,
        people: Returns | None,
        config: JSON,
    ) -> World:
        """Check the arguments; the world itself is drawn by the first ``reset``."""
        self._world = World(problem, horizon, pin, config, available, people)
        self.horizon, self.units = self._world.horizon, self._world.units
        return self._world

    def _begin(self, seed: int | None) -> None:
        """Start an episode: draw a world from a seed, or pass over the users who were shown and not served."""
        if seed is not None:
            self._seed, self._stream = seed, self._world.stream(seed)
        else:
            self._opened().skip(self._slots)
        self._left = self.horizon if self._longest is None else min(self.horizon, self._longest)
        self._first = self._opened().position

    @property
    def problem(self) -> Problem:
        """The world being played: for tests and oracles, never for agents."""
        return self._opened().problem

    def visits(self, users: int | None = None) -> int:
        """Return how often one person comes at most among this number of users, but for a probability of 1 %.

        It is 1 where every user is somebody new. Where people are drawn again, a person who comes k times is k users:
        docs/privacy/definitions.md states the promise then. The default is an episode's users.
        """
        return self._world.visits(self.horizon if users is None else count(users=users))

    @property
    def masked(self) -> bool:
        """Whether arms come and go."""
        return self._world.available is not None

    @property
    def public_data(self) -> tuple[Array, Array] | None:
        """Public features and labels (X_Q, y_Q), where the family has them."""
        return self._world.public_data

    @property
    def auxiliary_data(self) -> tuple[Array, Array, Array] | None:
        """Records of users who came before (contexts, arms, rewards), where the family has them."""
        return self._world.auxiliary_data

    def bookmark(self) -> Bookmark:
        """Return the place of the next user, as JSON values."""
        return {"seed": self._seed, "left": self._left, "begun": self._first, "stream": self._opened().bookmark()}

    def go_to(self, bookmark: Bookmark) -> Array:
        """Go to the place that an environment with the same arguments returned; return the next context and ``info``.

        The following rounds are those that followed there, bit for bit; the users before them are not drawn again.
        """
        self._seed, self._left, self._first = bookmark["seed"], bookmark["left"], bookmark["begun"]
        self._stream = self._world.stream(self._seed)
        self._stream.go_to(bookmark["stream"])
        return self._shown(self._stream)

    def static_gaps(self, users: int) -> Floats | None:
        """Return the loss of the best fixed policy to the best of the moment, with each of an episode's first users.

        ``info["regret"]`` is against the best policy of the moment: dynamic regret. Less the sum of these gaps, which
        no agent changes, it is regret against the best fixed policy: static regret. None where the two are the same,
        since the world does not change, and where arms have no means.
        """
        if not self._world.changes:
            return None
        stream = self._world.stream(self._seed)
        stream.skip(self._first)
        return stream.gaps(count(users=users))

    def action_masks(self, n: int | None = None) -> Array:
        """Return which arms the next user may get, shape (K,), or the next n users, shape (n, K); True is present.

        Masks are public. MaskablePPO of sb3-contrib asks for them by this name.
        """
        masks = self._opened().action_masks(1 if n is None else count(n=n))
        return masks[0] if n is None else masks

    def upcoming_people(self, n: int) -> Ids:
        """Return who the next n users are, as numbers >= 0, int64 of shape (n,); they need not be left in the episode.

        Where people come again a person has one number. Everyone else is new: the numbers run on.
        """
        return self._opened().people(count(n=n))

    def _told(self) -> dict[str, Any]:
        """Return the ``info`` of the next user: who it is, and the mask, where arms come and go."""
        told: dict[str, Any] = {"person": self._opened().person}
        return told | {"action_mask": self.action_masks().astype(np.int8)} if self.masked else told

    def _shown(self, stream: UserStream) -> Array:
        return stream.context()

    def _opened(self) -> UserStream:
        if self._stream is None:
            raise ResetNeeded("No world yet; call reset() first.")
        return self._stream


class BanditEnv(Place, gym.Env[Array, Any]):
    """A contextual bandit as a Gymnasium environment: one user, one context, one action, one step.

    ``reset(seed=s)`` draws a new world and new users from s; ``reset()`` keeps the world and goes on to new users.
    An episode is one horizon: ``terminated`` is always False, ``truncated`` is True in the last round.

    ``info`` of a step has ``feedback`` (for an agent to learn from: the reward, or the purchased item) and the
    oracle's ``regret`` (best mean minus the mean of the chosen action), ``expected_reward`` and ``optimal_action``.
    ``info["person"]``, also of ``reset``, is who the user of the returned context is: a number >= 0 that comes again
    when the person does. ``upcoming_people(n)`` gives those of the next n users.

    While a policy does not change, many users can be served at once: ``upcoming(n)`` shows the next n contexts and
    ``serve(actions)`` realises them. The users are the same, bit for bit, as those of the step loop.

    Args:
        problem: the Problem class of the family, or ``"module:Class"``; its docstring is the family's manual.
        horizon: rounds an episode; default: the family's.
        instance_seed: pins the world, so that seeds change only the users.
        available: share of arms that are present: each one is for a user with this probability, independently, and one
            at random in any case. ``info["action_mask"]`` (0 or 1 for each arm) marks the next user's arms,
            regret is relative to the best of them, and an arm that is absent is refused. Or a public calendar, from
            numbers of users to the arms that are present from there on: ``{0: [0, 1], 500: [1, 2]}``. None: all are,
            without masks.
        people: how many people there are; each user is one of them, who comes again. A context is new at every visit
            unless ``person_spread`` is given. Data sets, whose rows are people in any case, show this number of rows,
            drawn at random. Nobody is served by counts. None: everyone is new, or whom the data show.
        returns: how people come again. ``"uniform"``: a user is one of them at random; ``"zipf"``: person i = 1, 2, ...
            with a chance in proportion to 1/i; ``"in-turn"``: all in the same order, again and again.
        person_spread: how much the contexts of a person differ from visit to visit, >= 0: a context is
            (own + person_spread new) / sqrt(1 + person_spread^2), with a context of the person's own and a new one, cut
            to the space (on the sphere, scaled to norm 1). 0: it is the person's own. None: all contexts are new.
        render_mode: ``"ansi"`` lets ``render`` return the current round as text.
        **config: keyword arguments of the problem class, and those that make its world change: ``jumps``, numbers of
            users from whom on the hidden parameter is another one; ``drift``, the angle in radians by which it turns
            with every user; ``shifts``, from numbers of users to arguments that are others from there on.

    Raises:
        TypeError: an argument the family does not have.
        ValueError: an argument out of range.

    Examples:
        >>> env = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=100).unwrapped
        >>> context, _ = env.reset(seed=1)
        >>> context.shape
        (3, 2)
        >>> context, reward, terminated, truncated, info = env.step(0)
        >>> reward in (-1.0, 1.0), sorted(info)
        (True, ['expected_reward', 'feedback', 'optimal_action', 'person', 'regret'])
        >>> env.upcoming(5).shape, env.serve([0, 1, 2, 0, 1]).reward.shape, env.rounds_left
        ((5, 3, 2), (5,), 94)
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (Gymnasium declares it so)
    _spec: EnvSpec | None = None

    def __init__(
        self,
        problem: type[Problem] | str,
        *,
        horizon: int | None = None,
        instance_seed: int | None = None,
        available: Available | None = None,
        people: int | None = None,
        returns: str = "uniform",
        person_spread: float | None = None,
        render_mode: str | None = None,
        **config: object,
    ) -> None:
        returning = Returns.of(people, returns, person_spread)
        world = self._plan(problem, horizon, instance_seed, available, returning, config)
        self.observation_space, self.action_space = world.observation_space, world.action_space
        self.render_mode = render_mode
        self._last = ""

    @property
    def rounds_left(self) -> int:
        return self._left

    @property
    def spec(self) -> EnvSpec | None:
        """What made the environment; its ``max_episode_steps`` is the horizon, for tools that ask for its length."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None and spec.max_episode_steps is None:
            spec = copy(spec)
            spec.max_episode_steps = self.horizon
        self._spec = spec

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode: in a new world if a seed is given or none was drawn yet, else with new users of the old."""
        seed = checked_seed(seed=seed)
        super().reset(seed=seed)
        self._begin(int(self.np_random.integers(2**63)) if self._stream is None and seed is None else seed)
        self._last = ""
        return self._shown(self._opened()), self._told()

    def step(self, action: object) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Serve the user of the context returned last; return the next user's context."""
        stream = self._stream
        if stream is None or not self._left:
            raise self._over()
        reward, info = stream.serve_one(action)
        self._left -= 1
        if self.render_mode is not None:
            self._last = f"action {action}, reward {reward:g}, regret {info['regret']:g}"
        if stream.masks is None:
            info["person"] = stream.person
        else:
            info |= self._told()
        return stream.context(), reward, False, not self._left, info

    def upcoming(self, n: int) -> Array:
        """Return the contexts of the next n users, shape (n, ...), without serving them.

        Raises:
            ResetNeeded: the episode has fewer users left.
        """
        return self._fits(count(n=n)).upcoming(n)

    def drawn(self) -> tuple[Array, Array | None]:
        """Return the draws of the next users, a block of them at most, without serving them.

        Returns:
            Contexts of shape (n, ...), and the reward that every arm would give, shape (n, K), where rewards are drawn
            in advance, else None. An agent may learn the reward of the arm that it chose, and no other.

        Raises:
            ResetNeeded: the episode is over.
        """
        contexts, rewards = self._fits(1).drawn()
        return contexts[: self._left], None if rewards is None else rewards[: self._left]

    def serve(self, actions: Array) -> Served:
        """Serve the next ``len(actions)`` users; the result is that of ``len(actions)`` steps.

        Raises:
            ResetNeeded: the episode has fewer users left.
        """
        served = self._fits(len(actions)).serve(actions)
        self._left -= len(actions)
        return served

    @property
    def support(self) -> Support | None:
        """The contexts that exist, if users can be served by counts."""
        population = self._opened().population
        return population.support if population else None

    def draw_counts(self, n: int) -> Counts:
        """Return how many of n new users have each of the contexts in ``support``, shape (m,), without serving them."""
        return self._population(count(n=n)).draw(n)

    def serve_counts(self, rows: Array, actions: Array, counts: Array) -> Tally:
        """Serve ``counts[i]`` users with the context ``rows[i]`` by ``actions[i]``; the number of users costs no time.

        These users follow the law of those of ``upcoming`` and ``step`` but are others.

        Raises:
            ResetNeeded: the episode has fewer users left.
            TypeError: the world has no finite set of contexts.
        """
        users = int(np.sum(counts))
        tally = self._population(users).serve(rows, actions, counts)
        self._left -= users
        return tally

    def render(self) -> str | None:
        """Return the current round as text (``render_mode="ansi"``)."""
        if self.render_mode != "ansi":
            return None
        played = self.horizon - self._left
        text = f"round {played} of {self.horizon}" + (f": {self._last}" if self._last else "")
        return f"{text}\nnext context:\n{self._opened().context()}"

    def _population(self, n: int) -> Population:
        population = self._fits(n).population
        if population is None:
            if self._world.people:
                raise TypeError("people are not served by counts; serve them with step or serve.")
            raise TypeError("this world has no finite set of contexts; serve its users with step or serve.")
        return population

    def _fits(self, n: int) -> UserStream:
        if self._stream is None or n > self._left:
            raise self._over(n)
        return self._stream

    def _over(self, n: int = 1) -> ResetNeeded:
        if self._stream is None:
            return ResetNeeded("No world yet; call reset() first.")
        if self._left:
            return ResetNeeded(f"{n} users asked for; the episode has {self._left} left.")
        return ResetNeeded(f"The episode of {self.horizon} rounds is over; call reset() to go on with new users.")
