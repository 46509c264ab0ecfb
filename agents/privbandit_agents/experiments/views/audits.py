"""What audits found, read from the numbers that ``privbandit audit`` wrote, and at a glance in shares of the claim."""

import html
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from privbandit_agents.experiments.views.table import Column, Table
from privbandit_agents.zoo.entries import AGENTS
from privbandit_envs.files import regular

RIGHT = 2.1
"""Of the claim: as far as the picture goes."""
CLAIM, FOUND, REFUTED = "#0072B2", "#7A6200", "#B00020"


class Claimed(BaseModel):
    """The claim of an audit's target."""

    model_config = ConfigDict(strict=True)
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def __str__(self) -> str:
        return ", ".join(f"{key} = {value:.4g}" for key, value in self if value)


class Audit(BaseModel):
    """The file of an audit; it may have more.

    Attributes:
        target: that was audited.
        claim: of it.
        epsilon: lower bound.
        refuted: whether the claim is.
        rho: lower bound, of a claim of rho.
        power: share of such audits that refute the claim, by how many times the claim the true epsilon is.
    """

    model_config = ConfigDict(strict=True)
    target: str
    claim: Claimed
    epsilon: float
    refuted: bool
    rho: float | None = None
    power: dict[float, float] | None = None

    @property
    def found(self) -> float | None:
        """The bound of epsilon over the claim, or the square root of that of rho; None if there is no such share."""
        if self.claim.rho and self.rho is not None:
            share = self.rho / self.claim.rho
            return math.sqrt(share) if share >= 0 else None
        share = self.epsilon / self.claim.epsilon if self.claim.epsilon else math.nan
        return share if share >= 0 else None

    @property
    def shares(self) -> Mapping[float, float]:
        """The power, between 0 and 1."""
        return {times: min(max(share, 0.0), 1.0) for times, share in (self.power or {}).items()}

    def svg(self) -> str:
        """Return the audit at a glance, for a page: a bar up to the finding, the claim, and a dot for each power."""
        if self.found is None:
            return ""
        told = [f"found at least {self.found:.2g} of the claim"]
        told += [f"{100 * y:.0f} of 100 such audits refute it at {x:g} times" for x, y in self.shares.items()]
        words = html.escape(", ".join([*told, "refuted" if self.refuted else "not refuted"]))
        left, claim, right, end = (place(share) for share in (0, 1, RIGHT, self.found))
        dots = "".join(
            f'<circle cx="{place(times)}" cy="17" r="5" fill="{CLAIM}" fill-opacity="{share:.2f}" stroke="{CLAIM}"/>'
            for times, share in self.shares.items()
            if 0 <= times <= RIGHT
        )
        color = REFUTED if self.refuted else FOUND
        parts = (
            f'<line x1="{left}" x2="{right}" y1="17" y2="17" stroke="#9ca3af"/>',
            f'<rect x="{left}" y="12" width="{end - left:.1f}" height="10" fill="{color}"/>',
            f'<line x1="{claim}" x2="{claim}" y1="4" y2="30" stroke="{CLAIM}" stroke-width="2.5"/>',
        )
        return f'<svg role="img" aria-label="{words}" width="190" height="34">{"".join(parts)}{dots}</svg>'


def place(share: float) -> float:
    """Return where a share of the claim is drawn, in pixels."""
    return round(6 + (190 - 12) * min(share, RIGHT) / RIGHT, 1)


def audit_files(folder: Path) -> list[Path]:
    """Return the JSON files of audits in a folder, which may not be there."""
    return [path for path in sorted(folder.glob("*.json")) if audit_in(path) is not None]


def audit_in(path: Path) -> Audit | None:
    """Return the content of an audit's file; None if the file is no audit's."""
    try:
        with regular(path, 10**6) as file:
            return Audit.model_validate_json(file.read())
    except OSError:
        return None
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        if not any(not one["loc"] or one["type"] == "missing" for one in wrong):
            warnings.warn(f"{path} is left out: it has the keys of an audit, and other values.", stacklevel=4)
        return None


def audit_table(paths: Sequence[Path]) -> Table:
    """Return a table with a row per audit: claim, bound, power, verdict, a picture of these, and arithmetic."""
    columns = [
        Column("target", "target", True),
        Column("claim", "claim", True),
        Column("epsilon is at least", "epsilon"),
        Column("power", lambda audit: power_text(audit["power"]), True),
        Column("verdict", lambda audit: "REFUTED" if audit["refuted"] else "not refuted", True),
        Column("at a glance", "svg", markup=True),
        Column("arithmetic", lambda audit: arithmetic(audit["target"]), True),
    ]
    title = (
        "A bound above the claim refutes it. One below proves nothing: the power is the share of audits that would "
        "refute a larger epsilon. At a glance: the bar is the bound, the upright line the claim. A dot stands for a "
        "true epsilon at that multiple of the claim, fuller if more of 100 such audits refute it."
    )
    return Table([{**dict(audit), "svg": audit.svg()} for audit in filter(None, map(audit_in, paths))], columns, title)


def power_text(power: Mapping[str, float] | None) -> str:
    """Return which share of such audits refute the claim if the true epsilon is larger by a factor."""
    if power is None:
        return "-"
    return ", ".join(f"{100 * share:.0f} % at {float(factor):g} times" for factor, share in power.items()) or "unknown"


def arithmetic(target: str) -> str:
    """Return whether an agent's guarantee holds for floats (``exact``) or for real numbers (``real``)."""
    name = target.partition(" ")[0].partition(",")[0]
    return (AGENTS[name].arithmetic if name in AGENTS else "") or "-"
