"""The experiments that come with the package."""

import warnings
from pathlib import Path

from privbandit_envs.validate import unknown

MERGED = {
    "targets-assortment": "envelope-assortment",
    "targets-linear": "lplr-theorem4",
    "targets-linear-regression": "lplr-theorem2",
    "targets-sparse": "fliphat-fig1-left",
    "targets-trees": "lpct-bandit",
}
"""Former names of experiments, to those that have their statements."""


def library() -> dict[str, Path]:
    """Return the experiments that come with the package: name to file."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "library").glob("*.yaml"))}


def bundled() -> dict[str, Path]:
    """Return the sweeps that come with the package: name to file."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def shipped(name: str) -> Path:
    """Return the file of an experiment that comes with the package; a former name warns.

    Raises:
        ValueError: an unknown name.
    """
    if name in MERGED:
        text = f"the statements of {name} are in {MERGED[name]}; the name goes with the next version."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
    now = MERGED.get(name, name)
    if now not in library():
        raise unknown("no experiment", now, library(), "privbandit list experiments")
    return library()[now]
