"""Servers, archives and records of checksums that misbehave: one sentence each, nothing kept, nothing forgotten."""

import io
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import BadStatusLine
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZipFile

import numpy as np
import pytest

from privbandit_envs.datasets import load, store, tables
from privbandit_envs.datasets.tables import SOURCES, sample, web

RICE = "Rice_Cammeo_Osmancik.arff"
Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Answer the download of rice with a content; return the one sentence it ends in, after which nothing is there."""

    def get(content: bytes, kept: tuple[str, ...] = ()) -> str:
        monkeypatch.setattr(web, "urlopen", lambda url, timeout: io.BytesIO(content))
        with pytest.raises((ValueError, OSError)) as raised:
            load("rice")
        there = sorted(path.name for path in cache.iterdir()) if cache.exists() else []
        assert there == sorted(kept) and "\n" not in str(raised.value) and len(str(raised.value)) < 700
        return str(raised.value)

    return get


def rice(folder: Path, rows: int = 50, seed: int = 0) -> str:
    path = folder / f"{rows}-{seed}.arff"
    if not path.exists():
        sample.write("rice", path, rows, seed)
    return path.read_text()


def packed(*members: tuple[str, str | bytes], **options: Any) -> bytes:
    content = io.BytesIO()
    with ZipFile(content, "w", **{"compression": ZIP_DEFLATED, **options}) as target:
        for name, text in members:
            target.writestr(name, text)
    return content.getvalue()


def good(folder: Path, seed: int = 0) -> bytes:
    return packed((RICE, rice(folder, seed=seed)))


def test_an_archive_that_cannot_be_used_leaves_no_record(tmp_path: Path, refused: Refused, cache: Path) -> None:
    text = rice(tmp_path)
    for content, message in [
        (packed((RICE, b"0" * 10**6)), "line 1: not a line of an ARFF file's header; got '0000"),
        (packed((RICE, text.replace("numeric", "numeric\0"))), "line 3: not text in UTF-8 (a zero byte, as in UTF-16)"),
        (packed((RICE, text + "1,2\n")), "8 columns expected; got 2"),
        (packed((RICE, text.partition("@data")[0])), "not an ARFF file, since it has no @attribute or no @data"),
    ]:
        assert message in refused(content)
    with pytest.warns(UserWarning, match="generated"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(web, "urlopen", lambda url, timeout: io.BytesIO(good(tmp_path)))
        assert len(load("rice").y) == 50
    assert sorted(path.name for path in cache.iterdir()) == ["rice.npz", "rice.sha256.json", "rice.zip"]
    assert tables.state("rice")["is there"].startswith("from rice+cammeo+and+osmancik.zip")


@pytest.mark.parametrize(
    "record",
    [b"", b"{}", b"[]", b"null", b"text", b'{"a": "b"}', b"\xff\xfe", b"[" * 50_000, b'{"%s": "12"}' % RICE.encode()],
)
def test_a_damaged_record_is_never_as_if_there_were_none(
    record: bytes, tmp_path: Path, refused: Refused, cache: Path
) -> None:
    cache.mkdir()
    (cache / "rice.sha256.json").write_bytes(record)
    message = refused(good(tmp_path), ("rice.sha256.json",))
    assert message.startswith(f"{cache / 'rice.sha256.json'} is no record of ") and "delete it" in message
    assert (cache / "rice.sha256.json").read_bytes() == record


def test_a_truncated_record_and_a_changed_archive_say_which_file_to_delete(
    tmp_path: Path, refused: Refused, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "urlopen", lambda url, timeout: io.BytesIO(good(tmp_path)))
    tables.get("rice")
    record = cache / "rice.sha256.json"
    whole = record.read_bytes()
    (cache / "rice.npz").unlink()
    assert f"if it was meant to change, delete {record}; else" in refused(
        good(tmp_path, seed=1), (record.name, "rice.zip")
    )
    record.write_bytes(whole[:40])
    assert f"{record} is no record" in refused(good(tmp_path), (record.name, "rice.zip"))
    record.unlink()
    record.mkdir()
    assert f"{record} is no record" in refused(good(tmp_path), (record.name, "rice.zip"))


def test_two_first_downloads_at_once_trust_the_same_file(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one process reads its archive, another one finishes with another archive."""
    prepare = tables.prepare

    def slow(*args: Any, **kwargs: Any) -> Any:
        prepared = prepare(*args, **kwargs)
        (cache / "rice.sha256.json").write_text(json.dumps({RICE: "0" * 64}))
        return prepared

    monkeypatch.setattr(tables, "prepare", slow)
    monkeypatch.setattr(web, "urlopen", lambda url, timeout: io.BytesIO(good(tmp_path)))
    with pytest.raises(ValueError, match=f"and not {'0' * 64}; if it was meant to change, delete "):
        tables.get("rice")
    assert [path.name for path in cache.iterdir()] == ["rice.sha256.json"]


