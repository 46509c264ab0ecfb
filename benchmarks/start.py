"""What it costs to start: CPU seconds of whole processes, over those of importing numpy or gymnasium.

The candidates take turns, and the least of each counts. Gymnasium is imported without any plug-in, this package's
included.

    python benchmarks/start.py
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from harness import Options, Row, main

ALONE = "import importlib.metadata as m; m.entry_points = lambda **_: (); import gymnasium"
IMPORT = {name: ("-c", f"import {name}") for name in ("numpy", "privbandit_envs", "privbandit_agents")}
IMPORT["gymnasium"] = "-c", ALONE
COMMAND = {name: ("-m", "privbandit", *name.split()) for name in ("--version", "--help", "list envs", "list")}
OVER = {
    "privbandit_envs": ("gymnasium", 1.3),
    "privbandit_agents": ("gymnasium", 1.4),
    "--version": ("numpy", 1.5),
    "--help": ("numpy", 1.5),
    "list envs": ("gymnasium", 1.5),
    "list": ("gymnasium", 1.5),
}
"""What each is measured against, and the most it may cost of it."""


def seconds(arguments: Sequence[str]) -> float:
    """Return the CPU seconds of a process of its own, and of what it starts."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def start(options: Options) -> Iterator[Row]:
    """Measure imports and commands that do next to nothing."""
    works = IMPORT | COMMAND
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(2 if options.quick else 7):
        for name, arguments in works.items():
            found[name].append(seconds(arguments))
    least = {name: min(values) for name, values in found.items()}
    for name, (ground, most) in OVER.items():
        what = f"import {name}" if name in IMPORT else f"privbandit {name}"
        unit = f"of importing {ground} ({least[name]:.2f} s)"
        yield Row(what, least[name] / least[ground], unit, at_most=most)


if __name__ == "__main__":
    sys.exit(main(__doc__, {"start": start}))
