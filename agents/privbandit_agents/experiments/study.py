"""From an experiment to its tables, figures and verdicts; and the report of a run without statements."""

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
from numpy.random import default_rng
from rich.console import Console

from privbandit_agents.experiments.jobs.job import Job
from privbandit_agents.experiments.names import MEAN_EVENTS, TRIAL_EVENTS
from privbandit_agents.experiments.results.cells import Cells
from privbandit_agents.experiments.results.contests import check_columns, contests
from privbandit_agents.experiments.results.files import with_those_there, write_data
from privbandit_agents.experiments.results.frame import fit_frame, frame_of, public
from privbandit_agents.experiments.results.measures import Resolved, estimate, resolve
from privbandit_agents.experiments.results.queries import finals
from privbandit_agents.experiments.results.readings import Results, by_cell
from privbandit_agents.experiments.results.summary import summarise, summarised
from privbandit_agents.experiments.results.verdicts import judged, surprising
from privbandit_agents.experiments.running.attempt import told
from privbandit_agents.experiments.running.engine import Engine, found_before, run_jobs
from privbandit_agents.experiments.running.progress import forecast
from privbandit_agents.experiments.schema.experiment import (
    DECIDING,
    SHOWING,
    Experiment,
    find_experiment,
    read_experiment,
)
from privbandit_agents.experiments.schema.figures import FigureSpec, Picture
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.text import paragraph, said
from privbandit_agents.experiments.usage import AGAINST, UNFINISHED, UsageError, unwritten, usage_errors
from privbandit_agents.experiments.views.board import write_means
from privbandit_agents.experiments.views.figures import draw_figure, draw_regret
from privbandit_agents.experiments.views.layout import Panel, beside_guest, completed, layout
from privbandit_agents.experiments.views.pictures import draw_picture
from privbandit_agents.experiments.views.style import Look, span
from privbandit_agents.experiments.views.table import Table, write_tables
from privbandit_agents.experiments.views.tables import (
    contest_lines,
    contest_tables,
    shown,
    summary_table,
    verdict_table,
    write_contests,
)
from privbandit_agents.playing.board import write_overview
from privbandit_envs.files import atomic, remove_leftovers

ASKED = "experiment.json"
"""In the folder of an experiment: which one it is, at which scale."""
LOOK = Look()
Ended = Mapping[str, Finished]
"""What jobs gave, by their names."""
UNDECIDING = "This scale shows that everything runs; its few replications decide nothing."


@dataclass(frozen=True)
class Study:
    """An experiment at a scale, ready to run.

    ``missing`` has a sentence for every data set that is not here; ``asked`` are the arguments of ``prepare``.
    """

    name: str
    scale: str
    experiment: Experiment
    jobs: Sequence[Job]
    cells: Cells
    measures: list[Resolved]
    figures: list[tuple[FigureSpec, list[Panel]]]
    missing: list[str]
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def decides(self) -> bool:
        """Whether the statements are decided at this scale; a smaller one only shows that all of it runs."""
        return self.scale != SHOWING

    @property
    def folder(self) -> Path:
        return Path("runs") / (self.name if self.scale == DECIDING else f"{self.name}-{self.scale}")

    @property
    def heading(self) -> str:
        job, counts = self.jobs[0], sorted({len(cell.jobs) for cell in self.cells})
        sizes = f"{self.scale} scale, {len(self.jobs)} {job.kind}s, {span(counts)} {job.unit}s"
        return f"{self.experiment.title} ({sizes})"


def prepare(name: str, scale: str = DECIDING, assignments: Sequence[str] = (), agent: str = "") -> Study:
    """Read an experiment and find the cells of its statements and figures, before anything runs.

    With ``agent`` that one plays, too: it is in the table, and in the figures where it has a place beside others.

    Raises:
        UsageError: an unknown name, a wrong file, or a selection that matches none or several.
    """
    path = find_experiment(name)
    source = str(path.absolute()) if name.endswith((".yaml", ".yml")) else name
    asked = {"name": source, "scale": scale, "assignments": list(assignments), "agent": agent}
    return replace(prepared(read_experiment(path), path.stem, scale, assignments, agent), asked=asked)


def prepared(experiment: Experiment, name: str, scale: str, assignments: Sequence[str] = (), agent: str = "") -> Study:
    """Find the jobs of an experiment and the cells of its statements, figures and tables."""
    source = f"{name}.yaml"
    jobs, missing = experiment.jobs(scale, assignments, source)
    with usage_errors(source):
        cells = Cells.of(jobs).named(experiment.variants)
    guests = experiment.jobs(scale, assignments, source, agent)[0] if agent else []
    if agent and any(cell.has("agent", agent) for cell in cells):
        raise UsageError(f"--agent {agent} plays in {source} already; --set agent.KEY=VALUE changes its settings.")
    whole = Cells([*cells, *Cells.of(guests)])
    measures, pictures = [], []
    for statement in experiment.statements:
        with usage_errors(f"{source}: {statement.place}.measure"):
            measures.append(resolve(statement.measure, cells))
    for i, figure in enumerate(experiment.figures):
        with usage_errors(f"{source}: figures[{i}]"):
            spec = completed(figure, cells)
            pictures.append((spec, beside_guest(spec, whole, agent) if agent else layout(spec, cells)))
    for i, picture in enumerate(experiment.pictures):
        with usage_errors(f"{source}: pictures[{i}]"):
            picture.load()
    for i, table in enumerate(experiment.tables):
        with usage_errors(f"{source}: tables[{i}]"):
            check_columns(table, cells)
    return Study(name, scale, experiment, [*jobs, *guests], whole, measures, pictures, missing)


