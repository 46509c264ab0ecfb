"""What a log can tell before anything is played: how it looks, whether a better policy shows, how many rows it takes.

Guang Yong Zou and Allan Donner, "Construction of Confidence Limits About Effect Measures: A General Approach",
Statistics in Medicine 2008 (the interval of a difference, by squares of its parts); Alexander Luedtke and Mark van der
Laan, "Statistical Inference for the Mean Outcome Under a Possibly Non-unique Optimal Treatment Strategy", Annals of
Statistics 2016 (a policy that is judged by rows after those that chose it).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from privbandit_agents.logs.estimates import (
    Estimate,
    effective,
    interval,
    largest_weight,
    parts,
    self_normalized,
    span_of,
)
from privbandit_agents.logs.record import Log, canonical
from privbandit_envs.problem import pick
from privbandit_envs.validate import listed

Floats = NDArray[np.float64]
FEWEST = 10  # rows of an arm that a policy may take
MANY = 50  # events of a policy from which on they have a normal law
BLOCKS, FIRST = 20, 4  # of shuffled rows, and those that only choose
SCALES = (0.01, 0.03, 0.1, 0.3, 1.0)  # of the arms' differences, in standard deviations of the reward
KINDS = ("one arm", "linear", "products")
LIFTS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


@dataclass(frozen=True)
class Finding:
    """Something that was seen in a log, and its consequence, in sentences; ``warns`` if numbers may be wrong."""

    seen: str
    consequence: str
    warns: bool = False

    def __str__(self) -> str:
        return f"{'Warning: ' * self.warns}{self.seen} {self.consequence}"


@dataclass(frozen=True)
class Gain:
    """The reward of a policy that is learned from a log, beside the log's own, on the same rows.

    Attributes:
        policy: its mean reward; each block of rows is judged by the policy of the blocks before.
        own: mean reward of the log.
        value, low, high: their difference with its 95 % interval.
        unsupported: the least share of the policy's choices that the log could not have taken, by the mean weight.
        kind: of the policy: ``"one arm"``, ``"linear"``, or ``"products"`` of features.
        chosen: of the judged rows, shape (m,), and their arms, shape (m,).
    """

    policy: Estimate
    own: Estimate
    value: float
    low: float
    high: float
    unsupported: float
    kind: str
    chosen: tuple[NDArray[np.int64], NDArray[np.int64]]

    @property
    def shown(self) -> bool:
        """Whether the log shows that the policy earns more than the log's own."""
        return self.low > 0 and self.unsupported <= 0


def findings(log: Log) -> list[Finding]:
    """Return what is to be seen in a log of arms before anything is estimated, each with its consequence."""
    n, arms = len(log), log._all_arms()
    names = [str(name) for name in log.about.get("arms") or range(arms)]
    counts, mean = np.bincount(log.actions, minlength=arms), float(np.mean(log.rewards))
    p, events = np.asarray(log.propensities, np.float64), log.rewards != 0
    happened, sizes = np.bincount(log.actions, events, arms), effective_rows(log)
    found = [
        Finding(
            f"{n:,} rows, {arms} arms, {int(events.sum()):,} rewards other than 0: {int(happened.min()):,} to "
            f"{int(happened.max()):,} an arm.",
            "How sure an answer can be depends on these events rather than on rows.",
        ),
        Finding(
            f"Effective rows of an arm, by the weights: {sizes.min():,.0f} to {sizes.max():,.0f}.",
            "The fewer they are, the wider is the interval of a policy that takes the arm.",
        ),
    ]
    if rare := [name for name, rows in zip(names, counts, strict=True) if rows < FEWEST]:
        seen = f"Arms with fewer than {FEWEST} rows: {listed(rare)}."
        found.append(Finding(seen, "No policy that is judged here takes them."))
    # chances of arms
    if share := float(np.mean(p == 1)):
        kept = "Nothing can be learned of other arms there, and their arm is kept."
        found.append(Finding(f"In {share:.1%} of rows the log had no choice (propensity 1).", kept))
    found.append(propensities(log, arms))
    # rows that are no draws of their own
    if (copies := copied(log)) > 0:
        found.append(
            Finding(
                f"About {copies:,} rows repeat another one, more than chance explains.",
                "Copies make intervals too short: take them out.",
                warns=True,
            )
        )
    if log.people is not None:
        off = np.asarray(log.rewards - mean, np.float64)
        sums, persons = np.asarray(np.bincount(log.people, off)), int(np.max(log.people)) + 1
        times = max(1.0, float(sums @ sums) / max(float(off @ off), 1e-300))
        found.append(
            Finding(
                f"{persons:,} persons come up to {int(np.bincount(log.people).max()):,} times.",
                f"A row counts as 1/{times:.2g} of one of a new person, and one person's rows are judged together.",
            )
        )
    if log.about.get("in_time") or log.about.get("in_order"):
        found.append(drift(log, arms))
    if columns := log.about.get("from_people"):
        service = "In service they could give a person away: name those that are public in a schema."
        found.append(Finding(f"Levels or bounds of {listed(columns, 'columns')} are read from people's data.", service))
    return found


