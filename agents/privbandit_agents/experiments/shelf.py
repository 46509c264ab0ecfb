"""The experiments that come with the package."""

from pathlib import Path


def library() -> dict[str, Path]:
    """Return the experiments that come with the package: name to file."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "library").glob("*.yaml"))}
