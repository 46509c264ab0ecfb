"""Prints the lowest versions that pyproject.toml allows of the core's dependencies and of an extra's, for pip.

python .ci/lowest.py bench
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
wanted = [
    *project["dependencies"],
    *(line for extra in sys.argv[1:] for line in project["optional-dependencies"][extra]),
]
for line in wanted:
    found = re.fullmatch(r"([\w.-]+)>=([\d.]+)(,<[\d.]+)?", line)
    if found is None:
        sys.exit(f"a dependency must have a lowest version, as in numpy>=2.1; got {line}.")
    print(f"{found[1]}=={found[2]}")
