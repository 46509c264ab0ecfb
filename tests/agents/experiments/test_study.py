"""Experiments from end to end: verdicts on made-up results with known answers, figures, files and exit codes."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO

import matplotlib.image
import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray
from privbandit_agents.experiments import Trial
from privbandit_agents.experiments import study as studies
from privbandit_agents.experiments.results.readings import Results, by_cell
from privbandit_agents.experiments.results.statistics import Interval, estimate_alone
from privbandit_agents.experiments.results.verdicts import decision, judged, surprising
from privbandit_agents.experiments.running.attempt import Failure
from privbandit_agents.experiments.running.engine import Engine
from privbandit_agents.experiments.schema.experiment import Scale, Scales, parse_experiment, read_experiment
from privbandit_agents.experiments.schema.measures import Measure, Selection
from privbandit_agents.experiments.schema.statements import Statement
from privbandit_agents.experiments.shelf import library
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.study import Study, carry_out, frame_in, prepared, verdicts_of
from privbandit_agents.experiments.usage import AGAINST, UNFINISHED, UsageError
from privbandit_agents.experiments.views.curves import power
from privbandit_agents.experiments.views.figures import draw_figure, label_logarithms, lines_of, named
from privbandit_agents.experiments.views.table import write_tables
from privbandit_agents.experiments.views.tables import verdict_table
from rich.console import Console

from privbandit_envs.wrappers import even_checkpoints

Regret = Callable[[Trial, NDArray[np.float64]], NDArray[np.float64]]
SEMILOG = 0.5 * (8 - 2**1.5) * math.sqrt(1000) / math.log(2)
LINUCB = {"agent": "linucb", "env.dim": 4}
UNIFORM = {"agent": "uniform", "env.dim": 4}
COUNTED = {"lplr-theorem1", "lplr-theorem2", "lplr-theorem4"}
"""Shipped experiments whose statements tell horizons apart; users by counts, so that long horizons cost nothing."""


def study(statements: Sequence[dict[str, Any]] = (), scale: str = "paper", **more: Any) -> Study:
    envs = [{"id": "privbandit/Linear-v0", "dim": dim} for dim in (2, 4, 8)]
    agents = [{"name": "uniform"}, {"name": "linucb"}, {"name": "ldp-linucb", "epsilon": 2}]
    content = {
        "title": "made up",
        "about": "nothing is run",
        "sweep": {"envs": envs, "agents": agents, "horizon": 1000, "seeds": 12, "checkpoints": 100},
        "scales": {"smoke": {"seeds": 6}},
        "statements": [{"says": f"statement {i}", "where": "here", **given} for i, given in enumerate(statements)],
    }
    return prepared(parse_experiment(content | more, "made-up.yaml"), "made-up", scale)


def said(says: str, where: str, **bounds: Any) -> Statement:
    return Statement(says=says, where=where, measure=Measure(mean=Selection()), **bounds)


def law(trial: Trial, users: NDArray[np.float64]) -> NDArray[np.float64]:
    """Uniform: a user's regret is 1. The others: dim^1.5 sqrt(users), half of it for LinUCB."""
    if trial.agent == "uniform":
        return users
    return np.asarray(trial.env_kwargs["dim"] ** 1.5 * np.sqrt(users) * (0.5 if trial.agent == "linucb" else 1))