def encrypted(content: bytes) -> bytes:
    changed = bytearray(content)
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        changed[content.index(signature) + offset] |= 1
    return bytes(changed)


def of_kind(content: bytes, kind: int) -> bytes:
    changed = bytearray(content)
    for signature, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        struct.pack_into("<H", changed, content.index(signature) + offset, kind)
    return bytes(changed)


def test_archives_that_attack_are_one_sentence(tmp_path: Path, refused: Refused) -> None:
    text = rice(tmp_path)
    whole = good(tmp_path)
    half = len(whole) // 2
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = packed((RICE, text), (RICE, text))
    for content, message in [
        (b"", "is no .zip file with Rice_Cammeo_Osmancik.arff; get it by hand"),
        (b"<html>log in</html>", "is no .zip file with Rice_Cammeo_Osmancik.arff; get it by hand"),
        (packed((RICE, bytes(2 * 10**7))), "has 20 MB of data and this data set has at most 16 MB"),
        (twice, "has two files of one name"),
        (packed((RICE, text), (f"other/{RICE.upper()}", text)), f"has 2 files '{RICE}'; leave one of them"),
        (packed((f"../../{RICE}/x", text)), f"no file '{RICE}' in https://"),
        (packed(("a.txt", text)), "it has a.txt; get it by hand from"),
        (encrypted(whole), "is encrypted"),
        (of_kind(whole, 97), "is packed in another way than .zip files are"),
        (packed((RICE, text), compression=ZIP_BZIP2), "is packed in another way than .zip files are"),
        (whole[:half] + bytes([whole[half] ^ 255]) + whole[half + 1 :], "is a damaged .zip file ("),
        (whole[:half], "is a damaged .zip file (File is not a zip file)"),
        (packed(*((f"{number}" * 250, "") for number in range(9) for _ in [0])) + b"PK\5\6", "is a damaged .zip file"),
    ]:
        assert message in refused(content), message


def test_a_long_list_of_files_is_not_read(refused: Refused) -> None:
    assert "the list of its files is too long" in refused(packed(*((f"{n:060000}", "") for n in range(71))))


