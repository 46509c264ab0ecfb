"""A person who comes again and again: agents that count more than the first visit fail their checks."""

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make
from privbandit_agents.base.people import Seen
from privbandit_agents.joint.linear.jdp_linucb import JDPLinUCB
from privbandit_agents.local.linear.ldp_greedy import LDPGreedy
from privbandit_agents.shuffle.shuffle_linucb import ShuffleLinUCB
from privbandit_agents.testing.people import check_people
from privbandit_agents.testing.replay import BRIEFLY, replay
from privbandit_agents.zoo.entries import AGENTS, Entry


class All(Seen):
    """Counts every visit."""

    def taken(self, records: tuple[Any, ...], person: object, refuse: Any) -> tuple[Any, ...]:
        super().taken(records, person, refuse)
        return records


class Three(Seen):
    """Counts the first three visits of each person."""

    def taken(self, records: tuple[Any, ...], person: object, refuse: Any) -> tuple[Any, ...]:
        if person is None:
            return records
        ids = np.asarray(person)
        before = vars(self).setdefault("before", {})
        rank = []
        for one in ids.tolist():
            before[one] = before.get(one, 0) + 1
            rank.append(before[one] <= 3)
        return tuple(part[np.array(rank)] for part in records)


class Loose:
    """Hands on more than it should: the noise is that of one visit."""

    people_seen: Any
    counts: type[Seen]

    def begin(self) -> None:
        self.people_seen = self.counts(self.people_seen.most)
        super().begin()  # type: ignore[misc]


class Forgets:
    """Begins anew, with nobody counted, whenever it was loaded."""

    people_seen: Any

    def restore_devices(self, values: dict[str, Any]) -> None:
        super().restore_devices(values)  # type: ignore[misc]
        self.people_seen = Seen(self.people_seen.most)


class ForgetsState:
    people_seen: Any

    def restored(self) -> None:
        super().restored()  # type: ignore[misc]
        self.people_seen = Seen(self.people_seen.most)


NAMES: dict[type[Any], str] = {JDPLinUCB: "jdp-linucb", LDPGreedy: "ldp-greedy", ShuffleLinUCB: "shuffle-linucb"}


def registered(monkeypatch: pytest.MonkeyPatch, kind: type[Any], mixin: type[Any], **body: Any) -> str:
    broken = type("Broken", (mixin, kind), {"__module__": __name__, **body})
    monkeypatch.setattr(f"{__name__}.Broken", broken, raising=False)
    entry = AGENTS[NAMES[kind]]
    monkeypatch.setitem(AGENTS, "broken", dataclasses.replace(entry, agent=f"{__name__}:Broken", audit=""))
    monkeypatch.setattr(Entry, "load", lambda self: broken if self.agent.endswith(":Broken") else LOAD(self))
    return "broken"


LOAD = Entry.load


@pytest.mark.filterwarnings("ignore::privbandit_agents.testing.replay.NotSeen")
@pytest.mark.wide_at("*LDPGreedy*")
@pytest.mark.parametrize("counts", [All, Three])
@pytest.mark.parametrize("kind", [pytest.param(JDPLinUCB, marks=pytest.mark.wide), LDPGreedy, ShuffleLinUCB])
def test_an_agent_that_counts_more_visits_than_one_fails(
    kind: type[Any], counts: type[Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices that report again are seen by their twins; what visits to a curator cost is replayed."""
    name = registered(monkeypatch, kind, Loose, counts=counts)
    told = "costs" if kind is JDPLinUCB else "who returns counts"
    with pytest.raises(AssertionError, match=told):
        if kind is JDPLinUCB:
            replay(name, "privbandit/Linear-v0", 180, {"people": 180}, 0, BRIEFLY[:2], visits=43)
        else:
            check_people(name, "privbandit/Linear-v0", 180, {})


@pytest.mark.wide_at("JDPLinUCB-*")
@pytest.mark.parametrize(("kind", "mixin"), [(JDPLinUCB, ForgetsState), (LDPGreedy, Forgets)])
def test_an_agent_that_forgets_who_came_fails_its_check(
    kind: type[Any], mixin: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = registered(monkeypatch, kind, mixin)
    with pytest.raises(AssertionError, match=r"seen must be kept|who returns counts"):
        check_people(name, "privbandit/Linear-v0", 180, {})
    check_people(NAMES[kind], "privbandit/Linear-v0", 180, {})


def test_a_server_s_file_does_not_say_who_reported() -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=2, dim=2)
    agent = make("ldp-greedy", env, seed=0, people=10)
    arrays, values = agent.state()
    assert not any(key.startswith("people_seen") for key in (*arrays, *values))
    agent.restore(arrays, values)
    with pytest.raises(RuntimeError, match="who has reported is on the devices"):
        agent.update(env.reset(seed=0)[0], 0, 1.0, 3)  # type: ignore[call-arg]
