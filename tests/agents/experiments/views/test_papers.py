"""Figures and tables for papers: fonts, a column's size, LaTeX."""

import re
import stat
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
import pytest
from commanding import invoke
from drawing_of_texts import overlaps
from matplotlib.figure import Figure
from privbandit_agents.experiments.results.statistics import Interval
from privbandit_agents.experiments.schema.figures import FigureSpec
from privbandit_agents.experiments.usage import UsageError, unwritten
from privbandit_agents.experiments.views.figures import composed
from privbandit_agents.experiments.views.layout import Panel
from privbandit_agents.experiments.views.style import Line, Look, save
from privbandit_agents.experiments.views.table import Column, Table, latex_text

AGENTS = ("uniform", "linucb", "jdp-linucb epsilon=0.5", "jdp-linucb epsilon=1", "ldp-linucb", "lints")
COLUMN = (3.3, 2.4)
COLUMNS = (Column("agent", "agent", True), Column("regret", "regret"))


def drawn(labels: tuple[str, ...] = AGENTS, size: Any = COLUMN, title: str = "", world: str = "Linear-v0") -> Figure:
    x = np.linspace(1, 20_000, 50)
    curves = [np.sqrt(x) * (place + 1) for place in range(len(labels))]
    means = [Interval(curve, 0.9 * curve, 1.1 * curve) for curve in curves]
    lines = [Line(label, label.split()[0], x, mean, 8) for label, mean in zip(labels, means, strict=True)]
    spec = FigureSpec(name="f", x="users", y="regret", log="auto", title=title)
    return composed(spec, [(Panel(world, []), lines)], size=size)


@pytest.mark.wide_at("*-Linear-v0-la*", "-*")
@pytest.mark.parametrize("labels", [AGENTS[:2], AGENTS, ("an agent with a rather long name and settings=12", "b")])
@pytest.mark.parametrize("world", ["Linear-v0", "Linear-v0 (design=ill, dim=2, n_arms=3), 20,000 users"])
@pytest.mark.parametrize("title", ["", "Regret of private agents beside that of others"])
def test_nothing_overlaps_in_a_column(labels: tuple[str, ...], world: str, title: str) -> None:
    assert overlaps(drawn(labels, COLUMN, title, world)) == []


def test_text_is_of_eight_points_in_a_column_and_else_as_the_user_sets_it() -> None:
    def points(figure: Figure) -> float:
        return float(figure.axes[0].xaxis.label.get_fontsize())

    assert points(drawn()) == 8 and points(drawn(size=(7, 4))) == 10
    with matplotlib.rc_context({"font.size": 6, "font.family": "serif"}):
        assert points(drawn()) == 6 and drawn().axes[0].xaxis.label.get_fontfamily() == ["serif"]
    with matplotlib.rc_context(Look(font=10).text):
        assert points(drawn()) == 10


@pytest.mark.wide
def test_fonts_are_true_type(tmp_path: Path) -> None:
    save(drawn(), tmp_path / "f.png", ("pdf", "eps"))
    pdf, eps = ((tmp_path / f"f.{kind}").read_bytes() for kind in ("pdf", "eps"))
    assert b"/Type3" not in pdf and b"/CIDFontType2" in pdf
    assert b"/FontType 42" in eps and b"/FontType 3 " not in eps


def test_a_size_with_no_room_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1x1 inches are too few for its panels and labels: give a larger --size"):
        save(drawn(size=(1, 1)), tmp_path / "f.png")
    lost = unwritten("runs", {"the figure": lambda: save(drawn(size=(1, 1)), tmp_path / "f.png")})
    assert len(lost) == 1 and lost[0].endswith("smaller --font.") and not list(tmp_path.iterdir())


LATEX = """#!{python}
import sys
print("*pgf_backend_query_start", end="\\n*", flush=True)
for line in sys.stdin:
    if "\\\\@@end" in line:
        break
    if "\\\\typeout" in line and "pgf_backend" not in line:
        print("20.0pt,7.0pt,2.0pt", end="\\n\\n*", flush=True)
"""
"""Says of every text that it is 20 points wide, as LaTeX would say what it is."""


def test_pgf_needs_latex_and_is_written_by_its_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = invoke("report", str(tmp_path), "--format", "pgf")
    assert ended.exit_code == 2
    assert ended.stderr == "--format pgf measures texts by xelatex, which is not here: install LaTeX, or take pdf.\n"
    latex = tmp_path / "xelatex"
    latex.write_text(LATEX.format(python=sys.executable))
    latex.chmod(latex.stat().st_mode | stat.S_IXUSR)
    save(drawn(AGENTS[:2]), tmp_path / "f.png", ("pgf",))
    assert "\\begin{pgfpicture}" in (tmp_path / "f.pgf").read_text()


