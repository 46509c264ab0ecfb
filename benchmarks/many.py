"""Seeds in step: CPU time of single runs over that of ``play_many``, in turns, and whether the results are the same.

``agents`` has those that play in step, ``wide`` LinUCB against the number of features.

    python benchmarks/many.py
    python benchmarks/many.py --only wide
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from harness import Options, Row, main
from privbandit_agents import Result, make, play, play_many

LINEAR = "privbandit/Linear-v0"
ROUNDS = 1000


def agents(options: Options) -> Iterator[Row]:
    """Measure the agents that play in step, with 10 arms and 20 features."""
    for name in ("linucb", "greedy", "epsilon-greedy", "lints"):
        for seeds in (8,) if options.quick else (8, 128):
            yield compared(name, seeds, {"horizon": 50 if options.quick else ROUNDS})


def wide(options: Options) -> Iterator[Row]:
    """Measure LinUCB against the number of features."""
    rounds = 20 if options.quick else ROUNDS // 4
    for dim in (5, 50, 100):
        yield compared("linucb", 32, {"dim": dim, "horizon": rounds})


def compared(name: str, seeds: int, kwargs: dict[str, Any], repeats: int = 3) -> Row:
    """Return the median ratio; a result that is not the same counts as 0."""
    ratios, same = [], True
    for _ in range(repeats):
        started = time.process_time()
        alone = [single(name, seed, kwargs) for seed in range(seeds)]
        turned = time.process_time()
        together = play_many(LINEAR, name, seeds, env_kwargs=kwargs)
        ratios.append((turned - started) / (time.process_time() - turned))
        same &= all(
            np.array_equal(one.regret, other.regret) and np.array_equal(one.reward, other.reward)
            for one, other in zip(alone, together, strict=True)
        )
    words = f"times as fast ({min(ratios):.2f}..{max(ratios):.2f}), {'the same' if same else 'other'} results"
    what = f"{name}, {seeds} seeds, {kwargs.get('dim', 20)} features"
    return Row(what, float(np.median(ratios)) if same else 0.0, words, at_least=1)


def single(name: str, seed: int, kwargs: dict[str, Any]) -> Result:
    env = gym.make(LINEAR, **kwargs)
    return play(env, make(name, env, seed=seed), seed=seed)


if __name__ == "__main__":
    sys.exit(main(__doc__, {"agents": agents, "wide": wide}))
