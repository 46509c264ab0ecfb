"""From an experiment to its tables, figures and verdicts; and the report of a run without statements."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from numpy.random import default_rng
from rich.console import Console

from privbandit_agents.experiments.analysis.cells import Cells
from privbandit_agents.experiments.analysis.contests import check_columns, contest_table, contests, write_contests
from privbandit_agents.experiments.analysis.measures import Resolved, estimate, resolve
from privbandit_agents.experiments.analysis.readings import Results
from privbandit_agents.experiments.analysis.tables import rich_tables, summarise, summarise_trials, write_table
from privbandit_agents.experiments.analysis.verdicts import Verdict, verdict_table, write_verdicts
from privbandit_agents.experiments.drawing import figures
from privbandit_agents.experiments.drawing.layout import Panel, completed, layout
from privbandit_agents.experiments.drawing.style import span
from privbandit_agents.experiments.jobs.job import Job
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.spec.experiment import DECIDING, Experiment, find_experiment, read_experiment
from privbandit_agents.experiments.spec.figures import FigureSpec
from privbandit_agents.experiments.store.board import write_overview
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.usage import usage_errors

UNDECIDING = "This scale shows that everything runs; its few replications decide nothing."


@dataclass(frozen=True)
class Study:
    """An experiment at a scale, ready to run; ``missing`` has a sentence for every data set that is not here."""

    name: str
    scale: str
    experiment: Experiment
    jobs: Sequence[Job]
    cells: Cells
    measures: list[Resolved]
    figures: list[tuple[FigureSpec, list[Panel]]]
    missing: list[str]

    @property
    def decides(self) -> bool:
        """Whether the statements are decided at this scale; a smaller one only shows that all of it runs."""
        return self.scale == DECIDING

    @property
    def folder(self) -> Path:
        return Path("runs") / (self.name if self.decides else f"{self.name}-{self.scale}")

    @property
    def heading(self) -> str:
        job, counts = self.jobs[0], sorted({len(cell.jobs) for cell in self.cells})
        sizes = f"{self.scale} scale, {len(self.jobs)} {job.kind}s, {span(counts)} {job.unit}s"
        return f"{self.experiment.title} ({sizes})"


def prepare(name: str, scale: str = DECIDING, assignments: Sequence[str] = ()) -> Study:
    """Read an experiment and find the cells of its statements and figures, before anything runs.

    Args:
        name: of a shipped experiment, or a path that ends in ``.yaml``.
        scale: ``smoke`` or ``paper``.
        assignments: changes of a sweep's settings, as of ``--set``.

    Raises:
        UsageError: an unknown name, a wrong file, or a selection that matches none or several.
    """
    path = find_experiment(name)
    return prepared(read_experiment(path), path.stem, scale, assignments)


def prepared(experiment: Experiment, name: str, scale: str, assignments: Sequence[str] = ()) -> Study:
    """Find the jobs of an experiment and the cells of its statements, figures and tables."""
    source = f"{name}.yaml"
    jobs, missing = experiment.jobs(scale, assignments, source)
    with usage_errors(source):
        cells = Cells.of(jobs).named(experiment.variants)
    measures, pictures = [], []
    for statement in experiment.statements:
        with usage_errors(f"{source}: {statement.place}.measure"):
            measures.append(resolve(statement.measure, cells))
    for i, figure in enumerate(experiment.figures):
        with usage_errors(f"{source}: figures[{i}]"):
            spec = completed(figure, cells)
            pictures.append((spec, layout(spec, cells)))
    for i, table in enumerate(experiment.tables):
        with usage_errors(f"{source}: tables[{i}]"):
            check_columns(table, cells)
    return Study(name, scale, experiment, jobs, cells, measures, pictures, missing)


def carry_out(
    study: Study,
    folder: Path | None = None,
    engine: Engine | None = None,
    out: Console | None = None,
    err: Console | None = None,
) -> int:
    """Run a study, write its tables, check its statements and draw its figures; finished jobs are not run again.

    Args:
        study: from ``prepare``.
        folder: gets results, figures and tables; default: ``runs/NAME``.
        engine: where jobs run; default: the cores of this machine.
        out: gets tables and verdicts.
        err: shows progress.

    Returns:
        The exit code: 1 if a job failed, if no method could run or, at paper scale, if a statement came out against
        what is expected.
    """
    folder, out = folder or study.folder, out or Console()
    for line in study.missing:
        out.print(line, soft_wrap=True, highlight=False)
    write_board(study.jobs, folder)
    results, failures = run_jobs(study.jobs, folder, engine, err)
    if results:
        write_table(summarise(study.cells, results), folder)
        for spec in study.experiment.tables:
            tables = contests(spec, study.cells, results)
            for table in tables:
                out.print(contest_table(table))
            write_contests(tables, folder, spec.name, study.missing)
    verdicts = verdicts_of(study, results)
    if verdicts:
        out.print(verdict_table(verdicts, study.heading, study.decides))
        note = study.heading if study.decides else f"{study.heading}. {UNDECIDING}"
        write_verdicts(verdicts, folder, note, study.decides)
    if not study.decides:
        out.print(UNDECIDING)
    drawn = [(folder / f"{spec.name}.png", spec, panels) for spec, panels in study.figures]
    pictures = [path for path, spec, panels in drawn if figures.draw_figure(spec, panels, results, path)]
    for path in pictures:
        out.print(f"figure: {path}", soft_wrap=True, highlight=False)
    out.print(f"tables: {folder / 'verdicts.md'}, {folder / 'table.md'} (and .csv)", soft_wrap=True, highlight=False)
    write_board(study.jobs, folder, pictures)
    reasons = [reason for found in results.values() for reason in found.reasons]
    idle = [f"no method could run: {reasons[0]}"] if reasons and None not in reasons else []
    for problem in [*failures, *idle]:
        print(problem, file=sys.stderr)
    return 1 if failures or idle or (study.decides and any(verdict.surprising for verdict in verdicts)) else 0


def write_board(jobs: Sequence[Job], folder: Path, pictures: Sequence[Path] = ()) -> None:
    """Write the overview of the board of trials; fits have no events."""
    specs = [job.spec for job in jobs if job.kind == "trial"]
    if specs:
        with usage_errors("--out"):
            write_overview(folder / "tensorboard", specs, pictures)


def verdicts_of(study: Study, results: Results) -> list[Verdict]:
    """Return the verdict on every statement; each has a bootstrap of its own from the same seed."""
    return [
        Verdict(statement, estimate(resolved, results, default_rng(0)))
        for statement, resolved in zip(study.experiment.statements, study.measures, strict=True)
    ]


def show(trials: Sequence[Finished], folder: Path, out: Console, err: Console) -> int:
    """Print the table of trials, and write table, figure and the board's overview; return the exit code."""
    summary = summarise_trials(trials)
    out.print(*rich_tables(summary))
    figure, board = folder / "regret.png", folder / "tensorboard"
    try:
        write_table(summary, folder)
        figures.draw_regret(trials, figure)
        write_overview(board, [finished.job for finished in trials], [figure])
    except OSError as error:
        err.print(f"the table and the figure could not be written: {error}", highlight=False, soft_wrap=True)
        return 1
    versions = sorted({str(run.provenance["commit"] or run.provenance["privbandit"]) for run in trials})
    if len(versions) > 1:
        note = f"note: these are results of {len(versions)} versions of the code ({', '.join(versions)});"
        err.print(f"{note} another --out keeps them apart.", highlight=False, soft_wrap=True)
    print(f"figure: {figure}\ntable: {folder / 'table.md'}, {folder / 'table.csv'}")
    print(f"events: tensorboard --logdir {shlex.quote(str(board))}")
    return 0
