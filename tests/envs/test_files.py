import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privbandit_envs.files import atomic, remove_leftovers


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic(tmp_path / "x.txt") as file:
        file.write("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("old")
    with atomic(path) as file:
        file.write("é")
        assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == "é".encode()
    with atomic(path, "wb") as file:
        file.write(b"bytes")
    assert path.read_bytes() == b"bytes" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_nothing(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"os.{failing}", full)
    with pytest.raises(OSError), atomic(tmp_path / "x.txt") as file:
        file.write("whole")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.wide_at("Path")
@pytest.mark.parametrize("whose", [Path, lambda path: path.with_name("*")])
def test_a_process_killed_in_the_middle_leaves_no_file_but_one_to_remove(
    whose: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom privbandit_envs.files import atomic\n"
        f"with atomic(Path({str(path)!r})) as file:\n"
        "    file.write('half'); file.flush(); print('half', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "half\n"
    (left,) = tmp_path.iterdir()
    remove_leftovers(path)
    assert list(tmp_path.iterdir()) == [left], "it is being written"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert list(tmp_path.iterdir()) == [left]
    remove_leftovers(whose(path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("permissions", "expected"), [(0o666, 0o640), (0o600, 0o600)])
def test_permissions_are_those_of_any_new_file_under_the_umask(permissions: int, expected: int, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with atomic(tmp_path / "atomic", permissions=permissions) as file:
            assert os.fstat(file.fileno()).st_mode & 0o777 == expected
        assert (tmp_path / "atomic").stat().st_mode & 0o777 == expected
    finally:
        assert os.umask(before) == 0o027


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "a.txt", tmp_path / "link"
    link.symlink_to(Path("real") / "a.txt")
    for text in ("new", "newer"):  # first it leads to nothing
        with atomic(link, follow=True) as file:
            file.write(text)
        assert link.is_symlink() and real.read_text() == text
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.txt", "link", "real"]
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"), atomic(tmp_path / "round", follow=True) as file:
        file.write("lost")
    assert (tmp_path / "round").is_symlink()


@pytest.mark.parametrize("kind", ["a link", "a link to nothing", "a circle", "a pipe", "what the process has open"])
def test_whatever_stands_at_a_fixed_name_is_replaced(kind: str, tmp_path: Path) -> None:
    path, other = tmp_path / "in" / "results.csv", tmp_path / "other"
    path.parent.mkdir()
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        to = {"a circle": path.name, "what the process has open": "/proc/self/fd/1"}
        path.symlink_to(to.get(kind, str(other)))
    if kind == "a link":
        other.write_text("mine")
    with atomic(path) as file:
        file.write("whole")
    assert path.is_file() and not path.is_symlink() and path.read_text() == "whole"
    assert other.read_text() == "mine" if kind == "a link" else not other.exists()


def test_leftovers_that_are_links_or_pipes_neither_hang_nor_lead_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    victim, folder = tmp_path / "home" / ".mine.0123abcd", tmp_path / "in"
    victim.write_text("mine")
    folder.mkdir()
    os.mkfifo(folder / ".a.csv.0123abcd")
    (folder / "mine").symlink_to(tmp_path / "home" / "mine")
    remove_leftovers(folder / "*")
    remove_leftovers(folder / "mine")
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_pipe_gets_the_whole_content_and_stays_a_pipe(mode: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    copy = tmp_path / "copy"
    with copy.open("wb") as file, subprocess.Popen(["cat", pipe], stdout=file):
        while True:  # until the reader is there
            try:
                with atomic(pipe, mode, follow=True) as written:
                    written.write("é" * 10**6 if mode == "w" else b"\0" * 10**6)
                break
            except OSError as error:
                assert error.errno == errno.ENXIO
    assert copy.read_bytes() == (("é" * 10**6).encode() if mode == "w" else b"\0" * 10**6)
    assert pipe.is_fifo() and sorted(tmp_path.iterdir()) == [copy, pipe]


def test_a_pipe_without_a_reader_is_refused_and_half_a_content_never_sent(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match=r"No such device.*pipe"), atomic(pipe, follow=True) as file:
        file.write("nobody reads it")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(RuntimeError), atomic(pipe, follow=True) as file:
        file.write("half")
        raise RuntimeError
    assert os.read(reader, 100) == b"" and pipe.is_fifo()
    os.close(reader)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the system's folder of open files")
@pytest.mark.wide_at("a file *")
@pytest.mark.parametrize("how", ["a pipe", "a file that is appended to"])
def test_what_the_process_has_open_is_written_into(how: str, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom privbandit_envs.files import atomic\n"
        "print('before')\n"
        "with atomic(Path('own'), follow=True) as file: file.write('page\\n')\nprint('after')"
    )
    (tmp_path / "own").symlink_to("/proc/self/fd/1")  # what the system's own name for it leads to
    log = tmp_path / "log"
    log.write_text("old\n")
    with log.open("a") as file:
        stdout = subprocess.PIPE if how == "a pipe" else file
        done = subprocess.run([sys.executable, "-c", code], stdout=stdout, cwd=tmp_path, text=True, check=True)
    said = f"old\n{done.stdout}" if how == "a pipe" else log.read_text()
    assert said == "old\nbefore\npage\nafter\n" and (tmp_path / "own").is_symlink()
