"""What a terminal of eighty columns shows: nothing is wider, and what twelve commands print is recorded."""

import io
import itertools
import re
from pathlib import Path

import pytest
from commanding import invoke
from privbandit_agents.cli.data import prepare
from privbandit_agents.cli.grammar import VERBS
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.running.attempt import Failure
from privbandit_agents.experiments.running.progress import Bar, Steps, duration, forecast
from privbandit_agents.experiments.text import table
from privbandit_agents.zoo.entries import AGENTS
from rich.console import Console

from privbandit_envs.registration import ENV_IDS

RECORDED = Path(__file__).with_name("eighty_columns.txt")
RUN = "run --env Linear-v0 --set dim=2 --set n_arms=3 --set epsilon=1 --users 200 --seeds 2 --jobs 1 --out runs/x"
SHOWN = [
    "--help",
    "run --help",
    "audit --help",
    "list envs",
    "list agents --notion reward",
    "list targets",
    f"{RUN} --agent jdp-linucb --agent prec-ts --agent linucb --agent uniform",
    "report runs/x",
    "frontier runs/x",
    "audit grr --runs 400 --no-power --out runs/audit",
    "run --env Linear-v0 --agent lincub",
    "new joint-agent mine",
]
"""Commands in their order: each finds what the ones above it have written."""


