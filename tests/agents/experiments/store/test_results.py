"""Result files: whole or not at all, and every damage is noticed."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from privbandit_agents.experiments import Trial, load_results
from privbandit_agents.experiments.names import result_path
from privbandit_agents.experiments.results.frame import COLUMNS
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.store import results
from privbandit_agents.experiments.store.locks import lock
from privbandit_agents.experiments.store.results import (
    CorruptResultError,
    Finished,
    StaleResultError,
    encode,
    read_result,
    write_result,
)

ALONE = Engine(jobs=1)
BY = {"privbandit": "1", "commit": None}


def result(seed: int = 0, trial: Trial | None = None, **arrays: Any) -> Finished:
    trial = trial or Trial("privbandit/Linear-v0", "linucb", 20, seed, {"dim": 5}, {"alpha": 0.25}, checkpoints=2)
    values = {"checkpoints": [10, 20], "regret": [1.5, 2.25e-7], "reward": [3.0, -7.0], "seconds": [0.5], **arrays}
    series = {name: np.array(array, np.float64) for name, array in values.items()}
    return Finished("trial", trial.spec, trial.settings, series, {"simulation": "users"}, BY)


def equal(one: Finished, other: Finished) -> bool:
    return encode(one) == encode(other)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = write_result(tmp_path, result())
    assert path == tmp_path / "trials" / f"{Trial(**result().job).name}.json"
    assert equal(read_result(path), result())


def test_names_of_files_stay_as_they_are() -> None:
    """Another length, or another spelling of the spec, would make orphans of all results that people have."""
    assert result_path("out", result().name) == Path("out/trials/6e55e3f5d78bdaa4.json")


def test_errors_of_predictions_are_kept_where_there_are_some(tmp_path: Path) -> None:
    with_errors = result(1, mad=[0.5, 0.25], mse=[0.3, 0.125])
    assert equal(read_result(write_result(tmp_path, with_errors)), with_errors)
    with pytest.raises(CorruptResultError, match="not the result of its job"):
        read_result(write_result(tmp_path, result(2, mad=[0.5])))


def test_scores_are_kept_with_the_reasons_of_those_that_could_not_run(tmp_path: Path) -> None:
    arrays = {"accuracy": np.array([0.5, np.nan]), "seconds": np.array([0.1, np.nan])}
    job = {"world": {}, "method": {"grid": {"depth": [1, 2]}}, "epsilon": 1, "replication": 0}
    fit = Finished("fit", job, {"env": {}, "agent": {}}, arrays, {"reasons": [None, "too large."]}, BY)
    assert read_result(write_result(tmp_path, fit)).reasons == [None, "too large."]
    for reasons in ([None, None], ["no", "no"], [None], [None, 3]):
        with pytest.raises(CorruptResultError, match="not the result of its job"):
            read_result(write_result(tmp_path, replace(fit, notes={"reasons": reasons})))


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = write_result(tmp_path, result())
    raw = path.read_bytes()
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(CorruptResultError):
            read_result(path)


def test_every_changed_letter_case_is_noticed(tmp_path: Path) -> None:
    path = write_result(tmp_path, result())
    raw = path.read_bytes()
    for position in np.flatnonzero([bytes([byte]).isalpha() for byte in raw]):
        damaged = bytearray(raw)
        damaged[position] ^= 0x20
        path.write_bytes(damaged)
        with pytest.raises(CorruptResultError):
            read_result(path)


@pytest.mark.parametrize("keep", [0, 1, 40, -1, -2])
def test_truncation_is_noticed(tmp_path: Path, keep: int) -> None:
    path = write_result(tmp_path, result())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptResultError, match=r"is corrupt: .*delete it and run the job again\.$"):
        read_result(path)


def test_a_result_under_another_trials_name_is_noticed(tmp_path: Path) -> None:
    path = write_result(tmp_path, result())
    other = path.rename(path.with_name("0123456789abcdef.json"))
    with pytest.raises(CorruptResultError):
        read_result(other)


def test_another_schema_is_not_called_corrupt(tmp_path: Path) -> None:
    path = write_result(tmp_path, result())
    for text, found in ((b'"schema":3', "3"), (b'"schema":5', "5"), (b'"schema":"offline-1"', "'offline-1'")):
        path.write_bytes(encode(result()).replace(b'"schema":4', text))
        with pytest.raises(StaleResultError, match=f"has schema {found}, not 4: another version wrote it"):
            read_result(path)


def test_a_failure_while_writing_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(finished: Finished) -> bytes:
        raise OSError("no space left on device")

    for before in ([], [write_result(tmp_path / "old", result()).name]):
        folder = tmp_path / ("old" if before else "new")
        with monkeypatch.context() as patched, pytest.raises(OSError, match="no space"):
            patched.setattr(results, "encode", full)
            write_result(folder, result(seconds=[9.0]))
        assert os.listdir(folder / "trials") == before
    assert read_result(result_path(tmp_path / "old", result().name)).seconds == 0.5


def test_load_results_is_one_row_per_checkpoint(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_result(tmp_path, result(seed))
    frame = load_results(tmp_path).sort("seed", "checkpoint")
    assert tuple(frame.columns[: len(COLUMNS)]) == COLUMNS and frame.height == 4
    assert frame["env"].unique().to_list() == ["privbandit/Linear-v0(dim=5)"]
    assert frame["config"].unique().to_list() == ['{"alpha":0.25}']
    assert frame["seed"].to_list() == [0, 0, 1, 1] and frame["checkpoint"].to_list() == [10, 20, 10, 20]
    assert frame["regret"].to_list() == [1.5, 2.25e-7] * 2 and frame["regret"].dtype == pl.Float64


def test_load_results_leaves_a_corrupt_file_out(tmp_path: Path) -> None:
    write_result(tmp_path, result(0))
    write_result(tmp_path, result(1)).write_bytes(b"")
    with pytest.warns(UserWarning, match="is corrupt"):
        frame = load_results(tmp_path)
    assert frame["seed"].unique().to_list() == [0]


def test_a_result_that_vanishes_while_they_are_read_is_left_out(tmp_path: Path) -> None:
    write_result(tmp_path, result(0))
    (tmp_path / "trials" / "0123456789abcdef.json").symlink_to("nowhere.json")
    with pytest.warns(UserWarning, match=r"0123456789abcdef\.json is not there any more\. It is left out"):
        frame = load_results(tmp_path)
    assert frame["seed"].unique().to_list() == [0]


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"no results in {tmp_path}; `privbandit run"):
        load_results(tmp_path)


def test_files_are_set_aside_under_numbers(tmp_path: Path) -> None:
    trial = Trial("privbandit/Linear-v0", "uniform", 30, 0)
    for _ in range(3):
        run_jobs([trial], tmp_path, ALONE)
        folder_instead(result_path(tmp_path, trial.name))
        with pytest.warns(UserWarning, match="the job runs again"):
            run_jobs([trial], tmp_path, ALONE)
    names = {path.name for path in (tmp_path / "trials").glob("*.corrupt*")}
    assert names == {f"{trial.name}.json.corrupt{number}" for number in ("", "-2", "-3")}


def test_a_folder_that_cannot_be_a_folder_fails_its_trials(tmp_path: Path) -> None:
    (tmp_path / "trials").touch()
    done, failures = run_jobs([Trial("privbandit/Linear-v0", "uniform", 30, 0)], tmp_path, ALONE)
    assert not done and "NotADirectoryError" in failures[0].error


def test_numbers_come_back_as_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    wild = [*(rng.standard_normal(998) * 10.0 ** rng.integers(-300, 148, 998)), 5e-324, -9.99e149]
    trial = Trial(**{**result().job, "horizon": 1000})
    path = write_result(tmp_path, result(trial=trial, checkpoints=range(1, 1001), regret=wild, reward=wild))
    assert read_result(path).arrays["regret"].tolist() == wild
    assert load_results(tmp_path)["regret"].to_list() == wild


def older(path: Path) -> None:
    """Turn a result file into what an earlier version wrote, with its right checksum."""
    body = path.read_bytes().splitlines()[1].replace(b'"job":', b'"trial":')
    header = results.header_of(body).replace(b'"schema":4', b'"schema":3')
    path.write_bytes(b"%b\n%b\n" % (header, body))


def with_default(path: Path) -> None:
    """Turn a result file into that of a version in which a setting had another default."""
    changed = read_result(path)
    changed.settings["agent"]["ridge"] = 7.0
    path.write_bytes(encode(changed))


def swapped(path: Path) -> None:
    """Put another trial's result in place."""
    with_part(path, job=Trial("privbandit/Linear-v0", "uniform", 20, 99).spec)


