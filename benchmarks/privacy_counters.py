"""Private counters: noise, memory and speed of one coordinate in units of sensitivity / sqrt(2 rho)."""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from privbandit_agents.privacy.mechanisms.counters import BinaryTree, BufferedToeplitz, Counter, SquareRootToeplitz

HORIZONS = (100, 1000, 10_000, 100_000)
DIM = 20  # a Gram matrix and a vector for d = 5
LEAST_MEAN, LEAST_WORST = 2.3, 3.3  # ratios of the tree to the Toeplitz counters at T = 10_000


def counters(horizon: int) -> dict[str, Callable[..., Counter]]:
    """Return the counters to compare."""
    bandwidth = horizon // 10
    return {
        "tree": BinaryTree,
        "Toeplitz": SquareRootToeplitz,
        f"Toeplitz, bandwidth {bandwidth}": partial(SquareRootToeplitz, bandwidth=bandwidth),
        "Toeplitz, buffered": BufferedToeplitz,
    }


def deviations(counter: Counter) -> NDArray[np.float64]:
    """Return the standard deviation of the noise at up to ten thousand times, the worst one among them."""
    times = np.unique(np.linspace(1, counter.horizon, min(counter.horizon, 10_000)).astype(int))
    all_ones = (1 << (counter.horizon + 1).bit_length() - 1) - 1  # the tree's worst time
    return np.array([counter.standard_deviation(int(t)) for t in np.union1d(times, all_ones)])


def microseconds(counter: Counter) -> float:
    """Return the time of a step."""
    x = np.ones(counter.dim)
    started = time.perf_counter()
    for _ in range(counter.horizon):
        counter.add(x)
    return (time.perf_counter() - started) / counter.horizon * 1e6


def memory(counter: Counter) -> int:
    """Return the bytes of the arrays that the counter holds."""
    return sum(value.nbytes for value in vars(counter).values() if isinstance(value, np.ndarray))


def main() -> int:
    """Print the table; exit 1 if a Toeplitz counter misses its ratio to the tree at T = 10_000."""
    met = []
    print("| T | counter | mean sd | worst sd | tree / mean | tree / worst | kB at the end | us a step |")
    print("|---|---|---|---|---|---|---|---|")
    for horizon in HORIZONS:
        tree = deviations(BinaryTree(horizon, 1, 1.0, 0.5, np.random.default_rng(0)))
        for name, make in counters(horizon).items():
            counter = make(horizon, DIM, 1.0, 0.5, np.random.default_rng(0))
            sd = deviations(counter)
            mean, worst = tree.mean() / sd.mean(), tree.max() / sd.max()
            if horizon == 10_000 and name in ("Toeplitz", "Toeplitz, buffered"):
                met.append(mean >= LEAST_MEAN and worst >= LEAST_WORST)
            step = microseconds(counter)
            numbers = f"{sd.mean():.2f} | {sd.max():.2f} | {mean:.2f} | {worst:.2f}"
            print(f"| {horizon} | {name} | {numbers} | {memory(counter) / 1e3:.1f} | {step:.1f} |")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
