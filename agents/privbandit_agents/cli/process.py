"""The command's ties to the system: Ctrl-C, and standard streams that it can lose without stopping."""

import _thread
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Literal, NoReturn

SECONDS_TO_END = 30
"""Seconds that a stopped command has to end."""
QUIET = 4.0
"""Seconds without a word after which a command says that it is at work."""
LEAVING: list[int] = []
"""The exit code, once the command has ended."""

TRACEBACK = "PRIVBANDIT_TRACEBACK"
"""The environment variable that adds the traceback to the sentence of an error."""


class Lasting(io.FileIO):
    """A stream that drops text if its reader has left or its disk is full.

    ``lost`` is why; ``wrote`` is when it was written last.
    """

    lost: OSError | None = None
    wrote = 0.0

    def write(self, data: Any) -> int:
        self.wrote = time.monotonic()
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


def speak_up(verb: str, *files: Lasting) -> None:
    """Say on stderr that work goes on, after ``QUIET`` seconds without a word, and after a minute each minute."""
    started = time.monotonic()

    def listen() -> None:
        while not LEAVING:
            time.sleep(0.5)
            now = time.monotonic()
            pause = QUIET if now - started < 60 else 60.0
            if now - max(started, *(file.wrote for file in files)) >= pause and not LEAVING:
                print(f"privbandit {verb}: at work for {now - started:.0f} s.", file=sys.stderr)

    threading.Thread(target=listen, daemon=True).start()


def leave(code: int) -> NoReturn:
    """End this process with a code: it is done, so nothing interrupts it any more, and what hangs is left."""
    LEAVING.append(code)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    later(SECONDS_TO_END, partial(os._exit, code))
    sys.exit(code)


def heed_interrupts() -> None:
    """Make Ctrl-C, and SIGTERM likewise, end this process in any case, unless whoever started it had it ignored.

    It raises KeyboardInterrupt as usual. One that is lost in a callback is raised again, and a process that is still
    there ``SECONDS_TO_END`` seconds later, since a lock is never released, ends at once.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
        sys.unraisablehook = unraisable
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, interrupted)


def interrupted(number: int, frame: FrameType | None) -> None:
    later(SECONDS_TO_END, stop)
    signal.default_int_handler(number, frame)


def later(seconds: float, do: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()


def stop() -> None:
    os.write(2, b"stopped.\n")
    os._exit(130)


def unraisable(what: "sys.UnraisableHookArgs") -> None:
    if issubclass(what.exc_type, KeyboardInterrupt):
        later(0.1, _thread.interrupt_main)
    else:
        sys.__unraisablehook__(what)


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the Ctrl-C behind an error, if there is one: inside an import it may have become any other."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error
