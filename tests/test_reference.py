"""The reference has a page for each public name, and the navigation leads to every page."""

import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import privbandit_agents
import pytest
from import_graph import MODULES, PACKAGES, ROOT
from privbandit_agents import privacy, testing
from privbandit_agents.experiments.names import short
from privbandit_agents.zoo import AGENTS

import privbandit_envs
from privbandit_envs import ENV_IDS
from privbandit_envs import testing as world_testing

DOCS = ROOT / "docs"
FACES: tuple[ModuleType, ...] = (privbandit_envs, privbandit_agents, privacy, testing, world_testing)


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
    config = SimpleNamespace(nav=yaml.safe_load(nav)["nav"], docs_dir=str(DOCS))
    hooks.on_config(config)
    return set(addresses(config.nav))


def addresses(entry: Any) -> list[str]:
    """Return all addresses in a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    inner = entry.values() if isinstance(entry, dict) else entry
    return [address for one in inner for address in addresses(one)]


def home_of(face: ModuleType, name: str) -> str:
    """Return the module that defines a public name: that of a class or function, or where something is assigned."""
    home = getattr(getattr(face, name), "__module__", None)
    if home in MODULES:
        return str(home)
    assigned = re.compile(rf"^{name}\b[^=\n]*=(?!=)", re.MULTILINE)
    return next(module for module, path in MODULES.items() if assigned.search(path.read_text()))


def address_of(module: str, hooks: Any) -> str:
    return str(hooks.page_of(MODULES[module], PACKAGES[module.partition(".")[0]]))


def names_of(face: ModuleType) -> list[str]:
    """Return what a package offers; of a module without ``__all__`` its own classes and functions."""
    own = (name for name, made in vars(face).items() if getattr(made, "__module__", "").startswith(face.__name__))
    return list(getattr(face, "__all__", None) or (name for name in own if not name.startswith("_")))


@pytest.mark.parametrize("face", FACES, ids=lambda face: str(face.__name__))
def test_each_public_name_has_a_page_with_its_documentation(face: ModuleType, hooks: Any, reachable: set[str]) -> None:
    names = names_of(face)
    assert len(names) > 5
    for name in names:
        home = home_of(face, name)
        assert address_of(home, hooks) in reachable, f"{face.__name__}.{name} is defined in {home}, which has no page"
        made, helper = getattr(face, name), face in (testing, world_testing)
        assert helper or not inspect.isfunction(made) or inspect.getdoc(made), f"{name} says nothing"


def test_a_name_in_a_private_module_would_have_none(hooks: Any, reachable: set[str]) -> None:
    assert address_of("privbandit_agents.privacy._validate", hooks) not in reachable


def test_the_navigation_leads_to_every_page(hooks: Any, reachable: set[str]) -> None:
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    modules = {address_of(name, hooks) for name in MODULES if not any(part.startswith("_") for part in name.split("."))}
    made = {f"cards/agents/{name}.md" for name in (*AGENTS, "index")}
    made |= {f"cards/environments/{name}.md" for name in (*map(short, ENV_IDS), "index")}
    assert len(modules) > 150 and len(made) > 40
    assert (written | modules | made) - reachable == set()
    assert reachable - (written | modules | made) == set()
