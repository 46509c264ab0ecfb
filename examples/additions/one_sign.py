"""Users report the sign of one coordinate of y x, tossed; the server plays the arm along the sum of estimates.

Beside first_moment.py of docs/tutorials/private-agents.md: a server that only adds, and a randomizer of its own.
"""

import numpy as np
from first_moment import Config, contribution
from privbandit_agents import arms_with_features, next_change, register_agent
from privbandit_agents.audits import audit, game
from privbandit_agents.local import SummedReports
from privbandit_agents.privacy import LocalRandomizer
from privbandit_agents.testing import check_agent


class OneSign(LocalRandomizer):
    """Pick a coordinate j at random, and report it with a sign that is + with probability (1 + t z_j) / 2.

    *Formal guarantees.* Pure epsilon-local DP: t = tanh(epsilon / 2), so that a pair (j, sign) has a probability in
    [(1 - t) / 2d, (1 + t) / 2d] for any z in the unit ball, and these differ by the factor e^epsilon. t is positive.
    """

    allow_inactive = False

    def _chances(self, z):
        return (1 + np.tanh(self.epsilon / 2) * np.concatenate([z, -z], axis=-1)) / (2 * self.dim)

    def _draw(self, own, z, rng):
        return (rng.random((len(z), 1)) > self._chances(z).cumsum(axis=1)[:, :-1]).sum(axis=1, keepdims=True)

    def _unbias(self, reports):
        return np.concatenate([np.eye(self.dim), -np.eye(self.dim)])[reports] * self.dim / np.tanh(self.epsilon / 2)

    def _log_density(self, reports, cell, z):
        return np.log(self._chances(z)[reports[:, 0]])

    def _variance(self, own):
        return self.dim / np.tanh(self.epsilon / 2) ** 2 - 1 / self.dim

    def _draw_sum(self, crowd, rng):
        votes = rng.multinomial(crowd.number, self._chances(crowd.z)).sum(axis=0)
        return (votes[None, : self.dim] - votes[self.dim :]) * self.dim / np.tanh(self.epsilon / 2)


class OneSignMoment(SummedReports[Config]):
    """Play the arm with the largest x . m, where m is the sum of the estimates of y x.

    *Formal guarantees.* Those of ``OneSign``: y x lies in the unit ball for any record, and is reported once.
    """

    Config = Config
    plays = staticmethod(arms_with_features)
    proof = "examples/additions/one_sign.py"

    def begin(self):
        self.direction = np.zeros(self.context_shape[1])
        self.equip(OneSign(self.config.epsilon, 1, self.context_shape[1]))

    def placed(self, context, action, feedback):
        return np.zeros(len(feedback), int), contribution(context, action, feedback)

    def select_action(self, context):
        return (context @ self.direction).argmax(axis=-1)

    def learn(self):
        self.direction = self.total

    def next_refit(self):
        return next_change(self.users, self.config.growth)


register_agent("one-sign", "one_sign:OneSignMoment", "the arm along the sum of y x, by one tossed sign a user")

if __name__ == "__main__":
    check_agent("one-sign", "privbandit/Linear-v0")
    found = audit(game("one-sign", epsilon=1.0), runs=2000, rng=np.random.default_rng(0))
    assert not found.refuted
