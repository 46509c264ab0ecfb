"""An offline comparison from its file to tables, figures and verdicts."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from numpy.random import default_rng
from rich.console import Console

from privbandit_agents.experiments.engine import Engine
from privbandit_agents.experiments.experiment import SCALES, Named
from privbandit_agents.experiments.labels import as_text
from privbandit_agents.experiments.offline.chart import Panel, draw, layout
from privbandit_agents.experiments.offline.contest import as_markdown, as_numbers, contests, rich_table
from privbandit_agents.experiments.offline.file import Block, Figure, OfflineExperiment, Scale, absent
from privbandit_agents.experiments.offline.measure import Resolved, estimate, resolve
from privbandit_agents.experiments.offline.reading import Cell, Reading, cells_of
from privbandit_agents.experiments.offline.runner import Results, run_tasks
from privbandit_agents.experiments.offline.task import Task
from privbandit_agents.experiments.offline.world import World
from privbandit_agents.experiments.offline.world import draw as draw_sample
from privbandit_agents.experiments.report import interval_factor, markdown_table
from privbandit_agents.experiments.trial import plain
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_agents.experiments.verdict import Verdict, verdict_table, write_verdicts
from privbandit_envs.files import atomic
from privbandit_envs.validate import one_of

SMALLEST = 10**9
UNDECIDING = "This scale shows that everything runs; its few rows and replications decide nothing."


@dataclass(frozen=True)
class OfflineStudy(Named):
    """A comparison at a scale, checked and ready to run.

    Attributes:
        experiment: what the file says.
        tasks: worlds x methods x budgets x replications.
        cells: of the tasks.
        measures: of the statements, with their cells.
        figures: with their panels.
        missing: a sentence for every data set that is not here.
    """

    experiment: OfflineExperiment
    tasks: list[Task]
    cells: list[Cell]
    measures: list[Resolved]
    figures: list[tuple[Figure, list[Panel]]]
    missing: list[str]

    @property
    def heading(self) -> str:
        """The line above the verdicts."""
        most = max(len(cell.tasks) for cell in self.cells)
        return f"{self.experiment.title} ({self.scale} scale, {len(self.tasks)} tasks, {most} replications)"


def prepared(experiment: OfflineExperiment, name: str, scale: str) -> OfflineStudy:
    """Check a comparison and find the cells of its statements and figures, before anything runs.

    Raises:
        UsageError: an unknown agent or setting, or a selection that matches none or several.
    """
    source = f"{name}.yaml"
    with usage_errors("--scale"):
        chosen: Scale = getattr(experiment.scales, one_of(SCALES, scale=scale))
    tasks: dict[str, Task] = {}
    missing: dict[str, str] = {}
    for i, block in enumerate(experiment.parts):
        place = f"{source}: offline.parts[{i}]"
        for j, method in enumerate(block.methods):
            with usage_errors(f"{place}.methods[{j}]"):
                method.check()
        for task in tasks_of(block, chosen, place, missing):
            tasks[f"{task.name} {task.method.name}"] = task
    if not tasks:
        raise UsageError(f"{source}: none of its data sets is here. {' '.join(missing.values())}")
    cells = cells_of(list(tasks.values()))
    measures, figures = [], []
    for i, statement in enumerate(experiment.statements):
        with usage_errors(f"{source}: statements[{i}].measure"):
            measures.append(resolve(statement.measure, cells))
    for i, figure in enumerate(experiment.figures):
        with usage_errors(f"{source}: figures[{i}]"):
            figures.append((figure, layout(figure, cells)))
    methods = list(dict.fromkeys(task.method.name for task in tasks.values()))
    for i, table in enumerate(experiment.tables):
        with usage_errors(f"{source}: tables[{i}]"):
            for column in (*table.methods, *table.reference):
                one_of(methods, method=column)
    return OfflineStudy(name, scale, experiment, list(tasks.values()), cells, measures, figures, list(missing.values()))


def tasks_of(block: Block, scale: Scale, place: str, missing: dict[str, str]) -> list[Task]:
    """Return the tasks of a block; note the data sets that are not here."""
    worlds: list[World] = []
    for i, entry in enumerate(block.worlds):
        with usage_errors(f"{place}.worlds[{i}]"):
            worlds += [world for world in entry.worlds() if is_here(world, missing, entry.sources is None)]
    return [
        Task(world, method, epsilon, replication, scale.shrink)
        for replication in range(scale.replications or block.replications)
        for world in worlds
        for method in block.methods
        for epsilon in (block.epsilons if method.private else [None])
    ]


def is_here(world: World, missing: dict[str, str], fetch: bool) -> bool:
    """Return whether the data of a world can be drawn; if not, note why.

    Args:
        world: that is asked for.
        missing: gets a sentence for a data set that is not here.
        fetch: whether its loader may download it.
    """
    why = "" if fetch else absent(world.source)
    if not why:
        try:
            draw_sample(world, 0, shrink=SMALLEST)
        except FileNotFoundError as error:
            why = str(error)
    if why:
        missing[world.source] = f"{world.source} is left out: {why}"
    return not why


def carry_out(
    study: OfflineStudy,
    folder: Path | None = None,
    engine: Engine | None = None,
    out: Console | None = None,
    err: Console | None = None,
) -> int:
    """Run a comparison, draw its figures, write its tables and check its statements.

    Args:
        study: from ``prepared``.
        folder: gets results, figures and tables; default: ``runs/NAME``.
        engine: where tasks run; default: the cores of this machine.
        out: gets tables and verdicts.
        err: shows progress.

    Returns:
        The exit code: 1 if a task failed, if no method could run or, at paper scale, if a statement came out against
        what is expected.
    """
    folder, out = folder or study.folder, out or Console()
    for line in study.missing:
        out.print(line, soft_wrap=True, highlight=False)
    results, failures = run_tasks(study.tasks, folder, engine, err)
    verdicts = verdicts_of(study, results)
    if results:
        write_tables(study, results, folder, out)
    if verdicts:
        out.print(verdict_table(verdicts, study.heading, study.decides))
        note = study.heading if study.decides else f"{study.heading}. {UNDECIDING}"
        write_verdicts(verdicts, folder, note, study.decides)
    if not study.decides:
        out.print(UNDECIDING)
    for figure, panels in study.figures:
        path = folder / f"{figure.name}.png"
        if draw(figure, panels, results, path):
            out.print(f"figure: {path}", soft_wrap=True, highlight=False)
    out.print(f"tables: {folder / 'verdicts.md'}, {folder / 'table.md'} (and .csv)", soft_wrap=True, highlight=False)
    idle = nothing_ran(results)
    for line in [*failures, *idle]:
        print(line, file=sys.stderr)
    return 1 if failures or idle or (study.decides and any(verdict.surprising for verdict in verdicts)) else 0


def nothing_ran(results: Results) -> list[str]:
    """Return a sentence if there are results and no method could run."""
    reasons = [error for found in results.values() for error in found.errors]
    return [f"no method could run: {reasons[0]}"] if reasons and None not in reasons else []


def verdicts_of(study: OfflineStudy, results: Results) -> list[Verdict]:
    """Return the verdict on every statement; each has a bootstrap of its own from the same seed."""
    return [
        Verdict.on(statement, estimate(resolved, results, default_rng(0)))
        for statement, resolved in zip(study.experiment.statements, study.measures, strict=True)
    ]


def write_tables(study: OfflineStudy, results: Results, folder: Path, out: Console) -> None:
    """Write the table of all cells and the tables of the file; print the latter."""
    summary = summarise(study.cells, results)
    with atomic(folder / "table.csv") as file:
        file.write(summary.write_csv())
    with atomic(folder / "table.md") as file:
        file.write(markdown_table(as_words(summary), left=("world", "method", "best point", "note")))
    for spec in study.experiment.tables:
        tables = contests(spec, study.cells, results)
        for table in tables:
            out.print(rich_table(table))
        with atomic(folder / f"{spec.name}.csv") as file:
            file.write(as_numbers(tables).write_csv())
        with atomic(folder / f"{spec.name}.md") as file:
            file.write(as_markdown(tables))
            file.write("".join(f"\n{line}\n" for line in study.missing))


def summarise(cells: Sequence[Cell], results: Results) -> pl.DataFrame:
    """Return one row for each cell.

    Returns:
        ``world``, ``method``, ``epsilon`` (null without one), ``replications``, ``best`` (mean accuracy of the point of
        the grid that is best on the test sets), ``half_width`` (of its 95 % interval), ``best_point``, ``honest`` (mean
        with the point chosen on other replications), ``seconds`` (of the best point's fit), ``note`` (why there is no
        accuracy).
    """
    rows = []
    for cell in cells:
        best, honest = (Reading(cell, pick).read(results) for pick in ("best", "honest"))
        n = len(best.values)
        rows.append(
            {
                "world": as_text(cell.tasks[0].world.settings),
                "method": cell.settings["method"],
                "epsilon": cell.settings.get("epsilon"),
                "replications": n,
                "best": best.mean if n else None,
                "half_width": float(best.values.std(ddof=1)) * interval_factor(n) if n > 1 else None,
                "best_point": as_text(plain(best.point)) if best.point else "",
                "honest": honest.mean if n else None,
                "seconds": Reading(cell, y="seconds").read(results).mean if n else None,
                "note": best.why,
            }
        )
    numbers = ("epsilon", "best", "half_width", "honest", "seconds")
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(numbers, pl.Float64))


def as_words(summary: pl.DataFrame) -> pl.DataFrame:
    """Return a summary as text."""
    return pl.DataFrame(
        {
            "world": row["world"],
            "method": row["method"],
            "epsilon": "" if row["epsilon"] is None else f"{row['epsilon']:g}",
            "replications": str(row["replications"]),
            "best over the grid, chosen on the test sets": shown(row["best"], row["half_width"]),
            "best point": row["best_point"],
            "chosen on other replications": shown(row["honest"]),
            "seconds": "-" if row["seconds"] is None else f"{row['seconds']:.1e}",
            "note": row["note"],
        }
        for row in summary.iter_rows(named=True)
    )


def shown(value: float | None, half_width: float | None = None) -> str:
    """Return a mean with the half-width of its interval."""
    if value is None:
        return "-"
    return f"{value:.4f}" + ("" if half_width is None else f" ± {half_width:.4f}")