def flipped(path: Path) -> None:
    """Flip one bit of a regret."""
    raw = bytearray(path.read_bytes())
    raw[raw.index(b'"regret":"') + 12] ^= 1
    path.write_bytes(raw)


def with_part(path: Path, **part: Any) -> None:
    """Write a result with a part changed, with the right checksum."""
    path.write_bytes(encode(replace(read_result(path), **part)))


def with_arrays(path: Path, **arrays: Any) -> None:
    """Write a result with arrays changed, with the right checksum."""
    with_part(path, arrays={**read_result(path).arrays, **arrays})


def cut_short(path: Path) -> None:
    """Write only the first checkpoints, with the right checksum."""
    whole = read_result(path).arrays
    with_arrays(path, **{key: whole[key][:3] for key in ("checkpoints", "regret", "reward")})


def folder_instead(path: Path) -> None:
    """Put a folder in place of a file."""
    path.unlink()
    path.mkdir()


def worded(raw: bytes) -> bytes:
    """Return the bytes of a result whose seconds are a word, with the right checksum."""
    body = re.sub(rb'"seconds":"[^"]*"', b'"seconds":"x"', raw.splitlines()[1])
    return b"%b\n%b\n" % (results.header_of(body), body)


def half(path: Path) -> None:
    """Write a result that lacks an array, with the right checksum."""
    with_part(path, arrays={key: array for key, array in read_result(path).arrays.items() if key != "regret"})


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "flipped bit": flipped,
    "newer version": lambda path: path.write_bytes(path.read_bytes().replace(b'"schema":4', b'"schema":5')),
    "older version": older,
    "other defaults": with_default,
    "foreign file": lambda path: path.write_text('{"regret": [1, 2, 3]}\n'),
    "another trial": swapped,
    "written twice": lambda path: path.write_bytes(path.read_bytes() * 2),
    "half a result": half,
    "a folder": folder_instead,
    "an array of another length": lambda path: with_arrays(path, regret=np.ones(29)),
    "arrays cut short": cut_short,
    "no settings": lambda path: with_part(path, settings=None),
    "another kind": lambda path: with_part(path, kind="fit"),
    "empty settings": lambda path: with_part(path, settings={}),
    "settings that are a list": lambda path: with_part(path, settings={"env": [], "agent": {}}),
    "no provenance": lambda path: with_part(path, provenance={}),
    "no notes": lambda path: with_part(path, notes={}),
    "two times": lambda path: with_arrays(path, seconds=np.ones(2)),
    "a regret that is no number": lambda path: with_arrays(path, regret=np.full(30, np.nan)),
    "a reward beyond all numbers": lambda path: with_arrays(path, reward=np.full(30, np.inf)),
    "users that go back": lambda path: with_arrays(path, checkpoints=np.r_[2, 1, np.arange(3, 31)]),
    "times in words": lambda path: path.write_bytes(worded(path.read_bytes())),
    "a wrong body": lambda path: path.write_bytes(b"%b\n[1,2]\n" % results.header_of(b"[1,2]")),
}