def effective_rows(log: Log) -> Floats:
    """Return the number of rows of each arm with the same information, by its weights, shape (K,)."""
    weights, arms = 1 / np.asarray(log.propensities, np.float64), log._all_arms()
    sums, squares = np.bincount(log.actions, weights, arms), np.bincount(log.actions, weights**2, arms)
    return np.asarray(sums**2 / np.maximum(squares, 1e-300))


def propensities(log: Log, arms: int) -> Finding:
    """Return whether propensities fit: their mean inverse is the number of arms that could be taken."""
    if "propensities" in log.about:
        return Finding(
            "Propensities are estimated from the features.",
            "All numbers are right only if the log's choices depended on nothing else, which no check can see.",
            warns=True,
        )
    inverse = 1 / np.asarray(log.propensities, np.float64)
    largest = 10 * float(inverse.max())  # propensities may be a tenth of any that was seen
    shares = replace(log, rewards=inverse / largest, about={})
    ends = interval(shares, np.ones(len(log)), shares.rewards, 1.0, (0.0, 1.0, 1.0), (0.0, 1.0), 0.99)
    low, high = largest * ends[0], largest * ends[1]
    seen = f"Propensities are given; the mean of 1/p is {inverse.mean():.3g} ({low:.3g} to {high:.3g}) for {arms} arms."
    if low > arms * (1 + 1e-9):
        return Finding(seen, "It is larger than it can be: propensities are not those of the log.", warns=True)
    if high < arms * (1 - 1e-9):
        missing = "some arms had no chance for some users, or propensities are not those of the log."
        return Finding(seen, f"It is smaller: {missing}", warns=float(np.mean(log.propensities == 1)) == 0)
    return Finding(seen, "That is as it should be.")


def copied(log: Log) -> int:
    """Return how many rows repeat another one beyond what chance and their propensities explain; 0 if none do."""
    flat = np.asarray(log.contexts, np.float64).reshape(len(log), -1)
    shuffled = default_rng(45).permutation(len(log))
    order = shuffled[canonical(flat[shuffled])]
    alike = (flat[order[1:]] == flat[order[:-1]]).all(axis=1)
    if np.mean(alike) > 0.5:  # few kinds of contexts: rows are alike by chance
        return 0
    one, other = order[1:][alike], order[:-1][alike]
    same = (log.actions[one] == log.actions[other]) & (log.rewards[one] == log.rewards[other])
    chance = log.propensities[one]
    expected, spread = float(chance.sum()), float(np.sqrt((chance * (1 - chance)).sum()))
    more = float(same.sum()) - expected
    return int(more) if more > 4 * spread + 1 else 0


