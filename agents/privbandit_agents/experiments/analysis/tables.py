"""Tables for the screen, as CSV and as Markdown; and the summary of results, one row per cell."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from privbandit_agents.experiments.analysis.cells import VARIANT, Cells, world
from privbandit_agents.experiments.analysis.data import inert
from privbandit_agents.experiments.analysis.frame import PROMISES, as_frame
from privbandit_agents.experiments.analysis.ranks import ranks
from privbandit_agents.experiments.analysis.readings import FitReading, Results, runs_of
from privbandit_agents.experiments.analysis.statistics import student_interval
from privbandit_agents.experiments.names import as_text, canonical, plain, short, with_settings
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.text import paragraph, table
from privbandit_envs.files import atomic

CHOSEN = {"best": "best over the grid, chosen on the test sets", "honest": "chosen on other replications"}
"""How the point of the grid is picked, in words."""
AGAIN = (
    "Users are drawn from people: who comes k times is promised k times the epsilon of one user, and k^2 times the rho."
)


PLAIN = str.maketrans({"|": "&#124;", "&": "&amp;", "<": "&lt;", "[": "&#91;", "\n": " "})
"""Letters that mean something in a cell of Markdown, as they are written when they mean nothing."""


@dataclass(frozen=True)
class Table:
    """Rows and columns, as text and with all digits.

    Attributes:
        words: the printed cells; a mean, its half-width and its marks are one cell.
        numbers: the content of the CSV file; it may have a row for each printed cell.
        title: above it.
        note: below it: the meaning of marks, and missing cells.
        left: columns of text, which are aligned to the left.
    """

    words: pl.DataFrame
    numbers: pl.DataFrame
    title: str = ""
    note: str = ""
    left: Sequence[str] = ("environment", "agent", "privacy", "world", "method", "best point", "note")

    @property
    def markdown(self) -> str:
        rule = ["---" if column in self.left else "---:" for column in self.words.columns]
        lines = [self.words.columns, rule, *self.words.iter_rows()]
        rows = "".join(f"| {' | '.join(cell.translate(PLAIN) for cell in line)} |\n" for line in lines)
        return (f"{self.title.translate(PLAIN)}\n\n" if self.title else "") + rows + self.note

    @property
    def latex(self) -> str:
        """A tabular of the package booktabs."""
        columns = self.words.columns
        kinds = "".join("l" if column in self.left else "r" for column in columns)
        head, *rows = (
            "    " + " & ".join(map(latex_text, row)) + " \\\\\n" for row in (columns, *self.words.iter_rows())
        )
        body = f"    \\toprule\n{head}    \\midrule\n{''.join(rows)}    \\bottomrule\n"
        return f"\\begin{{tabular}}{{{kinds}}}\n{body}\\end{{tabular}}\n"

    def lines(self, colors: Mapping[int, str] | None = None) -> Iterator[str]:
        """Yield the rows for the terminal; ``colors`` as for ``text.table``."""
        columns = self.words.columns
        right = {place for place, column in enumerate(columns) if column not in self.left}
        yield from paragraph(self.title)
        yield from table(self.words.rows(), columns, right, colors)
        yield ""


def write_tables(tables: Sequence[Table], folder: Path, name: str) -> None:
    """Write ``name.csv``, with all digits, and ``name.md`` and ``name.tex``, one table below the other."""
    texts = {"csv": inert(pl.concat([table.numbers for table in tables])).write_csv()}
    texts["md"] = "\n".join(table.markdown for table in tables)
    texts["tex"] = "\n".join(table.latex for table in tables)
    for suffix, text in texts.items():
        with atomic(folder / f"{name}.{suffix}") as file:
            file.write(text)


def latex_text(text: str) -> str:
    """Return a text as LaTeX writes it."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
    special |= {"[": "{[}", "\n": " "}  # a bracket that begins a row is an option of the row before
    return "".join(special.get(letter, f"\\{letter}" if letter in "&%$#_{}" else letter) for letter in text)


def summarise_trials(trials: Sequence[Finished]) -> pl.DataFrame:
    """Return one row per environment, horizon and agent.

    Returns:
        ``env``, ``horizon``, ``agent``, ``config`` (canonical JSON), ``seeds`` (how many), ``regret`` (mean of the
        final regret), ``median`` (of it), ``half_width`` (of the mean's 95 % interval; null for one seed),
        ``ratio_to_uniform`` (of the mean regrets; null without uniform), ``reward`` (mean per round),
        ``rounds_per_s``, ``privacy`` (the agent's promise to a user, in words), ``visits`` (how often one person
        comes at most), ``person`` (the epsilon that such a person has at most, where it is known and more than that of
        a visit), and from ``ranks`` ``label``, ``notion``, ``epsilon``, ``delta``, ``rho``, ``rank`` (among agents
        of one notion) and ``better``.
    """
    groups: dict[tuple[str, int, str, str], list[Finished]] = {}
    for run in trials:
        env = with_settings(run.job["env"], run.job["env_kwargs"])
        groups.setdefault((env, run.job["horizon"], run.job["agent"], canonical(run.job["config"])), []).append(run)
    rows = [trial_row(*key, runs) for key, runs in groups.items()]
    uniform = {(row["env"], row["horizon"]): row["regret"] for row in rows if row["agent"] == "uniform"}
    for row in rows:
        beside = uniform.get((row["env"], row["horizon"]))
        with np.errstate(all="ignore"):
            row["ratio_to_uniform"] = None if beside is None else float(np.divide(row["regret"], beside))
    numbers = dict.fromkeys(("half_width", "ratio_to_uniform", "person"), pl.Float64)
    return ranked_rows(pl.DataFrame(rows, schema_overrides=numbers), as_frame(trials, final=True))


