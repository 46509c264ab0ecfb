"""The reward that a policy would have earned, estimated from the log of another one.

Daniel Horvitz and Donovan Thompson, "A Generalization of Sampling Without Replacement From a Finite Universe", JASA
1952 (inverse propensities); Adith Swaminathan and Thorsten Joachims, "The Self-Normalized Estimator for Counterfactual
Learning", NeurIPS 2015; Miroslav Dudik, John Langford and Lihong Li, "Doubly Robust Policy Evaluation and Learning",
ICML 2011; Yu-Xiang Wang, Alekh Agarwal and Miroslav Dudik, "Optimal and Adaptive Off-policy Evaluation in Contextual
Bandits", ICML 2017 (weights that are dropped); Yi Su, Maria Dimakopoulou, Akshay Krishnamurthy and Miroslav Dudik,
"Doubly Robust Off-policy Evaluation with Shrinkage", ICML 2020 (weights that shrink); Nikos Karampatziakis, John
Langford and Paul Mineiro, "Empirical Likelihood for Contextual Bandits", NeurIPS 2020; Charles Clopper and Egon
Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial", Biometrika 1934 (the
intervals).

A policy is an agent, as it stands; a function from contexts (n, ...) to probabilities (n, K); or these probabilities.
Where arms come and go an agent chooses by the log's masks, and probabilities are those given that an arm is present.
It must not depend on the users in the log, or an estimate praises it for overfitting: judge a policy that was chosen
from a log by rows that it was not chosen from. The logging policy may have learned from user to user: given the past,
each term is unbiased, so that errors are a martingale.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_agents.base.agent import Agent, AnyAgent
from privbandit_agents.base.spaces import Array
from privbandit_agents.logs.record import Log, canonical
from privbandit_agents.privacy._validate import failure
from privbandit_envs.changing.masks import Masks
from privbandit_envs.problem import pick
from privbandit_envs.validate import listed, one_of, shown

Floats = NDArray[np.float64]
Model: TypeAlias = Callable[[Array], Array]
Policy: TypeAlias = AnyAgent | Model | Array
Steps: TypeAlias = Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]
Blocks: TypeAlias = Iterable[tuple[NDArray[np.int64], Floats]]


@dataclass(frozen=True)
class Estimate:
    """The mean reward of a policy, a user.

    Attributes:
        value: the estimate; that of ``ips`` and ``dr`` may lie beyond the rewards.
        error: its standard error.
        low, high: the interval, within the rewards' range: ``about["reward_range"]`` of the log, or [0, 1] if all
            rewards lie there. Else it is the range of the log's rewards, and the interval holds if no other can occur.
        confidence: of the interval.
        users: in the log.
        effective: number of users of the policy itself with the same information, by the weights: (sum w)^2 / sum w^2.
        assumes: what the interval takes for granted besides right propensities, in words; "" if nothing.
    """

    value: float
    error: float
    low: float
    high: float
    confidence: float
    users: int
    effective: float
    assumes: str = ""


def ips(log: Log, policy: Policy, confidence: float = 0.95, rng: Generator | None = None) -> Estimate:
    """Return the mean of w r, where w is the policy's probability of the logged action over the logged one.

    It is unbiased if the log could take every action that the policy takes. ``interval`` says how the interval is made.

    Args:
        log: from ``log``, or made of arrays.
        policy: which is to be judged.
        confidence: of the interval, in (0, 1).
        rng: for policies that draw their probabilities.

    Raises:
        ValueError: probabilities of another shape, or that are none; fewer than two users; the policy takes arms that
            no row has, or where the log could take none but another; no logged action is the policy's; or all rewards
            are the same, beyond [0, 1], and their range is unknown.
    """
    _, weights, largest = supported(log, policy, rng)
    return estimate(log, weights, largest, confidence)


def snips(log: Log, policy: Policy, confidence: float = 0.95, rng: Generator | None = None) -> Estimate:
    """Return sum w r / sum w: with a small bias it is never beyond the rewards, and hardly feels a shift of them.

    Arguments and errors are those of ``ips``.
    """
    _, weights, largest = supported(log, policy, rng)
    return self_normalized(log, weights, largest, confidence)


def self_normalized(log: Log, weights: Floats, largest: float, confidence: float = 0.95) -> Estimate:
    """Return ``snips`` for weights, shape (n,), of which ``largest`` is the largest possible one."""
    low, high = span_of(log)
    scaled = weights / largest
    value = float(scaled @ log.rewards / scaled.sum())
    error = float(np.sqrt(scaled**2 @ (log.rewards - value) ** 2) / scaled.sum())
    ends = interval(log, weights, scaled * log.rewards, scaled, (low, high, 1.0), (low, high), confidence)
    return Estimate(value, error, *ends, confidence, len(log), effective(weights))


def dm(
    log: Log, policy: Policy, model: Model | None = None, confidence: float = 0.95, rng: Generator | None = None
) -> Estimate:
    """Return the mean of sum_a pi(a) q(a), the direct method: the interval knows nothing of the model's error.

    Arguments and errors are those of ``dr``.
    """
    law, _, _ = supported(log, policy, rng)
    expected = predicted(log, law, policy, model, rng)[0]
    low, high = span_of(log)
    span = min(low, float(expected.min())), max(high, float(expected.max()))
    one = self_normalized(
        replace(log, rewards=expected, about={"reward_range": span}), np.ones(len(log)), 1.0, confidence
    )
    return replace(one, assumes="the model is right")


def dr(
    log: Log,
    policy: Policy,
    model: Model | None = None,
    confidence: float = 0.95,
    rng: Generator | None = None,
    *,
    limit: Literal["none", "switch", "shrink"] = "none",
    threshold: float | None = None,
) -> Estimate:
    """Return the mean of sum_a pi(a) q(a) + w (r - q(chosen)), for predictions q of a model of rewards.

    It is unbiased for every model, as long as the model does not know the user's own reward; a good one makes the
    interval short. By default it is a ridge regression on four fifths of the rows for the other fifth, by random folds
    of rows, or of people if the log names them: no order of the rows changes the estimate. In a log whose ``about`` has
    ``in_order`` it is fitted to the users before, anew whenever they have doubled, for the logging policy may have
    learned from a user's reward. One regression serves all arms that have features of their own; arms that share them
    have one each.

    Args:
        log: of a policy over arms.
        policy: as for ``ips``.
        model: from contexts (n, ...) to mean rewards (n, K), made without the log.
        confidence: of the interval, in (0, 1).
        rng: of the folds, and for policies that draw their probabilities; None: the same folds in every call.
        limit: ``"switch"`` drops weights above the threshold, ``"shrink"`` makes them t w / (w^2 + t): shorter
            intervals for a bias that they do not have in them.
        threshold: t, from 0, which is ``dm``, to infinity, which is ``dr``; None: that of the least estimated error.

    Raises:
        ValueError: as for ``ips``; or an unknown limit.
        TypeError: a log of sets.
    """
    law, weights, largest = supported(log, policy, rng)
    q = predicted(log, law, policy, model, rng)
    if one_of(("none", "switch", "shrink"), limit=limit) == "none":
        return estimate(log, weights, largest, confidence, q)
    off = log.rewards - q[1]
    if threshold is None:  # the least variance and square of the bias, as far as it is seen
        tried = [
            0.0,
            *np.quantile(weights[weights > 0], np.linspace(0, 1, 21)) ** (1 if limit == "switch" else 2),
            np.inf,
        ]
        errors = []
        for one in tried:
            used = limited(weights, limit, one)
            lost = (weights - used) * off
            square = max(lost.mean() ** 2 - lost.var() / len(log), 0.0)
            errors.append(np.var(q[0] + used * off) / len(log) + square)
        threshold = float(tried[int(np.argmin(errors))])
    if threshold == 0:
        return dm(log, policy, model, confidence, rng)
    used = limited(weights, limit, threshold)
    most = limited(np.array([min(largest, threshold if limit == "switch" else np.sqrt(threshold))]), limit, threshold)
    found = estimate(log, used, float(most.max(initial=used.max())), confidence, q)
    lost = float(((weights - used) * off).mean())
    return replace(found, assumes=f"no bias, which is estimated at {-lost:.3g}, with threshold {threshold:.3g}")


def limited(weights: Floats, limit: str, threshold: float) -> Floats:
    """Return the weights that are used, shape (n,)."""
    if limit == "switch" or not 0 < threshold < np.inf:
        return np.where(weights <= threshold, weights, 0.0)
    return threshold * weights / (weights**2 + threshold)


def predicted(log: Log, law: Floats | None, policy: Policy, model: Model | None, rng: Generator | None) -> Floats:
    """Return a model's rewards of the policy, of the chosen arm, and the least and the most of all, shape (4, n)."""
    if law is None:
        raise TypeError("the log has sets, not arms: take ips or snips.")
    blocks: Blocks
    if model is None:
        given = () if callable(policy) or isinstance(policy, Agent) else (law,)
        folds = crossed(log, default_rng(0) if rng is None else rng.spawn(1)[0], *given)
        blocks = predictions(log, law.shape[1], in_turn(len(log)) if log.about.get("in_order") else folds)
    else:
        q = np.asarray(model(log.contexts), np.float64)
        if q.shape != law.shape or not np.isfinite(q).all():
            raise ValueError(f"model must predict finite rewards of shape {law.shape}; got shape {q.shape}.")
        blocks = [(np.arange(len(log)), q)]
    found = np.full((4, len(log)), np.clip(0.0, *span_of(log)))
    for rows, q in blocks:
        found[:, rows] = np.vecdot(law[rows], q), pick(q, log.actions[rows]), q.min(axis=1), q.max(axis=1)
    return found


