"""The only place that draws users."""

import inspect
from collections import deque
from itertools import chain
from pkgutil import resolve_name
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import SFC64, Generator, SeedSequence, default_rng

from privbandit_envs.changing.masks import Available, Masks, Presence, availability, refuse_absent
from privbandit_envs.changing.people import Ids, Returns, order_of
from privbandit_envs.changing.timeline import TIME, Changes, Timeline
from privbandit_envs.population import Population
from privbandit_envs.problem import Array, Floats, Problem, Rounds, Served, Spliced, checked
from privbandit_envs.spaces import Units
from privbandit_envs.validate import count, did_you_mean, seed

JSON = dict[str, Any]
Bookmark = JSON
"""A place in a stream of users, as JSON values."""


class World:
    """A problem family and its arguments; ``stream(world_seed)`` draws one world of it.

    Args:
        problem: a Problem class, or ``"module:Class"``.
        horizon: rounds an episode; default: the family's own, or 10 000.
        instance_seed: pins the hidden parameters: every stream's world is then that of ``stream(instance_seed)``.
        config: keyword arguments of the problem class; ``jumps``, ``drift`` and ``shifts`` are those of ``Changes``.
        available: probability of each arm to be present for a user, or a calendar; None: there are no masks.
        people: how people come again; None: everyone is new, or whom a family's finite data show.

    Raises:
        TypeError: the class has no such argument.
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        problem: type[Problem] | str,
        horizon: int | None,
        instance_seed: int | None,
        config: JSON,
        available: Available | None = None,
        people: Returns | None = None,
    ) -> None:
        self.problem_class: type[Problem] = resolve_name(problem) if isinstance(problem, str) else problem
        self.instance_seed = seed(instance_seed=instance_seed)
        parameters = inspect.signature(self.problem_class.__init__).parameters.values()
        keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        self.horizon = count(horizon=keywords.get("horizon", 10_000) if horizon is None else horizon)
        if "horizon" in keywords:
            config = {**config, "horizon": self.horizon}
        changes = Changes.of(config)
        self.changes = changes or None
        config = {name: value for name, value in config.items() if name not in TIME}
        for name in (*config, *chain.from_iterable(changes.shifts.values())):
            if name not in keywords:
                raise TypeError(
                    f"{self.problem_class.__name__} has no argument {name!r}{did_you_mean(name, keywords)}; "
                    f"it takes {', '.join(keywords)}."
                )
        self.config = config
        blueprint = self._draw(SeedSequence(0))  # a throw-away world checks the values and has the spaces
        self.observation_space, self.action_space = blueprint.observation_space, blueprint.action_space
        self.public_data: tuple[Array, Array] | None = getattr(blueprint, "public_data", None)
        self.auxiliary_data: tuple[Array, Array, Array] | None = getattr(blueprint, "auxiliary_data", None)
        self.units: Units | None = blueprint.units
        self.people = people
        self.visits = blueprint.visits if people is None else people.visits  # depends on no hidden parameter
        if people is not None:
            check_people(people, blueprint, bool(changes.shifts))
        self.available = None if available is None else availability(available, arms_of(self.action_space))

    def stream(self, world_seed: int) -> "UserStream":
        """Draw a world from the seed and open its stream of users."""
        instance, contexts, outcomes, *by_counts, presence, people = SeedSequence(world_seed).spawn(7)
        if self.instance_seed is not None:
            instance = SeedSequence(self.instance_seed).spawn(1)[0]
        problem = self._draw(instance)
        masks = None
        if self.available is not None:
            masks = Presence(self.available, arms_of(self.action_space), Generator(SFC64(presence)))
        guests = None if self.people is None else Guests(self.people, problem, Generator(SFC64(people)))
        stream = UserStream(problem, Generator(SFC64(contexts)), Generator(SFC64(outcomes)), masks, guests)
        if problem.support() is not None and masks is None and guests is None:
            stream.population = Population(problem, *(Generator(SFC64(seed)) for seed in by_counts))
        return stream

    def _draw(self, seed: SeedSequence) -> Problem:
        if self.changes:
            return Timeline(self._made, self.config, self.changes, seed)
        return self._made(default_rng(seed), self.config)

    def _made(self, rng: Generator, config: JSON) -> Problem:
        return self.problem_class(rng, **config)  # type: ignore[call-arg]


class Guests:
    """People who come again: who the users of a stream are, and what they bring along.

    Args:
        law: how many they are, and how they come.
        problem: the world at the beginning.
        rng: draws who comes, one number a user or none; its seed decides the people.
    """

    def __init__(self, law: Returns, problem: Problem, rng: Generator) -> None:
        self.law, self.rng = law, rng
        self.own: Array | None = None
        if law.spread is not None:
            (seed,) = cast(SeedSequence, rng.bit_generator.seed_seq).spawn(1)
            self.own = problem.users(0, law.people, Generator(SFC64(seed)))

    def come(self, world: Problem, start: int, n: int, contexts: Generator) -> tuple[Array, Ids]:
        """Return the records of the users ``start``, ..., ``start + n - 1``, and who they are."""
        people = self.law.draw(start, n, self.rng)
        if world.n_rows is not None:
            rows = order_of(world.n_rows, self.rng)[people]
            return world.records_of(rows, contexts), world.people_of(rows)
        fresh = world.users(start, n, contexts)
        if self.own is None or self.law.spread is None:
            return fresh, people
        return world.again(self.own[people], fresh, self.law.spread), people


class UserStream:
    """An endless line of users of one world, drawn in blocks of a fixed size.

    The size depends on the shape of a context alone, so the users and their outcomes are the same, bit for bit,
    however they are asked for. SFC64 fills Gaussians about 10 % faster than numpy's default generator.

    Attributes:
        population: users of the same law served by counts, where the world has finitely many contexts; they are
            others than those of the stream.
    """

    population: Population | None = None

    def __init__(
        self,
        problem: Problem,
        contexts: Generator,
        outcomes: Generator,
        masks: Presence | None = None,
        guests: Guests | None = None,
    ) -> None:
        self.problem, self.masks, self.guests = problem, masks, guests
        self.block = block_size(problem.observation_space, problem.action_space)
        self._contexts, self._outcomes = contexts, outcomes
        self._generators = (contexts, outcomes, *(extra.rng for extra in (masks, guests) if extra is not None))
        self._drawn = self._row = self._begun = 0
        self._people: deque[Ids | None] = deque()
        self._blocks: deque[Rounds] = deque()
        self._starts: deque[tuple[Any, Any]] = deque()
        self._draw()
        self._now = self._blocks[0]

    def context(self) -> Array:
        context: Array = self._now.contexts[self._row].copy()
        return context

    def upcoming(self, n: int) -> Array:
        """Return the contexts of the next n users, shape (n, ...)."""
        while len(self._blocks) * self.block < self._row + n:
            self._draw()
        if self._row + n <= self.block:
            part: Array = self._now.contexts[self._row : self._row + n].copy()
            return part
        blocks = -(-(self._row + n) // self.block)
        parts = [rounds.contexts for rounds, _ in zip(self._blocks, range(blocks), strict=False)]
        parts[0] = parts[0][self._row :]
        parts[-1] = parts[-1][: self._row + n - (blocks - 1) * self.block]
        return np.concatenate(parts)

    def action_masks(self, n: int) -> Masks:
        """Return which arms are present for the next n users, shape (n, K): all, unless the world has masks."""
        if self.masks is None:
            return np.ones((n, arms_of(self.problem.action_space)), dtype=bool)
        while len(self._blocks) * self.block < self._row + n:
            self._draw()
        blocks = -(-(self._row + n) // self.block)
        masks = np.concatenate([rounds.mask for rounds, _ in zip(self._blocks, range(blocks), strict=False)])
        return np.asarray(masks[self._row : self._row + n])

    @property
    def person(self) -> int:
        """Who the next user is."""
        people = self._people[0]
        return self.position if people is None else int(people[self._row])

    def people(self, n: int) -> Ids:
        """Return who the next n users are, shape (n,)."""
        while len(self._blocks) * self.block < self._row + n:
            self._draw()
        blocks, starts = -(-(self._row + n) // self.block), range(self._begun, self._drawn, self.block)
        new = (np.arange(start, start + self.block) for start in starts)
        who = [block if ids is None else ids for ids, block, _ in zip(self._people, new, range(blocks), strict=False)]
        return np.concatenate(who)[self._row : self._row + n]

    def drawn(self) -> tuple[Array, Array | None]:
        """Return the contexts that are drawn, up to the end of the block, and every arm's reward, if drawn as well."""
        rewards = self._now.answers()
        return self._now.contexts[self._row :].copy(), None if rewards is None else rewards[self._row :].copy()

    def serve(self, actions: Array) -> Served:
        """Realise the actions of the next ``len(actions)`` users."""
        actions = self._now.check(actions)
        if self.masks is not None:
            refuse_absent(self.action_masks(len(actions)), actions)
        parts: list[Served] = []
        done = 0
        while done < len(actions) or not parts:
            n = min(len(actions) - done, self.block - self._row)
            parts.append(self._now.serve(slice(self._row, self._row + n), actions[done : done + n]))
            self.skip(n)
            done += n
        return Served.concatenate(parts)

    def serve_one(self, action: object) -> tuple[float, dict[str, Any]]:
        """Realise the next user's action: (reward, info)."""
        if self._now.mask is not None:
            refuse_absent(self._now.mask[self._row : self._row + 1], self._now.check(np.asarray([action])))
        served = self._now.serve_one(self._row, action)
        self._row += 1
        if self._row == self.block:
            self._turn()
        return served

    def skip(self, n: int) -> None:
        """Let n users go without serving them."""
        self._row += n
        while self._row >= self.block:
            self._turn()

    def _turn(self) -> None:
        self._row -= self.block
        self._begun += self.block
        self._blocks.popleft()
        self._starts.popleft()
        self._people.popleft()
        if not self._blocks:
            self._draw()
        self._now = self._blocks[0]

    def bookmark(self) -> Bookmark:
        """Return the place of the next user; ``go_to`` finds it in a stream of the same world and seed."""
        places: dict[str, tuple[Any, ...]] = {"start": self._starts[0], "now": self._states()}
        places["population"] = self.population.state() if self.population else ()
        generators = {name: [as_json(state) for state in states] for name, states in places.items()}
        return {"first": self._begun, "blocks": len(self._blocks), "row": self._row, **generators}

    def go_to(self, bookmark: Bookmark) -> None:
        """Go to a place: draw its blocks again, then set the generators to where they were."""
        self._restore(bookmark["start"])
        self._blocks.clear()
        self._starts.clear()
        self._people.clear()
        self._drawn, self._row = bookmark["first"], bookmark["row"]
        self._begun = self._drawn
        for _ in range(bookmark["blocks"]):
            self._draw()
        self._restore(bookmark["now"])
        if self.population:
            self.population.restore([from_json(state) for state in bookmark["population"]])
        self._now = self._blocks[0]

    @property
    def position(self) -> int:
        """The number of the next user, 0 for the first."""
        return self._begun + self._row

    def gaps(self, users: int) -> Floats | None:
        """Return the loss of the best fixed policy to the best of the moment, with each of the next users.

        They are passed over. None in worlds that do not change, or whose arms have no means or come and go.
        """
        if not isinstance(self.problem, Timeline) or self.masks is not None:
            return None
        policy = self.problem.fixed_policy(self.position, users)
        if policy is None:
            return None
        gaps = []
        while users:
            n = min(users, self.block - self._row)
            contexts = self._now.contexts[self._row : self._row + n]
            gaps.append(self._now.serve(slice(self._row, self._row + n), policy(contexts)).regret)
            self.skip(n)
            users -= n
        return np.concatenate(gaps)

    def _states(self) -> tuple[Any, ...]:
        return tuple(generator.bit_generator.state for generator in self._generators)

    def _restore(self, states: list[JSON]) -> None:
        for generator, state in zip(self._generators, states, strict=True):
            generator.bit_generator.state = from_json(state)

    def _draw(self) -> None:
        self._starts.append(self._states())
        parts, who, left = list[Rounds](), list[Ids](), self.block
        while left:  # one part, unless the world changes within the block
            n = min(left, self.problem.unchanged(self._drawn))
            world = self.problem.at(self._drawn)
            users, people = self._come(world, n)
            if type(world).observe is Problem.observe:
                checked(users, (n, *(world.observation_space.shape or ())), world, "contexts")
            parts.append(world.rounds(users, self._outcomes))
            if people is not None:
                who.append(people)
            self._drawn += n
            left -= n
        self._people.append(np.concatenate(who) if who else None)
        self._blocks.append(parts[0] if len(parts) == 1 else Spliced(parts))
        if self.masks is not None:
            self._blocks[-1].restrict(self.masks.draw(self._drawn - self.block, self.block))

    def _come(self, world: Problem, n: int) -> tuple[Array, Ids | None]:
        """Draw the next n users: their records, and who they are; None: all are new."""
        if self.guests is not None:
            return self.guests.come(world, self._drawn, n, self._contexts)
        if world.n_rows is None:
            return world.users(self._drawn, n, self._contexts), None
        rows = world.rows(self._drawn, n, self._contexts)
        return world.records_of(rows, self._contexts), world.people_of(rows)


