"""Every notebook runs from top to bottom: the tour here, the others by ``make notebooks``."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
LONG = [pytest.param(path, marks=pytest.mark.slow) if path.stem != "tour" else path for path in NOTEBOOKS]


@pytest.mark.parametrize("path", LONG, ids=[path.stem for path in NOTEBOOKS])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_notebook_runs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), "no picture"


def test_there_is_a_tour() -> None:
    assert "tour" in [path.stem for path in NOTEBOOKS]
