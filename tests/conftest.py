"""Fixtures that tests of several folders use."""

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

gc.disable()  # until all tests are collected, which stay
os.environ.pop("COLUMNS", None)  # readline hands it to worker processes, and the command folds lines by it
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("fixed")  # pytest --hypothesis-profile=default looks for new examples

ROOT = Path(__file__).parents[1]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
LONG: tuple[str, ...] = ("test_notebooks", "test_engine", "test_comparison", "test_study", "test_docs", "test_readme")
LONG += ("test_learners", "test_policies", "test_reinforcement_learning", "test_arm_states", "test_time", "test_board")
"""Modules that start first: with tests that take long, so that no core waits for one at the end, or with torch, which
one worker alone then imports."""


OPTIONAL = {
    *("crc32c", "filelock", "joblib", "matplotlib", "polars", "pydantic", "pydantic_core", "rich", "ruamel"),
    *("tensorboard", "threadpoolctl", "click", "sklearn", "torch", "stable_baselines3", "yaml", "optuna", "dask"),
    *("distributed", "dp_accounting", "opendp", "pandas", "pyarrow", "vl_convert", "nbclient", "nbformat", "mkdocs"),
    *("latex2mathml", "playwright", "axe_playwright_python", "coba", "contextualbandits", "mabwiser", "vowpalwabbit"),
}
"""What the project's extras bring: where one is not installed, the tests that import it are skipped and say so."""


def missing(error: BaseException | None) -> str:
    """Return the name of an optional package that is not installed, if its import failed, else ``""``."""
    while error is not None:
        name = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
        if name in OPTIONAL and find_spec(name) is None:
            return name
        error = error.__cause__ or error.__context__
    return ""


class LenientModule(pytest.Module):
    """A module of tests that is skipped if it imports an optional package that is not installed."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        try:
            return super().collect()
        except self.CollectError as error:
            if name := missing(error):
                pytest.skip(f"{name} is not installed", allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    return LenientModule.from_parent(parent, path=module_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
    """Make no cases of a test that is wide or slow, where ``-m`` leaves all of these out."""
    left_out = {part[4:] for part in collector.config.option.markexpr.split(" and ") if part.startswith("not ")}
    marks = getattr(obj, "pytestmark", []) if name.startswith("test_") else []
    return [] if any(mark.name in left_out for mark in marks) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    try:
        yield
    except Exception as error:
        if name := missing(error):
            pytest.skip(f"{name} is not installed")
        raise


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what these marks name by the parameters of cases as ``wide``; let long modules start."""
    from kinds import FEW, left_out
    from privbandit_agents import AGENTS

    agents, few = left_out(), AGENTS.keys() - FEW
    items.sort(key=lambda item: item.path.stem not in LONG)
    named, matched = set[tuple[str, str]](), set[tuple[str, str]]()
    for item in items:
        for kind, left in (("every_agent", agents), ("few_agents", few)):
            if item.get_closest_marker(kind) and item.callspec.params["name"] in left:  # type: ignore[attr-defined]
                item.add_marker("wide")
        for mark in (*item.iter_markers("wide_at"), *item.iter_markers("wide_but")):
            test, _, case = item.nodeid.removesuffix("]").partition("[")
            patterns = {(test, pattern): fnmatchcase(case, pattern) for pattern in mark.args}
            named |= patterns.keys()
            matched |= {key for key, matches in patterns.items() if matches}
            if any(patterns.values()) == (mark.name == "wide_at"):
                item.add_marker("wide")
    if named - matched and config.args_source is pytest.Config.ArgsSource.TESTPATHS:  # all tests were asked for
        raise pytest.UsageError(f"wide_at, wide_but: these patterns match no case: {sorted(named - matched)}.")


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()  # thousands of tests and their modules stay: nobody need look through them for garbage


@pytest.fixture(scope="session")
def python() -> Run:
    """Run Python in a folder whose modules can be imported: ``python(folder, "-m", "privbandit_agents.cli", ...)``."""

    def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        places = (folder, ROOT, ROOT / "agents")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        wanted = re.search(r"No module named '(\w+)", done.stderr)
        if wanted and wanted[1] in OPTIONAL and find_spec(wanted[1]) is None:
            pytest.skip(f"{wanted[1]} is not installed")
        done.stderr = re.sub(r"privbandit .*: at work for .*\n", "", done.stderr)  # as slow machines say it
        return done

    return run


@pytest.fixture(scope="session")
def privbandit(python: Run) -> Run:
    """Run a command in a folder whose modules can be imported: ``privbandit(folder, "list", "agents")``."""
    return lambda folder, *arguments: python(folder, "-m", "privbandit_agents.cli", *arguments)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let games with local agents choose among their scenes by fewer pilot runs."""
    from privbandit_agents.audits.games.local import LocalGame

    monkeypatch.setattr(LocalGame, "pilots", 200)


@pytest.fixture
def own_worlds() -> Iterator[None]:
    """Let the command know the package's worlds alone, whatever tests beside have registered."""
    from privbandit_envs.registration import ENV_IDS

    kept = list(ENV_IDS)
    ENV_IDS[:] = [id for id in kept if id.startswith("privbandit/")]
    yield
    ENV_IDS[:] = kept


@pytest.fixture
def forgotten(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is registered and imported from files of the documentation and the examples does not stay behind."""
    import gymnasium as gym
    from privbandit_agents.audits.registry import TARGETS
    from privbandit_agents.zoo.entries import AGENTS

    from privbandit_envs import ENV_IDS

    agents, targets, envs, worlds = dict(AGENTS), dict(TARGETS), list(ENV_IDS), set(gym.registry)
    yield
    for name in AGENTS.keys() - agents.keys():
        del AGENTS[name]
    for name in TARGETS.keys() - targets.keys():
        del TARGETS[name]
    ENV_IDS[:] = envs
    for id in gym.registry.keys() - worlds:
        if not id.startswith("privbandit/"):  # a world of ours, such as that of logs, is registered once a process
            del gym.registry[id]
    written = tmp_path_factory.getbasetemp(), ROOT / "examples"
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if file and any(Path(file).is_relative_to(folder) for folder in written):
            del sys.modules[name]