def ranked_rows(summary: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """Add what agents promise and their ranks to a summary of the trials in a table of results; best rows first."""
    promises = frame.select("env", "horizon", "agent", "config", "label", *PROMISES).unique(maintain_order=True)
    places = ranks(frame).select("env", "horizon", "label", "rank", "better")
    told = promises.join(places, on=["env", "horizon", "label"], how="left")
    named = summary.with_columns(bare=pl.col("agent").str.replace(r"^.*:", ""))
    keys = ["env", "horizon", "config"]
    joined = named.join(told, left_on=[*keys, "bare"], right_on=[*keys, "agent"], how="left", maintain_order="left")
    first = pl.int_range(pl.len()).min().over("env", "horizon")  # environments stay in their order
    place = pl.col("rank").rank("dense").over("env", "horizon", "notion")  # promises of two notions do not compare
    kinds = (first, pl.col("notion") != "none", "notion", "rank")
    return joined.drop("bare").with_columns(rank=place).sort(kinds, maintain_order=True)


def trial_row(env: str, horizon: int, agent: str, config: str, runs: Sequence[Finished]) -> dict[str, Any]:
    regret = np.array([run.arrays["regret"][-1] for run in runs])
    mean = student_interval(regret)
    return {
        "env": env,
        "horizon": horizon,
        "agent": agent,
        "config": config,
        "seeds": len(runs),
        "regret": float(mean.value),
        "median": float(np.median(regret)),
        "half_width": float(mean.half_width) if len(runs) > 1 else None,
        "ratio_to_uniform": None,
        "reward": float(np.mean([run.arrays["reward"][-1] / horizon for run in runs])),
        "rounds_per_s": horizon * len(runs) / sum(run.seconds for run in runs),
        "privacy": told(runs[0].notes, agent),
        "visits": visits_of(runs),
        "person": max((run.notes["person"] for run in runs if "person" in run.notes), default=None),
    }


def told(notes: Mapping[str, Any], agent: str) -> str:
    """Return the promise, and its agent if the name stands for another one."""
    played = notes.get("played", agent)
    by = "" if played.rpartition(":")[2] == agent.rpartition(":")[2] else f"; {played} played"
    return f"{notes.get('privacy', 'not recorded')}{by}"


def visits_of(runs: Iterable[Finished]) -> int:
    """Return how often one person comes at most in a run."""
    return max((run.notes.get("visits", 1) for run in runs), default=1)


def promise(privacy: str, visits: int, person: float | None = None) -> str:
    """Return an agent's promise in words; of one a visit, how often it is made to a person, and epsilon in all."""
    once = visits == 1 or privacy == "none" or " a person" in privacy
    worth = "" if person is None else f", epsilon {person:.3g} in all"
    return privacy if once else f"{privacy}; up to {visits:,} visits a person{worth}"


def summarise_fits(cells: Cells, results: Results) -> pl.DataFrame:
    """Return one row per cell.

    Returns:
        ``world``, ``method``, ``epsilon`` (null without one), ``replications``, ``best`` (mean accuracy of the point of
        the grid that is best on the test sets), ``half_width`` (of its 95 % interval), ``best_point``, ``honest`` (mean
        with the point chosen on other replications), ``seconds`` (of the best point's fit), ``note`` (why there is no
        accuracy).
    """
    rows = []
    for cell in cells:
        best, honest = (FitReading(cell, pick=pick).read(results) for pick in ("best", "honest"))
        seconds = FitReading(cell, "seconds").read(results)
        n = len(best.replications)
        rows.append(
            {
                "world": world(cell),
                "method": cell.settings["method"],
                "epsilon": cell.settings.get("epsilon"),
                "replications": n,
                "best": float(best.mean[0]) if n else None,
                "half_width": float(best.interval.half_width[0]) if n > 1 else None,
                "best_point": as_text(plain(best.point)) if best.point else "",
                "honest": float(honest.mean[0]) if n else None,
                "seconds": float(seconds.mean[0]) if n else None,
                "note": best.why,
            }
        )
    numbers = ("epsilon", "best", "half_width", "honest", "seconds")
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(numbers, pl.Float64))


