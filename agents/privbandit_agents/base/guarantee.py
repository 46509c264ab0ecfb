"""The promise of an agent about the privacy of its users."""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon, rho_to_epsilon
from privbandit_envs.validate import one_of

Notion: TypeAlias = Literal["local", "shuffle", "joint", "reward", "none"]
Arithmetic: TypeAlias = Literal["exact", "real"]
"""Numbers that a guarantee holds for: those that leave, or real ones in their place."""
RECORD, SAME = "context, action and reward of every user", "replace-one-user"
REWARD, ONE_REWARD = "reward of every user", "replace-one-reward"
OF_A_PERSON = {SAME: "replace-one-person", ONE_REWARD: "replace-rewards-of-one-person"}
"""The relation for people who come again: all visits of one person change, however many there are."""


class UnprovenCalibration(UserWarning):
    """An agent plays by a published calibration that has no valid proof."""


@dataclass(frozen=True)
class Guarantee:
    """An agent's promise about the privacy of its users.

    Attributes:
        notion: ``"local"`` (the server never sees raw data), ``"shuffle"`` (it sees what a batch of devices sent, and
            not who sent what), ``"joint"`` (trusted curator; the others' actions do not reveal a user's record),
            ``"reward"`` (trusted curator; rewards alone are private, contexts and actions are public), or ``"none"``.
        epsilon, delta, rho: of (epsilon, delta)- and of zero-concentrated differential privacy, or None.
        neighbours: the relation; one user's whole record (context, action, feedback) is replaced, or the reward alone:
            then contexts and actions are public, also of a local agent.
        protects: the protected data, in words; of a promise without any, by the relation.
        proven: False where the calibration is a published one without a valid proof.
        reference: where the proof is.
        arithmetic: ``"exact"``: it holds for the floats and integers that leave. ``"real"``: it holds for real numbers,
            which floats only approximate: to simulate.
        unit: whose records the numbers are for: one ``"visit"``'s, or all those of a ``"person"``, however often the
            person comes.
    """

    notion: Notion = "none"
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    neighbours: str = SAME
    protects: str = "nothing"
    proven: bool = True
    reference: str = ""
    arithmetic: Arithmetic = "real"
    unit: Literal["visit", "person"] = "visit"

    def __post_init__(self) -> None:
        one_of((*OF_A_PERSON, *OF_A_PERSON.values()), neighbours=self.neighbours)
        others = "the server and everyone else" if self.notion == "local" else "all others"
        public = ", who may know every context and every action"
        usual = f"{RECORD}, from {others}", f"{REWARD}, from {others}{public}"
        if self.notion != "none" and self.protects in ("nothing", *usual):  # also those of what this one replaces
            object.__setattr__(self, "protects", usual[self.of_rewards])

    @property
    def of_rewards(self) -> bool:
        """Whether rewards alone are protected."""
        return self.notion == "reward" or self.neighbours in (ONE_REWARD, OF_A_PERSON[ONE_REWARD])

    @property
    def kind(self) -> str:
        """The promise that is compared with its like: the notion, or ``"local-reward"`` or ``"shuffle-reward"``."""
        if not self.of_rewards or self.notion == "none":
            return self.notion
        return f"{self.notion}-reward" if self.notion in ("local", "shuffle") else "reward"

    def per_person(self, public: str = "") -> "Guarantee":
        """Return the same numbers for all records of a person; ``public`` says what is not hidden.

        By default that is who comes, and when the first report of each does; if contexts and actions are public, all
        visits are.
        """
        when = "when" if self.of_rewards else "when the first report of each comes"
        public = public or f"who comes, and {when}, is public"
        protects = self.protects.replace("of every user", "of all visits of every person", 1)
        relation = OF_A_PERSON.get(self.neighbours, self.neighbours)
        return replace(self, unit="person", neighbours=relation, protects=f"{protects}; {public}")

    def for_visits(self, visits: int, gaussian: bool = False) -> float:
        """Return the epsilon that a person has at most who comes so often, at ``delta``; infinity if none is known.

        Args:
            visits: how often.
            gaussian: whether all that is released is one Gaussian mechanism: then all visits in one term are the worst.
        """
        epsilon = math.inf if self.epsilon is None else self.epsilon
        if self.unit == "person" or visits == 1:
            return epsilon
        if self.notion == "local":
            return visits * epsilon if not self.delta else math.inf
        if gaussian and self.rho is not None and self.delta:
            return gaussian_epsilon(mu=visits * math.sqrt(2 * self.rho), delta=self.delta)
        return visits * epsilon if not self.delta else math.inf

    @property
    def words(self) -> str:
        """What is promised in a few words; zCDP alone with the epsilon that it implies at delta = 1e-5."""
        if self.notion == "none":
            return "none"
        if self.epsilon is not None:
            pair = f"{self.epsilon:.4g}, {self.delta:.4g}" if self.delta else f"{self.epsilon:.4g}"
            also = "" if self.rho is None else f" (rho {self.rho:.3g})"
        else:
            implied = rho_to_epsilon(self.rho or 0.0, 1e-5)
            pair, also = f"rho {self.rho:.4g}", f" (epsilon {implied:.3g} at delta 1e-05)"
        whose = f"{self.kind} {pair} a {self.unit}{also}, {self.arithmetic}"
        return whose + ("" if self.proven else ", unproven")

    @classmethod
    def local(
        cls,
        epsilon: float,
        delta: float,
        reference: str,
        proven: bool = True,
        arithmetic: Arithmetic = "real",
        neighbours: str = SAME,
    ) -> "Guarantee":
        """Return (epsilon, delta)-local DP of every user's record; ``reference`` names the place of the proof."""
        return cls("local", epsilon, delta, None, neighbours, "nothing", proven, reference, arithmetic)

    @classmethod
    def joint(
        cls,
        epsilon: float | None,
        delta: float | None,
        rho: float | None,
        reference: str,
        proven: bool = True,
        record: str = RECORD,
        arithmetic: Arithmetic = "real",
    ) -> "Guarantee":
        """Return joint DP of every user's record, by the numbers that are not None."""
        return cls("joint", epsilon, delta, rho, SAME, f"{record}, from all others", proven, reference, arithmetic)


def warn_unproven(name: str) -> None:
    """Warn that an agent uses the published calibration; call it in ``begin``."""
    text = f"{name}: the published calibration is kept for comparison only."
    warnings.warn(text, UnprovenCalibration, stacklevel=5)


def arithmetic_of(randomizer: object) -> Arithmetic:
    """Return the arithmetic that a randomizer's promise holds for; ``"real"`` if it declares none."""
    return "exact" if getattr(randomizer, "arithmetic", "real") == "exact" else "real"