def test_results_damaged_in_any_way_are_set_aside_and_run_again(tmp_path: Path) -> None:
    trials = [Trial("privbandit/Linear-v0", "linucb", 30, seed, {"dim": 3}) for seed in range(len(DAMAGES) + 1)]
    run_jobs(trials, tmp_path, ALONE)
    before = load_results(tmp_path).drop("seconds")
    paths = [result_path(tmp_path, trial.name) for trial in trials]
    untouched = paths.pop().stat().st_mtime_ns
    for path, damage in zip(paths, DAMAGES.values(), strict=True):
        damage(path)
    with pytest.warns(UserWarning) as caught:
        counted = load_results(tmp_path)["seed"].unique().to_list()
    assert counted == [len(DAMAGES)] and len(caught) == len(DAMAGES)
    with pytest.warns(UserWarning, match="the job runs again") as caught:
        done, failures = run_jobs(trials, tmp_path, ALONE)
    assert len(caught) == len(DAMAGES) and len(done) == len(trials) and not failures
    aside = sorted(path.name.partition(".json.")[2] for path in (tmp_path / "trials").glob("*.json.*"))
    assert aside == ["corrupt"] * (len(DAMAGES) - 3) + ["stale"] * 3
    assert load_results(tmp_path).drop("seconds").equals(before)
    assert result_path(tmp_path, trials[-1].name).stat().st_mtime_ns == untouched


def test_a_lock_is_open_to_those_who_share_the_folder(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with lock(tmp_path, "job"):
            assert (tmp_path / "unfinished" / "job.lock").stat().st_mode & 0o666 == 0o666
    finally:
        os.umask(before)


def test_a_lock_that_may_not_be_opened_names_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lock(tmp_path, "job"):
        pass
    path = tmp_path / "unfinished" / "job.lock"
    path.touch()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    with pytest.raises(PermissionError, match=f"the lock of {path.owner()} may not be opened"), lock(tmp_path, "job"):
        pass
