"""The reference has each public name, each is in use somewhere, and the navigation leads to every page."""

import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from import_graph import MODULES, ROOT
from privbandit_agents.experiments.names import short
from privbandit_agents.zoo.entries import AGENTS, preset_of

from privbandit_envs import ENV_IDS

DOCS = ROOT / "docs"
FACES = {name: importlib.import_module(name) for name, path in MODULES.items() if path.name == "__init__.py"}
EXPORTED = [(face, name) for face, package in FACES.items() for name in package.__all__]
SKELETONS = sorted((ROOT / "agents" / "privbandit_agents" / "cli" / "skeletons").glob("*.txt"))
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
IMPORT = re.compile(r"^ *from (privbandit_\w+(?:\.\w+)*) import ([^(\n]+|\([^)]+\))$", re.MULTILINE)


@pytest.fixture(scope="module")
def hooks() -> Iterator[Any]:
    """What MkDocs is taught, read as it reads it."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    sys.path.insert(0, str(DOCS))
    spec = importlib.util.spec_from_file_location("hooks_of_the_docs", DOCS / "hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def reachable(hooks: Any) -> set[str]:
    """The addresses to which the navigation leads."""
    import yaml

    (nav,) = re.findall(r"^nav:.*\n(?:(?: .*)?\n)+", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    config = SimpleNamespace(nav=yaml.safe_load(nav)["nav"], docs_dir=str(DOCS), extra={})
    hooks.on_config(config)
    return set(addresses(config.nav))


def addresses(entry: Any) -> list[str]:
    """Return all addresses in a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    inner = entry.values() if isinstance(entry, dict) else entry
    return [address for one in inner for address in addresses(one)]


def code() -> Iterator[str]:
    """Yield the code of pages and their tables, with what stands in code font, of skeletons, examples and notebooks."""
    for page in PAGES:
        yield from re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL)
    for table in DOCS.rglob("*.csv"):
        yield from re.findall(r"`[^`\n]+`", table.read_text())
    yield from (path.read_text() for path in (*SKELETONS, *(ROOT / "examples").rglob("*.py")))
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text())["cells"]
        yield from ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def home_of(face: str, name: str) -> str:
    """Return the module that defines an exported name, or the package if the object does not say."""
    home = getattr(getattr(FACES[face], name), "__module__", None)
    return home if home in MODULES else face


def test_every_package_says_what_it_exports_and_has_it() -> None:
    assert len(FACES) > 30 and len(EXPORTED) > 100
    for face, name in EXPORTED:
        assert not isinstance(getattr(FACES[face], name), ModuleType), f"{face}.{name} is a module"


def test_at_most_two_hundred_names_are_public_and_each_is_shown_in_use() -> None:
    assert len({(home_of(face, name), name) for face, name in EXPORTED}) <= 200
    used = set(re.findall(r"\w+", " ".join(code())))
    assert [f"{face}.{name}" for face, name in EXPORTED if name not in used] == []


def test_pages_and_skeletons_import_exported_names() -> None:
    for path in (*PAGES, *SKELETONS):
        for module, names in IMPORT.findall(path.read_text()):
            for name in re.findall(r"\w+", re.sub(r"#.*", "", names)):
                assert (module, name) in EXPORTED, f"{path.name} imports {name} from {module}"


def test_the_search_for_imports_finds_them() -> None:
    programs = [path for path in SKELETONS if path.name != "experiment.txt"]  # that one is YAML
    found = [IMPORT.findall(path.read_text()) for path in (DOCS / "tutorials/private-agents.md", *programs)]
    assert len(found[0]) > 5 and sum(map(bool, found)) == len(found)
    assert IMPORT.findall("from privbandit_envs import (\n    a,\n    b,\n)") == [
        ("privbandit_envs", "(\n    a,\n    b,\n)")
    ]


PATHS_OF_0_2 = {
    "privbandit_agents.audits.agents": "AgentGame",
    "privbandit_agents.audits.claims": "AuditResult Claim Game",
    "privbandit_agents.audits.lower_bounds": "audit",
    "privbandit_agents.audits.registry": "game register_target",
    "privbandit_agents.base.agent": "arms_with_features next_change",
    "privbandit_agents.base.reports": "Inputs",
    "privbandit_agents.base.settings": "Budget Growth Settings",
    "privbandit_agents.classifiers": "AgentClassifier",
    "privbandit_envs.testing": "check_bandit_env",
    "privbandit_envs.wrappers": "FlattenContext RecordRegret RegretCurve ScoreAction",
}
"""Where pages and examples of earlier versions import names that packages export now."""


def test_an_earlier_path_leads_to_the_exported_object() -> None:
    for module, name in ((home, one) for home, names in PATHS_OF_0_2.items() for one in names.split()):
        exported = [getattr(FACES[face], name) for face, one in EXPORTED if one == name]
        same = all(one is getattr(importlib.import_module(module), name) for one in exported)
        assert exported and same, f"{module}.{name}"


def test_each_public_name_has_documentation() -> None:
    for face, name in EXPORTED:
        made = getattr(FACES[face], name)
        if inspect.isfunction(made) or (inspect.isclass(made) and made.__module__ in MODULES):
            assert (inspect.getdoc(made) or "").strip(), f"{name} says nothing"


def test_each_public_name_is_on_one_page(hooks: Any, reachable: set[str]) -> None:
    shown = [(face, name) for face in hooks.faces() for name in hooks.own_names(face)]
    assert all(hooks.page_of(face) in reachable for face, _ in shown)
    assert {name for _, name in shown} == {name for _, name in EXPORTED} - {"__version__"}
    for face, name in shown:
        assert re.search(rf"^::: [\w.]+\.{name}$", hooks.api_page(face), re.MULTILINE)


def test_the_navigation_leads_to_every_page(hooks: Any, reachable: set[str]) -> None:
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    faces = {hooks.page_of(face) for face in {face for face, _ in EXPORTED}}
    own = [name for name, entry in AGENTS.items() if not entry.successor and not preset_of(name)]
    made = {f"cards/agents/{name}.md" for name in own}
    made |= {f"cards/environments/{name}.md" for name in map(short, ENV_IDS)}
    made.add("leaderboard.html")
    assert len(faces) > 5 and len(made) > 40
    assert (written | faces | made) - reachable == set()
    assert reachable - (written | faces | made) == set()
