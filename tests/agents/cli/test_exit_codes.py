"""The exit codes of docs/exit-codes.md, each with a sentence, and what no fault loses: verdicts and tables."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commanding import but_at_work, invoke
from privbandit_agents.cli import commands
from privbandit_agents.cli.main import ended
from privbandit_agents.cli.process import Lasting, interruption
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.names import result_path
from privbandit_agents.experiments.running.attempt import Failure, told
from privbandit_agents.experiments.store.results import Finished, encode, write_result
from privbandit_agents.experiments.usage import unwritten

AUDIT = ["audit", "grr", "--runs", "200"]
REFUTED = ["audit", "private-cov", "--calibration", "published", "--runs", "2000"]
STOPPED = (130, -2)
"""What Ctrl-C ends with: the system says so itself where Python lets it, which shells show as 130."""


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_the_help_and_the_page_have_the_same_codes() -> None:
    shown = " ".join(invoke("--help").stdout.split())
    page = (Path(__file__).parents[3] / "docs" / "exit-codes.md").read_text()
    for code in ("0", "1", "2", "3", "4", "130"):
        assert f"{code} " in shown.partition("Exit codes:")[2] and f"\n- **{code}**, " in page


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("no\nidea"), 3, "RuntimeError: no idea -- This is an error of ours: please report it"),
        (
            ModuleNotFoundError("No module named 'privbandit_x'", name="privbandit_x"),
            3,
            "ModuleNotFoundError: No module",
        ),
        (
            ModuleNotFoundError("No module named 'pydantic_core'", name="pydantic_core"),
            2,
            "privbandit run needs pydantic_c",
        ),
        (
            ModuleNotFoundError("No module named 'rich.a'", name="rich.a"),
            2,
            "privbandit run needs rich: run pip install",
        ),
        (KeyboardInterrupt(), 130, "stopped.\n"),
        (SystemExit(4), 4, ""),
        (SystemExit(), 0, ""),
    ],
)
def test_whatever_ends_the_command_has_a_code_and_a_sentence(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PRIVBANDIT_TRACEBACK", raising=False)
    monkeypatch.setattr(commands, "app", failing(error))
    monkeypatch.setattr(sys, "argv", ["privbandit", "run"])
    assert ended() == code
    err = capsys.readouterr().err
    assert err.startswith(said) and err.count("\n") == bool(said) and "Traceback" not in err


def test_the_traceback_of_an_error_of_ours_can_be_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRIVBANDIT_TRACEBACK", "1")
    monkeypatch.setattr(commands, "app", failing(RuntimeError("no idea")))
    assert ended() == 3 and "Traceback (most recent call last)" in capsys.readouterr().err


BROKEN = """from privbandit_agents import LocalAgent, arms_with_features


class Broken(LocalAgent):
    plays = staticmethod(arms_with_features)

    def begin(self):
        super().begin()
        self.theta = {}["theta"]

    def select_action(self, context): ...
    def randomize(self, context, action, feedback): ...
    def absorb(self, report): ...
"""


def test_an_error_in_code_of_the_user_s_own_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVBANDIT_TRACEBACK", raising=False)
    for traced in (False, True):
        with pytest.raises(SystemExit, match="2"):
            commands.app(["audit", "broken.py:Broken"])
        err = capsys.readouterr().err
        assert err.endswith(f"KeyError: 'theta' ({tmp_path / 'broken.py'}, line 9)\n")
        assert ("Traceback" in err) == traced and (traced or err.count("\n") == 1)
        monkeypatch.setenv("PRIVBANDIT_TRACEBACK", "1")


def test_ctrl_c_is_found_behind_what_an_import_made_of_it() -> None:
    error: BaseException
    try:
        try:
            raise KeyboardInterrupt("stopped here.")
        except KeyboardInterrupt as stop:
            raise RuntimeError("in a class") from stop
    except RuntimeError as error:
        assert str(interruption(error)) == "stopped here."
    assert interruption(ValueError()) is None


STUBBORN = """
import os, signal, sys, time, weakref
from privbandit_agents.cli import commands, process
from privbandit_agents.cli.main import main

class Thing: pass
thing = Thing()

