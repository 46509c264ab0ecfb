"""Faults of data: servers, archives, records of checksums, files of rows, processes that download at once.

Every campaign tries faults until its time is over. It yields "" for a fault that was survived, and a sentence for each
that went wrong: wrong data were taken, data were lost, an error was no sentence of ours, or it took too long or too
much memory. ``python tests/faults/campaign_data.py 60 [SEED]`` runs all, for a minute each.
"""

import csv
import io
import json
import os
import random
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.random import Generator

from privbandit_envs.datasets import Dataset, load, store, tables
from privbandit_envs.datasets.frames import labelled
from privbandit_envs.datasets.hotels import read as hotels
from privbandit_envs.datasets.hotels import sample as hotel_sample
from privbandit_envs.datasets.tables import SOURCES, sample, web

Campaign = Callable[[Generator, Path, float], Iterator[str]]
RICE = "Rice_Cammeo_Osmancik.arff"
RECORD = "rice.sha256.json"
WHOLE = {"rice.zip", "rice.npz", RECORD}
HANG = 60.0
MEMORY = 300 * 2**10  # kilobytes above those of the start
OK = b"HTTP/1.1 200 OK\r\n"


def judged(job: Callable[[], Any], right: Callable[[Any], bool], what: str) -> str:
    """Run a job: it returns what is right, or raises one of our sentences; else say what went wrong."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        found = web.within(HANG, job)
    except (ValueError, OSError) as error:
        text = str(error)
        if text.startswith("it takes longer than"):
            return f"{what}: hangs."
        ours = text.isprintable() and 20 < len(text) < 1000 and not text.startswith(("invalid literal", "Exceeds"))
        verdict = "" if ours else f"{what}: no sentence of ours, {type(error).__name__}: {text[:200]!r}."
    except BaseException as error:
        verdict = f"{what}: {type(error).__name__}: {str(error)[:200]!r}."
    else:
        verdict = "" if right(found) else f"{what}: wrong data were taken."
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return verdict or (f"{what}: {grown // 2**10} MB of memory." if grown > MEMORY else "")


def same(a: Dataset, b: Dataset) -> bool:
    return np.array_equal(a.X, b.X) and np.array_equal(a.y, b.y) and a.feature_names == b.feature_names


def wrong(found: object) -> bool:
    """Nothing is right: an error was due."""
    return False


def serving(content: bytes) -> Any:
    """Return what opens every address with a content."""
    return lambda url, timeout: io.BytesIO(content)


@contextmanager
def surroundings(folder: Path) -> Iterator[Path]:
    """A folder of data of its own, a second of patience with servers, and no warnings."""
    old = os.environ.get(store.FOLDER), web.PATIENCE, SOURCES["rice"], web.urlopen
    cache = folder / "cache"
    os.environ[store.FOLDER] = str(cache)
    web.PATIENCE = 1.0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield cache
    finally:
        os.environ.pop(store.FOLDER)
        if old[0] is not None:
            os.environ[store.FOLDER] = old[0]
        web.PATIENCE, web.urlopen = old[1], old[3]
        SOURCES["rice"] = old[2]


def rounds(seconds: float) -> Iterator[int]:
    """Count until the time is over, at least to one."""
    end, number = time.monotonic() + seconds, 0
    while number == 0 or time.monotonic() < end:
        yield number
        number += 1


def rice_archive(folder: Path, seed: int = 0) -> bytes:
    path = folder / f"rice-{seed}.arff"
    sample.write("rice", path, 60, seed)
    return zipped((RICE, path.read_bytes()))


def zipped(*members: tuple[str | ZipInfo, bytes], **options: Any) -> bytes:
    packed = io.BytesIO()
    with warnings.catch_warnings(), ZipFile(packed, "w", **{"compression": ZIP_DEFLATED, **options}) as archive:
        warnings.simplefilter("ignore")
        for name, content in members:
            archive.writestr(name, content)
    return packed.getvalue()


def bomb(megabytes: int) -> bytes:
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED, compresslevel=1) as archive, archive.open(RICE, "w") as file:
        for _ in range(megabytes):
            file.write(bytes(10**6))
    return packed.getvalue()


def damaged(rng: Generator, content: bytes) -> bytes:
    """Flip bits, cut, repeat or overwrite at a random place."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(changed) + 1))
        size = int(rng.integers(1, 1 + max(1, len(changed) // 8)))
        kind = int(rng.integers(5))
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            del changed[at : at + size]
        elif kind == 3:
            changed[at : at + size] = rng.bytes(size)
        else:
            changed[at:at] = changed[:size]
    return bytes(changed)


# servers


class Server:
    """Answers each connection as ``answer`` says; a piece that is a number is a pause in seconds."""

    def __init__(self) -> None:
        self.answer: Callable[[], Iterator[bytes | float]] = lambda: iter(())
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/rice.zip"
        SOURCES["rice"] = replace(SOURCES["rice"], url=self.url)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(2**16)
                for piece in self.answer():
                    connection.sendall(piece) if isinstance(piece, bytes) else time.sleep(piece)
            except OSError:
                pass


def whole(content: bytes) -> bytes:
    return OK + b"Content-Length: %d\r\n\r\n" % len(content) + content


def misbehaviour(rng: Generator, url: str, content: bytes) -> tuple[str, Callable[[], Iterator[bytes | float]]]:
    """Return one way to misbehave: its name and the pieces of the answer."""
    cut = int(rng.integers(len(content)))
    part = content[:cut]
    place = str(rng.choice(["file:///etc/passwd", "ftp://127.0.0.1/x", "http://[", url, "//", "http://127.0.0.1:x/"]))
    code = int(rng.choice([301, 302, 303, 307, 308]))
    status = int(rng.choice([100, 199, 204, 206, 304, 400, 404, 416, 500, 503, 999]))
    header = b"X: " + b"y" * int(rng.integers(10**5)) + b"\r\n"
    many = b"".join(b"X%d: y\r\n" % number for number in range(int(rng.integers(300))))
    chunk = f"{int(rng.integers(2**16)):x}".encode()
    plain = {
        "nothing": b"",
        "half an answer": whole(content)[: int(rng.integers(len(content) + 40))],
        "a damaged answer": damaged(rng, whole(content)),
        "noise": rng.bytes(int(rng.integers(1, 5000))),
        "a status line of noise": b"HTTP/1.1 " + rng.bytes(50) + b"\r\n\r\n",
        "a long header": OK + header + b"\r\n" + content,
        "many headers": OK + many + b"\r\n" + content,
        "a chunk of another size": OK
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + chunk
        + b"\r\n"
        + part
        + b"\r\n0\r\n\r\n",
        "no chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n" + rng.bytes(8) + b"\r\n" + content,
        "less than announced": OK + b"Content-Length: %d\r\n\r\n" % len(content) + part,
        "more than announced": OK + b"Content-Length: %d\r\n\r\n" % cut + content,
        "a length of noise": OK + b"Content-Length: -%d\r\n\r\n" % cut + part,
        "a web page": whole(b"<html>log in</html>" * int(rng.integers(1, 100))),
        "an empty answer": whole(b""),
        "another status": f"HTTP/1.1 {status} X\r\n\r\n".encode() + part,
        "a redirect": f"HTTP/1.1 {code} Found\r\nLocation: {place}\r\n\r\n".encode(),
        "a compressed answer": OK + b"Content-Encoding: gzip\r\n\r\n" + part,
    }
    name = str(rng.choice([*plain, "a trickle", "an endless answer"]))
    if name == "a trickle":
        start = whole(content)[: int(rng.integers(60))]
        return name, lambda: (piece for _ in range(100) for piece in (start if not _ else b"x", 0.1))
    if name == "an endless answer":
        return name, lambda: iter([OK + b"\r\n", *[bytes(10**6)] * 40])
    return name, lambda: iter([plain[name]])


def servers(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Misbehaving answers; after each of them an honest one is taken, and then a changed one is refused."""
    with surroundings(folder) as cache:
        content, other = rice_archive(folder), rice_archive(folder, 1)
        server = Server()
        server.answer = lambda: iter([whole(content)])
        expected = tables.get("rice").data
        for number in rounds(seconds):
            trusted = bool(number % 2)
            shutil.rmtree(cache, ignore_errors=True)
            server.answer = lambda: iter([whole(content)])
            if trusted:
                tables.get("rice")
                (cache / "rice.npz").unlink()
            before = contents(cache)
            what, server.answer = misbehaviour(rng, server.url, content)
            verdict = judged(lambda: tables.get("rice").data, partial(same, expected), what)
            after = contents(cache)
            if not verdict and after != before and after.keys() != WHOLE:
                verdict = f"{what}: the folder has {sorted(after)}."
            server.answer = lambda: iter([whole(content)])
            yield verdict or judged(lambda: tables.get("rice").data, partial(same, expected), "honest again")
            if contents(cache).keys() != WHOLE:
                yield f"{what}: an honest answer is not taken any more."
            server.answer = lambda: iter([whole(other)])
            yield judged(lambda: tables.get("rice").data, wrong, "a changed archive")
        server.socket.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


# archives


def attack(rng: Generator, text: bytes, good: bytes) -> tuple[str, bytes, bool]:
    """Return an archive: what is odd about it, its bytes, and whether it may be taken, if the data are right."""
    link = ZipInfo(RICE)
    link.external_attr = 0o120777 << 16
    flags = bytearray(good)
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        struct.pack_into("<H", flags, good.index(signature) + offset, int(rng.integers(2**16)))
    kinds = bytearray(good)
    for signature, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        struct.pack_into("<H", kinds, good.index(signature) + offset, int(rng.integers(1, 120)))
    fill = [b"\0", b"\n", b"0", b"a,", b'"', b"@attribute a numeric\n"][int(rng.integers(6))]
    prefix = [b"", b"@relation a\n", text.partition(b"@data")[0] + b"@data\n"][int(rng.integers(3))]
    many = [(f"{number:x}", b"") for number in range(int(rng.integers(10, 20_000)))]
    inner = (RICE, (prefix + fill * (15 * 10**6 // len(fill)))[: 15 * 10**6])
    attacks: dict[str, Callable[[], tuple[bytes, bool]]] = {
        "a damaged archive": lambda: (damaged(rng, good), True),
        "a damaged end": lambda: (good[:-60] + damaged(rng, good[-60:]), True),
        "a bomb": lambda: (bomb(int(rng.integers(17, 400))), False),
        "a file of one kind of letter": lambda: (zipped(inner), False),
        "two files of one name": lambda: (zipped((RICE, text), (RICE, text[:-40])), False),
        "names that lead elsewhere": lambda: (zipped((f"../../{RICE}", text), ("/etc/x", b"")), True),
        "flags of noise": lambda: (bytes(flags), True),
        "an unknown kind": lambda: (bytes(kinds), True),
        "another kind": lambda: (zipped((RICE, text), compression=[ZIP_BZIP2, ZIP_LZMA][int(rng.integers(2))]), False),
        "a link": lambda: (zipped((link, b"/etc/passwd")), False),
        "many files": lambda: (zipped(*many, (RICE, text), compression=ZIP_STORED), True),
        "an archive in an archive": lambda: (zipped((RICE, good)), False),
        "an end in a comment": lambda: (good + b"PK\5\6" + rng.bytes(int(rng.integers(40))), True),
    }
    what = str(rng.choice([*attacks]))
    return what, *attacks[what]()


def archives(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Archives that attack, downloaded and by hand; a refused one leaves nothing, and the right one is then taken."""
    with surroundings(folder) as cache:
        web.PATIENCE = HANG
        good = rice_archive(folder)
        text = (folder / "rice-0.arff").read_bytes()
        path = folder / "by-hand.zip"
        path.write_bytes(good)
        expected = tables.get("rice", path, folder / "other").data
        for _ in rounds(seconds):
            what, content, may = attack(rng, text, good)
            path.write_bytes(content)
            right = partial(same, expected) if may else wrong
            yield judged(lambda: tables.get("rice", path, folder / "other").data, right, f"{what}, by hand")
            shutil.rmtree(cache, ignore_errors=True)
            web.urlopen = serving(content)
            verdict = judged(lambda: tables.get("rice").data, right, what)
            if not verdict and contents(cache).keys() not in (set(), WHOLE):
                verdict = f"{what}: the folder has {sorted(contents(cache))}."
            yield verdict
            if not contents(cache):
                web.urlopen = serving(good)
                yield judged(lambda: tables.get("rice").data, partial(same, expected), f"after {what}")


# records


def records(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Damaged records of checksums: a changed archive is never taken, the right one only by the right record."""
    with surroundings(folder) as cache:
        good, other = rice_archive(folder), rice_archive(folder, 1)
        web.urlopen = serving(good)
        expected = tables.get("rice").data
        record = cache / RECORD
        right = record.read_bytes()
        odd = [b"", b"{}", b"[]", b"null", b"0", b'""', b"\xff\xfe", b"[" * 10**5, b'{"a":' * 10**4, bytes(10**6)]
        values: list[Any] = [None, 1, [], "0" * 63, "0" * 64, "G" * 64]
        odd += [json.dumps({RICE: value}).encode() for value in values]
        for number in rounds(seconds):
            content = odd[number // 2 % len(odd)] if number < 2 * len(odd) else damaged(rng, right)
            record.write_bytes(content)
            for name in ("rice.npz", "rice.zip"):
                (cache / name).unlink(missing_ok=True)
            served = other if number % 2 else good
            web.urlopen = serving(served)
            intact = readable(content) == readable(right) and not number % 2
            what = f"the record {content[:40]!r}"
            verdict = judged(lambda: tables.get("rice").data, partial(same, expected) if intact else wrong, what)
            if not verdict and (record.read_bytes() != content or (not intact and contents(cache).keys() != {RECORD})):
                verdict = f"{what}: the folder has {sorted(contents(cache))}, or another record."
            yield verdict


def readable(content: bytes) -> Any:
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError):
        return None


# files of rows

PIECES = [
    b'"', b"'", b"\0", b"\xff", b"\xe9", b"\xef\xbb\xbf", b",", b",,", b"\n", b"\r", b"\r\n", b"\n" * 12_000,
    b"9" * 500, b"z" * 140_000, b'"' + b"z" * 140_000, b"1_0", "\u0661".encode(), b"nan", b"inf", b"1e39", b"1e999",
    b" ", b"\t", b"%", b"|", b"@data\n", b"@attribute x numeric\n", b"{0 1}", b"?", b"\x1b[31m", "\u2028".encode(),
    b"\xed\xa0\x80",
]  # fmt: skip
ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "latin-1", "cp037", "utf-32")


def fuzzed(rng: Generator, content: bytes) -> bytes:
    """Insert, delete and repeat at random places, or write the text in another encoding."""
    if rng.random() < 0.1:
        return ("# é\n" * int(rng.integers(2)) + content.decode()).encode(str(rng.choice(ENCODINGS)), "replace")
    changed = content
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(changed) + 1)), int(rng.integers(5))
        end = min(len(changed), at + int(rng.integers(1, 60)))
        if kind < 3:
            changed = changed[:at] + PIECES[int(rng.integers(len(PIECES)))] + changed[at:]
        elif kind == 3:
            changed = changed[:at] + changed[end:]
        else:
            changed = changed[:at] + changed[at:end] * int(rng.integers(2, 40)) + changed[at:]
    return changed


def naive(path: Path) -> list[list[str]]:
    """Return the rows of a CSV file, or nothing if it is none; read whole, by the csv module's strict rules."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except (csv.Error, UnicodeDecodeError):
        return [[]]


def right_rows(path: Path, found: Dataset) -> bool:
    header, *rows = naive(path)
    if any(len(row) != len(header) for row in rows) or b"\0" in path.read_bytes() or len(rows) != len(found.y):
        return False
    cells = [row[:-1] for row in rows]
    plain = all(cell.isascii() and "_" not in cell for row in cells for cell in row)
    return plain and np.array_equal(np.array(cells, dtype=float), found.X)


def files(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Fuzzed CSV and ARFF files: as data sets by name, as tables of one's own, and as hotel searches."""
    with surroundings(folder):
        names = ("diabetes", "employee", "rice", "taxi", "election")
        texts = {}
        for name in names:
            sample.write(name, folder / SOURCES[name].files[0], 60)
            texts[name] = (folder / SOURCES[name].files[0]).read_bytes()
        hotel_sample.write(folder / "train.csv", 8)
        searches = (folder / "train.csv").read_bytes()
        own = "\n".join(["a,b,kind", *(f"{a},{b:.3f},{'xy'[a % 2]}" for a, b in enumerate(rng.random(40)))]).encode()
        for number in rounds(seconds):
            name = names[number % len(names)]
            made = folder / SOURCES[name].files[0]
            made.write_bytes(fuzzed(rng, texts[name]))
            yield judged(partial(tables.prepare, name, made), partial(right_table, made), f"{name} {number}")
            path = folder / f"own-{number}.csv"
            path.write_bytes(fuzzed(rng, own))
            yield judged(partial(load, str(path)), partial(right_rows, path), f"own {number}")
            yield judged(partial(labelled, path, "kind"), partial(right_rows, path), f"own table {number}")
            path.unlink()
            if number % 8 == 0:
                (folder / "train.csv").write_bytes(fuzzed(rng, searches))
                yield judged(lambda: hotels.read(folder / "train.csv"), lambda found: True, f"hotels {number}")


def right_table(path: Path, found: tables.PreparedTable) -> bool:
    """Return whether every row of a file is a row of the table, or was left out and counted."""
    rows = len(found.data.y) + found.facts.incomplete + found.facts.others
    if path.suffix == ".arff":
        lines = re.split("\r\n|\r|\n", path.read_bytes().decode("utf-8-sig"))
        start = next(at for at, line in enumerate(lines) if line.split()[:1] == ["@data"])
        return rows == len([line for line in lines[start + 1 :] if line and line[0] != "%"])
    return rows == len(naive(path)) - 1


# processes

CHILD = """
import sys, warnings
from dataclasses import replace
warnings.simplefilter("ignore")
from privbandit_envs.datasets import tables
tables.SOURCES["rice"] = replace(tables.SOURCES["rice"], url=sys.argv[1])
try:
    print(tables.get("rice").data.X.sum())
except (ValueError, OSError) as error:
    print(error)
"""


def processes(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Three processes that download at once, from a server that is slow, or fails some of them."""
    with surroundings(folder) as cache:
        content = rice_archive(folder)
        server = Server()
        server.answer = lambda: iter([whole(content)])
        expected = tables.get("rice").data
        for _ in rounds(seconds):
            shutil.rmtree(cache, ignore_errors=True)
            answers = [misbehaviour(rng, server.url, content) if rng.random() < 0.3 else None for _ in range(3)]
            server.answer = in_turn(answers, content, [float(pause) for pause in rng.random(3) / 4])
            command = [sys.executable, "-c", CHILD, server.url]
            children = [
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "abc"
            ]
            for child in children:
                try:
                    out, err = child.communicate(timeout=120)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.communicate()
                    yield "a process hangs."
                    continue
                one_line = child.returncode == 0 and not err and out.count("\n") == 1
                good = out.strip() == str(expected.X.sum()) or " " in out.strip()
                yield "" if one_line and good else f"a process ends with {out[-200:]!r} and {err[-200:]!r}."
            left = contents(cache).keys()
            if left not in (set(), WHOLE):
                yield f"processes leave {sorted(left)}."
            elif left:
                yield judged(lambda: load("rice"), partial(same, expected), "what processes left")
        server.socket.close()


def in_turn(answers: list[Any], content: bytes, pauses: list[float]) -> Callable[[], Iterator[bytes | float]]:
    """Give each connection its own answer: a misbehaviour, or the content after a pause."""
    left = [answer[1] if answer else None for answer in answers]

    def answer() -> Iterator[bytes | float]:
        chosen = left.pop() if left else None
        return chosen() if chosen else iter([OK, random.choice(pauses), whole(content).partition(OK)[2]])

    return answer


CAMPAIGNS: dict[str, Campaign] = {
    "servers that misbehave": servers,
    "archives that attack": archives,
    "damaged records of checksums": records,
    "fuzzed files of rows": files,
    "three processes that download at once": processes,
}


def main(seconds: float, seed: int) -> None:
    for name, campaign in CAMPAIGNS.items():
        with TemporaryDirectory() as folder:
            found = list(campaign(np.random.default_rng(seed), Path(folder), seconds))
        failed = [verdict for verdict in found if verdict]
        print(f"{name}: {len(found)} tried, {len(failed)} wrong")
        print("".join(f"  {verdict}\n" for verdict in sorted(set(failed))[:20]), end="")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
