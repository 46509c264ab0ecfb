"""Settings that the private classification trees share."""

from dataclasses import dataclass

from privbandit_agents.local.trees.partition import RULES
from privbandit_agents.local.trees.report import REPORTS
from privbandit_envs.validate import above, count, fraction, one_of

MAX_DEPTH = 16


@dataclass(frozen=True)
class Settings:
    """Settings of a private classification tree.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        report: ``"auto"`` (least variance), ``"signed-subset"``, ``"ternary"``, ``"grr"``, ``"laplace"`` (the paper's
            (5) and (6)), or, for more than two labels, ``"subset"``.
        partition: ``"max-edge"`` (Algorithm 1), ``"occupied"`` (the same, no cell without a public row),
            ``"random"`` (a longest edge at random), or ``"cart"`` (needs scikit-learn).
        depth: of the partition, at most 16; None: by the number of users and the noise.
        exploration: probability of a random label; None: 0 with two labels, 0.05 with more.
        growth: the policy changes when the number of users has grown by this factor, > 1.
        horizon: expected number of users, for the depth.
    """

    epsilon: float = 1.0
    report: str = "auto"
    partition: str = "max-edge"
    depth: int | None = None
    exploration: float | None = None
    growth: float = 1.05
    horizon: int | None = None

    def __post_init__(self) -> None:
        """Check the ranges; epsilon is checked by the randomizer."""
        one_of(REPORTS, report=self.report)
        one_of(RULES, partition=self.partition)
        if self.depth is not None and count(depth=self.depth) > MAX_DEPTH:
            raise ValueError(f"depth must be at most {MAX_DEPTH}; got {self.depth}.")
        if self.exploration is not None:
            fraction(exploration=self.exploration)
        above(1, growth=self.growth)
        if self.horizon is not None:
            count(horizon=self.horizon)