def carry_out(
    study: Study,
    folder: Path | None = None,
    engine: Engine | None = None,
    out: Console | None = None,
    err: Console | None = None,
    look: Look = LOOK,
) -> int:
    """Run a study, print tables and verdicts, then write them and draw figures; finished jobs are not run again.

    At a scale that decides nothing one line reports that all of it ran; the files are the same.

    Returns:
        The exit code: ``AGAINST`` if a statement came out against its expectation, at a scale that decides; else
        ``UNFINISHED`` if a job failed, no method could run, or something could not be written; else 0.
    """
    folder, told_to = folder or study.folder, out or Console()
    tell(told_to if study.decides else Console(quiet=True), chain.from_iterable(map(paragraph, study.missing)))
    with suppress(OSError):  # it is written again at the end
        write_board(study.jobs, folder)
        if study.asked:
            with atomic(folder / ASKED) as file:
                json.dump(study.asked, file)
    results, failures = run_jobs(study.jobs, folder, engine, err)
    return concluded(study, results, list(told(failures)), folder, told_to, look)


def again(folder: Path, out: Console, look: Look) -> int | None:
    """Print, write and draw what a folder has of the experiment that was run there; None: none was, or it is gone."""
    try:
        asked = json.loads((folder / ASKED).read_text(encoding="utf-8"))
        study = prepare(**asked)
    except (OSError, ValueError, TypeError, UsageError):
        return None
    found = {job.name: result for job in study.jobs if (result := found_before(job, folder, keep=True)) is not None}
    return concluded(study, found, [], folder, out, look)


def concluded(study: Study, ended: Ended, failed: Sequence[str], folder: Path, told_to: Console, look: Look) -> int:
    """Print tables and verdicts of a study's results, write them and draw figures; return the exit code."""
    out = told_to if study.decides else Console(quiet=True)
    frame = frame_in(study.jobs, ended)
    results = by_cell(frame)
    contested = {
        spec.name: contest_tables(contests(spec, study.cells, results), spec)
        for spec in study.experiment.tables
        if results
    }
    for spec in study.experiment.tables:
        tell(out, contest_lines(contested.get(spec.name, ()), spec))
    verdicts = verdicts_of(study, results)
    if verdicts.height:
        tell(out, [*verdict_table(verdicts, study.heading).lines(), ""])
    pictures: list[Path] = []
    lost = unwritten(folder, writers(study, ended, frame, results, contested, verdicts, folder, pictures, look))
    tables = [] if lost else [f"table: {folder / name}.md (and .csv)" for name in ("verdicts", "table")]
    tell(out, [*(f"figure: {picture}" for picture in pictures), *tables])
    if not study.decides:
        tell(told_to, paragraph(in_one_line(study, folder, len(ended), len(pictures))))
    reasons = [reason for found in ended.values() for reason in found.reasons]
    idle = [f"no method could run: {reasons[0]}"] if reasons and None not in reasons else []
    problems = [*failed, *idle, *lost]
    for problem in problems:
        print(said(problem), file=sys.stderr)
    against = any(map(surprising, verdicts.iter_rows(named=True)))
    return AGAINST if against else UNFINISHED if problems else 0


def tell(out: Console, lines: Iterable[str]) -> None:
    """Print lines as they are, unless the console is quiet."""
    if not out.quiet:
        print(*lines, sep="\n", file=out.file)


def in_one_line(study: Study, folder: Path, ran: int, drawn: int) -> str:
    """Return the report of a scale that decides nothing."""
    counts = ((len(study.measures), "statement"), (drawn, "figure"))
    rest = ", ".join(f"{n} {what}" if n == 1 else f"{n} {what}s" for n, what in counts)
    parts = f"{ran} of {len(study.jobs)} {study.jobs[0].kind}s, {rest}"
    missing = f", without {len(study.missing)} data sets that are not here" if study.missing else ""
    return f"{study.name}: {parts}{missing}: {folder}. {UNDECIDING}"


