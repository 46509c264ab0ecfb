"""Result files: one per job, written whole or not at all, and checked when read."""

import hashlib
import json
import os
import re
import warnings
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from privbandit_agents.experiments.names import canonical, name_of, result_path
from privbandit_agents.experiments.store.provenance import code
from privbandit_agents.experiments.usage import on_one_line
from privbandit_envs.files import atomic, regular

SCHEMA = 4
LARGEST = 2**27
"""Bytes of the largest result that is read."""
Floats = NDArray[np.float64]
JSON = dict[str, Any]
PASSING = ("a worker process died", "MemoryError:")
"""How reasons begin that earlier versions stored, though another day they may not be true."""


CONTROL = re.compile(
    rb"(?i)(?<!\\)(?:\\\\)*\\(?:[bfr]|u00(?:0[0-8b-f]|1[0-9a-f]|7f|[89][0-9a-f]))|\x7f|\xc2[\x80-\x9f]"
)
"""What no text of a result has, as JSON: control characters, which could move the cursor of a terminal."""
HUGE = 1e150
"""Sums of regret or reward lie below: their squares are numbers, too."""


class Closed(BaseModel):
    """A part of a result file: it has no other keys, and values have these very types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TrialJob(Closed):
    """What a trial plays."""

    env: str
    agent: str
    horizon: int = Field(ge=1, lt=2**53)
    seed: int = Field(ge=0)
    checkpoints: int = Field(ge=1)
    env_kwargs: dict[str, Any]
    config: dict[str, Any]


class FitJob(Closed):
    """What a fit learns from."""

    world: dict[str, Any]
    method: dict[str, Any]
    epsilon: float | None
    replication: int = Field(ge=0, lt=2**53)
    shrink: int = 1


class Promise(Closed):
    """What an agent promises; null where it promises no such number."""

    notion: str | None
    epsilon: float | None = Field(ge=0)
    delta: float | None = Field(ge=0)
    rho: float | None = Field(ge=0)


class TrialNotes(Closed):
    """What is told of a trial."""

    simulation: str
    played: str = ""
    privacy: str = ""
    guarantee: Promise | None = None
    visits: int = Field(1, ge=1, lt=2**53)
    person: float = Field(0.0, ge=0)


class Parts(Closed):
    """What both kinds of files have."""

    settings: dict[Literal["env", "agent"], dict[str, Any]] = Field(min_length=2)
    provenance: dict[str, str | None]


class TrialParts(Parts):
    """The content of a trial's file."""

    kind: Literal["trial"]
    job: TrialJob
    notes: TrialNotes
    arrays: dict[Literal["checkpoints", "regret", "reward", "mad", "mse", "static", "calls", "claimed", "seconds"], str]


class FitParts(Parts):
    """The content of a fit's file."""

    kind: Literal["fit"]
    job: FitJob
    notes: dict[Literal["reasons"], list[str | None]]
    arrays: dict[Literal["accuracy", "seconds"], str]


SCHEMAS: TypeAdapter[TrialParts | FitParts] = TypeAdapter(Annotated[TrialParts | FitParts, Field(discriminator="kind")])


class CorruptResultError(ValueError):
    """A result file differs from the written one."""

    suffix = "corrupt"


class StaleResultError(CorruptResultError):
    """Another version of the code wrote the result file, or had other defaults."""

    suffix = "stale"


class ChangedCodeError(StaleResultError):
    """What played had other code than today; the message is one for all jobs."""


