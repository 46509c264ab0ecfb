"""Archives of files from strangers: they are read, never unpacked onto the disk, and odd ones are refused."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from privbandit_envs.validate import cut, listed

MAGIC = (b"PK\3\4", b"PK\5\6")
"""How a .zip file begins, with files and without."""
DAMAGED = (BadZipFile, EOFError, zlib.error, struct.error, RuntimeError, OverflowError, UnicodeError)
"""Errors of the zipfile module for damaged and for encrypted archives, and for those of unknown kinds."""


class Wary(FileIO):
    """A file that refuses to read much at once: the list of an archive's files can be made very long."""

    def read(self, size: int | None = -1, /) -> bytes:
        most = 2**22 + 1  # bytes; the list is read in one go
        found = super().read(most if size is None or size < 0 else min(size, most)) or b""
        if len(found) == most:
            raise BadZipFile("the list of its files is too long")
        return found


def is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in MAGIC


@contextmanager
def archive_of(path: Path, called: str) -> Iterator[ZipFile]:
    """Open a .zip file; an error, here or while the block reads from it, is one sentence.

    Args:
        path: the file.
        called: names it in errors.

    Raises:
        ValueError: the archive is damaged, encrypted, or packed in a way that is not known.
    """
    try:
        with Wary(path) as file, ZipFile(file) as archive:
            yield archive
    except DAMAGED as error:
        raise ValueError(f"{called} is a damaged .zip file ({cut(str(error))}); get it again.") from error


def packed(archive: ZipFile, name: str, called: str) -> ZipInfo:
    """Return the entry of a file, in whatever folder it is in the archive."""
    there = {entry.filename: entry for entry in archive.infolist()}
    if len(there) < len(archive.infolist()):
        raise ValueError(f"{called} has two files of one name; get it again.")
    entry = there[the_one(list(there), name, called)]
    if entry.flag_bits & 1:  # encrypted
        raise ValueError(f"{called} is encrypted; unpack it by hand and give the files.")
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"{called} is packed in another way than .zip files are; pack it again.")
    return entry


def the_one(there: Sequence[str], name: str, called: str) -> str:
    """Return the one path that ends in a file's name, whatever its case.

    Raises:
        FileNotFoundError: there is none.
        ValueError: there are several.
    """
    found = [path for path in there if path.rpartition("/")[2].casefold() == name.casefold()]
    if not found:
        known = listed(sorted(path.rpartition("/")[2] for path in there)) or "no files"
        raise FileNotFoundError(f"no file {name!r} in {called}; it has {known}.")
    if len(found) > 1:
        raise ValueError(f"{called} has {len(found)} files {name!r}; leave one of them.")
    return found[0]
