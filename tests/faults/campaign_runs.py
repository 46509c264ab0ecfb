"""Faults in runs: kills, damaged folders, full disks, odd command lines and odd files.

Every campaign tries faults until its seconds are over, and yields "" for each that was survived, or told in a sentence
with the right exit code; else a sentence that says what went wrong: a number that differs, something lost, a traceback,
a hang, or a code against docs/exit-codes.md.
"""

import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from joblib.externals.loky import get_reusable_executor
from numpy.random import Generator
from privbandit_agents.cli.main import ended
from privbandit_agents.experiments.names import result_path
from privbandit_agents.experiments.store.results import Finished, header_of, read_result

KEPT = TemporaryDirectory(prefix="privbandit-faults-whole-")
LIMIT = 120
"""Seconds after which a command hangs."""
STOPPED = (130, -signal.SIGINT)
MEMORY = 6 * 2**30
"""Bytes that a fuzzed command may address beyond what the process has."""

SWEEP = """
envs: [{id: privbandit/Linear-v0, dim: 4}]
agents: [{name: uniform}, {name: linucb, alpha: 0.5}, {name: jdp-linucb, epsilon: 1}, {name: ldp-linucb}]
horizon: 4000
checkpoints: 20
seeds: 2
"""
EXPERIMENT = """
title: A sweep with a statement
about: it is made up
sweep:
  envs: [{id: privbandit/Linear-v0, grid: {dim: [3, 4]}}]
  agents: [{name: uniform}, {name: linucb, grid: {alpha: [0.5, 1]}}]
  horizon: 200
  seeds: 5
scales: {smoke: {horizon: 40, seeds: 2}}
variants: {bold: {agent: linucb, agent.alpha: 1}}
figures:
  - {name: regret, log: xy, fit: true, curves: [
      {function: "privbandit_agents.experiments.views.curves:power", exponent: 0.5, label: sqrt(T)}]}
  - {name: dims, x: env.dim, y: ratio, lines: agent}
statements:
  - {says: It learns., where: here, measure: {mean: {variant: bold, env.dim: 3, y: ratio}}, at_most: 2}
  - each: {dim: [3, 4]}
    says: It grows. ($dim)
    where: here
    measure: {slope: {of: {variant: bold, env.dim: $dim}, from: 0.1}}
    at_least: 0
"""
OFFLINE = """
title: Trees
about: they are made up
offline:
  worlds: [{source: lpct-synthetic, n_private: 300, n_test: 100, grid: {n_public: [20, 40]}}]
  epsilons: [1, 4]
  replications: 5
  methods: [{name: LPCT, agent: lpct, grid: {depth: [1, 2], weight: [1, 10]}}, {name: rules, agent: lpct}]
scales: {smoke: {replications: 1, shrink: 2}}
figures: [{name: budgets, x: epsilon, panels: n_public}]
tables: [{name: contest}]
statements:
  - {says: It does., where: here, measure: {mean: {method: rules, epsilon: 4, n_public: 40}}, at_least: 0.2}
"""
RUN = ["run", "--env", "privbandit/Linear-v0", "--set", "env.dim=3", "--agent", "uniform", "--agent", "linucb"]
RUN += ["--horizon", "4000", "--seeds", "3", "--jobs", "2"]
COMMANDS: dict[str, list[str]] = {
    "run": RUN,
    "sweep": ["sweep", "sweep.yaml", "--jobs", "2", "--save-every", "0.05"],
    "reproduce": ["reproduce", "offline.yaml", "--jobs", "2"],
}
"""Commands that fill a folder, which ``--out`` names."""


class Ended(NamedTuple):
    """How a command ended; ``code`` is None if it had to be killed."""

    code: int | None
    out: str
    err: str

    def fault(self, *codes: int) -> str:
        """Return what is wrong with the end, or nothing."""
        last = (self.err.strip().splitlines() or [""])[-1][:300]
        if self.code is None:
            return f"hangs: {last}"
        if "Traceback" in self.err + self.out:
            return f"a traceback: {last}"
        if self.code not in codes:
            return f"code {self.code}, not {' or '.join(map(str, codes))}: {last}"
        return "" if self.code in (0, 130) or last else f"code {self.code} without a word"


