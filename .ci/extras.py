"""Installs the core, and the core with extras, each in an environment of its own, and runs commands there.

python .ci/extras.py                    # the core, and each light extra alone
python .ci/extras.py core data bench,secure

A command whose extras are there must succeed. Any other one must name what to install, in one line and without a
traceback. Environments are kept in .venv-extras, so that a second call is quick.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv-extras"
LEFT_OUT = {"rl", "peers", "clients", "all", "docs", "browser", "dev", "notebooks"}
"""Extras that are heavy, or of developers; name them to have them."""
SMALL = ["--env", "privbandit/Linear-v0", "--agent", "jdp-linucb"]
WORLD = "import gymnasium as gym, privbandit_envs; env = gym.make('privbandit/Linear-v0', horizon=50); "
PLAY = WORLD + "from privbandit_agents import make, play; play(env, make('jdp-linucb', env, seed=0), seed=0)"
SECURE = WORLD + "from privbandit_agents import make; make('ldp-linucb', env, seed=0, noise='secure')"
LABELS = "from privbandit_agents.classifiers import *"

Case = tuple[list[str], set[str]]
CASES: list[Case] = [
    (["privbandit", "--help"], set()),
    (["privbandit", "--version"], set()),
    (["privbandit", "list"], set()),
    (["privbandit", "show", "linucb"], set()),
    (["python", "-c", PLAY], set()),
    (["privbandit", "run", *SMALL, "--horizon", "50", "--jobs", "1", "--out", "run"], {"bench"}),
    (["privbandit", "log", *SMALL, "--users", "50", "--out", "log.npz"], {"bench"}),
    (["privbandit", "audit", "grr", "--runs", "500", "--no-power", "--out", "audit"], {"bench"}),
    (["python", "-c", LABELS], {"data"}),
    (["python", "-c", SECURE], {"secure"}),
]
"""Commands, and the extras that each needs."""


def main() -> int:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = sys.argv[1:] or ["core", *(name for name in extras if name not in LEFT_OUT)]
    unknown = {part for name in asked for part in name.split(",")} - {"core", *extras}
    if unknown:
        sys.exit(f"there is no extra called {', '.join(sorted(unknown))}; there are {', '.join(extras)}.")
    wrong = [f"{name}: {fault}" for name in asked for fault in faults(name)]
    print("\n".join(wrong) or "every command did what it should.")
    return int(bool(wrong))


def faults(name: str) -> list[str]:
    """Install the core with some extras, "core" for none, and return what is wrong there."""
    present = set(name.split(",")) - {"core"}
    folder = FOLDER / name.replace(",", "-")
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        what = f"{ROOT}[{','.join(sorted(present))}]" if present else str(ROOT)
        quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command = [str(folder / "bin" / "python"), *quiet, "-c", str(ROOT / "constraints.txt"), "-e", what]
        subprocess.run(command, check=True, env=clean())
        (folder / "installed").touch()
    with tempfile.TemporaryDirectory() as scratch:
        found = [(words, told(folder, words, needs <= present, Path(scratch))) for words, needs in CASES]
    print(f"{name}: {len(found)} commands", flush=True)
    return [f"`{' '.join(words)[:70]}` {why}" for words, why in found if why]


def told(folder: Path, words: list[str], works: bool, scratch: Path) -> str:
    """Run a command; return what is wrong with its end, or ""."""
    command = [str(folder / "bin" / words[0]), *words[1:]]
    ended = subprocess.run(command, cwd=scratch, env=clean(), capture_output=True, text=True, timeout=600, check=False)
    last = ended.stderr.strip().splitlines()[-1:] or [""]
    if works:
        return f"fails: {last[0]}" if ended.returncode else ""
    if not ended.returncode:
        return "works without an extra that it is said to need"
    if words[0] == "privbandit" and ("Traceback" in ended.stderr or len(ended.stderr.strip().splitlines()) != 1):
        return f"does not answer in one sentence: {ended.stderr.strip()[-200:]}"
    return "" if "pip install 'privbandit[" in last[0] else f"does not say what to install: {last[0]}"


def clean() -> dict[str, str]:
    """Return the environment without what would lead to another installation."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


if __name__ == "__main__":
    sys.exit(main())
