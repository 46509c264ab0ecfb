"""The result table: on the screen, as CSV and as Markdown."""

import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from scipy.stats import t as student

from privbandit_agents.experiments.labels import short, with_settings
from privbandit_agents.experiments.results import as_frame
from privbandit_agents.experiments.trial import Outcome
from privbandit_envs.files import atomic

KEYS = ("env", "horizon", "agent", "config")
LEFT = ("environment", "agent")
WIDTHS = {"final regret": 14, "rounds/s": 8}
"""Smallest widths of columns, so that they stand below each other from one table to the next."""


def interval_factor(n: int) -> float:
    """Return what turns the standard deviation of n values into the 95 % half-width of their mean (Student's t)."""
    return float(student.ppf(0.975, n - 1)) / math.sqrt(n) if n > 1 else math.nan


def summarise(outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """Return one row per environment and agent.

    Returns:
        ``env``, ``horizon``, ``agent``, ``config`` (canonical JSON), ``seeds`` (how many), ``regret`` (mean of the
        final regret), ``half_width`` (of its 95 % interval; null for one seed), ``ratio_to_uniform`` (of the mean
        regrets; null without uniform), ``reward`` (mean per round), ``rounds_per_s``.
    """
    final = as_frame(outcome.payload for outcome in outcomes).filter(pl.col("checkpoint") == pl.col("horizon"))
    table = final.group_by(KEYS, maintain_order=True).agg(
        pl.len().alias("seeds"),
        pl.col("regret").mean(),
        pl.col("regret").std().alias("deviation"),
        (pl.col("reward") / pl.col("horizon")).mean().alias("reward"),
        (pl.col("horizon").sum() / pl.col("seconds").sum()).alias("rounds_per_s"),
    )
    uniform = table.filter(pl.col("agent") == "uniform").select("env", "horizon", uniform="regret")
    factor = pl.Series([interval_factor(n) for n in table["seeds"]], dtype=pl.Float64)
    return (
        table.with_columns(half_width=pl.col("deviation") * factor)
        .join(uniform, on=["env", "horizon"], how="left", maintain_order="left")
        .with_columns(ratio_to_uniform=pl.col("regret") / pl.col("uniform"))
        .select(*KEYS, "seeds", "regret", "half_width", "ratio_to_uniform", "reward", "rounds_per_s")
    )


def as_words(summary: pl.DataFrame) -> pl.DataFrame:
    """Return a summary as text, one column per column of the printed table."""
    return pl.DataFrame([row_words(row) for row in summary.iter_rows(named=True)])


def row_words(row: dict[str, Any]) -> dict[str, str]:
    """Return one row as text."""
    width, ratio = row["half_width"], row["ratio_to_uniform"]
    return {
        "environment": short(row["env"]),
        "rounds": f"{row['horizon']:,}",
        "agent": with_settings(row["agent"], json.loads(row["config"])),
        "seeds": str(row["seeds"]),
        "final regret": rounded(row["regret"]) + ("" if width is None else f" ± {rounded(width)}"),
        "vs uniform": "" if ratio is None else f"{ratio:.3g}",
        "mean reward": f"{row['reward']:.3f}",
        "rounds/s": f"{row['rounds_per_s']:,.0f}",
    }


def rounded(value: float) -> str:
    """Return a number to three digits or to an integer, whichever says more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rich_tables(summary: pl.DataFrame) -> list[Table]:
    """Return a summary as tables for the terminal, one for each environment."""
    words = as_words(summary)
    width = max(len(agent) for agent in words["agent"])
    tables = []
    for (env, rounds), rows in words.group_by("environment", "rounds", maintain_order=True):
        title = Text(f"{env}, {rounds} users")
        table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", collapse_padding=True, pad_edge=False)
        table.add_column("agent", min_width=min(width, 17), overflow="fold")
        for column in words.columns[3:]:
            table.add_column(column, justify="right", no_wrap=True, min_width=WIDTHS.get(column))
        for row in rows.iter_rows():
            table.add_row(*(Text(cell) for cell in row[2:]))
        tables.append(table)
    return tables


def markdown(summary: pl.DataFrame) -> str:
    """Return a summary as a Markdown table."""
    return markdown_table(as_words(summary), left=LEFT)


def markdown_table(words: pl.DataFrame, left: Sequence[str]) -> str:
    """Return a table of text as Markdown; columns named in ``left`` are aligned to the left."""
    rule = ["---" if column in left else "---:" for column in words.columns]
    lines = [words.columns, rule, *(row for row in words.iter_rows())]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


def write_table(summary: pl.DataFrame, folder: Path) -> None:
    """Write ``table.csv``, with all digits, and ``table.md``."""
    with atomic(folder / "table.csv") as file:
        file.write(summary.write_csv())
    with atomic(folder / "table.md") as file:
        file.write(markdown(summary))


def show(outcomes: Sequence[Outcome], folder: Path, out: Console, err: Console) -> int:
    """Print the table, and write table, figure and the board's overview; return the exit code."""
    from privbandit_agents.experiments.board import write_overview
    from privbandit_agents.experiments.figure import draw_regret

    summary = summarise(outcomes)
    out.print(*rich_tables(summary))
    figure, board = folder / "regret.png", folder / "tensorboard"
    try:
        write_table(summary, folder)
        draw_regret(outcomes, figure)
        write_overview(board, [outcome.trial.spec for outcome in outcomes], [figure])
    except OSError as error:
        err.print(f"the table and the figure could not be written: {error}", highlight=False, soft_wrap=True)
        return 1
    versions = sorted({str(o.provenance["commit"] or o.provenance["privbandit"]) for o in outcomes})
    if len(versions) > 1:
        note = f"note: these are results of {len(versions)} versions of the code ({', '.join(versions)});"
        err.print(f"{note} another --out keeps them apart.", highlight=False, soft_wrap=True)
    print(f"figure: {figure}\ntable: {folder / 'table.md'}, {folder / 'table.csv'}")
    print(f"events: tensorboard --logdir {shlex.quote(str(board))}")
    return 0
