"""The command line: exit codes, one-sentence errors, and what a run leaves behind."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from commanding import but_at_work, invoke
from joblib.externals.loky import get_reusable_executor
from privbandit_agents.experiments import load_results
from privbandit_agents.zoo.entries import AGENTS

from privbandit_envs import ENV_IDS

LINEAR = ["run", "--env", "privbandit/Linear-v0"]
FAILING = """
from dataclasses import dataclass
from privbandit_agents.baselines.uniform import Uniform
from privbandit_agents.zoo.plugins import register_agent

class Failing(Uniform):
    def select_action(self, context):
        raise RuntimeError("out of ideas")

register_agent("failing", f"{__name__}:Failing", "fails")
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_list_shows_every_environment_and_agent_and_what_it_promises() -> None:
    shown = invoke("list", "all")
    assert shown.exit_code == 0
    listed = [line.split()[0] for line in shown.stdout.splitlines() if line.strip()]
    assert all(name in listed for name in ENV_IDS)
    assert all((name in listed) == (not entry.successor) for name, entry in AGENTS.items())
    assert listed.index("auto-local") < listed.index("uniform") < listed.index("fliphat") < listed.index("lpct-p")
    line = next(line for line in shown.stdout.splitlines() if "newton-mnl" in line)
    assert "joint exact" in line and "..A.." in line
    chosen = invoke("list", "agents", "--notion", "joint", "--plays", "sparse").stdout
    assert "private-pursuit" in chosen and "newton-mnl" not in chosen and "ldp-greedy" not in chosen
    assert invoke("list", "--notion", "secret").exit_code == 2
    for notion, name in (("shuffle", "shuffle-linucb"), ("reward", "reward-dp-linucb")):
        chosen = invoke("list", "agents", "--notion", notion).stdout
        assert name in chosen and "jdp-linucb" not in chosen.replace("reward-dp-linucb", "")


@pytest.mark.usefixtures("own_worlds")
def test_list_begins_with_what_should_be_taken_first() -> None:
    lines = invoke("list", columns=80).stdout.splitlines()
    listed = [line.split()[0] for line in lines if line.strip()]
    assert len(lines) <= 90 and {*ENV_IDS, "auto-local", "linucb"} <= {*listed} and "fliphat" not in listed
    told = "\n".join(lines)
    assert all(f"privbandit list {kind}" in told for kind in ("agents", "experiments", "targets", "datasets"))


def test_list_shows_only_what_was_asked_for() -> None:
    assert "linucb" not in invoke("list", "envs").stdout
    assert "n_arms" not in invoke("list", "agents").stdout


def test_version() -> None:
    shown = invoke("--version")
    assert shown.exit_code == 0 and shown.stdout.startswith("privbandit ")


def test_a_run_leaves_results_table_figure_and_events(tmp_path: Path) -> None:
    out = tmp_path / "x"
    settings = ["--set", "env.dim=5", "--set", "linucb.alpha=5e-1", "--checkpoints", "10", "--jobs", "1"]
    agents = ["--agent", "uniform", "--agent", "linucb"]
    shown = invoke(*LINEAR, *agents, "--horizon", "300", "--seeds", "2", *settings, "--out", str(out))
    assert shown.exit_code == 0, shown.stderr
    assert "linucb alpha=0.5" in shown.stdout and "regret.png" in shown.stdout
    assert f"tensorboard --logdir {out / 'tensorboard'}" in shown.stdout
    assert (out / "regret.png").stat().st_size > 10_000 and "linucb alpha=0.5" in (out / "table.md").read_text()
    frame = load_results(out)
    assert frame.height == 2 * 2 * 10 and frame["env"].unique().to_list() == ["privbandit/Linear-v0(dim=5)"]
    assert len(list((out / "tensorboard-trials").glob("*/*/seed-*/events.*"))) == 4


