"""Empirical privacy audits: lower bounds on epsilon that hold with confidence, whatever the mechanism.

Two neighbouring worlds are run many times. Pilot runs choose a statistic, a threshold and a direction; fresh runs turn
the chosen event into a lower bound. If the bound exceeds the claim, the claim is refuted; passing proves nothing.

Matthew Jagielski, Jonathan Ullman and Alina Oprea, "Auditing Differentially Private Machine Learning", NeurIPS 2020;
Milad Nasr et al., "Tight Auditing of Differentially Private Machine Learning", USENIX Security 2023 (the curve fit).
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.random import PCG64, Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.audits.bounds.means import lower_end, upper_end
from privbandit_agents.audits.bounds.together import Hits, Tallies, best_together, bound_together, promise_of, stake_of
from privbandit_agents.audits.canaries import audit_canaries
from privbandit_agents.audits.claims import AuditResult, Claim, Floats, Game
from privbandit_agents.audits.generators import Watched, position
from privbandit_agents.privacy._validate import count, failure
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon

Places = NDArray[np.int32]


@dataclass(frozen=True)
class Event:
    """An event {sign statistic >= threshold}, likelier in one world than in the other, and perhaps its counterpart.

    The counterpart is {-sign statistic >= counter}, likelier in the other world; nan: there is none.
    """

    statistic: int
    sign: int
    threshold: float
    likely: int
    counter: float = math.nan

    def hits(self, worlds: tuple[Floats, Floats]) -> Hits:
        """Return how often the event, and its counterpart, happen in the runs of both worlds."""
        zero, one = (self.sign * worlds[world][:, self.statistic] for world in (self.likely, 1 - self.likely))
        counter = -self.counter  # no number is <= nan
        first = 1 * (zero >= self.threshold) + 2 * (zero <= counter)
        second = 2 * (one >= self.threshold) + 1 * (one <= counter)
        return Hits.of(first, second, 1 if math.isnan(counter) else 2)

    def words(self, statistics: tuple[str, ...]) -> str:
        relation, opposite = (">=", "<=") if self.sign > 0 else ("<=", ">=")
        name, threshold = statistics[self.statistic], self.sign * self.threshold
        found = f"{name} {relation} {threshold:.4g}, likelier in world {self.likely}"
        if math.isnan(self.counter):
            return found
        return f"{found}, or {opposite} {-self.sign * self.counter:.4g}, likelier in world {1 - self.likely}"


def audit(
    game: Game,
    runs: int,
    rng: Generator,
    confidence: float = 0.95,
    pilot: int | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> AuditResult:
    """Audit a game: pilot runs choose an event, fresh runs bound epsilon by it.

    *Formal guarantees.* The event, and the stake of ``bound_together``, are fixed before the fresh runs, so that the
    lower bound exceeds the true epsilon with probability at most 1 - confidence. For claims of zCDP one pair of
    Clopper-Pearson bounds, each at (1 - confidence) / 2, covers both rates. For Gaussian claims the same holds of mu,
    and is evidence against that claim; for others it holds of rho, the limit of the Renyi divergences over their order
    at order 1 being the KL divergence, which no event exceeds. A game with canaries has no pilot runs, and
    ``audit_canaries`` has its proof.

    Runs of two worlds with one generator are independent only if both draw equally many numbers in every run. So all
    generators that serve several runs are compared after each portion. If pilot runs fall out of step the worlds are
    played apart. If fresh runs do, they are made anew, apart: then these have a tenth of the error probability, and the
    others nine, so that both together have no more than is stated, however the two depend on the draws. A presumed
    claim is judged by the same runs, with an error probability of its own.

    Args:
        game: the worlds.
        runs: fresh runs of each world, >= 20.
        rng: of everything.
        confidence: in (0, 1).
        pilot: pilot runs of each world; default: ``pilot_runs(runs)``.
        on_progress: called with the number of runs done, of both worlds and both kinds.
    """
    if count(runs=runs) < 20:
        raise ValueError(f"runs must be >= 20; got {runs}.")
    failure(confidence=confidence)
    if game.canaries:
        return audit_canaries(game, runs, rng, confidence, on_progress)
    pilot = pilot_runs(runs) if pilot is None else count(pilot=pilot)
    alpha = 1 - confidence
    tried, in_step = sample(game, pilot, rng, on_progress, 0)
    event = choose(game.claim, tried, alpha, runs)
    known = event.hits(tried)
    together = in_step and best_together(known, game.claim.delta, alpha, runs)
    fresh, in_step = sample(game, runs, rng, on_progress, 2 * pilot, together)
    if together:
        alpha *= 0.9 if in_step else 1 - 0.9  # a tenth of the error is for playing the worlds again, apart
        if not in_step:
            fresh, _ = sample(game, runs, rng, lambda done: None, 0, together=False)

    def found(claim: Claim, event: Event) -> AuditResult:
        hits = event.hits(fresh)
        bound, rho = judged(claim, event.hits(tried), hits, alpha)
        # the trade-off curve: how often the chosen statistic passes every threshold, in both worlds
        values = [event.sign * world[:, event.statistic] for world in (fresh[1 - event.likely], fresh[event.likely])]
        values = [np.where(np.isnan(value), -math.inf, value) for value in values]  # NaN passes no threshold
        cuts = candidates(np.concatenate(values))
        curve = np.stack([(runs - np.searchsorted(np.sort(value), cuts)) / runs for value in values])
        true, false = (number / runs for number in hits.rates)
        words = event.words(game.statistics)
        return AuditResult(game.title, claim, bound, rho, confidence, words, runs, curve, (true, false))

    own = game.presumed
    presumed = found(own, choose(own, tried, alpha, runs)) if own else None
    return replace(found(game.claim, event), presumed=presumed)


def plays(game: Game, runs: int) -> int:
    """Return how many runs an audit makes in all, for its progress."""
    return runs if game.canaries else 2 * (runs + pilot_runs(runs))


def pilot_runs(runs: int) -> int:
    """Return the number of pilot runs of each world, given that of fresh ones: 2000, fewer or an eighth."""
    return max(runs // 8, min(runs, 2000))


def sample(
    game: Game, runs: int, rng: Generator, on_progress: Callable[[int], None], done: int, together: bool = True
) -> tuple[tuple[Floats, Floats], bool]:
    """Play both worlds in portions, so that progress can be shown and memory stays small.

    Played ``together`` they have the same generators, one for each portion, so that they mostly draw the same noise.

    Statistics are rounded: the default generator is for simulation only, and the rounding errors of its floating-point
    noise would separate worlds that have the same law.

    Returns:
        Readings of both worlds, and whether their generators ended in the same ``position``.
    """
    portion, in_step = max(1, min(runs, 4096, runs // 20 or 1)), True
    worlds: tuple[list[Floats], list[Floats]] = ([], [])
    for start in range(0, runs, portion):
        n, seeds = min(portion, runs - start), rng.integers(2**62, size=2)
        ends = []
        for world in (0, 1):
            generator = Watched(PCG64(int(seeds[world * (not together)])))
            game.made = made = list[object]()
            worlds[world].append(np.round(game.play(world, n, generator), 9))
            ends.append(position(generator, made, n))
            done += n
            on_progress(done)
        game.made = None
        in_step = in_step and (not together or ends[0] == ends[1])
    return (np.concatenate(worlds[0]), np.concatenate(worlds[1])), in_step


class Pilot:
    """Pilot runs of both worlds, and thresholds for each of their statistics.

    Attributes:
        worlds: statistics of runs, shape (n, k) each.
        cuts: thresholds of each statistic, rising.
        places: where runs lie among them, shape (n, k) each: 2 j + 1 at the threshold j, 2 j below it.
    """

    def __init__(self, worlds: tuple[Floats, Floats]) -> None:
        self.worlds = worlds
        self.cuts = [candidates(values) for values in np.concatenate(worlds).T]
        self.places: tuple[Places, Places] = self.placed(worlds[0]), self.placed(worlds[1])

    def placed(self, values: Floats) -> Places:
        found = np.empty(values.shape, np.int32)
        for k, (column, cuts) in enumerate(zip(values.T, self.cuts, strict=True)):
            below = np.searchsorted(cuts, column)
            found[:, k] = 2 * below + (cuts[np.minimum(below, len(cuts) - 1)] == column)
        return found

    def drawn(self, rows: NDArray[np.intp]) -> "Pilot":
        """Return some of the runs, with the thresholds of all."""
        found, (zero, one) = copy.copy(self), self.worlds
        found.worlds, found.places = (zero[rows], one[rows]), (self.places[0][rows], self.places[1][rows])
        return found

    def counts(self, statistic: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return how many runs are at least at each threshold, and at most, the largest threshold first, (3, m) each.

        It is how many have that in one world, in the other, and in both.
        """
        size = 2 * len(self.cuts[statistic]) + 1
        zero, one = (places[:, statistic] for places in self.places)
        at = [np.bincount(places, minlength=size).cumsum() for places in (zero, one)]
        least, most = (np.bincount(ends(zero, one), minlength=size).cumsum() for ends in (np.minimum, np.maximum))
        up = len(zero) - np.array([*at, least])[:, 0::2][:, :-1]
        return up, np.array([*at, most])[:, 1::2][:, ::-1]


