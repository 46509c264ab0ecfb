"""Experiment files: how mistakes are named, and that selections are checked before anything runs."""

from pathlib import Path
from typing import Any

import pytest
from privbandit_agents.cli.listing import experiment_lines
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.results.readings import Reading
from privbandit_agents.experiments.schema.experiment import (
    Experiment,
    find_experiment,
    parse_experiment,
    read_experiment,
)
from privbandit_agents.experiments.schema.sweep import parse_sweep
from privbandit_agents.experiments.schema.yaml_text import from_yaml
from privbandit_agents.experiments.shelf import library
from privbandit_agents.experiments.study import prepare, prepared
from privbandit_agents.experiments.usage import UsageError

GOOD = """
title: A small one
about: Shows that files are read.
sweep:
  envs: [{id: privbandit/Linear-v0, dim: 5}, {id: privbandit/Linear-v0, dim: 3}]
  agents: [{name: uniform}, {name: linucb}, {name: linucb, alpha: 0.5}, {name: ldp-linucb, epsilon: 2}]
  horizon: 400
  seeds: 3
scales:
  smoke: {seeds: 2, shrink: 4, checkpoints: 20}
  paper: {set: [agent.ridge=2]}
figures:
  - {name: curves, log: xy, select: {env.dim: 5}, curves: [{function: "numpy:sqrt", label: root}]}
  - {name: points, x: env.dim, y: ratio, select: [{agent: linucb, agent.alpha: 1}, {agent: ldp-linucb}]}
statements:
  - says: LinUCB learns.
    where: here
    measure: {ratio: [{agent: linucb, agent.alpha: 0.5, env.dim: 5, at: 0.5}, {agent: uniform, env.dim: 5}]}
    at_most: 0.9
  - says: It slows down.
    where: here
    measure: {slope: {of: {agent: linucb, agent.alpha: 1, env.dim: 5}, from: 0.2, to: 1.0}}
    at_least: 0
    at_most: 0.9
"""


def message(text: str, scale: str = "smoke") -> str:
    with pytest.raises(UsageError) as caught:
        prepared(parse_experiment(from_yaml(text), "x.yaml"), "x", scale)
    return str(caught.value)


def trial(reading: Any) -> Trial:
    assert isinstance(reading.cell.job, Trial)
    return reading.cell.job


def users(reading: Any) -> list[float]:
    assert isinstance(reading, Reading) and reading.users is not None
    return [float(count) for count in reading.users]


def good() -> Experiment:
    return parse_experiment(from_yaml(GOOD), "x.yaml")


def test_a_scale_changes_every_part() -> None:
    smoke, paper = (good().sweep_at(scale).trials() for scale in ("smoke", "paper"))
    assert len(smoke) == 2 * 4 * 2 and len(paper) == 2 * 4 * 3
    assert {trial.horizon for trial in smoke} == {100} and {trial.checkpoints for trial in smoke} == {20}
    assert {trial.horizon for trial in paper} == {400}
    assert {trial.config.get("ridge") for trial in paper if trial.agent == "linucb"} == {2}


