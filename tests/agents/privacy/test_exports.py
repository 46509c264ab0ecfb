"""The building blocks that ``privbandit_agents.privacy`` exports by name, and what importing it costs."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from privbandit_agents import privacy

FOLDERS = ("accounting", "mechanisms", "randomizers", "contributions")


@pytest.mark.parametrize("name", privacy.__all__)
def test_every_exported_name_is_that_of_its_home(name: str) -> None:
    found = getattr(privacy, name)
    home = inspect.unwrap(found).__module__
    assert home.startswith("privbandit_agents.privacy.") and getattr(importlib.import_module(home), name) is found


def test_type_checkers_see_the_names_that_the_table_has() -> None:
    tree = ast.parse(Path(privacy.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module or "" for node in imports for alias in node.names}
    assert set(seen) == set(privacy.__all__) == set(privacy.__dir__()) and len(seen) == len(privacy.__all__)
    for name, module in seen.items():
        assert getattr(importlib.import_module(module), name) is getattr(privacy, name)


def test_every_mechanism_randomizer_and_counter_is_exported() -> None:
    blocks: set[str] = set()
    doors = ("release", "add", "randomize", "minimise")
    for folder in ("mechanisms", "randomizers"):
        for path in Path(privacy.__file__).parent.joinpath(folder).glob("[!_]*.py"):
            module = importlib.import_module(f"privbandit_agents.privacy.{folder}.{path.stem}")
            mine = {n: c for n, c in vars(module).items() if inspect.isclass(c) and c.__module__ == module.__name__}
            blocks |= {n for n, c in mine.items() if any(hasattr(c, door) for door in doors)}
    assert blocks - {"Categories"} <= set(privacy.__all__)


def test_unknown_names_are_refused_and_dir_lists_the_known() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Gausian'"):
        privacy.Gausian  # noqa: B018
    assert set(privacy.__all__) <= set(dir(privacy))


def test_importing_the_package_loads_no_mechanism() -> None:
    code = "import sys, privbandit_agents.privacy.accounting; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = [name for name in loaded if name.startswith("privbandit_agents.privacy.")]
    assert not [name for name in ours if name.split(".")[2] in ("randomizers", "contributions")]
    assert "privbandit_agents.privacy.mechanisms.objective" not in ours


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_folders_import_downwards_only(folder: str) -> None:
    order = {"accounting": 1, "mechanisms": 2, "randomizers": 3, "contributions": 3}
    for path in Path(privacy.__file__).parent.joinpath(folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privbandit_agents."):
                parts = (node.module or "").split(".")
                assert parts[1] == "privacy" and len(parts) > 2, f"{path}: {node.module}"
                if parts[2] not in (folder, "_validate", "vectors", "keys"):
                    assert order[parts[2]] < order[folder], f"{path}: {node.module}"
