"""Faults of what is read and written: logs, saved agents, pages, tables, tunings, plug-ins, outputs, changed code."""

import json
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, suppress
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium as gym
import numpy as np
from campaign_data import damaged, judged, rounds  # type: ignore[import-not-found]
from campaign_runs import (  # type: ignore[import-not-found]
    DAMAGES,
    Numbers,
    end,
    here,
    limited,
    numbers,
    resource,
    shutil,
    start,
    undisturbed,
)
from numpy.random import Generator
from privbandit_agents import AGENTS, Explore, Log, log, make, play
from privbandit_agents import load as load_agent
from privbandit_agents import save as save_agent
from privbandit_agents.base import state
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.experiments.results.files import load_trials
from privbandit_agents.experiments.store.results import Finished, encode, read_result
from privbandit_agents.privacy import PrivacyBudgetExceeded
from privbandit_agents.testing.runs import same_parts, without_generators
from privbandit_agents.zoo.plugins import wrong_with
from privbandit_agents.zoo.registry import can_play

from privbandit_envs.datasets import load
from privbandit_envs.families.classification import min_max

LINEAR = "privbandit/Linear-v0"
ODD: list[Any] = [None, "", "x", 3, -1, 10**400, 1e308, float("nan"), float("inf"), [], {}, [1], {"a": "b"}, True]


def fast(rng: Generator, seconds: float) -> Iterator[int]:
    """Count rounds; Python's own generator is seeded along."""
    random.seed(int(rng.integers(2**31)))
    yield from rounds(seconds)


# logs and saved agents


def same_log(expected: Log, found: Log) -> bool:
    arrays, others = expected.arrays, found.arrays
    alike = arrays.keys() == others.keys() and all(np.array_equal(arrays[key], others[key]) for key in arrays)
    return alike and expected.about == found.about


