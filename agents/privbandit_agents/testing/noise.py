"""The noise of what a curator publishes, against what its mechanisms declare: a test that sees the exact values.

The replay holds what mechanisms declare against the ledger and the guarantee; this holds what is drawn against what
they declare.
"""

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from privbandit_agents.base.agent import CentralAgent
from privbandit_agents.privacy.mechanisms.counters import Counter
from privbandit_agents.privacy.mechanisms.pairs import standardised
from privbandit_agents.registry import find, make
from privbandit_agents.testing.replay import NotSeen, limited
from privbandit_agents.testing.runs import environment, serve
from privbandit_agents.testing.watchers import Release, Writer, releases_of

Floats = NDArray[np.float64]
Noise = dict[str, list[list[Floats]]]
"""By the kind of release: the runs, each a list of standard normals, shape (k,), one draw after the other."""
LEVEL = 0.001
"""Probability at most of accusing an honest agent."""
DRAWS, RUNS = 320, 120
"""Runs end when there are so many draws of every kind, or after so many."""


def check_noise(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """What a CentralAgent publishes has at least the noise that its mechanisms declare, drawn anew each time.

    320 draws find noise x 0.8 in most agents, 900 draws noise x 0.9. Warns with ``NotSeen`` of mechanisms that
    do not know their noise; the noise of a selection leaves no trace in one release, and is not looked at.
    """
    if not issubclass(find(name).load(), CentralAgent):
        return
    noise, unseen = drawn(name, env_id, horizon, config)
    judge(noise)
    if unseen:
        warnings.warn(f"noise of {name} was not seen: {'; '.join(sorted(unseen))}.", NotSeen, stacklevel=3)


def judge(noise: Noise) -> None:
    """Fail if noise is less than standard normal, by a chi-square test, or if one draw tells of the next."""
    noise = noise | together(noise)
    level = LEVEL / (2 * max(len(noise), 1))
    for kind, runs in noise.items():
        values = np.concatenate([row for run in runs for row in run])
        low, size = scipy.stats.chi2.cdf(np.sum(values**2), values.size), float(np.sqrt(np.mean(values**2)))
        assert low > level, f"noise of {kind} is {size:.3g} times what is declared, in {values.size} draws"
        products = [one[: len(two)] * two[: len(one)] for run in runs for one, two in pairwise(run)]
        again = np.concatenate([np.zeros(1), *products])
        related = abs(again.sum()) / np.sqrt(again.size)
        assert 2 * scipy.stats.norm.sf(related) > level, f"noise of {kind} comes back in the next release"


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
    """Return how likely noise of a kind that is so many times as large as is declared is found, at its draws."""
    noise = noise | together(noise)
    counts = {kind: draws(runs) for kind, runs in noise.items()}
    level = LEVEL / (2 * max(len(noise), 1))
    return {k: float(scipy.stats.chi2.cdf(scipy.stats.chi2.ppf(level, n) / size**2, n)) for k, n in counts.items()}


def drawn(name: str, env_id: str, horizon: int, config: dict[str, Any], first: int = 13) -> tuple[Noise, set[str]]:
    """Return the noise of some runs, and what of it could not be seen."""
    noise: Noise = {}
    unseen: set[str] = set()
    env = environment(env_id, horizon // 2)
    for seed in range(first, first + RUNS):
        agent = make(name, env, seed=seed, **config)
        assert isinstance(agent, CentralAgent)
        if not agent.guarantee.proven or not limited(agent):
            return {}, set()
        writer = agent.watcher = Writer()
        env.reset(seed=seed)
        serve(env, [agent], horizon)
        if not writer.notes:
            return {}, {"it never calls publish()"}
        for kind, rows in kinds(releases_of(writer.notes), unseen).items():
            noise.setdefault(kind, []).append(rows)
        if all(draws(runs) >= DRAWS for runs in noise.values()):
            break
    return noise, unseen


def draws(runs: list[list[Floats]]) -> int:
    return sum(row.size for run in runs for row in run)


def kinds(published: list[Release], unseen: set[str]) -> dict[str, list[Floats]]:
    """Return the noise of a run by the mechanism and the dimension of what it hides."""
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
