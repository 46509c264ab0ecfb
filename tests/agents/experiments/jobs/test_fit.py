"""Fits: what a grid costs, what cannot run, and what is kept of it."""

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from privbandit_agents.experiments.jobs.fit import Fit
from privbandit_agents.experiments.jobs.job import Desk
from privbandit_agents.experiments.jobs.method import Method
from privbandit_agents.experiments.jobs.rows import World, draw
from privbandit_agents.experiments.names import result_path
from privbandit_agents.experiments.running.attempt import Failure, attempt, run_job
from privbandit_agents.experiments.running.engine import DIED, Engine, run_jobs
from privbandit_agents.experiments.store.results import Finished, known_result, write_result

LPCT = {"name": "LPCT", "agent": "lpct", "grid": {"depth": [1, 2, 3], "weight": [1, 10]}}
KNOWN = """
import copy, os, pathlib
import numpy as np

class Known:
    '''Says 0 for weight 1 and 1 for others, and counts its fits; some depths are too much for it, one kills.'''
    def __init__(self, agent, settings=None, *, classes=None, random_state=None, **own):
        self.settings = dict(settings)
    def fit(self, X, y, X_public, y_public):
        depth = self.settings.get("depth", 1)
        with (pathlib.Path(__file__).parent / "fits").open("a") as file: file.write(f"{depth}\\n")
        if depth == 2: raise ValueError("no room")
        if depth == 15 and (pathlib.Path(__file__).parent / "full").exists(): raise MemoryError("no memory")
        if depth == 16 and (pathlib.Path(__file__).parent / "full").exists(): os.kill(os.getpid(), 9)
        return self
    def reprocessed(self, **settings):
        other = copy.copy(self)
        other.settings = self.settings | settings
        return other
    def predict(self, X):
        return np.full(len(X), 0 if self.settings.get("weight") == 1 else 1)
"""


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a module with a stand-in estimator, and of its list of fits."""
    (tmp_path / "known_estimator.py").write_text(KNOWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier test do not know this folder
    yield tmp_path
    get_reusable_executor().shutdown(wait=True)
    sys.modules.pop("known_estimator", None)


def known_method(**more: Any) -> Method:
    return Method(**{**LPCT, "estimator": "known_estimator:Known", **more})


def test_a_grid_is_fitted_once_for_each_report_and_what_cannot_run_has_a_reason(known: Path) -> None:
    fit = Fit(World(n_private=100, n_test=200), known_method(), 1.0, 0)
    found = fit.run(Desk(known))
    zeros = float((draw(fit.world, 0).test[1] == 0).mean())
    expected = [zeros, 1 - zeros, np.nan, np.nan, zeros, 1 - zeros]
    assert found.arrays["accuracy"].tolist() == pytest.approx(expected, nan_ok=True)
    assert found.notes["reasons"] == [None, None, "no room", "no room", None, None]
    assert np.isnan(found.arrays["seconds"]).tolist() == [False, False, True, True, False, False]
    assert (known / "fits").read_text().split() == ["1", "2", "3"]


def accuracies(results: Mapping[str, Finished]) -> dict[str, list[float]]:
    return {name: found.arrays["accuracy"].tolist() for name, found in results.items()}


def test_finished_fits_are_not_run_again_and_damaged_ones_are(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", math.inf)  # in this process
    fits = [Fit(World(n_private=100, n_test=200), known_method(), 1.0, replication) for replication in range(4)]
    folder, engine = known / "out", Engine(jobs=1)
    first, failures = run_jobs(fits, folder, engine)
    assert len(first) == 4 and not failures and not (folder / "unfinished").exists()
    paths = [result_path(folder, fit.name) for fit in fits]
    paths[0].unlink()
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    (known / "fits").unlink()
    with pytest.warns(UserWarning, match="set aside"):
        again, _ = run_jobs(fits, folder, engine)
    assert len((known / "fits").read_text().split()) == 2 * 3
    assert str(accuracies(again)) == str(accuracies(first))
    assert paths[1].with_name(f"{paths[1].name}.corrupt").exists()
    changed = Fit(fits[2].world, fits[2].method, 2.0, 2)
    assert changed.name != fits[2].name and known_result(folder, changed.name, changed.settings) is None
    with pytest.warns(UserWarning, match="other defaults"):
        assert known_result(folder, fits[2].name, {"env": {}, "agent": {}}) is None


@pytest.mark.wide
def test_a_fit_that_lacks_memory_fails_and_is_tried_again(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is told that there is no memory, one is killed for the lack of it; neither is a method that lost."""
    (known / "full").touch()
    fits = [Fit(World(n_private=100, n_test=200), known_method(), 1.0, replication) for replication in range(3)]
    fits[1:1] = [Fit(fits[0].world, known_method(grid={"depth": [depth]}), 1.0, 0) for depth in (15, 16)]
    results, failures = run_jobs(fits, known / "out", Engine(jobs=1))
    assert [failure.job for failure in failures] == fits[1:3] and len(results) == 3
    assert [failure.error for failure in failures] == ["MemoryError: no memory", DIED]
    assert not any(result_path(known / "out", fit.name).exists() for fit in fits[1:3])
    (known / "full").unlink()
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", math.inf)  # in this process
    results, failures = run_jobs(fits, known / "out", Engine(jobs=1))
    assert not failures and all(found.reasons[0] is None for found in results.values())


def test_a_lack_of_memory_that_was_stored_once_is_not_trusted(known: Path) -> None:
    fit = Fit(World(n_private=100, n_test=200), known_method(grid={"depth": [1]}), 1.0, 0)
    nothing = {"accuracy": np.array([np.nan]), "seconds": np.array([np.nan])}
    by = {"privbandit": "0.1", "commit": None}
    for reason, trusted in ((DIED, False), ("MemoryError: no memory", False), ("too many labels.", True)):
        path = write_result(known, Finished("fit", fit.spec, fit.settings, nothing, {"reasons": [reason]}, by))
        if trusted:
            assert known_result(known, fit.name, fit.settings) is not None
        else:
            with pytest.warns(UserWarning, match="a reason that may have passed"):
                assert known_result(known, fit.name, fit.settings) is None
            assert not path.exists()


def test_a_missing_package_is_told(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = Fit(World(n_private=100, n_test=200), known_method(), 1.0, 0)

    def missing(*_: Any) -> None:
        raise ModuleNotFoundError("no sklearn", name="sklearn")

    with monkeypatch.context() as patched:
        patched.setattr("privbandit_agents.experiments.jobs.fit.draw", missing)
        failed = attempt(fit, known / "out", None, 60.0, True)
        assert isinstance(failed, Failure) and "pip install 'privbandit[data]' brings it" in failed.error
    assert run_job(fit, Desk(known / "out")).reasons[0] is None


def test_a_bug_is_a_failure_and_not_a_result(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", math.inf)  # in this process
    fit = Fit(World(n_private=100, n_test=200), known_method(estimator="known_estimator:Nobody"), 1.0, 0)
    results, failures = run_jobs([fit], known / "out", Engine(jobs=1))
    assert not results and len(failures) == 1 and "AttributeError" in failures[0].error
    assert str(failures[0]).startswith("LPCT at epsilon 1 on source=lpct-synthetic")
