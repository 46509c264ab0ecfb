"""Run notebooks and store them with their outputs: ``python notebooks/store.py tour``, or all without a name."""

import resource
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def store(path):
    """Run a notebook from top to bottom, write it back, and print the seconds of a processor that it took."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}).execute()
    for cell in notebook.cells:
        cell.metadata = {}  # when it ran is nobody's business
    nbformat.write(notebook, path)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{path.stem}: {used.ru_utime + used.ru_stime:.1f} s of a processor so far", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        store(FOLDER / f"{name}.ipynb")
