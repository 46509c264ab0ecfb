"""The score sheet of an agent: a page, a picture, and numbers for machines."""

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privbandit_agents.experiments.results.statistics import Interval
from privbandit_agents.experiments.suite.records import JSON, Record, as_json, made, significant
from privbandit_agents.experiments.suite.scores import (
    READING,
    Board,
    at_budget,
    board_tasks,
    boards_in,
    lists,
    on_board,
    overall,
    placed,
    pooled,
    profile,
    score_of,
    scores_of,
    signed,
)
from privbandit_agents.experiments.suite.tasks import OPEN, Suite, budget_name
from privbandit_agents.experiments.views.style import PALETTE, STAMP, STYLE, embedded
from privbandit_agents.experiments.views.table import Column, Row, Table


@dataclass(frozen=True)
class Sheet:
    """Everything that a score sheet says.

    Attributes:
        record: of the agent.
        others: records to compare with, by name; without the agent itself.
        suite: with the tasks.
        epsilon: the budget of the ranks.
        seeds: how many were played.
        budgets: that were played.
        conformance: what ``check_agent`` found, in a sentence.
        audit: what the audit found, in a sentence.
        passed: whether ``check_agent`` passed.
        refuted: whether the audit refuted the claim: it has no rank then.
        memory: MiB at the peak of a short run; None: not measured.
        failures: sentences on runs that failed.
    """

    record: Record
    others: Mapping[str, Record]
    suite: Suite
    epsilon: float
    seeds: int
    budgets: Sequence[float]
    conformance: str
    audit: str
    passed: bool
    refuted: bool = False
    memory: float | None = None
    failures: Sequence[str] = field(default=())

    @cached_property
    def scores(self) -> pl.DataFrame:
        """Scores of the others and of the agent."""
        return scores_of({self.record.agent: self.record, **self.others}, self.suite, self.seeds)

    @cached_property
    def places(self) -> Mapping[float, pl.DataFrame]:
        """The places on all boards at each budget."""
        return {epsilon: placed(self.scores, epsilon) for epsilon in {*self.suite.budgets, *self.budgets}}

    @cached_property
    def boards(self) -> list[Board]:
        return boards_in(self.scores.filter(agent=self.record.agent))

    @cached_property
    def rivals(self) -> Mapping[Board, list[str]]:
        """The other references on each board, without names that play there as this agent does."""
        at = OPEN if self.record.notion == OPEN else budget_name(self.epsilon)

        def played(record: Record, board: Board) -> list[Any]:
            tasks = board_tasks(self.suite, board)
            return [record.regrets.get(task.name, {}).get(at, [])[: self.seeds] for task in tasks]

        return {
            board: [
                name
                for name in on_board(self.scores, board).filter("played")["agent"].unique(maintain_order=True)
                if name in self.others and played(self.others[name], board) != played(self.record, board)
            ]
            for board in self.boards
        }

    def ahead(self, board: Board, epsilon: float) -> pl.DataFrame:
        """Return the places of the rivals on a board, the best first."""
        return on_board(self.places[epsilon], board).filter(pl.col("agent").is_in(self.rivals[board]))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each board: score, interval, rank, and who is next to it."""
        found = []
        for board in self.boards:
            places = on_board(self.places[self.epsilon], board)
            for mine in places.filter(agent=self.record.agent).iter_rows(named=True):
                best = self.ahead(board, self.epsilon).filter(pl.col("rank").is_not_null()).head(1).to_dicts()
                first, last = (None if self.refuted else mine[key] for key in ("rank", "last"))
                ranks = {"rank": first, "last": last, "of": places["rank"].count()}
                beside = {"best": best[0]["agent"], "best_score": best[0]["score"]} if best else {}
                found.append(
                    {
                        **{"board": board.title, **board._asdict()},
                        **{"score": mine["score"], "low": mine["low"], "high": mine["high"], **ranks},
                        **{"played": mine["played"], "tasks": mine["asked"], "best": "", "best_score": None, **beside},
                    }
                )
        return found

    @cached_property
    def task_rows(self) -> list[dict[str, Any]]:
        """A row for each task: the score at each budget, and the best reference of the same promise."""
        budgets = [OPEN] if self.record.notion == OPEN else [budget_name(one) for one in self.budgets]
        told = {**self.record.regrets, **self.record.refused}
        tasks = [(board, task) for board in self.boards for task in board_tasks(self.suite, board) if task.name in told]
        found = []
        for board, task in tasks:
            own = on_board(self.scores, board).filter(task=task.name)
            mine = {row["budget"]: row["scores"] for row in own.filter(agent=self.record.agent).to_dicts()}
            beside = at_budget(own, self.epsilon).filter(pl.col("agent").is_in(self.rivals[board]), "played")
            means = {row["agent"]: float(np.mean(row["scores"])) for row in beside.to_dicts()}
            best = max(means, key=means.__getitem__, default="")
            found.append(
                {
                    **{"task": task.name, "group": task.group, "question": task.question, "users": task.users},
                    **{f"at {one}": float(np.mean(mine[one])) if one in mine else None for one in budgets},
                    **{"best": best, "best_score": means.get(best), "without": task.best_agent},
                    "refused": self.record.refused.get(task.name, ""),
                }
            )
        return found

    @property
    def at(self) -> str:
        """The budget of the ranks in words."""
        return "" if self.record.notion == OPEN else f" at epsilon = {self.epsilon:g}"

    @property
    def overall(self) -> Interval[float] | None:
        """The score over all families, of the two names that choose an agent for each; else None."""
        whole = self.record.agent in ("auto-joint", "auto-local")
        return overall(self.scores, self.record.agent, self.epsilon) if whole else None

    def headlines(self) -> Iterator[str]:
        """Yield the answer in sentences."""
        for wrong, told in ((not self.passed, self.conformance), (self.refuted, self.audit)):
            if wrong:
                yield f"Not to be compared: {told}"
        told = f"{self.at.strip().capitalize()}: " if self.at else ""
        parts = [f"{row['board']} {score_of(row).said(signed)}, {rank_of(row)}" for row in self.rows]
        if self.overall is not None:
            parts.insert(0, f"over all families {self.overall.said(signed)}")
        yield f"{told}{'; '.join(parts)}." if parts else "It plays no task of the suite."
        yield from self.failures

    def json(self) -> JSON:
        """Return the sheet's numbers; what differs between two runs stands under ``times`` and ``made``."""
        record = as_json(self.record, self.suite)
        speed = record.pop("users_a_second")
        boards = [{key: rounded(value) for key, value in row.items()} for row in self.rows]
        told = {"suite": self.suite.version, **record, "epsilon": self.epsilon, "seeds": self.seeds, "boards": boards}
        if (whole := self.overall) is not None:
            told["overall"] = [rounded(one) for one in (whole.value, whole.low, whole.high)]
        told |= {"passed": self.passed, "refuted": self.refuted, "conformance": self.conformance, "audit": self.audit}
        return {**told, "times": {"users_a_second": speed, "mib": self.memory}, "made": made()}

    def page(self) -> str:
        """Return the page, which needs no other file."""
        with matplotlib.rc_context(STYLE):
            pictures = "".join(f"{embedded(one, one.axes[0].get_title(loc='left'))}\n" for one in self.pictures())
        css = files("privbandit_agents.experiments.views").joinpath("page.css").read_text(encoding="utf-8")
        first = "" if self.passed and not self.refuted else " class=warning"
        lines = [html.escape(line) for line in self.headlines()]
        parts = {
            "title": html.escape(f"Score of {self.record.agent}, suite {self.suite.version}"),
            "css": css,
            "headlines": "".join(f"<p{first if not i else ''}>{line}</p>\n" for i, line in enumerate(lines)),
            "reading": html.escape(READING),
            "boards": self.board_table(),
            "pictures": pictures,
            "tasks": self.task_table(),
            "promises": listed(self.promised()),
            "checks": listed([self.conformance, self.audit]),
            "speed": html.escape(self.speed()),
            "made": html.escape(f"{self.seeds} seeds; " + ", ".join(f"{key} {value}" for key, value in made().items())),
        }
        return Template(Path(__file__).with_name("sheet.html").read_text(encoding="utf-8")).substitute(parts)

    def promised(self) -> list[str]:
        """Return its guarantees in words, each with the number of tasks in which it is given."""
        words = list(self.record.promises.values())
        return [f"{one} ({words.count(one)} tasks)" for one in dict.fromkeys(words)] or ["nothing"]

    def speed(self) -> str:
        if not self.record.speed:
            return "No task was played."
        told = f"{median(self.record.speed.values()):,.0f} users a second, the median over tasks"
        return told + (f"; {self.memory:.1f} MiB at the peak of a run of 2000 users." if self.memory else ".")

    def board_table(self) -> str:
        columns = [
            Column("family and promise", "board", True),
            Column("score", lambda row: signed(row["score"])),
            Column("95 %", lambda row: score_of(row).ends(signed)),
            Column("rank", lambda row: rank_of(row).removeprefix("rank ")),
            Column("tasks", lambda row: f"{row['played']} of {row['tasks']}"),
            Column("best reference", "best", True),
            Column("its score", lambda row: as_text(row["best_score"])),
        ]
        title = f"Scores{self.at}, and those of the references that come with the package."
        return Table(self.rows, columns, title).html("Scores")

    @property
    def budget_columns(self) -> list[Column]:
        """The score at each budget, in tables of tasks."""
        budgets = [key for key in (self.task_rows[0] if self.task_rows else {}) if key.startswith("at ")]
        return [Column("score" if key == f"at {OPEN}" else key, score_at(key)) for key in budgets]

    def task_table(self) -> str:
        columns = [
            Column("task", "task", True),
            Column("group", "group", True),
            Column("users", lambda row: f"{row['users']:,}"),
            *(column._replace(title=column.title.replace("at ", "epsilon ")) for column in self.budget_columns),
            Column("best reference", "best", True),
            Column("its score", score_at("best_score")),
            Column(
                "question", lambda row: row["question"] + f" Refused: {row['refused']}" * bool(row["refused"]), True
            ),
        ]
        title = f"Mean scores by task; references of the same promise{self.at}."
        return Table(self.task_rows, columns, title).html("Tasks")

    def figure(self) -> Figure:
        """Return the picture: score by group, score against epsilon, and performance profiles."""
        with matplotlib.rc_context(STYLE):
            figure = Figure(figsize=(12, 8.6), layout="constrained", dpi=110)
            panels = figure.subplot_mosaic([["groups", "curve"], ["groups", "profile"]])
            for axis, draw in zip(panels.values(), (self.draw_groups, self.draw_curve, self.draw_profile), strict=True):
                draw(axis)
            self.finish(figure, panels["curve"])
        return figure

    def pictures(self) -> Iterator[Figure]:
        """Yield the panels by themselves, each as wide as a phone shows it."""
        for draw in (self.draw_groups, self.draw_curve, self.draw_profile):
            figure = Figure(figsize=(5.2, 5.6), layout="constrained", dpi=150)
            axis = figure.subplots()
            draw(axis)
            self.finish(figure, axis)
            yield figure

    def finish(self, figure: Figure, axis: Axes) -> None:
        """Write the legend of a panel, and into the corner that the audit refuted the claim."""
        handles, labels = axis.get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        if self.refuted:
            figure.text(0.99, 0.995, "claim REFUTED, not ranked", **STAMP)

    @property
    def colors(self) -> dict[Board, str]:
        return {board: PALETTE[place % len(PALETTE)] for place, board in enumerate(self.boards)}

    def draw_groups(self, axis: Axes) -> None:
        """Draw the score in each group of tasks with its interval, and the best reference's as a hollow mark."""
        at = at_budget(self.scores, self.epsilon)
        groups = list(dict.fromkeys(task.group for task in self.suite.tasks.values()))
        shown = [group for group in groups if any(self.in_group(board, group) for board in self.boards)]
        named: set[Board] = set()
        for row, group in enumerate(shown):
            for place, (board, color) in enumerate(self.colors.items()):
                inside = on_board(at, board).filter(group=group)
                mine = lists(inside.filter(agent=self.record.agent))
                if not mine:
                    continue
                y, found = row + 0.12 * (place - (len(self.boards) - 1) / 2), pooled(mine)
                axis.plot([found.low, found.high], [y, y], color=color, linewidth=2)
                label = None if board in named else board.title
                named.add(board)
                axis.plot(found.value, y, "o", color=color, label=label)
                theirs = [lists(inside.filter(agent=name)) for name in self.rivals[board]]
                whole = [pooled(one).value for one in theirs if len(one) == self.in_group(board, group)]
                if rival := max(whole, default=None):
                    axis.plot(rival, y, "o", color=color, markerfacecolor="white", zorder=1)
        axis.axvline(0, color="#777777", linewidth=1)
        axis.axvline(1, color="#777777", linewidth=1, linestyle=":")
        axis.set_yticks(range(len(shown)), shown)
        axis.invert_yaxis()
        axis.grid(axis="x")
        axis.set(title="Score by group", xlabel="score (hollow: the best reference of the same promise)")

    def in_group(self, board: Board, group: str) -> int:
        return sum(task.group == group for task in board_tasks(self.suite, board))

    def draw_curve(self, axis: Axes) -> None:
        """Draw the score on each board against epsilon."""
        budgets, every = [float(one) for one in self.budgets], [float(one) for one in self.suite.budgets]
        for board, color in self.colors.items():
            own = [on_board(self.places[one], board).filter(agent=self.record.agent).to_dicts() for one in budgets]
            found = [score_of(rows[0]) if rows else Interval(*[math.nan] * 3) for rows in own]
            y = np.array([one.value for one in found])
            spread = np.abs(np.array([[one.value - one.low for one in found], [one.high - one.value for one in found]]))
            axis.errorbar(budgets, y, np.nan_to_num(spread), color=color, marker="o", capsize=3, label=board.title)
            best = [next(iter(self.ahead(board, one)["score"]), np.nan) for one in every]
            axis.plot(every, best, color=color, linestyle=":")
        axis.set_xscale("log")
        axis.set_xticks(every, [f"{one:g}" for one in every])
        axis.minorticks_off()
        axis.axhline(0, color="#777777", linewidth=1)
        axis.grid(axis="y")
        axis.set(title="Score against epsilon", xlabel="epsilon (dotted: the best reference)", ylabel="score")

    def draw_profile(self, axis: Axes) -> None:
        """Draw the share of runs above each score, of this agent and of the best reference."""
        levels = np.linspace(-0.5, 1.5, 201)
        best = {row["board"]: row["best"] for row in self.rows}
        for board, color in self.colors.items():
            own = on_board(at_budget(self.scores, self.epsilon), board)
            for name, line in ((self.record.agent, "-"), (best.get(board.title, ""), ":")):
                if scores := lists(own.filter(agent=name)):
                    label = board.title if line == "-" else None
                    axis.plot(levels, 100 * profile(scores, levels), color=color, linestyle=line, label=label)
        axis.grid()
        axis.set(
            title="Performance profile",
            xlabel="score (dotted: the best reference)",
            ylabel="runs above it (%)",
            xlim=(-0.5, 1.5),
            ylim=(0, 102),
        )


def rank_of(row: Row) -> str:
    if row["rank"] is None:
        return "not ranked"
    return f"rank {place_of(row)} of {row['of']}"


def place_of(row: Row) -> str:
    """Return the places of a group of ties, such as ``"2-4"``."""
    return f"{row['rank']}" if row["rank"] == row["last"] else f"{row['rank']}-{row['last']}"


def score_at(key: str) -> Callable[[Row], str]:
    return lambda row: as_text(row[key])


def as_text(value: float | None) -> str:
    return "" if value is None else signed(value)


def rounded(value: Any) -> Any:
    """Return a number with four digits after the point, None for no number."""
    if not isinstance(value, float):
        return value
    return None if value != value else significant(round(value, 4))


def listed(parts: Sequence[str]) -> str:
    return "\n".join(f"<li>{html.escape(part)}</li>" for part in parts if part)
