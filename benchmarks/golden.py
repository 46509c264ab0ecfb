"""Fingerprints of small runs of all agents: of two trees with the same ones, every run is the same bit for bit.

    python benchmarks/golden.py before.json                    all agents, in each world that they play
    python benchmarks/golden.py before.json lplr ldp-greedy    some of them
    python benchmarks/golden.py --compare before.json after.json

They hold on one machine. Equal runs are no proof of privacy: these worlds send records within all bounds, so that a
lost clip changes none of them. Agents that own their loop are left out: torch has bits of its own.
"""

import hashlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import LearningAgent, make, play
from privbandit_agents.zoo.entries import AGENTS, FAMILIES
from privbandit_agents.zoo.registry import can_play, field_names

from privbandit_envs.changing.delay import DelayFeedback

WORLDS: dict[str, dict[str, Any]] = {
    "linear": {"n_arms": 4, "dim": 3},
    "sparse": {"dim": 30, "sparsity": 3},
    "assortments": {"n_items": 12, "capacity": 3, "dim": 3},
    "labels": {"n_public": 60},
    "clicks": {"n_arms": 3, "dim": 3},
    "arms": {"n_arms": 4},
    "smooth": {},
}
COUNTED = {"linear": {"support": 6}, "clicks": {"support": 6}, "smooth": {"support": 6}, "arms": {}}
"""Worlds with finitely many contexts, which serve users by counts."""
OTHERS: list[tuple[str, str, dict[str, Any]]] = [
    ("jdp-linucb", "linear", {"window": 400}),
    ("jdp-linucb", "linear", {"counter": "tree"}),
    ("jdp-linucb", "linear", {"counter": "toeplitz", "growth": 1.3}),
    ("jdp-linucb", "linear", {"epsilon": 30.0}),
    ("jdp-linucb", "clicks", {"rho": 0.5}),
    ("jdp-linucb", "clicks", {"window": 300}),
    ("lplr", "linear", {"preset": "published"}),
    ("lplr", "linear", {"preset": "published", "calibration": "correct", "kappas": (0.1, 0.1, 0.1, 0.1)}),
    ("lplr", "linear", {"oracle": "per-arm", "width": "sum"}),
    ("lplr", "linear", {"release": "laplace"}),
    ("lplr", "linear", {"release": "bin-cap"}),
    ("lplr", "linear", {"epsilon": 8.0}),
    ("ldp-greedy", "linear", {"release": "laplace"}),
    ("ldp-linucb", "linear", {"window": 300}),
    ("input-perturbation", "linear", {"regression": "plain"}),
    ("smooth-ldp", "smooth", {"report": "laplace"}),
    ("smooth-ldp", "smooth", {"epsilon": 8.0}),
    ("lpct", "labels", {"report": "laplace"}),
    ("lpct", "labels", {"report": "grr"}),
    ("shuffle-linucb", "clicks", {"epsilon": 8.0}),
    ("linucb", "linear", {"growth": 1.2}),
    ("linucb", "linear", {"window": 200}),
]
"""Settings that turn an agent into another one: agent, world, settings."""


def played(
    world: str,
    name: str,
    users: int,
    wrapped: Callable[[Any], Any] = lambda env: env,
    by_counts: bool = True,
    **given: Any,
) -> tuple[Any, Any]:
    """Return the result and the agent of a run; ``given`` are settings of the agent, or of the world by ``env_KEY``."""
    settings = {key: value for key, value in given.items() if not key.startswith("env_")}
    own = {key.removeprefix("env_"): value for key, value in given.items() if key.startswith("env_")}
    env = gym.make(FAMILIES[world], horizon=users, **{**WORLDS[world], **own})
    agent = make(name, env, seed=3, **settings)
    checkpoints = np.unique(np.linspace(1, users, 23).astype(int))
    return play(wrapped(env), agent, users, seed=5, checkpoints=checkpoints, by_counts=by_counts), agent