def test_cells_are_found_before_anything_runs() -> None:
    study = prepared(good(), "x", "smoke")
    (ratio, uniform), (slope,) = (measure.readings for measure in study.measures)
    assert trial(ratio).config == {"alpha": 0.5} and users(ratio) == [50]
    assert trial(uniform).agent == "uniform" and users(uniform) == [100]
    assert users(slope)[0] == pytest.approx(20) and users(slope)[-1] == pytest.approx(100) and len(users(slope)) == 50
    (curves,), (points,) = (panels for _, panels in study.figures)
    assert curves.title == "Linear-v0 (dim=5)" and points.title == "Linear-v0"
    assert [line.label for line in curves.series] == [
        "uniform",
        "linucb alpha=1",
        "linucb alpha=0.5",
        "ldp-linucb epsilon=2",
    ]
    assert [line.x for line in points.series] == [[3, 5], [3, 5]]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("title:", "titel:", "x.yaml: title is missing (did you mean it by 'titel'?)."),
        (
            "figures:",
            "figuers:",
            "x.yaml: figuers is not a known key (did you mean 'figures'?); the keys are title, about",
        ),
        ("shrink:", "shirnk:", "x.yaml: scales.smoke.shirnk is not a known key (did you mean 'shrink'?)"),
        ("at_most: 0.9", "atmost: 0.9", "x.yaml: statements[0].atmost is not a known key (did you mean 'at_most'?)"),
        (
            "from: 0.2",
            "form: 0.2",
            "x.yaml: statements[1].measure.slope.form is not a known key (did you mean 'from'?)",
        ),
        ("ratio: [", "ration: [", "x.yaml: statements[0].measure.ration is not a known key (did you mean 'ratio'?)"),
        ("log: xy", "log: yx", "x.yaml: figures[0].log: input should be '', 'x', 'y', 'xy' or 'auto'; got 'yx'."),
        ("log: xy", "log: y, fit: true", "x.yaml: figures[0]: fit has no slope for log: y; choose"),
        ("log: xy", "log: xy, fit_from: 3", "x.yaml: figures[0]: fit_from needs fit: true; got fit_from: 3 alone"),
        ("name: curves", "name: a/b", "x.yaml: figures[0].name: string should match pattern"),
        ("    at_most: 0.9\n  -", "  -", "x.yaml: statements[0]: needs at_least, at_most or both; got none."),
        ("at_least: 0\n", "at_least: 1\n", "x.yaml: statements[1]: at_least must be <= at_most; got 1 > 0.9."),
        (
            "at_least: 0\n",
            "at_least: low\n",
            "x.yaml: statements[1].at_least: value must be a finite number; got 'low'.",
        ),
        (
            "at: 0.5",
            "at: 1.5",
            "x.yaml: statements[0].measure.ratio[0].at: must be users, an integer >= 1, or a fraction",
        ),
        (
            ", {agent: uniform, env.dim: 5}]",
            "]",
            "x.yaml: statements[0].measure.ratio: list should have at least 2 items",
        ),
        (
            "measure: {ratio",
            "measure: {mean: {agent: uniform}, ratio",
            "x.yaml: statements[0].measure: needs one of mean,",
        ),
        ("horizon: 400", "horzon: 400", "x.yaml: sweep: horzon is not a known key (did you mean 'horizon'?)"),
        ("  horizon: 400\n", "", "x.yaml: scales.smoke: shrink needs the horizon of every part; parts[0] has none."),
        ("seeds: 2,", "seeds: 0,", "x.yaml: scales.smoke: seeds: must be an integer >= 1 or a list of seeds; got 0."),
    ],
)
def test_a_mistake_in_the_file_is_named(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    said = message(GOOD.replace(old, new, 1))
    assert said.startswith(expected) and said.count("\n") == 0


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "{agent: uniform, env.dim: 5}]",
            "{agent: unifrom, env.dim: 5}]",
            "statements[0].measure: no trial has agent=unifrom (did you mean 'uniform'?); there is uniform, linucb,",
        ),
        (
            "agent.alpha: 0.5,",
            "agent.alhpa: 0.5,",
            "statements[0].measure: no trial has a setting 'agent.alhpa' (did you mean 'agent.alpha'?).",
        ),
        (
            "agent.alpha: 0.5, env.dim: 5",
            "agent.alpha: 0.5, env.dim: 7",
            "statements[0].measure: no trial has env.dim=7; there is 5, 3.",
        ),
        (
            "{agent: uniform, env.dim: 5}]",
            "{agent: uniform, env.dim: 5, agent.alpha: 1}]",
            "statements[0].measure: no trial has agent=uniform, env.dim=5, agent.alpha=1; the nearest has agent=uni",
        ),
        (
            "agent.alpha: 0.5, env.dim: 5,",
            "",
            "statements[0].measure: agent=linucb matches 4 agents or environments, which differ in env.dim (5, 3) and ",
        ),
        ("at: 0.5", "at: 101", "statements[0].measure: must be at most the horizon 100; got 101, a fraction"),
        (
            "from: 0.2",
            "from: 2",
            "statements[1].measure: from must be at least the first checkpoint, 5 users, and below",
        ),
        (
            "from: 0.2, to: 1.0",
            "against: agent.alpha",
            "statements[1].measure: a slope needs two points; agent=linucb, agent",
        ),
        ("x: env.dim", "x: env.dmi", "figures[1]: no trial has a setting 'env.dmi' (did you mean 'env.dim'?)."),
        (
            "x: env.dim",
            "x: env.design",
            "figures[1]: line 'linucb alpha=1': env.design: value must be a finite number; got 'sphere'.",
        ),
        ("x: env.dim", "x: env.dim, lines: env", "figures[1]: line 'Linear-v0': env.dim=3 matches 2 agents or environ"),
        (
            "select: {env.dim: 5}",
            "lines: env.dim",
            "figures[0]: line 'dim=5': a selection without settings matches 4 agents or environments, which differ in "
            "agent (uniform, linucb, ldp-linucb).",
        ),
        (
            "numpy:sqrt",
            "numpy:squrt",
            "figures[0]: function must be 'module:function'; got 'numpy:squrt', which is none.",
        ),
        ("numpy:sqrt", "nmupy:sqrt", "figures[0]: no module named 'nmupy' is installed"),
        (
            '"numpy:sqrt"',
            '"statistics:mean", power: 2',
            "figures[0]: statistics:mean: got an unexpected keyword argument 'power'",
        ),
        (
            "label: root",
            "label: root, through: {agent: linucb}",
            "figures[0]: through must select one line; agent=linucb is on 'linucb alpha=1' and 'linucb alpha=0.5'.",
        ),
        (
            "scales:",
            "variants: {bold: {agent: linucb, agent.alhpa: 1}}\nscales:",
            "variants.bold: no trial has a setting 'agent.alhpa' (did you mean 'agent.alpha'?).",
        ),
        (
            "scales:",
            "variants: {bold: {agent: linucb}, shy: {agent.alpha: 0.5}}\nscales:",
            "variants.shy: linucb(alpha=0.5) is a 'bold' too; name a setting that differs.",
        ),
        (
            "{name: uniform}, ",
            "{name: greedy}, ",
            "statements[0].measure: no trial has agent=uniform; there is greedy,",
        ),
    ],
)
def test_a_selection_that_finds_none_or_several_is_named(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    said = message(GOOD.replace(old, new, 1))
    assert said.startswith(f"x.yaml: {expected}") and said.count("\n") == 0


def test_variants_name_lines_and_panels_and_what_has_none_is_in_all_that_it_fits() -> None:
    content: dict[str, Any] = from_yaml(GOOD)
    variants = [("bold", 1), ("shy", 0.5)]
    content["variants"] = {name: {"agent": "linucb", "agent.alpha": alpha} for name, alpha in variants}
    uniform = {"agent": "uniform"}
    content["figures"] = [
        {"name": "a", "select": [{"variant": "bold", "env.dim": 5}, {**uniform, "env.dim": 5}], "lines": "variant"},
        {
            "name": "b",
            "select": [{"agent": "linucb"}, uniform],
            "panels": ["variant", "env.dim"],
            "lines": "agent.ridge",
        },
        {"name": "c", "select": [{"agent": "linucb", "env.dim": 5}, uniform], "panels": ["env.dim", "variant"]},
    ]
    content["statements"][0]["measure"] = {"mean": {"variant": "shy", "env.dim": 3, "y": "ratio"}}
    study = prepared(parse_experiment(content, "x.yaml"), "x", "smoke")
    assert trial(study.measures[0].readings[0]).config == {"alpha": 0.5}
    (lines,), panels, apart = (panels for _, panels in study.figures)
    assert [(line.label, line.agent) for line in lines.series] == [("uniform", "uniform"), ("bold", "bold")]
    titles = {panel.title: [line.label for line in panel.series] for panel in panels}
    assert titles == {f"{v}, dim={d}": ["ridge=1", "uniform"] for d in (5, 3) for v in ("bold", "shy")}
    assert [panel.title for panel in apart] == ["dim=5, bold", "dim=5, shy", "dim=3"]


def test_a_ratio_needs_uniform_and_a_comparison_common_seeds() -> None:
    content: dict[str, Any] = from_yaml(GOOD)
    content["sweep"]["agents"][0] = {"name": "greedy"}
    content["statements"] = []
    assert message(str(content)).startswith(
        "x.yaml: figures[1]: line 'linucb alpha=1': a ratio needs the agent 'uniform' in priv"
    )
    content = from_yaml(GOOD)
    block = content["sweep"] | {"agents": [{"name": "uniform"}], "seeds": [7]}
    rest = content["sweep"] | {"agents": content["sweep"]["agents"][1:], "seeds": [8, 9]}
    content["sweep"] = {"parts": [block, rest]}
    content["figures"] = []
    said = message(str(content), "paper")
    assert said.startswith("x.yaml: statements[0].measure: the trials compared must have a seed in common")
    content["figures"] = from_yaml(GOOD)["figures"][1:]
    content["statements"] = []
    assert "a ratio needs a seed in common with uniform's; linucb(ridge=2) has (8, 9)." in message(
        str(content), "paper"
    )


EACH = """
- each:
    - {dim: [3, 5], least: 0.5}
    - {dim: 5, least: 0.25}
  says: Everything learns in $dim dimensions, but costs $$5.
  where: here
  measure: {ratio: [{agent: ldp-linucb, env.dim: $dim}, {agent: uniform, env.dim: $dim}]}
  at_least: $least
"""


def with_statements(entries: str) -> str:
    content: dict[str, Any] = from_yaml(GOOD)
    return str({**content, "statements": from_yaml(entries)})


def test_a_statement_is_written_once_for_several_cases() -> None:
    study = prepared(parse_experiment(from_yaml(with_statements(EACH)), "x.yaml"), "x", "smoke")
    told = [(statement.says.partition(",")[0], statement.at_least) for statement in study.experiment.statements]
    words = "Everything learns in {} dimensions"
    assert told == [(words.format(3), 0.5), (words.format(5), 0.5), (words.format(5), 0.25)]
    assert study.experiment.statements[0].says.endswith("but costs $5.")
    assert [trial(measure.readings[0]).env_kwargs["dim"] for measure in study.measures] == [3, 5, 5]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("at_least: $least", "at_least: $lest", "statements[0]: there is no value for $lest (did you mean 'least'?)"),
        ("at_least: $least", "atleast: $least", "statements[0] (dim=3, least=0.5).atleast is not a known key"),
        ("least: 0.25", "least: low", "statements[0] (dim=5, least=low).at_least: value must be a finite number"),
        ("{dim: 5, least: 0.25}", "{dim: 7, least: 0}", "statements[0] (dim=7, least=0).measure: no trial has env.dim"),
        ("{dim: 5, least: 0.25}", "7", "statements[0].each: must map names to values, or be a list of such mappings"),
        ("{dim: 5, least: 0.25}", "{dim: []}", "statements[0].each: must map names to values, or be a list of such"),
    ],
)
def test_a_mistake_in_a_case_is_named(old: str, new: str, expected: str) -> None:
    assert old in EACH
    said = message(with_statements(EACH.replace(old, new)))
    assert said.startswith(f"x.yaml: {expected}") and said.count("\n") == 0


