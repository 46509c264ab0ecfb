"""The command ``privbandit``, also ``python -m privbandit``; Ctrl-C stops it while modules are still imported, too."""

import os
import signal


def main() -> None:
    """Run the command."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # what is ignored stays ignored
        signal.signal(signal.SIGINT, stop)
    from privbandit_agents.cli.main import main as command

    signal.signal(signal.SIGINT, usual)
    command()


def stop(*_: object) -> None:
    """End the process: inside an import an exception may go anywhere."""
    os.write(2, b"stopped.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
