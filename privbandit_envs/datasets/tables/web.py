"""Downloads from servers that may misbehave: the size and the whole time are limited, every fault is one sentence."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from http.client import HTTPException
from typing import IO, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from privbandit_envs.validate import cut

PATIENCE = 600.0
"""Seconds after which a download fails, however busy the server is."""
T = TypeVar("T")


class SameDoor(HTTPRedirectHandler):
    """Follow a server to another address of the same kind, or to a safer one; never to a file or to FTP."""

    def http_error_302(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any) -> Any:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except BaseException:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme not in {"https", req.type}:
            raise URLError(f"it leads to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def urlopen(url: str, timeout: float) -> Any:
    """Open an address of the web; unlike ``urllib.request.urlopen`` it knows no other addresses."""
    opener = OpenerDirector()
    for handler in (ProxyHandler, UnknownHandler, HTTPHandler, HTTPSHandler):
        opener.add_handler(handler())
    for follower in (HTTPDefaultErrorHandler, SameDoor, HTTPErrorProcessor):
        opener.add_handler(follower())
    return opener.open(url, timeout=timeout)


def download(url: str, largest: int, by_hand: str) -> bytes:
    """Return the content of an address.

    Args:
        url: the address.
        largest: bytes that are taken, at most.
        by_hand: how else to get it, for errors.

    Raises:
        ConnectionError: it cannot be had, is larger, or takes longer than ``PATIENCE``.
    """
    stop = threading.Event()
    try:
        return within(PATIENCE, lambda: content(url, largest, stop))
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is the answer, too
        raise ConnectionError(f"{url} could not be downloaded ({reason(error)}); {by_hand}") from error
    finally:
        stop.set()


def content(url: str, largest: int, stop: threading.Event) -> bytes:
    """Read an answer piece by piece until it ends, or someone has asked to stop."""
    parts: list[bytes] = []
    size = 0
    with urlopen(url, timeout=60.0) as answer:  # seconds without a byte
        while not stop.is_set() and (part := answer.read1(2**16)):
            parts.append(part)
            size += len(part)
            if size > largest:
                raise ValueError(f"it is larger than {largest:,} bytes")
        if getattr(answer, "length", None):
            raise ValueError(f"it breaks off after {size:,} bytes")
    return b"".join(parts)


def within(seconds: float, job: Callable[[], T]) -> T:
    """Return what a job returns, or raise TimeoutError after some seconds; the job may then go on unheard."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(job())
        except BaseException as error:
            outcome.set_exception(error.with_traceback(None))  # which would keep sockets alive

    threading.Thread(target=run, daemon=True).start()
    try:
        return outcome.result(seconds)
    except TimeoutError as error:
        if outcome.done():
            raise
        raise TimeoutError(f"it takes longer than {seconds:g} seconds") from error


def reason(error: BaseException) -> str:
    """Return why it failed, in a few words that a server cannot make many."""
    return cut(str(getattr(error, "reason", None) or error).strip()) or type(error).__name__
