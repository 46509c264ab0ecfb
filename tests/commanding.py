"""The command line within this process: what it prints, and its exit code."""

import io
import math
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from privbandit_agents.cli import commands


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, its output, and the error that it did not catch, if any."""

    exit_code: int
    stdout: str
    stderr: str
    exception: BaseException | None = None


def invoke(*arguments: str, columns: int | None = None) -> Ended:
    """Run a command and its jobs in this process; ``columns`` is the width of the terminal that it thinks it has."""
    forget()
    out, err = io.StringIO(), io.StringIO()
    code, error = 0, None
    environment = {} if columns is None else {"COLUMNS": str(columns)}
    here = mock.patch("privbandit_agents.experiments.running.engine.LIGHT", math.inf)
    with here, mock.patch.dict("os.environ", environment), redirect_stdout(out), redirect_stderr(err):
        if columns is None:
            os.environ.pop("COLUMNS", None)
        try:
            commands.app(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as other:
            code, error = 1, other
    forget()
    return Ended(code, out.getvalue(), err.getvalue(), error)


def but_at_work(text: str) -> str:
    """Return what a command wrote to stderr without the lines that a slow machine brings."""
    return re.sub(r"privbandit .*: at work for .*\n", "", text)


def forget() -> None:
    """Let the next command find out anew how wide its terminal is."""
    commands.console_out.cache_clear()
    commands.err.cache_clear()
