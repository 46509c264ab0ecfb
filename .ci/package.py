"""Builds the source archive and the wheel, and uses both elsewhere: each installed, the archive unpacked.

python .ci/package.py           # README's blocks and commands from the unpacked archive; `make test` takes longest
python .ci/package.py demo      # the same without `make test`

What was built stays in dist/.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERBS = ("demo", "test")
"""The README's two commands."""


def main() -> None:
    verbs = sys.argv[1:] or list(VERBS)
    if unknown := set(verbs) - set(VERBS):
        sys.exit(f"the README's commands are make {' and make '.join(VERBS)}; got {', '.join(sorted(unknown))}.")
    with tempfile.TemporaryDirectory() as folder:
        elsewhere = Path(folder)
        wheel, archive = built(elsewhere / "builder")
        for path in (wheel, archive):
            core_plays(path, elsewhere / path.name.replace(".", "-"))
        from_archive(archive, elsewhere / "unpacked", verbs)


def built(builder: Path) -> list[Path]:
    """Build into dist/; return the wheel and the source archive."""
    python, out = fresh(builder), ROOT / "dist"
    for old in out.glob("privbandit-*"):
        old.unlink()
    pip(python, "hatchling", "packaging")
    run(ROOT, python, "-m", "hatchling", "build", "--directory", out)
    (wheel,), (archive,) = (list(out.glob(f"privbandit-*{end}")) for end in (".whl", ".tar.gz"))
    return [wheel, archive]


def core_plays(path: Path, folder: Path) -> None:
    """Install what was built, with the core's dependencies alone, and play there."""
    python = fresh(folder)
    pip(python, "-c", ROOT / "constraints.txt", path)
    run(folder, python, "-W", "error", ROOT / ".ci" / "core.py")
    for words in ("--version", "list", "show jdp-linucb"):
        run(folder, python.parent / "privbandit", *words.split())
    print(f"{path.name}: installed, and every agent of the core played", flush=True)


def from_archive(archive: Path, folder: Path, verbs: list[str]) -> None:
    """Unpack the source archive, and run what its README says."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    for verb in verbs:
        run(root, "make", verb, f"PYTHON={sys.executable}")
        print(f"{archive.name}: make {verb}", flush=True)
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    (folder / "blocks.py").write_text("\n".join(blocks), encoding="utf-8")
    run(folder, root / ".venv" / "bin" / "python", "-W", "error", "blocks.py")
    print(f"{archive.name}: {len(blocks)} blocks of the README", flush=True)


def fresh(folder: Path) -> Path:
    """Make an environment with nothing but pip; return its Python."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def pip(python: Path, *what: str | Path) -> None:
    run(python.parent, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)


def run(folder: Path, *command: str | Path) -> None:
    """Run a command in a folder, without what would lead to this checkout."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MAKE", "MFLAGS"))}
    ended = subprocess.run([str(word) for word in command], cwd=folder, env=clean, check=False)
    if ended.returncode:
        sys.exit(f"`{' '.join(str(word) for word in command)}` in {folder} ended with {ended.returncode}.")


if __name__ == "__main__":
    main()
