"""What docstrings and experiments quote by its title stands in docs/papers/bibliography.md, and nothing else does."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUOTED = re.compile(r'"([A-Z][^"]{15,160}?),?",?( [^"]{0,60}?(?:19|20)\d\d)')
SOURCES = [
    path
    for folder, pattern in (("agents", "**/*.py"), ("privbandit_envs", "**/*.py"), ("agents", "**/library/*.yaml"))
    for path in ROOT.glob(f"{folder}/{pattern}")
]


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_all_that_is_quoted_is_in_the_bibliography() -> None:
    listed = flat((ROOT / "docs/papers/bibliography.md").read_text())
    quoted = {title for path in SOURCES for title, _ in QUOTED.findall(flat(path.read_text()))}
    titles = {title for title in quoted if " " in title}
    assert len(titles) > 40, "the pattern finds citations"
    assert {title for title in titles if f"*{title}*" not in listed} == set()


def test_all_that_is_in_the_bibliography_is_quoted_somewhere() -> None:
    listed = re.findall(r"\*([^*]+)\*", (ROOT / "docs/papers/bibliography.md").read_text())
    pages = [path for path in ROOT.glob("docs/**/*.md") if path.name != "bibliography.md"]
    everything = flat(" ".join(path.read_text() for path in [*SOURCES, *pages, ROOT / "README.md"]))
    assert len(listed) == len(set(listed)) > 60 and [title for title in listed if title not in everything] == []
