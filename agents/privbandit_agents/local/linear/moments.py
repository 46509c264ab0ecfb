"""What locally private agents for linear models share: how vectors are reported, sums on the server, greedy play."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from privbandit_agents.base.agent import next_change
from privbandit_agents.base.arms import best_arm
from privbandit_agents.base.local import Inputs, inputs_of
from privbandit_agents.base.records import played
from privbandit_agents.base.settings import Budget, Growth, PrivateSettings
from privbandit_agents.base.spaces import Action, Array, Feedback, arms_with_features
from privbandit_agents.base.ties import Told
from privbandit_agents.local.sums import Device, SummedReports
from privbandit_agents.privacy.contributions.moments import Lifted, sanitise
from privbandit_agents.privacy.randomizers.sphere import Hemisphere


@dataclass(frozen=True)
class MomentSettings(PrivateSettings):
    """Settings of every agent here.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        growth: the policy changes when the number of users has grown by this factor, > 1.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    growth: Growth = 1.05
    noise: Literal["numpy", "secure"] = "numpy"


M = TypeVar("M", bound=MomentSettings)


class MomentAgent(SummedReports[M]):
    """Users report vectors about their records; the server adds them up and plays by an estimate of theta.

    A subclass returns in ``opened`` how vectors leave the devices, and sets ``scorer`` in ``learn`` by their sum. The
    vector of a record is (y x, w svec(x x')), unless ``lift`` makes it otherwise.

    *Formal guarantees.* Those of ``SummedReports``, as long as no vector leaves the device's ball.

    Attributes:
        scorer: [width A^(-1/2) | theta] of the policy, shape (d, d + 1).
    """

    proof = "docs/privacy/local-randomizers.md"
    late = False

    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        super().begin()
        self.dim = self.context_shape[-1] if self.context_shape else 0
        self.scorer = np.zeros((self.dim, self.dim + 1))
        self.equip(self.opened())

    @abstractmethod
    def opened(self) -> Device:
        """Return how vectors leave users' devices."""

    def directions(self, size: int, radius: float = 1.0) -> Hemisphere:
        """Return the report of a vector of that length, in the ball of that radius, by one private direction."""
        return Hemisphere(self.config.epsilon, 1, size, radius=radius, noise=self.config.noise)

    def features(self, context: Array, action: Action) -> Array:
        """Return the features of the played arms, shape (n, d), also for one user."""
        return played(np.asarray(context).reshape(-1, *self.context_shape), action)

    def lift(self, context: Array, action: Action, feedback: Feedback) -> Lifted:
        """Return the vectors that users' devices randomize, by their factors."""
        return Lifted.packed(*sanitise(self.features(context, action), np.atleast_1d(feedback)))

    # arms that users got, if their reports come late and in order

    def follow_order(self) -> None:
        """Begin without users whose reports are to come; see whether they are known by their number."""
        promised = getattr(self.config, "feedback", None)
        self.late = promised is not None and promised.in_order and self.config.people is None
        self.given = np.zeros(0, np.intp)

    def give(self, arms: Array) -> Array:
        """Note which arms users get, who report after all who got theirs before; who is only asked about gets none."""
        if not isinstance(self.ties, Told):
            self.given = np.concatenate([self.given, arms.ravel()])
        return arms

    def asked_about(self, users: int) -> Array:
        """Return the arms that the next reports are about, shape (users,); -1 of those of nobody who got one."""
        return np.pad(self.given[:users], (0, max(0, users - len(self.given))), constant_values=-1)

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return "" if self.late else super().by_counts

    @property
    def fewest_summed(self) -> float:
        return math.inf if self.late else super().fewest_summed

    def encode(self, context: Array, action: Action, feedback: Feedback) -> Array:
        """Return these vectors, shape (n, D)."""
        return self.lift(context, action, feedback).dense()

    def placed(self, context: Array, action: Action, feedback: Feedback) -> tuple[Array, Lifted]:
        vectors = self.lift(context, action, feedback)
        return np.zeros(len(vectors), np.intp), vectors

    def inputs(self, context: Array, action: Action, feedback: Feedback) -> Inputs:
        return inputs_of(self.device, self.encode(*self.records_of(context, action, feedback)))

    def next_refit(self) -> int:
        return next_change(self.users, self.config.growth)

    def select_action(self, context: Array) -> Action:
        """Return argmax of x . theta."""
        return self.estimated_best(context)

    def estimated_best(self, context: Array) -> Action:
        """Return argmax of x . theta, contexts (n, K, d)."""
        best: Action = best_arm(context, self.scorer[:, -1:], self.ties)
        return best

    def predict(self, contexts: Array) -> Array:
        """Return x . theta, clipped to [-1, 1] as rewards are, shape (m, K)."""
        return np.clip(contexts @ self.scorer[:, -1], -1.0, 1.0)
