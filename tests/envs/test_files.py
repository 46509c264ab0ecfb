import os
import signal
import subprocess
import sys
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


def test_a_process_killed_in_the_middle_leaves_no_file_but_one_to_remove(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom privbandit_envs.files import atomic\n"
        f"with atomic(Path({str(path)!r})) as file:\n"
        "    file.write('half'); file.flush(); print('half', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "half\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not path.exists() and len(list(tmp_path.iterdir())) == 1
    remove_leftovers(path)
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
