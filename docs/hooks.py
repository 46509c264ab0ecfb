"""Hooks of MkDocs: an API page for each package that exports names, cards, measured tables, and maths as MathML.

A paragraph that is nothing but a link to a CSV file becomes the table in that file, with the link's text as caption.
So a page in the repository links its numbers, and the site shows them.
"""

import csv
import inspect
import re
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any

from cards import KINDS, addresses, cards, linked
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from privbandit_agents.experiments.suite.leaderboard import leaderboard, standings
from privbandit_agents.experiments.suite.rows import read_row

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "privbandit_envs", ROOT / "agents" / "privbandit_agents")
TOPS = {package.name for package in PACKAGES}
MEASURED = re.compile(r"^\[(.+)\]\(([\w./-]+\.csv)\)$", re.MULTILINE)
PROMPTED = re.compile(r"^>>> .*\n(?:.+\n)*", re.MULTILINE)
NUMBER = re.compile(r"[-+]?[\d.,]+%?( [±x].*| \+-.*)?|-?|")
LISTS = ("agents.md", "environments.md")
NAMELESS = {
    '<div class="md-search" data-md-component="search" role="dialog"': "Search",
    '<nav class="md-path" aria-label="Navigation"': "Path to this page",
    '<nav class="md-nav md-nav--secondary" aria-label="Table of contents"': "On this page",
}
SCROLLING = re.compile(r'(<pre[^>]*>(?:<span></span>)?<code|<table|<math[^>]* display="block")')
MATHS = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: MkDocsConfig) -> None:
    """Replace the folders of the navigation by their pages, and show the version."""
    config.extra["version"] = import_module("privbandit_envs").__version__
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
    about = PROMPTED.sub(r"```pycon\n\g<0>```\n", inspect.cleandoc(import_module(face).__doc__ or "") + "\n")
    lines = ["---", f"title: {face}", "---", "", f"# {face}", "", about, ""]
    groups: dict[str, list[tuple[str, str]]] = {"Classes": [], "Functions": [], "Data": []}
    for name in own_names(face):
        value = getattr(import_module(face), name)
        home = getattr(value, "__module__", None)
        place = home if isinstance(home, str) and home.split(".")[0] in TOPS else face
        kind = "Classes" if inspect.isclass(value) else "Functions" if inspect.isroutine(value) else "Data"
        groups[kind].append((name, f"{place}.{name}"))
    for kind, members in groups.items():
        if members:
            lines += [f"## {kind}", "", ", ".join(f"[`{name}`][{place}]" for name, place in members), ""]
        for _, place in members:
            lines += [f"::: {place}", "    options:", "      heading_level: 3", "      show_root_full_path: false", ""]
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every package that exports names, which mkdocstrings fills, the cards, and the leaderboard."""
    rows = [read_row(path.parent) for path in sorted((ROOT / "docs" / "board").glob("*/score.json"))]
    board = ("leaderboard.html", leaderboard(standings(audits(), rows)))
    for place, text in (board, *cards(), *((page_of(face), api_page(face)) for face in faces())):
        files.append(File.generated(config, place, content=text))
    return files


def audits() -> dict[str, str]:
    """Return what the audit of each agent can find, in words: the power of its most powerful game."""
    with (ROOT / "docs" / "privacy" / "audit-power.csv").open(encoding="utf-8", newline="") as file:
        found = [(row["target"].split("`")[1], row["1.25"]) for row in csv.DictReader(file)]
    best = {name: max((own[0] != "n", own) for one, own in found if one == name)[1] for name, _ in found}
    words = {"n": "not measured", "0.00": "no power"}
    return {name: words.get(own, words.get(own[0], f"not refuted, power {own}")) for name, own in best.items()}


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Draw the tables whose numbers are in files beside the page."""
    folder = Path(page.file.abs_src_path or ROOT).parent

    def drawn(match: re.Match[str]) -> str:
        caption, place = match[1], match[2]
        with (folder / place).open(encoding="utf-8", newline="") as file:
            return measured(list(csv.reader(file)), f"{caption} ([CSV]({place}))")

    shown = MEASURED.sub(drawn, markdown)
    return linked(shown) if page.file.src_uri in LISTS else shown


def measured(rows: list[list[str]], caption: str) -> str:
    """Return a table with its caption as Markdown; columns of numbers are set to the right."""
    head, *body = rows
    sides = ["--:" if all(NUMBER.fullmatch(cell) for cell in column) else "---" for column in zip(*body, strict=True)]
    lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in (head, sides, *body)]
    figure = '<figure class="measured" markdown="1">\n<figcaption markdown="1">{}</figcaption>\n\n{}\n\n</figure>'
    return figure.format(caption, "\n".join(lines))


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Write formulas as MathML, which needs no script; a keyboard reaches code, tables and formulas that scroll.

    The contents of an API page are its sections alone, since its names stand at the head of each.
    """
    if page.file.src_uri.startswith("api/"):
        for section in (section for top in page.toc for section in top.children):
            section.children = []
    return SCROLLING.sub(r'\1 tabindex="0"', MATHS.sub(as_mathml, html))


def on_post_page(output: str, **_: Any) -> str:
    """Give a screen reader a name of its own for the search and for every list of links."""
    for part, name in NAMELESS.items():
        output = output.replace(part, f'{part.partition(" aria-label")[0]} aria-label="{name}"', 1)
    return output


def as_mathml(match: re.Match[str]) -> str:
    """Return one formula as MathML."""
    return convert(unescape(match[3]), display="inline" if match[2] == "(" else "block")
