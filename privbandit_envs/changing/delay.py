"""The regime of feedback: late, in batches, in another order, or never."""

import heapq
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import ArrayLike

from privbandit_envs.changing.mixing import AnyEnv, wrappers
from privbandit_envs.env import BanditEnv
from privbandit_envs.problem import Array, Served
from privbandit_envs.validate import above, at_least, count, did_you_mean, fraction, one_of, positive, reported, shown

BATCHES = ("batch", "growing", "ends")
"""Laws by which the reports of a batch of users come together, with the last of them."""
LAWS = ("fixed", "geometric", "heavy", *BATCHES)


@dataclass(frozen=True)
class Delay:
    """When feedback comes: by how many users each report is late, or where the batches end that come together.

    Attributes:
        mean: of the delay, >= 0; of batches the size, of growing ones that of the first.
        law: ``"fixed"``; ``"geometric"``, from 0 on; ``"heavy"``: with an infinite variance (Lomax of index 2, whole
            users); ``"batch"``: ``mean`` users' reports come together, with the last of them; ``"growing"``: so they
            do, and a batch ends when the number of users has grown by a factor; ``"ends"``: batches have given ends.
        missing: probability that a report never comes.
        growth: the factor of growing batches, > 1.
        ends: after how many users each batch ends, increasing; from the last one on batches are as long as the last.

    Raises:
        ValueError: a value out of range.

    Examples:
        >>> [Delay(4, "batch")(np.random.default_rng(0), user) for user in range(5)]
        [3.0, 2.0, 1.0, 0.0, 3.0]
        >>> [Delay(2, "growing").end(user) for user in range(9)]
        [2, 2, 4, 4, 8, 8, 8, 8, 16]
    """

    mean: float = 0.0
    law: str = "geometric"
    missing: float = 0.0
    growth: float = 2.0
    ends: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        at_least(0, mean=self.mean), one_of(LAWS, law=self.law), fraction(missing=self.missing)
        above(1, growth=self.growth)
        object.__setattr__(self, "ends", tuple(count(ends=int(end)) for end in self.ends))
        if (self.law == "ends") != bool(self.ends) or (np.diff(self.ends, prepend=0) < 1).any():
            needed = "ends must be increasing numbers of users, for the law 'ends'"
            raise ValueError(f"{needed}; got ends={shown(self.ends)} with law={self.law!r}.")

    @classmethod
    def of(cls, given: object) -> "Delay":
        """Return the ``Delay`` of a number, the lag of every report, or of a table such as {mean: 20, missing: 0.1}.

        Examples:
            >>> Delay.of({"mean": 20, "mising": 0.1})
            Traceback (most recent call last):
            ValueError: a delay has no 'mising' (did you mean 'missing'?); it has mean, law, missing, growth, ends.
        """
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            if isinstance(given, bool) or not isinstance(given, int | float):
                raise ValueError(f"a delay must be a number of users, or a table with a mean; got {shown(given)}.")
            return cls(at_least(0, delay=given), "fixed")
        known = [part.name for part in fields(cls)]
        for key in given:
            if key not in known:
                near = did_you_mean(str(key), known)
                raise ValueError(f"a delay has no {shown(key)}{near}; it has {', '.join(known)}.")
        return cls(**given)

    @classmethod
    def by_time(cls, times: ArrayLike, every: Any, missing: float = 0.0) -> "Delay":
        """Return batches of the users of each period: a column of times, in order, with the unit of ``every``.

        Examples:
            >>> Delay.by_time(np.array(["2026-01-05T09", "2026-01-05T17", "2026-01-06T08"], "M8[h]"),
            ...     np.timedelta64(1, "D")).ends
            (2, 3)
        """
        column = np.asarray(times)
        if column.dtype.kind == "M":
            unit = np.timedelta64(1, "ns")
            column, every = column.astype("M8[ns]").astype(np.int64), np.timedelta64(every) // unit
        if column.ndim != 1 or not len(column) or (np.diff(column) < 0).any():
            raise ValueError(f"times must be a column of times in order; got {shown(times)}.")
        period = np.floor_divide(column, positive(every=every))
        ends = [*(np.flatnonzero(np.diff(period)) + 1).tolist(), len(column)]
        return cls(law="ends", missing=missing, ends=tuple(ends))

    @property
    def batches(self) -> bool:
        """Whether reports come in batches, whose ends are known."""
        return self.law in BATCHES

    @property
    def in_order(self) -> bool:
        """Whether all reports come, in the order of their users: whose they are is known by their number."""
        return not self.missing and (self.batches or self.law == "fixed")

    def end(self, user: int) -> int:
        """Return after how many users the batch of a user ends, the first of whom is number 0."""
        if self.law == "batch":
            return user - user % self._size + self._size
        ends = self.ends or grown(self._size, self.growth)
        if user < ends[-1]:
            return ends[bisect_right(ends, user)]
        last = ends[-1] - (ends[-2] if len(ends) > 1 else 0)
        return user + last - (user - ends[-1]) % last

    def release(self, reports: int) -> int:
        """Return the number of reports, ``reports`` or more, that have come when the first such batch ends.

        Where reports may be lost as many have come but for one batch in a thousand.

        >>> Delay(500, "batch").release(501), Delay(500, "batch", missing=0.1).release(501)
        (1000, 870)
        """
        lost, kept = self.missing, 1 - self.missing
        if not kept:
            return reports
        # the mean of those that come is n kept, and 3.1 deviations less is n kept - 3.1 sqrt(n kept lost)
        root = 1.55 * math.sqrt(lost) + math.sqrt(1.55**2 * lost + max(reports, 1) + bool(lost))
        come = kept * self.end(math.ceil(root**2 / kept - 1e-9) - 1)
        return math.floor(come - 3.1 * math.sqrt(come * lost))

    def arrived(self, users: Array, served: int) -> Array:
        """Return the probability that each user's report has come when ``served`` users were served, if it comes.

        >>> Delay(4, "batch").arrived(np.arange(6), 5).tolist()
        [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
        """
        late = served - 1 - users  # so late at most
        if self.law == "geometric":
            chances = 1 - (1 - 1 / (1 + self.mean)) ** (np.maximum(late, -1) + 1.0)
        elif self.law == "heavy" and self.mean:
            chances = 1 - (1 + (np.maximum(late, -1) + 1) / self.mean) ** -2.0
        elif self.batches:
            chances = np.array([self.end(user) <= served for user in users.tolist()], np.float64)
        else:
            chances = (late >= math.floor(self.mean) * (self.law == "fixed")).astype(np.float64)
        return np.asarray(chances)

    @property
    def _size(self) -> int:
        return max(1, math.floor(self.mean))

    def __call__(self, rng: Generator, user: int) -> float:
        """Draw the delay of a user's report, infinity if it never comes; the record is not looked at."""
        lost = rng.random() < self.missing
        if self.law == "geometric":
            late = float(rng.geometric(1 / (1 + self.mean)) - 1)
        elif self.law == "heavy":
            late = float(math.floor(self.mean * rng.pareto(2)))
        elif self.batches:
            late = float(self.end(user) - 1 - user)
        else:
            late = float(math.floor(self.mean))
        return math.inf if lost else late