@pytest.mark.parametrize(("option", "value"), [("--font", "3"), ("--size", "0.5x9"), ("--format", "eps3")])
def test_a_wrong_look_is_one_sentence(option: str, value: str, tmp_path: Path) -> None:
    ended = invoke("report", str(tmp_path), option, value)
    assert ended.exit_code == 2 and ended.stderr.startswith(option) and ended.stderr.count("\n") == 1


def test_tables_are_tabulars_of_latex() -> None:
    words = pl.DataFrame({"agent": ["a_b", "c & d"], "regret": ["1 ± 2", "30 %"]})
    lines = Table(words, COLUMNS).latex.splitlines()
    assert lines[0] == r"\begin{tabular}{lr}" and lines[2] == r"    agent & regret \\"
    assert lines[4:6] == [r"    a\_b & 1 $\pm$ 2 \\", r"    c \& d & 30 \% \\"]
    assert latex_text("~^\\{}") == r"\textasciitilde{}\textasciicircum{}\textbackslash{}\{\}"


@pytest.mark.wide
def test_a_figure_of_very_many_lines_leaves_their_names_to_the_table() -> None:
    many = drawn(tuple(f"linucb alpha={place}" for place in range(200)), None)
    width, height = many.get_size_inches()
    assert width < 7 and height < 5 and not many.axes[0].texts
    assert "200 lines, which the table names" in many._supxlabel.get_text()  # type: ignore[attr-defined]


HOSTILE = ["[1em] x", "\\input{/etc/passwd}", "$\\write18{rm x}$", "a\n\nb", "%", "}", "\\end{tabular}", "#1 & ^^5c ~"]


def test_names_from_data_are_no_commands_of_latex_and_no_markup_of_markdown() -> None:
    """All that begins a command, a group, a comment, mathematics or an option of a row is escaped."""
    words = pl.DataFrame({"agent": HOSTILE, "regret": HOSTILE[::-1]})
    rows = Table(words, COLUMNS).latex.splitlines()[4:-2]
    assert len(rows) == len(HOSTILE)
    for row in rows:
        cells = row.strip().removesuffix(r" \\")
        for known in (r"\textbackslash{}", r"\textasciicircum{}", r"\textasciitilde{}", "{[}"):
            cells = cells.replace(known, "")
        assert len(re.findall(r"(?<!\\)&", cells)) == 1 and not cells.startswith("[")
        assert not re.search(r"\\[^&%$#_{}]|(?<!\\)[%$#_{}^~]", cells), row
    hostile = ["<script>x</script>", "[a](javascript:b)", "a | b", "c\n\n# d", "&lt;"]
    words = pl.DataFrame({"agent": hostile, "regret": hostile})
    title, _, *lines = Table(words, COLUMNS, title="<b>[x](http://y)").markdown.splitlines()
    assert len(lines) == 2 + len(hostile) and all(line.count("|") == 3 for line in lines)
    assert not re.search(r"[<\[]|&(?!amp;|lt;|#)", "".join((title, *lines)))


FILE = """title: Two agents
about: Ours.
sweep:
  envs: [{id: Linear-v0, n_arms: 3, dim: 2}]
  agents: [uniform, linucb]
  horizon: 200
  seeds: 2
variants:
  nobody learns: {agent: uniform}
scales:
  smoke: {shrink: 4}
  quick: {shrink: 4}
figures:
  - {name: own, x: users, y: regret, lines: variant, select: {agent: uniform}}
statements:
  - says: It learns.
    where: our guess
    measure: {ratio: [{agent: linucb}, {agent: uniform}]}
    at_most: 1
"""


def test_a_report_of_an_experiment_draws_its_own_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", 1e9)
    Path("two.yaml").write_text(FILE)
    assert invoke("reproduce", "two.yaml", "--scale", "quick", "--jobs", "1", "--out", "two").exit_code == 0
    before = {name: Path("two", name).read_bytes() for name in ("table.md", "verdicts.md", "own.png")}
    assert b"| nobody learns |" in before["table.md"] and not Path("two/regret.png").exists()
    ended = invoke("report", "two", "--size", "3.3x2.4", "--format", "pdf")
    assert ended.exit_code == 0 and f"figure: {Path('two/own.png')}" in ended.stdout
    after = {name: Path("two", name).read_bytes() for name in before}
    assert [name for name in before if before[name] != after[name]] == ["own.png"]
    assert Path("two/own.pdf").exists() and not Path("two/regret.png").exists()
