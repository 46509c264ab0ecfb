"""The walls of the design, read from the imports."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import privbandit_agents
import pytest

import privbandit_envs

ROOT = Path(__file__).parents[1]
ENVS, AGENTS = ROOT / "privbandit_envs", ROOT / "agents" / "privbandit_agents"
ALGORITHMS = [*(AGENTS / "local").glob("*.py"), *(AGENTS / "joint").glob("*.py"), *(AGENTS / "baselines").glob("*.py")]
NUMBERS = {"numpy", "scipy"}
OPTIONAL = {
    "rl.py": {"stable_baselines3", "torch", "yaml", "gymnasium"},
    "rl_state.py": {"torch"},
    "sb3_adapter.py": {"stable_baselines3", "gymnasium"},
    "tree.py": {"sklearn"},
    "logistic.py": {"sklearn"},
    "partition.py": {"sklearn"},
}
PUBLIC_MATHS = {"privbandit_envs.families.mnl", "privbandit_envs.spaces", "privbandit_envs.validate"}


def imports(path: Path, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def third_party(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules} - set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", sorted(ENVS.rglob("*.py")), ids=lambda p: p.name)
def test_the_world_knows_nothing_of_agents(path: Path) -> None:
    everywhere = third_party(imports(path))
    lazily = {"sklearn"} if path.parent.name == "datasets" else set()
    lazily |= {"stable_baselines3"} if path.name == "testing.py" else set()
    assert everywhere <= NUMBERS | {"gymnasium", "privbandit_envs"} | lazily
    assert not third_party(imports(path, top_level_only=True)) & {"sklearn", "stable_baselines3"}


@pytest.mark.parametrize("path", sorted(ALGORITHMS), ids=lambda p: p.name)
def test_an_algorithm_imports_agent_privacy_and_numbers(path: Path) -> None:
    ours = {name for name in imports(path) if name.startswith("privbandit_")}
    allowed = tuple(f"privbandit_agents.{name}" for name in ("agent", "choices", "labels", "privacy", "rows"))
    siblings = f"privbandit_agents.{path.parent.name}."
    if path.name not in ("rl.py", "rl_state.py", "sb3_adapter.py"):
        assert all(name.startswith((*allowed, siblings)) or name in PUBLIC_MATHS for name in ours), ours
    optional = OPTIONAL.get(path.name, set())
    assert third_party(imports(path)) - {"privbandit_agents", "privbandit_envs"} <= NUMBERS | optional
    assert not third_party(imports(path, top_level_only=True)) & {"stable_baselines3", "torch", "sklearn"}


@pytest.mark.parametrize("path", sorted((AGENTS / "privacy").glob("*.py")), ids=lambda p: p.name)
def test_privacy_stands_alone(path: Path) -> None:
    modules = imports(path)
    assert all(name.startswith("privbandit_agents.privacy") for name in modules if name.startswith("privbandit_"))
    lazily = {"opendp"} if path.name == "secure.py" else set()
    assert third_party(modules) - {"privbandit_agents"} <= NUMBERS | lazily
    assert "opendp" not in third_party(imports(path, top_level_only=True))


@pytest.mark.parametrize("package", [privbandit_envs, privbandit_agents])
def test_exported_names_are_the_public_names(package: object) -> None:
    modules = {m.name for m in pkgutil.iter_modules(package.__path__)}  # type: ignore[attr-defined]
    public = {name for name in vars(package) if not name.startswith("_")} - modules
    assert set(package.__all__) - modules - {"__version__"} == public - (public & set(sys.stdlib_module_names))  # type: ignore[attr-defined]


def test_every_module_imports_and_has_a_docstring() -> None:
    for package in (privbandit_envs, privbandit_agents):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            assert importlib.import_module(module.name).__doc__ or Path(module.name).name == "__init__", module.name


def test_importing_the_package_pulls_nothing_heavy() -> None:
    code = "import sys, privbandit_agents, privbandit_envs; print(' '.join(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {
        "torch",
        "stable_baselines3",
        "sklearn",
        "polars",
        "matplotlib",
        "typer",
        "tensorboard",
        "pydantic",
        "joblib",
    }
    assert not heavy & set(modules)


def test_no_global_randomness_no_pickle() -> None:
    for path in [*ENVS.rglob("*.py"), *AGENTS.rglob("*.py")]:
        if path.name == "testing.py":
            continue  # the suites pickle on purpose
        text = path.read_text()
        for forbidden in ("np.random.seed", "np.random.normal", "np.random.rand(", "import random", "import pickle"):
            assert forbidden not in text, f"{path.name}: {forbidden}"
