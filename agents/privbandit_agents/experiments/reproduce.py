"""``privbandit reproduce``: run an experiment, draw its figures, check its statements."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy.random import default_rng
from rich.console import Console

from privbandit_agents.experiments.board import write_overview
from privbandit_agents.experiments.cells import Cell, cells_of, with_variants
from privbandit_agents.experiments.chart import draw_figure
from privbandit_agents.experiments.engine import Engine, run_trials
from privbandit_agents.experiments.experiment import (
    DECIDING,
    Experiment,
    FigureSpec,
    Named,
    content_of,
    find_experiment,
    parse_experiment,
)
from privbandit_agents.experiments.layout import Panel, layout
from privbandit_agents.experiments.measure import Resolved, estimate, resolve
from privbandit_agents.experiments.measured import Table, measured
from privbandit_agents.experiments.offline.file import is_offline, parse_offline
from privbandit_agents.experiments.offline.study import OfflineStudy
from privbandit_agents.experiments.offline.study import carry_out as carry_out_offline
from privbandit_agents.experiments.offline.study import prepared as prepared_offline
from privbandit_agents.experiments.plan import override
from privbandit_agents.experiments.report import summarise, write_table
from privbandit_agents.experiments.trial import Outcome, Trial
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_agents.experiments.verdict import Verdict, verdict_table, write_verdicts

UNDECIDING = "This scale shows that everything runs; its few users and seeds decide nothing."


@dataclass(frozen=True)
class Study(Named):
    """An experiment at a scale, checked and ready to run.

    Attributes:
        experiment: what the file says.
        trials: of the sweep.
        measures: of the statements, with their cells.
        figures: with their panels.
    """

    experiment: Experiment
    trials: list[Trial]
    measures: list[Resolved]
    figures: list[tuple[FigureSpec, list[Panel]]]

    @property
    def heading(self) -> str:
        """The line above the verdicts."""
        seeds = sorted({len(cell.seeds) for cell in cells_of(self.trials)})
        told = "-".join(str(n) for n in dict.fromkeys([seeds[0], seeds[-1]]))
        return f"{self.experiment.title} ({self.scale} scale, {len(self.trials)} trials, {told} seeds)"


def prepare(name: str, scale: str = DECIDING, assignments: Sequence[str] = ()) -> Study | OfflineStudy:
    """Read an experiment and find the cells of its statements and figures, before anything runs.

    Args:
        name: of a shipped experiment, or a path that ends in ``.yaml``.
        scale: ``smoke`` or ``paper``.
        assignments: changes of the sweep's settings, as of ``--set``.

    Raises:
        UsageError: an unknown name, a wrong file, or a selection that matches none or several.
    """
    path = find_experiment(name)
    content = content_of(path)
    if not is_offline(content):
        return prepared(parse_experiment(content, path.name), path.stem, scale, assignments)
    if assignments:
        raise UsageError(f"--set is for sweeps; {path.name} compares offline: change a copy of the file.")
    return prepared_offline(parse_offline(content, path.name), path.stem, scale)


def prepared(experiment: Experiment, name: str, scale: str, assignments: Sequence[str] = ()) -> Study:
    """Find the cells of an experiment's statements and figures."""
    source = f"{name}.yaml"
    plan = experiment.plan(scale, source)
    trials = (override(plan, list(assignments)) if assignments else plan).trials(f"{source}: sweep")
    with usage_errors(source):
        cells = with_variants(cells_of(trials), experiment.variants)
    return Study(
        name, scale, experiment, trials, measures_of(experiment, cells, source), drawn(experiment, cells, source)
    )


def measures_of(experiment: Experiment, cells: Sequence[Cell], source: str) -> list[Resolved]:
    """Find the cells of every statement."""
    found = []
    for i, statement in enumerate(experiment.statements):
        with usage_errors(f"{source}: statements[{i}].measure"):
            found.append(resolve(statement.measure, cells))
    return found


def drawn(experiment: Experiment, cells: Sequence[Cell], source: str) -> list[tuple[FigureSpec, list[Panel]]]:
    """Find the panels of every figure."""
    found = []
    for i, figure in enumerate(experiment.figures):
        with usage_errors(f"{source}: figures[{i}]"):
            found.append((figure, layout(figure, cells)))
    return found


def reproduce(
    name: str,
    scale: str = DECIDING,
    folder: Path | None = None,
    engine: Engine | None = None,
    out: Console | None = None,
    err: Console | None = None,
) -> int:
    """Run an experiment, draw its figures and check its statements; finished trials are not run again.

    Args:
        name: of a shipped experiment, or a path that ends in ``.yaml``.
        scale: ``smoke`` or ``paper``.
        folder: gets trials, figures and tables; default: ``runs/NAME``.
        engine: where trials run; default: the cores of this machine.
        out: gets the verdicts.
        err: shows progress.

    Returns:
        The exit code: 1 if a trial failed or, at paper scale, a statement came out against what is expected.

    Raises:
        UsageError: the experiment cannot be run as it is written.
    """
    return carry_out(prepare(name, scale), folder, engine, out, err)


def carry_out(
    study: Study | OfflineStudy,
    folder: Path | None = None,
    engine: Engine | None = None,
    out: Console | None = None,
    err: Console | None = None,
) -> int:
    """Run a study; see ``reproduce``."""
    if isinstance(study, OfflineStudy):
        return carry_out_offline(study, folder, engine, out, err)
    folder = folder or study.folder
    specs = [trial.spec for trial in study.trials]
    with usage_errors("--out"):
        write_overview(folder / "tensorboard", specs, [])
    outcomes, failures = run_trials(study.trials, folder, console=err, engine=engine)
    verdicts, pictures = conclude(study, outcomes, folder, out or Console())
    with usage_errors("--out"):
        write_overview(folder / "tensorboard", specs, pictures)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures or (study.decides and any(verdict.surprising for verdict in verdicts)) else 0


def conclude(study: Study, outcomes: Sequence[Outcome], folder: Path, out: Console) -> tuple[list[Verdict], list[Path]]:
    """Show and store what trials have measured, verdicts, figures and the table of results.

    Returns:
        The verdicts, and the paths of the figures.
    """
    table = measured(outcomes)
    verdicts = verdicts_of(study, table)
    if outcomes:
        write_table(summarise(outcomes), folder)
    if verdicts:
        out.print(verdict_table(verdicts, study.heading, study.decides))
        note = study.heading if study.decides else f"{study.heading}. {UNDECIDING}"
        write_verdicts(verdicts, folder, note, study.decides)
    if not study.decides:
        out.print(UNDECIDING)
    paths = [(folder / f"{spec.name}.png", spec, panels) for spec, panels in study.figures]
    pictures = [path for path, spec, panels in paths if draw_figure(spec, panels, table, path)]
    for path in pictures:
        out.print(f"figure: {path}", soft_wrap=True, highlight=False)
    out.print(f"tables: {folder / 'verdicts.md'}, {folder / 'table.md'} (and .csv)", soft_wrap=True, highlight=False)
    return verdicts, pictures


def verdicts_of(study: Study, table: Table) -> list[Verdict]:
    """Return the verdict on every statement; each has a bootstrap of its own from the same seed."""
    return [
        Verdict.on(statement, estimate(resolved, table, default_rng(0)))
        for statement, resolved in zip(study.experiment.statements, study.measures, strict=True)
    ]
