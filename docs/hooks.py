"""Hooks of MkDocs: an API page for each package that exports names, cards, and maths as MathML."""

import re
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any

from cards import KINDS, addresses, cards
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from privbandit_agents.experiments.suite.leaderboard import leaderboard

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "privbandit_envs", ROOT / "agents" / "privbandit_agents")
TOPS = {package.name for package in PACKAGES}
SCROLLING = re.compile(r"(<pre[^>]*>(?:<span></span>)?<code|<table)")
MATHS = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: MkDocsConfig) -> None:
    """Replace the folders of the navigation by their pages."""
    config.nav = [filled(entry, Path(config.docs_dir)) for entry in config.nav or []]


def filled(entry: Any, docs: Path) -> Any:
    """Return an entry of the navigation with a list of pages in place of every ``folder/``."""
    if isinstance(entry, dict):
        return {title: filled(inner, docs) for title, inner in entry.items()}
    if isinstance(entry, list):
        return [filled(inner, docs) for inner in entry]
    if entry == "api/":
        return [{face: page_of(face)} for face in faces()]
    if entry.removeprefix("cards/").removesuffix("/") in KINDS:
        return addresses(entry.split("/")[1])
    if entry.endswith("/"):
        pages = sorted((docs / entry).glob("*.md"), key=lambda page: (page.name != "index.md", page.name))
        return [f"{entry}{page.name}" for page in pages]
    return entry


def faces() -> list[str]:
    """Return the packages that export names, outer ones first."""
    found = [dotted(init) for package in PACKAGES for init in sorted(package.rglob("__init__.py"))]
    return [name for name in found if import_module(name).__all__]


def dotted(init: Path) -> str:
    """Return the import name of a package, given its ``__init__.py``."""
    (top,) = (package.parent for package in PACKAGES if init.is_relative_to(package))
    return ".".join(init.parent.relative_to(top).parts)


def page_of(face: str) -> str:
    """Return the address of a package's page."""
    return f"api/{face.replace('.', '/')}/index.md"


def own_names(face: str) -> list[str]:
    """Return the names that a package exports and no package below it does."""
    below = {name for other in faces() if other.startswith(f"{face}.") for name in import_module(other).__all__}
    return [name for name in import_module(face).__all__ if name not in below and name != "__version__"]


def api_page(face: str) -> str:
    """Return the Markdown of a package's page: its docstring, then each exported name, for mkdocstrings to fill."""
    lines = ["---", f"title: {face}", "---", "", f"# {face}", "", import_module(face).__doc__ or "", ""]
    for name in own_names(face):
        home = getattr(getattr(import_module(face), name), "__module__", None)
        place = home if isinstance(home, str) and home.split(".")[0] in TOPS else face
        lines += [
            f"::: {place}.{name}",
            "    options:",
            "      heading_level: 2",
            "      show_root_full_path: false",
            "",
        ]
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every package that exports names, which mkdocstrings fills, the cards, and the leaderboard."""
    board = ("leaderboard.md", leaderboard())
    for place, text in (board, *cards(), *((page_of(face), api_page(face)) for face in faces())):
        files.append(File.generated(config, place, content=text))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Write formulas as MathML, which needs no script; a keyboard reaches code and tables that scroll."""
    return SCROLLING.sub(r'\1 tabindex="0"', MATHS.sub(as_mathml, html))


def as_mathml(match: re.Match[str]) -> str:
    """Return one formula as MathML."""
    return convert(unescape(match[3]), display="inline" if match[2] == "(" else "block")
