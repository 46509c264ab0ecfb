"""The ``privbandit`` command, and the codes with which it ends (docs/exit-codes.md)."""

import os
import sys
import traceback
from contextlib import suppress

from privbandit_agents.cli.process import TRACEBACK, heed_interrupts, interruption, lasting, leave, speak_up

OURS = "This is an error of ours: please report it as an issue of the project"
READERS = (["report"], ["frontier"])
"""Commands for which the current folder is not searched for modules."""


def main() -> None:
    """Run the command and end the process, whatever happens with one sentence and a code.

    Modules in the current folder can be named, as in ``--env my_worlds:mine/World-v0``, but to the commands that read
    results: a folder of somebody else's may have modules, too.
    """
    with suppress(OSError):  # the current folder may be gone
        if sys.argv[1:2] not in READERS:
            sys.path.append(os.getcwd())
        elif sys.path[:1] in ([""], [os.getcwd()]):  # by ``python -m``
            del sys.path[0]
    heed_interrupts()
    output, errors = lasting("stdout"), lasting("stderr")
    speak_up(" ".join(sys.argv[1:2])[:60], output, errors)
    code = ended()
    sys.stdout.flush()
    if output.lost is not None and not isinstance(output.lost, BrokenPipeError):
        print(f"the output could not be written: {output.lost.strerror}.", file=sys.stderr)
        code = code or 4
    leave(code)


def ended() -> int:
    """Run the command; return its code after saying in a sentence what nothing else caught."""
    try:
        from privbandit_agents.cli import commands

        commands.app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException as error:
        if (stop := interruption(error)) is not None:
            print(str(stop) or "stopped.", file=sys.stderr)
            return 130
        if package := missing(error):
            verb = " ".join(["privbandit", *sys.argv[1:2]])
            print(f"{verb} needs {package}: run {brings(package)}.", file=sys.stderr)
            return 2
        if shown := os.environ.get(TRACEBACK):
            traceback.print_exc()
        how = "with this traceback" if shown else f"with the traceback, which {TRACEBACK}=1 shows"
        said = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"{said[:1000]} -- {OURS}, {how}.", file=sys.stderr)
        return 3
    return 0


def missing(error: BaseException) -> str:
    """Return the foreign package that an error reports as not installed, or ""."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return "" if package.startswith("privbandit") else package


def brings(package: str) -> str:
    """Return the command that installs a package which the command needs; nothing of the project is downloaded."""
    from privbandit_agents.experiments.usage import EXTRAS

    return f"pip install 'privbandit[{EXTRAS.get(package, 'bench')}]'"
