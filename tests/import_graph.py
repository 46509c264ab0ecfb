"""What the modules of the project import, read from their source; nothing is run."""

import ast
import re
import sys
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {"privbandit_envs": ROOT, "privbandit_agents": ROOT / "agents"}
NAMED = re.compile(r"^(privbandit_\w+(?:\.\w+)+)(?::\w+)?$")
"""A module in a string, ``"package.module"`` or ``"package.module:Name"``: it is imported by name."""


def name_of(path: Path, home: Path) -> str:
    parts = path.relative_to(home).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    name_of(path, home): path for package, home in PACKAGES.items() for path in sorted((home / package).rglob("*.py"))
}
"""All modules of both packages, nested ones too, by dotted name."""


@cache
def found_in(source: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the modules that a source imports, those of them at its top, and those that its strings name."""
    tree = ast.parse(source)
    nodes = [*ast.walk(tree)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    imported, at_top = (frozenset(name for node in part for name in named_by(node)) for part in (nodes, tree.body))
    return imported, at_top, frozenset(match[1] for text in texts if (match := NAMED.match(text)))


def imports(source: str, top_level_only: bool = False) -> frozenset[str]:
    """Return the modules that the import statements of a source name, lazy ones too; of ours the deepest."""
    return found_in(source)[top_level_only]


def named_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in MODULES else str(node.module)


def imports_by_name(source: str) -> frozenset[str]:
    """Return the modules that strings of a source name."""
    return found_in(source)[2]


def ours(found: Set[str]) -> set[str]:
    return {name for name in found if name.split(".")[0] in PACKAGES}


def third_party(found: Set[str]) -> set[str]:
    return {name.split(".")[0] for name in found} - set(sys.stdlib_module_names) - set(PACKAGES)