def curves(*case: Any, **given: Any) -> str:
    """Return the fingerprint of a run's curves."""
    result, _ = played(*case, **given)
    parts = (result.checkpoints, result.regret, result.reward, result.mad, result.mse)
    return f"{digest(*(np.zeros(0) if part is None else part for part in parts))} {result.simulation}"


def server(world: str, name: str, users: int) -> str:
    """Return the fingerprint of an agent after a run: its choices, its predictions and its guarantee."""
    _, agent = played(world, name, users)
    contexts = [gym.make(FAMILIES[world], horizon=5, **WORLDS[world]).reset(seed=seed)[0] for seed in range(8)]
    shown = agent.contexts_of(np.stack(contexts))
    predicted = agent.predict(shown)
    chosen = np.asarray(agent.select_action(shown), np.float64)
    return f"{digest(chosen, np.zeros(0) if predicted is None else predicted)} {agent.guarantee.words}"


def digest(*arrays: Any) -> str:
    made = hashlib.sha256()
    for array in arrays:
        made.update(np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:16]


def stepped(users: int) -> Callable[[Any], Any]:
    """Return what lets an environment serve one user a step."""
    return lambda env: gym.wrappers.TimeLimit(env, users + 1)


def cases(names: list[str]) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield what each run is called, and the run."""
    for name in names:
        settings = field_names(AGENTS[name].load().Config)
        for world in WORLDS:
            env = gym.make(FAMILIES[world], horizon=10, **WORLDS[world])
            if not can_play(name, env):
                continue
            few = world in ("sparse", "assortments")
            users, run = 700 if few else 2000, partial(curves, world, name)
            here = f"{name}/{world}/"
            yield here + "blocks", partial(run, users)
            yield here + "alone", partial(run, 300, by_counts=False)
            yield here + "steps", partial(run, 200, stepped(200))
            yield here + "delay", partial(run, 300, lambda env: DelayFeedback(env, 7))
            yield here + "server", partial(server, world, name, 500)
            if "epsilon" in settings:
                yield here + "no noise", partial(run, 400, epsilon=math.inf)
            if "people" in settings:
                yield here + "people", partial(run, 800, people=60, env_people=60)
                if "visits" in settings:
                    yield here + "means of people", partial(run, 800, people=60, env_people=60, visits="mean")
            if world != "assortments":
                yield here + "masks", partial(run, 400, env_available=0.5)
            if world in COUNTED:
                known = {f"env_{key}": value for key, value in COUNTED[world].items()}
                yield here + "counts", partial(run, 20_000, **known)
        for other, world, given in OTHERS:
            if other == name:
                words = ", ".join(f"{key}={value}" for key, value in given.items())
                yield f"{name}/{world}/{words}", partial(curves, world, name, 3000, **given)


def found(names: list[str]) -> dict[str, str]:
    """Return the fingerprints of all runs; of a run that raises, the error."""
    prints = {}
    for case, run in cases(names):
        try:
            prints[case] = run()
        except Exception as error:  # a world that an agent does not play by these settings says so alike in both trees
            prints[case] = f"{type(error).__name__}: {error}"[:150]
    return prints


def compare(before: str, after: str) -> int:
    """Print what differs; return 1 if anything does."""
    first, second = (json.loads(Path(file).read_text()) for file in (before, after))
    other = [case for case in {**first, **second} if first.get(case) != second.get(case)]
    for case in other:
        print(f"{case}: {first.get(case, 'not there')} | {second.get(case, 'not there')}")
    print(f"{len(other)} of {len({**first, **second})} runs differ")
    return int(bool(other))


def main() -> int:
    if sys.argv[1] == "--compare":
        return compare(*sys.argv[2:])
    warnings.simplefilter("ignore")
    started = time.process_time()
    known = [name for name, entry in AGENTS.items() if not issubclass(entry.load(), LearningAgent)]
    prints = found([name for name in sys.argv[2:] or known])
    Path(sys.argv[1]).write_text(json.dumps(prints, indent=0))
    errors = sum("Error" in value for value in prints.values())
    print(f"{len(prints)} runs, {errors} of them refused, in {time.process_time() - started:.0f} CPU seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
