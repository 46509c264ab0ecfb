"""What audits found, read from the numbers that ``privbandit audit`` wrote."""

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privbandit_agents.experiments.report.glance import Glance
from privbandit_agents.zoo.entries import AGENTS
from privbandit_envs.files import regular


def audit_files(folder: Path) -> list[Path]:
    """Return the JSON files of audits in a folder, which may not be there."""
    return [path for path in sorted(folder.glob("*.json")) if told(path) is not None]


def audit_rows(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return one row per audit: target, claim, bound, power, verdict, all of it as a picture, and arithmetic."""
    found = []
    for audit in filter(None, map(told, paths)):
        found.append(
            {
                "target": audit["target"],
                "claim": claim_text(audit["claim"]),
                "bound": audit["epsilon"],
                "power": power_text(audit.get("power")),
                "glance": "" if (glance := Glance.of(audit)) is None else glance.svg(),
                "verdict": "REFUTED" if audit["refuted"] else "not refuted",
                "arithmetic": arithmetic(audit["target"]),
            }
        )
    return found


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
