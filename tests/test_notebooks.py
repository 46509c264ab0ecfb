"""Every notebook runs from top to bottom: the tour with fewer users here, all as they are by ``make notebooks``."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FEWER = {"seeds=5": "seeds=2", ", 4000)": ", 1000)", ", 1500, 3,": ", 600, 2,"}
"""What the tour says, and what it plays here."""


def run(notebook: Any) -> None:
    """Run a notebook; it has to draw something."""
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), "no picture"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_notebook_runs(path: Path) -> None:
    run(nbformat.read(path, as_version=4))  # type: ignore[no-untyped-call]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_tour_runs_with_fewer_users() -> None:
    notebook = nbformat.read(FOLDER / "tour.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    for text, fewer in FEWER.items():
        assert any(text in cell.source for cell in notebook.cells), f"the tour says no more {text!r}"
        for cell in notebook.cells:
            cell.source = cell.source.replace(text, fewer)
    run(notebook)
