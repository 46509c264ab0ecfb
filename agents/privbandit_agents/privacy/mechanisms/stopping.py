"""Choosing the best of many private runs, and paying for three of them.

Jingcheng Liu and Kunal Talwar, "Private Selection from Private Candidates", STOC 2019 (random stopping); Nicolas
Papernot and Thomas Steinke, "Hyperparameter Tuning with Renyi Differential Privacy", ICLR 2022; Peter Kairouz, Sewoong
Oh and Pramod Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015 (what delta leaks). Proof:
docs/privacy/private-selection.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from numpy.random import Generator, default_rng

from privbandit_agents.privacy._validate import budget, failure
from privbandit_agents.privacy.accounting.costs import Cost, approximate, pure
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.mechanisms.selection import below

S = TypeVar("S")


@dataclass(frozen=True)
class Selected(Generic[S]):
    """The release: the best run. How many runs there were is not released, and must not be.

    Attributes:
        setting: of the best run.
        score: of the best run, as the run returned it.
        output: of the best run.
        epsilon, delta: what all of it costs.
    """

    setting: S
    score: float
    output: Any
    epsilon: float
    delta: float


def share_of(epsilon: float, delta: float, runs: float) -> tuple[float, float]:
    """Return the (epsilon, delta) of one run, so that a selection among ``runs`` on average has the given one.

    >>> share_of(3.0, 0.0, 20.0)
    (1.0, 0.0)
    """
    return budget(epsilon=epsilon) / 3, failure(delta=delta) / runs if delta else 0.0


def private_selection(
    settings: Sequence[S],
    run: Callable[[S, float, float, Generator], tuple[float, Any]],
    epsilon: float,
    delta: float = 0.0,
    *,
    runs: float = 10.0,
    ledger: Ledger | None = None,
    rng: Generator | None = None,
    noise: str = "numpy",
) -> Selected[S]:
    """Run settings drawn at random, again and again, stop by a coin, and return the run of the largest score.

    Algorithm:
        1. Draw a setting uniformly, run it, and keep the run if its score is larger than the one that is kept.
        2. Stop with probability 1 / runs; else go to 1. Return the kept run.

    *Formal guarantees.* (epsilon, delta)-DP of the returned run, if every single call of ``run`` returns score and
    output with (epsilon_1, delta_1)-DP at the numbers that it is handed: epsilon_1 = epsilon / 3, and delta_1 as in
    ``share_of``. Neighbours are those of ``run``. The number of runs is not part of it: neither it nor the time that it
    takes may be seen. Proof: docs/privacy/private-selection.md.

    Args:
        settings: public; at least one.
        run: takes a setting, epsilon_1, delta_1 and a generator, and returns a score and any output; NaN is the worst.
            Every run gets a generator with a key of its own, from which nobody can infer which run it was.
        epsilon: of all together, > 0; infinity promises nothing.
        delta: of all together, in [0, 1).
        runs: how many there are on average, >= 1; public.
        ledger: in which the whole cost is entered before the first run; None: none is kept.
        rng: of settings, coins and runs, for simulations; None: a fresh key from the operating system.
        noise: of settings and coins, ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
            Runs get generators with fresh keys then, and have to take secure noise by themselves.

    Raises:
        ValueError: a parameter out of range, or no settings.
        PrivacyBudgetExceeded: the ledger has less left; nothing is run.

    Examples:
        >>> import numpy as np
        >>> def noisy(setting, epsilon, delta, rng):
        ...     return setting + rng.laplace(scale=1 / epsilon), None
        >>> found = private_selection([0, 10, 20], noisy, 3.0, runs=20, rng=np.random.default_rng(0))
        >>> found.setting, found.epsilon
        (20, 3.0)
    """
    if not len(settings):
        raise ValueError("settings must be at least one; got none.")
    if isinstance(runs, bool) or not 1 <= runs < math.inf:
        raise ValueError(f"runs must be a finite number >= 1; got {runs!r}.")
    one = share_of(epsilon, delta, runs)
    if ledger is not None:
        cost: Cost = approximate(epsilon, delta) if delta else pure(epsilon)
        ledger.spend(cost)
    generator = default_rng() if rng is None or noise == "secure" else rng
    coins = secure.source(secure.check(noise), generator)
    kept: tuple[float, S, Any] | None = None
    while True:
        drawn = below(len(settings), coins) if noise == "secure" else generator.integers(len(settings))
        setting = settings[int(drawn)]
        score, output = run(setting, *one, secure.branch("numpy", generator))
        score = -math.inf if math.isnan(score) else float(score)
        if kept is None or score > kept[0]:  # of equal scores the first: which it is depends on the order alone
            kept = score, setting, output
        if coins.random(1)[0] * runs <= 1:  # with at least the probability 1 / runs, however the product is rounded
            return Selected(kept[1], kept[0], kept[2], epsilon, delta)