def check_people(people: Returns, world: Problem, shifts: bool) -> None:
    """Raise ValueError if people cannot come again in this way in a world."""
    if world.n_rows is None:
        if people.spread is not None:
            own = world.users(0, 1, default_rng(0))
            most = 2**28 // own.nbytes  # people with contexts of their own
            if people.people > most:
                taken = f"at most {most} with person_spread: their contexts take 256 MiB"
                raise ValueError(f"people must be {taken}; got {people.people}.")
            world.again(own, own, people.spread)
        return
    if people.people > world.n_rows:
        raise ValueError(f"people must be at most {world.n_rows}, the rows of the data; got {people.people}.")
    if people.spread is not None:
        raise ValueError(f"person_spread must be None for data, since rows are fixed; got {people.spread}.")
    if shifts:
        raise ValueError(f"people cannot be combined with shifts of data, which change the rows; got {people.people}.")


def arms_of(space: gym.Space[Any]) -> int:
    """Return the number of arms, or raise ValueError: actions of another kind are not masked."""
    if not isinstance(space, Discrete):
        raise ValueError(f"masks, and the setting available, are for worlds with arms; got {space}.")
    return int(space.n)


def as_json(state: JSON) -> JSON:
    """Return the state of an SFC64 generator as JSON values."""
    return {**state, "state": {"state": state["state"]["state"].tolist()}}


def from_json(state: JSON) -> JSON:
    return {**state, "state": {"state": np.array(state["state"]["state"], dtype=np.uint64)}}


def block_size(observations: gym.Space[object], actions: gym.Space[object]) -> int:
    """Return how many users to draw at once: a power of two that fills at most half a MiB of cache.

    A user takes the room of the context, or of one number for each arm where that is more.
    """
    if observations.shape is None or observations.dtype is None:
        return 64
    size = int(np.prod(observations.shape)) * observations.dtype.itemsize
    size = max(size, 8 * int(getattr(actions, "n_items", getattr(actions, "n", 1))))
    return max(16, min(512, 1 << (max(2**19 // size, 1).bit_length() - 1)))
