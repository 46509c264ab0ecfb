"""The command ``privbandit``, also ``python -m privbandit``; Ctrl-C stops it while modules are still imported, too."""

import os
import signal
import sys
from contextlib import suppress

only_tells = False
"""Whether the command is asked for a text alone: ``privbandit_agents`` looks here, and then loads no environments."""


def main() -> None:
    """Run the command."""
    global only_tells
    only_tells = sys.argv[1:2] in ([], ["list"], ["--help"], ["-h"]) or sys.argv[2:] in (["--help"], ["-h"])
    if sys.argv[1:] == ["--version"]:
        with suppress(OSError):  # the command itself says what is wrong with the output
            return tell_version()
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # what is ignored stays ignored
        signal.signal(signal.SIGINT, stop)
    sys.modules.setdefault("privbandit", sys.modules[__name__])  # also where it is run by ``python -m``
    from privbandit_agents.cli.main import main as command

    signal.signal(signal.SIGINT, usual)
    command()


def tell_version() -> None:
    """Write the version, for which nothing else need be imported."""
    from importlib.metadata import version

    os.write(1, f"privbandit {version('privbandit')}\n".encode())


def stop(*_: object) -> None:
    """End the process: inside an import an exception may go anywhere."""
    os.write(2, b"stopped.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