def deaf():  # Ctrl-C arrives where exceptions are ignored, then where they are caught for ever
    reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT) or time.sleep(0.1))
    globals().pop("thing")
    time.sleep(60)

def stuck():
    while True:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        except KeyboardInterrupt:
            pass

process.SECONDS_TO_END = 0.2
commands.app = globals()[sys.argv[1]]
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are different elsewhere")
@pytest.mark.parametrize("how", ["deaf", "stuck"])
@pytest.mark.wide
def test_ctrl_c_is_not_lost(how: str) -> None:
    done = subprocess.run([sys.executable, "-c", STUBBORN, how], capture_output=True, text=True, timeout=60)
    assert done.returncode in STOPPED and set(but_at_work(done.stderr).splitlines()) == {"stopped."}


def test_a_command_that_is_stopped_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.settled", failing(KeyboardInterrupt()))
    run = ["run", "--env", "privbandit/Linear-v0", "--agent", "uniform", "--horizon", "9", "--out"]
    shown = invoke(*run, str(tmp_path))
    assert shown.exit_code == 130
    assert shown.stderr.splitlines()[-1] == "stopped with 0 of 1 trials done; the same command goes on."


ENDED = """
import atexit, os, sys, time
from privbandit_agents.cli import commands, process
from privbandit_agents.cli.main import main

number, code = map(int, sys.argv[1:])
atexit.register(os.kill, os.getpid(), number)
process.QUIET = 0.2
commands.app = lambda: time.sleep(1) or sys.exit(code)
sys.argv[1:] = ["work"]
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are different elsewhere")
@pytest.mark.wide_at("15-4")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 4)])
def test_a_command_is_never_silent_and_keeps_its_code_while_python_ends(number: signal.Signals, code: int) -> None:
    """A signal that comes when all is done changes nothing; stderr is no terminal here."""
    command = [sys.executable, "-c", ENDED, str(int(number)), str(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert done.stderr and all(line.startswith("privbandit work: at work for") for line in done.stderr.splitlines())


@pytest.mark.skipif(os.name != "posix", reason="signals are different elsewhere")
@pytest.mark.wide_at("rich")
@pytest.mark.parametrize("module", ["gymnasium", "rich"])
def test_ctrl_c_while_modules_are_imported_is_one_word(module: str, tmp_path: Path) -> None:
    """A stand-in for the module interrupts its own import, in the package's first imports and in the command's."""
    interrupt = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    (tmp_path / f"{module}.py").write_text(interrupt)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "privbandit", "report", "."]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode in STOPPED and but_at_work(done.stderr) == "stopped.\n"


@pytest.mark.wide_at("command1-1")
@pytest.mark.parametrize(("command", "code"), [(AUDIT, 4), (REFUTED, 1)])
def test_an_audit_tells_its_verdict_though_its_picture_cannot_be_written(
    command: list[str], code: int, tmp_path: Path
) -> None:
    calibration = "published" if code == 1 else "correct"
    (tmp_path / f"{command[1]}-{calibration}.png").mkdir()
    shown = invoke(*command, "--out", str(tmp_path))
    assert shown.exit_code == code and ("REFUTED" if code == 1 else "not refuted") in shown.stdout
    assert shown.stderr.splitlines()[-1] == f"{tmp_path}: the picture could not be written: Is a directory."
    assert "Traceback" not in shown.stderr and "picture:" not in shown.stdout


@pytest.mark.wide
def test_an_audit_into_no_folder_at_all_tells_its_verdict(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    shown = invoke(*AUDIT, "--out", str(tmp_path / "file" / "x"))
    assert shown.exit_code == 4 and "not refuted" in shown.stdout and "could not be written" in shown.stderr
    (tmp_path / "file").unlink()
    assert invoke(*AUDIT, "--out", str(tmp_path / "x")).exit_code == 0


def test_too_many_runs_are_bad_usage() -> None:
    shown = invoke("audit", "grr", "--runs", "10000000000")
    assert shown.exit_code == 2 and shown.stderr == "--runs: runs must be at most 100,000,000; got 10000000000.\n"


@pytest.mark.parametrize("name", ["trials", "unfinished", "tensorboard"])
def test_a_file_in_the_place_of_a_folder_is_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    run = ["run", "--env", "privbandit/Linear-v0", "--agent", "uniform", "--horizon", "9", "--seeds", "5"]
    shown = invoke(*run, "--out", str(tmp_path))
    assert shown.exit_code == 2 and shown.stdout == ""
    assert shown.stderr == f"--out: {tmp_path / name} must be a folder; move the file that is there.\n"


def test_what_stops_many_jobs_is_told_once() -> None:
    trials = [Trial("privbandit/Linear-v0", "uniform", 9, seed) for seed in range(4)]
    errors = [f"Is a directory: '{trial.name}.lock'" for trial in trials[:3]] + ["out of ideas"]
    lines = list(told(map(Failure, trials, errors)))
    assert [line.partition("failed: ")[2] for line in lines] == [f"{errors[0]} (2 more failed likewise.)", errors[3]]


def test_what_cannot_be_written_is_told_by_its_reason(tmp_path: Path) -> None:
    full, there = OSError(errno.ENOSPC, "No space left on device"), tmp_path / "there"
    lost = unwritten("out", {"a": failing(full), "b": there.touch, "c": failing(full), "d": failing(OSError("odd"))})
    assert lost == ["out: a, c could not be written: No space left on device.", "out: d could not be written: odd."]
    assert there.exists()


def nan_result(seed: int) -> Finished:
    """Return a result as they were stored before regret had to be finite."""
    trial = Trial("privbandit/Linear-v0", "uniform", 20, seed, {"dim": 5}, checkpoints=2)
    curves = {"checkpoints": np.array([10.0, 20]), "regret": np.array([1.0, np.nan]), "reward": np.zeros(2)}
    by = {"privbandit": "0.1", "commit": None}
    return Finished("trial", trial.spec, trial.settings, {**curves, "seconds": np.ones(1)}, {"simulation": "users"}, by)


@pytest.mark.filterwarnings("default:.*is not the result")
@pytest.mark.wide
def test_a_report_of_old_results_that_are_no_numbers_leaves_them_out(tmp_path: Path) -> None:
    good = nan_result(1)
    write_result(tmp_path, nan_result(0))
    write_result(tmp_path, Finished(**{**vars(good), "arrays": {**good.arrays, "regret": np.array([1.0, 2.0])}}))
    shown = invoke("report", str(tmp_path))
    assert "is not the result of its job (its numbers" in shown.stderr and "again. It is left out." in shown.stderr
    assert shown.exit_code == 0 and "Linear-v0(dim=5), 20 users" in shown.stdout


def test_a_report_on_a_full_disk_shows_its_table(tmp_path: Path) -> None:
    whole = Finished(**{**vars(nan_result(0)), "arrays": {**nan_result(0).arrays, "regret": np.ones(2)}})
    path = result_path(tmp_path, whole.name)
    path.parent.mkdir()
    path.write_bytes(encode(whole))
    for name in ("table.csv", "regret.png"):
        (tmp_path / name).mkdir()
    shown = invoke("report", str(tmp_path))
    assert shown.exit_code == 4 and "Linear-v0(dim=5), 20 users" in shown.stdout
    assert shown.stderr == f"{tmp_path}: the table, the figure could not be written: Is a directory.\n"


# streams


def test_a_reader_that_left_stops_nothing() -> None:
    end, start = os.pipe()
    os.close(end)
    file = Lasting(start, "w")
    assert [file.write(b"abc") for _ in range(2)] == [3, 3] and isinstance(file.lost, BrokenPipeError)
    file.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.wide
def test_streams_of_every_kind() -> None:
    """A pipe whose reader leaves, a full disk and closed streams: no traceback, and the code says what was lost."""
    command = [sys.executable, "-m", "privbandit", "list", "envs"]
    quoted = " ".join(f"'{word}'" for word in command)
    ends = {"| head -1 >/dev/null": 0, "> /dev/full": 4, ">&- 2>&-": 0}
    shells = [
        subprocess.Popen(["bash", "-o", "pipefail", "-c", f"{quoted} {end}"], stdout=-1, stderr=-1, text=True)
        for end in ends
    ]
    told = [shell.communicate(timeout=60)[1] for shell in shells]
    assert [shell.returncode for shell in shells] == list(ends.values()), told
    assert told == ["", "the output could not be written: No space left on device.\n", ""]
