"""Attack the project by seeded faults of many kinds, and print how many were tried, survived and went wrong.

``make test-faults`` runs it, and signals take the most of its time; another ``--seed`` tries other
faults, and ``--only KIND --least N`` tries N faults of a kind.
"""

import argparse
import importlib
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.random import Generator
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

Campaign = Callable[[Generator, Path, float], Iterator[str]]
"""Tries faults for so many seconds in a folder; yields "" for each that was survived, a sentence for each other."""
SLOW = {"kills of a sweep, a run and an offline comparison": 5, "full disks": 3, "damaged folders": 2}
"""Kinds whose faults take seconds each get so many times the time of the others."""
SIGNALLED = ("run", "sweep", "tune", "score", "cost", "log", "reproduce", "report")
"""Commands that are stopped at 40 moments each."""
LEAST = {
    "kills of a sweep, a run and an offline comparison": 12,
    "damaged folders": 20,
    "full disks": 10,
    "three processes that download at once": 12,
    "changed code": 12,
    "tunings": 12,
    "plug-ins": 12,
    "odd sweeps and experiments": 300,
    "fuzzed files of rows": 900,
    "folders of results": 200,
    "flipped bits": 500,
    "crafted agents": 200,
    "outputs": 12,
    "odd pages and frontiers": 15,
    **dict.fromkeys((f"signals at {name}" for name in SIGNALLED), 40),
}
"""So many faults of a kind are tried at least, however slow the machine is, and ``OTHERS`` of all other kinds."""
OTHERS = 100
LONGEST, LARGEST = 60.0, 2**20
"""Seconds and kilobytes, beyond those at the start, that no fault of a file may take."""
OF_FILES = (
    "odd sweeps and experiments",
    "fuzzed files of rows",
    "folders of results",
    "flipped bits",
    "crafted agents",
)
"""Kinds of files that anybody may have made."""
SHOWN = 5
"""Sentences printed for each kind of fault."""


def campaigns() -> dict[str, Campaign]:
    """Return all kinds of faults by name."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("campaign_*.py"))
    return {name: run for module in modules for name, run in importlib.import_module(module).CAMPAIGNS.items()}


def memory() -> int:
    """Return the kilobytes that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    kinds = campaigns()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of all faults (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=480.0, help="for all kinds together (default: %(default)s)")
    parser.add_argument("--least", type=int, help="so many faults of each kind, and no more (default: by kind)")
    parser.add_argument("--only", action="append", choices=tuple(kinds), help="a kind; may be repeated")
    parser.add_argument("--files", action="store_const", const=[*OF_FILES], dest="only", help="kinds of files alone")
    chosen = parser.parse_args()
    names = chosen.only or list(kinds)
    unit = chosen.seconds / sum(SLOW.get(name, 1) for name in names)
    table = Table("fault", "tried", "at least", "survived", "wrong", "seconds", "longest", "MiB more")
    wrong: list[str] = []
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    told = Console(stderr=True)
    with Progress(*columns, console=told, transient=True) as progress:
        task = progress.add_task("")
        for place, name in enumerate(names):
            tried, failed, started, longest, before_it = 0, [], time.monotonic(), 0.0, memory()
            rng = np.random.default_rng([chosen.seed, list(kinds).index(name)])
            least = chosen.least or LEAST.get(name, OTHERS)
            wanted = unit * SLOW.get(name, 1)
            while tried == 0 or tried < least:  # a slow machine tries as many, for longer
                before = tried
                with tempfile.TemporaryDirectory(prefix="privbandit-faults-") as folder:
                    last = 0.0  # the first fault comes with what all of them need
                    for verdict in kinds[name](rng, Path(folder), wanted):
                        now = time.monotonic()
                        spent, last = now - (last or now), now
                        longest = max(longest, spent)
                        if name in OF_FILES and (spent > LONGEST or memory() - before_it > LARGEST):
                            verdict = verdict or f"fault {tried} takes {spent:.0f} s, or more than 1 GiB"
                        tried += 1
                        failed += [verdict] if verdict else []
                        progress.update(task, description=f"{name} ({place + 1} of {len(names)}): {tried} tried")
                        if tried == chosen.least:
                            break
                if tried == before:
                    failed.append("nothing was tried")
                    break
                wanted = min(wanted, 1.1 * (least - tried) / tried * (time.monotonic() - started))
            seconds = time.monotonic() - started
            more = f"{seconds:.0f}", f"{longest:.1f}", f"{(memory() - before_it) / 2**10:.0f}"
            told.print(f"{name}: {tried} tried, {len(failed)} wrong, {seconds:.0f} s", highlight=False)
            table.add_row(name, str(tried), str(least), str(tried - len(failed)), str(len(failed)), *more)
            wrong += [f"{name}: {verdict}" for verdict in failed[:SHOWN]]
    Console().print(table)
    for sentence in wrong:
        print(sentence)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
