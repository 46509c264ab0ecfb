"""A game that audits geometric noise: it stands, and is refuted with two thirds of the noise."""

from geometric import Geometric
from numpy.random import default_rng
from privbandit_agents.audits import Claim, Game, audit


class GeometricGame(Game):
    """A count that is one higher in the second world."""

    name = "geometric"
    pair = "a count of 5 or of 6"
    statistics = ("the released count",)

    def __init__(self, epsilon, spent=None):
        self.claim, self.mechanism = Claim(epsilon), Geometric(spent or epsilon)

    def play(self, world, runs, rng):
        return self.mechanism.release([5 + world] * runs, rng).reshape(runs, 1).astype(float)


if __name__ == "__main__":
    honest = audit(GeometricGame(1.0), runs=20_000, rng=default_rng(0))
    assert not honest.refuted and honest.lower_bound > 0.8
    assert audit(GeometricGame(1.0, spent=1.5), runs=20_000, rng=default_rng(0)).refuted  # two thirds of the noise
