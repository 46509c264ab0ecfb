"""Probabilities as uniform numbers of 53 bits realise them, chosen so that rounding never costs privacy.

``rng.random()`` is j / 2^53 for a uniform integer j, so "u < p" has probability p exactly where p is a multiple of
2^-53. Proof that the bounds below are enough: docs/privacy/arithmetic.md.
"""

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction

STEPS = 2**53
DIGITS = Context(prec=50)


def exponential(epsilon: float) -> Fraction:
    """Return a rational number just below e^epsilon, or below e^200 if that is less, and at least 1; epsilon >= 0."""
    # odds of e^200 are beyond every threshold of 53 bits; odds below 1 would be those of the opposite
    return max(Fraction(1), Fraction(Decimal(min(epsilon, 200.0)).exp(DIGITS)) * (1 - Fraction(1, 10**48)))


def at_most(odds: Fraction) -> float:
    """Return the largest multiple p of 2^-53 below 1 with p / (1 - p) <= odds."""
    return min(math.floor(odds / (1 + odds) * STEPS), STEPS - 1) / STEPS


def nearest(probability: float | Fraction) -> float:
    """Return the nearest multiple of 2^-53."""
    return round(Fraction(probability) * STEPS) / STEPS


def even(picks: int, k: int) -> Fraction:
    """Return by what factor odds are lowered to cover many picks of one of at most k by ``floor(u * k)``.

    A pick has 2^53 / k + -2 of the 2^53 values of u, a relative error of 2 k / 2^53, and two laws are compared.

    Raises:
        ValueError: the picks are too many: nothing is left of the odds.
    """
    slack = 1 - Fraction(4 * (picks + 1) * k, STEPS)
    if slack <= 0:
        raise ValueError(f"cells must be fewer: {picks} picks among {k} are beyond uniforms of 53 bits.")
    return slack


def agreeing(epsilon: float, kept: Fraction, stays: float, slack: Fraction) -> float:
    """Return the threshold of the agree event where the own entry can be right, wrong, or left out.

    Given that a report does not agree, the own entry stays in with probability ``stays``, and is wrong. In the base law
    it is kept with probability ``kept``, and is then right with probability 1/2.

    *Formal guarantees.* A right report is at most e^epsilon times as likely as any other input makes it.

    Args:
        epsilon: > 0.
        kept: in (0, 1].
        stays: a multiple of 2^-53 near (kept / 2) / (1 - kept / 2).
        slack: of ``even``.
    """
    wrong, right = Fraction(stays), kept / 2
    left_out = right * (1 - wrong) / (1 - kept) if kept < 1 else wrong
    return at_most(exponential(epsilon) * min(wrong, left_out) * slack)


def staying(kept: Fraction) -> float:
    """Return the multiple of 2^-53 nearest to (kept / 2) / (1 - kept / 2)."""
    return nearest(kept / (2 - kept))


def realises(epsilon: float, densities: Sequence[Fraction], slack: Fraction) -> bool:
    """Return whether a law is epsilon-private in both directions, as uniforms of 53 bits realise it.

    Args:
        epsilon: > 0.
        densities: of a report relative to the base law, one for every way in which an input can stand to it.
        slack: of ``even``, for the picks.
    """
    return min(densities) > 0 and max(densities) <= exponential(epsilon) * slack * min(densities)


def standing(kept: Fraction, stays: float, agreed: float) -> list[Fraction]:
    """Return the densities of reports whose own entry is right, wrong or left out, and of the base law.

    Args:
        kept: probability of an entry in the base law, in (0, 1].
        stays: of the own entry if the report does not agree.
        agreed: of a report that agrees.
    """
    right, stay = Fraction(agreed), Fraction(stays)
    found = [Fraction(1), right / (kept / 2), (1 - right) * stay / (kept / 2)]
    return found if kept == 1 else [*found, (1 - right) * (1 - stay) / (1 - kept)]