def writers(
    study: Study,
    ended: Ended,
    frame: pl.DataFrame,
    results: Results,
    contested: Mapping[str, Sequence[Table]],
    verdicts: pl.DataFrame,
    folder: Path,
    pictures: list[Path],
    look: Look,
) -> dict[str, Callable[[], object]]:
    """Return the functions that write the tables, the verdicts, the figures and the board, by name.

    ``pictures`` gets the figures that could be drawn.
    """
    stamp = "" if study.decides else f"{study.scale}: decides nothing"

    def draw(spec: FigureSpec, panels: Sequence[Panel]) -> None:
        path = folder / f"{spec.name}.png"
        if draw_figure(spec, panels, results, path, look, stamp):
            pictures.append(path)

    def illustrate(picture: Picture) -> None:
        path = folder / f"{picture.name}.png"
        draw_picture(picture, path, look)
        pictures.append(path)

    @cache
    def whole() -> pl.DataFrame:
        """Return the results of trials, and what else the folder has."""
        return frame_of(with_those_there(list(ended.values()), folder), more=("static",))

    tasks: dict[str, Callable[[], object]] = {}
    trials = study.jobs[0].kind == "trial"
    if results:
        tasks["the results"] = lambda: write_data(public(whole()) if trials else frame.drop("cell", "place"), folder)
        tasks["the table"] = lambda: write_tables([summary_table(summarise(study.cells, results))], folder, "table")
        if trials and not study.figures:
            tasks["the figure regret"] = lambda: draw_regret(frame, folder / "regret.png", look)
    for name, tables in contested.items():
        tasks[f"the table {name}"] = partial(write_contests, tables, folder, name, study.missing)
    if verdicts.height:
        note = study.heading if study.decides else f"{study.heading}. {UNDECIDING}"
        tasks["the verdicts"] = lambda: write_tables([verdict_table(verdicts, note)], folder, "verdicts")
    for spec, panels in study.figures:
        tasks[f"the figure {spec.name}"] = partial(draw, spec, panels)
    for picture in study.experiment.pictures:
        tasks[f"the picture {picture.name}"] = partial(illustrate, picture)
    if results and trials:
        tasks["the board"] = lambda: write_means(whole(), folder, pictures)
    return tasks


def write_board(jobs: Sequence[Job], folder: Path) -> None:
    """Write the overview of the board of trials; fits have no events."""
    specs = [job.spec for job in jobs if job.kind == "trial"]
    if specs:
        write_overview(folder / TRIAL_EVENTS, specs)


def frame_in(jobs: Sequence[Job], ended: Ended) -> pl.DataFrame:
    """Return the frame of jobs that were run; an empty one without any."""
    if not ended or jobs[0].kind == "fit":
        return fit_frame(jobs, ended)
    return frame_of([ended[job.name] for job in jobs if job.name in ended])


def verdicts_of(study: Study, results: Results) -> pl.DataFrame:
    """Return the verdict on every statement; each has a bootstrap of its own from the same seed."""
    measured = [estimate(resolved, results, default_rng(0)) for resolved in study.measures]
    return judged(study.experiment.statements, measured, study.decides)


def show(
    trials: Sequence[Finished],
    folder: Path,
    out: Console,
    err: Console,
    look: Look | None = None,
    speed: bool = False,
) -> int:
    """Print the table of trials; write data, table, figure and board of all in the folder; return the exit code.

    ``look`` is of the figure; ``speed``: the printed table has the users a second.
    """
    frame = frame_of(trials, more=("static",))
    tell(out, shown(summarised(finals(frame)), speed))
    every = with_those_there(trials, folder)
    frame = frame_of(every, more=("static",)) if len(every) > len(trials) else frame
    figure, board, specs = folder / "regret.png", folder / MEAN_EVENTS, [run.job for run in every]
    versions = sorted({str(run.provenance["commit"] or run.provenance["privbandit"]) for run in every})
    del trials, every  # the frame has their numbers
    pace = forecast("drawing", err, "panels", pause=0.0)
    tasks: dict[str, Callable[[], object]] = {
        "the results": lambda: write_data(public(frame), folder),
        "the table": lambda: write_tables([summary_table(summarised(finals(frame)))], folder, "table"),
        "the figure": lambda: draw_regret(frame, figure, look or Look(), pace),
        "the board": lambda: write_means(frame, folder, [figure] if figure.is_file() else []),
        "the board of trials": lambda: write_overview(folder / TRIAL_EVENTS, specs),
    }
    remove_leftovers(folder / "*")
    lost = unwritten(folder, tasks)
    if len(versions) > 1:
        note = f"note: these are results of {len(versions)} versions of the code ({', '.join(versions)});"
        print(said(f"{note} another --out keeps them apart."), file=err.file)
    if lost:
        print(*map(said, lost), sep="\n", file=sys.stderr)
        return UNFINISHED
    print(f"figure:  {figure}\ntable:   {folder / 'table.md'} (and .csv)")
    print(f"results: {folder / 'results.csv'} (and .parquet)")
    print(f"events:  tensorboard --logdir {shlex.quote(str(board))}")
    return 0
