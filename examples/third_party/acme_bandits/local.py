"""A locally private agent: devices answer by k-ary randomized response, and the server counts the answers."""

import numpy as np
from privbandit_agents import Guarantee, KaryRandomizedResponse, Ledger, LocalAgent, labels_of_contexts, next_change
from privbandit_agents.base.reports import Inputs
from privbandit_agents.privacy import pure

from acme_bandits.table import SIDE, Config, cells, chosen, shares


class AcmeLocal(LocalAgent):
    """Play the arm with the largest estimated share of customers who come.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's record (context, arm, answer): whatever the
    record, the device computes one cell of a table, and sends one report of k-ary randomized response about that cell.
    """

    Config = Config
    plays = staticmethod(labels_of_contexts)

    def begin(self):
        self.n_arms = int(self.action_space.n)
        self.device = KaryRandomizedResponse(self.config.epsilon, SIDE**2 * self.n_arms * 2, allow_inactive=False)
        self.guarantee = Guarantee.local(self.config.epsilon, 0.0, "acme_bandits/local.py", arithmetic="exact")
        self.ledger = Ledger(epsilon=self.config.epsilon)
        self.rng_choices = self.rng.spawn(1)[0]  # the server's; self.rng is the devices'
        self.counts = np.zeros(self.device.cells)
        self.scores = np.zeros((SIDE**2, self.n_arms))
        self.users, self.change = 0, 100

    def select_action(self, context):
        return chosen(self.scores, self.contexts_of(context), self.config.exploration, self.rng_choices)

    def frozen_rounds(self):
        return self.change - self.users

    def inputs(self, context, action, feedback):
        contexts, arms, answers = self.records_of(context, action, feedback)
        return Inputs(self.device, cells(contexts, arms, answers, self.n_arms), None)

    def randomize(self, context, action, feedback):
        return self.inputs(context, action, feedback).randomize(self.rng)

    def absorb(self, report):
        for one in self.device.estimate(report)[..., 0]:
            self.ledger.spend(pure(self.config.epsilon), group=self.users)
            self.counts = self.counts + one
            self.users += 1
            if self.users == self.change:
                self.scores = shares(self.counts, self.n_arms)
                self.change = next_change(self.users, self.config.growth)
