"""Settings that jointly private agents share: the budget, and the counters to choose from."""

import math
from dataclasses import dataclass
from typing import Literal

from privbandit_agents.base.guarantee import RECORD, Arithmetic, Guarantee
from privbandit_agents.base.settings import Budget, Open01, PrivateSettings
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho, gaussian_mu
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.mechanisms.counters import (
    MOST_BYTES,
    BinaryTree,
    BufferedToeplitz,
    Counter,
    SquareRootToeplitz,
)
from privbandit_agents.privacy.mechanisms.discrete import known_gaussian

CounterName = Literal["tree", "toeplitz", "buffered"]
COUNTERS: dict[str, type[Counter]] = {"tree": BinaryTree, "toeplitz": SquareRootToeplitz, "buffered": BufferedToeplitz}
NO_MEMORY = "counter='toeplitz' takes {} MiB for {:,} terms of {:,} numbers; 'buffered' takes next to none."
DELTA = 1e-5
"""delta where a budget names none."""


def fitting_counter(name: CounterName | None, horizon: int, dim: int, room: int = MOST_BYTES) -> type[Counter]:
    """Return the counter of a name; None: the Toeplitz counter, or the buffered one if its memory does not fit.

    Args:
        name: in ``COUNTERS``, or None.
        horizon: number of terms.
        dim: of a term.
        room: bytes that the Toeplitz counter may take where nothing is asked for.

    Raises:
        ValueError: the Toeplitz counter is asked for, and does not fit.
    """
    needed = SquareRootToeplitz.bytes_of(horizon, dim)
    if name == "toeplitz" and needed > MOST_BYTES:
        raise ValueError(NO_MEMORY.format(f"{needed / 2**20:,.0f}", horizon, dim))
    return COUNTERS[name or ("toeplitz" if needed <= room else "buffered")]


@dataclass(frozen=True)
class JointSettings(PrivateSettings):
    """The budget of a jointly private agent: (epsilon, delta), or rho of zero-concentrated DP.

    Attributes:
        epsilon: privacy budget, > 0; infinity adds no noise. Not used if ``rho`` is given.
        delta: of (epsilon, delta), in (0, 1); None: 1e-5.
        rho: zCDP budget instead of epsilon; 1 if neither is given.
    """

    epsilon: Budget | None = None
    delta: Open01 | None = None
    rho: Budget | None = None

    def pair(self) -> tuple[float, float] | None:
        """Return (epsilon, delta) if they are the budget, None if rho is."""
        if self.rho is not None or self.epsilon is None:
            return None
        return self.epsilon, self.delta or DELTA

    def concentrated(self) -> float:
        """Return the zCDP budget: rho, or the largest rho that implies (epsilon, delta)."""
        if (pair := self.pair()) is not None:
            return epsilon_to_rho(*pair)
        return 1.0 if self.rho is None else self.rho

    def ledger(self) -> Ledger:
        """Return a ledger that declares the budget, nothing spent."""
        if (pair := self.pair()) is not None:
            return Ledger(*pair)
        return Ledger(None, self.delta or DELTA, self.concentrated())

    def guarantee(
        self, reference: str, proven: bool = True, record: str = RECORD, arithmetic: Arithmetic = "real"
    ) -> Guarantee:
        """Return joint DP of every user's record at this budget; ``reference`` gives the place of the proof."""
        epsilon, delta = self.pair() or (None, None)
        return Guarantee.joint(epsilon, delta, self.concentrated(), reference, proven, record, arithmetic=arithmetic)


@dataclass(frozen=True)
class GaussianSettings(JointSettings):
    """The budget of an agent with Gaussian releases only: the same (epsilon, delta) allows less noise than by zCDP.

    Attributes:
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    noise: Literal["numpy", "secure"] = "numpy"

    def concentrated(self) -> float:
        """Return the zCDP budget: rho, or mu^2 / 2 for the largest mu of Gaussian DP that implies (epsilon, delta)."""
        pair = self.pair()
        return super().concentrated() if pair is None else gaussian_mu(*pair) ** 2 / 2

    def arithmetic(self, numbers: int) -> Arithmetic:
        """Return the arithmetic that the guarantee holds for, if ``numbers`` numbers of a user get noise on a grid."""
        known = known_gaussian(math.sqrt(2 * self.concentrated()), numbers, self.delta or DELTA)
        return "exact" if known else "real"


def refuse_beyond(horizon: int, users: int, name: str) -> None:
    """Refuse a whole group that would make more users than the horizon, before any is taken in.

    Raises:
        RuntimeError: it would.
    """
    if users > horizon:
        raise RuntimeError(f"{name} ends after its horizon of {horizon} users; make it with a longer one.")