def common_luck(trial: Trial, users: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same law, with luck that all agents share in a seed."""
    return np.asarray(law(trial, users) * (1 + trial.seed))


def results_of(made: Study, regret: Regret = law) -> dict[str, Finished]:
    found = {}
    for trial in made.jobs:
        assert isinstance(trial, Trial)
        users = even_checkpoints(trial.horizon, trial.checkpoints).astype(np.float64)
        curves = {"checkpoints": users, "regret": regret(trial, users), "reward": users * 0.25}
        arrays = {**curves, "seconds": np.ones(1)}
        found[trial.name] = Finished("trial", trial.spec, trial.settings, arrays, {"simulation": "users"})
    return found


def read(made: Study, ended: dict[str, Finished]) -> Results:
    return by_cell(frame_in(made.jobs, ended))


def measured_value(measure: dict[str, Any], regret: Regret = law) -> Interval[float]:
    made = study([{"measure": measure, "at_least": 0}])
    row = verdicts_of(made, read(made, results_of(made, regret))).row(0, named=True)
    return Interval(row["measured"], row["low"], row["high"])


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ({"mean": LINUCB}, 4 * math.sqrt(1000)),
        ({"mean": {**LINUCB, "at": 400}}, 4 * 20),
        ({"mean": {**LINUCB, "at": 0.1}}, 4 * 10),
        ({"mean": {**LINUCB, "at": 405}}, 4 * (20 + math.sqrt(410)) / 2),
        ({"mean": {**LINUCB, "y": "ratio"}}, 4 / math.sqrt(1000)),
        ({"mean": {**LINUCB, "y": "regret_per_round", "at": 400}}, 4 / 20),
        ({"mean": {**LINUCB, "y": "reward"}}, 0.25),
        ({"ratio": [LINUCB, {**LINUCB, "agent": "ldp-linucb"}]}, 0.5),
        ({"share": LINUCB}, 4 / math.sqrt(1000)),
        ({"worst": {"of": {"agent": "linucb"}, "along": "env.dim"}}, 0.5 * 8**1.5 * math.sqrt(1000)),
        ({"worst": {"of": LINUCB, "along": "seeds"}}, 1),
        ({"over_best": {"of": LINUCB, "over": [UNIFORM, {**LINUCB, "agent": "ldp-linucb"}]}}, 0.5),
        ({"over_best": {"of": LINUCB, "over": [UNIFORM, 10.0, 20]}}, 0.4 * math.sqrt(1000)),
        ({"ratio": [{**LINUCB, "at": 100}, LINUCB]}, math.sqrt(0.1)),
        ({"difference": [UNIFORM, {**LINUCB, "at": 100}]}, 1000 - 40),
        ({"slope": {"of": LINUCB}}, 0.5),
        ({"slope": {"of": {**LINUCB, "y": "ratio"}, "from": 100, "to": 0.5}}, -0.5),
        ({"slope": {"of": UNIFORM, "axes": "linear"}}, 1),
        ({"slope": {"of": {"agent": "linucb"}, "against": "env.dim"}}, 1.5),
        (
            {"slope": {"of": {"agent": "linucb", "at": 100}, "against": "env.dim", "from": 4, "axes": "linear"}},
            5 * (8**1.5 - 4**1.5) / 4,
        ),
        ({"slope": {"of": {"agent": "linucb"}, "against": "env.dim", "to": 4, "axes": "semilog"}}, SEMILOG),
        ({"average": "median", "mean": LINUCB}, 4 * math.sqrt(1000)),
        # the worst agent at d = 2, 4, 8 is uniform play, whose regret does not depend on d
        ({"slope": {"of": {}, "against": "env.dim", "worst_along": "agent"}}, 0.0),
    ],
)
def test_a_measure_of_results_without_luck_is_exact(measure: dict[str, Any], value: float) -> None:
    found = measured_value(measure)
    assert (found.value, found.low, found.high) == pytest.approx((value, value, value), rel=1e-2)
    exact = not ("slope" in measure and measure["slope"].get("against", "users") == "users")
    assert found.value == pytest.approx(value, rel=5e-4 if exact else 1e-2)


def test_a_median_is_not_moved_by_a_wild_seed() -> None:
    """Eleven seeds have the law, one a thousand times as much; the ends stay at the law's value, too."""

    def wild(trial: Trial, users: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(law(trial, users) * (1000 if trial.seed == 3 else 1))

    found = measured_value({"average": "median", "mean": LINUCB}, wild)
    law_value = pytest.approx(4 * math.sqrt(1000))
    assert found.value == law_value and found.low == law_value and found.high == law_value
    assert measured_value({"mean": LINUCB}, wild).value > 50 * found.value


def test_the_worst_world_is_another_one_at_every_place() -> None:
    """A's regret is 8, 8, 8 and B's 2, 8, 32 at d = 2, 4, 8: the larger of both grows like (8, 8, 32)."""

    def two(trial: Trial, users: NDArray[np.float64]) -> NDArray[np.float64]:
        end = 8.0 if trial.agent == "linucb" else trial.env_kwargs["dim"] ** 2 / 2
        return np.asarray(end * users / users[-1])

    of = {"agent": ["linucb", "ldp-linucb"]}
    found = measured_value({"slope": {"of": of, "against": "env.dim", "worst_along": "agent"}}, two)
    assert found.value == pytest.approx(1.0)


def test_a_tally_is_read_where_it_is_kept() -> None:
    made = study([{"measure": {"mean": {**LINUCB, "y": "claimed"}}, "at_least": 0}])
    results = results_of(made)
    with pytest.raises(ValueError, match="keeps no tally of claimed"):
        verdicts_of(made, read(made, results))
    told = {
        name: Finished(r.kind, r.job, r.settings, {**r.arrays, "claimed": 0 * r.arrays["regret"] + 1.5}, r.notes)
        for name, r in results.items()
    }
    assert verdicts_of(made, read(made, told))["measured"][0] == 1.5


def test_luck_that_agents_share_does_not_blur_their_comparison() -> None:
    pair = [LINUCB, {**LINUCB, "agent": "ldp-linucb"}]
    ratio, mean = (measured_value(measure, common_luck) for measure in ({"ratio": pair}, {"mean": LINUCB}))
    assert (ratio.low, ratio.high) == pytest.approx((0.5, 0.5))
    to_uniform = measured_value({"mean": {**LINUCB, "y": "ratio"}}, common_luck)
    assert (to_uniform.low, to_uniform.high) == pytest.approx((4 / math.sqrt(1000),) * 2)
    assert mean.value == pytest.approx(6.5 * 4 * math.sqrt(1000)) and mean.high - mean.low > 0.5 * mean.value


def test_the_interval_of_a_mean_is_about_students() -> None:
    found = measured_value({"mean": UNIFORM}, common_luck)
    # seeds 0..11: deviation sqrt(13) of the factors, t(0.975, 11) = 2.200985
    half_width = 2.200985 * math.sqrt(13) * 1000 / math.sqrt(12)
    assert found.value == 6500 and (found.high - found.low) / 2 == pytest.approx(half_width, rel=0.05)


@pytest.mark.parametrize(
    ("bounds", "verdict", "against"),
    [
        ({"at_most": 0.51}, "holds", False),
        ({"at_most": 0.51, "expected": "fails"}, "holds", True),
        ({"at_most": 0.49}, "does not hold", True),
        ({"at_most": 0.49, "expected": "fails"}, "does not hold", False),
        ({"at_least": 0.51}, "does not hold", True),
        ({"at_least": 0.49, "at_most": 0.51}, "holds", False),
        ({"at_least": 0.6, "at_most": 0.9}, "does not hold", True),
    ],
)
def test_a_known_ratio_is_decided(bounds: dict[str, Any], verdict: str, against: bool) -> None:
    made = study([{"measure": {"ratio": [LINUCB, {**LINUCB, "agent": "ldp-linucb"}]}, **bounds}])
    row = verdicts_of(made, read(made, results_of(made, common_luck))).row(0, named=True)
    assert row["verdict"] == verdict and surprising(row) is against


def test_what_is_undecided() -> None:
    for least, most in ((None, 1.1), (0.9, None), (0.9, 1.1)):
        straddling = decision(Interval(1, 0.8, 1.2), least, most)
        assert straddling == "undecided (interval straddles the bound)"
        assert not surprising({"verdict": straddling, "expected": "holds"})
    made = study([{"measure": {"mean": LINUCB}, "at_most": 0}])
    few = {name: run for name, run in results_of(made).items() if run.job["seed"] < 4}
    assert verdicts_of(made, read(made, few))["verdict"][0] == "undecided (too few seeds for an interval)"
    assert verdicts_of(made, read(made, {}))["verdict"][0] == "undecided (not measured)"
    zero = results_of(study(), lambda trial, users: 0 * users)
    slope = study([{"measure": {"slope": {"of": LINUCB}}, "at_most": 0}])
    assert verdicts_of(slope, read(slope, zero))["verdict"][0].startswith("undecided")


def test_seeds_that_failed_are_left_out_of_both() -> None:
    made = study([{"measure": {"ratio": [LINUCB, {**LINUCB, "agent": "ldp-linucb"}]}, "at_most": 1}])
    every = results_of(made, common_luck)
    kept = {name: run for name, run in every.items() if run.job["agent"] != "linucb" or run.job["seed"] % 2}
    assert verdicts_of(made, read(made, kept))["measured"][0] == pytest.approx(0.5)


def test_verdicts_without_a_sweep_make_the_same_tables(tmp_path: Path) -> None:
    statements = [
        said("A | B.", "Theorem 1", at_most=0.7),
        said("C.", "Figure 2", at_least=1, at_most=2, expected="fails"),
        said("D.", "Figure 3", at_least=1),
        said("E.", "Figure 4", at_most=0.5),
    ]
    measured = [Interval(0.5, 0.4, 0.6), Interval(3, 2.5, 3.5), estimate_alone(2500.4), Interval(1, 0.9, 1.1)]
    verdicts = judged(statements, measured)
    write_tables([verdict_table(verdicts, "an audit")], tmp_path, "verdicts")
    lines = (tmp_path / "verdicts.md").read_text().splitlines()
    assert lines[0] == "an audit" and lines[2] == "| statement | where | measured (95 % interval) | bound | verdict |"
    assert lines[4:] == [
        "| A &#124; B. | Theorem 1 | 0.5 (0.4 to 0.6) | at most 0.7 | holds |",
        "| C. | Figure 2 | 3 (2.5 to 3.5) | 1 to 2 | does not hold, as expected |",
        "| D. | Figure 3 | 2,500 | at least 1 | undecided (too few seeds for an interval) |",
        "| E. | Figure 4 | 1 (0.9 to 1.1) | at most 0.5 | DOES NOT HOLD, against expectation |",
    ]
    frame = pl.read_csv(tmp_path / "verdicts.csv")
    assert frame["low"].to_list()[:2] == [0.4, 2.5] and frame["verdict"][1] == "does not hold"
    assert "an audit" in next(verdict_table(verdicts, "an audit").lines())


def sketched(figure: Figure, file: BinaryIO, format: str) -> None:
    """Draw all parts of a figure once, on no canvas and wherever they come to lie; neither takes long."""
    figure.set_layout_engine("none")
    figure.draw_without_rendering()
    file.write(b"a sketch")


def carried_out(
    made: Study, monkeypatch: pytest.MonkeyPatch, folder: Path, failures: Sequence[Failure] = (), regret: Regret = law
) -> tuple[int, str]:
    """Return the exit code and the output, with made-up results in place of runs and sketches in place of figures."""
    monkeypatch.setattr(Figure, "savefig", sketched)
    monkeypatch.setattr(studies, "run_jobs", lambda *_, **__: (results_of(made, regret), list(failures)))
    out = Console(file=StringIO(), width=160)
    code = carry_out(made, folder, None, out)
    return code, out.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("scale", "bounds", "code"),
    [
        ("paper", {"at_most": 0.4}, 0),
        ("paper", {"at_most": 0.1}, 1),
        ("paper", {"at_most": 0.1, "expected": "fails"}, 0),
        ("paper", {"at_most": 0.4, "expected": "fails"}, 1),
        ("smoke", {"at_most": 0.1}, 0),
    ],
)
@pytest.mark.wide
def test_exit_codes(
    scale: str, bounds: dict[str, Any], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = study([{"measure": {"mean": {**LINUCB, "y": "ratio"}}, **bounds}], scale)
    found, shown = carried_out(made, monkeypatch, tmp_path / "out")
    assert found == code and ("statement 0" in shown) == (scale == "paper")
    assert ("decide nothing" in " ".join(shown.split())) == (shown.count("\n") < 4) == (scale == "smoke")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "regret.png", "results.csv", "results.parquet", "table.csv", "table.md", "table.tex", "tensorboard",
        "tensorboard-trials", "verdicts.csv", "verdicts.md", "verdicts.tex",
    }  # fmt: skip


@pytest.mark.wide
def test_a_failed_trial_is_named_and_the_rest_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = study([{"measure": {"mean": LINUCB}, "at_least": 0}])
    code, shown = carried_out(made, monkeypatch, tmp_path, [Failure(made.jobs[0], "out of ideas")])
    assert code == UNFINISHED and "holds" in shown
    assert capsys.readouterr().err == "uniform on privbandit/Linear-v0(dim=2), seed 0, failed: out of ideas\n"


@contextmanager
def full_disk() -> Iterator[None]:
    """Let nothing be written to any file."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("least", "expected"), [(0, UNFINISHED), (1e9, AGAINST)])
@pytest.mark.wide
def test_a_full_disk_loses_no_verdict(
    least: float, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = study([{"measure": {"mean": LINUCB}, "at_least": least}], figures=[{"name": "f"}])
    with full_disk():
        code, shown = carried_out(made, monkeypatch, tmp_path)
    assert code == expected and ("DOES NOT HOLD" in shown) == (expected == AGAINST) and "tables:" not in shown
    what = "the results, the table, the verdicts, the figure f, the board"
    assert capsys.readouterr().err == f"{tmp_path}: {what} could not be written: File too large.\n"


@pytest.mark.wide
def test_what_is_in_the_way_of_one_file_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "verdicts.md").mkdir()
    made = study([{"measure": {"mean": LINUCB}, "at_least": 0}], figures=[{"name": "f"}])
    code, shown = carried_out(made, monkeypatch, tmp_path)
    assert code == UNFINISHED and "figure:" in shown and (tmp_path / "table.md").exists()
    assert capsys.readouterr().err == f"{tmp_path}: the verdicts could not be written: Is a directory.\n"


def figure(made_regret: Regret = law, **spec: Any) -> tuple[Any, list[Any], Results]:
    made = study(figures=[{"name": "f", **spec}])
    ((drawn, panels),) = made.figures
    return drawn, panels, read(made, results_of(made, made_regret))


def test_lines_against_a_setting_have_a_point_for_each_value_and_levels_go_across() -> None:
    _, (panel,), table = figure(x="env.dim", y="ratio", at=0.4, select={"agent": ["linucb", "uniform"]})
    uniform, linucb = lines_of(panel, table)
    assert panel.title == "Linear-v0" and linucb.x.tolist() == [2, 4, 8]
    np.testing.assert_allclose(linucb.mean.value, 0.5 * np.array([2, 4, 8]) ** 1.5 / 20)
    np.testing.assert_allclose(uniform.mean.value, 1)
    _, panels, table = figure(x="agent.epsilon", log="xy")
    level = {line.label: line for line in lines_of(panels[0], table)}["linucb"]
    assert level.level and level.x.tolist() == [2, 2] and len(panels) == 3


def test_a_slope_is_fitted_to_the_values_asked_for() -> None:
    """LinUCB's regret grows like dim^1.5 here; from 4 on it is made to be flat."""

    def flat(trial: Trial, users: NDArray[np.float64]) -> NDArray[np.float64]:
        return law(trial, users) if trial.env_kwargs["dim"] == 2 else 10 * users

    lines = {"x": "env.dim", "log": "xy", "fit": True, "select": {"agent": "linucb"}}
    for fit_from, expected in ((None, math.log2(1e4 / math.sqrt(2 * 1000)) / 2), (4, 0)):
        spec, (panel,), table = figure(flat, **lines, fit_from=fit_from)
        (line,) = lines_of(panel, table)
        name, _, slope = named(spec, line).rpartition(" ")
        assert name == "linucb, slope" and float(slope) == pytest.approx(expected, rel=0.01, abs=1e-9)


def test_the_band_of_a_ratio_is_paired() -> None:
    _, (panel,), table = figure(common_luck, y="ratio", select={"env.dim": 4})
    lines = {line.label: line for line in lines_of(panel, table)}
    np.testing.assert_allclose(lines["linucb"].mean.half_width, 0, atol=1e-12)
    _, (panel,), table = figure(common_luck, select={"env.dim": 4})
    band = {line.label: line for line in lines_of(panel, table)}["uniform"].mean.half_width[-1]
    assert band == pytest.approx(2.200985 * math.sqrt(13) * 1000 / math.sqrt(12), rel=1e-5)


@pytest.mark.parametrize(
    "spec",
    [
        {"log": "xy", "fit": True, "title": "Made up", "select": {"env.dim": [2, 4]}},
        {"x": "env.dim", "y": "ratio", "log": "y", "panels": "agent", "lines": ["agent", "env.n_arms"]},
        {"x": "agent.epsilon", "y": "reward", "panels": "env.dim"},
    ],
)
@pytest.mark.wide
def test_every_kind_of_figure_is_drawn(spec: dict[str, Any], tmp_path: Path) -> None:
    drawn, panels, table = figure(common_luck, **spec)
    assert draw_figure(drawn, panels, table, tmp_path / "f.png")
    pixels = (matplotlib.image.imread(tmp_path / "f.png")[..., :3] * 255).astype(int)
    assert pixels.shape[1] > 800 and (pixels == (0x00, 0x72, 0xB2)).all(axis=-1).any()
    assert not draw_figure(drawn, panels, {}, tmp_path / "none.png") and not (tmp_path / "none.png").exists()


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((400, 4000), ["500", "1,000", "2,000"]),
        ((10, 20_000), ["10", "100", "1,000", "10,000"]),
        ((9e4, 2e7), ["$10^{5}$", "$10^{6}$", "$10^{7}$"]),
    ],
)
def test_logarithmic_axes_have_plain_numbers(ends: tuple[float, float], expected: list[str]) -> None:
    figure = Figure()
    axis = figure.subplots()
    axis.set_xscale("log")
    axis.set_xlim(*ends)
    label_logarithms(axis.xaxis, *ends)
    figure.draw_without_rendering()
    places, labels = axis.get_xticks(), axis.get_xticklabels()
    shown = [text.get_text() for place, text in zip(places, labels, strict=True) if ends[0] <= place <= ends[1]]
    assert shown == expected and not any(text.get_text() for text in axis.get_xticklabels(minor=True))


