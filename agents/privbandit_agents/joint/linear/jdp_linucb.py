"""Jointly private LinUCB by continual counting.

Roshan Shariff and Or Sheffet, "Differentially Private Contextual Linear Bandits", NeurIPS 2018, Algorithm 1. The window
is this project's own, after Wang Chi Cheung, David Simchi-Levi and Ruihao Zhu, "Learning to Optimize under
Non-Stationarity", AISTATS 2019.
"""

from dataclasses import dataclass
from typing import Literal

from privbandit_agents.base.settings import Budget, Count, Growth, LateSettings, NonNegative, Open01
from privbandit_agents.joint.linear.schedules import Epochs, OfPeople, Stretching, Windows
from privbandit_agents.joint.linear.sums import Schedule, SummedRecords
from privbandit_agents.joint.settings import CounterName, GaussianSettings
from privbandit_agents.privacy.mechanisms.counters import MOST_BYTES


@dataclass(frozen=True)
class Config(GaussianSettings, LateSettings):
    """Settings of JDP-LinUCB, besides the budget.

    Attributes:
        horizon: number of users T, fixed in advance; default: the environment's.
        counter: ``"tree"``; ``"toeplitz"``, with a third of its noise and memory that grows with the horizon; or
            ``"buffered"``, within 1 % of that in memory that grows with its logarithm.
        bonus_scale: multiplier of the theoretical width of the confidence bonus, >= 0; 1 is the theory.
        shift: ridge in units of the noise's spectral norm, >= 0.
        growth: an epoch ends, and the policy changes, when the number of users has grown by this factor, > 1.
        window: a new counter begins after this many users; the last full window and the one that runs count. None: one
            counter for all users.
        visits: with ``people``, ``"first"``: the first visit of each counts, in a counter; or ``"mean"``: all visits
            count in the mean of each person's records, which takes memory for every person. None: ``"mean"`` if
            people come 30 times or more on average, and the memory is at most 200 MiB.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    horizon: Count | None = None
    counter: CounterName = "buffered"
    bonus_scale: NonNegative = 0.1
    shift: NonNegative = 1.0
    growth: Growth = 1.05
    window: Count | None = None
    visits: Literal["first", "mean"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.visits is not None and self.people is None:
            raise ValueError(f"visits is for agents with people, who come again; got visits={self.visits!r}.")
        if self.visits == "mean" and self.window is not None:
            raise ValueError("visits='mean' has no windows; take visits='first', or leave window out.")

    def averages(self, users: int, size: int) -> bool:
        """Return whether means of people's records are kept, vectors of ``size`` numbers, in ``users`` visits.

        Raises:
            ValueError: they are asked for, and do not fit into memory.
        """
        if self.people is None or self.visits == "first" or self.window is not None:
            return False
        fits = 8 * self.people * size <= MOST_BYTES
        if self.visits == "mean" and not fits:
            taken = f"{8 * self.people * size / 2**20:,.0f} MiB for {self.people:,} people of {size:,} numbers"
            raise ValueError(f"visits='mean' takes {taken}; visits='first' takes next to none.")
        return self.visits == "mean" or (fits and users >= 30 * self.people)  # from 30 visits a person on, means win


class JDPLinUCB(SummedRecords[Config]):
    """A curator keeps a private running sum of (y x, w svec(x x')); users act on the ridge regression it gives.

    Algorithm (with the schedule ``Epochs``; w = 1 / sqrt(2)):
        1. Serve an epoch of users by the regression released last: argmax of x . theta + bonus |x| in the norm of the
           inverse matrix (``SummedRecords.select_action``). The first epoch is one user.
        2. z <- sum of (y x, w svec(x x')) over the users of the epoch; forget them.
        3. Give z to a continual counter, which draws its noise (``Epochs``, by the agent's generator); release the
           ridge regression of the noisy sum of all epochs so far.
        4. The next epoch ends when the number of users has grown by the factor ``growth``; go to 1.

        If the arms share a context x, each has a regression of its own, on z = (x / (0.7 sqrt(d)), 1) / sqrt(2),
        cut to the unit ball: the counter adds up one block of z's moments for each arm. Rewards are then clipped to
        [0, 1], and 2 y - 1 is learned.

        What is released, and when, is the schedule's (``joint/linear/schedules.py``):

        =================================================  ==============  ======================================
        agent                                              schedule        a person moves
        =================================================  ==============  ======================================
        arms share a context, or people whose first        ``Epochs``      one term of the counter, by 2
        visit alone counts; they return without a bonus
        arms have features of their own                    ``Stretching``  one term by 2, or one batch by sqrt(5)
        ``window``                                         ``Windows``     one term of one counter, by 2
        people whose visits count in their mean            ``OfPeople``    each release, by 1
        =================================================  ==============  ======================================

    *Formal guarantees.* sqrt(2 rho)-Gaussian DP (hence (epsilon, delta)-joint DP and rho-zCDP) under replacement of
    a user's whole record: one continual counter runs over the epochs, and every action reads its releases only. The
    ends of epochs are public constants, and a user is in one epoch: replacing the user's record moves one term of
    the counter, by at most 2 in the l2 norm (``privacy.contributions.moments.pack``); if it moves the blocks of two
    arms, by at most sqrt(3). The curator clips records to |x| <= 1, |y| <= 1 (``SummedRecords.clipped``); records that
    are not finite count as (0, 0). It holds for the numbers that leave: the counter's noise is discrete, on a grid, and
    its sensitivity covers the rounding of the sums. By other schedules it is theirs: ``Windows``, ``Stretching`` and,
    for people, ``OfPeople``.

    Deviations:
        The counter is calibrated in Gaussian DP, which converts exactly. Besides the paper's binary tree there is the
        square-root Toeplitz factorisation, with several times less noise. The policy changes at geometric times, and
        the counter counts these epochs: log(T) terms in place of T have less noise. ``bonus_scale`` scales the bonus.
        Batches and their stretch are this project's own; if the noise hides no direction, the counter
        runs to the end.
    """

    Config = Config
    proof = "docs/privacy/regression-moments.md and docs/privacy/continual-counting.md"

    def scheduled(self) -> Schedule:
        config = self.config
        users = config.horizon or 100_000  # without an environment nobody says how many come
        if config.averages(users, self.counted):
            return OfPeople(self, users)
        if config.window is not None:
            return Windows(self, users, config.window)
        return Epochs(self, users) if config.people or self.models > 1 else Stretching(self, users)
