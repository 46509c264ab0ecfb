"""The walls of the design, read from the imports; docs/architecture.md says why each stands."""

import importlib
import pkgutil
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType

import privbandit_agents
import pytest
from import_graph import MODULES, imports, imports_by_name, ours, third_party

import privbandit_envs

E, A = "privbandit_envs", "privbandit_agents"
NUMBERS = frozenset({"numpy", "scipy"})


@dataclass(frozen=True)
class Wall:
    """What the modules of a room may import.

    Attributes:
        rooms: dotted names of modules or packages; the longest one that fits a module decides.
        may: rooms of ours that they may import, besides their own.
        others: packages of others.
        lazily: packages of others that are imported inside functions only.
    """

    rooms: tuple[str, ...]
    may: tuple[str, ...]
    others: frozenset[str] = NUMBERS
    lazily: frozenset[str] = frozenset()


PRIVACY = f"{A}.privacy"
X = f"{A}.experiments"
PUBLIC_MATHS = (f"{E}.validate", f"{E}.changing", f"{E}.spaces", f"{E}.families.mnl", f"{E}.wrappers")
ENV_CORE = tuple(
    f"{E}.{name}"
    for name in ("problem", "changing", "stream", "population", "env", "vector_env", "spaces", "wrappers", "features")
)
GYM = NUMBERS | {"gymnasium"}
GROUND = tuple(f"{X}.{name}" for name in ("fields", "usage", "names", "shelf", "text"))
ZOO = tuple(f"{A}.{name}" for name in ("zoo", "playing", "classifiers"))
BENCH = frozenset(
    {
        "crc32c",
        "filelock",
        "joblib",
        "matplotlib",
        "polars",
        "pydantic",
        "pydantic_core",
        "rich",
        "ruamel",
        "threadpoolctl",
        "gymnasium",
        "tensorboard",
    }
)
BY_NAME = frozenset({f"{A}.zoo.entries", f"{E}.registration", f"{A}.cli.listing", A, PRIVACY})
"""Modules that may name any other one in a string: tables of what is imported when it is asked for."""

