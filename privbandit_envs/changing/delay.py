"""Feedback that comes late, in another order, or never."""

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.random import Generator, SeedSequence, default_rng

from privbandit_envs.problem import Array
from privbandit_envs.validate import at_least, did_you_mean, fraction, one_of, reported, shown

Reports: TypeAlias = tuple[Array, Array, Array]
LAWS = ("fixed", "geometric", "heavy", "batch")


@dataclass(frozen=True)
class Delay:
    """By how many users reports are late.

    Attributes:
        mean: of the delay, >= 0.
        law: ``"fixed"``; ``"geometric"``, from 0 on; ``"heavy"``: with an infinite variance (Lomax of index 2, whole
            users); ``"batch"``: ``mean`` users' reports come together, with the last of them.
        missing: probability that a report never comes.

    Raises:
        ValueError: a value out of range.

    Examples:
        >>> [Delay(4, "batch")(np.random.default_rng(0), user) for user in range(5)]
        [3.0, 2.0, 1.0, 0.0, 3.0]
    """

    mean: float = 0.0
    law: str = "geometric"
    missing: float = 0.0

    def __post_init__(self) -> None:
        at_least(0, mean=self.mean), one_of(LAWS, law=self.law), fraction(missing=self.missing)

    @classmethod
    def of(cls, given: object) -> "Delay":
        """Return the ``Delay`` of a number, the lag of every report, or of a table such as {mean: 20, missing: 0.1}.

        Examples:
            >>> Delay.of({"mean": 20, "mising": 0.1})
            Traceback (most recent call last):
            ValueError: a delay has no 'mising' (did you mean 'missing'?); it has mean, law, missing.
        """
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

    def __call__(self, rng: Generator, user: int) -> float:
        """Draw the delay of a user's report, infinity if it never comes; the record is not looked at."""
        lost = rng.random() < self.missing
        if self.law == "geometric":
            late = float(rng.geometric(1 / (1 + self.mean)) - 1)
        elif self.law == "heavy":
            late = float(math.floor(self.mean * rng.pareto(2)))
        elif self.law == "batch":
            size = max(1, math.floor(self.mean))
            late = float(size - 1 - user % size)
        else:
            late = float(math.floor(self.mean))
        return math.inf if lost else late


class DelayFeedback(gym.Wrapper[Array, Any, Array, Any], RecordConstructorArgs):
    """Hand feedback on later: ``info`` has ``reports`` in place of ``feedback``.

    ``info["reports"]`` are the records (contexts, actions, feedback) that arrive after this user, in order of arrival,
    one row each; None if there are none. ``info["report_people"]`` are the numbers of these users, and where arms come
    and go ``info["report_masks"]`` the masks by which they were served. ``play`` and ``log`` let agents learn from
    them. ``regret`` and the reward of
    the step are the user's own, at once: they are for the recorder. Reports that are on their way arrive in the next
    episode too, unless it begins with a seed.

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
        late = self.law(self._rng, self._user)
        if not late >= 0:
            raise ValueError(f"a delay must be a number >= 0, or infinity; got {late!r:.60}.")
        if late < math.inf:
            record = self._context, np.asarray(action), np.asarray(info["feedback"])
            heapq.heappush(self._coming, (self._user + math.floor(late), self._user, (*record, *self._about.values())))
        came = self._arrived()
        told["reports"] = None if came is None else came[:3]
        if came is not None:
            told |= zip(self._about, came[3:], strict=True)
        self._user += 1
        self._context, self._about = context, about(info)
        return context, reward, terminated, truncated, told

    def _arrived(self) -> tuple[Array, ...] | None:
        """Return the reports that are due, in order of arrival; of those due together the first user's comes first.

        What is known about the users stands behind their context, action and feedback.
        """
        due = []
        while self._coming and self._coming[0][0] <= self._user:
            due.append(heapq.heappop(self._coming)[2])
        if not due:
            return None
        return tuple(np.stack(column) for column in zip(*due, strict=True))

    def _forget(self, seed: int | None) -> None:
        self._coming: list[tuple[int, int, Any]] = []
        self._user = 0
        # apart from the generators of a world with this seed
        self._rng = default_rng() if seed is None else default_rng(SeedSequence(seed, spawn_key=(77,)))


def about(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an ``info`` says of the user who is shown, by the name it has among reports."""
    told = {"report_people": info.get("person"), "report_masks": info.get("action_mask")}
    return {name: value for name, value in told.items() if value is not None}
