"""Locally private gradient descent for classifiers with two labels: the server, and the learner around it."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy
from numpy.random import Generator

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.reports import InOrder, Inputs, inputs_of
from privbandit_agents.base.rows import added
from privbandit_agents.base.ties import Ties, best
from privbandit_agents.base.turns import unchanged
from privbandit_agents.local.batches import BatchLearner
from privbandit_agents.local.gradients.models import Model
from privbandit_agents.local.label_agent import Learner, S
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import Ahead, BinCapSign, Hemisphere

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


class Descent:
    """The server: theta moves against the sum of a batch's gradients; predictions use an average of the iterates.

    Args:
        theta: where to start, shape (D,).
        schedule: of the steps.
    """

    def __init__(self, theta: Floats, schedule: Schedule) -> None:
        self.theta, self.average, self.schedule = theta, theta, schedule
        self.total = np.zeros_like(theta)
        self.users, self.waiting, self.weight = 0, 0, 0.0

    @property
    def left(self) -> int:
        return max(self.schedule.batch - self.waiting, 1)  # also after an interrupted step

    def add(self, gradients: Floats) -> None:
        """Take in gradients (n, D) of at most ``left`` users, in order; step when the batch is full."""
        self.total = added(self.total, gradients)
        self.waiting += len(gradients)
        if self.waiting >= self.schedule.batch:
            self.move()

    def move(self) -> None:
        self.theta = self.theta - self.schedule.step / math.sqrt(1 + self.users / self.schedule.decay) * self.total
        self.users += self.waiting
        weight = self.waiting * float(self.users) ** self.schedule.power
        self.weight += weight
        self.average = self.average + weight / self.weight * (self.theta - self.average)
        self.total, self.waiting = np.zeros(self.theta.shape), 0


class Followers:
    """Users in sequence: each sees the server as the user before has left it.

    Args:
        model: scores and gradients.
        server: of batches of one user.
        clip: largest norm of a gradient.
        reports: of the users, drawn but for their gradients.
        features: of the users, shape (n, D).
        ties: of the agent.
    """

    def __init__(
        self, model: Model, server: "Descent", clip: float, reports: Ahead, features: Floats, ties: Ties
    ) -> None:
        self.model, self.server, self.clip, self.reports, self.mean = model, server, clip, reports, reports.mean
        self.features, self.ties = list(features), ties

    def choose(self, user: int) -> int:
        one = float(scipy.special.expit(self.model.score(self.features[user], self.server.average)))
        if one == 1 - one:
            return int(best(np.array([one, one]), self.ties))
        self.ties.users += 1
        return int(one > 1 - one)

    def randomize(self, user: int, arm: int, answer: float) -> Array:
        label = arm if 0.5 < answer < math.inf else 1 - arm
        gradient = self.model.gradient(self.features[user], label, self.server.theta)
        return self.reports.report(user, gradient if self.clip == 1 else gradient / self.clip)

    def absorb(self, report: Array) -> None:
        estimate = report / self.mean
        self.server.total = 0.0 + (estimate if self.clip == 1 else self.clip * estimate)
        self.server.waiting = 1
        self.server.move()


class GradientLearner(BatchLearner[S, Descent]):
    """Every user reports the gradient of its own loss at the public theta by one private direction.

    A subclass sets the model, the first theta and the server's schedule in ``start``.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by
    ``BinCapSign`` or ``Hemisphere``, with likelihood ratio at most e^epsilon for any two vectors. Gradients are
    divided by ``clip`` and scaled into the unit ball on the device; one that is not finite counts as 0. Theta is a
    function of public data and of earlier reports. Records are clipped as in ``LocalLabelAgent``.

    Attributes:
        model: scores and gradients.
        device: randomizer of a gradient.
        server: takes the steps.
    """

    fixed: ClassVar[frozenset[str]] = Learner.fixed | {"device"}
    kind: Kind = "auto"
    clip: float = 1.0

    def begin(self, rng: Generator) -> None:
        self.model, theta = self.start(rng)
        noise = getattr(self.config, "noise", "numpy")
        self.device = gradient_device(self.kind, self.config.epsilon, len(theta), noise)
        self.server = Descent(theta, self.schedule())

    @abstractmethod
    def start(self, rng: Generator) -> tuple[Model, Floats]:
        """Return the model, and theta from the public rows."""

    @abstractmethod
    def schedule(self) -> Schedule:
        """Return how to step; the device is there already."""

    def encode(self, contexts: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return what devices scale into the unit ball and randomize, shape (n, D)."""
        gradients = self.model.gradients(contexts, labels, theta)
        return gradients if self.clip == 1 else gradients / self.clip

    def inputs(self, contexts: Floats, labels: Labels, server: Descent | None = None) -> Inputs:
        return inputs_of(self.device, self.encode(contexts, labels, (server or self.server).theta))

    def estimate(self, reports: Array) -> Floats:
        estimates = self.device.estimate(reports)[:, 0]
        return estimates if self.clip == 1 else self.clip * estimates

    def learn(self, contexts: Floats, labels: Labels, rng: Generator, aggregate: bool) -> None:
        for _ in self.reports(self.server, contexts, labels, rng):
            pass

    def in_turn(self, contexts: Floats, rng: Generator, ties: Ties) -> InOrder | None:
        loop = ("encode", "inputs", "estimate", "randomize", "absorb", "chances", "answer")
        if (
            self.server.schedule.batch > 1
            or not isinstance(self.device, BinCapSign)
            or not unchanged(self, "in_turn", loop)
        ):
            return None
        features = self.model.features(contexts)
        reports = self.device.ahead(len(contexts), rng)
        return None if reports is None else Followers(self.model, self.server, self.clip, reports, features, ties)

    def conclude(self) -> None:
        if self.server.waiting:
            self.server.move()

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
        return np.asarray(scipy.special.expit(self.model.scores(contexts, self.server.average)))


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