def summarise(cells: Cells, results: Results) -> pl.DataFrame:
    trials = [run for cell in cells for run in runs_of(cell, results).values()]
    if cells[0].job.kind == "fit":
        return summarise_fits(cells, results)
    names = {
        (spec["agent"], canonical(spec["config"])): cell.settings[VARIANT]
        for cell in cells
        if VARIANT in cell.settings
        for spec in [cell.job.spec]
    }
    rows = summarise_trials(trials)
    labels = [names.get((row["agent"], row["config"]), row["label"]) for row in rows.iter_rows(named=True)]
    return rows.with_columns(label=pl.Series(labels, dtype=pl.String))


def as_words(summary: pl.DataFrame) -> pl.DataFrame:
    """Return a summary as text, one column per column of the printed table."""
    words = fit_words if "world" in summary.columns else trial_words
    return pl.DataFrame([words(row) for row in summary.iter_rows(named=True)])


def trial_words(row: dict[str, Any]) -> dict[str, str]:
    width, ratio = row["half_width"], row["ratio_to_uniform"]
    return {
        "environment": short(row["env"]),
        "rounds": f"{row['horizon']:,}",
        "agent": row["label"],
        "rank": f"{'' if row['notion'] in (None, 'none') else row['notion']} {row['rank']}".strip(),
        "seeds": str(row["seeds"]),
        "final regret": rounded(row["regret"]) + ("" if width is None else f" ± {rounded(width)}"),
        "median": rounded(row["median"]),
        "vs uniform": "" if ratio is None else f"{ratio:.3g}",
        "mean reward": f"{row['reward']:.3f}",
        "rounds/s": f"{row['rounds_per_s']:,.0f}",
        "privacy": promise(row["privacy"], row["visits"], row["person"]),
    }


def fit_words(row: dict[str, Any]) -> dict[str, str]:
    width = "" if row["half_width"] is None else f" ± {row['half_width']:.4f}"
    return {
        "world": row["world"],
        "method": row["method"],
        "epsilon": "" if row["epsilon"] is None else f"{row['epsilon']:g}",
        "replications": str(row["replications"]),
        CHOSEN["best"]: "-" if row["best"] is None else f"{row['best']:.4f}{width}",
        "best point": row["best_point"],
        CHOSEN["honest"]: "-" if row["honest"] is None else f"{row['honest']:.4f}",
        "seconds": "-" if row["seconds"] is None else f"{row['seconds']:.1e}",
        "note": row["note"],
    }


def rounded(value: float) -> str:
    """Return a number to three digits or to an integer, whichever has more digits."""
    return f"{value:,.0f}" if 100 <= abs(value) < 1e15 else f"{value:.3g}"


def summary_table(summary: pl.DataFrame) -> Table:
    """Return a summary as a table."""
    again = "visits" in summary.columns and (summary["visits"] > 1).any()
    return Table(as_words(summary), summary, note=f"\n{AGAIN}\n" if again else "")


def shown(summary: pl.DataFrame, speed: bool = False) -> Iterator[str]:
    """Yield a summary of trials for the terminal, a table for each environment; red is worse than uniform play.

    Args:
        summary: from ``summarise_trials``.
        speed: whether a column has the users a second.
    """
    for (env, horizon), own in summary.group_by("env", "horizon", maintain_order=True):
        rows = own.rows(named=True)
        words = pl.DataFrame([short_words(row, speed) for row in rows])
        worse = {place: "31" for place, row in enumerate(rows) if (row["ratio_to_uniform"] or 0) > 1}
        seeds = sorted({row["seeds"] for row in rows})
        told = f"{seeds[0]} seeds" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
        title = f"{short(str(env))}, {horizon:,} users, {told if seeds[-1] > 1 else '1 seed'}"
        yield from Table(words, own, title, left=("agent", "promise")).lines(worse)


def short_words(row: dict[str, Any], speed: bool) -> dict[str, str]:
    """Return the cells of an agent: its promise, its regret with an interval above 0, its share of uniform's."""
    ratio = row["ratio_to_uniform"]
    cells = {
        "agent": row["label"],
        "promise": promise(row["privacy"], row["visits"], row["person"]),
        "regret": rounded(row["regret"]),
        "95 % interval": interval(row["regret"], row["half_width"]),
        "of uniform": "" if ratio is None else f"{100 * ratio:.3g} %" if ratio < 1 else f"{100 * ratio:,.0f} %",
    }
    return cells | ({"users/s": f"{row['rounds_per_s']:,.0f}"} if speed else {})


def interval(mean: float, half_width: float | None) -> str:
    """Return the ends of a mean's interval, by that of the logarithm, so that none is below 0; ``""`` for one seed."""
    if half_width is None or not mean > 0:
        return "" if half_width is None else f"± {rounded(half_width)}"
    factor = np.exp(min(half_width / mean, 50.0))
    return f"{rounded(mean / factor)} to {rounded(mean * factor)}"
