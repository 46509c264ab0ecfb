"""How much faster the exact law of a sum is than the users one by one, and what a report costs.

Ratios of times measured in the same run, n = 10^4 users; CPU times of one thread, the best of several repetitions.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import sys
import time
from collections.abc import Callable

import numpy as np
from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset, UnaryEncoding
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere

USERS = 10_000
TARGET = 100.0
CASES: dict[str, LocalRandomizer] = {
    "Laplace, 256 cells": LaplaceOneHot(1.0, 256),
    "k-ary randomized response, 1024 cells": KaryRandomizedResponse(1.0, 1024),
    "unary encoding, 512 cells": UnaryEncoding(1.0, 512),
    "signed subset of all 256 cells": SignedSubset(1.0, 256),
    "bin-cap sign of a number, 256 cells": BinCapSign(1.0, 256, 1),
    "subset selection, 256 cells": SubsetSelection(2.0, 256),
    "signed subset of 79 out of 256 cells": SignedSubset(2.0, 256),
    "bin-cap sign, 50 cells, D = 6": BinCapSign(2.0, 50, 6),
    "hemisphere, 50 cells, D = 6": Hemisphere(2.0, 50, 6),
}


def best_time(work: Callable[[], object], repeats: int) -> float:
    """Return the least CPU time in seconds."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def speed_up(randomizer: LocalRandomizer) -> tuple[float, float]:
    """Return (seconds for a sum over the users one by one, seconds by its law)."""
    rng = np.random.default_rng(0)
    cells = rng.integers(-1, randomizer.cells, USERS)
    values = None if randomizer.categorical else rng.uniform(-0.4, 0.4, (USERS, randomizer.dim))
    single = best_time(lambda: randomizer.estimate(randomizer.randomize(cells, values, rng)).sum(axis=0), 3)
    return single, best_time(lambda: randomizer.approximate_sum(cells, values, rng), 30)


def main() -> int:
    """Print the table; exit 1 if an exact sum is not 100 times as fast."""
    print(f"| {'sum of 10^4 reports':<38} | {'by users':>9} | {'by law':>9} | {'ratio':>7} | law      |")
    print("|---|---|---|---|---|")
    met = True
    for name, randomizer in CASES.items():
        single, law = speed_up(randomizer)
        kind = "exact" if randomizer.exact_sum else "Gaussian"
        print(f"| {name:<38} | {single * 1e3:6.1f} ms | {law * 1e3:6.3f} ms | {single / law:7.0f} | {kind:<8} |")
        met &= single / law >= TARGET or not randomizer.exact_sum
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