WALLS = (
    # the world knows nothing of agents
    Wall((E,), (E,), GYM),
    Wall(ENV_CORE, (*ENV_CORE, f"{E}.validate", f"{E}.files"), GYM),
    Wall((f"{E}.validate", f"{E}.files"), (), GYM),
    Wall((f"{E}.families",), (*ENV_CORE, f"{E}.validate", f"{E}.files", f"{E}.datasets"), GYM),
    Wall(
        (f"{E}.datasets",),
        (f"{E}.validate", f"{E}.files", f"{E}.tables"),
        NUMBERS,
        lazily=frozenset({"sklearn", "polars", "pyarrow", "pandas"}),
    ),
    Wall((f"{E}.datasets.tables.table",), (f"{E}.datasets", f"{E}.tables", f"{E}.validate"), NUMBERS | {"polars"}),
    Wall(
        (f"{E}.tables",),
        (f"{E}.validate", f"{E}.files", f"{E}.datasets.dataset", f"{E}.datasets.lines"),
        NUMBERS | {"polars", "narwhals", "pydantic", "pyarrow"},
    ),
    Wall((f"{E}.testing",), (E,), GYM, lazily=frozenset({"stable_baselines3"})),
    # privacy stands alone, in its own order
    Wall((PRIVACY,), (PRIVACY, f"{A}.faces")),
    Wall((f"{PRIVACY}._validate", f"{PRIVACY}.vectors", f"{PRIVACY}.keys"), ()),
    Wall((f"{PRIVACY}.accounting",), (f"{PRIVACY}._validate",)),
    Wall(
        (f"{PRIVACY}.mechanisms",),
        (f"{PRIVACY}.accounting", f"{PRIVACY}._validate", f"{PRIVACY}.vectors", f"{PRIVACY}.keys"),
        lazily=frozenset({"opendp"}),
    ),
    *(
        Wall(
            (f"{PRIVACY}.{room}",),
            tuple(f"{PRIVACY}.{below}" for below in ("mechanisms", "accounting", "_validate", "vectors", "keys")),
        )
        for room in ("randomizers", "contributions")
    ),
    # algorithms know what they are made of, and not each other
    Wall(
        (f"{A}.base",),
        (
            f"{PRIVACY}.accounting",
            f"{PRIVACY}._validate",
            f"{PRIVACY}.vectors",
            f"{PRIVACY}.keys",
            f"{E}.files",
            *PUBLIC_MATHS,
        ),
        GYM,
    ),
    *(
        Wall((f"{A}.{room}",), (f"{A}.base", f"{A}.faces", PRIVACY, *PUBLIC_MATHS), lazily=frozenset({"sklearn"}))
        for room in ("local", "joint", "shuffle", "baselines")
    ),
    Wall(
        (f"{A}.baselines.rl",),
        (f"{A}.base", *PUBLIC_MATHS, E),
        GYM,
        lazily=frozenset({"torch", "stable_baselines3", "yaml"}),
    ),
    Wall((f"{A}.joint.rl",), (f"{A}.base", f"{A}.joint.settings", PRIVACY, *PUBLIC_MATHS)),
    Wall((f"{A}.bounds",), (f"{A}.base", f"{E}.validate")),
    # the zoo knows agents by name only
    Wall((A,), (*ZOO, f"{A}.logs", f"{A}.base", f"{A}.privacy", E), GYM),
    Wall(
        (f"{A}.zoo",),
        (f"{A}.zoo", f"{A}.base", f"{PRIVACY}.accounting", E),
        GYM,
    ),
    Wall((f"{A}.zoo.auto",), (f"{A}.zoo", f"{A}.base", f"{A}.local.choice", E), GYM),
    Wall((f"{A}.playing.board",), (f"{A}.base", E), GYM | {"crc32c", "tensorboard"}),
    Wall(
        (f"{A}.playing", f"{A}.classifiers"),
        (*ZOO, f"{A}.base", E),
        GYM,
        lazily=frozenset({"sklearn", "polars"}),
    ),
    Wall(
        (f"{A}.logs",), (*ZOO, f"{A}.base", PRIVACY, E), GYM, lazily=frozenset({"polars", "sklearn", "threadpoolctl"})
    ),  # what was played, and what it says of other policies
    Wall(
        (f"{A}.testing",),
        (*ZOO, PRIVACY, f"{A}.base", *(f"{A}.audits.{room}" for room in ("pairs", "views", "bounds", "claims")), E),
        GYM,
    ),
    Wall((f"{A}.testing.privacy",), (*ZOO, f"{A}.base", f"{A}.testing", f"{A}.audits", E), GYM),
    # audits: games -> bounds, views -> pairs; each of these is used alone, too
    Wall((f"{A}.audits.pairs",), (*ZOO, f"{A}.base", E), GYM),
    Wall((f"{A}.audits.views",), (f"{A}.audits.claims", f"{A}.audits.pairs", f"{A}.base", *PUBLIC_MATHS)),
    Wall((f"{A}.audits.bounds",), (f"{A}.audits.claims", f"{A}.base", *PUBLIC_MATHS), GYM),
    Wall((f"{A}.audits",), (PRIVACY, f"{A}.base", f"{A}.faces", *ZOO, E), GYM),
    # experiments: study -> views -> results -> running, schema -> jobs -> store -> the ground
    Wall((X,), (X, f"{A}.faces", f"{A}.playing.board", f"{E}.files"), BENCH | NUMBERS),
    Wall((f"{X}.tuning", f"{X}.compare"), (X, *ZOO, f"{A}.base", E), BENCH | NUMBERS, lazily=frozenset({"optuna"})),
    Wall(GROUND, (*GROUND, *ZOO, f"{A}.base", E), BENCH | NUMBERS),
    Wall((f"{X}.store",), (*GROUND, *ZOO, f"{A}.base", E), BENCH | NUMBERS),
    Wall((f"{X}.jobs",), (f"{X}.store", *GROUND, *ZOO, f"{A}.base", PRIVACY, E), BENCH | NUMBERS),
    Wall((f"{X}.schema",), (f"{X}.jobs", f"{X}.store", *GROUND, *ZOO, f"{A}.base", E), BENCH | NUMBERS),
    Wall(
        (f"{X}.running",),
        (f"{X}.jobs", f"{X}.store", *GROUND, *ZOO, f"{A}.base", E),
        BENCH | NUMBERS,
        lazily=frozenset({"dask", "distributed"}),
    ),
    Wall(
        (f"{X}.results",),
        (f"{X}.running", f"{X}.schema", f"{X}.jobs", f"{X}.store", *GROUND, *ZOO, f"{A}.base", E),
        BENCH | NUMBERS,
        lazily=frozenset({"pyarrow"}),
    ),
    Wall(
        (f"{X}.views",),
        (
            *(f"{X}.{room}" for room in ("results", "running", "schema", "jobs", "store")),
            *GROUND,
            *ZOO,
            f"{A}.base",
            f"{A}.playing.board",
            f"{PRIVACY}.accounting",
            E,
        ),
        BENCH | NUMBERS,
        lazily=frozenset({"vl_convert"}),
    ),
    Wall(
        (f"{X}.suite",),
        (
            *(f"{X}.{room}" for room in ("views", "results", "schema", "jobs", "store")),
            *GROUND,
            *ZOO,
            f"{A}.faces",
            f"{A}.base",
            E,
        ),
        BENCH | NUMBERS,
    ),  # what is scored; who plays and who checks is the command's
    Wall(
        (f"{A}.cli",), (X, f"{A}.logs", f"{A}.audits", f"{A}.testing", *ZOO, f"{A}.base", PRIVACY, E), BENCH | NUMBERS
    ),
)


