"""Checks that no record, whatever is in it, stops, poisons or delays anybody, or is shown."""

import warnings
from typing import Any

import numpy as np

from privbandit_agents.audits.pairs.attacks import PARTS, SECRET, Attack, attacks, finite, in_group, misfits
from privbandit_agents.audits.pairs.records import Record
from privbandit_agents.audits.views.reports import encoded, pieces
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.testing.runs import environment, released, same_parts, same_state, without_generators
from privbandit_agents.zoo.registry import make


def check_hostile_records(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Anything but a number counts as NaN, user by user; no record stops, poisons or delays anybody, or is shown."""
    env = environment(env_id, horizon)
    env.reset(seed=6)
    contexts = env.upcoming(60)
    actions = np.asarray(make(name, env, seed=6, **config).select_action(contexts))
    group = Record(contexts, actions, env.serve(actions).feedback)
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", IgnoredRecord)
        for part in range(3):
            for no_number in (True, False):
                sent = [one for one in attacks(first(group)) if (one.part, one.no_number) == (part, no_number)]
                agent, twin = (make(name, env, seed=6, **config) for _ in range(2))
                attack_groups(agent, twin, group, sent)
        attack_alone(make(name, env, seed=6, **config), first(group))
        send_misfits(make(name, env, seed=6, **config), make(name, env, seed=6, **config), first(group))


def attack_groups(agent: AnyAgent, twin: AnyAgent, group: Record, sent: list[Attack]) -> None:
    """Let every other user of a group attack; the twin gets NaN in their place."""
    wild, tame, what = in_group(group, sent), in_group(group, sent, harmless=True), PARTS[sent[0].part]
    served, expected = np.asarray(agent.select_action(wild[0])), np.asarray(twin.select_action(tame[0]))
    honest = [user for user in range(len(served)) if user % 2 or user >= 2 * len(sent)]
    assert all(agent.action_space.contains(action) for action in served), "an action outside the action space"
    assert np.array_equal(served[honest], expected[honest]), "a hostile context changed another user's action"
    agent.update(*wild)
    twin.update(*tame)
    assert finite(agent), f"a hostile {what} left a state that is not finite"
    if encoded(released(agent)) == encoded(released(twin)):  # it may depend on what was released
        same = agent.frozen_rounds() == twin.frozen_rounds()
        assert same, f"when the policy changes depends on a hostile {what}"
    assert not sent[0].no_number or same_state(agent, twin), f"a hostile {what} that is no number does not count as NaN"


def attack_alone(agent: AnyAgent, user: Record) -> None:
    for attack in attacks(user):
        wild = attack.on(user)
        assert agent.action_space.contains(agent.select_action(wild[0])), f"no valid action for a hostile {attack.name}"
        if isinstance(agent, LocalAgent):
            sent, usual = structure(agent, wild), {structure(agent, user)}
            if sent not in usual:
                usual |= {structure(agent, user) for _ in range(16)}  # of noise alone if there are several
            assert len(usual) > 1 or sent in usual, f"the report of a hostile {attack.name} has another structure"
        agent.update(*wild)
        assert finite(agent), f"a hostile {attack.name} left a state that is not finite"


def structure(agent: LocalAgent[Any, Any], user: Record) -> bytes:
    """Return the types, dtypes, shapes and lengths of a user's report, without its numbers."""
    report = agent.randomize(*agent.records_of(*user))
    return b" ".join(part for part in pieces(report, 1) if isinstance(part, bytes))


def send_misfits(agent: AnyAgent, twin: AnyAgent, user: Record) -> None:
    """Send parts of other shapes: each counts as NaN; an array of several answers is refused, without a trace."""
    for attack in misfits(user):
        before = without_generators(agent)
        try:
            agent.update(*attack.on(user))
        except ValueError as error:
            assert attack.part == 2, f"{attack.name} stops its user, of whom others then know that it was malformed"
            assert SECRET not in str(error), "an error shows a value of a record"
            assert same_parts(before, without_generators(agent)), f"{attack.name} left a trace"
            continue
        twin.update(*attack._replace(value=attack.harmless).on(user))
        assert same_state(agent, twin), f"{attack.name} does not count as NaN"


def first(group: Record) -> Record:
    return Record(*(part[0] for part in group))
