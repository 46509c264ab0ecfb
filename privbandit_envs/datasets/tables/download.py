"""Archives of the UCI repository, downloaded once and checked.

A file whose checksum is known beforehand must have it. Of the others the checksum found at the first download is
written beside the archive, and every later download must have the same one: trust on first use.
"""

import hashlib
import json
import shutil
from contextlib import closing
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen
from zipfile import BadZipFile, is_zipfile

from privbandit_envs.datasets.tables.files import DAMAGED, opened
from privbandit_envs.datasets.tables.sources import SOURCES
from privbandit_envs.files import atomic

TIMEOUT = 60  # seconds without an answer after which a download fails


def fetch(name: str, folder: Path) -> Path:
    """Download the archive of a data set and check it; return its path.

    Raises:
        ConnectionError: it cannot be downloaded.
        ValueError: the archive is damaged or its checksum is wrong; it is not kept.
    """
    source = SOURCES[name]
    assert source.url is not None
    by_hand = f"get it by hand from {source.page} and run privbandit data {name} PATH."
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.zip"
    fresh = folder / f"{name}-new.zip"
    try:
        with urlopen(source.url, timeout=TIMEOUT) as answer, atomic(fresh, "wb") as file:
            shutil.copyfileobj(answer, file)
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConnectionError(f"{source.url} could not be downloaded ({reason}); {by_hand}") from error
    try:
        check(name, fresh, folder / f"{name}.sha256.json", by_hand)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return path


def check(name: str, path: Path, record: Path, by_hand: str) -> None:
    """Compare the checksums of an archive's files with those known or recorded; record those that are new.

    Raises:
        ValueError: a wrong checksum, or a damaged archive.
    """
    source = SOURCES[name]
    try:
        found = checksums(path, source.files)
    except (ValueError, OSError, *DAMAGED) as error:
        raise ValueError(f"{source.url} is no .zip file with {' and '.join(source.files)}; {by_hand}") from error
    known = dict(source.sha256) or (json.loads(record.read_text("utf-8")) if record.is_file() else {})
    for file, expected in known.items():
        if found.get(file) != expected:
            raise ValueError(
                f"{file} of {source.url} has the SHA-256 checksum {found.get(file)} and not {expected}; {by_hand}"
            )
    if not known:
        with atomic(record) as opened_record:
            opened_record.write(json.dumps(found, indent=1))


def checksums(path: Path, files: tuple[str, ...]) -> dict[str, str]:
    if not is_zipfile(path):
        raise BadZipFile(path.name)
    with closing(opened(path, files)) as there:
        return {name: hashlib.file_digest(file, "sha256").hexdigest() for name, file in there}  # type: ignore[arg-type]
