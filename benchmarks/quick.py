"""Write docs/papers/quick.md: the verdicts of the shipped experiments at quick scale.

for name in lplr-theorem2 lpct-fig3; do privbandit reproduce $name --scale quick; done
python benchmarks/quick.py              # sections of what is in runs/; the page keeps the others
"""

import csv
import re
import sys
from pathlib import Path

from privbandit_agents.experiments.schema.experiment import read_experiment
from privbandit_agents.experiments.shelf import library

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/papers/quick.md"
HEAD = """# Reference results at quick scale

Every experiment has a scale at which its statements are decided in minutes, with fewer seeds and, where a grid is long,
fewer of its values: `privbandit reproduce NAME --scale quick`. Hold your table against these: what holds here and not
there is a fault, or another world. An interval that straddles its bound decides nothing; with few seeds that is no
surprise. Written by `python benchmarks/quick.py`; CPU minutes, where given, are those of one core.

"""


def page(runs: Path, before: str) -> str:
    """Return the page: sections of what is in ``runs``, and those that the page had of all other experiments."""
    parts = re.split(r"^(?=## (\S+))", before, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], (f"{text.rstrip()}\n" for text in parts[2::2]), strict=True))
    for name in library():
        if (runs / f"{name}-quick/verdicts.csv").is_file():
            sections[name] = section(name, runs / f"{name}-quick")
    there = [sections[name] for name in library() if name in sections]
    missing = [f"`{name}`" for name in library() if name not in sections]
    body = "\n".join(there)
    verdicts = re.findall(r"\| ([^|]*\([^|]*\)) \|$", body, re.MULTILINE)
    undecided = sum(verdict.startswith("undecided") for verdict in verdicts)
    told = f"{len(verdicts)} statements, {undecided} undecided, {body.count('AGAINST')} against what is expected today."
    return f"{HEAD}{len(there)} of {len(library())} experiments: {told}\n\n" + (
        f"Not run: {', '.join(missing)}.\n\n{body}" if missing else body
    )


def section(name: str, folder: Path) -> str:
    """Return an experiment's statements; what fails as expected has its reason."""
    heading = (folder / "verdicts.md").read_text(encoding="utf-8").partition("\n")[0]
    with (folder / "verdicts.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = [f"## {name}\n", f"{heading}\n", "| statement | measured (95 %) | bound | verdict |", "|---|---|---|---|"]
    for statement, row in zip(read_experiment(library()[name]).statements, rows, strict=True):
        surprising = row["verdict"] == ("does not hold" if row["expected"] == "holds" else "holds")
        expected = "AGAINST EXPECTATION" if surprising else f"expected: {statement.expected}"
        value, low, high = (float(row[key] or "nan") for key in ("measured", "low", "high"))
        ends = [f"{sign} {float(row[key]):g}" for key, sign in (("at_least", ">="), ("at_most", "<=")) if row[key]]
        says = f"{statement.says} {statement.because}".strip().replace("|", "&#124;")
        measured = f"{value:.3g} ({low:.3g} to {high:.3g})"
        lines.append(f"| {says} | {measured} | {' and '.join(ends)} | {row['verdict']} ({expected}) |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "runs"), PAGE.read_text()), encoding="utf-8")