def within(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.")


def wall_of(module: str) -> tuple[Wall, str]:
    """Return the wall around a module, and the room behind it."""
    fitting = [(room, wall) for wall in WALLS for room in wall.rooms if within(module, room)]
    room, wall = max(fitting, key=lambda pair: len(pair[0]))
    return wall, room


def breaches(module: str, source: str) -> set[str]:
    """Return what a module's source imports across the walls."""
    wall, room = wall_of(module)
    found = imports(source) | (set() if module in BY_NAME else imports_by_name(source))
    own = wall.rooms if len(wall.rooms) > 1 else (room,)
    here = {name for name in ours(found) if any(within(name, place) for place in (*own, *wall.may))}
    heavy = third_party(imports(source, top_level_only=True)) & (wall.lazily - wall.others)
    return (ours(found) - here) | (third_party(found) - wall.others - wall.lazily) | heavy


def test_no_import_crosses_a_wall() -> None:
    found = {module: breaches(module, path.read_text()) for module, path in MODULES.items()}
    assert {module: crossed for module, crossed in found.items() if crossed} == {}


CROSSINGS = {
    "privbandit_envs.families.deep.world": "from privbandit_agents.base.agent import Agent",
    "privbandit_envs.stream": "from privbandit_envs.families.linear import LinearBandit",
    "privbandit_envs.datasets.deep.reader": "from privbandit_envs.families import mnl",
    "privbandit_envs.datasets.tables.reader": "import sklearn",
    "privbandit_envs.families.deep.other": "def f():\n    import sklearn",
    "privbandit_agents.privacy.randomizers.deep.one": "from privbandit_agents.privacy.contributions import moments",
    "privbandit_agents.privacy.mechanisms.deep.one": "from privbandit_agents.privacy.randomizers import sphere",
    "privbandit_agents.privacy.accounting.deep.one": "from privbandit_agents.privacy.mechanisms import additive",
    "privbandit_agents.privacy.contributions.deep": "from privbandit_envs.validate import count",
    "privbandit_agents.base.deep.part": "from privbandit_agents.playing.snapshots import Snapshots",
    "privbandit_agents.base.deep.noise": "from privbandit_agents.privacy.mechanisms.additive import Gaussian",
    "privbandit_agents.local.linear.deep": "from privbandit_agents.joint.linear import jdp_linucb",
    "privbandit_agents.local.trees.deep": "from privbandit_agents.zoo.registry import make",
    "privbandit_agents.local.trees.heavy": "from sklearn.tree import DecisionTreeClassifier",
    "privbandit_agents.joint.sparse.deep": "def f():\n    from privbandit_agents.playing.play import play",
    "privbandit_agents.joint.assortments.deep": "from privbandit_agents.baselines.mnl import MNLAgent",
    "privbandit_agents.baselines.rl.deep": "from privbandit_agents.playing.snapshots import Snapshots",
    "privbandit_agents.baselines.rl.heavy": "import torch",
    "privbandit_agents.baselines.deep.one": 'agent = "privbandit_agents.local.linear.prec_ts:PRECTS"',
    "privbandit_agents.shuffle.deep.one": "from privbandit_agents.local.linear import moments",
    "privbandit_agents.zoo.entries": "from privbandit_agents.local.linear.prec_ts import PRECTS",
    "privbandit_agents.playing.play": "from privbandit_agents.experiments.jobs import trial",
    "privbandit_agents.logs.deep": "from privbandit_agents.experiments import run_trial",
    "privbandit_agents.audits.deep.game": "from privbandit_agents.experiments import run_trial",
    "privbandit_agents.audits.pairs.deep": "from privbandit_agents.audits.games.local import LocalGame",
    "privbandit_agents.audits.views.deep": "from privbandit_agents.audits.lower_bounds import audit",
    "privbandit_agents.audits.bounds.deep": "from privbandit_agents.audits.views import reports",
    "privbandit_agents.testing.deep": "from privbandit_agents.audits.lower_bounds import audit",
    "privbandit_agents.audits.deep.other": "from privbandit_agents.local.trees.lpct import LPCT",
    "privbandit_agents.experiments.store.deep": "from privbandit_agents.experiments.jobs.trial import Trial",
    "privbandit_agents.experiments.jobs.deep": "from privbandit_agents.experiments.running.engine import Engine",
    "privbandit_agents.experiments.running.deep": "from privbandit_agents.experiments.schema.sweep import Sweep",
    "privbandit_agents.experiments.schema.deep": "from privbandit_agents.experiments.results.cells import Cells",
    "privbandit_agents.experiments.results.deep": "from privbandit_agents.experiments.views import figures",
    "privbandit_agents.experiments.views.deep": "from privbandit_agents.experiments.study import Study",
    "privbandit_agents.experiments.views.other": "from privbandit_agents.cli.commands import app",
    "privbandit_agents.experiments.jobs.audit": "from privbandit_agents.audits.registry import game",
}
"""An import across each wall, in a module that is nested in the room."""


def test_an_import_across_a_wall_is_noticed_however_deep_it_is_nested() -> None:
    assert [module for module, text in CROSSINGS.items() if not breaches(module, text)] == []


def test_every_module_is_looked_at() -> None:
    nested = (
        "privbandit_envs.datasets.tables.sources",
        "privbandit_agents.local.trees.lpct",
        "privbandit_agents.privacy",
    )
    assert MODULES.keys() >= set(nested) and len(MODULES) > 150


@pytest.mark.parametrize("package", [privbandit_envs, privbandit_agents])
def test_exported_names_are_the_public_names(package: ModuleType) -> None:
    inner = {module.name for module in pkgutil.iter_modules(package.__path__)}
    here = {name for name in vars(package) if not name.startswith("_")} - {"TYPE_CHECKING", "Any", "lazily"}
    later = set(package.__dir__())  # those of a lazy face besides
    public = {name for name in here | later if not name.startswith("_")} - inner
    assert {name for name in package.__all__ if not name.startswith("_")} - inner == public - set(
        sys.stdlib_module_names
    )
    assert all(hasattr(package, name) for name in package.__all__)


def test_every_module_imports_and_has_a_docstring() -> None:
    for module in MODULES:
        if not module.endswith("__main__"):
            assert importlib.import_module(module).__doc__, module


@pytest.mark.wide
def test_importing_the_package_pulls_nothing_heavy() -> None:
    code = "import sys, privbandit_agents, privbandit_envs; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not ((BENCH - GYM) | {"torch", "stable_baselines3", "sklearn"}) & set(loaded)


def test_no_global_randomness_no_pickle() -> None:
    for module, path in MODULES.items():
        if ".testing" not in module:  # the suites pickle on purpose
            text = path.read_text()
            for forbidden in (
                "np.random.seed",
                "np.random.normal",
                "np.random.rand(",
                "import random\n",
                "import pickle",
            ):
                assert forbidden not in text, f"{module}: {forbidden}"
