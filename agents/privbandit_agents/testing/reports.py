"""Checks of what leaves users' devices: one report a user, by the randomizer that is audited, and by nothing else."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import numpy as np

from privbandit_agents.audits.pairs.records import Record
from privbandit_agents.audits.views.reports import encoded, pieces
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.labels import LabelAgent
from privbandit_agents.base.local import Inputs, LocalAgent, Randomizer
from privbandit_agents.base.spaces import Array
from privbandit_agents.testing.runs import environment, same_parts, serve, without_generators
from privbandit_agents.zoo.registry import make

Local = LocalAgent[Any, Any]


def check_reports(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Every user makes one report and one entry in the ledger; the report is the randomizer's, early and late.

    An agent whose ``inputs`` are None is a black box: nobody knows what its devices randomize.
    """
    env = environment(env_id, horizon)
    agent = make(name, env, seed=13, **config)
    if not isinstance(agent, LocalAgent):
        return
    env.reset(seed=13)
    n_users = 40
    for served in (0, horizon // 2):
        serve(env, [agent], served)
        one_report_a_user(agent, *(users(env, agent, n_users) for _ in range(2)))
        for n in (1, min(agent.frozen_rounds(), n_users)):
            by_one_call(agent, users(env, agent, n))
    if isinstance(agent, LabelAgent):
        for aggregate in (False, True):
            new, other = (make(name, env, seed=13, **config) for _ in range(2))
            assert isinstance(new, LocalAgent)
            check_known_labels(new, other, of_one_kind(new, users(env, agent, n_users)), aggregate)


def users(env: Any, agent: Local, n: int) -> Record:
    contexts = env.upcoming(n)
    actions = np.asarray(agent.select_action(contexts))
    return Record(contexts, actions, env.serve(actions).feedback)


def one_report_a_user(agent: Local, records: Record, others: Record) -> None:
    n, agent = len(records[2]), copy.deepcopy(agent)
    report, other = (agent.randomize(*sent) for sent in (records, others))
    arrays = [[piece for piece in pieces(sent, n) if isinstance(piece, np.ndarray)] for sent in (report, other)]
    for part, again in zip_longest(*arrays):  # one row a user, or something that all users send alike
        rows = len(part) if part.ndim else 1
        assert rows == n or encoded(part) == encoded(again), f"{n} users sent {rows} reports"
    before = agent.ledger.releases
    agent.absorb(report)
    entries = agent.ledger.releases - before
    assert entries == n, f"{n} users reported, and {entries} entries were made in the ledger"


def by_one_call(agent: Local, records: Record) -> None:
    """Compare the users' reports with the call of the randomizer itself, on the same inputs and with the same noise."""
    inputs, rng = agent.inputs(*records), copy.deepcopy(agent.rng)
    if inputs is None:
        return
    promised, stated = inputs.randomizer.epsilon, agent.guarantee.epsilon
    assert stated is not None, "a local agent states epsilon"
    assert promised <= stated * (1 + 1e-9), f"devices use a randomizer of epsilon {promised:g}, not of {stated:g}"
    expected, report = inputs.randomize(rng), agent.randomize(*records)
    assert encoded(report) == encoded(expected), "randomize() returns something else than the randomizer of inputs()"
    assert rng.bit_generator.state == agent.rng.bit_generator.state, "randomize() drew more than one report a user"


def of_one_kind(agent: Local, records: Record) -> Record:
    """Return the records of n users, or of the first batch if another randomizer makes the next one's reports."""
    later, n = copy.deepcopy(agent), agent.frozen_rounds()
    contexts, actions, feedback = (np.asarray(part) for part in records)
    assert isinstance(later, LabelAgent)
    later.learn_labels(contexts[:n], actions[:n])
    before, after = (one.inputs(*records) for one in (agent, later))
    same = before is None or after is None or type(before.randomizer) is type(after.randomizer)
    return records if same else Record(contexts[:n], actions[:n], feedback[:n])


def check_known_labels(agent: AnyAgent, other: AnyAgent, records: Record, aggregate: bool) -> None:
    """Let users report labels that are known: one report each, and nothing else of them is learned.

    The second agent gets other users, whose devices are made to send the reports of the first one's. With ``aggregate``
    the sum of the reports may be drawn at once.
    """
    assert isinstance(agent, LocalAgent) and isinstance(agent, LabelAgent)
    assert isinstance(other, LocalAgent) and isinstance(other, LabelAgent)
    inputs, forced = agent.inputs(*records), other.inputs(*records)
    if not (isinstance(inputs, Inputs) and isinstance(forced, Inputs)):
        return
    contexts, labels = np.asarray(records[0]), np.asarray(records[1])
    before, call = agent.ledger.releases, f"learn_labels({'aggregate=True' if aggregate else ''})"
    with watched(inputs.randomizer) as sent:
        agent.learn_labels(contexts, labels, aggregate)
    made = sum(users for _, users in sent)
    assert made == len(labels), f"{call} made {made} reports of {len(labels)} users by the agent's randomizer"
    assert agent.ledger.releases - before == len(labels), f"{call} enters as many reports as there are users"
    with watched(forced.randomizer, [report for report, _ in sent]):
        other.learn_labels(contexts[::-1], (labels + 1) % agent.n_labels, aggregate)
    same = same_parts(without_generators(agent), without_generators(other))
    assert same, f"{call} learned something that was in no report"


@contextmanager
def watched(randomizer: Randomizer, forced: list[Array] | None = None) -> Iterator[list[tuple[Array, int]]]:
    """Yield the reports that a randomizer makes in the meantime, or their sums, with the number of users in each.

    With ``forced`` it returns these, in order.
    """
    made: list[tuple[Array, int]] = []
    left = iter(forced or ())

    def watcher(honest: Callable[..., Array], users_of: Callable[..., int]) -> Callable[..., Array]:
        def call(*given: Any) -> Array:
            made.append((honest(*given) if forced is None else next(left), users_of(*given)))
            return made[-1][0]

        return call

    calls = [(thing, name, users_of) for thing, name, users_of in calls_of(randomizer) if hasattr(thing, name)]
    for thing, name, users_of in calls:
        object.__setattr__(thing, name, watcher(getattr(thing, name), users_of))  # of this one, which may be frozen
    try:
        yield made
    finally:
        for thing, name, _ in calls:
            object.__delattr__(thing, name)


def calls_of(randomizer: Randomizer) -> list[tuple[object, str, Callable[..., int]]]:
    """Return by which methods reports are made, or sums drawn at once, and how many users a call of each is about."""
    return [
        (randomizer, "randomize", lambda cells, *rest: len(cells)),
        (randomizer, "approximate_sum", lambda cells, values, rng, n=None: len(cells) if n is None else int(np.sum(n))),
        (getattr(randomizer, "mechanism", None), "release_sum", lambda total, releases, rng: releases),
    ]
