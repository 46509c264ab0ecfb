"""Files that are written whole or not at all."""

import errno
import io
import math
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

LARGEST = 2**34
"""Bytes of the largest file that is read whole."""
DESCRIPTORS = "/proc/*/fd"
"""The folders of links to a process's open files."""


@contextmanager
def atomic(
    path: Path, mode: str = "w", permissions: int = 0o666, sync: bool = True, follow: bool = False
) -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path``; rename it onto ``path`` if the block succeeds, else delete it.

    Missing folders are made. A process that is killed while it writes leaves the temporary file behind, and ``path``
    as it was; whoever writes ``path`` next deletes it, as ``remove_leftovers`` does. A link, a device or a pipe at
    ``path`` is replaced: whoever made the folder may have put it there. With ``follow`` a link is followed, and a
    device, a pipe, and what this process has open as ``/dev/stdout`` get the whole content once the block has
    succeeded.

    Args:
        path: the file.
        mode: ``"w"`` for text in UTF-8, ``"wb"`` for bytes.
        permissions: of the new file; the process's umask takes its part away, as for any new file.
        sync: wait until the content is on the disk. Without it a power failure may leave a damaged file, so leave it
            out only for files that show damage when they are read.
        follow: for a path that the user named; leave it out for a fixed name in a folder.

    Raises:
        OSError: the file cannot be written, or it is a pipe that nobody reads, a socket or a folder.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "deep" / "a.txt"
        ...     with atomic(path) as file:
        ...         _ = file.write("all of it")
        ...     path.read_text()
        'all of it'
    """
    try:
        if follow and streams(path):
            writing = streamed(path, mode)
        else:
            writing = replaced(real(path) if follow else path, mode, permissions, sync)
        with writing as file:
            yield file
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)  # a full disk does not say whose it is
        raise


@contextmanager
def replaced(path: Path, mode: str, permissions: int, sync: bool) -> Iterator[IO[Any]]:
    """Open a temporary file beside a regular file or none; put it in its place if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if sync:  # the others are many in one folder, which whoever writes them clears
        remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    encoding = None if "b" in mode else "utf-8"
    # mode "x" refuses a file that exists; the system itself applies the umask to the permissions
    new = mode.replace("w", "x")
    try:
        with open(temporary, new, encoding=encoding, opener=lambda p, f: os.open(p, f, permissions)) as file:
            with suppress(OSError):  # some file systems have no locks
                hold(file)
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def streamed(path: Path, mode: str) -> Iterator[IO[Any]]:
    """Buffer the block's output, and hand all of it to a device, a pipe or an open file if the block succeeds."""
    with open_stream(path) as stream:
        content = BytesIO()
        file: IO[Any] = content if "b" in mode else io.TextIOWrapper(content, "utf-8", write_through=True)
        yield file
        file.flush()
        stream.write(content.getvalue())


def open_stream(path: Path) -> IO[bytes]:
    """Open a device or a pipe, or once more what this process has open.

    Raises:
        OSError: nobody reads the pipe, or it is a socket or a folder.
    """
    number = descriptor(path)
    if number is not None:
        for printed in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # there may be none, or a closed one
                printed.flush()
        return os.fdopen(os.dup(number), "wb")
    # a pipe without a reader is an error here, not a wait without end; a terminal does not become the process's own
    opened = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    os.set_blocking(opened, True)
    return os.fdopen(opened, "wb")


def streams(path: Path) -> bool:
    """Return whether a path is something to write into: no regular file, or what this process has open."""
    try:
        kind = os.stat(path).st_mode
    except OSError:  # there is nothing yet, or the way to it is no way: writing says so
        return False
    return descriptor(path) is not None or not stat.S_ISREG(kind)


def descriptor(path: Path) -> int | None:
    """Return the number of the open file of this process that a path such as ``/dev/stdout`` leads to, or None."""
    for _ in range(40):  # links, as many as the system follows
        folder = Path(os.path.realpath(path.parent))
        if folder.match(DESCRIPTORS) and folder.parts[2] == str(os.getpid()) and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = folder / os.readlink(path)
    return None


def real(path: Path) -> Path:
    """Return the path of the file that links lead to.

    Raises:
        OSError: they lead in a circle.
    """
    followed = Path(os.path.realpath(path))
    if followed.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return followed


def remove_leftovers(path: Path) -> None:
    """Delete the temporary files of ``path`` that killed processes left behind, but none that is being written.

    Args:
        path: a file; ``folder / "*"`` stands for all files of a folder.
    """
    for left in path.parent.glob(f".{path.name}.{'[0-9a-f]' * 8}"):
        with suppress(OSError), regular(left) as file:
            hold(file)
            left.unlink()


def regular(path: Path, most: int = LARGEST) -> IO[bytes]:
    """Open a regular file to read it: a device may have no end, and a pipe nobody who writes.

    Raises:
        OSError: it is of another kind, larger than ``LARGEST``, or cannot be read.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")
    found = os.fstat(file.fileno())
    if stat.S_ISREG(found.st_mode) and found.st_size <= most:
        return file
    file.close()
    why = f"it has more than {most:,} bytes" if stat.S_ISREG(found.st_mode) else "it is no regular file"
    raise OSError(errno.EINVAL, why, str(path))


def arrays_of(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` file that ``np.savez`` wrote; nothing in it can be larger than the file is.

    Raises:
        OSError: the file cannot be read.
        ValueError: a part is packed, or the parts claim to be larger than the file; damage has errors of its own.
    """
    with regular(path) as file:
        content = file.read()  # an error from here on is none of the disk
    with ZipFile(BytesIO(content)) as archive:
        parts = archive.infolist()
        if any(part.compress_type or part.flag_bits & 1 for part in parts):
            raise ValueError("its parts must be stored as they are, as np.savez does")
        if sum(part.file_size for part in parts) > len(content) or len({part.filename for part in parts}) < len(parts):
            raise ValueError("its parts claim to be larger than the file, or have one name")
        found = {}
        for part in parts:
            with archive.open(part) as member:
                version = np.lib.format.read_magic(member)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(member)
                if math.prod(shape) * max(dtype.itemsize, 1) > part.file_size:
                    raise ValueError(f"{part.filename} has fewer bytes than an array of shape {shape}")
            with archive.open(part) as member:
                found[part.filename.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
    return found


def hold(file: IO[Any]) -> None:
    """Lock a file until it is closed, or its process ends; Windows deletes no file that is open anyway.

    Raises:
        OSError: somebody holds it, or the file system has no locks.
    """
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
