"""What coins hide that a shuffler has mixed: the privacy of a vector of integers plus binomial noise.

The protocol is that of Albert Cheu, Adam Smith, Jonathan Ullman, David Zeber and Maxim Zhilyaev, "Distributed
Differential Privacy via Shuffling", EUROCRYPT 2019; the bound is this project's own, to our knowledge. Proof:
docs/privacy/shuffled-sums.md.
"""

import math
from functools import lru_cache

from privbandit_agents.privacy._validate import budget, count, failure, positive
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho, rho_to_epsilon


def coins_epsilon(coins: int, delta: float, dim: int, shift: float, reach: int) -> float:
    """Return an epsilon at which integers plus Binomial(coins, 1/2) in each coordinate are (epsilon, delta)-DP.

    >>> round(coins_epsilon(1_000_000, 1e-5, dim=20, shift=100.0, reach=64), 3)
    0.794

    *Formal guarantees.* For any two vectors of integers at l2 distance at most ``shift``, no two coordinates of which
    are farther apart than ``reach``, with noise that is independent in every coordinate. With s^2 = (coins + 1) / 4 the
    privacy loss is that of Gaussian noise of deviation s, whose moments it does not exceed, plus a remainder that is
    of third order in (deviation / coins): epsilon is the tight conversion of rho = shift^2 / (2 s^2), plus the
    remainder. All of it is proved for finite numbers of coins; no limit theorem is used.

    Args:
        coins: fair coins in each coordinate, of all users of a batch together.
        delta: in (0, 1).
        dim: number of coordinates.
        shift: the largest l2 distance, > 0.
        reach: the largest distance in one coordinate.
    """
    failure(delta=delta), positive(shift=shift), count(dim=dim)
    if coins < 1:
        return math.inf
    tail = 1e-3  # share of delta for coins farther from their mean than anybody expects
    farthest = math.sqrt(coins * math.log(2 * dim / (tail * delta)) / 2)  # Hoeffding's bound, in all coordinates
    ratio = (farthest + reach) / ((coins + 1) / 2)
    if ratio >= 1:
        return math.inf
    # log-ratio of neighbouring probabilities: 2 artanh(v) for |v| <= ratio, and artanh(v) - v <= v^3 / (3 (1 - v^2))
    remainder = math.sqrt(dim) * shift * (2 / 3) * ratio**3 / (1 - ratio**2)
    rho = 2 * shift**2 / (coins + 1)
    return rho_to_epsilon(rho, delta * (1 - tail)) + remainder


@lru_cache(maxsize=1024, typed=True)
def coins_for(epsilon: float, delta: float, dim: int, shift: float, reach: int) -> int:
    """Return the fewest coins whose ``coins_epsilon`` is at most epsilon, 0 for infinity.

    Raises:
        ValueError: epsilon is so small that 2^52 coins are not enough; of more, no float holds every number of heads.
    """
    if budget(epsilon=epsilon) == math.inf:
        return 0
    few = 2 * shift**2 / epsilon_to_rho(epsilon, delta)  # without the remainder, which is seldom much
    low = max(0, int(min(few, most := 2**52) * (1 - 1e-6)) - 1)
    high = min(low + 1 + low // 256, most)
    while coins_epsilon(high, delta, dim, shift, reach) > epsilon:
        if high == most:
            raise ValueError(f"epsilon must be larger: {epsilon!r} at delta {delta!r} takes more than 2^52 coins.")
        low, high = high, min(high + 2 * (high - low), most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if coins_epsilon(middle, delta, dim, shift, reach) <= epsilon else (middle, high)
    return high
