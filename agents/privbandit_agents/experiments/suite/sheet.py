"""The score sheet of an agent: a page, a picture, and numbers for machines."""

import base64
import html
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from privbandit_agents.experiments.analysis.statistics import Interval
from privbandit_agents.experiments.drawing.style import PALETTE, STAMP, STYLE
from privbandit_agents.experiments.report.html_table import Column, table
from privbandit_agents.experiments.suite.boards import (
    READING,
    Board,
    Place,
    board_tasks,
    boards_of,
    overall,
    placed,
    pooled,
    profile,
    signed,
)
from privbandit_agents.experiments.suite.records import JSON, Record, as_json, made, significant
from privbandit_agents.experiments.suite.tasks import OPEN, Suite, Task, budget_name


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

    @property
    def boards(self) -> list[Board]:
        return list(boards_of(self.record, self.suite))

    def places(self, board: Board, epsilon: float) -> dict[str, Place]:
        """Return the places of a board with this agent on it."""
        return placed(board, {**self.others, self.record.agent: self.record}, self.suite, epsilon, self.seeds)

    def score(self, board: Board, epsilon: float) -> Interval[float]:
        places = self.places(board, epsilon)
        return places[self.record.agent].score if self.record.agent in places else Interval(*[math.nan] * 3)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each board: score, interval, rank, and who is next to it."""
        found = []
        for board in self.boards:
            places = self.places(board, self.epsilon)
            if self.record.agent not in places:
                continue
            mine = places[self.record.agent]
            others = {name: places[name] for name in self.rivals(board) if name in places and places[name].rank}
            best = max(others, key=lambda name: others[name].score.value, default="")
            asked = board_tasks(self.suite, board)
            found.append(
                {
                    **{"board": board.title, "family": board.family, "notion": board.notion, "unit": board.unit},
                    **{"score": mine.score.value, "low": mine.score.low, "high": mine.score.high},
                    **{
                        "rank": None if self.refuted else mine.rank,
                        "of": sum(place.rank is not None for place in places.values()),
                    },
                    **{"played": mine.played, "tasks": len(asked), "best": best},
                    "best_score": others[best].score.value if best else None,
                }
            )
        return found

    def task_rows(self) -> list[dict[str, Any]]:
        """Return a row for each task: the score at each budget, and the best reference of the same promise."""
        found: list[dict[str, Any]] = []
        for board in self.boards:
            for task in board_tasks(self.suite, board):
                if task.name in self.record.regrets or task.name in self.record.refused:
                    found.append(self.task_row(task, board))
        return found

    def task_row(self, task: Task, board: Board) -> dict[str, Any]:
        budgets = [OPEN] if self.record.notion == OPEN else [budget_name(one) for one in self.budgets]
        at = OPEN if self.record.notion == OPEN else budget_name(self.epsilon)
        scores = {one: self.record.scores(task, one, self.seeds) for one in budgets}
        rivals = {
            name: float(np.mean(theirs))
            for name in self.rivals(board)
            if task.name in self.others[name].regrets
            and (theirs := self.others[name].scores(task, at, self.seeds)) is not None
        }
        best = max(rivals, key=rivals.__getitem__, default="")
        return {
            **{"task": task.name, "group": task.group, "question": task.question, "users": task.users},
            **{f"at {one}": None if got is None else float(np.mean(got)) for one, got in scores.items()},
            **{"best": best, "best_score": rivals.get(best), "without": task.best_agent},
            "refused": self.record.refused.get(task.name, ""),
        }

    def rivals(self, board: Board) -> list[str]:
        """Return the other references on a board, without names that play there as this agent does."""
        at = OPEN if self.record.notion == OPEN else budget_name(self.epsilon)

        def played(record: Record) -> list[Any]:
            tasks = board_tasks(self.suite, board)
            return [record.regrets.get(task.name, {}).get(at, [])[: self.seeds] for task in tasks]

        mine = played(self.record)
        return [
            name
            for name, other in self.others.items()
            if board in boards_of(other, self.suite) and played(other) != mine
        ]

    def overall(self, epsilon: float) -> Interval[float] | None:
        """Return the score over all families, of the two names that choose an agent for each; else None."""
        whole = self.record.agent in ("auto-joint", "auto-local")
        return overall(self.record, self.suite, epsilon, self.seeds) if whole else None

    def headlines(self) -> Iterator[str]:
        """Yield the answer in sentences."""
        for wrong, told in ((not self.passed, self.conformance), (self.refuted, self.audit)):
            if wrong:
                yield f"Not to be compared: {told}"
        told = "" if self.record.notion == OPEN else f"At epsilon = {self.epsilon:g}: "
        parts = [f"{row['board']} {shown(row)}, {rank_of(row)}" for row in self.rows()]
        if (whole := self.overall(self.epsilon)) is not None:
            parts.insert(0, f"over all families {signed(whole.value)} ({signed(whole.low)} to {signed(whole.high)})")
        yield f"{told}{'; '.join(parts)}." if parts else "It plays no task of the suite."
        yield from self.failures

    def json(self) -> JSON:
        """Return the sheet's numbers; what differs between two runs stands under ``times`` and ``made``."""
        record = as_json(self.record, self.suite)
        speed = record.pop("users_a_second")
        boards = [{key: rounded(value) for key, value in row.items()} for row in self.rows()]
        told = {"suite": self.suite.version, **record, "epsilon": self.epsilon, "seeds": self.seeds, "boards": boards}
        if (whole := self.overall(self.epsilon)) is not None:
            told["overall"] = [rounded(one) for one in (whole.value, whole.low, whole.high)]
        told |= {"passed": self.passed, "refuted": self.refuted, "conformance": self.conformance, "audit": self.audit}
        return {**told, "times": {"users_a_second": speed, "mib": self.memory}, "made": made()}

    def page(self) -> str:
        """Return the page, which needs no other file."""
        with matplotlib.rc_context(STYLE):
            pictures = "".join(map(embedded, self.pictures()))
        css = files("privbandit_agents.experiments.report").joinpath("page.css").read_text(encoding="utf-8")
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
            Column("score", "said"),
            Column("95 %", "interval"),
            Column("rank", "place"),
            Column("tasks", "count"),
            Column("best reference", "best", True),
            Column("its score", "best_said"),
        ]
        rows = [
            {
                **row,
                "said": signed(row["score"]),
                "interval": f"{signed(row['low'])} to {signed(row['high'])}",
                "place": rank_of(row).removeprefix("rank "),
                "count": f"{row['played']} of {row['tasks']}",
                "best_said": "" if row["best_score"] is None else signed(row["best_score"]),
            }
            for row in self.rows()
        ]
        at = "" if self.record.notion == OPEN else f" at epsilon = {self.epsilon:g}"
        return table("Scores", f"Scores{at}, and those of the references that come with the package.", columns, rows)

    def task_table(self) -> str:
        rows = self.task_rows()
        budgets = [key for key in (rows[0] if rows else {}) if key.startswith("at ")]
        columns = [
            Column("task", "task", True),
            Column("group", "group", True),
            Column("users", "users"),
            *(Column("score" if one == f"at {OPEN}" else one.replace("at ", "epsilon "), one) for one in budgets),
            Column("best reference", "best", True),
            Column("its score", "best_score"),
            Column("question", "question", True),
        ]
        cells = [{**row, **{key: as_text(row[key]) for key in (*budgets, "best_score")}} for row in rows]
        for row in cells:
            row["users"] = f"{row['users']:,}"
            row["question"] += f" Refused: {row['refused']}" if row["refused"] else ""
        at = "" if self.record.notion == OPEN else f" at epsilon = {self.epsilon:g}"
        return table("Tasks", f"Mean scores by task; references of the same promise{at}.", columns, cells)

    def figure(self) -> Figure:
        """Return the picture: score by group, score against epsilon, and performance profiles."""
        with matplotlib.rc_context(STYLE):
            figure = Figure(figsize=(12, 8.6), layout="constrained", dpi=110)
            panels = figure.subplot_mosaic([["groups", "curve"], ["groups", "profile"]])
            for axis, draw in zip(panels.values(), (self.draw_groups, self.draw_curve, self.draw_profile), strict=True):
                draw(axis, self.colors)
            self.legend(figure, panels["curve"])
            self.mark(figure)
        return figure

    def pictures(self) -> Iterator[Figure]:
        """Yield the panels by themselves, each as wide as a phone shows it."""
        for draw in (self.draw_groups, self.draw_curve, self.draw_profile):
            figure = Figure(figsize=(5.2, 5.6), layout="constrained", dpi=150)
            axis = figure.subplots()
            draw(axis, self.colors)
            self.legend(figure, axis)
            self.mark(figure)
            yield figure

    def mark(self, figure: Figure) -> None:
        """Write into a picture's corner that the audit refuted the claim."""
        if self.refuted:
            figure.text(0.99, 0.995, "claim REFUTED, not ranked", **STAMP)

    @property
    def colors(self) -> dict[Board, str]:
        return {board: PALETTE[place % len(PALETTE)] for place, board in enumerate(self.boards)}

    def legend(self, figure: Figure, axis: Axes) -> None:
        handles, labels = axis.get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)

    def draw_groups(self, axis: Axes, colors: Mapping[Board, str]) -> None:
        """Draw the score in each group of tasks with its interval, and the best reference's as a hollow mark."""
        groups = list(dict.fromkeys(task.group for task in self.suite.tasks.values()))
        at = OPEN if self.record.notion == OPEN else budget_name(self.epsilon)
        shown = [group for group in groups if any(self.in_group(board, group) for board in colors)]
        named: set[Board] = set()
        for row, group in enumerate(shown):
            for place, (board, color) in enumerate(colors.items()):
                tasks = self.in_group(board, group)
                mine = [one for task in tasks if (one := self.record.scores(task, at, self.seeds)) is not None]
                if not mine:
                    continue
                y, found = row + 0.12 * (place - (len(colors) - 1) / 2), pooled(mine)
                axis.plot([found.low, found.high], [y, y], color=color, linewidth=2)
                label = None if board in named else board.title
                named.add(board)
                axis.plot(found.value, y, "o", color=color, label=label)
                if rival := self.best_rival(board, tasks, at):
                    axis.plot(rival, y, "o", color=color, markerfacecolor="white", zorder=1)
        axis.axvline(0, color="#777777", linewidth=1)
        axis.axvline(1, color="#777777", linewidth=1, linestyle=":")
        axis.set_yticks(range(len(shown)), shown)
        axis.invert_yaxis()
        axis.grid(axis="x")
        axis.set(title="Score by group", xlabel="score (hollow: the best reference of the same promise)")

    def in_group(self, board: Board, group: str) -> list[Task]:
        return [task for task in board_tasks(self.suite, board) if task.group == group]

    def best_rival(self, board: Board, tasks: Sequence[Task], budget: str) -> float | None:
        """Return the highest score of a reference over tasks; None without one."""
        found = []
        for name in self.rivals(board):
            theirs = [self.others[name].scores(task, budget, self.seeds) for task in tasks]
            if all(one is not None for one in theirs):
                found.append(pooled(theirs).value)
        return max(found, default=None)

    def draw_curve(self, axis: Axes, colors: Mapping[Board, str]) -> None:
        """Draw the score on each board against epsilon."""
        budgets, every = [float(one) for one in self.budgets], [float(one) for one in self.suite.budgets]
        for board, color in colors.items():
            found = [self.score(board, one) for one in budgets]
            y = np.array([one.value for one in found])
            spread = np.abs(np.array([[one.value - one.low for one in found], [one.high - one.value for one in found]]))
            axis.errorbar(budgets, y, np.nan_to_num(spread), color=color, marker="o", capsize=3, label=board.title)
            rivals = [self.places(board, one) for one in every]
            best = [
                max((own[name].score.value for name in self.rivals(board) if name in own), default=np.nan)
                for own in rivals
            ]
            axis.plot(every, best, color=color, linestyle=":")
        axis.set_xscale("log")
        axis.set_xticks(every, [f"{one:g}" for one in every])
        axis.minorticks_off()
        axis.axhline(0, color="#777777", linewidth=1)
        axis.grid(axis="y")
        axis.set(title="Score against epsilon", xlabel="epsilon (dotted: the best reference)", ylabel="score")

    def draw_profile(self, axis: Axes, colors: Mapping[Board, str]) -> None:
        """Draw the share of runs above each score, of this agent and of the best reference."""
        levels = np.linspace(-0.5, 1.5, 201)
        best = {row["board"]: row["best"] for row in self.rows()}
        for board, color in colors.items():
            for name, line in ((self.record.agent, "-"), (best.get(board.title, ""), ":")):
                record = self.record if name == self.record.agent else self.others.get(name)
                scores = [] if record is None else self.on_board(board, record)
                if scores:
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

    def on_board(self, board: Board, record: Record) -> list[Any]:
        at = OPEN if record.notion == OPEN else budget_name(self.epsilon)
        found = (record.scores(task, at, self.seeds) for task in board_tasks(self.suite, board))
        return [one for one in found if one is not None]


def embedded(figure: Figure) -> str:
    """Return a picture as markup that needs no other file; the tables have its numbers."""
    picture, title = io.BytesIO(), figure.axes[0].get_title(loc="left")
    figure.savefig(picture, format="png")
    code = base64.b64encode(picture.getvalue()).decode()
    return f'<img src="data:image/png;base64,{code}" alt="{html.escape(title)}; the tables have the numbers.">\n'


def rank_of(row: Mapping[str, Any]) -> str:
    if row["rank"] is None:
        return "not ranked"
    return f"rank {row['rank']} of {row['of']}"


def shown(row: Mapping[str, Any]) -> str:
    return f"{signed(row['score'])} ({signed(row['low'])} to {signed(row['high'])})"


def as_text(value: float | None) -> str:
    return "" if value is None else signed(value)


def rounded(value: Any) -> Any:
    """Return a number with four digits after the point, None for no number."""
    if not isinstance(value, float):
        return value
    return None if value != value else significant(round(value, 4))


def listed(parts: Sequence[str]) -> str:
    return "\n".join(f"<li>{html.escape(part)}</li>" for part in parts if part)
