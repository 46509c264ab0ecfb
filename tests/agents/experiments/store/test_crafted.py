"""Crafted files: a right result or a sentence, without the work that the file asks for, and without losing the rest."""

import io
import json
import os
import zipfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from privbandit_agents import load, load_results, make, save
from privbandit_agents.base import state
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.names import canonical
from privbandit_agents.experiments.results.files import write_data
from privbandit_agents.experiments.results.frame import inert
from privbandit_agents.experiments.schema.yaml_text import from_yaml
from privbandit_agents.experiments.store.results import Finished, header_of, read_result, write_result

from privbandit_envs.tables.reading import parquet

LINEAR = "privbandit/Linear-v0"


def result(seed: int) -> Finished:
    trial = Trial(LINEAR, "uniform", 100, seed, {"dim": 2}, checkpoints=2)
    arrays = {name: np.array([50.0, 100.0]) for name in ("checkpoints", "regret", "reward")}
    promise = {"notion": "none", "epsilon": None, "delta": None, "rho": None}
    notes = {"simulation": "users", "guarantee": promise, "privacy": "none", "visits": 1, "played": "uniform"}
    by = {"privbandit": "1", "commit": None}
    return Finished("trial", trial.spec, trial.settings, {**arrays, "seconds": np.array([0.1])}, notes, by)


def crafted(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Write a result with one part changed, with its right checksum and name."""
    whole = result(7)
    path = write_result(folder, whole)
    arrays = {name: b64encode(array.tobytes()).decode() for name, array in whole.arrays.items()}
    parts = {"kind": whole.kind, "job": whole.job, "settings": whole.settings, "arrays": arrays, "notes": whole.notes}
    parts = json.loads(json.dumps({**parts, "provenance": whole.provenance}))
    change(parts)
    body = canonical(parts).encode()
    path.write_bytes(b"%b\n%b\n" % (header_of(body), body))
    return path


def curves(value: float) -> str:
    return b64encode(np.array([value, value]).tobytes()).decode()


CRAFTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "an unknown key in job": lambda parts: parts["job"].update(more=1),
    "an unknown key in a guarantee": lambda parts: parts["notes"]["guarantee"].update(more=1),
    "a text for epsilon": lambda parts: parts["notes"]["guarantee"].update(epsilon="1"),
    "no notion": lambda parts: parts["notes"]["guarantee"].pop("notion"),
    "a text for visits": lambda parts: parts["notes"].update(visits="1"),
    "true for visits": lambda parts: parts["notes"].update(visits=True),
    "10^30 visits": lambda parts: parts["notes"].update(visits=10**30),
    "a list for played": lambda parts: parts["notes"].update(played=["x"]),
    "an unknown note": lambda parts: parts["notes"].update(more=1),
    "an unknown array": lambda parts: parts["arrays"].update(more=curves(1.0)),
    "curves of 1e300": lambda parts: parts["arrays"].update(regret=curves(1e300)),
    "curves without numbers": lambda parts: parts["arrays"].update(regret=curves(np.nan)),
    "a color of the terminal": lambda parts: parts["job"].update(agent="\x1b[31mred"),
    "a byte that deletes": lambda parts: parts["notes"].update(privacy="none\x7f"),
    "a return of the carriage": lambda parts: parts["job"]["config"].update(a="x\r"),
    "a horizon of 1.0": lambda parts: parts["job"].update(horizon=1.0),
    "a seed below 0": lambda parts: parts["job"].update(seed=-1),
    "a list for settings": lambda parts: parts.update(settings=[]),
    "another kind": lambda parts: parts.update(kind="play"),
    "a number for a version": lambda parts: parts["provenance"].update(commit=3),
}


@pytest.mark.parametrize("craft", CRAFTS)
def test_a_crafted_result_is_named_and_the_rest_of_the_folder_is_read(craft: str, tmp_path: Path) -> None:
    write_result(tmp_path, result(0))
    path = crafted(tmp_path, CRAFTS[craft])
    with pytest.warns(UserWarning, match=rf"{path.name} is not the result of its job \([^\n]+\); .* It is left out"):
        assert load_results(tmp_path)["seed"].unique().to_list() == [0]


def test_texts_with_backslashes_and_of_any_script_are_read(tmp_path: Path) -> None:
    trial = Trial(LINEAR, "uniform", 100, 3, {"dim": 2}, {"a": "\\u001b \\x1b é 漢 \U0001f600 a\tb\n"}, 2)
    path = write_result(tmp_path, Finished(**{**vars(result(3)), "job": trial.spec}))
    assert read_result(path).job == trial.spec


def test_a_pipe_or_a_device_in_place_of_a_result_does_not_hang(tmp_path: Path) -> None:
    write_result(tmp_path, result(0))
    os.mkfifo(tmp_path / "trials" / "0123456789abcdef.json")
    (tmp_path / "trials" / "fedcba9876543210.json").symlink_to("/dev/zero")
    with pytest.warns(UserWarning, match="it is no regular file"):
        assert load_results(tmp_path)["seed"].unique().to_list() == [0]


def packed(path: Path) -> None:
    """Pack the parts of a file that ``np.savez`` wrote."""
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def bomb(path: Path) -> None:
    """Add a part that says it has 10^12 numbers."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.npy", header.getvalue())


