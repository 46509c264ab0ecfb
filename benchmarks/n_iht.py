"""The error of private iterative hard thresholding offline, against the number of rows N.

    python benchmarks/n_iht.py
    python benchmarks/n_iht.py --epsilon 2 --dim 100 --seeds 16

Chakraborty, Roy and Basu (FLIPHAT, 2024), Theorem 4.1 and Proposition 5.5: the squared error is at most a statistical
term of order 1/N and a private one of order 1/N^2, both up to logarithms. Rows are independent, with autoregressive
Gaussian features; the parameter has 5 of d entries, +-1/sqrt(5). Columns are mean squared errors |estimate - truth|^2
without noise, with the noise that a proof needs, and with the noise as published, and what noise adds to the first.
Below are the slopes on log axes of the last half of the numbers of rows, with 95 % intervals over seeds.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import math
import warnings
from functools import partial

import numpy as np
from numpy.random import Generator
from privbandit_agents.joint.sparse.fliphat import Config, calibrate, n_iht
from privbandit_agents.joint.sparse.squared_loss import SquaredLoss
from rich.console import Console
from rich.progress import track
from scipy.signal import lfilter
from scipy.special import stdtrit

FIRST_SEED = 990_000
ENTRIES, CORRELATION, SIGMA = 5, 0.1, 0.1
BLOCK = 4096


def loss_of(rows: int, dim: int, theta: np.ndarray, config: Config, rng: Generator) -> SquaredLoss:
    """Return the loss of rows that were just drawn."""
    loss = SquaredLoss(dim, np.dtype(np.float64), *config.bounds(rows), users=rows, gram=True)
    for start in range(0, rows, BLOCK):
        drawn = rng.standard_normal((min(BLOCK, rows - start), dim))
        drawn[:, 1:] *= math.sqrt(1 - CORRELATION**2)
        x = lfilter([1.0], [1.0, -CORRELATION], drawn, axis=1)
        loss.add(x, x @ theta + SIGMA * rng.standard_normal(len(x)))
    return loss


def errors(rows: int, seed: int, given: argparse.Namespace) -> list[float]:
    """Return the squared errors without noise, with the correct noise and with the published one, on the same rows."""
    data, *noises = np.random.default_rng([seed, rows]).spawn(4)
    theta = np.zeros(given.dim)
    chosen = data.choice(given.dim, ENTRIES, replace=False)
    theta[chosen] = data.choice([-1, 1], ENTRIES) / math.sqrt(ENTRIES)
    kinds = ({"epsilon": math.inf}, {"epsilon": given.epsilon}, {"epsilon": given.epsilon, "calibration": "published"})
    configs = [Config(**kind) for kind in kinds]
    loss = loss_of(rows, given.dim, theta, configs[0], data)
    found = []
    for config, noise in zip(configs, noises, strict=True):
        peel, _ = calibrate(config, rows, min(config.s, given.dim), config.concentrated())
        released = partial(peel.release, rng=noise)
        estimate = n_iht(loss, released, config.iterations(rows), config.step, config.C)
        found.append(float(((estimate - theta) ** 2).sum()))
    return found


def slopes(table: np.ndarray, rows: list[int]) -> list[str]:
    """Return the slope of each column's logarithm in the last half of the rows: its mean over seeds and 95 % interval.

    The column of what noise adds has the slope of its mean, as single differences may be negative.
    """
    half = len(rows) // 2
    logs = np.log(rows[half:])
    told = []
    for column in range(3):
        each = np.polyfit(logs, np.log(table[:, half:, column]).T, 1)[0]
        margin = stdtrit(len(each) - 1, 0.975) * each.std(ddof=1) / math.sqrt(len(each))
        told.append(f"{each.mean():.2f} +- {margin:.2f}")
    for column in (1, 2):
        added = np.maximum((table[:, half:, column] - table[:, half:, 0]).mean(axis=0), 1e-300)
        told.append(f"{np.polyfit(logs, np.log(added), 1)[0]:.2f}")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=400)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--powers", type=int, nargs=2, default=(10, 20), help="of two: the least and the largest N")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # the published calibration warns
    rows = [2**power for power in range(given.powers[0], given.powers[1] + 1)]
    cases = [(seed, n) for seed in range(FIRST_SEED, FIRST_SEED + given.seeds) for n in rows]
    found = [errors(n, seed, given) for seed, n in track(cases, console=Console(stderr=True), transient=True)]
    table = np.reshape(found, (given.seeds, len(rows), 3))
    print("| N | no noise | correct noise | published noise | correct adds | published adds |\n|" + "---|" * 6)
    for n, (none, correct, published) in zip(rows, table.mean(axis=0), strict=True):
        cells = none, correct, published, correct - none, published - none
        print(f"| {n} | " + " | ".join(f"{cell:.2g}" for cell in cells) + " |")
    print("| slope | " + " | ".join(slopes(table, rows)) + " |")


if __name__ == "__main__":
    main()