def choose(claim: Claim, pilot: "Pilot | tuple[Floats, Floats]", alpha: float, fresh: int | None = None) -> Event:
    """Return the event that promises the best bound, given pilot runs (n, k) of both worlds.

    For claims of zCDP it is the one with the best bound on the pilot runs themselves, taken at a twentieth of alpha,
    since the best of many thresholds is a lucky one. For Gaussian claims all thresholds show the same in the limit;
    those between the two worlds need the fewest runs. For others it is the event with the best ``promise_of`` for
    ``fresh`` runs, by default equal to the number of pilot runs. The best event of the other tail is its counterpart,
    if that promises more.
    """
    pilot = pilot if isinstance(pilot, Pilot) else Pilot(pilot)
    runs = len(pilot.worlds[0])
    fresh = fresh or runs
    # all events {sign statistic >= cut}, and how often pilot runs have each in one world, the other and both
    tails: list[tuple[int, int, int, Floats]] = []
    counts: list[NDArray[np.intp]] = []
    for statistic, cuts in enumerate(pilot.cuts):
        # of two events that promise as much the one that happens more often is taken: the first one
        for sign, (zero, one, both) in zip((1, -1), pilot.counts(statistic), strict=True):
            tails += [(statistic, sign, likely, np.sort(sign * cuts)) for likely in (0, 1)]
            counts += [np.stack([both, zero, one]), np.stack([both, one, zero])]
    both, true, false = np.concatenate(counts, axis=1).astype(np.float64)
    if claim.rho is None:
        worth = promise_of(Tallies(both, true, false, runs), claim.delta, alpha, fresh)
    else:
        worth = score(claim, true, false, runs, alpha / 20)
    if claim.rho is not None and claim.gaussian_type:
        worth = np.where(np.abs(true + false - runs) <= runs / 10, worth, -np.inf)
    scores: dict[Event, float] = {}
    ends = np.cumsum([len(cuts) for *_, cuts in tails])
    for (statistic, sign, likely, cuts), own in zip(tails, np.split(worth, ends[:-1]), strict=True):
        k = int(own.argmax())
        scores[Event(statistic, sign, float(cuts[k]), likely)] = float(own[k])
    best = max(scores, key=scores.__getitem__)
    if claim.rho is not None:
        return best if scores[best] > -math.inf else Event(0, 1, 0.0, 0)
    opposite = next(
        e for e in scores if (e.statistic, e.sign, e.likely) == (best.statistic, -best.sign, 1 - best.likely)
    )
    found = [best]
    if -opposite.threshold < best.threshold:  # no run has both
        found.append(replace(best, counter=opposite.threshold))

    def promise(event: Event) -> float:
        hits = event.hits(pilot.worlds)
        return max(float(promise_of(played, claim.delta, alpha, fresh)) for played in (hits, hits.apart))

    return max(found, key=promise)


