"""The experiments that come with the package."""

from pathlib import Path

from privbandit_envs.validate import unknown


def library() -> dict[str, Path]:
    """Return the experiments that come with the package: name to file."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "library").glob("*.yaml"))}


def bundled() -> dict[str, Path]:
    """Return the sweeps that come with the package: name to file."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def shipped(name: str) -> Path:
    """Return the file of an experiment that comes with the package; raise ValueError for an unknown name."""
    if name not in library():
        raise unknown("no experiment", name, library(), "privbandit list experiments")
    return library()[name]
