"""A policy's value from a log, released with privacy for every user in it."""

import math
from dataclasses import dataclass

import scipy
from numpy.random import Generator, default_rng

from privbandit_agents.logs.estimates import Policy, weights_of
from privbandit_agents.logs.record import Log
from privbandit_agents.privacy._validate import failure
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.contributions.means import BoundedMean
from privbandit_envs.validate import positive


@dataclass(frozen=True)
class PrivateEstimate:
    """A private estimate of the mean reward of a policy.

    Attributes:
        value: the estimate.
        error: standard error, of the users and of the noise together, as far as the noisy square shows.
        low, high: the interval, which has the noise's width in it.
        confidence: of the interval.
        users: in the log.
        epsilon, delta: the release's cost to each of them, besides the cost of the log's agent.
        noise: standard deviation of the noise in the value.
        bound: to which w r was clipped.
    """

    value: float
    error: float
    low: float
    high: float
    confidence: float
    users: int
    epsilon: float
    delta: float
    noise: float
    bound: float


def private_value(
    log: Log,
    policy: Policy,
    epsilon: float,
    delta: float = 1e-5,
    *,
    bound: float | None = None,
    confidence: float = 0.95,
    ledger: Ledger | None = None,
    rng: Generator | None = None,
    noise: str = "numpy",
) -> PrivateEstimate:
    """Release the inverse-propensity estimate of a policy's value with (epsilon, delta)-DP.

    *Formal guarantees.* (epsilon, delta)-DP, by Gaussian DP, under replacement of one row of the log: context, action,
    reward and propensity. Where the log's agent is jointly private, or learned from nobody, the release together with
    all that the agent let be seen is private for every user, at the composition of both costs; where it learned from
    raw records, later rows reveal earlier users, and one row is all that is protected. The policy must not come from
    the log by other ways than private releases. Proof: docs/privacy/off-policy-values.md.

    Args:
        log: its rows belong to a trusted curator.
        policy: as for ``ips``.
        epsilon: of the release, > 0; infinity adds no noise.
        delta: of the release, in (0, 1).
        bound: w r is clipped to [-bound, bound], a public number; None: the inverse of the log's ``least_propensity``,
            for rewards in [-1, 1], so that nothing is clipped.
        confidence: of the interval, in (0, 1).
        ledger: in which the cost is entered before anything is drawn; None: one of this budget.
        rng: of the noise, for simulations; None: a fresh key from the operating system.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.

    Raises:
        ValueError: a parameter out of range, or no bound is known.
        PrivacyBudgetExceeded: the ledger has less left; nothing is drawn.
    """
    if bound is None:
        least = log.about.get("least_propensity")
        if not least:
            raise ValueError("bound must be given: this log knows no public number below which no propensity is.")
        bound = 1 / float(least)
    release = BoundedMean.from_epsilon(epsilon, delta, len(log), positive(bound=bound), noise)
    z = float(scipy.special.ndtri((1 + failure(confidence=confidence)) / 2))
    generator = default_rng() if rng is None else rng
    terms = weights_of(log, policy, generator.spawn(1)[0]) * log.rewards
    (Ledger(epsilon, delta) if ledger is None else ledger).spend(release.cost)
    mean, square, sigma = release.release(terms, generator)
    # all below reads what was released: the spread of the users, at most what the bound allows
    spread = min(max(square - mean**2, 0.0), release.bound**2)
    error = math.sqrt(spread / len(log) + sigma**2)
    interval = mean - z * error, mean + z * error
    return PrivateEstimate(mean, error, *interval, confidence, len(log), epsilon, delta, sigma, release.bound)
