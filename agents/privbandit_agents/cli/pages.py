"""``privbandit report --out`` and ``privbandit frontier``: their files and their messages."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

from privbandit_agents.experiments.results.frame import as_frame
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.usage import UNFINISHED, unwritten
from privbandit_agents.experiments.views.audits import audit_files
from privbandit_agents.experiments.views.page import write_report
from privbandit_agents.experiments.views.plots import plot_frontier
from privbandit_agents.experiments.views.style import Look, save
from privbandit_envs.files import streams

if TYPE_CHECKING:
    import polars as pl


def write_page(
    trials: Sequence[Finished], folder: Path, page: Path, audits: Sequence[Path] | None, title: str = ""
) -> int:
    """Write the page of trials; return the exit code.

    Args:
        trials: those of the folder.
        folder: of the results; its name is the heading by default.
        page: to be written.
        audits: folders of audits; None: those that are likely.
        title: its heading; default: the folder's name.
    """
    places = [folder, folder / "audit", Path("runs/audit")] if audits is None else audits
    found = list(dict.fromkeys(path.resolve() for place in places for path in audit_files(place)))
    title = title or f"Results of {folder.resolve().name}"
    lost = unwritten(page, {"the page": partial(write_report, as_frame(trials), page, title, found)})
    print(*(lost or [f"page: {page}"]), sep="\n", file=sys.stderr if lost or streams(page) else sys.stdout)
    return UNFINISHED if lost else 0


def draw_frontier(results: "pl.DataFrame", picture: Path, look: Look, named: bool) -> int:
    """Draw the frontier of results and write it; return the exit code. Links are followed if the user named it."""
    with matplotlib.rc_context(look.text):
        figure = plot_frontier(results, title=look.title, size=look.size)
        lost = unwritten(picture, {"the figure": partial(save, figure, picture, look.formats, named)})
    print(*(lost or [f"figure: {picture.with_suffix('.png')}"]), sep="\n", file=sys.stderr if lost else sys.stdout)
    return UNFINISHED if lost else 0
