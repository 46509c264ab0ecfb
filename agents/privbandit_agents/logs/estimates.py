"""The reward that a policy would have earned, estimated from the log of another one.

Daniel Horvitz and Donovan Thompson, "A Generalization of Sampling Without Replacement From a Finite Universe", JASA
1952 (inverse propensities); Adith Swaminathan and Thorsten Joachims, "The Self-Normalized Estimator for Counterfactual
Learning", NeurIPS 2015; Miroslav Dudik, John Langford and Lihong Li, "Doubly Robust Policy Evaluation and Learning",
ICML 2011; Robert Bell and Daniel McCaffrey, "Bias Reduction in Standard Errors for Linear Regression with Multi-Stage
Samples", Survey Methodology 2002 (the interval of ``snips``).

A policy is an agent, as it stands; a function from contexts (n, ...) to probabilities (n, K); or these probabilities.
Where arms come and go an agent chooses by the log's masks, and probabilities are those given that an arm is present.
It must not depend on the users in the log, or an estimate praises it for overfitting. The logging policy
may have learned from user to user: given the past, each term is unbiased, so that errors are a martingale.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.base.agent import Agent, AnyAgent, Array
from privbandit_agents.logs.record import Log
from privbandit_agents.privacy._validate import failure
from privbandit_envs.changing.masks import Masks
from privbandit_envs.validate import shown

Floats = NDArray[np.float64]
Model: TypeAlias = Callable[[Array], Array]
Policy: TypeAlias = AnyAgent | Model | Array


@dataclass(frozen=True)
class Estimate:
    """The mean reward of a policy, a user.

    Attributes:
        value: the estimate.
        error: its standard error.
        low, high: the interval.
        confidence: of the interval, by the normal law; that of ``snips`` by Student's.
        users: in the log.
        effective: number of users of the policy itself with the same information, by the weights: (sum w)^2 / sum w^2.
    """

    value: float
    error: float
    low: float
    high: float
    confidence: float
    users: int
    effective: float


def ips(log: Log, policy: Policy, confidence: float = 0.95, rng: Generator | None = None) -> Estimate:
    """Return the mean of w r, where w is the policy's probability of the logged action over the logged one.

    It is unbiased if the log could take every action that the policy takes.

    Args:
        log: from ``log``, or made of arrays.
        policy: which is to be judged.
        confidence: of the interval, in (0, 1).
        rng: for policies that draw their probabilities.

    Raises:
        ValueError: probabilities of another shape, or that are none; fewer than two users.
    """
    weights = weights_of(log, policy, rng)
    return estimate(weights * log.rewards, weights, confidence)


def snips(log: Log, policy: Policy, confidence: float = 0.95, rng: Generator | None = None) -> Estimate:
    """Return sum w r / sum w: with a small bias it is never beyond the rewards, and hardly feels a shift of them.

    Arguments and errors are those of ``ips``. A few users may have most of the weight: ``ratio_error`` corrects the
    error for that, and gives the degrees of freedom of Student's law in the interval.

    Raises:
        ValueError: as for ``ips``, or fewer than two logged actions are the policy's.
    """
    weights = weights_of(log, policy, rng)
    if not weights.sum() > 0:
        raise ValueError("no logged action is one of the policy's: the log holds no information on it.")
    value = float(weights @ log.rewards / weights.sum())
    error, freedom = ratio_error(weights / weights.sum(), log.rewards - value)
    quantile = float(scipy.special.stdtrit(freedom, (1 + failure(confidence=confidence)) / 2))
    return Estimate(
        value, error, value - quantile * error, value + quantile * error, confidence, len(log), effective(weights)
    )


def ratio_error(shares: Floats, residuals: Floats) -> tuple[float, float]:
    """Return the standard error of a weighted mean, and its degrees of freedom.

    A residual is shorter than an error, as the mean follows heavy users. Were all rewards equally uncertain, the
    square of user i's would be 1 - 2 h_i + sum h^2 times as large in the mean, for shares h: each is divided by this.
    The degrees of freedom fit the variance of the sum of squares (Satterthwaite), with such rewards of a normal law.
    With equal shares both are those of Student's t: the sample variance, and n - 1.

    Args:
        shares: each user's of all weight, which add up to 1, shape (n,).
        residuals: rewards less their weighted mean, shape (n,).

    Raises:
        ValueError: one user has all weight.
    """
    total, heaviest = float(shares @ shares), int(shares.argmax())
    rest = np.where(np.arange(len(shares)) == heaviest, 0.0, shares)
    shrunk = 1 - 2 * shares + total
    shrunk[heaviest] = rest.sum() ** 2 + rest @ rest  # the same, without cancellation if its share is nearly 1
    if not shrunk[heaviest] > 0:
        raise ValueError("an interval needs at least 2 users with the policy's action in the log; one has all weight.")
    parts, off = shares**2 / shrunk, shares - total / 2
    # the squared error is a quadratic form of the errors, of trace total; spread is the trace of its square
    few, top = np.where(rest > 0, parts, 0.0), (parts[heaviest], off[heaviest])
    spread = (shares**4).sum() + 2 * few.sum() * (few @ off**2) + 2 * (few @ off) ** 2 - 4 * (few**2 @ off**2)
    spread += 2 * top[0] * (few @ (off + top[1]) ** 2)
    return float(np.sqrt(parts @ residuals**2)), float(total**2 / spread)


def dr(
    log: Log, policy: Policy, model: Model | None = None, confidence: float = 0.95, rng: Generator | None = None
) -> Estimate:
    """Return the mean of sum_a pi(a) q(a) + w (r - q(chosen)), for predictions q of a model of rewards.

    It is unbiased for every model, as long as the model does not know the user's own reward or later ones; a
    good one makes the interval short. By default it is a ridge regression on the users before, fitted anew whenever
    they have doubled: one for all arms where they have features of their own, one for each arm where they share them.

    Args:
        log: of a policy over arms.
        policy: as for ``ips``.
        model: from contexts (n, ...) to mean rewards (n, K), made without the log.
        confidence: of the interval, in (0, 1).
        rng: as for ``ips``.

    Raises:
        ValueError: as for ``ips``.
        TypeError: a log of sets.
    """
    law = law_of(log, policy, rng)
    users = np.arange(len(log))
    weights = law[users, log.actions] / log.propensities
    q = progressive(log, law.shape[1]) if model is None else np.asarray(model(log.contexts), np.float64)
    if q.shape != law.shape or not np.isfinite(q).all():
        raise ValueError(f"model must predict finite rewards of shape {law.shape}; got shape {q.shape}.")
    terms = (law * q).sum(axis=1) + weights * (log.rewards - q[users, log.actions])
    return estimate(terms, weights, confidence)


def estimate(terms: Floats, weights: Floats, confidence: float) -> Estimate:
    """Return the mean of the users' terms with its normal interval."""
    n = len(terms)
    if n < 2:
        raise ValueError(f"an interval needs at least 2 users; got {n}.")
    z = float(scipy.special.ndtri((1 + failure(confidence=confidence)) / 2))
    with np.errstate(over="ignore", invalid="ignore"):
        value, error = float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(n))
    if not np.isfinite(error):
        raise ValueError("rewards over propensities are beyond all numbers: scale the rewards, or log with Explore.")
    return Estimate(value, error, value - z * error, value + z * error, confidence, n, effective(weights))


