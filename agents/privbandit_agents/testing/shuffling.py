"""Checks of agents in the shuffle model: the server reads mixed batches alone, and their order carries nothing."""

import copy
from typing import Any

import numpy as np

from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.testing.runs import environment, parts, same_parts
from privbandit_agents.testing.twins import nothing_kept, scripted
from privbandit_agents.zoo.registry import make

Shuffling = ShuffleAgent[Any]


def check_shuffle(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """The server of a ShuffleAgent sees whole batches in arbitrary order, and devices send equally many messages.

    While a batch is open nothing of it changes the server. Two batches with equal numbers of messages of each kind are
    one: whoever sent them, in whatever order and portions.
    """
    env = environment(env_id, horizon)
    agent = make(name, env, seed=15, **config)
    if not isinstance(agent, ShuffleAgent):
        return
    env.reset(seed=15)
    for _ in range(2):
        n = agent.batch_size
        assert agent.frozen_rounds() == n, "a batch is open before its first user has come"
        contexts = env.upcoming(n)
        actions = np.asarray(agent.select_action(contexts))
        records = contexts, actions, np.asarray(env.serve(actions).feedback)
        reports = reported(agent, *records)
        whole, mixed, open_batch = (copy.deepcopy(agent) for _ in range(3))
        releases, before = agent.ledger.releases, parts(agent)
        with scripted(whole, [reports]):
            whole.update(*records)
        # the same messages, from other users with other records, in other portions
        rng, size = np.random.default_rng(16), max(1, n // 3)
        dealt = np.stack([rng.permutation(column) for column in reports.T], axis=1)
        with scripted(mixed, [dealt[k : k + size] for k in range(0, n, size)]):
            for k in range(0, n, size):
                mixed.update(*(part[::-1][k : k + size] for part in records))
        assert same_parts(parts(whole), parts(mixed)), "the server knows who sent what, in which order, or a record"
        assert whole.ledger.releases == releases + 1, "a batch is one entry in the ledger, made when it is handed over"
        if n > 1:
            with scripted(open_batch, [reports[:-1]]):
                open_batch.update(*(part[:-1] for part in records))
            assert same_parts(before, parts(open_batch)), "the server learned from a batch that is not whole"
            assert open_batch.frozen_rounds() == 1, "frozen_rounds() must end with the batch"
        probe = env.upcoming(horizon // 10)
        assert np.array_equal(whole.select_action(probe), mixed.select_action(probe)), "equal bags, other actions"
        agent = whole


def reported(agent: Shuffling, contexts: Any, actions: Any, feedback: Any) -> Any:
    """Return the messages of a batch; fail if making them changed more than rng, or if their number leaks something."""
    before, bag = parts(agent), agent.shuffler.bag.copy()
    reports = np.asarray(agent.randomize(contexts, actions, feedback))
    nothing_kept(agent, before)
    assert np.array_equal(bag, agent.shuffler.bag), "randomize() changed self.shuffler.bag"
    kinds, users = len(agent.shuffler.bag), len(feedback)
    assert reports.shape == (users, kinds) and reports.dtype.kind in "iu" and reports.min() >= 0, (
        f"randomize() must return how many messages of each of {kinds} kinds each of {users} users sends; got shape "
        f"{reports.shape} of {reports.dtype}"
    )
    assert np.ptp(reports.sum(axis=1)) == 0, "how many messages a user sends must not depend on the record"
    return reports
