"""Every notebook runs from top to bottom: the tour with fewer users and no kernel, all by ``make notebooks``."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import matplotlib.pyplot as plt
import nbformat
import pytest
from nbclient import NotebookClient

from privbandit_envs import ENV_IDS

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
OWN = "tour/Dosage-v0"
FEWER = {"seeds=5": "seeds=2", ", 4000)": ", 500)", ", 1500, 3,": ", 600, 2,", "clinic/Dosage-v0": OWN}
FEWER |= {"%matplotlib inline": "plt.switch_backend('agg')"}
"""What the tour says, and what it plays here."""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_notebook_runs(path: Path) -> None:
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), "no picture"


def test_the_cells_of_the_tour_run_with_fewer_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: a kernel takes longer to start than the cells to run."""
    notebook: Any = nbformat.read(FOLDER / "tour.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    for text, fewer in FEWER.items():
        assert text in code, f"the tour says no more {text!r}"
        code = code.replace(text, fewer)
    monkeypatch.setitem(sys.modules, "__main__", main := ModuleType("__main__"))
    try:
        with plt.rc_context():
            exec(compile(code, "tour.ipynb", "exec"), main.__dict__)
            assert len(plt.get_fignums()) == 2, "no pictures"
    finally:
        plt.close("all")
        if gym.registry.pop(OWN, None) is not None:
            ENV_IDS.remove(OWN)
