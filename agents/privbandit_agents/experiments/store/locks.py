"""One process at a time works on a job, whoever started it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from privbandit_agents.experiments.names import result_path, unfinished
from privbandit_agents.experiments.usage import UsageError


class BusyError(RuntimeError):
    """Another process is running the job."""


@contextmanager
def lock(folder: str | Path, name: str, wait: bool = True) -> Iterator[None]:
    """Hold a job; the system releases the lock when the process ends, however it ends.

    The lock file is removed once the result is there: whoever gets the lock afterwards finds the result.

    Raises:
        BusyError: another process holds it and ``wait`` is False.
    """
    path = unfinished(folder, name, "lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()
    try:
        with FileLock(path, timeout=-1 if wait else 0, mode=0o666):  # whoever shares the folder may take it over
            yield
    except Timeout:
        raise BusyError(f"another process is running job {name}.") from None
    except PermissionError as error:
        if error.filename is None or Path(error.filename) != path or not path.exists():
            raise
        why = f"the lock of {owner(path)} may not be opened; they delete it if none of their processes is running"
        raise PermissionError(error.errno, why, str(path)) from None
    if result_path(folder, name).exists():
        with suppress(OSError):
            path.unlink()


@contextmanager
def only_one(folder: Path, name: str) -> Iterator[None]:
    """Hold a folder: two at once that write the same files would mix them.

    Raises:
        UsageError: another process holds it, or nothing can be written there.
    """
    path = unfinished(folder, name, "lock")
    try:
        with lock(folder, name, wait=False):
            yield
            with suppress(OSError):
                path.unlink()
                path.parent.rmdir()
    except BusyError:
        raise UsageError(f"another process is at work in {folder}; wait for it, or name another --out.") from None


def owner(path: Path) -> str:
    """Return the name of a file's owner, or its number."""
    try:
        return path.owner()
    except (KeyError, NotImplementedError):
        return f"user {path.stat().st_uid}"


def started(folder: str | Path, name: str) -> bool:
    """Return whether a process began the job and did not finish it."""
    return unfinished(folder, name, "lock").exists()
