"""Whatever leaves as bytes, features of these as numbers, and statistics that separate two samples of them."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from privbandit_agents.audits.claims import Floats
from privbandit_agents.base.spaces import Array

PLAIN = "__new__", "__reduce_ex__", "__reduce__", "__getstate__"  # of a class whose attributes are all it keeps
CUT = 8.0  # features of a classifier are cut at this number of standard deviations


def encoded(thing: object) -> bytes:
    """Return the canonical encoding of whatever leaves a device or a server, or of a state: equal bytes, equal things.

    Types, dtypes, shapes, lengths, keys in their order, signs of zero and payloads of NaN are all in it.

    Raises:
        TypeError: a part that no bytes can be made of.
    """
    parts = [part if isinstance(part, bytes) else part.tobytes() for part in pieces(thing)]
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def pieces(thing: object, users: int = 0, within: tuple[object, ...] = ()) -> list[bytes | Array]:
    """Return the canonical encoding in order: bytes of the structure, and arrays of numbers.

    Of containers these are the parts; of other objects, what pickle would keep. With ``users`` an array or a list with
    a row for each of them is one of rows, and their number is no structure.
    """
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    parts: Iterable[object] = ()
    fits = isinstance(thing, int) and -(2**63) <= thing < 2**63
    if fits or (isinstance(thing, float | complex) and not isinstance(thing, np.generic)):  # most parts are such
        return [kind.encode(), np.asarray(thing)]
    if any(thing is one for one in within):
        kind, parts = f"{kind} {within.index(thing)} again", ()
    elif isinstance(thing, np.generic) or type(thing) is np.ndarray:
        kind += thing.dtype.str + str(("n", *thing.shape[1:]) if users and thing.shape[:1] == (users,) else thing.shape)
        if thing.dtype.kind in "biufcmM":
            return [kind.encode(), np.asarray(thing)]
        parts = np.asarray(thing).ravel().tolist()
    elif users and isinstance(thing, list) and len(thing) == users:
        groups: dict[object, list[int]] = {}
        for place, item in enumerate(thing):
            groups.setdefault(outline(item), []).append(place)
        if len(groups) > 1:
            rows = dict[int, Floats]()
            for places in groups.values():
                rows |= zip(places, numbers([thing[k] for k in places], len(places)), strict=True)
            return [kind.encode(), stacked([rows[k] for k in range(users)])]
        # all items at once, which takes less time
        first, items, many = thing[0], [items_of(item) for item in thing], np.zeros(0, object)
        wide = isinstance(first, int) and not all(-(2**63) <= item < 2**63 for item in thing)  # no array holds them
        if not wide and (isinstance(first, int | float | np.generic) or type(first) is np.ndarray):
            many = np.array(thing)
        said = f"{kind} {type(first)} {len(items[0] or ())} {many.dtype} {many.shape[1:]}".encode()
        if many.dtype.kind in "biufcmM":
            return [said, many]
        if items[0]:
            return [said, *(piece for column in zip(*items, strict=True) for piece in pieces(list(column), users))]
        known = {item: numbers(item)[0] for item in set(thing)} if isinstance(first, str) else {}
        return [said, stacked([known[item] if known else numbers(item)[0] for item in thing])]
    elif isinstance(thing, str | bytes | bytearray | int):
        text = str(thing).encode() if isinstance(thing, int) else thing
        text = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return [f"{kind} {len(text)}".encode(), np.frombuffer(text, np.uint8)]
    elif isinstance(thing, Mapping):
        parts = items_of(thing) or ()
    elif isinstance(thing, set | frozenset):
        parts = sorted(map(encoded, thing))
    elif isinstance(thing, list | tuple):
        parts = thing
    elif isinstance(thing, type | FunctionType | BuiltinFunctionType | ModuleType):
        kind += f" {getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing.__name__)}"
        if isinstance(thing, FunctionType):  # what it holds
            parts = vars(thing), [cell.cell_contents for cell in thing.__closure__ or ()]
    elif thing is not None:
        try:
            made = thing.__reduce_ex__(4)
        except Exception as error:
            raise TypeError(
                f"no bytes can be made of {type(thing).__name__}; send numbers, text, or what is made of them."
            ) from error
        parts = [made] if isinstance(made, str) else [*made[:3], *map(list, (part or () for part in made[3:5]))]
    parts = list(parts)
    found: list[bytes | Array] = [f"{kind} {len(parts)}".encode()]
    for part in parts:
        found += pieces(part, users, (*within, thing))
    return found


def items_of(thing: Any) -> Sequence[Any] | None:
    """Return the parts of a list or a tuple, the keys and values of a mapping or a plain dataclass; None of others."""
    if isinstance(thing, list | tuple):
        return thing
    kind = type(thing)
    slots = any(getattr(base, "__slots__", ()) for base in kind.__mro__)
    plain = is_dataclass(kind) and not slots and all(getattr(kind, name) is getattr(object, name) for name in PLAIN)
    if plain and hasattr(thing, "__dict__"):
        thing = vars(thing)
    return [part for pair in thing.items() for part in pair] if isinstance(thing, Mapping) else None


def outline(thing: Any) -> object:
    """Return what things have in common that can be encoded at once: type, and keys, length, or dtype and shape."""
    if isinstance(thing, np.ndarray | np.generic):
        return type(thing), thing.dtype.str, thing.shape
    items = () if isinstance(thing, str | int | float | np.generic) else items_of(thing) or ()
    return type(thing), len(items), repr([*thing]) if isinstance(thing, Mapping) else ""


def numbers(report: object, users: int = 1) -> Floats:
    """Return features of the encoded reports of n users, shape (n, 1 + D).

    The first says how many numbers there are, and by its fraction, a checksum, with which types, shapes and keys. The
    others are the numbers of which there are: keys and text are numbers, too. One that was sent for all users is in
    every row.
    """
    structure, columns = b"", [np.zeros((users, 1))]
    for piece in pieces(report, users):
        if isinstance(piece, bytes):
            structure += piece
            continue
        values = read(piece)
        counts = piece.ndim and len(piece) == users
        columns.append(values.reshape(users, -1) if counts else np.tile(values.ravel(), (users, 1)))
    found = np.concatenate(columns, axis=1)
    found[:, 0] = found.shape[1] + zlib.crc32(structure) / 2**33
    return found


def read(values: Array) -> Floats:
    """Return numbers of every kind as numbers in [-2e30, 2e30] that differ where these do, and keep their order.

    The zero below 0 is a number of its own, and NaN is one for each payload.
    """
    if values.dtype.kind in "cmM":
        values = values[..., None].view(np.int64 if values.dtype.kind in "mM" else values.real.dtype)
    if values.dtype.kind in "iu" and ((values > 2**53) | (values < -(2**53))).any():
        values = np.stack([values.astype(np.float64), (values & 0xFFFFFFFF).astype(np.float64)], axis=-1)
    found, far = values.astype(np.float64), 1e30  # no sum of squares overflows
    size = np.abs(found)
    if not (size <= far).all():
        bits = found.view(np.uint64)
        payload = 1e3 + 2**14 * (bits >> np.uint64(63)) + (bits & np.uint64(2**51 - 1)) / 2**37
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.copysign(far * (1 + np.minimum(np.log10(size / far), 1e3) / 1e3), found)
        found = np.where(size <= far, found, np.where(np.isnan(found), payload, beyond))
    return np.where((found == 0) & np.signbit(found), -1e-200, found)


def stacked(rows: list[Floats]) -> Floats:
    """Return rows of numbers as one array, the short ones filled up with zeros; none for no rows."""
    out = np.zeros((len(rows), max(map(len, rows), default=0)))
    for row, values in zip(out, rows, strict=True):
        row[: len(values)] = values
    return out


@dataclass(frozen=True)
class Contrast:
    """Statistics of reports that two pilot samples suggest.

    A value that pilot runs saw 8 times or more is an atom: continuous noise has none, and a leak may have one
    that a bin would hide.

    Attributes:
        kept: the coordinates that were not the same in all pilot runs, shape (k,).
        direction: difference of their means over their covariance, or variances if they are many, of length 1, (k,).
        edges: of the bins of each.
        ratios: the log ratio of the two worlds' frequencies in each bin.
        clearest: which of them has histograms that differ most.
        atoms: values of each that occur again and again, rising, and the log ratio of their frequencies.
        learned: a classifier of all coordinates, their sizes and products.
    """

    kept: NDArray[np.intp]
    direction: Floats
    edges: tuple[Floats, ...]
    ratios: tuple[Floats, ...]
    clearest: int
    atoms: tuple[tuple[Floats, Floats], ...]
    learned: "Learned"

    statistics = (
        "projection of all coordinates together",
        "likelihood ratio of all coordinates' histograms, as if independent",
        "likelihood ratio of the clearest coordinate's histograms",
        "largest likelihood ratio of a single value",
        "a classifier of coordinates, their sizes, squares and products",
    )

    @classmethod
    def of(cls, zero: Floats, one: Floats) -> "Contrast":
        """Compare pilot samples of the two worlds, shapes (n, D) and (n, D')."""
        width = max(zero.shape[1], one.shape[1])
        zero, one = padded(zero, width), padded(one, width)
        pooled = np.concatenate([zero, one])
        kept = np.flatnonzero((pooled != pooled[:1]).any(axis=0))
        zero, one = zero[:, kept], one[:, kept]
        means = zero.mean(axis=0), one.mean(axis=0)
        direction = 2 * (means[0] - means[1]) / (zero.var(axis=0) + one.var(axis=0) + 1e-9)
        if (
            1 < len(kept) <= min(256, len(zero) // 2)
        ):  # noise that coordinates share cancels; pilot runs do not show that of more
            noise = np.concatenate([zero - means[0], one - means[1]])
            direction = solved(noise, (means[0] - means[1])[:, None])[:, 0]
        rising = [np.ascontiguousarray(np.sort(seen, axis=0).T) for seen in (pooled[:, kept], zero, one)]
        edges = tuple(edges_of(values) for values in rising[0])
        rates = [(rates_of(a, e), rates_of(b, e)) for a, b, e in zip(*rising[1:], edges, strict=True)]
        apart = [float(np.abs(a - b).sum()) for a, b in rates]
        return cls(
            kept,
            direction / max(float(np.linalg.norm(direction)), 1e-9),
            edges,
            tuple(np.log(a) - np.log(b) for a, b in rates),
            int(np.argmax(apart)) if apart else 0,
            tuple(map(atoms_of, *rising[1:], repeats(rising[1]) | repeats(rising[2]))),
            Learned.of(zero, one),
        )

    def __call__(self, reports: Floats) -> Floats:
        """Return the statistics of reports (n, D), shape (n, 5); coordinates that are missing count as 0."""
        if not len(self.kept):
            return np.zeros((len(reports), len(self.statistics)))
        values = padded(reports, int(self.kept[-1]) + 1)[:, self.kept]
        terms = np.array(
            [
                ratios[np.searchsorted(edges, column, side="right")]
                for column, edges, ratios in zip(values.T, self.edges, self.ratios, strict=True)
            ]
        )
        single = np.array([ratio_of(column, *atoms) for column, atoms in zip(values.T, self.atoms, strict=True)])
        largest = np.take_along_axis(single, np.abs(single).argmax(axis=0)[None], axis=0)[0]
        found = [values @ self.direction, terms.sum(axis=0), terms[self.clearest], largest]
        return np.column_stack([*found, self.learned(values)])


class Learned(NamedTuple):
    """A logistic classifier of deviations, their sizes and squares, and products of a few, fitted to pilot samples.

    Benjamin Bichsel, Samuel Steffen, Ilija Bogunovic and Martin Vechev, "DP-Sniper: Black-Box Discovery of Differential
    Privacy Violations using Classifiers", IEEE S&P 2021.

    Attributes:
        chosen: the coordinates that it reads, those whose means or sizes differ most, shape (k,).
        scale: mean deviation of each, shape (k,).
    """

    chosen: NDArray[np.intp]
    center: Floats
    scale: Floats
    weights: Floats

    @classmethod
    def of(cls, zero: Floats, one: Floats) -> "Learned":
        """Fit the weights to two samples (n, D), by a few Newton steps from none at all."""
        zero, one = zero[:2000], one[:2000]
        center = (zero.mean(axis=0) + one.mean(axis=0)) / 2
        scale = (np.abs(zero - center).mean(axis=0) + np.abs(one - center).mean(axis=0)) / 2 + 1e-9
        # coordinates whose mean or size moves most, in units of their noise
        moved = np.zeros(len(center))
        for a, b in ((zero, one), (np.abs(zero - center), np.abs(one - center))):
            moved += (a.mean(axis=0) - b.mean(axis=0)) ** 2 / (a.var(axis=0) + b.var(axis=0) + 1e-9 * scale**2)
        chosen = np.sort(np.argsort(-moved)[:8])  # the coordinates that move most
        untrained = cls(chosen, center[chosen], scale[chosen], np.zeros(0))
        seen = [untrained.features(world) for world in (zero, one)]
        x, y = np.concatenate(seen), np.repeat([1.0, 0.0], [len(zero), len(one)])
        weights, ridge = np.zeros(x.shape[1]), x.shape[1] * np.eye(x.shape[1]) / 16.0
        for _ in range(2):  # Newton steps
            chance = scipy.special.expit(x @ weights)
            steep = x.T * (chance * (1 - chance)) @ x + ridge
            weights = weights + np.linalg.solve(steep, x.T @ (y - chance) - ridge @ weights)
        return untrained._replace(weights=weights)

    def features(self, values: Floats) -> Floats:
        far = np.clip((values[:, self.chosen] - self.center) / self.scale, -CUT, CUT)
        few = far[:, :4]
        one, other = np.triu_indices(few.shape[1], 1)
        return np.column_stack([np.ones(len(far)), far, np.abs(far), far**2 / CUT, few[:, one] * few[:, other] / CUT])

    def __call__(self, values: Floats) -> Floats:
        """Return the log odds of the first world (n,)."""
        return np.asarray(self.features(values) @ self.weights)


def padded(reports: Floats, width: int) -> Floats:
    """Return reports (n, D) with zeros for the coordinates that are missing, shape (n, max(D, width))."""
    return np.pad(reports, ((0, 0), (0, max(width - reports.shape[1], 0))))


def edges_of(rising: Array) -> Floats:
    """Return the inner edges of at most 16 bins of sorted values: between values if few, else quantiles."""
    changes = np.flatnonzero(rising[1:] != rising[:-1])
    if len(changes) < 16:
        return np.asarray((rising[changes] + rising[changes + 1]) / 2)
    return np.unique(np.interp(np.arange(1, 16) / 16 * (len(rising) - 1), np.arange(len(rising)), rising))


def rates_of(rising: Array, edges: Floats) -> Floats:
    """Return the frequencies of the bins, none of which is 0, among sorted values."""
    hits = np.diff(np.concatenate([[0], np.searchsorted(rising, edges), [len(rising)]]))
    return np.asarray((hits + 0.5) / (len(rising) + 0.5 * len(hits)))


def repeats(rising: Array) -> NDArray[np.bool_]:
    """Return which of sorted coordinates (k, n) have a value 8 times or more, shape (k,); continuous noise has none."""
    return np.asarray((rising[:, 7:] == rising[:, :-7]).any(axis=1))


def atoms_of(zero: Array, one: Array, there: bool) -> tuple[Floats, Floats]:
    """Return the values of a coordinate, sorted, that one world has 8 times or more, and their log ratios."""
    if not there:
        return np.zeros(0), np.zeros(0)
    repeated = [part[7:][part[7:] == part[:-7]] for part in (zero, one)]
    values = np.unique(np.concatenate(repeated))
    hits = [np.searchsorted(part, values, side="right") - np.searchsorted(part, values) for part in (zero, one)]
    rates = [(seen + 0.5) / (len(part) + 1) for seen, part in zip(hits, (zero, one), strict=True)]
    return values, np.log(rates[0]) - np.log(rates[1])


def ratio_of(column: Floats, atoms: Floats, ratios: Floats) -> Floats:
    """Return the log ratio of each number that is an atom, and 0 for the others."""
    if not len(atoms):
        return np.zeros(len(column))
    place = np.searchsorted(atoms, column).clip(0, len(atoms) - 1)
    return np.where(atoms[place] == column, ratios[place], 0.0)


def solved(noise: Floats, moved: Floats) -> Floats:
    """Return what solves covariance times weights = moved (D, k), given samples of centred noise (n, D)."""
    (n, d), spread = noise.shape, noise.std(axis=0) + 1e-9
    seen, target, ridge = noise / spread / n**0.5, moved / spread[:, None], 0.001 * d / n
    if d <= n:
        found = np.linalg.solve(seen.T @ seen + ridge * np.eye(d), target)
    else:  # runs are fewer than numbers
        found = (target - seen.T @ np.linalg.solve(seen @ seen.T + ridge * np.eye(n), seen @ target)) / ridge
    return np.asarray(found / spread[:, None])
