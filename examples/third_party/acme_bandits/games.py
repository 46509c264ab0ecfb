"""Audits: a game for the local agent, which knows its weakest pair of records, and one for the published counts."""

import numpy as np
from privbandit_agents import Laplace
from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Claim, Game
from privbandit_agents.audits.registry import register_target


class OppositeAnswers(AgentGame):
    """One customer comes or does not; whatever else is in the record stays."""

    world = {"id": "acme_bandits.reminders:acme/Reminders-v0"}
    pair = "the answer 0 or 1 at the same place and arm"
    seen = "the report of one device"
    unseen = "other pairs of records"

    def play(self, world, runs, rng):
        agent = self.agent(int(rng.integers(2**31)))
        records = np.full((runs, 2), 0.25), np.zeros(runs, int), np.full(runs, float(world))
        report = agent.randomize(*records)
        likelihoods = [agent.inputs(records[0][:1], [0], [answer]).log_likelihood(report, 0) for answer in (0.0, 1.0)]
        return (likelihoods[0] - likelihoods[1]).reshape(runs, 1)


class TwoCounts(Game):
    """A customer who came counts here instead of there."""

    name = "acme-counts"
    pair = "counts (5, 4) or (4, 5)"
    statistics = ("the difference of the counts",)

    def __init__(self, epsilon, sensitivity=2.0):
        self.claim, self.mechanism = Claim(epsilon), Laplace.from_epsilon(epsilon, l1_sensitivity=sensitivity)

    def play(self, world, runs, rng):
        noisy = self.mechanism.release(np.tile([5.0 - world, 4.0 + world], (runs, 1)), rng)
        return (noisy[:, :1] - noisy[:, 1:]).clip(-1, 1)


register_target("acme-counts", lambda asked: TwoCounts(asked.epsilon))