def test_an_experiment_has_one_source_of_jobs_and_the_scales_of_it() -> None:
    content: dict[str, Any] = from_yaml(GOOD)
    offline = {"worlds": [{}], "epsilons": [1], "replications": 1, "methods": [{"name": "a", "agent": "lpct"}]}
    rest = {key: value for key, value in content.items() if key != "sweep"}
    for wrong, expected in (
        (rest, "needs either sweep or offline; got none"),
        ({**content, "offline": offline}, "needs either sweep or offline; got both"),
        ({**content, "tables": [{"name": "t"}]}, "tables are of fits; a sweep has none"),
        ({**content, "scales": {"smoke": {"replications": 3}}}, "scales.smoke.replications is for offline"),
        ({**rest, "offline": offline}, "scales.smoke.checkpoints is for a sweep"),
    ):
        assert expected in message(str(wrong))


def test_names_of_experiments_and_scales() -> None:
    with pytest.raises(UsageError, match=r"^reproduce: no experiment is called .*did you mean baselines-linear"):
        prepare("baselines-liner")
    with pytest.raises(
        UsageError, match=r"^--scale: scale must be one of smoke, quick, paper; got 'papre' \(did you mean"
    ):
        prepare("baselines-linear", "papre")
    with pytest.raises(UsageError, match=r"^no file '.*none\.yaml'; give the path of a YAML file\.$"):
        read_experiment(find_experiment("none.yaml"))


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(GOOD)
    study = prepare(str(tmp_path / "own.yaml"), "smoke")
    assert study.name == "own" and study.folder == Path("runs/own-smoke") and not study.decides


