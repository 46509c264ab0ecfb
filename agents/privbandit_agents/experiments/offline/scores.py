"""Result files of offline comparisons: one per task, written whole or not at all, and checked when read."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from privbandit_agents.experiments.store import (
    CorruptResultError,
    canonical,
    changed_setting,
    name_of,
    path_of,
    set_aside,
)
from privbandit_envs.files import atomic

SCHEMA = "offline-1"


@dataclass(frozen=True)
class Scores:
    """What a task gave.

    Attributes:
        trial: its spec.
        settings: of the agent, with defaults.
        accuracy: on the test set at every point of the grid; None where the method could not run.
        seconds: of the fit that each point is from, likewise.
        errors: why it could not run, a sentence; None where it could.
        provenance: versions, commit, host and date.
    """

    trial: dict[str, Any]
    settings: dict[str, Any]
    accuracy: list[float | None]
    seconds: list[float | None]
    errors: list[str | None]
    provenance: dict[str, str | None]

    @property
    def name(self) -> str:
        """Of the task."""
        return name_of(self.trial)

    @property
    def whole(self) -> bool:
        """Whether every point has either an accuracy or a reason."""
        points = list(zip(self.accuracy, self.seconds, self.errors, strict=True))
        return bool(points) and all((a is None) == (s is None) == (e is not None) for a, s, e in points)


def write(folder: str | Path, found: Scores) -> Path:
    """Write a result: a line with schema and checksum, and the JSON in a second line.

    Returns:
        Its path, ``<folder>/trials/<name>.json``.
    """
    body = canonical(asdict(found)).encode()
    path = path_of(folder, found.name)
    with atomic(path, "wb", sync=False) as file:
        file.write(b"%b\n%b\n" % (header_of(body), body))
    return path


def header_of(body: bytes) -> bytes:
    """Return the first line of a result file."""
    return canonical({"checksum": hashlib.sha256(body).hexdigest(), "schema": SCHEMA}).encode()


def read(path: Path) -> Scores:
    """Read a result file, which must be, byte for byte, what was written under the name of its task.

    Raises:
        CorruptResultError: it is not, or another version wrote it.
        FileNotFoundError: there is none.
    """
    header, _, rest = path.read_bytes().partition(b"\n")
    body = rest.removesuffix(b"\n")
    if header == header_of(body) and rest.endswith(b"\n"):
        try:
            found = Scores(**from_json(body))
            if found.name == path.stem and found.whole:
                return found
        except (ValueError, TypeError):
            pass
    raise CorruptResultError(f"{path} is not what was written; delete it and run the experiment again.")


def finished(folder: str | Path, name: str, settings: Mapping[str, Any]) -> Scores | None:
    """Return the result of a task that was run before, or None.

    A file that is corrupt, or of other defaults than today's, is set aside as ``.corrupt`` or ``.stale``.
    """
    path = path_of(folder, name)
    try:
        found = read(path)
    except FileNotFoundError:
        return None
    except CorruptResultError as error:
        set_aside(path, "corrupt", str(error))
        return None
    if found.settings == settings:
        return found
    set_aside(path, "stale", f"{path} was run with other defaults ({changed_setting(found.settings, settings)}).")
    return None
