"""Where a result comes from: versions, commit, source of classes of others, host, date."""

import ast
import hashlib
import inspect
import platform
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

PACKAGES = frozenset({"privbandit", "privbandit_envs", "privbandit_agents", "gymnasium", *sys.stdlib_module_names})
"""Whose versions are known, so that their source need not be."""
LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def provenance() -> dict[str, str | None]:
    """Return the versions that ran, the git commit if the package is a checkout, the host and the date."""
    return {**code(), "host": platform.node(), "date": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def code() -> dict[str, str | None]:
    """Return the versions that this process runs."""
    versions: dict[str, str | None] = {name: version(name) for name in ("privbandit", "numpy", "gymnasium")}
    return {**versions, "python": platform.python_version(), "commit": commit()}


def commit() -> str | None:
    """Return the commit of this source tree; None if git does not track it.

    A tree that was edited has ``-dirty``, and a hash of the changes in its Python files.
    """
    here = Path(__file__)
    if git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None
    found = git(here.parent, "describe", "--always", "--abbrev=40", "--exclude=*")  # --dirty would lock the index
    if found is None or not git(here.parent, "status", "--porcelain", "--untracked-files=no"):
        return found
    found = f"{found}-dirty"
    changes = git(here.parent, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--", ":(top)*.py")
    return f"{found}-{hashed(changes)}" if changes else found


@cache
def source_of(played: Any) -> str | None:
    """Return a hash of the source of a class or function, and of its parts; None if it is all ours.

    It is that of all modules with a class which it inherits from, and of those of its author's that they use, without
    comments, docstrings and layout. Of a class of the program itself, such as a notebook's, it is that of the class.
    The first reading counts as long as the process lives, as does the code that it imported.
    """
    texts: dict[str, str] = {}
    for part in inspect.getmro(played) if inspect.isclass(played) else (played,):
        name = getattr(part, "__module__", None) or ""
        if name.partition(".")[0] in PACKAGES:
            continue
        if name == "__main__":
            texts[f"{name}.{part.__qualname__}"] = own_text(part)
        elif name in sys.modules:
            texts |= {module.__name__: text_of(module) for module in used_by(sys.modules[name])}
    return hashed(repr(sorted(texts.items()))) if texts else None


def used_by(module: ModuleType) -> Iterator[ModuleType]:
    """Yield a module, and all that it uses, directly or not, which are no installed libraries."""
    left, seen = [module], {module.__name__}
    while left:
        yield (one := left.pop())
        for value in list(vars(one).values()):
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(name, str) and name not in seen and name in sys.modules and name != "__main__":
                seen.add(name)
                file = getattr(sys.modules[name], "__file__", None) or ""
                if name.partition(".")[0] not in PACKAGES and file.endswith(".py") and not file.startswith(LIBRARIES):
                    left.append(sys.modules[name])


def text_of(module: ModuleType) -> str:
    """Return the code of a module's file; "" if it has none that can be read."""
    try:
        return bare_code(Path(module.__file__ or "").read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ""


def own_text(part: type | FunctionType) -> str:
    """Return the code of a class or function of the program itself; of a notebook's class that of its methods."""
    try:
        return bare_code(textwrap.dedent(inspect.getsource(part)))
    except (OSError, TypeError, SyntaxError):
        methods = [value for value in vars(part).values() if isinstance(value, FunctionType)]
    try:
        return "".join(bare_code(textwrap.dedent(inspect.getsource(method))) for method in methods)
    except (OSError, TypeError, SyntaxError):
        return ""


def bare_code(source: str | bytes) -> str:
    """Return Python code without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not is_text(part)] or [ast.Pass()]
    return ast.unparse(tree)


def is_text(part: ast.stmt) -> bool:
    """Return whether a statement is a text alone: a docstring, of an attribute too."""
    value = part.value if isinstance(part, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def hashed(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]  # hexadecimal digits


def git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command, or None if it fails; nothing is locked or changed."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