@lru_cache(maxsize=64)
def grown(first: int, growth: float) -> tuple[int, ...]:
    """Return the ends of batches that grow, as far as anybody counts.

    >>> grown(1, 3.0)[:4]
    (1, 3, 9, 27)
    """
    ends = [first]
    while ends[-1] < 2**40:
        ends.append(max(ends[-1] + 1, math.ceil(ends[-1] * growth)))
    return tuple(ends)


class DelayFeedback(gym.Wrapper[Array, Any, Array, Any], RecordConstructorArgs):
    """Hand feedback on later: ``info`` has ``reports`` in place of ``feedback``.

    ``info["reports"]`` are the records (contexts, actions, feedback) that arrive after this user, in order of arrival,
    one row each; None if there are none. ``info["report_people"]`` are the numbers of these users, and where arms come
    and go ``info["report_masks"]`` the masks by which they were served. ``play`` and ``log`` let agents learn from
    them. ``regret`` and the reward of
    the step are the user's own, at once: they are for the recorder. Reports that are on their way arrive in the next
    episode too, unless it begins with a seed.

    ``gym.make(id, feedback=law)`` puts it around an environment of ours. The law is public, and ``make`` tells it to
    agents with a setting ``feedback``.

    Delays are drawn from a generator of their own, without a look at the record. So nobody learns from the time of a
    report; docs/privacy/late-reports.md states each guarantee then, and the failures otherwise.

    Args:
        env: an environment whose ``info`` has ``feedback``.
        law: a ``Delay``; a number, by which every report is late; a table of a ``Delay``'s arguments; or a function
            of a generator and the number of the user, which returns how many users later the report comes.

    Raises:
        ValueError: a delay that is negative or no number, or a table with something else in it.

    Examples:
        >>> env = DelayFeedback(gym.make("privbandit/Linear-v0", n_arms=2, dim=2), 2)
        >>> _ = env.reset(seed=0)
        >>> [None if (came := env.step(0)[4]["reports"]) is None else came[2].tolist() for _ in range(3)]
        [None, None, [-1.0]]
    """

    per_user = True  # a report is handed on as it is; when it comes tells nothing of it

    def __init__(
        self,
        env: gym.Env[Array, Any],
        law: Delay | float | Mapping[str, Any] | Callable[[Generator, int], float],
    ) -> None:
        RecordConstructorArgs.__init__(self, law=law)
        super().__init__(env)
        self.law: Callable[[Generator, int], float] = law if callable(law) else Delay.of(law)
        self._forget(None)

    @property
    def outstanding(self) -> int:
        """How many reports are on their way."""
        return len(self._coming)

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]  # as Gymnasium's own wrappers have it
        """What made the environment: ``gym.make`` with ``feedback`` needs no second wrapper."""
        inner = self.env.spec
        return inner if inner is not None and "feedback" in inner.kwargs else super().spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        if seed is not None:
            self._forget(seed)
        self._context, info = self.env.reset(seed=seed, options=options)
        self._about = about(info)
        return self._context, info

    def step(self, action: Any) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        context, reward, terminated, truncated, info = self.env.step(action)
        if "feedback" not in info:
            reported(info, self.env.unwrapped, "feedback")
        told = {key: value for key, value in info.items() if key != "feedback"}
        self._send(self._context, np.asarray(action), np.asarray(info["feedback"]), *self._about.values())
        told |= self.arrived()
        self._context, self._about = context, about(info)
        return context, reward, terminated, truncated, told

    # users who are served together, in an environment of ours

    def until(self, reports: int, most: int) -> int:
        """Return after how many further users so many reports will have come; ``most`` if fewer come by then."""
        if reports == 1 and self._coming and self._coming[0][0] <= self._user:
            return 1
        due, came = [float(time) for time, *_ in self._coming], 0
        heapq.heapify(due)
        for users in range(1, most + 1):
            last = self._user + users - 1
            if len(self._drawn) < users:
                self._drawn.append(self._late(last))
            heapq.heappush(due, last + self._drawn[users - 1])
            while due and due[0] <= last:
                heapq.heappop(due)
                came += 1
            if came >= reports:
                return users
        return most

    def serve(self, actions: Array) -> Served:
        """Serve the next users as ``BanditEnv.serve`` does; ``arrived`` then has the reports that have come."""
        world: BanditEnv = self.env  # type: ignore[assignment]
        contexts, about = self._shown(len(actions))
        served = world.serve(actions)
        for record in zip(contexts, np.asarray(actions), served.feedback, *about.values(), strict=True):
            self._send(*record)
        if world.rounds_left:
            (self._context,), about = self._shown(1)
            self._about = {name: rows[0] for name, rows in about.items()}
        return served

    def _shown(self, users: int) -> tuple[Array, dict[str, Array]]:
        """Return the contexts of the next users, and what is known about them."""
        world: BanditEnv = self.env  # type: ignore[assignment]
        masks = world.action_masks(users).astype(np.int8) if world.masked else None
        return world.upcoming(users), about({"person": world.upcoming_people(users), "action_mask": masks})

    def arrived(self) -> dict[str, Any]:
        """Return the reports that are due, in order of arrival; of those due together the first user's comes first.

        What is known about the users stands beside them, as in ``info``.
        """
        due = []
        while self._coming and self._coming[0][0] < self._user:
            due.append(heapq.heappop(self._coming)[2])
        if not due:
            return {"reports": None}
        parts = [np.stack(column) for column in zip(*due, strict=True)]
        return {"reports": tuple(parts[:3]), **dict(zip(self._about, parts[3:], strict=True))}

    def _send(self, *record: Any) -> None:
        """Let a user's record be on its way; what is known about the user stands behind it."""
        late = self._drawn.popleft() if self._drawn else self._late(self._user)
        if late < math.inf:
            heapq.heappush(self._coming, (self._user + math.floor(late), self._user, record))
        self._user += 1

    def _late(self, user: int) -> float:
        late = self.law(self._rng, user)
        if not late >= 0:
            raise ValueError(f"a delay must be a number >= 0, or infinity; got {late!r:.60}.")
        return late

    def _forget(self, seed: int | None) -> None:
        self._coming: list[tuple[int, int, Any]] = []
        self._drawn: deque[float] = deque()  # how late the reports of the users to come are, as far as it was asked
        self._user = 0
        # apart from the generators of a world with this seed
        self._rng = default_rng() if seed is None else default_rng(SeedSequence(seed, spawn_key=(77,)))


def about(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an ``info`` says of the user who is shown, by the name it has among reports."""
    told = {"report_people": info.get("person"), "report_masks": info.get("action_mask")}
    return {name: value for name, value in told.items() if value is not None}


def made(problem: Any, *, feedback: Any = None, **config: Any) -> gym.Env[Array, Any]:
    """Return an environment of a problem, as ``gym.make`` builds it, under a regime of feedback."""
    env = BanditEnv(problem, **config)
    return env if feedback is None else DelayFeedback(env, feedback)


made.metadata = BanditEnv.metadata  # type: ignore[attr-defined]


def regime(env: AnyEnv) -> Delay | None:
    """Return the promise about when feedback comes, which is public; None: at once, or nothing is promised."""
    laws = [wrapper.law for wrapper in wrappers(env) if isinstance(wrapper, DelayFeedback)]
    return laws[0] if laws and isinstance(laws[0], Delay) else None
