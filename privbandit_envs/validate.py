"""Checks of arguments; an error is one sentence with the value and the way out.

Every check takes one keyword, whose name the error repeats, and returns its value:

    >>> count(n_arms=3)
    3
    >>> count(n_arms=0)
    Traceback (most recent call last):
    ValueError: n_arms must be an integer >= 1; got 0.
"""

import difflib
import heapq
import math
from collections.abc import Iterable, Mapping
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

LONGEST = 60
"""Most characters of a value that an error shows."""


def number(**named: float) -> float:
    """Return a finite number."""
    ((name, value),) = named.items()
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not is_finite(value):
        raise ValueError(f"{name} must be a finite number; got {shown(value)}.")
    return value


def at_least(minimum: float, **named: float) -> float:
    """Return a finite number >= ``minimum``."""
    ((name, value),) = named.items()
    if number(**named) < minimum:
        raise ValueError(f"{name} must be >= {minimum:g}; got {shown(value)}.")
    return value


def positive(**named: float) -> float:
    """Return a finite number > 0."""
    return above(0, **named)


def above(minimum: float, **named: float) -> float:
    """Return a finite number > ``minimum``."""
    ((name, value),) = named.items()
    if number(**named) <= minimum:
        raise ValueError(f"{name} must be > {minimum:g}; got {shown(value)}.")
    return value


def count(**named: int) -> int:
    """Return an integer >= 1."""
    ((name, value),) = named.items()
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        raise ValueError(f"{name} must be an integer >= 1; got {shown(value)}.")
    return int(value)


def seed(**named: int | None) -> int | None:
    """Return None or an integer >= 0."""
    ((name, value),) = named.items()
    if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < 0):
        raise ValueError(f"{name} must be an integer >= 0; got {shown(value)}.")
    return value if value is None else int(value)


def fraction(**named: float) -> float:
    """Return a number in [0, 1]."""
    ((name, value),) = named.items()
    if not 0 <= number(**named) <= 1:
        raise ValueError(f"{name} must lie in [0, 1]; got {shown(value)}.")
    return value


def one_of(options: Iterable[str], **named: str) -> str:
    """Return one of ``options``; the error names the nearest one.

    Examples:
        >>> one_of(("laplace", "gaussian"), noise="gausian")
        Traceback (most recent call last):
        ValueError: noise must be one of laplace, gaussian; got 'gausian' (did you mean 'gaussian'?).
    """
    ((name, value),) = named.items()
    known = list(options)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}; got {shown(value)}{did_you_mean(value, known)}.")
    return value


def numbers(size: int, **named: object) -> NDArray[np.float64]:
    """Return ``size`` finite numbers as an array.

    Examples:
        >>> numbers(2, theta=[0.6, 0.8])
        array([0.6, 0.8])
    """
    ((name, value),) = named.items()
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {size} finite numbers; got {shown(value)}.")
    return array


def is_finite(value: float) -> bool:
    """Return whether a number is finite and small enough for a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def as_number(text: str) -> float:
    """Return the number that a text spells in ASCII digits; ``float`` alone takes ``1_0`` and other digits, too.

    Raises:
        ValueError: the text spells no number.
    """
    if not text.isascii() or "_" in text:
        raise ValueError(f"no number: {shown(text)}")
    return float(text)


def is_number(text: str) -> bool:
    """Return whether a text spells a finite number."""
    try:
        return math.isfinite(as_number(text))
    except ValueError:
        return False


def shown(value: object) -> str:
    """Return a value as an error shows it: as Python writes it, cut after 60 characters.

    Examples:
        >>> shown("two"), shown("2" * 10**6)[-5:]
        ("'two'", '22...')
    """
    try:
        text = repr(value[: LONGEST + 1] if isinstance(value, str) else value)
    except ValueError:  # an integer of more digits than Python writes
        text = f"a very long {type(value).__name__}"
    return cut(text)


def cut(text: str) -> str:
    """Return a text of others as an error shows it: in one line of printable letters, cut after 60 of them."""
    line = " ".join(map(str.strip, text[: 2 * LONGEST].splitlines()))
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def listed(names: Iterable[str], many: str = "others") -> str:
    """Return names as an error lists them: all of a few, each of them cut, and the number of ``many``."""
    known = list(names)
    return ", ".join(map(cut, known)) if len(known) <= 30 else f"{len(known):,} {many}"


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest known name, or ``""`` if none is near.

    Of many names only those are compared that begin and end most like the value, so that a table of a hundred thousand
    columns takes no longer than a small one.
    """
    near = _nearest(value, known)
    return f" (did you mean {near!r}?)" if near else ""


def unknown(what: str, value: object, known: Iterable[str], command: str) -> ValueError:
    """Return the error for a name of many: the nearest one, and the command that shows all.

    Examples:
        >>> print(unknown("no agent", "lincub", ["linucb", "uniform"], "privbandit list agents"))
        no agent is called 'lincub'; did you mean linucb? `privbandit list agents` shows all.
    """
    near = _nearest(value, known)
    hint = f"did you mean {near}? " if near else ""
    return ValueError(f"{what} is called {shown(value)}; {hint}`{command}` shows all.")


def _nearest(value: object, known: Iterable[str]) -> str:
    """Return the nearest known name, or ``""`` if none is near."""
    text, names = str(value)[:LONGEST], [name for name in known if len(name) <= 2 * LONGEST]
    if len(names) > 500:  # letter by letter
        names = heapq.nlargest(500, names, key=lambda name: _in_common(text, name))
    return next(iter(difflib.get_close_matches(text, names, n=1, cutoff=0.5)), "")


def _in_common(one: str, other: str) -> int:
    """Return how many letters two names share at their beginnings and at their ends."""
    pairs = zip(one, other, strict=False), zip(reversed(one), reversed(other), strict=False)
    return sum(1 for way in pairs for _ in takewhile(lambda pair: pair[0] == pair[1], way))


def reported(info: Mapping[str, object], env: object, *keys: str) -> None:
    """Raise unless the ``info`` of a step has the keys of a bandit.

    Args:
        info: of a step.
        env: names the environment in the error.
        keys: the needed ones: ``"feedback"`` to learn from, ``"regret"`` to measure.

    Raises:
        ValueError: a key is missing: the environment is no bandit.

    Examples:
        >>> reported({"TimeLimit.truncated": False}, "CartPole-v1", "feedback", "regret")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: CartPole-v1 is not a bandit: ... has no 'feedback' and no 'regret'; privbandit_envs.AsBandit...
    """
    missing = [repr(key) for key in keys if key not in info]
    if missing:
        lacks = f"the info of a step has no {' and no '.join(missing)}"
        raise ValueError(f"{env} is not a bandit: {lacks}; privbandit_envs.AsBandit(env, best=...) adds it.")


def refuse(source: str, **given: tuple[object, object]) -> None:
    """Raise ValueError if an argument that the source decides has another value than its default."""
    for name, (value, default) in given.items():
        if not (type(value) is type(default) and value == default):
            raise ValueError(f"{name} cannot be combined with source {source!r}; leave it out, got {shown(value)}.")
