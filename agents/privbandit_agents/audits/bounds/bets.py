"""One bet for all audits: guesses of coins are worth at most nothing under a claim, and a gambler stakes on them.

Ian Waudby-Smith and Aaditya Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy

from privbandit_agents.audits.claims import Claim, Floats

STAKE = 0.98  # share of the wealth that is at stake in a run, at most
LARGEST = 50.0  # largest epsilon, or rho, that a bound proves
WIDTHS = (0.25, 1.0, 2.0, 3.0, 4.5, 8.0)
"""Of graded guesses that are tried: how far they rise, in median deviations of a statistic."""
BOLD = np.arange(20) / 20  # shares of a canary's guesses that are not made, of which one is chosen
Worlds = tuple[Floats, Floats]


@dataclass(frozen=True)
class Guess:
    """A guess of the world from one statistic: 1 says world 0, -1 says world 1, and 0 abstains.

    Attributes:
        statistic: column.
        sign: 1 or -1; the statistic times it is large where the guess is 1.
        low: at most this: the guess is -1; -inf: never.
        high: at least this: the guess is 1; inf: never.
        graded: whether a guess in between is so, too; else it abstains.
    """

    statistic: int
    sign: int
    low: float
    high: float
    graded: bool = False

    @property
    def sides(self) -> float:
        """Share of the two worlds that are ever named."""
        return (math.isfinite(self.low) + math.isfinite(self.high)) / 2

    def __call__(self, values: Floats) -> Floats:
        """Return the guesses of statistics (...); NaN abstains."""
        seen = self.sign * values
        if self.graded:
            width = self.high - self.low
            return np.nan_to_num(np.clip((2 * seen - self.low - self.high) / width, -1, 1))
        return np.asarray((seen >= self.high) * 1.0 - (seen <= self.low))

    def told(self, worlds: Worlds, canaries: int = 0) -> Floats:
        """Return right and wrong guesses, and their mean square, of each run of both worlds, shape (n, 3)."""
        zero, one = worlds if canaries else (world[:, [self.statistic]] for world in worlds)
        grades = np.concatenate([self(zero), -self(one)], axis=1)
        right, square = np.maximum(grades, 0.0).mean(axis=1), (grades**2).mean(axis=1)
        return np.stack([right, right - grades.mean(axis=1), square], axis=1)

    def words(self, statistics: tuple[str, ...]) -> str:
        name, more, less = statistics[self.statistic], *((">=", "<=") if self.sign > 0 else ("<=", ">="))
        if self.graded:
            middle = self.sign * (self.low + self.high) / 2
            return f"how far {name} is from {middle:.4g}, larger in world {int(self.sign < 0)}"
        parts = [
            f"{name} {relation} {self.sign * cut:.4g}, likelier in world {world}"
            for relation, cut, world in ((more, self.high, 0), (less, self.low, 1))
            if math.isfinite(cut)
        ]
        return ", or ".join(parts) or "nothing"


@dataclass(frozen=True)
class Bet:
    """A bet against a claim, fixed by pilot runs: what guesses are worth, and what is known of their scatter.

    Attributes:
        known: right and wrong guesses and mean squares of pilot runs, shape (n, 3).
        together: whether both worlds of a run have one generator.
    """

    claim: Claim
    guess: Guess
    known: Floats
    together: bool = True

    @property
    def lean(self) -> float:
        """Root mean square of the guesses in pilot runs."""
        return float(np.sqrt(self.known[:, 2].mean())) + 1e-6

    def worth(self, told: Floats, level: float) -> Floats:
        """Return what runs (n, 3) are worth at a level, shape (n,)."""
        return self.claim.worth(told, level, self.lean, self.guess.sides)

    def stakes(self, told: Floats, alpha: float) -> Floats:
        """Return the stake on each of n runs, by what the runs before are worth at the claim, pilot runs first."""
        worth = self.worth(np.concatenate([self.known, told]), min(self.claim.level, LARGEST))
        before = np.arange(1, len(worth) + 1)
        mean = np.cumsum(worth) / (before + 1)
        squares = 1e-3 + np.concatenate([[0.0], np.cumsum((worth - mean) ** 2)[:-1]])
        stakes: Floats = np.sqrt(2 * math.log(1 / alpha) / (len(told) * squares / before))
        return stakes[len(self.known) :]

    def refutes(self, told: Floats, stakes: Floats, level: float, alpha: float) -> bool:
        """Return whether the wealth of the gambler reaches 1 / alpha at a level."""
        most = np.minimum(stakes, STAKE / self.claim.largest_loss(level, self.lean))
        return bool(np.cumsum(np.log1p(most * self.worth(told, level))).max() >= math.log(1 / alpha))

    def bound(self, told: Floats, alpha: float) -> float:
        """Return a lower bound of the claim's level, which exceeds the truth with probability at most alpha.

        *Formal guarantees.* A gambler with wealth 1 stakes on every run in turn: wealth is multiplied by 1 + s x, where
        x is the run's worth, and s >= 0 depends on pilot runs and earlier ones only. No factor is less than 1 - 0.98.
        At the true level the mean of x, given the past, is at most 0 (``Claim.worth``): wealth is a non-negative
        supermartingale, and reaches 1 / alpha with probability at most alpha (Ville). It falls in the level, but for
        less than delta a run by the cap on stakes, so the claim's own level is tried by itself. The bound is the
        smallest level at which wealth does not get there.

        Args:
            told: right and wrong guesses and their mean square of fresh runs, shape (n, 3).
            alpha: error probability.
        """
        stakes, low, high = self.stakes(told, alpha), 0.0, LARGEST
        if not self.refutes(told, stakes, low, alpha):
            return 0.0
        while high - low > 1e-6 * max(low, 0.01):
            middle = (low + high) / 2
            low, high = (middle, high) if self.refutes(told, stakes, middle, alpha) else (low, middle)
        claimed = self.claim.level
        return low if low <= claimed or self.refutes(told, stakes, claimed, alpha) else claimed

    def promise(self, alpha: float, fresh: int, pilot: float | None = None) -> float:
        """Return about what fresh runs will bound, by pilot runs; it may be below 0.

        The more of them a margin is for, the less it is: ``pilot``, by default as many as there are.
        """
        told, pilot = self.known, pilot or len(self.known)
        if self.claim.rho is not None:
            return float(promise_of_rho(told[:, 0] - told[:, 1], told[:, 2], alpha, fresh, pilot))
        error, range_of, low, high = error_of(alpha, fresh, pilot), math.log(1 / alpha) / fresh, -10.0, LARGEST
        for _ in range(20):
            middle = (low + high) / 2
            worth = self.worth(told, middle)
            refuted = worth.mean() >= error * np.sqrt((worth**2).mean()) + range_of * math.exp(middle)
            low, high = (middle, high) if refuted else (low, middle)
        return low


def error_of(alpha: float, fresh: int, pilot: float) -> float:
    """Return the error margin of a mean of fresh runs, in deviations of one run; wider after few pilot runs."""
    # the best of many events looks about two standard errors too good
    return math.sqrt(2 * math.log(1 / alpha) / fresh) + 2.0 / math.sqrt(pilot)


def promise_of_rho(moved: Floats, square: Floats, alpha: float, fresh: int, pilot: float = math.inf) -> Floats:
    """Return about what fresh runs will bound rho by, given guesses of runs (n, ...); it may be below 0.

    Where t and V are what guesses are right by and their mean square, a run is worth moved / root V less
    t (square / V + 1) / 2. A stake s that is no larger than allowed needs log(1 / alpha) / (n s) + s variance / 2 more.
    """
    mean, goal = square.mean(axis=0) + 1e-12, math.log(1 / alpha) / fresh
    lean = np.sqrt(mean)
    t = moved.mean(axis=0) / lean
    spread = np.std(moved / lean - np.abs(t) / 2 * square / mean, axis=0) + 1e-12
    most = STAKE * lean / (1 + np.abs(t) / 2 * (lean + 1 / lean))
    stake = np.minimum(math.sqrt(2 * goal) / spread, most)
    t = np.clip(t - goal / stake - stake * spread**2 / 2 - 2 * spread / math.sqrt(pilot), -0.999, 0.999)
    return np.asarray(2 * t * np.arctanh(np.abs(t)))


def choose(claim: Claim, pilot: Worlds, alpha: float, fresh: int, canaries: int = 0, in_step: bool = True) -> Bet:
    """Return the bet that promises the best bound of fresh runs, given pilot runs (n, k) of both worlds.

    Under epsilon worth is linear in right and in wrong guesses, so that these are bold or abstain. It is the event of
    all thresholds that promises most, and its counterpart in the other tail if both together promise more. Under rho
    guesses are graded, too. Of a canary heads and tails are guessed alike, so that its guess does not know its coin.
    """
    if canaries:
        # scores that abstain or not, by size: from all guesses to a twentieth of them
        cuts = np.unique(np.quantile(np.abs(np.concatenate(pilot)), BOLD))
        found = [Guess(0, 1, -float(cut), float(cut)) for cut in np.maximum(cuts, 1e-12)]
    else:
        bold = sorted(events(claim, pilot, alpha, fresh), key=lambda one: one[1])
        found = [bold[-1][0]]
        found += counterpart(found[0], [one for one, _ in bold])
    if claim.rho is not None:
        found.append(slope(pilot, alpha, fresh, bool(canaries)))
    bets = [
        Bet(claim, guess, guess.told((pilot[0], np.roll(pilot[1], shift, axis=0)), canaries), not shift)
        for guess in found
        for shift in (0, 1)[not in_step :]
    ]
    return max(bets, key=lambda bet: bet.promise(alpha, fresh))


def counterpart(best: Guess, others: list[Guess]) -> list[Guess]:
    """Return the guess that names the other world as well, by the best event of the other tail, if no run has both."""
    for other in reversed(others):
        low, high = max(best.low, other.low), min(best.high, other.high)
        if (other.statistic, other.sign) == (best.statistic, best.sign) and -math.inf < low and high < math.inf:
            return [Guess(best.statistic, best.sign, low, high)] if low < high else []
    return []


def events(claim: Claim, worlds: Worlds, alpha: float, fresh: int) -> list[tuple[Guess, float]]:
    """Return of each statistic and each tail the event that is likelier in one world or in the other, and promises.

    What it promises is about what ``Bet.promise`` says, at epsilon 0 if rho is claimed.
    """
    runs, delta, found, counts = len(worlds[0]), (claim.delta if claim.rho is None else 0.0), [], []
    for statistic, (zero, one) in enumerate(zip(*(world.T for world in worlds), strict=True)):
        for sign in (1, -1):
            two = [np.where(np.isnan(seen), -math.inf, sign * seen) for seen in (zero, one)]
            cuts = candidates(np.concatenate(two))
            # how many runs are at least there in one world, in the other, and in both
            up, other, both = (runs - np.searchsorted(np.sort(seen), cuts) for seen in (*two, np.minimum(*two)))
            found += [(statistic, sign, cuts, True), (statistic, -sign, -cuts, False)]
            counts += [np.stack([both, up, other]), np.stack([both, other, up])]
    worth = promises(np.concatenate(counts, axis=1) / runs, delta, error_of(alpha, fresh, runs))
    ends, best = np.cumsum([len(cuts) for _, _, cuts, _ in found]), []
    for (statistic, sign, cuts, names_zero), own in zip(found, np.split(worth, ends[:-1]), strict=True):
        k = int(own.argmax())  # of two that promise as much the one that happens more often
        low, high = (-math.inf, float(cuts[k])) if names_zero else (float(cuts[k]), math.inf)
        best.append((Guess(statistic, sign, low, high), float(own[k])))
    return best


def promises(rates: Floats, delta: float, error: float) -> Floats:
    """Return the epsilon that runs would just refute by events: in both worlds, where likely, and in the other (3, m).

    The mean worth must be ``error`` deviations above 0, and more if runs are few beside the range of one (Bernstein).
    """
    both, likely, other = rates
    both = np.maximum(both, likely * other)  # worlds that exclude each other are played apart
    low, high = (np.full(len(likely), end) for end in (-10.0, LARGEST))
    for _ in range(12):  # halvings suffice to rank events
        middle = (low + high) / 2
        ratio = np.exp(middle)
        mean = likely - ratio * other
        square = likely + ratio**2 * other - 2 * ratio * both - 2 * delta * mean + delta**2
        refuted = mean - delta >= error * np.sqrt(square) + error**2 / 2 * ratio
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def slope(worlds: Worlds, alpha: float, fresh: int, odd: bool) -> Guess:
    """Return the graded guess that promises most of rho; ``odd``: one for all columns, minus itself at minus x."""
    zero, one = worlds
    middle = np.zeros(zero.shape[1]) if odd else (np.median(zero, axis=0) + np.median(one, axis=0)) / 2
    sign = np.where(zero.mean(axis=0) >= one.mean(axis=0), 1, -1) if not odd else np.ones(zero.shape[1], int)
    spread = np.median(np.abs(np.concatenate([zero, one]) - middle), axis=None if odd else 0)
    spread = np.maximum(spread, 1e-6 * np.abs(zero - middle).mean(axis=0) + 1e-9)
    best, guess = -math.inf, Guess(0, 1, -1.0, 1.0, graded=True)
    for width in WIDTHS:
        grades = [np.clip(sign * (seen - middle) / (width * spread), -1, 1) for seen in worlds]
        for other in (grades[1], np.roll(grades[1], 1, axis=0)):
            seen = [(grades[0] - other) / 2, (grades[0] ** 2 + other**2) / 2]
            moved, square = (part.mean(axis=1, keepdims=True) if odd else part for part in seen)
            promised = promise_of_rho(moved, square, alpha, fresh, len(zero))
            k = int(promised.argmax())
            if promised[k] > best:
                at, wide, best = float(sign[k] * middle[k]), float(width * spread[k]), float(promised[k])
                guess = Guess(k, int(sign[k]), at - wide, at + wide, graded=True)
    return guess


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
