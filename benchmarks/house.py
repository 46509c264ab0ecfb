"""The size of the house: names that are promised, knobs, files that a call enters, lines by folder, and prose.

    python benchmarks/house.py                   all of it, with the agents of the tutorial
    python benchmarks/house.py my_agent.py       the files that ten rounds of your agent enter
    python benchmarks/house.py --pages           words, habits of prose and long sentences of each page

Numbers are printed and nothing is asserted: they show a trend.
"""

import ast
import dataclasses
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import getattr_static
from pathlib import Path
from typing import Any

import gymnasium as gym
from privbandit_agents import Agent, CentralAgent, LocalAgent, make
from privbandit_agents.base.settings import Settings
from privbandit_agents.zoo.entries import AGENTS

import privbandit_envs  # noqa: F401 (registers the environments)

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


def entered(act: Callable[[], object]) -> set[str]:
    """Return the files of ours whose functions run while something is done."""
    files: set[str] = set()

    def look(frame: Any, event: str, _: object) -> None:
        if event == "call" and any(frame.f_code.co_filename.startswith(str(package)) for package in PACKAGES):
            files.add(frame.f_code.co_filename)

    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(None)
    return {str(Path(file).relative_to(ROOT)) for file in files}


def examples() -> dict[str, str]:
    """Return the agents of the tutorial by file name."""
    text = (ROOT / "docs" / "tutorials" / "private-agents.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL)
    return {name: block for name, block in blocks if re.search(r"\((Local|Central)Agent[\[)]", block)}


def ten_rounds(name: str, source: str) -> set[str]:
    """Return the files that ten rounds of an agent enter; the source defines and registers it."""
    (registered,) = re.findall(r'^register_agent\("(.*?)"', source, re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(source, encoding="utf-8")
        sys.path.insert(0, folder)
        import_module(Path(name).stem)
        env = gym.make("privbandit/Linear-v0", horizon=100)
        agent = make(registered, env, seed=0)
        sys.path.remove(folder)
    return entered(lambda: rounds(agent, env, 10))


def rounds(agent: Any, env: Any, n: int) -> None:
    context, _ = env.reset(seed=0)
    for _ in range(n):
        action = agent.select_action(context)
        following, reward, *_ = env.step(action)
        agent.update(context, action, reward)
        context = following


def updates(name: str) -> set[str]:
    """Return the files that one ``update`` of an agent of the zoo enters, after some rounds."""
    env = gym.make("privbandit/Linear-v0", horizon=100)
    agent = make(name, env, seed=0)
    rounds(agent, env, 20)
    context, _ = env.reset(seed=1)
    action = agent.select_action(context)
    return entered(lambda: agent.update(context, action, 0.5))


def members(kind: type) -> list[str]:
    """Return the public methods and properties of a class: names that an author may call, override or hide."""
    found = [(name, getattr_static(kind, name)) for name in dir(kind) if not name.startswith("_")]
    return [name for name, value in found if not isinstance(value, type) and hasattr(value, "__get__")]


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module: its own, and those of classes, functions and constants."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for inner in body if isinstance(body, list) else ():
            if (
                isinstance(inner, ast.Expr)
                and isinstance(inner.value, ast.Constant)
                and isinstance(inner.value.value, str)
            ):
                yield inner.value.value


def folders() -> dict[str, int]:
    """Return the lines of Python by folder, two levels deep in packages."""
    lines: Counter[str] = Counter()
    for path in [path for _, path in modules()] + [
        *(ROOT / "benchmarks").glob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
    ]:
        place = path.relative_to(ROOT).parts
        lines["/".join(place[: 3 if place[0] == "agents" else 1][: len(place) - 1])] += len(
            path.read_text().splitlines()
        )
    return dict(lines.most_common())


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


def main() -> None:
    if sys.argv[1:] == ["--pages"]:
        return pages()
    for given in sys.argv[1:]:
        print(*sorted(ten_rounds(Path(given).name, Path(given).read_text(encoding="utf-8"))), sep="\n")
    if sys.argv[1:]:
        return
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules()}
    print(f"names that packages export: {len(promised())}")
    knobs = (
        settings(),
        sum(map(plain_numbers, trees.values())),
        sum(tuning_fields(name, tree) for name, tree in trees.items()),
    )
    print(f"settings, numbers at module level, numbers in classes: {' + '.join(map(str, knobs))} = {sum(knobs)}")
    print(f"functions: {sum(isinstance(node, ast.FunctionDef) for tree in trees.values() for node in ast.walk(tree))}")
    for name, source in examples().items():
        files = ten_rounds(name, source)
        own = sum(file.startswith("agents/") for file in files)
        print(f"files that ten rounds of {name} enter: {len(files)}, {own} of them without the environment's")
    for kind in (Agent, LocalAgent, CentralAgent):
        print(f"methods and properties of {kind.__name__}: {len(members(kind))}")
    for name in ("ldp-greedy", "jdp-linucb"):
        print(f"files that one update of {name} enters: {len(updates(name))}")
    prose = [text for tree in trees.values() for text in docstrings(tree)]
    words = sum(len(text.split()) for text in prose)
    for habit, pattern in PROSE.items():
        count = sum(len(pattern.findall(text)) for text in prose)
        print(f"{habit}, in 1000 of {words} words of docstrings: {1000 * count / words:.2f}")
    for folder, count in folders().items():
        print(f"{count:7} lines  {folder}")


if __name__ == "__main__":
    main()