@pytest.mark.wide
def test_more_seeds_later_run_only_the_new_ones(tmp_path: Path) -> None:
    arguments = [*LINEAR, "--agent", "uniform", "--horizon", "50", "--jobs", "1", "--out", str(tmp_path), "--seeds"]
    assert invoke(*arguments, "2").exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "trials").iterdir()}
    assert invoke(*arguments, "3").exit_code == 0
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "trials").iterdir()}
    assert len(after) == 3 and {path: after[path] for path in before} == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--agent", "linubc"], "did you mean linucb? `privbandit list agents` shows all."),
        (["--agent", "uniform", "--env", "privbandit/Linaer-v0"], "did you mean 'privbandit/Linear-v0'?"),
        (["--agent", "uniform", "--env", "no_such_package:x/Y-v0"], "no module named 'no_such_package'"),
        (["--agent", "ucb-mnl"], "ucb-mnl: cannot play privbandit/Linear-v0; it plays assortments of items"),
        (["--agent", "uniform", "--horizon", "-5"], "--users must be an integer >= 1; got -5."),
        (["--agent", "uniform", "--horizon", "many"], "--horizon"),
        (["--agent", "uniform", "--seeds", "-1"], "seeds: must be an integer >= 1 or a list of seeds; got -1."),
        (["--agent", "uniform", "--checkpoints", "0"], "checkpoints: "),
        (["--agent", "uniform", "--jobs", "0"], "jobs must be an integer >= 1; got 0."),
        (["--agent", "uniform", "--set", "env.dmi=5"], "did you mean 'dim'?"),
        (["--agent", "uniform", "--seeds", "[1, 1]"], "seeds: each seed must be given once; got [1, 1]."),
        (
            ["--agent", "uniform", "--env", "CartPole-v1", "--horizon", "9"],
            "CartPole-v1: not a bandit: the info of a step has no 'feedback'",
        ),
        (["--agent", "uniform", "--set", "env.theta=abc"], "theta must be 20 finite numbers; got 'abc'."),
        (["--agent", "uniform", "--set", "env.instance_seed=x"], "instance_seed must be an integer >= 0; got 'x'."),
        (["--agent", "linucb", "--set", "linucb.name=greedy"], "'name' names the agent and is no setting"),
        (["--agent", "uniform", "--set", "env.dim=0"], "dim must be an integer >= 1; got 0."),
        (["--agent", "linucb", "--set", "linucb.alpha=-1"], "alpha must be >= 0; got -1."),
        (["--agent", "linucb", "--set", "linucb.alpha=x"], "alpha must be a finite number; got 'x'."),
        (["--agent", "linucb", "--set", "linucb.alhpa=1"], "did you mean 'alpha'?"),
        (["--agent", "uniform", "--agnet", "linucb"], "--agnet"),
        (["demo"], "give either an experiment or --env and --agent, not both."),
        ([], "run needs --env and --agent"),
    ],
)
def test_bad_usage_is_one_sentence_and_writes_nothing(tmp_path: Path, arguments: list[str], expected: str) -> None:
    shown = invoke(*LINEAR, *arguments, "--out", str(tmp_path / "x"))
    assert shown.exit_code == 2 and expected in shown.stderr
    assert shown.stderr.count("\n") == 1 and shown.stdout == ""
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "deom"], "did you mean demo?"),
        (["list", "evns"], "did you mean 'envs'?"),
        (["lsit"], "no command is called 'lsit' (did you mean list?)"),
        (["show"], "privbandit show: missing: name; `"),
        (["show"], " show --help` shows the options."),
        (["run", "--agent"], "--agent"),
        (["audit", "linucb"], "audit: linucb promises no privacy, so there is nothing to refute."),
        (["audit", "laplcae"], "did you mean 'laplace'?); `privbandit list targets` shows all."),
        (["audit", "x" * 10_000], "`privbandit list targets` shows all."),
        (["audit", "laplace", "--confidence", "1.5"], "audit: confidence must lie in (0, 1); got 1.5."),
    ],
)
def test_unknown_names_get_the_nearest_known_one(arguments: list[str], expected: str) -> None:
    shown = invoke(*arguments)
    assert shown.exit_code == 2 and expected in shown.stderr and shown.stderr.count("\n") == 1


def test_audit_targets_are_listed() -> None:
    shown = invoke("list", "targets")
    assert shown.exit_code == 0 and {"laplace", "private-cov", "toeplitz"} <= set(shown.stdout.split())