class HangError(BaseException):
    """A command took too long."""


def here(*arguments: str) -> Ended:
    """Run a command in this process."""

    def hang(*_: object) -> None:
        raise HangError("it took too long")

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(LIMIT)
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("default")
            with mock.patch.object(sys, "argv", ["privbandit", *arguments]):
                code: int | None = ended()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return Ended(None if "HangError" in err.getvalue() else code, out.getvalue(), err.getvalue())


def start(folder: Path, *arguments: str, module: str = "privbandit") -> "subprocess.Popen[str]":
    """Start a command, the main function of a module, in a process group of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, "-m", module, *arguments]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes)


def end(process: "subprocess.Popen[str]") -> Ended:
    try:
        out, err = process.communicate(timeout=LIMIT)
        return Ended(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return Ended(None, out, err)


def prepare(folder: Path) -> None:
    """Write the files that the commands read."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("sweep", SWEEP), ("experiment", EXPERIMENT), ("offline", OFFLINE)):
        (folder / f"{name}.yaml").write_text(text)


Numbers = dict[str, dict[str, bytes]]


def numbers(folder: Path, expected: Numbers | None = None) -> Numbers:
    """Return the arrays of all results, or of those that are expected, bit for bit, but for the times."""
    names = sorted(path.stem for path in (folder / "trials").glob("*.json")) if expected is None else list(expected)
    paths = [result_path(folder, name) for name in names]
    arrays = {path.stem: read_result(path).arrays for path in paths}
    return {name: {key: kept[key].tobytes() for key in kept if key != "seconds"} for name, kept in arrays.items()}


def undisturbed(folder: Path) -> dict[str, Numbers]:
    """Return what each command gives if nothing disturbs it; the folders ``whole-...`` keep it."""
    prepare(folder)
    kept = at_rest()
    for name in COMMANDS:
        shutil.copytree(kept / f"whole-{name}", folder / f"whole-{name}", symlinks=True)
    return {name: numbers(folder / f"whole-{name}") for name in COMMANDS}


@cache
def at_rest() -> Path:
    """Return a folder in which each command has run once; all kinds of faults copy from it."""
    folder = Path(KEPT.name)
    prepare(folder)
    with chdir(folder):
        for name, command in COMMANDS.items():
            if (problem := here(*command, "--out", f"whole-{name}").fault(0)) != "":
                raise RuntimeError(f"{name} does not even run undisturbed: {problem}")
    return folder


def resumed(folder: Path, name: str, out: str, expected: Numbers) -> str:
    """Run a command to its end in a folder where something happened; return what is wrong with the results."""
    with chdir(folder):
        problem = here(*COMMANDS[name], "--out", out).fault(0)
    if problem:
        return problem
    left = [path.name for path in (folder / out).rglob(".*.????????")]
    if (folder / out / "unfinished").exists() or left:
        return f"something unfinished is left: {left}"
    return "" if numbers(folder / out) == expected else "a number differs"


# kills


