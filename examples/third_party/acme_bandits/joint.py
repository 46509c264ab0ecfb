"""A jointly private agent: a curator counts, and publishes noisy counts of each batch of users once."""

from functools import partial

import numpy as np
from privbandit_agents import CentralAgent, Guarantee, Laplace, Ledger, labels_of_contexts, next_change

from acme_bandits.table import SIDE, Config, cells, chosen, shares


class AcmeJoint(CentralAgent):
    """Play the arm with the largest share of customers who came, by the noisy counts of all batches so far.

    *Formal guarantees.* Pure epsilon-joint DP under replacement of a user's record: a user is in one batch, whose ends
    depend on time alone; the counts of a batch are published once, and one record moves two of them by 1. Actions
    read the published counts and the user's own context, so that the billboard lemma applies.
    """

    Config = Config
    plays = staticmethod(labels_of_contexts)

    def begin(self):
        self.n_arms = int(self.action_space.n)
        self.noise = Laplace.from_epsilon(self.config.epsilon, l1_sensitivity=2.0)
        self.guarantee = Guarantee.joint(self.config.epsilon, 0.0, None, "acme_bandits/joint.py")
        self.ledger = Ledger(epsilon=self.config.epsilon)
        self.rng_choices, self.rng_noise = self.rng.spawn(2)
        self.release = np.zeros(SIDE**2 * self.n_arms * 2)  # the billboard
        self.batch = np.zeros_like(self.release)
        self.users, self.end, self.batches = 0, 100, 0

    def select_action(self, context):
        scores = shares(self.release, self.n_arms)
        return chosen(scores, self.contexts_of(context), self.config.exploration, self.rng_choices)

    def frozen_rounds(self):
        return self.end - self.users

    def curate(self, contexts, actions, feedback):
        new = None
        for cell in cells(contexts, actions, feedback, self.n_arms):
            self.batch[cell] += 1
            self.users += 1
            if self.users == self.end:
                total, group = self.batch, self.batches
                # taken out of the state first: whatever interrupts the release, no record is in two
                self.batch, self.batches = np.zeros_like(total), group + 1
                self.end = next_change(self.users, self.config.growth, least=100)
                draw = partial(self.noise.release, total, self.rng_noise)
                noisy = self.publish(self.noise, total, draw, self.noise.cost, group=group)
                new = (self.release if new is None else new) + noisy
        return new
