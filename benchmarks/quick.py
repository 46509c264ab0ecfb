"""Run the shipped experiments at quick scale, and write their verdicts down as the reference that the docs show.

python benchmarks/quick.py --run            # all that are not finished in runs/, one after the other
python benchmarks/quick.py --only lplr-theorem2 lpct-fig3 --run
python benchmarks/quick.py --only fliphat-fig2 --run --again    # after more seeds: what is there stays, cost adds up
python benchmarks/quick.py --write          # docs/papers/quick.md; the page keeps sections of what is not in runs/

What a run costs is its CPU time, children included, so that other work on the machine does not count.
"""

import argparse
import csv
import json
import re
import resource
import sys
from pathlib import Path

from joblib.externals.loky import get_reusable_executor
from privbandit_agents.experiments.analysis.verdicts import write_verdicts
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.shelf import library
from privbandit_agents.experiments.spec.experiment import read_experiment
from privbandit_agents.experiments.study import prepare, verdicts_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/papers/quick.md"
NOTE = "cost.json"
AGAINST = "AGAINST EXPECTATION"
HEAD = """# Reference results at quick scale

Every experiment has a scale at which its statements are decided in minutes, with fewer seeds and, where a grid is long,
fewer of its values: `privbandit reproduce NAME --scale quick`. Hold your table against these: what holds here and not
there is a fault, or another world. An interval that straddles its bound decides nothing; with few seeds that is no
surprise. Written by `python benchmarks/quick.py --write`; CPU minutes are those of one core.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--again", action="store_true", help="also experiments that have finished once")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    names = options.only or list(library())
    if options.run:
        for name in names:
            folder = options.runs / f"{name}-quick"
            if options.again or not (folder / NOTE).is_file():
                run(name, folder)
    if options.write:
        PAGE.write_text(page(list(library()), options.runs), encoding="utf-8")


def run(name: str, folder: Path) -> None:
    """Run what is missing of an experiment; write its verdicts, and the CPU seconds of all its runs beside them."""
    before = spent() - (cost(folder) or 0)
    study = prepare(name, "quick")
    results, failures = run_jobs(study.jobs, folder, Engine(jobs=1))
    for failure in failures[:1]:
        print(f"{name}: {failure}", file=sys.stderr)
    write_verdicts(verdicts_of(study, results), folder, study.heading)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NOTE).write_text(json.dumps({"cpu_seconds": spent() - before}))
    print(f"{name}: {spent() - before:.0f} s", flush=True)


def spent() -> float:
    get_reusable_executor().shutdown(wait=True)  # a worker's time is known when it has ended
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def page(names: list[str], runs: Path) -> str:
    """Return the page: sections of what is in ``runs``, and those that the page has of all other experiments."""
    sections = kept(PAGE.read_text(encoding="utf-8")) if PAGE.is_file() else {}
    for name in names:
        if (runs / f"{name}-quick/verdicts.csv").is_file():
            sections[name] = section(name, verdicts(runs / f"{name}-quick/verdicts.csv"), runs / f"{name}-quick")
    there = [name for name in names if name in sections]
    body = "\n".join(sections[name] for name in there)
    told = f"{len(there)} of {len(names)} experiments: {summary(body)}\n\n"
    if missing := [name for name in names if name not in there]:
        told += f"Not run: {', '.join(f'`{name}`' for name in missing)}.\n\n"
    return HEAD + told + body


def kept(text: str) -> dict[str, str]:
    """Return the sections of a page by the names of their experiments."""
    starts = list(re.finditer(r"^## (\S+).*\n", text, re.MULTILINE))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {start[1]: text[start.start() : end].rstrip("\n") + "\n" for start, end in zip(starts, ends, strict=True)}


def summary(body: str) -> str:
    rows = re.findall(r"\| ([^|]*\([^|]*\)) \|$", body, re.MULTILINE)
    undecided = sum(verdict.startswith("undecided") for verdict in rows)
    against = sum(AGAINST in verdict for verdict in rows)
    minutes = sum(map(float, re.findall(r"^## .*\(([0-9.]+) CPU minutes\)$", body, re.MULTILINE)))
    return (
        f"{len(rows)} statements, {undecided} undecided, {against} against what is expected today; "
        f"{minutes:.0f} CPU minutes together."
    )


def section(name: str, rows: list[dict[str, str]], folder: Path) -> str:
    """Return an experiment's statements; what fails as expected has its reason, and what was expected at first."""
    spent_here = cost(folder)
    minutes = "" if spent_here is None else f" ({spent_here / 60:.1f} CPU minutes)"
    heading = (folder / "verdicts.md").read_text(encoding="utf-8").partition("\n")[0]
    lines = [
        f"## {name}{minutes}\n",
        f"{heading}\n",
        "| statement | measured (95 %) | bound | verdict |",
        "|---|---|---|---|",
    ]
    for statement, row in zip(read_experiment(library()[name]).statements, rows, strict=True):
        says = statement.says.replace("|", "&#124;")
        first = f"; at first: {statement.at_first}" if statement.at_first else ""
        why = f" {statement.because}" if statement.because else ""
        fine = AGAINST if surprising(row) else f"expected: {statement.expected}"
        lines.append(f"| {says}{why} | {measured(row)} | {bound(row)} | {row['verdict']} ({fine}{first}) |")
    return "\n".join(lines) + "\n"


def verdicts(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def cost(folder: Path) -> float | None:
    note = folder / NOTE
    return float(json.loads(note.read_text())["cpu_seconds"]) if note.is_file() else None


def surprising(row: dict[str, str]) -> bool:
    return row["verdict"] == ("does not hold" if row["expected"] == "holds" else "holds")


def measured(row: dict[str, str]) -> str:
    value, low, high = (float(row[key] or "nan") for key in ("measured", "low", "high"))
    return f"{value:.3g} ({low:.3g} to {high:.3g})"


def bound(row: dict[str, str]) -> str:
    ends = [f"{words} {float(row[key]):g}" for key, words in (("at_least", ">="), ("at_most", "<=")) if row[key]]
    return " and ".join(ends)


if __name__ == "__main__":
    main()
