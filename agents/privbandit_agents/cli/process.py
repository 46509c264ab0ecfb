"""What the command has of the system: standard streams whose loss stops nothing, and Ctrl-C."""

import io
import os
import sys
from typing import Any, Literal


class Lasting(io.FileIO):
    """A stream whose reader may leave, or whose disk may be full: what cannot be written is left out.

    ``lost`` is why.
    """

    lost: OSError | None = None

    def write(self, data: Any) -> int:
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        return memoryview(data).nbytes


def lasting(name: Literal["stdout", "stderr"]) -> Lasting:
    """Replace a standard stream of this process by one that lasts, and return its file; a closed one leads nowhere.

    Characters that its encoding does not have are written as escapes.
    """
    old = getattr(sys, name)
    file = Lasting(os.open(os.devnull, os.O_WRONLY) if old is None else old.fileno(), "w", closefd=False)
    encoding = "utf-8" if old is None else old.encoding
    lines = name == "stderr" or file.isatty()
    setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(file), encoding, "backslashreplace", line_buffering=lines))
    return file


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the Ctrl-C behind an error, if there is one: inside an import it may have become any other."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error