def test_an_unwritable_folder_is_bad_usage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    shown = invoke(*LINEAR, "--agent", "uniform", "--horizon", "10", "--out", str(tmp_path / "file" / "x"))
    assert shown.exit_code == 2 and shown.stderr.startswith("--out: ") and shown.stderr.count("\n") == 1


def test_the_table_is_shown_before_the_figure_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no pencil")

    monkeypatch.setattr("privbandit_agents.experiments.study.draw_regret", broken)
    shown = invoke(*LINEAR, "--agent", "uniform", "--horizon", "20", "--jobs", "1", "--out", str(tmp_path))
    assert str(shown.exception) == "no pencil" and "Linear-v0, 20 users" in shown.stdout
    assert (tmp_path / "table.md").exists()


@pytest.mark.parametrize("error", ["RuntimeError", "SystemExit", "GeneratorExit"])
@pytest.mark.wide
def test_a_failing_trial_is_named_and_the_others_go_on(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_agents.py").write_text(FAILING.replace("RuntimeError", error))
    monkeypatch.syspath_prepend(str(tmp_path))
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier test do not know this folder
    agents = ["--agent", "failing_agents:failing", "--agent", "uniform"]
    try:
        shown = invoke(*LINEAR, *agents, "--horizon", "20", "--jobs", "1", "--out", str(tmp_path / "x"))
    finally:
        AGENTS.pop("failing", None)
        sys.modules.pop("failing_agents", None)
    assert shown.exit_code == 4
    said = "failing on privbandit/Linear-v0, seed 0, failed: RuntimeError: "
    said += f"{error}: out of ideas" if error != "RuntimeError" else "out of ideas"
    assert said in shown.stderr and "Linear-v0, 20 users" in shown.stdout
    assert len(load_results(tmp_path / "x")["agent"].unique()) == 1


@pytest.mark.wide
def test_the_entry_point_exits_with_the_same_codes(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("privbandit")
    if not command.exists():
        pytest.skip("the package is not installed")
    run = [str(command), "run", "--env", "x/Y-v0", "--agent", "uniform"]
    done = subprocess.run(run, capture_output=True, cwd=tmp_path, env=dict(os.environ))  # readline adds COLUMNS to C's
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and os.listdir(tmp_path) == []
    assert subprocess.run([command, "--version"], capture_output=True).returncode == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(("words", "known"), [("re", ["report", "reproduce"]), ("run --ag", ["--agent"])])
def test_the_shell_completes_commands_and_options(words: str, known: list[str]) -> None:
    typed = ["privbandit", *words.split()]
    ask = f"COMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}; _privbandit; printf '%s\\n' ${{COMPREPLY[@]}}"
    script = f"{invoke('--completion').stdout}\n{ask}"
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert sorted(told.stdout.split()) == known, told.stderr


def test_importing_the_command_takes_no_name_from_the_package() -> None:
    done = python("import privbandit; from privbandit_agents import make, play; print(make.__name__, play.__name__)")
    assert done.returncode == 0 and done.stdout == "make play\n", done.stderr


@pytest.mark.wide
def test_modules_of_the_current_folder_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(
        FAILING.replace('raise RuntimeError("out of ideas")', "return super().select_action(context)")
    )
    run = ["run", "--env", "privbandit/Linear-v0", "--agent", "my_agents:failing", "--horizon", "20", "--seeds", "2"]
    code = f"import sys; from privbandit_agents.cli.main import main; sys.argv[1:] = {run}; main()"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "runs" / "Linear-v0" / "trials").iterdir())) == 2


@pytest.mark.parametrize("missing", ["rich", "pydantic", "ruamel"])
@pytest.mark.wide
def test_a_missing_extra_is_named(missing: str) -> None:
    blocked = f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['privbandit', 'run', 'demo']"
    done = python(f"{blocked}; from privbandit_agents.cli.main import main; main()")
    assert done.returncode == 2
    assert but_at_work(done.stderr) == f"privbandit run needs {missing}: run pip install 'privbandit[bench]'.\n"


