"""How the rooms hang together: import circles, depth of chains and of inheritance."""

from graphlib import TopologicalSorter

import pytest
from import_graph import MODULES, imports, ours
from privbandit_agents.zoo.entries import AGENTS

SOURCES = {name: path.read_text() for name, path in MODULES.items()}


def test_no_imports_run_in_a_circle_and_chains_are_short() -> None:
    graph = {name: (ours(imports(source)) & set(MODULES)) - {name} for name, source in SOURCES.items()}
    depth: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():  # raises CycleError, which names the circle
        below = [depth[inner] for inner in graph[name] if within_experiments(inner)]
        depth[name] = 1 + max(below, default=0) if within_experiments(name) else 0
    assert 3 < max(depth.values()) <= 7, [name for name in depth if depth[name] > 7]


def within_experiments(name: str) -> bool:
    return name.startswith("privbandit_agents.experiments.")


@pytest.mark.parametrize("agent", AGENTS)
def test_no_agent_inherits_from_more_than_six_classes_in_a_row(agent: str) -> None:
    """An agent and its base classes are at most seven deep: labels, sums and devices included."""
    assert generations(AGENTS[agent].load()) <= 7


def test_no_algorithm_reads_a_variable_of_the_environment() -> None:
    """Settings are all that a result depends on: commands, texts and the place of files alone ask the system."""
    asking = [name for name, source in SOURCES.items() if "os.environ" in source or "getenv" in source]
    allowed = ("privbandit_agents.cli.", "privbandit_agents.experiments.", "privbandit_envs.datasets.store")
    assert asking and [name for name in asking if not name.startswith(allowed)] == []


def generations(cls: type) -> int:
    ours = [base for base in cls.__bases__ if base.__module__.startswith("privbandit_")]
    return 1 + max(map(generations, ours), default=0)
