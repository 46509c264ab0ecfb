"""UCB1: optimism for arms without a context.

Peter Auer, Nicolo Cesa-Bianchi and Paul Fischer, "Finite-time Analysis of the Multiarmed Bandit Problem", Machine
Learning 2002.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privbandit_agents.base.agent import Agent, next_change
from privbandit_agents.base.present import masks_for
from privbandit_agents.base.records import warn_of_ignored
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Growth, LateSettings, NonNegative
from privbandit_agents.base.spaces import Action, Array, Feedback, n_arms, no_context
from privbandit_agents.base.ties import Told, best, best_in_turn, floor
from privbandit_agents.privacy.vectors import LIMIT


@dataclass(frozen=True)
class Config(LateSettings):
    """Settings of UCB1.

    Attributes:
        width: c of the bonus sqrt(c log t / n), >= 0; with 1/2 it is as small as rewards in [0, 1] allow.
        growth: an arm is played until its number of users has grown by this factor, > 1.
    """

    width: NonNegative = 2.0
    growth: Growth = 1.05


class UCB1(Agent[Config]):
    """Play the arm with the largest mean + sqrt(c log t / n) until its number of users n has grown by a factor.

    While several arms are best, as those that nobody was given, each user gets any of them.

    If feedback comes late each user gets the arm that is best then, and n counts whoever was served: as in Pooria
    Joulani, Andras Gyorgy and Csaba Szepesvari, "Online Learning under Delayed Feedback", ICML 2013, but for the bonus.

    Deviations:
        The paper chooses anew for every user. Here that is so while an arm has had fewer than 20 users.
    """

    Config = Config
    plays = staticmethod(no_context)

    def begin(self) -> None:
        arms = n_arms(self.action_space)
        self.sums, self.pulls = np.zeros(arms), np.zeros(arms)
        self.index, self.arm = np.ones(arms), -1 if arms > 1 else 0
        self.users, self.left = 0, 1
        self.served, self.late = np.zeros(arms), self.config.feedback

    def select_action(self, context: Array) -> Action:
        """Return the arm of this run, or any of several best ones."""
        if self.late is not None:
            return self._choose_ahead(context)
        if self.arm < 0:
            chosen: Action = best(np.broadcast_to(self.index, (*context.shape, len(self.index))), self.ties)
            return chosen
        arms: Array = np.full(context.shape, self.arm)
        return arms[()]

    def _choose_ahead(self, context: Array) -> Action:
        """Choose for users in order; bonuses count all who were served before."""
        means, width = self.sums / np.maximum(self.pulls, 1), math.sqrt(self.config.width * math.log(self.users + 1))
        known = (self.pulls > 0) | ~masks_for(self, None, ())
        chosen, served = best_in_turn(context.shape, means, self.served, width, known, self.ties)
        if not isinstance(self.ties, Told):  # who is only asked about is not served
            self.served = served
        return chosen[()]

    def frozen_rounds(self) -> int:
        return self.left if self.late is None else 1

    def update(self, context: Array, action: Action, feedback: Feedback) -> None:
        _, actions, rewards = self.records_of(context, action, feedback)
        for arms, answers in blocks(lambda: self.left, actions, rewards):
            self._learn(arms, answers, np.ones(len(answers)))
        if self.late is not None and (self.late.batches or self.served.sum() < self.users):
            self.served = self.pulls.copy()

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        return "exact" if self.late is None else ""

    def update_counts(self, contexts: Array, actions: Action, feedback: Feedback, counts: Array) -> None:
        _, arms, rewards = self.records_of(contexts, actions, feedback)
        self._learn(arms, rewards, np.asarray(counts, np.float64))

    def _learn(self, arms: Array, rewards: Array, counts: Array) -> None:
        """Add users of one run, and choose the next arm if it ends."""
        usable = (arms >= 0) & (np.abs(rewards) <= LIMIT)
        users = int(counts.sum())
        if np.count_nonzero(usable) < len(usable):
            warn_of_ignored()
            arms, rewards, counts = arms[usable], rewards[usable], counts[usable]
        np.add.at(self.sums, arms, rewards * counts)
        np.add.at(self.pulls, arms, counts)
        self.users += users
        self.left -= users
        if not self.left:
            self.index = self._optimistic()
            arms = np.flatnonzero(self.index >= floor(self.index.max()))
            self.arm, pulls = int(arms[0]) if len(arms) == 1 else -1, int(self.pulls[arms[0]])
            self.left = 1 if len(arms) > 1 else next_change(pulls, self.config.growth) - pulls

    def _optimistic(self) -> Array:
        pulls = np.maximum(self.pulls, 1)
        index = self.sums / pulls + np.sqrt(self.config.width * math.log(self.users + 1) / pulls)
        most = 1e300
        index[self.pulls == 0] = most  # those that nobody was given are ahead of all others
        index[~masks_for(self, None, ())] = -most
        return np.asarray(index)

    def predict(self, contexts: Array) -> Array:
        """Return the mean reward of every arm so far, shape (m, K); 1/2 of those that nobody was given."""
        means = np.where(self.pulls > 0, self.sums / np.maximum(self.pulls, 1), 0.5)
        return np.tile(means, (len(contexts), 1))
