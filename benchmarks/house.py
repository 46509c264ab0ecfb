"""The size of the house: names that are promised, knobs, lines by folder, and prose.

    python benchmarks/house.py                   all of it
    python benchmarks/house.py --pages           words, habits of prose and long sentences of each page

Numbers are printed and nothing is asserted: they show a trend.
"""

import ast
import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from inspect import getattr_static
from pathlib import Path

from privbandit_agents import Agent, CentralAgent, LocalAgent
from privbandit_agents.base.settings import Settings
from privbandit_agents.zoo.entries import AGENTS

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "privbandit_envs", ROOT / "agents" / "privbandit_agents")
PROSE = {
    '"what is" as a noun': re.compile(r"\b[Ww]hat (?:is|was|are|were|they|the|it|users?|an?|has|have)\b(?![^.]*\?)"),
    '"so many"': re.compile(r"\b(?:[Ss]o|[Aa]s) (?:many|much|often)\b"),
    '"whose", "of which"': re.compile(r"\b(?:whose|of which|of whom)\b"),
    "things that tell or say": re.compile(r"\b(?:tells?|says?|told)\b"),
}
"""Habits that docstrings and pages are counted for."""
LONG = 28
"""Words of a sentence, beyond which it is counted as long."""


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the dotted name and the file of every module."""
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def promised() -> set[str]:
    """Return the names that packages export, each by its own module so that none counts twice."""
    found = set()
    for name, path in modules():
        if path.name == "__init__.py" and "_vendor" not in name:
            package = import_module(name)
            for exported in getattr(package, "__all__", ()):
                value = getattr(package, exported)
                home = getattr(value, "__module__", None)
                found.add(f"{home if isinstance(home, str) else name}.{exported}")
    return found


def plain_numbers(tree: ast.Module) -> int:
    """Return how many constants of a module are numbers, or arithmetic of numbers."""

    def number(node: ast.expr) -> bool:
        if isinstance(node, ast.UnaryOp):
            return number(node.operand)
        if isinstance(node, ast.BinOp):
            return number(node.left) and number(node.right)
        if isinstance(node, ast.Tuple):
            return bool(node.elts) and all(map(number, node.elts))
        return isinstance(node, ast.Constant) and type(node.value) in (int, float)

    count = 0
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                named = all(isinstance(name, ast.Name) and name.id.strip("_").isupper() for name in names)
                count += len(names) * (named and number(node.value))
    return count


def tuning_fields(name: str, tree: ast.Module) -> int:
    """Return how many numbers classes hold by default, but for those of settings, which are counted by agent."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not issubclass(getattr(import_module(name), node.name, int), Settings):
            for inner in node.body:
                if isinstance(inner, ast.AnnAssign | ast.Assign) and isinstance(inner.value, ast.Constant):
                    count += type(inner.value.value) in (int, float)
    return count


def settings() -> int:
    """Return how many settings the agents' classes have; a preset has those of its agent."""
    classes = {entry.load() for entry in AGENTS.values() if not entry.successor}
    configs = (getattr(cls, "Config", None) for cls in classes)
    return sum(len(dataclasses.fields(config)) for config in configs if config is not None)


def docstrings(tree: ast.Module) -> list[ast.Constant]:
    """Return the docstrings of a module: its own, and those of classes, functions and constants."""
    bodies = [body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list)]
    values = [inner.value for body in bodies for inner in body if isinstance(inner, ast.Expr)]
    return [value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def folders() -> dict[str, Counter[str]]:
    """Return the lines of Python and those of code by folder, two levels deep in packages."""
    found: dict[str, Counter[str]] = {}
    others = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "tests").rglob("*.py")]
    for path in [*(path for _, path in modules()), *others]:
        place, text = path.relative_to(ROOT).parts, path.read_text(encoding="utf-8")
        prose = {n for one in docstrings(ast.parse(text)) for n in range(one.lineno, (one.end_lineno or 0) + 1)}
        lines = text.splitlines()
        code = sum(n not in prose and bool(re.match(r"\s*[^\s#]", line)) for n, line in enumerate(lines, 1))
        key = "/".join(place[: 3 if place[0] == "agents" else 1][: len(place) - 1])
        found.setdefault(key, Counter()).update(lines=len(lines), code=code)
    return dict(sorted(found.items(), key=lambda pair: -pair[1]["lines"]))


def prose_of(page: str) -> list[str]:
    """Return the sentences of a page without code, tables, headings and links' targets; a formula is one word."""
    text = re.sub(r"^(`{3,}).*?^\1", "", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?:[|#].*|---\n.*?\n---)$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]+\$|`[^`]+`", "X", text)
    text = re.sub(r"!\[[^]]*\]\([^)]*\)|<[^>]+>", "", text)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    found = [one for part in parts for one in re.split(r"(?<=[.!?;:])\s+(?=[^a-z])", " ".join(part.split()))]
    return [one for one in found if len(one.split()) > 1]


def pages() -> None:
    """Print words of each page, with and without tables, habits in 1 000 words, and the share of long sentences."""
    print(f"words, without tables, {', '.join(PROSE)}, long sentences, page")
    total: Counter[str] = Counter()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        sentences = prose_of(text)
        counts = Counter({habit: len(pattern.findall(" ".join(sentences))) for habit, pattern in PROSE.items()})
        counts["words"] = len(text.split())
        counts["plain"] = len(" ".join(line for line in text.splitlines() if not line.lstrip().startswith("|")).split())
        counts["sentences"], counts["long"] = len(sentences), sum(len(one.split()) > LONG for one in sentences)
        total += counts
        print(*row(counts), path.relative_to(ROOT))
    print(*row(total), "all pages")


def row(counts: Counter[str]) -> list[str]:
    shares = [f"{1000 * counts[habit] / max(counts['plain'], 1):6.2f}" for habit in PROSE]
    return [
        f"{counts['words']:6}",
        f"{counts['plain']:6}",
        *shares,
        f"{counts['long'] / max(counts['sentences'], 1):6.1%}",
    ]


def members(kind: type) -> list[str]:
    """Return the public methods and properties of a class: names that an author may call, override or hide."""
    found = [(name, getattr_static(kind, name)) for name in dir(kind) if not name.startswith("_")]
    return [name for name, value in found if not isinstance(value, type) and hasattr(value, "__get__")]


def main() -> None:
    if sys.argv[1:] == ["--pages"]:
        return pages()
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules()}
    print(f"names that packages export: {len(promised())}")
    knobs = (
        settings(),
        sum(map(plain_numbers, trees.values())),
        sum(tuning_fields(name, tree) for name, tree in trees.items()),
    )
    print(f"settings, numbers at module level, numbers in classes: {' + '.join(map(str, knobs))} = {sum(knobs)}")
    print(f"functions: {sum(isinstance(node, ast.FunctionDef) for tree in trees.values() for node in ast.walk(tree))}")
    for kind in (Agent, LocalAgent, CentralAgent):
        print(f"methods and properties of {kind.__name__}: {len(members(kind))}")
    prose = [str(one.value) for tree in trees.values() for one in docstrings(tree)]
    words = sum(len(text.split()) for text in prose)
    for habit, pattern in PROSE.items():
        count = sum(len(pattern.findall(text)) for text in prose)
        print(f"{habit}, in 1000 of {words} words of docstrings: {1000 * count / words:.2f}")
    for folder, size in folders().items():
        print(f"{size['lines']:7} lines, {size['code']:6} of them code  {folder}")


if __name__ == "__main__":
    main()
