"""Locally private gradient descent for classifiers with two labels: the server, and the agents' common part."""

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from privbandit_agents.base.agent import Array, C, Space
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.gradients.features import two_labels
from privbandit_agents.local.label_agent import LocalLabelAgent, added
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere

REPORTS = ("auto", "bin-cap", "hemisphere")


@dataclass(frozen=True)
class Plan:
    """How the server steps.

    Attributes:
        step: of one user's gradient at first, > 0.
        batch: users whose gradients are taken at the same theta, >= 1.
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
        plan: of the steps.
    """

    def __init__(self, theta: Floats, plan: Plan) -> None:
        """Start."""
        self.theta, self.average, self.plan = theta, theta, plan
        self.total = np.zeros_like(theta)
        self.users, self.waiting, self.weight = 0, 0, 0.0

    @property
    def left(self) -> int:
        """How many more users the batch takes."""
        return self.plan.batch - self.waiting

    def add(self, gradients: Floats) -> None:
        """Take in gradients (n, D) of at most ``left`` users, in order; step when the batch is full."""
        self.total = added(self.total, gradients)
        self.waiting += len(gradients)
        if not self.left:
            self.move()

    def move(self) -> None:
        """Step, and average."""
        length = self.plan.step / math.sqrt(1 + self.users / self.plan.decay)
        self.theta = self.theta - length * self.total
        self.users += self.waiting
        weight = self.waiting * float(self.users) ** self.plan.power
        self.weight += weight
        self.average = self.average + weight / self.weight * (self.theta - self.average)
        self.total, self.waiting = np.zeros_like(self.theta), 0


class GradientAgent(LocalLabelAgent[C, Array]):
    """Every user reports the gradient of its own loss at the public theta by one private direction.

    A group of users that is larger than a batch sees the steps in between, as it would if they came one by one.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user by
    ``BinCapSign`` or ``Hemisphere``, whose likelihood ratio is at most e^epsilon for any two vectors. Gradients are
    divided by ``clip`` and scaled into the unit ball on the device; one that is not finite counts as 0. Theta is a
    function of public data and of earlier reports. Records are clipped as ``LocalLabelAgent`` says.

    Args:
        observation_space: of one user.
        action_space: of one user.
        config: settings with ``epsilon`` and ``exploration``.
        rng: the agent's own randomness.
        public_data: features (n, d) and labels (n,).
    """

    fixed: ClassVar[frozenset[str]] = LocalLabelAgent.fixed | {"features", "device", "clip"}
    proof: ClassVar[str] = "docs/privacy/linear-classifiers.md"
    clip: float = 1.0
    device: LocalRandomizer
    server: Descent

    def begin(self) -> None:
        """Start from the public rows and calibrate the devices."""
        super().begin()
        theta = self.start()
        self.device = gradient_device(self.kind_of_report(), self.config.epsilon, len(theta))
        self.server = Descent(theta, self.plan())

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Classification with two labels in the unit cube."""
        return super().plays(observation_space, action_space) or two_labels(action_space)

    def kind_of_report(self) -> str:
        """Return one of ``REPORTS``."""
        return "auto"

    @abstractmethod
    def start(self) -> Floats:
        """Set up the model; return theta from the public rows."""

    @abstractmethod
    def plan(self) -> Plan:
        """Return how to step."""

    @abstractmethod
    def scores(self, contexts: Floats, theta: Floats) -> Floats:
        """Return log odds of label 1, contexts (n, d) to (n,)."""

    @abstractmethod
    def gradients(self, contexts: Floats, labels: Labels, theta: Floats) -> Floats:
        """Return the gradient of every user's logistic loss, shape (n, D)."""

    def encode(self, contexts: Floats, labels: Labels, theta: Floats | None = None) -> Floats:
        """Return what devices randomize, shape (n, D); they scale it into the unit ball."""
        return self.gradients(contexts, labels, self.server.theta if theta is None else theta) / self.clip

    def estimate(self, reports: Array) -> Floats:
        """Return unbiased estimates of the clipped gradients, shape (n, D)."""
        return self.clip * self.device.estimate(reports)[:, 0]

    def reports(self, server: Descent, contexts: Floats, labels: Labels) -> Iterator[Array]:
        """Yield the reports of one batch after the other, while that server learns from them."""
        done = 0
        while done < len(labels):
            part = slice(done, done + server.left)
            values = self.encode(contexts[part], labels[part], server.theta)
            report = self.device.randomize(np.zeros(len(values), np.intp), values, self.rng)
            server.add(self.estimate(report))
            done += len(values)
            yield report

    def privatise(self, contexts: Floats, labels: Labels) -> Array:
        """Return the reports of n users; a copy of the server shows each what it would see."""
        reports = list(self.reports(copy.copy(self.server), contexts, labels))
        return np.concatenate(reports) if reports else np.zeros((0, 1, len(self.server.theta)))

    def absorb(self, report: Array) -> None:
        """Step with the reports in order."""
        self.pay(len(report))
        estimates, done = self.estimate(report), 0
        while done < len(estimates):
            part = estimates[done : done + self.server.left]
            self.server.add(part)
            done += len(part)

    def learn_labels(self, contexts: Array, labels: Labels, aggregate: bool = False) -> None:
        """Let users report whose labels are known; the sums have no exact law."""
        self.pay(len(labels))
        for _ in self.reports(self.server, self.rows(contexts), self.existing(labels)):
            pass

    def conclude(self) -> None:
        """Step with what there is of a batch."""
        if self.server.waiting:
            self.server.move()

    def frozen_rounds(self) -> int:
        """Return the number of users before theta changes."""
        return self.server.left

    def chances(self, contexts: Array) -> Floats:
        """Return the probabilities of the labels by the averaged theta, shape (n, 2)."""
        one = expit(self.scores(contexts, self.server.average))
        return np.stack([1 - one, one], axis=1)


def gradient_device(report: str, epsilon: float, dim: int) -> LocalRandomizer:
    """Return the randomizer of vectors of the unit ball; ``"auto"``: the one with the smaller variance."""
    caps = BinCapSign(epsilon, 1, dim)
    if report == "bin-cap":
        return caps
    half = Hemisphere(epsilon, 1, dim)
    return half if report == "hemisphere" or half.variance(own=True) <= caps.variance(own=True) else caps