def candidates(values: Floats) -> Floats:
    """Return thresholds to try: all values if they are few, else quantiles, both ends and finer in the tails."""
    rising: Floats = np.sort(values[np.isfinite(values)])
    if not len(rising):
        return np.zeros(1)
    distinct: Floats = rising[np.append(True, rising[1:] != rising[:-1])]
    thresholds = 400  # candidates for each statistic, at most
    if len(distinct) <= thresholds:
        return distinct
    levels = scipy.special.expit(np.linspace(-math.log(len(rising)), math.log(len(rising)), thresholds))
    return np.unique(rising[np.ceil(levels * len(rising)).astype(int) - 1])


def score(claim: Claim, true: ArrayLike, false: ArrayLike, runs: int, alpha: float) -> Floats:
    """Return the bound that an event's counts give: on epsilon; on mu or rho for claims of zCDP.

    rho bounds the KL divergence, and so that of two coins with the event's rates, which grows as these move apart.
    """
    low, high = lower_end(true, runs, alpha), upper_end(false, runs, alpha)
    if claim.rho is not None and not claim.gaussian_type:
        apart = np.maximum(divergence(low, high), divergence(high, low))
        return np.asarray(np.where(low > high, apart, 0.0))
    if claim.rho is not None:
        return np.asarray(scipy.special.ndtri(low) - scipy.special.ndtri(high))
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - claim.delta, 0)) - np.log(high)


def judged(claim: Claim, known: Hits, fresh: Hits, alpha: float) -> tuple[float, float | None]:
    """Return lower bounds of (epsilon, rho or None) by an event, given what pilot runs know of it, and fresh runs."""
    if claim.rho is not None:
        return bound_of(claim, *fresh.rates, fresh.size, alpha)
    return bound_together(fresh, stake_of(known, fresh.size, claim.delta, alpha), claim.delta, alpha), None


def bound_of(claim: Claim, true: int, false: int, runs: int, alpha: float) -> tuple[float, float | None]:
    """Return lower bounds of (epsilon, rho or None), at least 0."""
    found = max(float(score(claim, true, false, runs, alpha)), 0.0)
    if claim.rho is None:
        return found, None
    if not claim.gaussian_type:
        return max(float(score(Claim(claim.epsilon, claim.delta), true, false, runs, alpha)), 0.0), found
    return (gaussian_epsilon(claim.delta, found) if found else 0.0), found**2 / 2


def divergence(one: Floats, other: Floats) -> Floats:
    """Return the KL divergence of two coins."""
    return np.asarray(scipy.special.rel_entr(one, other) + scipy.special.rel_entr(1 - one, 1 - other))
