"""The noise of a curator's publications, against the noise that its mechanisms declare, by the exact values.

The replay compares declared noise with the ledger and the guarantee; this test compares drawn noise with declared
noise.
"""

import warnings
from collections.abc import Iterator
from functools import singledispatch
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from privbandit_agents.base.central import CentralAgent
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.counters import Counter
from privbandit_agents.privacy.mechanisms.selection import Chosen, GumbelTopK
from privbandit_agents.testing.replay import NotSeen, limited
from privbandit_agents.testing.runs import environment, serve
from privbandit_agents.testing.watchers import Release, Writer, releases_of, standardised
from privbandit_agents.zoo.registry import find, make

Floats = NDArray[np.float64]
Noise = dict[str, list[list[Floats]]]
"""By the kind of release: the runs, each a list of standard normals, shape (k,), one draw after the other."""
Ranks = dict[str, list[tuple[float, float]]]
"""By the mechanism: how far every choice ranked above the middle, and the variance of that."""
LEVEL = 0.001  # probability at most of accusing an honest agent
TESTS = 6  # of every kind of noise


class Drawn(NamedTuple):
    """Noise and choices of some runs of a curator."""

    noise: Noise
    ranks: Ranks
    unseen: set[str]


def check_noise(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Each publication of a CentralAgent has at least the noise that its mechanism declares, drawn anew each time.

    600 draws find noise x 0.8, 900 draws noise x 0.9 mostly. Selections may not be better than chance allows. Warns
    with ``NotSeen`` of mechanisms that do not know their noise.
    """
    if not issubclass(find(name).load(), CentralAgent):
        return
    seen = drawn(name, env_id, horizon, config)
    judge(seen.noise, LEVEL / 2)
    for mechanism, found in seen.ranks.items():
        chance = too_good(found)
        fair = chance is None or chance > LEVEL / 2 / len(seen.ranks)
        assert fair, f"{mechanism} selects better candidates than its declared noise allows, in {len(found)} choices"
    if seen.unseen:
        warnings.warn(f"noise of {name} was not seen: {'; '.join(sorted(seen.unseen))}.", NotSeen, stacklevel=3)


def judge(noise: Noise, level: float) -> None:
    """Fail if noise is less than standard normal, in all, a release or a coordinate, or if draws are dependent.

    Sizes are held against chi-square laws. Correlated are neighbouring releases, the runs of two seeds, and every two
    coordinates.
    """
    noise = noise | together(noise)
    level /= TESTS * max(len(noise), 1)
    for kind, runs in noise.items():
        rows = [row for run in runs for row in run]
        values = np.concatenate(rows)
        low, size = scipy.stats.chi2.cdf(np.sum(values**2), values.size), float(np.sqrt(np.mean(values**2)))
        assert low > level, f"noise of {kind} is {size:.3g} times what is declared, in {values.size} draws"
        single = len(rows) * min(scipy.stats.chi2.cdf(np.sum(row**2), row.size) for row in rows)
        assert single > level, f"noise of {kind} is less than declared in one release of {sum(map(len, runs))}"
        again = related([pair for run in runs for pair in pairwise(run)])
        assert again > level, f"noise of {kind} comes back in the next release"
        same = related([pair for one, two in pairwise(runs) for pair in zip(one, two, strict=False)])
        assert same > level, f"noise of {kind} is the same for another seed"
        table = np.stack(rows) if len({len(row) for row in rows}) == 1 else values[:, None]
        chances = scipy.stats.chi2.cdf((table**2).sum(axis=0), len(table))
        place = int(chances.argmin())
        enough_noise = chances[place] * chances.size > level
        assert enough_noise, f"noise of {kind} is less than declared in coordinate {place}, in {len(table)} draws"
        closest, places = closest_coordinates(table)
        assert closest > level, f"noise of {kind} is shared by coordinates {places[0]} and {places[1]}"


def related(pairs: list[tuple[Floats, Floats]]) -> float:
    """Return the p-value of the correlation of pairs of numbers, if they are independent normals."""
    products = np.concatenate([np.zeros(1), *(one[: len(two)] * two[: len(one)] for one, two in pairs)])
    return float(2 * scipy.stats.norm.sf(abs(products.sum()) / np.sqrt(products.size)))


def closest_coordinates(table: Floats) -> tuple[float, tuple[int, int]]:
    """Return which two coordinates are correlated most, and how likely that is of any two of standard normals (n, k).

    A correlation r of n pairs, means being known, is such that r sqrt((n - 1) / (1 - r^2)) has Student's law.
    """
    n, k = table.shape
    if n < 2 or k < 2:
        return 1.0, (0, 0)
    sizes = np.sqrt((table**2).sum(axis=0))
    related = np.abs(np.triu(table.T @ table / np.maximum(np.outer(sizes, sizes), 1e-300), 1))
    one, other = np.unravel_index(related.argmax(), related.shape)
    r = min(float(related.max()), 1 - 1e-15)
    chance = 2 * scipy.stats.t.sf(r * np.sqrt((n - 1) / (1 - r**2)), n - 1)
    return float(chance * k * (k - 1) / 2), (int(one), int(other))


def together(noise: Noise) -> Noise:
    """Return the noise of mechanisms that release in several dimensions, each of which may have few draws."""
    found: dict[str, list[str]] = {}
    for kind in noise:
        found.setdefault(kind.partition(" in dimension ")[0], []).append(kind)
    return {
        f"{name} in all dimensions": [run for kind in several for run in noise[kind]]
        for name, several in found.items()
        if len(several) > 1
    }


def power(noise: Noise, size: float) -> dict[str, float]:
    """Return the power to find noise of a kind that is ``size`` times as large as declared, at its draws."""
    noise = noise | together(noise)
    counts = {kind: draws(runs) for kind, runs in noise.items()}
    level = LEVEL / 2 / (TESTS * max(len(noise), 1))
    return {k: float(scipy.stats.chi2.cdf(scipy.stats.chi2.ppf(level, n) / size**2, n)) for k, n in counts.items()}


def drawn(name: str, env_id: str, horizon: int, config: dict[str, Any], first: int = 13) -> Drawn:
    """Return the noise observed in some runs: two long ones, and short ones if need be."""
    seen, long = Drawn({}, {}, set()), range(first, first + 2)  # later releases are seen in long runs
    for seed in range(first, first + 120):  # at most
        users = horizon * (10 if seed in long else 1)
        env = environment(env_id, users // 2)
        agent = make(name, env, seed=seed, **config)
        assert isinstance(agent, CentralAgent)
        if not agent.guarantee.proven or not limited(agent):
            return Drawn({}, {}, set())
        writer = agent.watcher = Writer()
        env.reset(seed=seed)
        serve(env, [agent], users)
        if not writer.notes:
            return Drawn({}, {}, {"it never calls publish()"})
        published = releases_of(writer.notes)
        for kind, rows in kinds(published, seen.unseen).items():
            seen.noise.setdefault(kind, []).append(rows)
        for release in published:
            picked = [rank(*one) for one in chances(release.mechanism, release.exact, release.released)]
            seen.ranks.setdefault(type(release.mechanism).__name__, []).extend(picked)
        if seed >= long[-1] and enough(seen):
            break
    return seen


def enough(seen: Drawn) -> bool:
    picked = [sum(variance for _, variance in ranks) for ranks in seen.ranks.values() if ranks]
    # draws of every kind, and choices of this variance
    return all(draws(runs) >= 600 for runs in seen.noise.values()) and min(picked, default=30.0) >= 30.0


def draws(runs: list[list[Floats]]) -> int:
    return sum(row.size for run in runs for row in run)


def kinds(published: list[Release], unseen: set[str]) -> dict[str, list[Floats]]:
    """Return the noise of a run by the mechanism and the dimension of the exact value."""
    found: dict[str, list[Floats]] = {}
    for release in published:
        try:
            normals = standardised(release.mechanism, release.exact, release.released)
        except LookupError as error:
            unseen.add(str(error.args[0]))
            continue
        if not normals.size:  # a choice
            continue
        rows = normals.reshape(len(release.exact) if isinstance(release.mechanism, Counter) else 1, -1)
        size = normals.size if isinstance(release.exact, tuple) else np.atleast_1d(release.exact).shape[-1]
        found.setdefault(f"{type(release.mechanism).__name__} in dimension {size}", []).extend(rows)
    return found


@singledispatch
def chances(mechanism: object, exact: Any, released: Any) -> Iterator[tuple[Floats, int]]:
    """Yield the probabilities of all candidates, and the place of the chosen one, for every choice of a release.

    Empty for a mechanism that chooses nothing, or does not give its chances. A mechanism of a stranger's may have a
    method ``chances(exact, released)``.
    """
    if hasattr(mechanism, "chances"):
        yield from mechanism.chances(exact, released)


@chances.register
def _(mechanism: ExponentialChoice, exact: Any, released: Any) -> Iterator[tuple[Floats, int]]:
    if mechanism.beta:
        yield scipy.special.softmax(np.asarray(exact) / mechanism.beta), int(released)


@chances.register
def _(mechanism: GumbelTopK, exact: Any, released: Chosen) -> Iterator[tuple[Floats, int]]:
    """One coordinate after the other; public ones, which come first, are no candidates."""
    coordinates = released[0]
    known = len(coordinates) - min(mechanism.k, len(coordinates))
    if not mechanism.beta:
        return
    scores = np.abs(np.asarray(exact, np.float64)) / mechanism.beta
    scores[coordinates[:known]] = -np.inf
    for chosen in coordinates[known:]:
        yield scipy.special.softmax(scores), int(chosen)
        scores[chosen] = -np.inf


def rank(odds: Floats, chosen: int) -> tuple[float, float]:
    """Return how far the chosen candidate ranks above the middle, 1/2 at most, and the variance of that.

    The rank is the probability of better candidates and half that of candidates as good; its mean is 1/2.
    """
    better, alike = odds[odds > odds[chosen]].sum(), odds[odds == odds[chosen]].sum()
    _, group = np.unique(odds, return_inverse=True)
    variance = (1 - np.sum(np.bincount(group, odds) ** 3)) / 12
    return float(0.5 - better - alike / 2), float(variance)


def too_good(ranks: list[tuple[float, float]]) -> float | None:
    """Return how likely choices rank so high in all, if they are as random as declared; None: too few to judge."""
    above, variances = np.sum(ranks, axis=0) if ranks else (0.0, 0.0)
    # the normal law needs this variance of ranks; a choice between many equals has 1/12
    return None if variances < 3.0 else float(scipy.stats.norm.sf(above / np.sqrt(variances)))
