"""A curator counts y x, and nothing else; users play the arm along the last noisy sum."""

from dataclasses import dataclass

import numpy as np
from privbandit_agents import Budget, Growth, register_agent
from privbandit_agents.joint import Epochs, GaussianSettings, SummedRecords
from privbandit_agents.testing import check_agent


@dataclass(frozen=True)
class Config(GaussianSettings):
    """A budget, and the growth of epochs."""

    epsilon: Budget = 1.0
    growth: Growth = 1.1
    counter = "buffered"  # no setting


class CountedMoment(SummedRecords[Config]):
    """Play the arm with the largest x . m, where m is the noisy sum of y x; arms of one context have an m each.

    *Formal guarantees.* Those of ``Epochs``: replacing a record moves y x by at most 2 in the l2 norm.
    """

    Config = Config
    proof = "docs/privacy/continual-counting.md"

    def scheduled(self):
        return Epochs(self, 100_000)

    @property
    def counted(self):
        return self.models * self.dim

    def term(self, products):
        return products[:, :-1, -1].ravel()

    def learned(self, noisy, sigma, users):
        scorer = np.zeros((self.dim, self.models, self.dim + 1))  # [bonus | m] of each model
        scorer[:, :, -1] = noisy.reshape(self.models, self.dim).T / users
        return scorer.reshape(self.dim, -1)


register_agent("counted-moment", "counted_moment:CountedMoment", "the arm along a counted sum of y x, jointly private")

if __name__ == "__main__":
    check_agent("counted-moment", "privbandit/Linear-v0")
