"""What a stranger must read to extend the project: the files behind the names that an example uses.

    python benchmarks/reading.py                 the examples of docs/extending.md
    python benchmarks/reading.py my_agent.py     one of yours

A name is followed to the file of its definition, and a class to the files of its base classes. Whole files are counted.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = ("privbandit_envs", "privbandit_agents")


def files_behind(source: str) -> dict[Path, int]:
    """Return the files that define the names a source imports from us, and how many lines each has."""
    found = {path for module, name in imported(source) for path in definitions(module, name)}
    return {path: len(path.read_text().splitlines()) for path in sorted(found)}


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of everything that a source imports from us."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
            yield from ((node.module, alias.name) for alias in node.names)


def definitions(module: str, name: str) -> set[Path]:
    """Return the files that define a name, and the bases of the class that it stands for."""
    value = getattr(import_module(module), name)
    if inspect.isclass(value) and value.__module__.split(".")[0] in OURS:
        return {file_of(base.__module__) for base in value.__mro__ if base.__module__.split(".")[0] in OURS}
    if inspect.isfunction(value):
        return {file_of(value.__module__)}
    return {file_of(home(module, name))}


def home(module: str, name: str) -> str:
    """Return the module that assigns a name, following the imports of packages that pass it on."""
    for source, passed_on in imported(file_of(module).read_text()):
        if passed_on == name:
            return home(source, name)
    return module


def file_of(module: str) -> Path:
    return Path(str(import_module(module).__file__))


def examples() -> dict[str, str]:
    """Return the agents of docs/extending.md by file name."""
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), re.DOTALL)
    return {name: block for name, block in blocks if re.search(r"\((Local|Central)Agent[\[)]", block)}


def main() -> None:
    named = {path: Path(path).read_text() for path in sys.argv[1:]} or examples()
    for name, source in named.items():
        behind = files_behind(source)
        print(f"{name}, {len(source.splitlines())} lines: {len(behind)} files, {sum(behind.values())} lines to read")
        for path, lines in behind.items():
            print(f"  {lines:5} {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