def kills(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Kill or interrupt a command at random times, up to three times, then let it finish."""
    deadline = time.monotonic() + seconds
    expected = undisturbed(folder)
    attempt = 0
    while time.monotonic() < deadline:
        attempt += 1
        name = str(rng.choice(list(COMMANDS)))
        out, told = f"killed-{attempt}", []
        for _ in range(rng.integers(1, 4)):
            told.append(killed(rng, folder, [*COMMANDS[name], "--out", out]))
        problem = next(filter(None, told), "") or resumed(folder, name, out, expected[name])
        yield f"{name}, killed: {problem}" if problem else ""
        shutil.rmtree(folder / out, ignore_errors=True)


def killed(rng: Generator, folder: Path, command: list[str]) -> str:
    """Start a command and kill or interrupt it, alone or with its group, later; return what is wrong with its end."""
    process = start(folder, *command)
    seconds = float(rng.uniform(1.0, 8.0) if rng.random() < 0.8 else rng.uniform(0.2, 1.0))
    time.sleep(seconds)
    chosen, whole = (signal.SIGKILL, signal.SIGINT)[rng.integers(2)], bool(rng.random() < 0.5)
    with suppress(ProcessLookupError):
        (os.killpg if whole else os.kill)(process.pid, chosen)
    found = end(process)
    early = found.code == -signal.SIGINT and "privbandit_agents" not in found.err  # Python was not up yet
    problem = "" if early or found.code == -signal.SIGKILL else found.fault(0, *STOPPED)
    how = f"{chosen.name} to {'all' if whole else 'one'} after {seconds:.1f} s"
    return f"{how}: {problem}\n{found.err[-2000:]}" if problem else ""


# damaged folders


def damages(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Damage a folder of results, then run a command on it: what is left counts, what is damaged is run again."""
    deadline = time.monotonic() + seconds
    expected = undisturbed(folder)
    attempt = 0
    while time.monotonic() < deadline:
        attempt += 1
        name = str(rng.choice(list(COMMANDS)))
        out = folder / f"damaged-{attempt}"
        shutil.copytree(folder / f"whole-{name}", out, symlinks=True)
        chosen = [str(one) for one in rng.choice(list(DAMAGES), rng.integers(1, 4), replace=False)]
        for one in chosen:
            with suppress(OSError, ValueError):  # an earlier damage is in the way
                DAMAGES[one](rng, out)
        problem = weighed(folder, name, out, bool(set(chosen) & IN_THE_WAY), expected[name])
        yield f"{name}, {' and '.join(chosen)}: {problem}" if problem else ""
        shutil.rmtree(out)


def weighed(folder: Path, name: str, out: Path, blocked: bool, expected: Numbers) -> str:
    """Return what is wrong with a report of a damaged folder, or with a run in it."""
    with chdir(folder):
        if name != "reproduce" and (problem := here("report", out.name).fault(0, 2, 4)):
            return f"report: {problem}"
        found = here(*COMMANDS[name], "--out", out.name)
    if problem := found.fault(*((0, 2, 4) if blocked else (0,))):
        return problem
    if found.code == 0 and numbers(out, expected) != expected:
        return "a number differs"
    return ""


def result(rng: Generator, out: Path) -> Path:
    """Return one of the results."""
    return Path(str(rng.choice(sorted(map(str, (out / "trials").glob("*.json"))) or [str(out / "trials" / "x")])))


def truncate(rng: Generator, out: Path) -> None:
    path = result(rng, out)
    raw = path.read_bytes()
    path.write_bytes(raw[: rng.integers(len(raw))])


def flip(rng: Generator, out: Path) -> None:
    path = result(rng, out)
    raw = bytearray(path.read_bytes())
    for place in rng.integers(len(raw), size=rng.integers(1, 5)):
        raw[place] ^= 1 << int(rng.integers(8))
    path.write_bytes(raw)


def noise(rng: Generator, out: Path) -> None:
    path = result(rng, out)
    path.write_bytes(rng.bytes(path.stat().st_size))


def swap(rng: Generator, out: Path) -> None:
    one, other = result(rng, out), result(rng, out)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def replace_by_folder(rng: Generator, out: Path) -> None:
    path = result(rng, out)
    path.unlink()
    (path / "inside").mkdir(parents=True)


def replace_by_link(rng: Generator, out: Path) -> None:
    path = result(rng, out)
    target = rng.choice(["nowhere", path.name, "..", result(rng, out).name])
    path.unlink()
    path.symlink_to(str(target))


def remove(rng: Generator, out: Path) -> None:
    result(rng, out).unlink()


def foreign(rng: Generator, out: Path) -> None:
    name = str(rng.choice(["0123456789abcdef.json", "note.txt", ".json", "x.json", "\udcff.json"]))
    (out / "trials" / name).write_bytes(rng.bytes(50))


def craft(rng: Generator, out: Path) -> None:
    """Change a part of a result to nonsense, with the right checksum."""
    path = result(rng, out)
    found = read_result(path)
    parts: dict[str, Any] = {key: getattr(found, key) for key in ("kind", "job", "settings", "notes", "provenance")}
    parts["arrays"] = {key: b64encode(array.tobytes()).decode() for key, array in found.arrays.items()}
    part = str(rng.choice(list(parts)))
    inner = parts[part] if isinstance(parts[part], dict) and parts[part] and part != "arrays" else None
    if part == "arrays":
        broken = ["x", "", 3, None, b64encode(np.full(3, np.nan).tobytes()).decode()]
        parts["arrays"][str(rng.choice(list(parts["arrays"])))] = broken[rng.integers(len(broken))]
    elif part == "provenance" or inner is None or rng.random() < 0.5:
        parts[part] = [{}, [], None, 3, "x", {"a": 1}][rng.integers(6)]
    else:
        key = str(rng.choice(list(inner)))
        parts[part] = {**inner, key: [{}, [], None, -3, "x", 10**30][rng.integers(6)]}
    body = json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()
    path.write_bytes(b"%b\n%b\n" % (header_of(body), body))


def lock_folder(rng: Generator, out: Path) -> None:
    path = result(rng, out)
    path.unlink()
    (out / "unfinished" / f"{path.stem}.lock" / "x").mkdir(parents=True)


def snapshot(rng: Generator, out: Path) -> None:
    """Leave a snapshot of a trial that is nonsense."""
    path = result(rng, out)
    path.unlink()
    (out / "unfinished").mkdir(exist_ok=True)
    (out / "unfinished" / f"{path.stem}.npz").write_bytes(rng.bytes(200))
    (out / "unfinished" / f"{path.stem}.lock").touch()


def place(name: str, folder: bool) -> Callable[[Generator, Path], None]:
    """Return what puts a file or a folder in place of what is there."""

    def put(_: Generator, out: Path) -> None:
        path = out / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (path / "x").mkdir(parents=True) if folder else path.touch()

    return put


DAMAGES: dict[str, Callable[[Generator, Path], None]] = {
    "truncated": truncate,
    "flipped bits": flip,
    "noise": noise,
    "swapped": swap,
    "a folder for a result": replace_by_folder,
    "a link for a result": replace_by_link,
    "removed": remove,
    "a foreign file": foreign,
    "crafted": craft,
    "a snapshot of nonsense": snapshot,
    "a folder for a lock": lock_folder,
    "trials is a file": place("trials", False),
    "unfinished is a file": place("unfinished", False),
    "tensorboard is a file": place("tensorboard", False),
    "tensorboard-trials is a file": place("tensorboard-trials", False),
    "a folder for the data": place("results.parquet", True),
    "a folder for the data as text": place("results.csv", True),
    "a folder for the table": place("table.md", True),
    "a folder for a figure": place("regret.png", True),
    "a folder for the verdicts": place("verdicts.csv", True),
}
IN_THE_WAY = {name for name in DAMAGES if " is a file" in name or name.startswith("a folder for ")} - {
    "a folder for a result"
}
"""Damages after which a command may say that it cannot do all."""


# full disks


def full_disks(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Let no file grow beyond a random size while a command runs; then let it finish without the limit."""
    deadline = time.monotonic() + seconds
    expected = undisturbed(folder)
    attempt = 0
    while time.monotonic() < deadline:
        attempt += 1
        size, name = int(10 ** rng.uniform(2, 5)), str(rng.choice([*COMMANDS, "audit", "report"]))
        out = f"full-{attempt}"
        problem = filled(folder, name, out, size)
        if not problem and name in COMMANDS:
            problem = resumed(folder, name, out, expected[name])
        yield f"{name}, files of at most {size} bytes: {problem}" if problem else ""
        shutil.rmtree(folder / out, ignore_errors=True)


def filled(folder: Path, name: str, out: str, size: int) -> str:
    command = COMMANDS.get(name, ["audit", "grr", "--runs", "200"])
    if name == "report":
        shutil.copytree(folder / "whole-sweep", folder / out)
    get_reusable_executor().shutdown(wait=True)  # workers have the limit from their start
    with chdir(folder), limited(resource.RLIMIT_FSIZE, size):
        found = here("report", out) if name == "report" else here(*command, "--out", out)
    get_reusable_executor().shutdown(wait=True)
    problem = found.fault(0, 4)
    told = "verdict" if name == "audit" else "Linear-v0" if name == "report" else ""
    return problem or ("" if told in found.out else "what could be computed was not printed")


@contextmanager
def limited(kind: int, size: int) -> Iterator[None]:
    """Limit a resource of this process and of those that it starts."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


# odd command lines and odd files, parsed and planned, not run


@contextmanager
def nothing_runs(folder: Path) -> Iterator[None]:
    """Replace the running of trials and audits, and the network; bound the memory."""
    folder.mkdir(parents=True, exist_ok=True)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    ran: tuple[dict[str, Finished], list[object]] = ({}, [])
    with (
        mock.patch("privbandit_agents.experiments.running.engine.run_jobs", lambda *_: ran),
        mock.patch("privbandit_agents.experiments.study.run_jobs", lambda *_: ran),
        mock.patch("privbandit_agents.cli.audit.audit", mock.Mock(side_effect=ValueError("not run"))),
        mock.patch("privbandit_agents.cli.logs.log", mock.Mock(side_effect=ValueError("not run"))),
        mock.patch("socket.socket.connect", mock.Mock(side_effect=OSError("no network"))),
        limited(resource.RLIMIT_AS, used + MEMORY),
        chdir(folder),
    ):
        yield


WORDS = [
    *(
        "run",
        "sweep",
        "reproduce",
        "report",
        "list",
        "audit",
        "log",
        "frontier",
        "tune",
        "demo",
        "-n",
        "sweep.yaml",
        "experiment.yaml",
        "offline.yaml",
    ),
    *("--env", "--agent", "--horizon", "--seeds", "--set", "--out", "--jobs", "--checkpoints", "--engine", "--shard"),
    *(
        "--save-every",
        "--scale",
        "--address",
        "--epsilon",
        "--delta",
        "--runs",
        "--calibration",
        "--confidence",
        "--seed",
    ),
    *("privbandit/Linear-v0", "privbandit/Assortment-v0", "linucb", "uniform", "jdp-linucb", "grr", "laplace", "smoke"),
    *("env.dim=3", "agent.epsilon=1", "linucb.alpha=-1", "epsilon=0", "dim=3", "=", "a=b=c", "env.theta=[1, 2]", "1/2"),
    *("0", "1", "-1", "3", "2147483648", "1e400", "nan", "inf", "1" * 5000, "[0, 1]", "[[]]", "{a: 1}", "&a [*a]"),
    *("", " ", "\udcff", "é", "--", "-", "--help", "--version", "..", ".", "x" * 3000, "!!int '_'", "a:b"),
    *("os:system", "'", '"', "{", "[", "published", "loky", "dask", "tcp://nowhere:1", "all", "agents", "envs"),
]


def command_lines(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Run command lines of words that exist and words that do not."""
    prepare(folder)
    with nothing_runs(folder):
        deadline = time.monotonic() + seconds  # the modules are there by now
        while time.monotonic() < deadline:
            first = [str(rng.choice(["run", "sweep", "reproduce", "report", "list", "audit", "log", "frontier"]))]
            words = first + [str(word) for word in rng.choice(WORDS, rng.integers(0, 9))]
            problem = here(*words).fault(0, 2)
            yield f"{[word[:60] for word in words]}: {problem}" if problem else ""


VALUES = [
    *(
        "0",
        "-1",
        "1",
        "2147483648",
        "1" + "0" * 400,
        "1" * 5000,
        "0xffffffffffffffffffff",
        "1e400",
        "-.inf",
        ".nan",
        "0.1",
    ),
    *(
        "!!int '_'",
        "!!bool maybe",
        "!!float x",
        "!!binary x",
        "!!set {a}",
        "!!omap [a: 1]",
        "!!python/object:os.system {}",
    ),
    *(
        "~",
        "''",
        "x",
        "é",
        "[]",
        "{}",
        "[[]]",
        "{a: 1}",
        "[1, 2]",
        "&a [*a]",
        "*b",
        "$dim",
        "$",
        "2020-01-01",
        "1:30",
        "yes",
    ),
    *(
        "true",
        "[0, 0]",
        "{grid: {a: [1]}}",
        "x:y",
        "os:system",
        "|\n  a",
        "'" + "x" * 2000 + "'",
        "[1, a, {}]",
        "!!null ''",
    ),
    *(
        "linucb",
        "uniform",
        "users",
        "epsilon",
        "env.dim",
        "depth",
        "privbandit/Linear-v0",
        "{mean: {}}",
        "!!str 1",
        "? a",
    ),
]


def files(rng: Generator, folder: Path, seconds: float) -> Iterator[str]:
    """Sweeps and experiments in which values, keys, lines or bytes are others."""
    prepare(folder)
    sources = {"sweep": SWEEP, "experiment": EXPERIMENT, "offline": OFFLINE}
    with nothing_runs(folder):
        deadline = time.monotonic() + seconds  # the modules are there by now
        while time.monotonic() < deadline:
            name = str(rng.choice(list(sources)))
            raw = mutated(rng, sources[name])
            (folder / "odd.yaml").write_bytes(raw)
            scale = str(rng.choice(["smoke", "paper"]))
            command = ["sweep", "odd.yaml"] if name == "sweep" else ["reproduce", "odd.yaml", "--scale", scale]
            if problem := here(*command).fault(0, 2):
                kept = folder / f"wrong-{rng.integers(10**9)}.yaml"
                kept.write_bytes(raw)
                yield f"{kept}: {problem}"
            else:
                yield ""


def mutated(rng: Generator, text: str) -> bytes:
    """Return a text with up to three changes."""
    for _ in range(rng.integers(1, 4)):
        kind, tokens = rng.integers(6), list(re.finditer(r"[\w./-]+", text))
        token = tokens[rng.integers(len(tokens))]
        lines = text.splitlines()
        line = int(rng.integers(len(lines)))
        if kind <= 2:  # a value or a key
            text = text[: token.start()] + str(rng.choice(VALUES)) + text[token.end() :]
        elif kind == 3:  # the value of a key
            values = list(re.finditer(r"(?<=: )[^,}\]\n]+", text))
            value = values[rng.integers(len(values))] if values else token
            text = text[: value.start()] + str(rng.choice(VALUES)) + text[value.end() :]
        elif kind == 4:
            text = "\n".join([*lines[:line], *lines[line + 1 :]] if rng.random() < 0.5 else [*lines[:line], *lines])
        else:
            other = tokens[rng.integers(len(tokens))]
            text = text[: token.start()] + other[0] + text[token.end() :]
    raw = bytearray(text.encode(errors="surrogateescape"))
    if rng.random() < 0.1:
        raw[rng.integers(len(raw))] = int(rng.integers(256))
    return bytes(raw)


CAMPAIGNS: Mapping[str, Callable[[Generator, Path, float], Iterator[str]]] = {
    "kills of a sweep, a run and an offline comparison": kills,
    "damaged folders": damages,
    "full disks": full_disks,
    "odd command lines": command_lines,
    "odd sweeps and experiments": files,
}
