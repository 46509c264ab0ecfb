"""What MkDocs is taught for this documentation: an API page for each public module, cards, and maths as MathML."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from cards import KINDS, addresses, cards
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "privbandit_envs", ROOT / "agents" / "privbandit_agents")
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
        return [rooms(package, package.parent) for package in PACKAGES]
    if entry.removeprefix("cards/").removesuffix("/") in KINDS:
        return addresses(entry.split("/")[1])
    if entry.endswith("/"):
        pages = sorted((docs / entry).glob("*.md"), key=lambda page: (page.name != "index.md", page.name))
        return [f"{entry}{page.name}" for page in pages]
    return entry


def rooms(folder: Path, top: Path) -> dict[str, Any]:
    """Return the navigation of a package: its own page, its modules, then its folders."""
    own = [page_of(module, top) for module in public_modules(folder)]
    folders = [rooms(inner, top) for inner in sorted(folder.iterdir()) if (inner / "__init__.py").is_file()]
    return {folder.name: [*own, *folders]}


def public_modules(folder: Path) -> Iterator[Path]:
    """Yield the modules of a folder that a reader may import, the package itself first."""
    yield folder / "__init__.py"
    yield from (path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_"))


def dotted(module: Path, top: Path) -> str:
    """Return the import name of a module."""
    return ".".join(module.relative_to(top).with_suffix("").parts).removesuffix(".__init__")


def page_of(module: Path, top: Path) -> str:
    """Return the address of a module's page."""
    place = dotted(module, top).replace(".", "/")
    return f"api/{place}/index.md" if module.name == "__init__.py" else f"api/{place}.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every public module, which mkdocstrings fills from the docstrings, and the cards."""
    for place, text in cards():
        files.append(File.generated(config, place, content=text))
    for package in PACKAGES:
        for folder in (package, *(path.parent for path in package.rglob("*/__init__.py"))):
            for module in public_modules(folder):
                name = dotted(module, package.parent)
                text = f"---\ntitle: {name.split('.')[-1]}\n---\n\n::: {name}\n"
                files.append(File.generated(config, page_of(module, package.parent), content=text))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Write formulas as MathML, which needs no script; a keyboard reaches code and tables that scroll."""
    return SCROLLING.sub(r'\1 tabindex="0"', MATHS.sub(as_mathml, html))


def as_mathml(match: re.Match[str]) -> str:
    """Return one formula as MathML."""
    return convert(unescape(match[3]), display="inline" if match[2] == "(" else "block")
