"""What is said of a release agrees with itself."""

import re
from pathlib import Path

import privbandit_agents
import yaml

import privbandit_envs

ROOT = Path(__file__).parents[1]


def test_there_is_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    released = re.search(r"^## \[(\d[^]]*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert released is not None
    assert privbandit_envs.__version__ == privbandit_agents.__version__ == citation["version"] == released[1]
    assert str(citation["date-released"]) == released[2]


def test_every_extra_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text().lower().replace("_", "-").splitlines()
    wanted = re.findall(r'"([A-Za-z][\w-]*)(?:\[\w+\])?>=', (ROOT / "pyproject.toml").read_text())
    unpinned = {name.lower() for name in wanted} - {line.split("==")[0] for line in lines}
    assert unpinned <= {"hatchling"}, unpinned
