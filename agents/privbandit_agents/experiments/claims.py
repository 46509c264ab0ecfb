"""One process at a time works on a trial, whoever started it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from privbandit_agents.experiments.store import path_of

FOREVER, AT_ONCE = -1.0, 0.0


class BusyError(RuntimeError):
    """Another process is running the trial."""


def unfinished(folder: str | Path, name: str, suffix: str) -> Path:
    """Return where a running trial keeps its lock (``lock``) or its snapshot (``npz``)."""
    return Path(folder) / "unfinished" / f"{name}.{suffix}"


@contextmanager
def claim(folder: str | Path, name: str, wait: bool = True) -> Iterator[None]:
    """Hold a trial; the system lets go of it when the process ends, however it ends.

    The lock file of a trial is removed once its result is there: whoever gets a lock afterwards finds the result.

    Raises:
        BusyError: another process holds it and ``wait`` is False.
    """
    path = unfinished(folder, name, "lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=FOREVER if wait else AT_ONCE):
            yield
    except Timeout:
        raise BusyError(f"another process is running trial {name}.") from None
    if path_of(folder, name).exists():
        with suppress(OSError):
            path.unlink()


def started(folder: str | Path, name: str) -> bool:
    """Return whether a process began the trial and did not finish it."""
    return unfinished(folder, name, "lock").exists()
