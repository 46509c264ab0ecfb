"""Result files: whole or not at all, and every damage is noticed."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from privbandit_agents.experiments import Trial, load_results
from privbandit_agents.experiments import store as results
from privbandit_agents.experiments.engine import run_trials
from privbandit_agents.experiments.results import COLUMNS
from privbandit_agents.experiments.store import CorruptResultError, encode, read_result, write_result


def payload(seed: int = 0, **changes: Any) -> results.Payload:
    trial = Trial("privbandit/Linear-v0", "linucb", 20, seed, {"dim": 5}, {"alpha": 0.25}, checkpoints=2)
    values = {
        "checkpoints": [10, 20],
        "regret": [1.5, 2.25e-7],
        "reward": [3.0, -7.0],
        "seconds": 0.5,
        "simulation": "users",
    }
    return {"trial": trial.spec, "settings": trial.settings, **values, "provenance": {"host": "h"}, **changes}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = write_result(tmp_path, payload())
    assert path == tmp_path / "trials" / f"{Trial(**payload()['trial']).name}.json"
    assert read_result(path) == payload()


def test_errors_of_predictions_are_kept_where_there_are_some(tmp_path: Path) -> None:
    with_errors = payload(1, mad=[0.5, 0.25], mse=[0.3, 0.125])
    assert read_result(write_result(tmp_path, with_errors)) == with_errors
    short = payload(2, mad=[0.5])
    with pytest.raises(CorruptResultError, match="not the result of its trial"):
        read_result(write_result(tmp_path, short))


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
    for text in (b'"schema":1', b'"schema":4'):
        path.write_bytes(encode(payload()).replace(b'"schema":3', text))
        with pytest.raises(CorruptResultError, match=r"has schema [14], not 3: another version wrote it"):
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


def test_a_file_can_be_set_aside_twice(tmp_path: Path) -> None:
    trial = Trial("privbandit/Linear-v0", "uniform", 30, 0)
    for _ in range(2):
        run_trials([trial], tmp_path, jobs=1)
        folder_instead(results.path_of(tmp_path, trial.name))
        with pytest.warns(UserWarning, match="the trial runs again"):
            run_trials([trial], tmp_path, jobs=1)
    assert len(list((tmp_path / "trials").glob("*.corrupt*"))) == 2


def test_a_folder_that_cannot_be_a_folder_fails_its_trials(tmp_path: Path) -> None:
    (tmp_path / "trials").touch()
    outcomes, failures = run_trials([Trial("privbandit/Linear-v0", "uniform", 30, 0)], tmp_path, jobs=1)
    assert not outcomes and "NotADirectoryError" in failures[0].error


def test_numbers_come_back_as_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    wild = [*(rng.standard_normal(998) * 10.0 ** rng.integers(-300, 300, 998)), 5e-324, 1.7976931348623157e308]
    trial = {**payload()["trial"], "horizon": 1000}
    whole: dict[str, Any] = {"trial": trial, "settings": Trial(**trial).settings, "checkpoints": [*range(1, 1001)]}
    path = write_result(tmp_path, payload(**whole, regret=wild, reward=wild))
    assert read_result(path)["regret"] == wild
    assert load_results(tmp_path)["regret"].to_list() == wild


def older(path: Path) -> None:
    """Turn a result file into what the first version wrote."""
    header, body = path.read_text().splitlines()
    parts = {**json.loads(header), "schema": 1}
    path.write_text(f'{{"checksum":"{parts["checksum"]}","payload":{body},"schema":1}}\n')


def with_default(path: Path) -> None:
    """Turn a result file into that of a version in which a setting had another default."""
    changed = read_result(path)
    changed["settings"]["agent"]["ridge"] = 7.0
    path.write_bytes(encode(changed))


def swapped(path: Path) -> None:
    """Put another trial's result in place."""
    other = Trial("privbandit/Linear-v0", "uniform", 20, 99)
    path.write_bytes(encode({**read_result(path), "trial": other.spec}))


def flipped(path: Path) -> None:
    """Flip one bit of a regret."""
    raw = bytearray(path.read_bytes())
    raw[raw.index(b'"regret":"') + 12] ^= 1
    path.write_bytes(raw)


def with_part(path: Path, **part: Any) -> None:
    """Write a payload with a part changed, with the right checksum."""
    path.write_bytes(encode({**read_result(path), **part}))


def cut_short(path: Path) -> None:
    """Write only the first checkpoints, with the right checksum."""
    whole = read_result(path)
    with_part(path, **{key: whole[key][:3] for key in ("checkpoints", "regret", "reward")})


def folder_instead(path: Path) -> None:
    """Put a folder in place of a file."""
    path.unlink()
    path.mkdir()


def partial_payload(path: Path) -> None:
    """Write a payload that lacks its series, with the right checksum."""
    body = path.read_bytes().splitlines()[1].replace(b'"regret":', b'"regrets":')
    path.write_bytes(b"%b\n%b\n" % (results.header_of(body), body))


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "flipped bit": flipped,
    "newer version": lambda path: path.write_bytes(path.read_bytes().replace(b'"schema":3', b'"schema":4')),
    "older version": older,
    "other defaults": with_default,
    "foreign file": lambda path: path.write_text('{"regret": [1, 2, 3]}\n'),
    "another trial": swapped,
    "written twice": lambda path: path.write_bytes(path.read_bytes() * 2),
    "half a payload": partial_payload,
    "a folder": folder_instead,
    "a series of another length": lambda path: with_part(path, regret=[1.0] * 29),
    "a series cut short": cut_short,
    "no settings": lambda path: with_part(path, settings=None),
    "a wrong payload": lambda path: path.write_bytes(b"%b\n[1,2]\n" % results.header_of(b"[1,2]")),
}


def test_results_damaged_in_any_way_are_set_aside_and_run_again(tmp_path: Path) -> None:
    trials = [Trial("privbandit/Linear-v0", "linucb", 30, seed, {"dim": 3}) for seed in range(len(DAMAGES) + 1)]
    run_trials(trials, tmp_path, jobs=1)
    before = load_results(tmp_path).drop("seconds")
    paths = [results.path_of(tmp_path, trial.name) for trial in trials]
    untouched = paths.pop().stat().st_mtime_ns
    for path, damage in zip(paths, DAMAGES.values(), strict=True):
        damage(path)
    with pytest.warns(UserWarning) as caught:
        counted = load_results(tmp_path)["seed"].unique().to_list()
    assert counted == [len(DAMAGES)] and len(caught) == len(DAMAGES)
    with pytest.warns(UserWarning, match="the trial runs again") as caught:
        outcomes, failures = run_trials(trials, tmp_path, jobs=1)
    assert len(caught) == len(DAMAGES) and len(outcomes) == len(trials) and not failures
    aside = sorted(path.name.partition(".json.")[2] for path in (tmp_path / "trials").glob("*.json.*"))
    assert aside == ["corrupt"] * (len(DAMAGES) - 1) + ["stale"]
    assert load_results(tmp_path).drop("seconds").equals(before)
    assert results.path_of(tmp_path, trials[-1].name).stat().st_mtime_ns == untouched
