"""What the package index shows: the README, with links that lead to the repository."""

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # nothing is built, and only the function is asked for
    MetadataHookInterface = object


def absolute(text: str, home: str) -> str:
    """Return Markdown with the links and pictures that are files of the repository as addresses."""
    pictures = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\1{home}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\]!]*\]\()(?!https?:|#)", rf"\1{home}/blob/main/", pictures)


class ReadmeHook(MetadataHookInterface):  # type: ignore[misc]
    """Sets the README of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        home = metadata["urls"]["Homepage"]
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, home)}