def widest(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def recorded(command: str) -> str:
    """Return a command and what it prints, without the lines of progress, which depend on the machine's speed."""
    shown = invoke(*command.split(), columns=80)
    errors = "".join(line for line in shown.stderr.splitlines(True) if not re.search(r"\d (trials|runs)", line))
    return f"$ privbandit {command}\n{shown.stdout}{errors}" + f"(exit {shown.exit_code})\n" * bool(shown.exit_code)


@pytest.mark.usefixtures("own_worlds")
def test_twelve_commands_print_what_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change that is meant: delete the file, and run this test, which writes it anew and fails once."""
    monkeypatch.chdir(tmp_path)
    texts = [recorded(command) for command in SHOWN]
    assert [text for text in texts if widest(text.partition("\n")[2]) > 80] == []
    found = "\n".join(texts)
    if not RECORDED.exists():
        RECORDED.write_text(found)
        pytest.fail("the record was not there, and is written now: read it.")
    assert found == RECORDED.read_text()


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "data"])
def test_every_help_fits_and_has_examples(verb: str) -> None:
    shown = invoke(verb, "--help", columns=80)
    assert shown.exit_code == 0 and widest(shown.stdout) <= 80
    assert "\nexamples:\n  privbandit " in shown.stdout and "None" not in shown.stdout


def test_options_of_one_name_mean_one_thing() -> None:
    """Where a command has users, seeds, settings or an output, it calls them so, and old names stay understood."""
    options = [option for about in VERBS.values() for option in about.options]
    names = {name for option in options for name in option.names}
    assert not names & {"--horizon", "--output", "--n-users"}
    for option in {option.names[0]: option for option in options if option.names[0] == "--out"}.values():
        assert "-o" in option.names
    assert all(len({type(option.how.get("default")) for option in options if name in option.names}) <= 2
               for name in names)  # fmt: skip
    assert list(VERBS)[:3] == ["list", "show", "run"] and list(VERBS)[-1] == "data"


@pytest.mark.wide_at("names0", "names1", "names4")
@pytest.mark.parametrize("names", [list(ENV_IDS), list(AGENTS)[:12], ["grr", "private-cov"], ["rice"], ["demo"]])
def test_every_page_fits(names: list[str]) -> None:
    for name in names:
        shown = invoke("show", name, columns=80)
        wide = [line for line in shown.stdout.splitlines() if len(line) > 80 and " " in line.strip()]
        assert shown.exit_code == 0 and wide == [], name


@pytest.mark.parametrize("what", ["envs", "agents", "experiments", "targets", "datasets"])
def test_every_list_fits(what: str) -> None:
    assert widest(invoke("list", what, columns=80).stdout) <= 80


def test_the_data_command_fits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert prepare(["--help"]) == 0 and widest(capsys.readouterr().out) <= 80


def test_a_table_loses_no_column() -> None:
    heads = [f"method {k}" for k in range(12)]
    rows = [[f"cell-{i}-{k}" for k in range(12)] for i in range(3)]
    lines = list(table(rows, heads, wide=80))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert all(cell in text for row in rows for cell in row) and all(head in text for head in heads)
    long = list(table([["a" * 50, "b" * 70, "1,000"]], ["one", "two", "three"], right={2}, wide=40))
    assert max(map(len, long)) <= 40 and "".join(long).count("b") == 70


def jobs(n: int) -> list[Trial]:
    return [Trial("privbandit/Linear-v0", "uniform", 100, seed, {"dim": 5, "n_arms": 7}) for seed in range(n)]


def test_a_bar_keeps_its_counts_and_clocks_and_the_news_have_a_line() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    with Bar(jobs(134), console) as bar:
        for job in jobs(3):
            bar.advance(job, Failure(job, "no ideas " * 20))
        shown = Console(file=io.StringIO(), width=80, color_system=None)
        shown.print(*bar.bar.get_renderables())
    counts, news = shown.file.getvalue().splitlines()[:2]  # type: ignore[attr-defined]
    assert re.search(r"  3/134 0:00:0\d (-:--:--|\d:\d\d:\d\d)\s*$", counts) and len(counts) <= 80
    assert news.startswith("uniform on privbandit/Linear-v0(dim=5, n_arms=7) failed") and len(news) <= 80


def test_a_piped_run_prints_a_line_every_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 2.0)
    monkeypatch.setattr("privbandit_agents.experiments.running.progress.time.monotonic", lambda: next(clock))
    console = Console(file=io.StringIO(), width=80)
    with Steps(50, "trials", console) as steps:
        for done in range(1, 51):
            steps.show(done, "news " * 30)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split(" of ")[0] for line in lines] == [str(5 * k) for k in range(1, 11)]
    assert all(len(line) <= 80 for line in lines) and "about" in lines[0] and "about" not in lines[-1]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((90.0,), "40 trials take about 60 min, by the first one."),  # 40 times 90 seconds
        ((5.0, 6.0, 20.0), "40 trials take about 5 min, by the first 3."),  # 5 s to start, 7.5 s each then
        ((5.0, 5.1, 6.0), None),
    ],
)
def test_long_work_is_announced_early(
    monkeypatch: pytest.MonkeyPatch, ends: tuple[float, ...], said: str | None
) -> None:
    now = [0.0]
    monkeypatch.setattr("privbandit_agents.experiments.running.progress.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=80)
    with Bar(jobs(40), console) as bar:
        for job, now[0] in zip(jobs(40), ends, strict=False):
            bar.advance(job, Failure(job, "out of ideas"))
    found = re.findall(r"^40 trials take .*$", console.file.getvalue(), re.M)  # type: ignore[attr-defined]
    assert found == ([] if said is None else [said])
    assert [duration(seconds) for seconds in (12.4, 200.0, 9000.0)] == ["12 s", "3 min", "2.5 h"]


@pytest.mark.parametrize(("step", "said"), [(0.6, "reading 90 trials takes about 53 s, by the first 3.\n"), (0.05, "")])
def test_a_long_report_is_announced_once(monkeypatch: pytest.MonkeyPatch, step: float, said: str) -> None:
    now = [0.0]
    monkeypatch.setattr("privbandit_agents.experiments.running.progress.time.monotonic", lambda: now[0])
    out = Console(file=io.StringIO(), width=80)
    look = forecast("reading", out)
    for done in range(90):
        now[0] = done * step
        look(done, 90)
    assert out.file.getvalue() == said  # type: ignore[attr-defined]


def test_what_is_refuted_is_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from privbandit_agents.cli.audit import colored

    monkeypatch.setattr("privbandit_agents.experiments.text.sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colored("REFUTED: epsilon >= 2 at 99 %") == ["\033[31mREFUTED: epsilon >= 2 at 99 %\033[0m"]
    assert colored("not refuted: strongest bound 0 of 1") == ["not refuted: strongest bound 0 of 1"]
    rows = list(table([["uniform", "3"], ["worse", "4"]], ["agent", "regret"], {1}, {1: "31"}))
    assert rows[-1].startswith("\033[31mworse") and not rows[-2].startswith("\033[31m")
