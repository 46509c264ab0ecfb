"""The game with any agent of the shuffle model: the messages of a batch, in arbitrary order."""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.pairs.records import Pair, drawn
from privbandit_agents.audits.pairs.scenes import joint_pairs
from privbandit_agents.audits.views.reports import Contrast
from privbandit_agents.base.state import rekey


class ShuffleGame(AgentGame):
    """Replace the record of one user of the first batch; look at how many messages of each kind the batch has sent.

    The adversary knows the records of all others in the batch; of an agent with a setting ``honest``, also the coins of
    one other, or of all whom the setting allows. Messages in arbitrary order are no more than these numbers. Batches
    are small, so that there can be many: what hides a user does not depend on how many there are.
    """

    statistics = Contrast.statistics
    part = "batches"
    seen = "the messages of the first batch of users, in arbitrary order"
    unseen = "later batches, one device's own messages before they are mixed, and other pairs of records"
    settings: ClassVar = {"first": 2}
    runs = 10_000
    pilots, fits = 400, 4000
    heats: ClassVar = ((4, 1000),)
    presumes = True

    def scenes(self) -> list[Pair]:
        self.others = drawn(self.env)
        return joint_pairs(self.env, self.others, self.agent(0), self.answers)

    def observed(self, scene: Pair, world: int, runs: int, rng: Generator) -> Floats:
        agent = self.agent(0)
        rekey(agent, rng)
        agent.rng = rng.spawn(1)[0]  # the devices'
        batch = int(agent.batch_size)
        most = max(1, 2**22 // (batch * len(agent.shuffler.bag)))  # 32 MiB of messages
        return np.concatenate([self.bags(agent, scene, world, min(most, runs - k)) for k in range(0, runs, most)])

    def bags(self, agent: Any, scene: Pair, world: int, runs: int) -> Floats:
        """Return the messages of first batches but for those of curious others, shape (runs, kinds)."""
        others, honest = int(agent.batch_size) - 1, getattr(agent.config, "honest", None)
        curious = 0 if honest is None else min(others, max(1, others - math.floor(honest * others)))
        kept = 1 + others - curious
        users = self.others[np.tile(np.arange(kept) % len(self.others.feedback), runs)]
        first, target = np.arange(0, runs * kept, kept), scene.users(world, 1)
        contexts, actions, feedback = (np.array(part) for part in (users.contexts, users.actions, users.feedback))
        contexts[first], actions[first] = target.contexts, target.actions
        feedback = feedback.astype(np.float64)
        feedback[first] = target.feedback
        messages = agent.randomize(*agent.records_of(contexts, actions, feedback))
        return np.asarray(messages.reshape(runs, kept, -1).sum(axis=1), np.float64)