def test_importing_the_agents_stays_cheap() -> None:
    heavy = "{'torch', 'polars', 'matplotlib', 'tensorboard', 'pydantic', 'joblib', 'rich'}"
    done = python(f"import sys, privbandit_agents, privbandit_agents.cli.main; print({heavy} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stderr


SWEEP = """
envs: [{id: privbandit/Linear-v0, grid: {dim: [3, 4]}}]
agents: [{name: uniform}, {name: linucb}]
seeds: 2
horizon: 60
"""


@pytest.mark.wide
def test_a_sweep_writes_results_figure_and_board(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(SWEEP)
    out = tmp_path / "out"
    shown = invoke("sweep", str(tmp_path / "plan.yaml"), "--out", str(out), "--jobs", "1", "--set", "linucb.alpha=2")
    assert shown.exit_code == 0, shown.stderr
    assert load_results(out).filter(agent="linucb")["config"].unique().to_list() == ['{"alpha":2}']
    assert len(list((out / "trials").iterdir())) == 8 and (out / "regret.png").exists() and (out / "table.md").exists()
    assert len(list((out / "tensorboard" / "overview").glob("events.*"))) == 1


def test_an_experiment_can_be_changed_into_a_folder_of_its_own(tmp_path: Path) -> None:
    sweep = "sweep: {envs: [{id: privbandit/Linear-v0}], agents: [{name: linucb}], horizon: 50, seeds: 2}"
    text = f"title: t\nabout: a\nscales: {{smoke: {{seeds: 1}}}}\n{sweep}\n"
    (tmp_path / "mine.yaml").write_text(text)
    command = ["reproduce", str(tmp_path / "mine.yaml"), "--jobs", "1", "--set", "linucb.alpha=2", "--set", "env.dim=3"]
    refused = invoke(*command)
    assert refused.exit_code == 2 and refused.stderr.startswith("--set needs --out: name a folder")
    assert invoke(*command, "--out", str(tmp_path / "out")).exit_code == 0
    results = load_results(tmp_path / "out")
    assert results["config"].unique().to_list() == ['{"alpha":2}']
    assert results["env"].unique().to_list() == ["privbandit/Linear-v0(dim=3)"]


@pytest.mark.wide
def test_shards_make_the_whole(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(SWEEP)
    command = ["sweep", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "out"), "--jobs", "1", "--shard"]
    first = invoke(*command, "1/3")
    assert first.exit_code == 0 and "5 trials of other shards are missing: privbandit report" in first.stderr
    assert invoke(*command, "2/3").exit_code == 0
    last = invoke(*command, "3/3")
    assert last.exit_code == 0 and "missing" not in last.stderr
    assert len(list((tmp_path / "out" / "trials").iterdir())) == 8
    table = (tmp_path / "out" / "table.md").read_text()
    (tmp_path / "out" / "table.md").unlink()
    assert invoke("report", str(tmp_path / "out")).exit_code == 0
    kept = [line.rpartition("|")[0].rpartition("|")[0] for line in table.splitlines()]  # without the speeds
    again = (tmp_path / "out" / "table.md").read_text().splitlines()
    assert sorted(line.rpartition("|")[0].rpartition("|")[0] for line in again) == sorted(kept)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--shard", "3"], "--shard must be i/n with 1 <= i <= n < 10^9, such as 2/8; got '3'."),
        (["--shard", "4/3"], "--shard must be i/n with 1 <= i <= n < 10^9, such as 2/8; got '4/3'."),
        (["--shard", f"1/{'9' * 5000}"], "--shard must be i/n with 1 <= i <= n < 10^9, such as 2/8; got '1/999"),
        (["--engine", "daks"], "engine must be one of loky, dask; got 'daks' (did you mean 'dask'?)"),
        (["--address", "tcp://a:1"], "--address is for --engine dask; got --engine loky."),
        (["--save-every", "0"], "save_every must be > 0; got 0"),
        (["--jobs", "0"], "jobs must be an integer >= 1; got 0."),
        (["--jobs", "2147483648"], "jobs must be at most 1,000; got 2147483648."),
    ],
)
def test_bad_usage_of_sweep_is_one_sentence(tmp_path: Path, arguments: list[str], expected: str) -> None:
    (tmp_path / "plan.yaml").write_text(SWEEP)
    shown = invoke("sweep", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "x"), *arguments)
    assert shown.exit_code == 2 and expected in shown.stderr and shown.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.filterwarnings("ignore:.*is corrupt")
