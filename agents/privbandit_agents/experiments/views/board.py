"""TensorBoard of means: a run for each agent, a chart for each environment; regret comes first.

TensorBoard shows nothing of more than 40 runs until some are chosen, so there are never more than ``MOST_AGENTS``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

from privbandit_agents.experiments.names import MEAN_EVENTS, TRIAL_EVENTS, folder_name, settings_in, world_text
from privbandit_agents.experiments.results.frame import PROMISES
from privbandit_agents.experiments.results.queries import WORLD, uniform_play, wide
from privbandit_agents.experiments.results.ranks import ranks
from privbandit_agents.playing.board import (
    EVENTS,
    EventFile,
    add_pictures,
    columns,
    hparams_summary,
    kind_of,
)

MOST_AGENTS = 38
CHARTED = (*WORLD, "label", "agent", "notion", "epsilon", "seed", "checkpoint", "regret", "reward")
"""Columns of a frame that the board takes."""
Curve = tuple[str, tuple[str, ...], pl.DataFrame]
"""Means of an agent in an environment: the run of TensorBoard, the charts that show them, rows of the frame."""


def write_means(frame: pl.DataFrame, folder: Path, pictures: Sequence[Path] = ()) -> None:
    """Write the board of means of a table of results: the folder ``tensorboard`` is the default one to look at."""
    board = folder / MEAN_EVENTS
    move_trials(folder)
    uniform = {tuple(place): regret for *place, regret in uniform_play(frame).iter_rows()}
    runs: dict[str, list[Curve]] = {}
    for curve in curves_of(frame.select(CHARTED)):
        runs.setdefault(curve[0], []).append(curve)
    forget(board, {folder_name(run) for run in runs} | {"overview"})
    first = {row["label"]: row for row in frame.unique("label", keep="first", maintain_order=True).to_dicts()}
    hparams = {run: settings_of(first[curves[0][2]["label"][0]]) for run, curves in runs.items()}
    charts = list(dict.fromkeys(chart for curves in runs.values() for _, shown, _ in curves for chart in shown))
    with closing(EventFile(board / "overview")) as file:
        file.add(columns(list(hparams.values()), {f"regret/{chart}": f"regret, {chart}" for chart in charts}))
        add_pictures(file, pictures)
    for run, curves in runs.items():
        with closing(EventFile(board / folder_name(run))) as file:
            start = plugin_data_pb2.SessionStartInfo()
            for key, value in hparams[run].items():
                setattr(start.hparams[key], f"{kind_of(value)}_value", value)
            file.add(hparams_summary(metadata.SESSION_START_INFO_TAG, session_start_info=start))
            for _, shown, rows in curves:
                for users, values in points_of(rows, uniform):
                    file.scalars({f"{tag}/{chart}": value for tag, value in values.items() for chart in shown}, users)
            end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)
            file.add(hparams_summary(metadata.SESSION_END_INFO_TAG, session_end_info=end))


def curves_of(frame: pl.DataFrame) -> list[Curve]:
    """Return the means with their runs: one for each agent with its settings, or for each agent if these are too many.

    There the settings are in the names of charts, and agents without any are in all of them. Of still more agents the
    best are kept.
    """
    several = frame.group_by("env").agg(pl.col("horizon").n_unique())["horizon"].max() != 1
    titles = titles_of(dict.fromkeys(frame["env"]))
    cells = [
        (titles[str(env)] + (f", {horizon} users" if several else ""), str(label), own)
        for (env, horizon, label), own in frame.group_by(*WORLD, "label", maintain_order=True)
    ]
    if len({label for _, label, _ in cells}) <= MOST_AGENTS:
        return [(label, (world,), rows) for world, label, rows in cells]
    settings: dict[str, dict[str, None]] = {}
    for world, label, _ in cells:
        if setting := label.partition(" ")[2]:
            settings.setdefault(world, {})[setting] = None
    agents = set(best_agents(frame))
    return [
        (agent, charts_of(world, setting, list(settings.get(world, ()))), rows)
        for world, label, rows in cells
        for agent, _, setting in [label.partition(" ")]
        if agent in agents
    ]


def titles_of(envs: Iterable[str]) -> dict[str, str]:
    """Return the title of each environment for a card: its name, and the settings in which others of it differ."""
    given: dict[str, dict[str, list[str]]] = {}
    for env in envs:
        name, settings = settings_in(world_text(env), " (")
        given.setdefault(name, {})[env] = settings
    titles = {}
    for name, own in given.items():
        for env, settings in own.items():
            differing = [one for one in settings if any(one not in others for others in own.values())]
            titles[env] = f"{name} ({', '.join(differing)})" if differing else name
    return titles


def charts_of(world: str, setting: str, settings: Sequence[str]) -> tuple[str, ...]:
    """Return the charts of a curve where settings are in their names."""
    if setting or not settings:
        return (f"{world}, {setting}" if setting else world,)
    return tuple(f"{world}, {one}" for one in settings)


def best_agents(frame: pl.DataFrame) -> list[str]:
    """Return the agents of a table, at most ``MOST_AGENTS``, by their best rank anywhere."""
    placed = ranks(frame).with_columns(agent=pl.col("label").str.split(" ").list.first())
    return (
        placed.group_by("agent", maintain_order=True)
        .agg(pl.col("rank").min())
        .sort("rank")["agent"]
        .to_list()[:MOST_AGENTS]
    )


def points_of(rows: pl.DataFrame, uniform: Mapping[tuple[Any, ...], float]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the values of an agent at each checkpoint that all seeds have, by tag.

    Where uniform play is known, they have the share of its regret and the decimal logarithm of that, by which good
    agents are told apart on TensorBoard's linear axes.
    """
    env, horizon = rows.select("env", "horizon").row(0)
    users, regret = wide(rows, "regret")
    _, reward = wide(rows, "reward")
    for i, n in enumerate(map(int, users)):
        values = {"regret": regret[:, i].mean(), "reward": reward[:, i].mean() / n}
        if (below := uniform.get((env, horizon, n), 0.0)) > 0:
            values["regret_share"] = values["regret"] / below
            values |= {"regret_share_log10": np.log10(values["regret_share"])} if values["regret"] > 0 else {}
        yield n, {tag: float(value) for tag, value in values.items()}


def settings_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's columns of hparams, given a row of it: its name, its promise and its settings.

    The tab opens with the first five by the alphabet: the name and the promise, as a blank comes before a dot.
    """
    promise = {f"agent {key}": row.get(key) for key in PROMISES}
    settings = {key: value for key, value in row.items() if key.startswith("agent.")}
    told = {"agent": row["agent"], **promise, **settings}
    return {key: value for key, value in told.items() if value is not None and value == value}


def move_trials(folder: Path) -> None:
    """Move the runs of trials that earlier versions wrote into the board of means."""
    for run in sorted((folder / MEAN_EVENTS).glob("*/*/seed-*")):
        place = folder / TRIAL_EVENTS / run.relative_to(folder / MEAN_EVENTS)
        if run.is_dir() and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            run.rename(place)
            for left in (run.parent, run.parent.parent):
                with suppress(OSError):  # others are in it
                    left.rmdir()


def forget(board: Path, kept: set[str]) -> None:
    """Delete the event files of means that are no more, and folders that are empty then."""
    for run in (path for path in board.glob("*") if path.is_dir() and path.name not in kept):
        for file in run.glob(EVENTS):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # others are in it
            run.rmdir()