def effective(weights: Floats) -> float:
    """Return the number of users of the policy itself with the same information."""
    square = float(weights @ weights)
    return float(weights.sum() ** 2 / square) if square else 0.0


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
    if not ((law >= 0).all() and (np.abs(sums - 1) < 1e-6).all()):
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


def progressive(log: Log, n_arms: int, ridge: float = 1.0) -> Floats:
    """Return predictions for every user and arm by a ridge regression on the users before, shape (n, K)."""
    n, own = len(log), log.contexts.ndim == 3
    x = np.asarray(log.contexts, np.float64).reshape(n, -1) if not own else np.asarray(log.contexts, np.float64)
    predicted = np.zeros((n, n_arms))
    start = 32
    while start < n:
        past, now = slice(0, start), slice(start, min(2 * start, n))
        if own:
            chosen = x[past][np.arange(start), log.actions[past]]
            predicted[now] = x[now] @ fitted(chosen, log.rewards[past], ridge)
        else:
            for arm in range(n_arms):
                rows = np.flatnonzero(log.actions[past] == arm)
                ones = np.ones((len(x), 1))
                features = np.hstack([x, ones])
                predicted[now, arm] = features[now] @ fitted(features[rows], log.rewards[rows], ridge)
        start *= 2
    return predicted


def fitted(x: Floats, y: Floats, ridge: float) -> Floats:
    """Return the ridge regression of y (n,) on x (n, d)."""
    return np.asarray(np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ y))
