"""An audit at a glance: its finding and its power, in shares of the claim."""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RIGHT = 2.1
"""Of the claim: as far as the picture goes."""
CLAIM, FOUND, REFUTED = "#0072B2", "#7A6200", "#B00020"


@dataclass(frozen=True)
class Glance:
    """An audit's finding on a scale with the claim at 1.

    Attributes:
        found: lower bound of epsilon over the claim, or the square root of that of rho.
        refuted: whether the claim is.
        power: share of such audits that refute the claim, by how many times the claim the true epsilon is.
    """

    found: float
    refuted: bool
    power: Mapping[float, float] = field(default_factory=dict)

    @classmethod
    def of(cls, audit: Mapping[str, Any]) -> "Glance | None":
        """Return the glance of the numbers that ``privbandit audit`` wrote; None if there is no such share."""
        try:
            claim, rho, bound = audit["claim"], audit.get("rho"), float(audit["epsilon"])
            if claim.get("rho") and rho is not None:
                found = math.sqrt(float(rho) / float(claim["rho"]))
            else:
                found = bound / float(claim["epsilon"])
            power = {
                float(times): min(max(float(share), 0.0), 1.0) for times, share in (audit.get("power") or {}).items()
            }
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError):
            return None
        return cls(found, bool(audit["refuted"]), power) if found >= 0 else None

    @property
    def words(self) -> str:
        """Say all that the picture shows."""
        told = [f"found at least {self.found:.2g} of the claim"]
        told += [
            f"{100 * share:.0f} of 100 such audits refute it at {times:g} times" for times, share in self.power.items()
        ]
        return ", ".join([*told, "refuted" if self.refuted else "not refuted"])

    def svg(self) -> str:
        """Return the picture for a page: a bar up to the finding, the claim, and a dot for each power."""
        left, claim, right, end = (place(share) for share in (0, 1, RIGHT, self.found))
        color = REFUTED if self.refuted else FOUND
        dots = "".join(
            f'<circle cx="{place(times)}" cy="17" r="5" fill="{CLAIM}" fill-opacity="{share:.2f}" stroke="{CLAIM}"/>'
            for times, share in self.power.items()
            if 0 <= times <= RIGHT
        )
        parts = (
            f'<line x1="{left}" x2="{right}" y1="17" y2="17" stroke="#9ca3af"/>',
            f'<rect x="{left}" y="12" width="{end - left:.1f}" height="10" fill="{color}"/>',
            f'<line x1="{claim}" x2="{claim}" y1="4" y2="30" stroke="{CLAIM}" stroke-width="2.5"/>',
        )
        words = html.escape(self.words)
        return f'<svg role="img" aria-label="{words}" width="190" height="34">{"".join(parts)}{dots}</svg>'


def place(share: float) -> float:
    """Return where a share of the claim is drawn, in pixels."""
    return round(6 + (190 - 12) * min(share, RIGHT) / RIGHT, 1)
