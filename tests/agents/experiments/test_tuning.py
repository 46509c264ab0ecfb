import json
from pathlib import Path
from typing import Any

import pytest
from privbandit_agents.cli.main import ended
from privbandit_agents.experiments.jobs.job import Desk, Ran
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.running.engine import Engine
from privbandit_agents.experiments.store.locks import only_one
from privbandit_agents.experiments.tuning import Plan, read_plan, tune
from privbandit_agents.experiments.usage import UNFINISHED, UsageError

SMALL: dict[str, Any] = {
    "env": "privbandit/Linear-v0",
    "agent": "linucb",
    "search": {"alpha": {"low": 0.01, "high": 3.0, "log": True}, "ridge": [1.0, 2.0]},
    "horizon": 100,
    "trials": 6,
    "env_kwargs": {"dim": 2, "n_arms": 2},
    "tuning": 2,
    "final": 2,
    "checkpoints": 4,
}


def test_tuning_and_table_have_other_seeds_and_the_best_is_played_again(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    plan, said = Plan(**SMALL), list[str]()
    told = tune(plan, tmp_path, said.append)
    assert not told.pop("lost") and told == json.loads((tmp_path / "tuned.json").read_text())
    assert told["seeds"] == {"tuning": [980000, 980001], "final": [990000, 990001]}
    regrets = [trial["regret"] for trial in told["trials"] if trial["regret"] is not None]
    assert regrets == sorted(regrets) and told["best"] == told["trials"][0]["settings"]
    assert len(said) == len(told["trials"]) == 6 and set(told["final"]) == {"defaults", "tuned"}
    again = tune(plan, tmp_path / "again", said.append)
    assert again == told | {"lost": False}, "the same seeds, the same search"


WRONG: list[tuple[str, str]] = [
    ("search: {alpha: [1]}\nenv: privbandit/Linear-v0", "agent is missing"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {}", "search: "),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: {low: 2, high: 1}}", "low < high"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: {low: 0, high: 1, log: true}}", "low < high"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\nseeds: 3", "seeds is not a known key"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alfa: [1]}", "no setting 'alfa'"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\ntuning: 10001", "tuning: .*10000"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\nconfig: {alpha: 1}", "searched and set"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\ntrials: 0", "trials: "),
    ("env: privbandit/Lineal-v0\nagent: linucb\nsearch: {alpha: [1]}", "Lineal"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\nseed: 5000000000", "seed: "),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\ntuning: 2000000000", "tuning: "),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: {low: 1, high: 2, log: maybe}}", "true or false"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: {low: 1, high: 2.5, int: true}}", "search.alpha"),
    ("[1, 2]", "must be keys with their values"),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_a_plan_that_cannot_be_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        read_plan(path)


def plan_of(folder: Path, **changes: Any) -> Path:
    path = folder / "plan.yaml"
    path.write_text(json.dumps(SMALL | changes))
    return path


def test_a_bad_value_is_a_failed_trial_and_the_others_go_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    plan = plan_of(tmp_path, search={"alpha": [1.0, -1.0, 2.0]})
    monkeypatch.setattr("sys.argv", ["privbandit", "tune", str(plan), "--out", str(tmp_path / "out")])
    assert ended() == UNFINISHED
    out, err = capfd.readouterr()
    told = json.loads((tmp_path / "out" / "tuned.json").read_text())
    failed = [row for row in told["trials"] if "error" in row]
    assert 0 < len(failed) < 6 and all("alpha must be" in row["error"] for row in failed)
    assert told["best"] is not None and "regret" in told["final"]["tuned"]
    assert "Traceback" not in err + out and f"{len(failed)} of the runs failed" in err
    assert not (tmp_path / "out" / "unfinished").exists()
    assert ended() == UNFINISHED
    kept = json.loads((tmp_path / "out" / "tuned.json.stale").read_text())
    assert kept == told, "what was found before is not lost"


def test_a_tuning_that_cannot_write_says_so_and_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "tuned.json").mkdir()
    monkeypatch.setattr("sys.argv", ["privbandit", "tune", str(plan_of(tmp_path)), "--out", str(tmp_path)])
    assert ended() == UNFINISHED
    out, err = capfd.readouterr()
    assert "tuned: regret" in out and (out + err).count("could not be written") == 1 and "Traceback" not in err
    assert "tuned.json has all trials" not in out


@pytest.mark.wide_at("engine1")
@pytest.mark.parametrize("engine", [None, Engine(alone=True)])
def test_a_killed_tuning_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine | None
) -> None:
    """The trial that is given up before the kill is played again, as far as it was; whole runs are not."""
    pytest.importorskip("optuna")
    played: list[str] = []

    def run(trial: Trial, desk: Desk) -> Ran:
        played.append(trial.name)
        return run_it(trial, desk)

    run_it = Trial.run
    monkeypatch.setattr(Trial, "run", run)
    plan = Plan(**SMALL)
    whole = tune(plan, tmp_path / "whole", list[str]().append, engine)
    runs, trials = list(played), list[str]()
    played.clear()

    def killed(line: str) -> None:
        trials.append(line)
        if len(trials) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(plan, tmp_path / "killed", killed, engine)
    before = set(played)
    played.clear()
    assert tune(plan, tmp_path / "killed", list[str]().append, engine) == whole
    stored = {path.stem for path in (tmp_path / "killed" / "trials").glob("*.json")}
    assert before and played and not set(played) & before & stored, "no run that was stored is played again"
    assert before | set(played) == set(runs)
    played.clear()
    assert tune(plan, tmp_path / "whole", list[str]().append, engine) == whole
    assert engine is None or not played


def test_an_engine_finds_what_one_process_finds(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    alone, together = (
        tune(Plan(**SMALL), tmp_path / name, list[str]().append, engine)
        for name, engine in (("alone", None), ("together", Engine(alone=True)))
    )
    assert alone == together


def test_a_job_that_fails_in_an_engine_is_a_failed_trial(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    plan = Plan(**{**SMALL, "search": {"alpha": [1.0, -1.0]}})
    told = tune(plan, tmp_path, list[str]().append, Engine(alone=True))
    failed = [row for row in told["trials"] if "error" in row]
    assert failed and all("alpha must be" in row["error"] for row in failed)
    assert told["best"] is not None and not (tmp_path / "unfinished").exists()


def test_two_cannot_tune_in_one_folder(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    with only_one(tmp_path, "tuned"), pytest.raises(UsageError, match="another process is at work in"):
        tune(Plan(**SMALL), tmp_path, list[str]().append)


def test_a_regret_of_zero_is_a_regret(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    said: list[str] = []
    tune(Plan(**{**SMALL, "env_kwargs": {"dim": 2, "n_arms": 1}, "trials": 2}), tmp_path, said.append)
    assert [line.rpartition(": ")[2] for line in said] == ["0", "0"]
