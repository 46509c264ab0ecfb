"""What ``privbandit new`` writes: a file to change, its test, which passes, and the commands that come next."""

import keyword
import os
from collections.abc import Iterator
from pathlib import Path
from string import Template

from privbandit_envs.files import atomic
from privbandit_envs.validate import one_of, shown

KINDS = ("env", "agent", "local-agent", "joint-agent", "audit", "experiment")
SKELETONS = Path(__file__).parent / "skeletons"
SMALL = "--env privbandit/Linear-v0 --set n_arms=3 --set dim=2 --users 20000 --seeds 5"
NEXT = {
    "env": [
        "python test_$module.py",
        "privbandit show $module:$module/$Class-v0",
        "privbandit run --env $module:$module/$Class-v0 --agent auto-joint --agent linucb "
        "--agent uniform --seeds 5 --out runs/$module",
    ],
    "agent": [
        "python test_$module.py",
        "privbandit show $module:$name",
        f"privbandit run {SMALL} --agent $module:$name --agent linucb --agent uniform --out runs/$module",
    ],
    "local-agent": [
        "python test_$module.py",
        "privbandit show $module:$name",
        "privbandit audit $module:$name --epsilon 1 --out runs/$module",
        f"privbandit run {SMALL} --agent $module:$name --agent ldp-greedy --agent uniform --out runs/$module",
    ],
    "joint-agent": [
        "python test_$module.py",
        "privbandit show $module:$name",
        "privbandit audit $module:$name --epsilon 1 --out runs/$module",
        f"privbandit run {SMALL} --agent $module:$name --agent jdp-linucb --agent uniform --out runs/$module",
    ],
    "audit": ["python test_$module.py", "privbandit audit $module:$name --epsilon 1 --out runs/$module"],
    "experiment": [
        "privbandit reproduce $module.yaml --scale smoke",
        "privbandit reproduce $module.yaml",
        "privbandit report runs/$module",
    ],
}
"""The commands that lead from a new file to its page, its audit and its line in a figure."""


def begin(kind: str, name: str, folder: Path) -> Iterator[str]:
    """Write a skeleton and its test into a folder; yield sentences about it.

    Args:
        kind: one of ``KINDS``.
        name: of the new object, such as ``mine`` or ``my-agent``; the module is called likewise, with ``_`` for ``-``.
        folder: of the files, which must not be there yet.

    Raises:
        ValueError: another kind, a name that is none or taken, or a file that is there.
    """
    one_of(KINDS, kind=kind)
    module = checked(name).replace("-", "_")
    names = {"name": name, "module": module, "Class": "".join(part.capitalize() for part in module.split("_"))}
    test = {"env": "env_test", "audit": "audit_test"}.get(kind, "agent_test")
    sources = {f"{module}.py": kind.replace("-", "_"), f"test_{module}.py": test}
    sources = {f"{module}.yaml": kind} if kind == "experiment" else sources
    for file in sources:
        if os.path.lexists(folder / file):
            raise ValueError(f"{file} is there; choose another name, or move it.")
    for file, source in sources.items():
        text = (SKELETONS / f"{source}.txt").read_text(encoding="utf-8")
        with atomic(folder / file) as target:
            target.write(Template(text).substitute(names))
    yield f"written: {', '.join(sources)}; the first has lines to fill in. What comes next:"
    yield from (f"  {Template(command).substitute(names)}" for command in NEXT[kind])


def checked(name: str) -> str:
    """Return a name that a module of one's own can have, or raise a ValueError."""
    from importlib.util import find_spec

    from privbandit_agents.zoo.entries import AGENTS

    module = name.replace("-", "_")
    if not (module.isidentifier() and module.isascii() and module == module.lower() and not keyword.iskeyword(module)):
        raise ValueError(f"the name must be small letters, digits and - or _, a letter first; got {shown(name)}.")
    if name in AGENTS or find_spec(module) is not None:
        raise ValueError(f"there is something called {name!r}; choose another name.")
    return name
