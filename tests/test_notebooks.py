"""Notebooks run from top to bottom: the tour with fewer users and no kernel, all of them by ``make notebooks``."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import nbformat
import pytest
from matplotlib.figure import Figure

from privbandit_envs import ENV_IDS

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
OWN = "tour/Dosage-v0"
FEWER = {"seeds=2, horizon=horizon": "seeds=1, horizon=horizon", ", 4000)": ", 300)", "5000": "500", "10**9": "10**6"}
FEWER |= {"clinic/Dosage-v0": OWN, "%matplotlib inline": "", "4000, np": "1000, np"}
"""What the tour says, and what it plays here."""
REAL = {"20_000": "600", "10_000": "600", "seeds=2, h": "seeds=1, h", "seeds=3": "seeds=1", "users=2000": "users=300"}
REAL |= {"%matplotlib inline": ""}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_notebook_runs(path: Path) -> None:
    from nbclient import NotebookClient

    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), "no picture"


def run_cells(name: str, fewer: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Run a notebook's cells with some texts replaced; return what they display.

    In this process: a kernel takes longer to start than the cells to run.
    """
    notebook: Any = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    for text, less in fewer.items():
        assert text in code, f"the notebook says no more {text!r}"
        code = code.replace(text, less)
    monkeypatch.setitem(sys.modules, "__main__", main := ModuleType("__main__"))
    shown: list[Any] = []
    vars(main)["display"] = shown.append
    exec(compile(code, f"{name}.ipynb", "exec"), main.__dict__)
    return shown


@pytest.mark.wide
def test_the_cells_of_the_tour_run_with_fewer_users(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        shown = run_cells("tour", FEWER, monkeypatch)
    finally:
        if gym.registry.pop(OWN, None) is not None:
            ENV_IDS.remove(OWN)
    assert len(shown) == 4 and all(isinstance(figure, Figure) for figure in shown)


@pytest.mark.wide
def test_real_data_goes_on_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"PRIVBANDIT_DATA": tmp_path, "PIP_FIND_LINKS": tmp_path, "PIP_NO_INDEX": 1}.items():
        monkeypatch.setenv(name, str(value))
    shown = run_cells("real-data", REAL, monkeypatch)
    assert len(shown) == 3 and all(isinstance(figure, Figure) for figure in shown)
    said = capsys.readouterr().out
    assert "The notebook goes on with wine" in said and "policy" in said


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_is_stored_with_its_outputs(path: Path) -> None:
    """By ``python notebooks/store.py``: every cell ran, in order, without an error, and there are pictures to see."""
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not any(output.output_type == "error" for output in outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 4
    assert path.stat().st_size < 2_000_000
    code = "\n".join(cell.source for cell in cells)
    assert re.search(r"privbandit_agents import .*\bcompare\b", code), "trials are the package's"
    assert "fill_between(" not in code, "figures are the package's"
