"""Files that are written whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def atomic(path: Path, mode: str = "w", permissions: int = 0o666, sync: bool = True) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path``; rename it onto ``path`` if the block succeeds, else delete it.

    Missing folders are made. A process that is killed while it writes leaves the temporary file behind, and ``path``
    as it was; ``remove_leftovers`` deletes such files.

    Args:
        path: the file.
        mode: ``"w"`` for text in UTF-8, ``"wb"`` for bytes.
        permissions: of the new file; the process's umask takes its part away, as for any new file.
        sync: wait until the content is on the disk. Without it a power failure may leave a damaged file, so leave it
            out only for files whose damage is noticed when they are read.

    Raises:
        OSError: the file cannot be written.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "deep" / "a.txt"
        ...     with atomic(path) as file:
        ...         _ = file.write("all of it")
        ...     path.read_text()
        'all of it'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    encoding = None if "b" in mode else "utf-8"
    # mode "x" refuses a file that exists; the system itself applies the umask to the permissions
    new = mode.replace("w", "x")
    try:
        with open(temporary, new, encoding=encoding, opener=lambda p, f: os.open(p, f, permissions)) as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)  # a full disk does not say whose it is
        raise


def remove_leftovers(path: Path) -> None:
    """Delete the temporary files of ``path`` that killed processes left behind."""
    for left in path.parent.glob(f".{path.name}.*"):
        left.unlink(missing_ok=True)
