"""Name tables of the docs that are older, by commits, than the file which makes them.

python .ci/stale.py        # from a clone with its history; in any other place it says nothing

A caption names the command: a benchmark, or an experiment of the library. Code that a table only runs through, such as
an agent, is not looked at: whoever changes what an agent does measures its tables again.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = "agents/privbandit_agents/experiments/library"
CAPTION = re.compile(r"\[[^]]*`(?:python (benchmarks/\w+\.py)|privbandit reproduce ([\w-]+))[^]]*\]\(([\w./-]+\.csv)\)")


def changed(path: Path) -> int:
    """Return the time of the last commit of a file, 0 without one."""
    asked = ["git", "log", "-1", "--format=%ct", "--", str(path)]
    return int(subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout or 0)


def older() -> Iterator[str]:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for benchmark, experiment, table in CAPTION.findall(page.read_text(encoding="utf-8")):
            maker = Path(benchmark or f"{LIBRARY}/{experiment}.yaml")
            made = (page.parent / table).resolve().relative_to(ROOT)
            if 0 < changed(made) < changed(maker):
                yield f"{made} is older than {maker}"


if __name__ == "__main__":
    print(*older(), sep="\n")
