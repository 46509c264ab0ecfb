"""Result files: whole or not at all, and every damage is noticed."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from privbandit_agents.experiments import Trial, load_results
from privbandit_agents.experiments import store as results
from privbandit_agents.experiments.store import COLUMNS, CorruptResultError, encode, read_result, write_result


def payload(seed: int = 0, **changes: Any) -> results.Payload:
    trial = Trial("privbandit/Linear-v0", "linucb", 20, seed, {"dim": 5}, {"alpha": 0.25}, checkpoints=2)
    values = {"checkpoints": [10, 20], "regret": [1.5, 2.25e-7], "reward": [3.0, -7.0], "seconds": 0.5}
    return {"trial": trial.spec, **values, "provenance": {"host": "h"}, **changes}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = write_result(tmp_path, payload())
    assert path == tmp_path / "trials" / f"{Trial(**payload()['trial']).name}.json"
    assert read_result(path) == payload()


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = write_result(tmp_path, payload())
    raw = path.read_bytes()
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(CorruptResultError):
            read_result(path)


def test_every_changed_letter_case_is_noticed(tmp_path: Path) -> None:
    path = write_result(tmp_path, payload())
    raw = path.read_bytes()
    for position in np.flatnonzero([bytes([byte]).isalpha() for byte in raw]):
        damaged = bytearray(raw)
        damaged[position] ^= 0x20
        path.write_bytes(damaged)
        with pytest.raises(CorruptResultError):
            read_result(path)


@pytest.mark.parametrize("keep", [0, 1, 40, -1, -2])
def test_truncation_is_noticed(tmp_path: Path, keep: int) -> None:
    path = write_result(tmp_path, payload())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptResultError, match=r"is corrupt: .*delete it and run the trial again\.$"):
        read_result(path)


def test_a_result_under_another_trials_name_is_noticed(tmp_path: Path) -> None:
    path = write_result(tmp_path, payload())
    other = path.rename(path.with_name("0123456789abcdef.json"))
    with pytest.raises(CorruptResultError):
        read_result(other)


def test_a_newer_schema_is_not_called_corrupt(tmp_path: Path) -> None:
    path = write_result(tmp_path, payload())
    path.write_text(json.dumps({**json.loads(encode(payload())), "schema": 2}))
    with pytest.raises(CorruptResultError, match="another version of privbandit"):
        read_result(path)


def test_a_failure_while_writing_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(payload: results.Payload) -> bytes:
        raise OSError("no space left on device")

    for before in ([], [write_result(tmp_path / "old", payload()).name]):
        folder = tmp_path / ("old" if before else "new")
        with monkeypatch.context() as patched, pytest.raises(OSError, match="no space"):
            patched.setattr(results, "encode", full)
            write_result(folder, payload(seconds=9.0))
        assert os.listdir(folder / "trials") == before
    assert read_result(results.path_of(tmp_path / "old", results.name_of(payload()["trial"])))["seconds"] == 0.5


def test_load_results_is_one_row_per_checkpoint(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_result(tmp_path, payload(seed))
    frame = load_results(tmp_path).sort("seed", "checkpoint")
    assert tuple(frame.columns) == COLUMNS and frame.height == 4
    assert frame["env"].unique().to_list() == ["privbandit/Linear-v0(dim=5)"]
    assert frame["config"].unique().to_list() == ['{"alpha":0.25}']
    assert frame["seed"].to_list() == [0, 0, 1, 1] and frame["checkpoint"].to_list() == [10, 20, 10, 20]
    assert frame["regret"].to_list() == [1.5, 2.25e-7] * 2 and frame["regret"].dtype == pl.Float64


def test_load_results_leaves_a_corrupt_file_out(tmp_path: Path) -> None:
    write_result(tmp_path, payload(0))
    write_result(tmp_path, payload(1)).write_bytes(b"")
    with pytest.warns(UserWarning, match="is corrupt"):
        frame = load_results(tmp_path)
    assert frame["seed"].unique().to_list() == [0]


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"no results in {tmp_path}; `privbandit run"):
        load_results(tmp_path)