def logs(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Damaged logs of both kinds are refused, or are the log that was written."""
    env = gym.make(LINEAR, n_arms=4, dim=2, horizon=500)
    kept = log(env, Explore(make("linucb", env, seed=0), 0.2, seed=0), 40, seed=0)
    raws = {}
    for ending in ("npz", "parquet"):
        kept.write(folder / f"log.{ending}")
        raws[ending] = (folder / f"log.{ending}").read_bytes()
    for number in fast(rng, seconds):
        ending = ("npz", "parquet")[number % 2]
        path = folder / f"odd.{ending}"
        path.write_bytes((flipped if rng.random() < 0.7 else damaged)(rng, raws[ending]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield judged(lambda path=path: Log.read(path), lambda found: same_log(kept, found), f"a log as {ending}")


def flipped(rng: Generator, content: bytes) -> bytes:
    """Flip one bit."""
    changed = bytearray(content)
    changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def flips(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """One flipped bit in a log, a saved agent or a result: it is refused, or what was written is read."""
    env = gym.make(LINEAR, n_arms=4, dim=2, horizon=500)
    kept, agent = (
        log(env, Explore(make("linucb", env, seed=0), 0.2, seed=0), 40, seed=0),
        make("jdp-linucb", env, seed=0),
    )
    path_of_result = min((small_run(folder) / "trials").glob("*.json"))
    result = read_result(path_of_result)
    for ending in ("npz", "parquet"):
        kept.write(folder / f"log.{ending}")
    save_agent(agent, folder / "agent.npz")

    def same_agent(found: AnyAgent) -> bool:
        return same_parts(without_generators(found), without_generators(agent))

    def same_result(found: Finished) -> bool:
        return encode(found) == encode(result)

    files: dict[Path, tuple[Callable[[Path], Any], Callable[[Any], bool]]] = {
        folder / "log.npz": (Log.read, partial(same_log, kept)),
        folder / "log.parquet": (Log.read, partial(same_log, kept)),
        folder / "agent.npz": (lambda path: load_agent(path, env), same_agent),
        path_of_result: (read_result, same_result),
    }
    whole = {path: path.read_bytes() for path in files}
    for number in fast(rng, seconds):
        path = list(files)[number % len(files)]
        read, right = files[path]
        path.write_bytes(flipped(rng, whole[path]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield judged(partial(read, path), right, f"a flipped bit in {path.name}")


def small_run(folder: Path) -> Path:
    """Return a folder of four results."""
    command = ["run", "--env", LINEAR, "--agent", "uniform", "--agent", "linucb", "--users", "200", "--seeds", "2"]
    with chdir(folder):
        assert here(*command, "--out", "whole", "--jobs", "1").code == 0
    return folder / "whole"


def folders(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Folders of results that are damaged and crafted: what is read of them was written; every tenth is reported."""
    expected = numbers(small_run(folder))
    for number in fast(rng, seconds):
        out = folder / f"damaged-{number}"
        shutil.copytree(folder / "whole", out, symlinks=True)
        chosen = [str(one) for one in rng.choice(list(DAMAGES), rng.integers(1, 4), replace=False)]
        for one in chosen:
            with suppress(OSError, ValueError):  # an earlier damage is in the way
                DAMAGES[one](rng, out)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem = judged(partial(load_trials, out), partial(as_written, expected), " and ".join(chosen))
        if number % 10 == 0 and not problem:
            with chdir(folder):
                problem = here("report", out.name).fault(0, 2, 4)
        yield f"{' and '.join(chosen)}: {problem}" if problem else ""
        shutil.rmtree(out)


def as_written(expected: Numbers, found: list[Finished]) -> bool:
    """Return whether every result that was read is, bit for bit, one that was written."""
    return all(
        {key: array.tobytes() for key, array in one.arrays.items() if key != "seconds"} == expected.get(one.name)
        for one in found
    )


def snapshots(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Crafted saved agents are refused by a sentence, or play on with numbers; nothing in the folder is imported.

    Another number, or something in place of nothing, is another state, with which the agent is only loaded.
    """
    (folder / "bomb_of_faults.py").write_text("from pathlib import Path\nPath('RAN').touch()\n")
    worlds = gym.make(LINEAR, n_arms=4, dim=2, horizon=500), gym.make("privbandit/Classification-v0", horizon=500)
    able = [
        (name, env) for name, entry in AGENTS.items() for env in worlds if not entry.successor and can_play(name, env)
    ]
    path = folder / "agent.npz"
    with chdir(folder), mock.patch("sys.path", ["", *sys.path]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in fast(rng, seconds):
            name, env = able[int(rng.integers(len(able)))]
            save_agent(make(name, env, seed=0), path)
            arrays, values = state.read(path)
            parts = [values["header"], values["state"], values["header"]["config"], arrays]
            part: Any = [one for one in parts if one][int(rng.integers(sum(map(bool, parts))))]
            key = str(rng.choice(list(part)))
            odd, own = random.choice(ODD), part[key] if part is values["state"] else ""
            part[key] = np.array([0.5, np.nan, 1j][int(rng.integers(3))]) if part is arrays else odd
            if rng.random() < 0.2:
                values["header"]["agent"] = "bomb_of_faults:x"
            state.write(path, arrays, values)

            def attempt(own: object = own, env: Any = env) -> bool:
                agent = load_agent(path, env)
                if own is None or isinstance(own, int | float):
                    return True
                try:
                    return bool(np.isfinite(play(env, agent, 20, seed=0).regret).all())
                except (PrivacyBudgetExceeded, RuntimeError) as error:
                    # the file says that budget or counter is spent, or that people have reported, as devices know
                    return any(words in str(error) for words in ("budget", "counter ends", "restore_devices"))

            verdict = judged(attempt, bool, f"{name}, saved, whose {key} is {odd!r:.40}")
            yield "a saved agent ran code" if (folder / "RAN").exists() else verdict


# pages, frontiers, tables


def pages(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Pages and frontiers of a folder with odd audits and crafted results, which name modules that lie beside them."""
    undisturbed(folder)
    out = folder / "whole-sweep"
    (folder / "bomb_of_pages.py").write_text("from pathlib import Path\nPath('RAN').touch()\n")
    good = {"target": "laplace", "claim": {"epsilon": 1.0}, "epsilon": 0.4, "refuted": False, "power": {"1.25": 0.5}}
    for number in fast(rng, seconds):
        audit: dict[str, Any] = json.loads(json.dumps(good))
        place: Any = audit if rng.random() < 0.5 else audit[str(rng.choice(["claim", "power"]))]
        place[str(rng.choice(list(place)))] = random.choice(ODD)
        (out / "audit").mkdir(exist_ok=True)
        (out / "audit" / "odd.json").write_text(json.dumps(audit) if rng.random() < 0.9 else "[" * 10**5)
        command = ["report", "whole-sweep", "-o", "page.html"] if number % 3 else ["frontier", "whole-sweep"]
        with chdir(folder):
            problem = here(*command).fault(0)
        yield f"{command} with {json.dumps(audit)[:200]}: {problem}" if problem else ""


def tables(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Tables with the largest numbers, and damaged parquet files: numbers in [0, 1], or a sentence."""
    import polars as pl

    path = folder / "own.parquet"
    frame = pl.DataFrame({"a": rng.random(40), "b": rng.random(40), "kind": ["x", "y"] * 20})
    frame.write_parquet(path)
    whole = path.read_bytes()
    for number in fast(rng, seconds):
        if number % 2:
            path.write_bytes(flipped(rng, whole) if rng.random() < 0.5 else damaged(rng, whole))
            yield judged(lambda: load(str(path)), lambda found: True, f"a damaged table {number}")
        else:
            column = rng.choice([1e308, -1e308, 1.7e308, -1.7e308, 5e-324, 0.0, 1.0], size=(20, 3))
            scaled = min_max(column, column[: int(rng.integers(1, 20))])
            within = bool(np.isfinite(scaled).all() and (scaled >= 0).all() and (scaled <= 1).all())
            yield "" if within else f"a table of {column[:2]} has contexts outside of [0, 1]"


# tuning


def tunings(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Plans with odd values, bad settings, and disks that are full: a sentence and a code."""
    plan: dict[str, Any] = {
        "env": LINEAR, "agent": "linucb", "horizon": 40, "trials": 3, "tuning": 1, "final": 1, "checkpoints": 2,
        "env_kwargs": {"dim": 2, "n_arms": 2}, "search": {"alpha": [1.0, -1.0, 2.0]},
    }  # fmt: skip
    for number in fast(rng, seconds):
        odd = json.loads(json.dumps(plan))
        if rng.random() < 0.6:
            odd[str(rng.choice([*plan, "seed", "config"]))] = random.choice(ODD)
        (folder / "plan.yaml").write_text(json.dumps(odd))
        out = folder / f"tuned-{number}"
        full = bool(rng.random() < 0.2)
        with chdir(folder), limited(resource.RLIMIT_FSIZE, 200 if full else resource.RLIM_INFINITY):
            found = here("tune", "plan.yaml", "--out", str(out))
        yield f"{json.dumps(odd)[:300]}: {problem}" if (problem := found.fault(0, 2, 4)) else ""
        shutil.rmtree(out, ignore_errors=True)


# plug-ins


PLUGINS = [
    "import gymnasium as gym\ngym.register('privbandit/{}-v0', entry_point='os:getcwd')",
    "import gymnasium as gym\ngym.registry.pop('privbandit/{}-v0')",
    "from privbandit_agents import register_agent\nregister_agent('linucb', 'os:getcwd')",
    "from privbandit_agents import register_agent\nregister_agent('own{}', 'nowhere:Own')",
    "class Own(BaseException): pass\nraise Own('{}')",
    "raise SystemExit",
    "raise GeneratorExit",
    "raise RecursionError('{}' * 1000)",
    "import nowhere_{}",
    "def (",
]


def plugins(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Plug-ins that fail or take what is ours leave everything as it was."""
    from privbandit_agents.zoo.entries import AGENTS

    agents, worlds = dict(AGENTS), {id: spec for id, spec in gym.registry.items() if id.startswith("privbandit/")}
    with mock.patch("sys.path", [str(folder), *sys.path]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in fast(rng, seconds):
            code = random.choice(PLUGINS).replace("{}", random.choice(["Linear", "Assortment", "SparseLinear"]))
            module = f"plugin_of_faults_{rng.integers(10**12)}_{number}"
            (folder / f"{module}.py").write_text(code)
            try:
                problem = wrong_with(EntryPoint("own", module, "privbandit.agents"))
            except BaseException as error:
                yield f"{code}: {type(error).__name__} passes"
                continue
            kept = agents == AGENTS and all(gym.registry.get(id) is spec for id, spec in worlds.items())
            yield "" if problem and "\n" not in problem and kept else f"{code}: {problem!r}, and all is kept: {kept}"


# outputs


def outputs(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Pages, frontiers and logs to links, pipes and folders: links are followed, pipes stay, nothing half is left."""
    undisturbed(folder)
    for number in fast(rng, seconds):
        kind = random.choice(["a link", "a link to nothing", "a pipe", "a folder", "a circle"])
        logging = ["log", "--env", LINEAR, "--agent", "uniform", "-n", "20", "--out"]
        command = random.choice([["report", "whole-sweep", "-o"], logging])
        ending = "html" if command[0] == "report" else "npz"
        path, real = folder / f"out-{number}.{ending}", folder / f"real-{number}.{ending}"
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a folder":
            path.mkdir()
        else:
            path.symlink_to(path.name if kind == "a circle" else real.name)
        if kind == "a link":
            real.write_text("old")
        with chdir(folder):
            found = here(*command, path.name)
        followed = "link" in kind
        problem = found.fault(0) if followed else found.fault(4, 2)
        kept = path.is_symlink() if "a link" in kind or kind == "a circle" else path.is_fifo() or path.is_dir()
        problem = problem or ("" if kept else "it was replaced")
        problem = problem or ("" if not followed or real.stat().st_size > 100 else "the link was not followed")
        left = [one.name for one in folder.glob(".*")]
        problem = problem or (f"{left} is left" if left else "")
        yield f"{command[0]} to {kind}: {problem}" if problem else ""


# changed code


AGENT = """
from privbandit_agents import register_agent
from privbandit_agents.baselines.uniform import Uniform

class Mine(Uniform):
    def select_action(self, context):
        return FACTOR * super().select_action(context)

register_agent("MODULE", "MODULE:Mine")
"""


def changed_code(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Edit an agent between two runs: other code plays again, other comments do not, and nothing is deleted."""
    before = AGENT.replace("MODULE", "mine").replace("FACTOR", "1")
    for number in fast(rng, seconds):
        only_told = bool(rng.random() < 0.4)
        after = before.replace("):", "):  # edited", 1) if only_told else before.replace("1 *", "0 *")
        yield edited(folder, folder / f"edited-{number}", before, after, only_told)


def edited(folder: Path, out: Path, before: str, after: str, only_told: bool) -> str:
    """Run an agent in a child, write it anew, and run it again; return what is wrong."""
    command = ["run", "--env", LINEAR, "--agent", "mine:mine", "--horizon", "40", "--out", out.name, "--jobs", "1"]
    for text in (before, after):
        (folder / "mine.py").write_text(text)
        found = end(start(folder, *command))
        if problem := found.fault(0):
            return str(problem)
    noticed, stale = "has changed" in found.err, len(list((out / "trials").glob("*.stale")))
    shutil.rmtree(out)
    if only_told:
        return "a comment is taken for code" if noticed or stale else ""
    return "" if noticed and stale == 1 else f"changed code was not noticed: {found.err[-300:]!r}"


CAMPAIGNS: Mapping[str, Callable[[Generator, Path, float], Iterator[str]]] = {
    "damaged logs": logs,
    "flipped bits": flips,
    "folders of results": folders,
    "crafted agents": snapshots,
    "odd pages and frontiers": pages,
    "odd tables": tables,
    "tunings": tunings,
    "plug-ins": plugins,
    "outputs": outputs,
    "changed code": changed_code,
}