def test_an_archive_that_leads_out_of_its_folder_writes_nothing_there(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = packed((f"../../../{RICE}", rice(tmp_path)))
    monkeypatch.setattr(web, "urlopen", lambda url, timeout: io.BytesIO(content))
    assert len(tables.get("rice").data.y) == 50
    assert {path.name for path in cache.parent.iterdir()} == {"cache", "50-0.arff"}


class Server:
    """Answers every connection with the same bytes, in pieces, and hangs up."""

    def __init__(self, *pieces: bytes | threading.Event) -> None:
        self.pieces, self.socket = pieces, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/rice.zip"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(2**16)
                try:
                    for piece in self.pieces:
                        if isinstance(piece, bytes):
                            connection.sendall(piece)
                        else:
                            piece.wait(60)
                except OSError:
                    pass


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Serve pieces of an answer; return the address."""
    servers: list[Server] = []

    def start(*pieces: bytes | threading.Event) -> str:
        servers.append(Server(*pieces))
        monkeypatch.setitem(SOURCES, "rice", replace(SOURCES["rice"], url=servers[-1].url))
        return servers[-1].url

    yield start
    for server in servers:
        server.socket.close()


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "Remote end closed connection without response"),
        (b"NONSENSE " + b"x" * 30_000 + b"\r\n\r\n", "NONSENSE xxxx"),
        (OK + b"X: " + b"y" * 70_000 + b"\r\n\r\n", "got more than 65536 bytes"),
        (OK + b"".join(b"X%d: y\r\n" % n for n in range(200)) + b"\r\n", "got more than 100 headers"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc", "IncompleteRead(0 bytes read)"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n10\r\nabc", "IncompleteRead("),
        (OK + b"Content-Length: 900\r\n\r\nabc", "it breaks off after 3 bytes"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
            "Redirection to url 'file:///etc/passwd' is not",
        ),
        (b"HTTP/1.1 302 Found\r\nLocation: ftp://127.0.0.1/a.zip\r\n\r\n", "it leads to ftp://127.0.0.1/a.zip"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n", "Invalid IPv6 URL"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:a/\r\n\r\n", "nonnumeric port"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "Not Found"),
    ],
)
def test_a_server_that_misbehaves_is_one_sentence(
    answer: bytes, message: str, served: Callable[..., str], cache: Path
) -> None:
    url = served(answer)
    with pytest.raises(ConnectionError) as raised:
        load("rice")
    text = str(raised.value)
    assert text.startswith(f"{url} could not be downloaded (") and message in text, text
    assert "; get it by hand from " in text and "\n" not in text and len(text) < 400 and not cache.exists()


def test_a_redirect_to_the_same_kind_of_address_is_followed(tmp_path: Path, served: Callable[..., str]) -> None:
    content = good(tmp_path)
    target = served(OK + b"Content-Length: %d\r\n\r\n" % len(content) + content)
    served(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\n\r\n".encode())
    assert len(tables.get("rice").data.y) == 50


@pytest.mark.parametrize("start", [b"", OK, OK + b"Content-Length: 900\r\n\r\nabc"])
def test_a_server_cannot_hold_a_download_for_ever(
    start: bytes, served: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes within the time of silence, before the headers, amid them or behind them."""
    done = threading.Event()
    monkeypatch.setattr(web, "PATIENCE", 0.2)
    served(start, done)
    with pytest.raises(ConnectionError, match=r"it takes longer than 0\.2 seconds"):
        load("rice")
    done.set()


def test_an_endless_answer_ends(served: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    served(OK + b"\r\n", *[b"0" * 10**6] * 50)
    monkeypatch.setitem(SOURCES, "rice", replace(SOURCES["rice"], megabytes=1))
    with pytest.raises(ConnectionError, match="it is larger than 1,000,000 bytes"):
        load("rice")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ssl.SSLCertVerificationError("certificate verify failed"), "certificate verify failed"),
        (TimeoutError("timed out"), "timed out"),
        (BadStatusLine("\x1b[31m" + "x" * 10**6), "xxx..."),
        (UnicodeError("label too long"), "label too long"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_faults_of_the_network_are_one_sentence(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def urlopen(url: str, timeout: float) -> Any:
        raise error

    monkeypatch.setattr(web, "urlopen", urlopen)
    with pytest.raises(ConnectionError) as raised:
        load("rice")
    assert message in str(raised.value) and str(raised.value).isprintable() and len(str(raised.value)) < 400


def test_an_address_that_is_no_web_page_is_refused() -> None:
    for url in ("file:///etc/passwd", "ftp://127.0.0.1/a", "data:,a"):
        with pytest.raises(ConnectionError, match="unknown url type"):
            web.download(url, 100, "get it by hand.")


def test_a_full_disk_names_the_file_and_leaves_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second file that is written, the record, finds no room; nor does the prepared file."""
    monkeypatch.setattr(web, "urlopen", lambda url, timeout: io.BytesIO(good(tmp_path)))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*rice\.sha256\.json'"):
            tables.get("rice")
    assert list(cache.iterdir()) == []
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*rice\.npz'"):
        tables.get("rice")
    assert sorted(path.name for path in cache.iterdir()) == ["rice.sha256.json", "rice.zip"]


@pytest.mark.filterwarnings("ignore:.*generated sample")
def test_a_prepared_file_damaged_anywhere_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "rice.npz"
    sample.write("rice", tmp_path / RICE)
    prepared = tables.prepare("rice", tmp_path / RICE)
    tables.data.save(prepared, path)
    whole = path.read_bytes()
    for number, at in enumerate(range(0, len(whole), len(whole) // 150)):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << number % 8)]) + whole[at + 1 :])
        tables.data.facts_of(path)
        try:
            found = tables.data.load(path)
        except ValueError as error:
            assert "is no prepared data set" in str(error) and "\n" not in str(error)
        else:
            assert (found.data.X == prepared.data.X).all() and (found.data.y == prepared.data.y).all()