def estimate(
    log: Log, weights: Floats, largest: float, confidence: float, q: Floats | tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
) -> Estimate:
    """Return the mean of E q + w (r - q(chosen)) with its interval; q has these two, the least, and the largest one."""
    n, (expected, chosen, least, most) = len(log), q
    terms = expected + weights * (log.rewards - chosen)
    with np.errstate(over="ignore", invalid="ignore"):
        value, error = float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(n))
    if not np.isfinite(error):
        raise ValueError("rewards over propensities are beyond all numbers: scale the rewards, or log with Explore.")
    low, high = span_of(log)
    lowest = np.min(expected + largest * np.minimum(low - most, 0.0))
    highest = np.max(expected + largest * np.maximum(high - least, 0.0))
    ends = interval(log, weights, terms, 1.0, (lowest, highest, 1.0), (low, high), confidence)
    return Estimate(value, error, *ends, confidence, n, effective(weights))


def interval(
    log: Log,
    weights: Floats,
    a: Floats,
    b: Floats | float,
    limits: tuple[float, float, float],
    span: tuple[float, float],
    confidence: float,
) -> tuple[float, float]:
    """Return the interval of v in E[a - v b] = 0 by empirical likelihood, exact for the clicks of one arm.

    It has the v whose likelihood ratio max_t sum log(1 + t (a - v b)) is at most that of the ends of Clopper and
    Pearson's interval for as many clicks and rows as the weights are worth, (sum w r)^2 / sum (w r)^2 and likewise for
    1 - r. The bet t leaves 1 + t (a - v b) >= 0 for all that could have occurred: a click with the largest weight can
    be to come though none was seen. If people return, rows count less, by the variance of sums by person.

    Args:
        log: whose rewards count as clicks by their place in their range.
        weights: w, shape (n,).
        a: the terms that v does not move, shape (n,).
        b: what v moves them by, shape (n,), or one number for all.
        limits: (l, u, c), so that a - v b lies in [l - v c, u - v c].
        span: within which v lies.
        confidence: of the interval, in (0, 1).
    """
    low, high = span_of(log)
    clicks = weights * ((log.rewards - low) / (high - low))
    misses = np.maximum(weights - clicks, 0.0)
    # rows count less if people return
    off = a - a.mean() / np.mean(b) * b
    off = off if off.any() else weights
    shared = np.zeros(1) if log.people is None else np.bincount(log.people, off)
    rows = max(1.0, float(shared @ shared / (off @ off)))
    seen, missed = effective(clicks) / rows, effective(misses) / rows
    # the same terms, once each, in one order however the rows are
    points, counts = np.unique(a + 1j * b if np.ndim(b) else a, return_counts=True)
    a, b, m = points.real, points.imag if np.ndim(b) else np.full(len(points), b), counts / rows
    value, both = float(m @ a / (m @ b)), seen + missed
    tail = (1 - failure(confidence=confidence)) / 2
    found = []
    for sign, end, count in ((1, span[0], seen), (-1, span[1], missed)):
        threshold = 0.0
        if count:
            q = float(scipy.special.betaincinv(count, both - count + 1, tail))
            threshold = scipy.special.rel_entr([count, both - count], [both * q, both * (1 - q)]).sum()

        def beyond(v: float, sign: int = sign, threshold: float = threshold) -> float:
            room = v * limits[2] - limits[0] if sign > 0 else limits[1] - v * limits[2]
            return ratio(sign * (a - v * b), m, room) - threshold

        inside = count and sign * (value - end) > 0 and beyond(end) > 0
        found.append(scipy.optimize.brentq(beyond, end, value, xtol=1e-15 * (span[1] - span[0])) if inside else end)
    return min(found[0], span[1]), max(found[1], span[0])