@pytest.mark.wide
def test_a_reference_curve_ends_where_its_line_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    through = {"agent": "linucb", "env.dim": 4}
    curve = {"function": f"{power.__module__}:power", "exponent": 0.5, "label": "root of T", "through": through}
    seen: list[Any] = []
    monkeypatch.setattr(
        "privbandit_agents.experiments.views.figures.label_points", lambda axis, labels: seen.extend(labels)
    )
    drawn, panels, table = figure(log="xy", select={"env.dim": [2, 4]}, curves=[curve])
    assert draw_figure(drawn, panels, table, tmp_path / "f.png")
    (label,) = [label for label in seen if label.text == "root of T"]
    assert (label.x, label.y) == pytest.approx((1000, 4 * math.sqrt(1000)))


OFFLINE = [name for name, path in library().items() if "\noffline:" in path.read_text()]


QUICK = ["dpmnl-fig7", "fliphat-margin", "lpct-bandit", "lpct-fig9"]
"""Among them are figures, tables and statements of every kind; the others are slow tests."""
POWERS = ("finite-arms", "hard-worlds", "smooth")
"""They read powers of the horizon, and need several horizons."""


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in library()])
@pytest.mark.wide
def test_a_shipped_experiment_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in QUICK:
        monkeypatch.setattr(Figure, "savefig", sketched)
        monkeypatch.setattr(Trial, "light", 0.0)  # in this process: starting others would take longer than the trials
    size: dict[str, Any] = {"seeds": 1, "horizon": 80, "checkpoints": 40}
    if name in COUNTED:
        size = {"seeds": 1, "checkpoints": 4}
    if name in OFFLINE:
        size = {"replications": 1, "shrink": 100}
    experiment = read_experiment(library()[name])
    if name not in POWERS:
        experiment = experiment.model_copy(update={"scales": Scales(smoke=Scale(**size))})
    out = Console(file=StringIO(), width=160)
    made = prepared(experiment, name, "smoke")
    assert carry_out(made, tmp_path, Engine(jobs=1), out) == 0
    pictures = {f"{spec.name}.png" for spec in experiment.figures} | {f"{spec.name}.md" for spec in experiment.tables}
    assert pictures <= {path.name for path in tmp_path.iterdir()}
    assert pl.read_csv(tmp_path / "verdicts.csv").height == len(experiment.statements)
    assert pl.read_csv(tmp_path / "table.csv").height == len(made.cells)
    assert "decide nothing" in (tmp_path / "verdicts.md").read_text()


def test_the_worst_seed_is_over_the_mean_of_all_and_its_interval_ends_there() -> None:
    """Luck of seed k is 1 + k: of twelve seeds the worst has 12, the mean is 6.5."""
    found = measured_value({"worst": {"of": LINUCB, "along": "seeds"}}, common_luck)
    assert found.value == pytest.approx(12 / 6.5) and 1 < found.low < found.value


@pytest.mark.parametrize(
    ("measure", "why"),
    [
        ({"share": {**LINUCB, "y": "reward"}}, "y: reward"),
        ({"worst": {"of": LINUCB, "along": "seeds"}, "average": "median"}, "average"),
        ({"over_best": {"of": LINUCB, "over": [1.0]}}, "selection"),
    ],
)
def test_wrong_shares_and_comparisons_are_refused(measure: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        study([{"measure": measure, "at_least": 0}])