def test_a_scale_thins_grids_and_says_what_it_cannot() -> None:
    content = {
        "title": "t",
        "about": "a",
        "sweep": {
            "envs": [{"id": "privbandit/Linear-v0", "grid": {"dim": [2, 3, 4]}}],
            "agents": [{"name": "uniform"}, {"name": "ldp-linucb", "grid": {"epsilon": [0.5, 1, 2]}}],
            "horizon": 100,
        },
        "scales": {"smoke": {}, "quick": {"only": {"env.dim": [4, 2], "agent.epsilon": [1]}}},
    }
    jobs = parse_experiment(content, "own.yaml").jobs("quick")[0]
    assert {(job.spec["env_kwargs"]["dim"], job.spec["agent"]) for job in jobs} == {
        (dim, agent) for dim in (2, 4) for agent in ("uniform", "ldp-linucb")
    }
    for only, why in (({"env.depth": [1]}, "no grid has 'env.depth'"), ({"env.dim": [9]}, "nothing of env.dim stays")):
        content["scales"] = {"smoke": {}, "quick": {"only": only}}
        with pytest.raises(UsageError, match=why):
            parse_experiment(content, "own.yaml").jobs("quick")


def test_the_experiments_of_the_papers_are_listed() -> None:
    assert {"baselines-linear", "dpmnl-fig4", "fliphat-fig2", "lpct-fig4", "lplr-theorem4"} <= set(library())