def ratio(g: Floats, m: Floats, room: float) -> float:
    """Return max_t sum m log(1 + t g) over bets 0 <= t <= 1 / room, by Newton steps that stay where it is finite."""
    end = (1 - 1e-9) / max(room, 1e-300)
    if (1 + end * g > 0).all() and m @ (g / (1 + end * g)) >= 0:
        return float(m @ np.log1p(end * g))
    bet = 0.0
    for _ in range(100):
        parts = g / (1 + bet * g)
        slope, curve = float(m @ parts), float(m @ parts**2)
        step = slope / (curve + abs(slope) * np.sqrt(curve))
        bet = min(max(bet + step, 0.0), end)
        if abs(step) <= 1e-9 * bet:
            break
    return float(m @ np.log1p(bet * g))


def span_of(log: Log) -> tuple[float, float]:
    """Return the range of rewards: as ``about`` has it, or [0, 1], or that of the log's own."""
    low, high = float(log.rewards.min()), float(log.rewards.max())
    given = log.about.get("reward_range") or ((0.0, 1.0) if low >= 0 and high <= 1 else (low, high))
    if not given[0] <= low <= high <= given[1]:
        raise ValueError(f"reward_range must have all rewards in it; got {shown(given)}.")
    if not given[0] < given[1]:
        raise ValueError(f"all rewards are {low:g}: about['reward_range'] must say between which numbers they can lie.")
    return float(given[0]), float(given[1])


