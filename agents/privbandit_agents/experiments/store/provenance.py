"""Where a result comes from: versions, commit, host, date."""

import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path


def provenance() -> dict[str, str | None]:
    """Return the versions that ran, the git commit if the package is a checkout, the host and the date."""
    return {**code(), "host": platform.node(), "date": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def code() -> dict[str, str | None]:
    """Return the versions that this process runs."""
    versions: dict[str, str | None] = {name: version(name) for name in ("privbandit", "numpy", "gymnasium")}
    return {**versions, "python": platform.python_version(), "commit": commit()}


def commit() -> str | None:
    """Return the commit of this source tree, with ``-dirty`` if it was edited; None if git does not track it."""
    here = Path(__file__)
    if git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None
    return git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def git(folder: Path, *arguments: str) -> str | None:
    """Return what a git command prints, or None if it fails; nothing is locked or changed."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
