"""What audits found, read from the numbers that ``privbandit audit`` wrote."""

import html
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privbandit_agents.experiments.views.table import Column, Table
from privbandit_agents.zoo.entries import AGENTS
from privbandit_envs.files import regular

RIGHT = 2.1
"""Of the claim: as far as the picture goes."""
CLAIM, FOUND, REFUTED = "#0072B2", "#7A6200", "#B00020"


def audit_files(folder: Path) -> list[Path]:
    """Return the JSON files of audits in a folder, which may not be there."""
    return [path for path in sorted(folder.glob("*.json")) if told(path) is not None]


def audit_table(paths: Sequence[Path]) -> Table:
    """Return a table with a row per audit: claim, bound, power, verdict, a picture of these, and arithmetic."""
    columns = [
        Column("target", "target", True),
        Column("claim", lambda audit: claim_text(audit["claim"]), True),
        Column("epsilon is at least", "epsilon"),
        Column("power", lambda audit: power_text(audit.get("power")), True),
        Column("verdict", lambda audit: "REFUTED" if audit["refuted"] else "not refuted", True),
        Column("at a glance", lambda audit: glance.svg() if (glance := Glance.of(audit)) else "", markup=True),
        Column("arithmetic", lambda audit: arithmetic(audit["target"]), True),
    ]
    title = (
        "A bound above the claim refutes it. One below proves nothing: the power is the share of audits that would "
        "refute a larger epsilon. At a glance: the bar is the bound, the upright line the claim. A dot stands for a "
        "true epsilon at that multiple of the claim, fuller if more of 100 such audits refute it."
    )
    return Table(list(filter(None, map(told, paths))), columns, title)


def told(path: Path) -> dict[str, Any] | None:
    """Return the content of an audit's file; None if the file is no audit's."""
    try:
        with regular(path, 10**6) as file:
            content = json.loads(file.read().decode())
    except (OSError, ValueError, RecursionError):
        return None
    wanted = {"target", "claim", "epsilon", "refuted"}
    if not isinstance(content, dict) or not wanted <= content.keys():
        return None
    power = {} if content.get("power") is None else content["power"]
    shares = power.values() if isinstance(power, Mapping) else [str(power)]
    claim = content["claim"]
    if isinstance(claim, Mapping):
        claim = {key: value for key, value in claim.items() if key != "gaussian_type"}
    numbers = [content["epsilon"], *values_of(claim), *shares, *keys_of(power)]
    if not isinstance(content["target"], str) or not all(map(is_number, numbers)):
        warnings.warn(f"{path} is left out: it has the keys of an audit, and other values.", stacklevel=4)
        return None
    return content


def values_of(part: object) -> list[Any]:
    """Return the values of a table but those that are null; of anything else it alone, which is no number then."""
    return [value for value in part.values() if value is not None] if isinstance(part, Mapping) else [str(part)]


def keys_of(part: object) -> list[object]:
    """Return the keys of a table that should be numbers, as numbers where they are."""
    return [float(key) if spells_number(key) else key for key in part] if isinstance(part, Mapping) else []


def spells_number(text: object) -> bool:
    try:
        return isinstance(text, str) and float(text) >= 0
    except ValueError:
        return False


def is_number(value: object) -> bool:
    """Return whether a value is a number that a float holds; NaN and infinity are."""
    try:
        return not isinstance(value, bool) and isinstance(value, int | float) and float(value) is not None
    except OverflowError:
        return False


def claim_text(claim: Mapping[str, Any]) -> str:
    parts = [f"{key} = {claim[key]:.4g}" for key in ("epsilon", "delta", "rho") if claim.get(key)]
    return ", ".join(parts)


def power_text(power: Mapping[str, float] | None) -> str:
    """Return which share of such audits refute the claim if the true epsilon is larger by a factor."""
    if power is None:
        return "-"
    return ", ".join(f"{100 * share:.0f} % at {float(factor):g} times" for factor, share in power.items()) or "unknown"


def arithmetic(target: str) -> str:
    """Return whether an agent's guarantee holds for floats (``exact``) or for real numbers (``real``)."""
    name = target.partition(" ")[0].partition(",")[0]
    return (AGENTS[name].arithmetic if name in AGENTS else "") or "-"


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
