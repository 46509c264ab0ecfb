"""The examples in docstrings give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__")
    for top, package in ((ROOT, "privbandit_envs"), (ROOT / "agents", "privbandit_agents"))
    for path in sorted((top / package).rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.wide_at("privbandit_agents.cli.cost", "privbandit_agents.logs.simulator")
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    done = doctest.testmod(importlib.import_module(name), optionflags=options)
    assert done.attempted and not done.failed, "see the captured output"