@pytest.mark.filterwarnings("ignore:fliphat")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "envelope-labels" else n for n in library()]
)  # it makes many tables and models of their public rows
@pytest.mark.wide
def test_a_shipped_experiment_is_listed_and_has_statements(name: str, shelf: str) -> None:
    experiment = read_experiment(library()[name])
    assert f"{name} {' '.join(experiment.title.split())}" in shelf
    assert experiment.scales.quick is not None, "every experiment has a scale that decides within minutes"
    for scale in ("smoke", "quick", *(["paper"] if experiment.scales.quick.only else [])):
        study = prepared(experiment, name, scale)
        assert study.experiment.statements and (study.figures or study.experiment.tables)
        assert study.decides == (scale != "smoke") and len(study.measures) == len(study.experiment.statements)


@pytest.fixture(scope="module")
def shelf() -> str:
    """What the list of experiments shows, on one line: name, title, name, title, ..."""
    return " ".join(" ".join(experiment_lines()).split())


def test_a_scale_keeps_the_first_seed_of_each_part() -> None:
    agents = {"envs": ["Linear-v0"], "agents": ["uniform"], "horizon": 5}
    parts = [{**agents, "seeds": 3}, {**agents, "horizon": 6, "seeds": {"first": 990_000, "number": 4}}]
    content = {
        **from_yaml(GOOD),
        "sweep": {"parts": parts},
        "scales": {"smoke": {"seeds": 2}},
        "figures": [],
        "statements": [],
    }
    experiment = parse_experiment(content, "own.yaml")
    smoke, paper = ([trial.replication for trial in experiment.jobs(scale)[0]] for scale in ("smoke", "paper"))
    assert smoke == [0, 1, 990_000, 990_001]
    assert paper == [0, 1, 2, 990_000, 990_001, 990_002, 990_003]


@pytest.mark.parametrize(
    "seeds", [{"first": 3}, {"first": 1.5, "number": 2}, {"first": 3, "number": 0}, {"first": -1, "number": 2}]
)
def test_wrong_first_seeds_are_refused(seeds: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="seeds"):
        parse_sweep({"envs": ["Linear-v0"], "agents": ["uniform"], "horizon": 5, "seeds": seeds})
