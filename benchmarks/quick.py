"""Write the verdicts of the shipped experiments at quick scale into docs/papers.

for name in lplr-theorem2 lpct-fig3; do privbandit reproduce $name --scale quick; done
python benchmarks/quick.py              # rows of what is in runs/; the files keep the others

quick.csv has a row for each statement, quick-experiments.csv one for each experiment.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from harness import as_csv, read_csv
from privbandit_agents.experiments.schema.experiment import read_experiment
from privbandit_agents.experiments.shelf import library

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs/papers/quick.csv"
SUMMARY = ROOT / "docs/papers/quick-experiments.csv"
Row = dict[str, str]


def rows(name: str, folder: Path) -> Iterator[Row]:
    """Yield an experiment's statements; what fails as expected has its reason."""
    verdicts = read_csv(folder / "verdicts.csv")
    for statement, row in zip(read_experiment(library()[name]).statements, verdicts, strict=True):
        value, low, high = (float(row[key] or "nan") for key in ("measured", "low", "high"))
        ends = [f"{sign} {float(row[key]):g}" for key, sign in (("at_least", ">="), ("at_most", "<=")) if row[key]]
        yield {
            "experiment": name,
            "statement": f"{statement.says} {statement.because}".strip(),
            "measured": f"{value:.3g}",
            "low (95 %)": f"{low:.3g}",
            "high (95 %)": f"{high:.3g}",
            "bound": " and ".join(ends),
            "verdict": row["verdict"],
            "expected": statement.expected,
        }


def summary(name: str, about: Row, statements: list[Row]) -> Row:
    """Return an experiment's line: how many statements hold, fail as expected, are undecided or surprise."""
    surprising = [row for row in statements if row["verdict"] == ("holds", "does not hold")[row["expected"] == "holds"]]
    undecided = [row for row in statements if row["verdict"].startswith("undecided")]
    held = [row for row in statements if row["verdict"] == row["expected"] == "holds"]
    failed = len(statements) - len(held) - len(undecided) - len(surprising)
    counts = {"hold": len(held), "fail as expected": failed, "undecided": len(undecided), "against": len(surprising)}
    return {"experiment": f"`{name}`", **about, **{label: str(count) for label, count in counts.items()}}


def heading(folder: Path) -> Row:
    """Return the title of an experiment's verdicts, and what was played."""
    (line,) = (folder / "verdicts.md").read_text(encoding="utf-8").splitlines()[:1]
    about, _, played = line.removesuffix(")").partition(" (quick scale, ")
    return {"about": about, "played": played}


def main(runs: Path) -> None:
    known: dict[str, list[Row]] = {}
    for row in read_csv(FILE):
        known.setdefault(row["experiment"], []).append(row)
    abouts = {row["experiment"].strip("`"): {key: row[key] for key in ("about", "played")} for row in read_csv(SUMMARY)}
    for name in library():
        folder = runs / f"{name}-quick"
        if (folder / "verdicts.csv").is_file():
            known[name], abouts[name] = list(rows(name, folder)), heading(folder)
    names = [name for name in library() if name in known]
    FILE.write_text(as_csv([row for name in names for row in known[name]]), encoding="utf-8")
    SUMMARY.write_text(as_csv([summary(name, abouts[name], known[name]) for name in names]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runs")