def test_a_report_of_nothing_is_bad_usage(tmp_path: Path) -> None:
    shown = invoke("report", str(tmp_path))
    assert shown.exit_code == 2 and f"no results in {tmp_path}" in shown.stderr
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / "0123456789abcdef.json").touch()
    shown = invoke("report", str(tmp_path))
    assert shown.exit_code == 2 and f"no results in {tmp_path} that can be read" in shown.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seeds: 2147483648", "seeds: must be at most 1,000,000 seeds; got 2147483648."),
        ("seeds: 0xffffffffffffffffffffff", "seeds: must be at most 1,000,000 seeds; got 309485009821345068724781055"),
        ("seeds: !!int '_'", "plan.yaml cannot be read: '_' is not of the kind 'int' in line 4."),
        ("seeds: !!bool maybe", "plan.yaml cannot be read: 'maybe' is not of the kind 'bool' in line 4."),
        ("seeds: {[1, {}]: 3}", "plan.yaml cannot be read: a key must be a plain value in line 4."),
        (f"seeds: {'9' * 5000}", "is not of the kind 'int' in line 4."),
        (f"seeds: {'x' * 100_000}", "seeds: must be an integer >= 1 or a list of seeds; got 'xxxx"),
        (
            f"agents: [{{name: linucb, grid: {{alpha: &a {list(range(1, 102))}, ridge: *a, x: *a}}}}]",
            "these are 4,121,204 trials; 1,000,000 are the most.",
        ),
        (f"agents: [{{name: linucb, alpha: 1{'0' * 400}}}]", "alpha must be a finite number; got 1000"),
        ("seeds: [9999999999999999999]", "seeds[0]: input should be less than 9223372036854775808"),
        ("horizon: 100000000000000000000", "horizon: input should be less than or equal to 1000000000000000"),
        ("checkpoints: 100000000", "checkpoints: input should be less than or equal to 1000000"),
        ("envs: [{id: privbandit/Linear-v0, dim: 1:30}]", "dim must be an integer >= 1; got '1:30'."),
        ("envs: [{id: privbandit/Linear-v0, dim: 2020-01-01}]", "dim must be an integer >= 1; got '2020-01-01'."),
        ("envs: [{id: privbandit/Linear-v0, dim: 1000000000000}]", "envs[0]: "),
        ("envs: [{id: privbandit/Linear-v0, theta: &t [*t]}]", "plan.yaml"),
        ("agents: [{name: 'broken_agents:x'}]", "agents[0]: SyntaxError: "),
    ],
)
def test_nonsense_in_a_sweep_is_one_sentence(
    tmp_path: Path, text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_agents.py").write_text("def (")
    monkeypatch.syspath_prepend(str(tmp_path))
    key = text.partition(":")[0]
    kept = [line for line in SWEEP.strip().splitlines() if not line.startswith(key)]
    (tmp_path / "plan.yaml").write_text("\n".join([*kept, text]))
    shown = invoke("sweep", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "x"))
    assert shown.exit_code == 2 and expected in shown.stderr and shown.stderr.count("\n") == 1, shown.stderr


def test_results_of_several_versions_are_told(tmp_path: Path) -> None:
    from privbandit_agents.experiments.store.results import read_result, write_result

    invoke(*LINEAR, "--agent", "uniform", "--horizon", "20", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path))
    path = min((tmp_path / "trials").iterdir())
    finished = read_result(path)
    write_result(tmp_path, replace(finished, provenance={**finished.provenance, "commit": "0" * 40}))
    shown = invoke("report", str(tmp_path))
    assert shown.exit_code == 0 and "these are results of 2 versions of the code (" in shown.stderr
    assert "000000" in shown.stderr, "beside a commit, or the version where there is no checkout"
