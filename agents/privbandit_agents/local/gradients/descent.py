"""Locally private gradient descent for classifiers with two labels."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import Ties, best
from privbandit_agents.local.gradients.models import Model
from privbandit_agents.local.label_agent import Batched, S
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere

Kind = Literal["auto", "bin-cap", "hemisphere"]


@dataclass(frozen=True)
class Schedule:
    """How the server steps.

    Attributes:
        step: of one user's gradient at first, > 0.
        batch: users per gradient step, all at the same theta, >= 1.
        decay: steps shrink like 1 / sqrt(1 + users / decay), > 0; infinity: they stay.
        power: the iterate after t users weighs t^power in the average, >= 0.
    """

    step: float
    batch: int = 1
    decay: float = math.inf
    power: float = 0.0


class GradientAgent(Batched[S]):
    """Every user reports the gradient of its own loss at the public theta by one private direction.

    Theta moves against the sum of a batch's gradients; predictions use an average of the iterates. A subclass returns
    the model, the first theta and the schedule of the steps.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by
    ``BinCapSign`` or ``Hemisphere``, with likelihood ratio at most e^epsilon for any two vectors. Gradients are
    divided by ``clip`` and scaled into the unit ball on the device; one that is not finite counts as 0. Theta is a
    function of public data and of earlier reports. Records are clipped as in ``LocalLabelAgent``.

    Attributes:
        model: scores and gradients.
        theta: at which gradients are taken, shape (D,).
        average: of the iterates, shape (D,).
        weight: of all iterates together.
    """

    proof = "docs/privacy/linear-classifiers.md"
    binary = True
    kind: Kind = "auto"
    clip: float = 1.0
    device: LocalRandomizer

    def begin(self) -> None:
        super().begin()
        self.model, self.theta = self.start()
        noise = getattr(self.config, "noise", "numpy")
        self.equip(gradient_device(self.kind, self.config.epsilon, len(self.theta), noise))
        self.schedule = self.scheduled()
        self.average, self.weight = self.theta, 0.0
        self.learned, self.batch = 0, self.schedule.batch
        self.refit_at = self.next_refit()

    @abstractmethod
    def start(self) -> tuple[Model, Floats]:
        """Return the model, and theta from the public rows."""

    @abstractmethod
    def scheduled(self) -> Schedule:
        """Return how to step; the device is there already."""

    def encode(self, contexts: Floats, labels: Labels) -> tuple[Array, Floats]:
        """Return what devices scale into the unit ball and randomize, shape (n, D)."""
        gradients = self.model.gradients(contexts, labels, self.theta)
        return np.zeros(len(labels), np.intp), gradients if self.clip == 1 else gradients / self.clip

    def estimate(self, reports: Array) -> Floats:
        estimates = super().estimate(reports)
        return estimates if self.clip == 1 else self.clip * estimates

    def step(self, total: Floats, users: int) -> None:
        before = self.users - users
        self.theta = self.theta - self.schedule.step / math.sqrt(1 + before / self.schedule.decay) * total
        weight = users * float(self.users) ** self.schedule.power
        self.weight += weight
        self.average = self.average + weight / self.weight * (self.theta - self.average)

    def chances(self, contexts: Array) -> Floats:
        one = self.likely(contexts)
        return np.stack([1 - one, one], axis=1)

    def answer(self, contexts: Floats, ties: Ties) -> Labels:
        one = self.likely(contexts)
        tied, labels = one == 1 - one, np.asarray(one > 1 - one, np.int64)
        if tied.any():
            return np.where(tied, best(np.stack([1 - one, one], axis=1), ties), labels)
        ties.users += len(one)
        return labels

    def likely(self, contexts: Array) -> Floats:
        """Return the probability of label 1, shape (n,)."""
        return np.asarray(scipy.special.expit(self.model.scores(contexts, self.average)))


def gradient_device(kind: Kind, epsilon: float, dim: int, noise: str = "numpy") -> LocalRandomizer:
    """Return the randomizer of vectors of the unit ball; ``"auto"``: the one with the smaller variance.

    With secure noise that is the hemisphere, which is exact.

    Raises:
        ValueError: secure noise of caps.
    """
    if noise == "secure":
        if kind == "bin-cap":
            raise ValueError("noise='secure' is for report='hemisphere'; got report='bin-cap'.")
        return Hemisphere(epsilon, 1, dim, noise=noise)
    caps = BinCapSign(epsilon, 1, dim)
    if kind == "bin-cap":
        return caps
    half = Hemisphere(epsilon, 1, dim)
    return half if kind == "hemisphere" or half.variance(own=True) <= caps.variance(own=True) else caps
