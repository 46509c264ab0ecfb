"""The ``privbandit`` command."""

import os
import sys

BENCH = "crc32c filelock joblib matplotlib polars pydantic rich ruamel tensorboard threadpoolctl typer".split()
"""What the command needs beyond the core of the package: the extra ``bench``."""


def main() -> None:
    """Run the command; if a package it needs is missing, say which extra to install.

    Modules in the current folder can be named, as in ``--env my_worlds:mine/World-v0``.
    """
    sys.path.append(os.getcwd())
    try:
        from privbandit_agents.cli.commands import app

        app()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in BENCH:
            raise
        print(f"privbandit needs {package}: run pip install 'privbandit[bench]'.", file=sys.stderr)
        sys.exit(2)