@pytest.mark.parametrize(("craft", "why"), [(packed, "must be stored as they are"), (bomb, "has fewer bytes than")])
def test_a_saved_agent_that_would_fill_the_memory_is_refused_at_once(
    craft: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    env, path = gym.make(LINEAR), tmp_path / "agent.npz"
    save(make("linucb", env), path)
    craft(path)
    with pytest.raises(ValueError, match=f"agent.npz is damaged, or is no saved agent: .*{why}"):
        load(path, env)


@pytest.mark.parametrize(("agent", "key", "value"), [("prec-ts", "refit_at", 2**63), ("lpct", "n_labels", 10**6)])
def test_counters_beyond_all_users_and_sizes_of_other_spaces_are_refused(
    agent: str, key: str, value: int, tmp_path: Path
) -> None:
    env, path = gym.make("privbandit/Classification-v0" if agent == "lpct" else LINEAR), tmp_path / "agent.npz"
    save(make(agent, env), path)
    arrays, values = state.read(path)
    if key not in values["state"]:
        pytest.skip(f"{agent} has no {key}")
    values["state"][key] = value
    state.write(path, arrays, values)
    with pytest.raises(ValueError, match=r"agent\.npz was saved by another version"):
        load(path, env)


def test_merges_that_stand_for_billions_are_refused_at_once() -> None:
    levels = [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}], k{n}: 1}}" for n in range(1, 12)]
    text = "\n".join(["a0: &a0 {x: 1}", *levels])
    with pytest.raises(ValueError, match="stand for more than 1,000,000 values"):
        from_yaml(text)
    with pytest.raises(ValueError, match="more than 1,000,000 characters"):
        from_yaml("x" * 1_000_001)
    assert from_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}


def test_flipped_bits_of_a_table_of_results_are_noticed(tmp_path: Path) -> None:
    """Of 100 flipped bits at most 5, those in what the file says of itself, pass as other numbers."""
    frame = pl.DataFrame({"regret": np.random.default_rng(0).random(300), "agent": ["a", "b"] * 150})
    write_data(frame, tmp_path)
    path, rng = tmp_path / "results.parquet", np.random.default_rng(1)
    raw = path.read_bytes()
    assert parquet(path).equals(frame)
    unseen = 0
    for _ in range(100):
        changed = bytearray(raw)
        changed[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            unseen += not parquet(path).equals(frame)
        except Exception:
            continue
    assert unseen <= 5


@pytest.mark.wide
def test_a_table_that_says_it_has_billions_of_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"x": pa.array(np.zeros(2**27 + 1, np.int8))}), path)
    with pytest.raises(ValueError, match="a hundred times its size"):
        parquet(path)


def test_texts_that_are_formulas_stand_after_an_apostrophe() -> None:
    frame = pl.DataFrame({"agent": ["=1+1", "@x", "+cmd", "-cmd", "-1", "+.5", "-inf", "a=b"], "n": [1] * 8})
    assert inert(frame)["agent"].to_list() == ["'=1+1", "'@x", "'+cmd", "'-cmd", "-1", "+.5", "-inf", "a=b"]
    assert inert(frame)["n"].to_list() == [1] * 8
