"""Archives of the UCI repository, downloaded once and checked.

A file with a checksum known beforehand must have it. Of the others the checksum found at the first download is
written beside the archive, once the files have been read to their end, and every later download must have the same one:
trust on first use. Only whoever deletes the record makes it forget.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from privbandit_envs.datasets.tables.archive import is_archive
from privbandit_envs.datasets.tables.files import found_in
from privbandit_envs.datasets.tables.sources import SOURCES, Source
from privbandit_envs.files import atomic


@contextmanager
def fetched(name: str, folder: Path) -> Iterator[Path]:
    """Download the archive of a data set and check it; keep it, and its checksums, if the block can use it.

    Raises:
        ConnectionError: it cannot be downloaded.
        OSError: it cannot be written.
        ValueError: the archive is damaged, its checksum is wrong, or the record of checksums is damaged; nothing is
            kept.
    """
    from privbandit_envs.datasets.tables.web import download

    source, record = SOURCES[name], folder / f"{name}.sha256.json"
    assert source.url is not None
    by_hand = f"get it by hand from {source.page} and run privbandit data {name} PATH."
    recorded(record, source.files)  # before the download, since a damaged record makes it vain
    content = download(source.url, source.megabytes * 10**6, by_hand)
    with atomic(folder / f"{name}.zip", "wb") as file:
        file.write(content)
        file.flush()
        fresh = Path(file.name)
        found = checksums(fresh, source, by_hand)
        compare(found, source, record, by_hand)
        yield fresh
        if not compare(found, source, record, by_hand):  # another process may have been the first by now
            with atomic(record) as opened_record:
                opened_record.write(json.dumps(found, indent=1))


def compare(found: Mapping[str, str], source: Source, record: Path, by_hand: str) -> bool:
    """Return whether checksums are known; raise ValueError if one of them is another than that found."""
    known = source.sha256 or recorded(record, source.files)
    for file, expected in known.items():
        if found[file] != expected:
            way_out = by_hand if source.sha256 else f"if it was meant to change, delete {record}; else {by_hand}"
            raise ValueError(
                f"{file} of {source.url} has the SHA-256 checksum {found[file]} and not {expected}; {way_out}"
            )
    return bool(known)


def recorded(record: Path, files: tuple[str, ...]) -> dict[str, str]:
    """Return the checksums of the first download, or nothing if there was none.

    Raises:
        ValueError: there is a record and it is no longer whole.
    """
    if not os.path.lexists(record):
        return {}
    try:
        with record.open("rb") as file:
            known = json.loads(file.read(2**16).decode())  # bytes
    except (OSError, ValueError, RecursionError):
        known = None
    if not isinstance(known, dict) or known.keys() != set(files) or not all(map(is_checksum, known.values())):
        raise ValueError(
            f"{record} is no record of the first download's checksums; delete it, and the next download is trusted."
        )
    return known


def is_checksum(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def checksums(path: Path, source: Source, by_hand: str) -> dict[str, str]:
    """Return the checksums of a data set's files in an archive."""
    assert source.url is not None
    if not is_archive(path):
        raise ValueError(f"{source.url} is no .zip file with {' and '.join(source.files)}; {by_hand}")
    try:
        with found_in(path, source.files, source.megabytes, source.url) as files:
            return {name: hashlib.sha256(content).hexdigest() for name, content in files}  # type: ignore[arg-type]
    except (ValueError, OSError) as error:
        problem = str(error).removesuffix("; get it again.").rstrip(".")
        raise ValueError(f"{problem}; {by_hand}") from error
