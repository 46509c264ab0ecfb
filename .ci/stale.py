"""Name tables of the docs that are older, by commits, than the file which makes them.

python .ci/stale.py        # from a clone with its history; in any other place it says nothing

A caption names the command: a benchmark, or an experiment of the library. Code that a table only runs through, such as
an agent, is not looked at: whoever changes what an agent does measures its tables again. Whoever finds that a changed
file makes the same table commits, with ``Stands: docs/TABLE.csv`` as a line of the message.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = "agents/privbandit_agents/experiments/library"
CAPTION = re.compile(r"\[[^]]*`(?:python (benchmarks/\w+\.py)|privbandit reproduce ([\w-]+))[^]]*\]\(([\w./-]+\.csv)\)")


def last(*which: str) -> int:
    """Return the time of the last of these commits, 0 without one."""
    asked = ["git", "log", "-1", "--format=%ct", *which]
    return int(subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout or 0)


def older() -> Iterator[str]:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for benchmark, experiment, table in CAPTION.findall(page.read_text(encoding="utf-8")):
            maker = Path(benchmark or f"{LIBRARY}/{experiment}.yaml")
            made = (page.parent / table).resolve().relative_to(ROOT)
            stands = last(f"--grep=^Stands: {made}$")
            if 0 < max(last("--", str(made)), stands) < last("--", str(maker)):
                yield f"{made} is older than {maker}"


if __name__ == "__main__":
    print(*older(), sep="\n")