def largest_weight(log: Log, weights: Floats, likeliest: Floats | float = 1.0) -> float:
    """Return the largest weight that could have occurred: a row's own, or if it is 0 that of the likeliest arm."""
    return float(np.where(weights > 0, weights, likeliest / log.propensities).max())


def supported(log: Log, policy: Policy, rng: Generator | None) -> tuple[Floats | None, Floats, float]:
    """Return the policy's law, None for sets, the weights, and the largest possible one; or raise.

    A policy is refused if it does what the log could not, or has no row in common with it.
    """
    users = np.arange(len(log))
    if len(users) < 2:
        raise ValueError(f"an interval needs at least 2 users; got {len(users)}.")
    if log.actions.ndim > 1:
        law, weights, arms = None, weights_of(log, policy, rng), ""
    else:
        law = law_of(log, policy, rng)
        weights, masses = law[users, log.actions] / log.propensities, law.mean(axis=0)
        known = log.about.get("arms") or []
        names = np.array([*known, *range(len(known), law.shape[1])], str)[: law.shape[1]]
        absent = np.where(np.bincount(log.actions, minlength=law.shape[1]) == 0, masses, 0.0)
        arms = f" takes arms {listed(names[(absent if absent.any() else masses) > 0])}"
        if absent.sum() > 1e-6:
            raise ValueError(f"the policy{arms} for {absent.sum():.2%} of users, and no row of the log has them.")
    if not weights.sum() > 0:
        raise ValueError(f"the policy{arms}, in no row as the log did: the log holds no information on it.")
    if (lost := float(np.mean((log.propensities == 1) * (1 - weights)))) > 1e-6:
        other = "other actions than the log, which had no choice there (propensity 1): log with Explore"
        raise ValueError(f"the policy{arms}; in {lost:.2%} of rows it takes {other}.")
    return law, weights, largest_weight(log, weights, 1.0 if law is None else law.max(axis=1))


def effective(weights: Floats) -> float:
    """Return the number of users of the policy itself with the same information."""
    scaled = weights / (weights.max() or 1.0)
    square = float(scaled @ scaled)
    return float(scaled.sum() ** 2 / square) if square else 0.0


def weights_of(log: Log, policy: Policy, rng: Generator | None = None) -> Floats:
    """Return each user's weight, the policy's probability of the logged action over that of the log, shape (n,)."""
    if isinstance(policy, Agent) and log.actions.ndim > 1:
        # not smoothed: an action that the policy never draws has the weight 0
        law = policy.propensities(log.contexts, log.actions, rng=rng)
        chances = np.asarray(law)
        if law.draws:
            chances = np.maximum((chances * (law.draws + 1) - 1) / law.draws, 0.0)
        return np.asarray(chances / log.propensities)
    return np.asarray(law_of(log, policy, rng)[np.arange(len(log)), log.actions] / log.propensities)


