"""What docstrings and experiments quote by its title stands in docs/papers/bibliography.csv, and nothing else does."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUOTED = re.compile(r'"([A-Z][^"]{15,160}?),?",?( [^"]{0,60}?(?:19|20)\d\d)')
SOURCES = [
    path
    for folder, pattern in [
        *((room, "**/*.py") for room in ("agents", "privbandit_envs", "examples")),
        ("agents", "**/library/*.yaml"),
    ]
    for path in ROOT.glob(f"{folder}/{pattern}")
]


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def titles_listed() -> list[str]:
    with (ROOT / "docs/papers/bibliography.csv").open(encoding="utf-8", newline="") as file:
        return [row["title"] for row in csv.DictReader(file)]


def test_all_that_is_quoted_is_in_the_bibliography() -> None:
    quoted = {title for path in SOURCES for title, _ in QUOTED.findall(flat(path.read_text()))}
    titles = {title for title in quoted if " " in title}
    assert len(titles) > 40, "the pattern finds citations"
    assert titles - set(titles_listed()) == set()


def test_all_that_is_in_the_bibliography_is_quoted_somewhere() -> None:
    listed = titles_listed()
    everything = flat(" ".join(path.read_text() for path in [*SOURCES, *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]))
    assert len(listed) == len(set(listed)) > 60 and [title for title in listed if title not in everything] == []
