"""The noise of what a curator publishes, against what its mechanisms declare: a test that sees the exact values.

The replay holds what mechanisms declare against the ledger and the guarantee; this holds what is drawn against what
they declare.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from privbandit_agents.base.agent import CentralAgent
from privbandit_agents.privacy.mechanisms.counters import Counter
from privbandit_agents.privacy.mechanisms.pairs import standardised
from privbandit_agents.registry import find, make
from privbandit_agents.testing.replay import NotSeen, limited
from privbandit_agents.testing.runs import environment, serve
from privbandit_agents.testing.watchers import Release, Writer, releases_of

Floats = NDArray[np.float64]
Noise = dict[str, list[Floats]]
"""Standard normals by the kind of release, shape (n, k): n draws one after the other."""
LEVEL = 0.001
"""Probability at most of accusing an honest agent."""
DRAWS, RUNS = 80, 8
"""Runs end when there are so many draws of every kind, or after so many."""


def check_noise(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """What a CentralAgent publishes has at least the noise that its mechanisms declare, drawn anew each time.

    80 draws find noise x 0.7 in two of three agents, 900 draws noise x 0.9. Warns with ``NotSeen`` of mechanisms that
    do not know their noise; the noise of a selection leaves no trace in one release, and is not looked at.
    """
    if not issubclass(find(name).load(), CentralAgent):
        return
    noise, unseen = drawn(name, env_id, horizon, config)
    level = LEVEL / (2 * max(len(noise), 1))
    for kind, parts in noise.items():
        rows = np.concatenate(parts)
        low = chi2.cdf(np.sum(rows**2), rows.size)
        size = float(np.sqrt(np.mean(rows**2)))
        assert low > level, f"noise of {kind} is {size:.3g} times what is declared, in {rows.size} draws"
        again = repeated(parts)
        assert 2 * norm.sf(abs(again)) > level, f"noise of {kind} comes back in the next release"
    if unseen:
        warnings.warn(f"noise of {name} was not seen: {'; '.join(sorted(unseen))}.", NotSeen, stacklevel=3)


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
            return {}, {f"{agent.name} never calls publish()"}
        for kind, rows in kinds(releases_of(writer.notes), unseen).items():
            noise.setdefault(kind, []).append(rows)
        if all(sum(part.size for part in parts) >= DRAWS for parts in noise.values()):
            break
    return noise, unseen


def kinds(published: list[Release], unseen: set[str]) -> dict[str, Floats]:
    """Return the noise of a run by the mechanism and the number of coordinates."""
    found: Noise = {}
    for release in published:
        try:
            normals = standardised(release.mechanism, release.exact, release.released)
        except LookupError as error:
            unseen.add(str(error.args[0]))
            continue
        rows = normals.reshape(len(release.exact) if isinstance(release.mechanism, Counter) else 1, -1)
        found.setdefault(f"{type(release.mechanism).__name__} in {rows.shape[1]} coordinates", []).append(rows)
    return {kind: np.concatenate(rows) for kind, rows in found.items()}


def repeated(parts: list[Floats]) -> float:
    """Return the correlation of every draw with the next one of its run, in standard deviations."""
    products = np.concatenate([(rows[1:] * rows[:-1]).ravel() for rows in parts])
    return float(products.sum() / np.sqrt(products.size)) if products.size else 0.0