def law_of(log: Log, policy: Policy, rng: Generator | None = None) -> Floats:
    """Return the policy's probability of every arm for every user in the log, shape (n, K)."""
    if log.actions.ndim > 1:
        raise TypeError("the log has sets, not arms: take ips or snips, and an agent as the policy.")
    given: Any = policy
    if isinstance(policy, Agent):
        given = policy.probabilities(log.contexts, rng=rng, mask=log.masks)
    elif callable(policy):
        given = policy(log.contexts)
    try:
        law = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"a policy must be an agent, a function or probabilities; got {given!r:.60}.") from None
    arms = int(log.actions.max(initial=0)) + 1 if log.masks is None else log.masks.shape[1]
    fits = law.ndim == 2 and len(law) == len(log) and law.shape[1] >= arms
    if not fits or (log.masks is not None and law.shape[1] > arms):
        raise ValueError(f"a policy must give {len(log)} users a probability for every arm; got shape {law.shape}.")
    sums = law.sum(axis=1)
    if not (law.min(initial=0) >= 0 and (np.abs(sums - 1) < 1e-6).all()):
        raise ValueError(f"a policy's probabilities must be >= 0 and add up to 1 for every user; got {shown(sums)}.")
    return law if log.masks is None else among(law, log.masks)


def among(law: Floats, masks: Masks) -> Floats:
    """Return probabilities given that the arm is present, shape (n, K): those of a policy that draws until it is."""
    here = np.where(masks, law, 0.0)
    sums = here.sum(axis=1, keepdims=True)
    if not (sums > 0).all():
        user = int(np.flatnonzero(sums <= 0)[0])
        raise ValueError(f"a policy must take an arm that log.masks allows; it takes none of those of user {user}.")
    return np.asarray(here / sums)


def crossed(log: Log, rng: Generator, *more: Array) -> Steps:
    """Yield four fifths of the rows and the fifth that they are to predict; a person's rows are in one fifth.

    Rows are known by what is in them and in ``more``, people by their rows: neither has a place.
    """
    order, part = parts(log, rng, 5, *more)
    for one in range(5):
        yield order[part != one], np.sort(order[part == one])


def parts(log: Log, rng: Generator, number: int, *more: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows in the order of what is in them, and the random part of each in this order, shape (n,)."""
    rows = [array for name, array in log.arrays.items() if name != "people"]
    order = canonical(*rows, *more, *([] if log.people is None else [log.people]))
    first = np.arange(len(log))
    if log.people is not None:
        _, places, who = np.unique(log.people[order], return_index=True, return_inverse=True)
        first = places[who]
    return order, (rng.permutation(len(log)) % number)[first]


def in_turn(n: int) -> Steps:
    """Yield the users so far and those after them, of whom there are as many."""
    start = 32
    while start < n:
        yield np.arange(start), np.arange(start, min(2 * start, n))
        start *= 2


def predictions(log: Log, n_arms: int, steps: Steps, ridge: float = 1.0) -> Blocks:
    """Yield rows and their predictions for every arm by ridge regressions on other rows, shape (len(rows), K)."""
    n, own, span = len(log), log.contexts.ndim == 3, span_of(log)
    x = np.asarray(log.contexts, np.float64)
    x = x if own else np.hstack([x.reshape(n, -1), np.ones((n, 1))])
    for past, now in steps:
        actions, mean = log.actions[past], 0.0
        if own:
            lines = fitted(pick(x[past], actions), log.rewards[past], ridge)
        else:
            mean = log.rewards[past].mean()
            by_arm = past[np.argsort(actions.astype(np.int32), kind="stable")]
            arms = np.split(by_arm, np.bincount(actions, minlength=n_arms).cumsum()[:-1])
            lines = np.transpose([fitted(x[rows], log.rewards[rows] - mean, ridge) for rows in arms])
        for rows in np.array_split(now, len(now) // 4096 + 1):
            yield rows, np.clip(mean + x[rows] @ lines, *span)


def fitted(x: Floats, y: Floats, ridge: float) -> Floats:
    """Return the ridge regression of y (n,) on x (n, d)."""
    return np.asarray(np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ y))