def drift(log: Log, arms: int) -> Finding:
    """Return how rewards and choices of the last fifth of a log's rows differ from those of the first."""
    ends = slice(len(log) // 5), slice(len(log) - len(log) // 5, None)
    (first, last), spread = (float(np.mean(log.rewards[rows])) for rows in ends), float(np.std(log.rewards))
    shares = [np.bincount(log.actions[rows], minlength=arms) / (len(log) // 5) for rows in ends]
    moved = float(np.abs(shares[0] - shares[1]).sum() / 2)
    seen = f"From the first to the last fifth of the time rewards went from {first:.4g} to {last:.4g}"
    seen += f", and {moved:.0%} of choices moved to other arms."
    if abs(last - first) > 3 * spread * np.sqrt(2 * 5 / len(log)):
        return Finding(seen, "Numbers are means over all that time, and tomorrow may be another.", warns=True)
    return Finding(seen, "Chance explains the change of rewards.")


def gain(log: Log) -> Gain:
    """Learn a policy from a log and judge it by the log, each block of rows by the policy of the blocks before.

    Rows are shuffled, unless the log is in order; a person's are in one block. Each arm has a ridge regression that is
    shrunk to that of all arms: on nothing, on the features, or on their products too. The one that predicts the blocks
    before best chooses. Arms of fewer than ten rows are never taken, and where the log had no choice its arm is kept.
    So errors are a martingale, and a gain that is none is shown in at most 2.5 % of logs.

    Raises:
        ValueError: a log of sets or with masks, or of fewer than 40 rows.
    """
    if log.actions.ndim > 1 or log.masks is not None:
        raise ValueError("a gain is that of arms that were all present; this log has sets or masks.")
    n, arms = len(log), log._all_arms()
    if n < 2 * BLOCKS:
        raise ValueError(f"a log needs {2 * BLOCKS} rows or more to be judged by what it teaches; got {n}.")
    order, part = np.arange(n), np.arange(n) * BLOCKS // n
    if not log.about.get("in_order"):
        order, part = parts(log, default_rng(43), BLOCKS)
    known, (center, scale) = np.bincount(log.actions, minlength=arms) >= FEWEST, moments(log)
    shared = log.contexts.ndim == 3  # one regression for all arms
    groups, widths = 1 if shared else arms, designed(center[None])[1]
    squares, products = np.zeros((groups, widths[-1], widths[-1])), np.zeros((groups, widths[-1]))
    losses, best, chosen = np.zeros((len(widths), len(SCALES))), (0, 0), []
    for block in range(BLOCKS):
        rows = order[part == block]
        x, _ = designed((log.contexts[rows] - center) / scale)
        actions, rewards = log.actions[rows], np.asarray(log.rewards[rows], np.float64)
        # squares and products of this block
        taken, group = (pick(x, actions), np.zeros_like(actions)) if shared else (x, actions)
        by_group = np.split(np.argsort(group, kind="stable"), np.bincount(group, minlength=groups).cumsum()[:-1])
        more = [(taken[mine].T @ taken[mine], taken[mine].T @ rewards[mine]) for mine in by_group]
        new_squares, new_products = (np.stack(one) for one in zip(*more, strict=True))
        # the policy that was best before chooses, and all are compared on this block
        best = divmod(int(losses.argmin()), len(SCALES))
        for place, width in enumerate(widths) if block >= FIRST - 1 else ():
            inner = slice(width)
            for size, lines in enumerate(shrunk(squares[:, inner, inner], products[:, inner])):
                if block >= FIRST and (place, size) == best:
                    scores = x[..., inner] @ (lines[0] if shared else lines.T)
                    chosen.append((rows, np.where(known, scores, -np.inf).argmax(axis=1)))
                bent = np.matvec(new_squares[:, inner, inner], lines)
                losses[place, size] += (lines * (bent - 2 * new_products[:, inner])).sum()
        squares, products = squares + new_squares, products + new_products
    judged, arm = (np.concatenate(one) for one in zip(*chosen, strict=True))
    arm = np.where(log.propensities[judged] == 1, log.actions[judged], arm)
    return beside(log, judged, arm, KINDS[best[0]])


def moments(log: Log) -> tuple[Floats, Floats]:
    """Return the mean and the standard deviation of each feature, 1 for a constant one."""
    axes = tuple(range(log.contexts.ndim - 1))
    scale = log.contexts.std(axis=axes, dtype=np.float64)
    return log.contexts.mean(axis=axes, dtype=np.float64), np.where(scale > 0, scale, 1.0)


def designed(x: Floats, most: int = 10) -> tuple[Floats, list[int]]:
    """Return 1, the features, and products of at most ``most`` features, shape (..., D), and the columns with each."""
    d, x = x.shape[-1], np.clip(x, -8.0, 8.0)
    columns, widths = [np.ones((*x.shape[:-1], 1)), x], [1, 1 + d]
    if 2 <= d <= most:
        one, other = np.triu_indices(d)
        columns.append(x[..., one] * x[..., other])
        widths.append(1 + d + len(one))
    return np.concatenate(columns, axis=-1), widths


def shrunk(squares: Floats, products: Floats) -> Iterator[Floats]:
    """Yield regressions of each group, shape (groups, D), shrunk to that of all groups; one for each of ``SCALES``."""
    eye = np.eye(squares.shape[-1])
    if len(squares) == 1:
        for scale in SCALES:
            yield np.asarray(np.linalg.solve(squares + eye / scale**2, products[..., None])[..., 0])
        return
    all_groups = np.linalg.solve(squares.sum(axis=0) + eye, products.sum(axis=0))
    left = products - squares @ all_groups
    for scale in SCALES:
        yield np.asarray(all_groups + np.linalg.solve(squares + eye / scale**2, left[..., None])[..., 0])


def beside(log: Log, rows: NDArray[np.int64], arm: NDArray[np.int64], kind: str) -> Gain:
    """Return the gain of a policy that takes ``arm`` in ``rows`` over the log's own, by square and add."""
    arrays: dict[str, Any] = {name: array[rows] for name, array in log.arrays.items()}
    span = span_of(log)
    some = Log(**arrays, about=log.about | {"reward_range": span})
    weights = np.where(arm == some.actions, 1 / some.propensities, 0.0)
    largest = largest_weight(some, weights)
    own = self_normalized(some, np.ones(len(rows)), 1.0)
    if weights.any():
        policy = self_normalized(some, weights, largest)
    else:  # nothing is known of it
        policy = Estimate(own.value, np.inf, *span, own.confidence, len(rows), 0.0)
    # errors of the two parts go together
    one, other = weights * (some.rewards - policy.value), some.rewards - own.value
    both = float(np.sqrt((one @ one) * (other @ other)))
    together = min(max(float(one @ other) / both, 0.0), 1.0) if both else 0.0
    below, above = policy.value - policy.low, policy.high - policy.value
    fall, rise = own.value - own.low, own.high - own.value
    value = policy.value - own.value
    low = value - np.sqrt(max(below**2 + rise**2 - 2 * together * below * rise, 0.0))
    high = value + np.sqrt(max(above**2 + fall**2 - 2 * together * above * fall, 0.0))
    shares = replace(some, rewards=weights / largest, about={"reward_range": (0.0, 1.0)})
    # of few events the share that the policy's rows have must be large too, given how many there are
    place = (some.rewards - span[0]) / (span[1] - span[0])
    if 0 < effective(weights * place) < MANY:
        ratio = interval(shares, place, shares.rewards * place, place, (0.0, 1.0, 1.0), (0.0, 1.0), 0.95)[0] * largest
        low = min(low, (ratio - 1) * (own.value - span[0]))
    # the mean weight is 1 if the log could take each arm of the policy
    most = interval(shares, np.ones(len(rows)), shares.rewards, 1.0, (0.0, 1.0, 1.0), (0.0, 1.0), 0.99)[1]
    missing = max(0.0, 1 - largest * most)
    return Gain(policy, own, value, float(low), float(high), missing, kind, (rows, arm))


def rows_needed(log: Log, lift: float) -> tuple[float, float]:
    """Return how many rows such a log needs to show a lift over its mean reward, by both ends of that mean.

    It is shown if the 95 % interval of the difference of a policy of one arm for each context lies above 0, in nine of
    ten logs. A policy that is also chosen by these rows takes two (arms) to three times (contexts) as many.

    Args:
        log: whose propensities and spread of rewards the rows have.
        lift: by which the policy is better, a share of the mean reward.
    """
    mean = self_normalized(log, np.ones(len(log)), 1.0)
    low, high = span_of(log)
    # rows with a choice alone can show a gain
    free = np.asarray(log.propensities, np.float64)
    free = free[free < 1]
    if not len(free):
        return np.inf, np.inf
    inverse = max(float(np.mean(free**-2.0)) / log._all_arms(), 1.0)
    # rewards scatter as clicks of their mean do, by a factor
    center = (mean.value - low) / (high - low)
    scatter = float(np.var(log.rewards)) / (high - low) ** 2 / (center * (1 - center)) if 0 < center < 1 else 1.0
    found = []
    for end in (mean.high, mean.low):
        place, rows = (end - low) / (high - low), np.inf
        # of few events of the policy ``beside`` asks for their share, which scatters as if all rates were small
        for rare in (0.0, 1.0) if place > 0 else ():
            rates = (place, min(place * (1 + lift), 1.0))
            own, new = (scatter * q * (1 - q * (1 - rare)) for q in rates)
            root = 1.960 * np.sqrt((inverse - 1) * own) + 1.282 * np.sqrt(max(inverse - 2, 0.0) * new + own)
            rows = float(root / (lift * place)) ** 2 * len(log) / len(free)
            if rows * rates[1] >= MANY * inverse:
                break
        found.append(rows)
    return found[0], found[1]