@dataclass(frozen=True, eq=False, repr=False)
class Finished:
    """The result of a job.

    Attributes:
        kind: ``"trial"`` or ``"fit"``.
        job: its spec, as JSON values; the hash of it is the job's name.
        settings: all settings with their defaults, by ``env`` and ``agent``.
        arrays: of a trial ``checkpoints, regret, reward``, maybe ``mad, mse, static``, shape (c,), and ``seconds``,
            shape (1,); of a fit ``accuracy, seconds``, one for each point of the grid, NaN where it could not run.
        notes: of a trial ``simulation``, ``played`` (the agent, which for a name that chooses is another one),
            ``privacy`` (its promise, in words), ``guarantee`` (its notion, epsilon, delta and rho) and ``visits``
            (how often one person comes at most); of a fit ``reasons``, a sentence for each point that could not run, or
            None.
        provenance: versions, commit, host and date; ``agent_source`` and ``env_source``, hashes of code that is not
            ours, or None.
    """

    kind: str
    job: JSON
    settings: JSON
    arrays: Mapping[str, Floats]
    notes: JSON = field(default_factory=dict)
    provenance: Mapping[str, str | None] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the job and the sizes of its result."""
        sizes = ", ".join(f"{name}[{len(array)}]" for name, array in self.arrays.items())
        return f"Finished({self.kind} {self.name}: {sizes})"

    @property
    def name(self) -> str:
        return name_of(self.job)

    @property
    def seconds(self) -> float:
        return float(np.nansum(self.arrays["seconds"]))

    @property
    def reasons(self) -> list[str | None]:
        """Why points of the grid could not run; None where they could."""
        return list(self.notes.get("reasons", []))

    @property
    def whole(self) -> bool:
        """Whether all is there: a trial's finite curves up to its horizon; a fit's numbers or reason at each point."""
        told = {"privbandit", "commit"} <= self.provenance.keys()
        return told and (self._whole_trial() if self.kind == "trial" else self._whole_fit())

    def _whole_trial(self) -> bool:
        users, curves = self.arrays["checkpoints"], [self.arrays["regret"], self.arrays["reward"]]
        lengths = {len(array) for name, array in self.arrays.items() if name != "seconds"}
        increasing = len(users) > 0 and users[0] >= 1 and bool((np.diff(users) > 0).all())
        reached = increasing and lengths == {len(users)} and bool(users[-1] == self.job["horizon"])
        timed = self.arrays["seconds"].shape == (1,)
        return reached and timed and bool((np.abs(curves) < HUGE).all())

    def _whole_fit(self) -> bool:
        points = prod(map(len, self.job["method"]["grid"].values()))
        could = ~np.isnan([self.arrays["accuracy"], self.arrays["seconds"]])
        ran = [reason is None for reason in self.reasons]
        return len(ran) == could.shape[1] == points and bool((could == ran).all())


def encode(finished: Finished) -> bytes:
    """Return the bytes of a result file: a line with schema version and checksum, and the JSON in a second line.

    The arrays are the base64 of their bytes, so that numbers come back bit for bit.
    """
    arrays = {name: b64encode(np.array(array, "<f8").tobytes()).decode() for name, array in finished.arrays.items()}
    parts = {"kind": finished.kind, "job": finished.job, "settings": finished.settings, "arrays": arrays}
    body = canonical({**parts, "notes": finished.notes, "provenance": dict(finished.provenance)}).encode()
    return b"%b\n%b\n" % (header_of(body), body)


def header_of(body: bytes) -> bytes:
    return b'{"checksum":"%b","schema":%d}' % (hashlib.sha256(body).hexdigest().encode(), SCHEMA)


def decode(body: bytes) -> Finished:
    """Return the result that the second line holds.

    Raises:
        ValueError: it is not a whole one; the message names the part.
    """
    parts = from_json(body)
    try:
        SCHEMAS.validate_python(parts)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"][1:])
        raise ValueError(f"{place or 'its kind'}: {first['msg']}"[:200]) from None
    if CONTROL.search(body):
        raise ValueError("a text has control characters")
    try:
        arrays = {
            name: np.frombuffer(b64decode(text, validate=True), "<f8") for name, text in parts.pop("arrays").items()
        }
        found = Finished(**parts, arrays=arrays)
        if found.whole:
            return found
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ValueError("its numbers are not those of such a job")


def write_result(folder: str | Path, finished: Finished) -> Path:
    """Write the result file of a job; a failure half-way leaves nothing behind.

    Returns:
        Its path, ``<folder>/trials/<name>.json``.
    """
    path = result_path(folder, finished.name)
    with atomic(path, "wb", sync=False) as file:
        file.write(encode(finished))
    return path


def read_result(path: str | Path) -> Finished:
    """Read a result file, which must be, byte for byte, the one written under the name of its job.

    Raises:
        CorruptResultError: it is not.
        StaleResultError: another version wrote it.
        FileNotFoundError: there is none.
    """
    path = Path(path)
    try:
        with regular(path, LARGEST) as file:
            header, _, rest = file.read().partition(b"\n")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptResultError(f"{path} cannot be read ({error}); delete it and run the job again.") from error
    body = rest[:-1]
    if header == header_of(body) and rest.endswith(b"\n"):
        try:
            found, why = decode(body), "its name is that of another job"
            if found.name == path.stem:
                return found
        except ValueError as error:
            why = on_one_line(str(error))
        raise CorruptResultError(f"{path} is not the result of its job ({why}); delete it and run the job again.")
    try:
        schema = json.loads(header)["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        schema = None
    if schema not in (SCHEMA, None):
        raise StaleResultError(f"{path} has schema {schema!r}, not {SCHEMA}: another version wrote it.")
    raise CorruptResultError(f"{path} is corrupt: its checksum does not match; delete it and run the job again.")


def known_result(
    folder: str | Path,
    name: str,
    settings: Mapping[str, Any],
    sources: Mapping[str, str | None] | None = None,
    keep: bool = False,
) -> Finished | None:
    """Return the result of a job that was run before, or None.

    A file is set aside as ``.corrupt`` if it is damaged, and as ``.stale`` if another version wrote it, or if a default
    or the code of what plays has changed since.

    Args:
        folder: of the results.
        name: of the job.
        settings: today's.
        sources: hashes of what plays today; None: they are not compared.
        keep: whether a result counts if only these differ.
    """
    path = result_path(folder, name)
    try:
        found = read_result(path)
        check_settings(path, found.settings, settings)
        check_reasons(path, found)
        check_code(folder, found, sources or {}, keep)
        return found
    except FileNotFoundError:
        return None
    except CorruptResultError as error:
        set_aside(path, error)
        return None


def check_code(folder: str | Path, found: Finished, sources: Mapping[str, str | None], keep: bool) -> None:
    """Raise ChangedCodeError if what plays had other code; warn of an edited checkout of this package, or of ``keep``.

    Warnings are the same for all jobs of an agent, so that one of them is shown.
    """
    before = found.provenance
    for key, source in sources.items():
        if key in before and before[key] != source:
            side = key.removesuffix("_source")
            what = str(found.job.get(side) or found.job.get("method", {}).get("agent", ""))
            changed = f"the code of {what} has changed since results in {folder} were made"
            if not keep:
                raise ChangedCodeError(f"{changed}: they are set aside as .stale, and it runs again; --keep uses them.")
            once(f"{changed}; --keep uses them.")
    versions = before["commit"], code()["commit"]
    if versions[0] != versions[1] and all(versions) and any("-dirty" in str(version) for version in versions):
        made, now = (str(version)[:60] for version in versions)
        text = f"results in {folder} were made by another state of this package, {made}, than today's, {now}"
        once(f"{text}; another --out keeps them apart.")


@cache
def once(text: str) -> None:
    """Warn, once a process."""
    warnings.warn(text, stacklevel=2)


def check_settings(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise StaleResultError if a job was run with other defaults than today's."""
    changes = []
    for side in ("env", "agent"):
        before, after = old.get(side, {}), new.get(side, {})
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                changes.append(f"{side}.{key} was {before.get(key)!r} and is {after.get(key)!r}")
    if old != new:
        raise StaleResultError(f"{path} was run with other defaults ({[*changes, 'other settings'][0]}).")


def check_reasons(path: Path, found: Finished) -> None:
    """Raise StaleResultError if an earlier version took a lack of memory, or a dead process, for a result."""
    if passing := [reason for reason in found.reasons if reason and reason.startswith(PASSING)]:
        raise StaleResultError(f"{path} failed for a reason that may have passed ({passing[0].rstrip('.')}).")


def set_aside(path: Path, why: CorruptResultError) -> None:
    """Rename a result that does not count, with a warning; another process may have done so already."""
    aside = free_name(path, why.suffix)
    try:
        path.replace(aside)
    except FileNotFoundError:
        return
    if isinstance(why, ChangedCodeError):
        once(str(why))
    else:
        warnings.warn(f"{why} It was set aside as {aside.name}; the job runs again.", stacklevel=4)


def free_name(path: Path, suffix: str) -> Path:
    """Return a file's name with a suffix, and a number if such files are there."""
    aside, number = path.with_name(f"{path.name}.{suffix}"), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.{suffix}-{number}")
    return aside
