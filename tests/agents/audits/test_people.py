"""A person who comes 2, 5 and 43 times: honest agents are not refuted, three that break the promise are."""

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make
from privbandit_agents.audits.agents import Variant
from privbandit_agents.audits.games import joint, local, shuffled
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.base.people import Seen
from privbandit_agents.joint.linear.jdp_linucb import JDPLinUCB
from privbandit_agents.local.linear.ldp_greedy import LDPGreedy
from privbandit_agents.shuffle.shuffle_linucb import ShuffleLinUCB
from privbandit_agents.testing.people import check_people
from privbandit_agents.zoo.entries import AGENTS, Entry

CONFIDENCE = 0.999


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
    refuse: Any
    counts: type[Seen]

    def first_visits(self, records: tuple[Any, ...], person: object) -> tuple[Any, ...]:
        if type(self.people_seen) is Seen:
            self.people_seen = self.counts(self.people_seen.most)
        return self.people_seen.taken(records, person, self.refuse)  # type: ignore[no-any-return]


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


GAMES: dict[type[Any], Variant] = {JDPLinUCB: joint.PERSON, LDPGreedy: local.PERSON, ShuffleLinUCB: shuffled.PERSON}
NAMES: dict[type[Any], str] = {JDPLinUCB: "jdp-linucb", LDPGreedy: "ldp-greedy", ShuffleLinUCB: "shuffle-linucb"}


def refuted(game: Variant, name: str, visits: int, runs: int, **config: Any) -> bool:
    kind = Variant(game.game, game.values | {"visits": visits})
    coarse = {"growth": 2.0} if game is joint.PERSON else {}  # fewer epochs, which take less time
    if averaged := config.pop("averaged", ""):
        config["visits"] = averaged
    played = kind(name, {"people": 300, **coarse, **config}, effort="quick")
    found = audit(played, runs, np.random.default_rng(3), CONFIDENCE)
    return found.refuted or (found.presumed is not None and found.presumed.refuted)


def registered(monkeypatch: pytest.MonkeyPatch, kind: type[Any], mixin: type[Any], **body: Any) -> str:
    broken = type("Broken", (mixin, kind), {"__module__": __name__, **body})
    monkeypatch.setattr(f"{__name__}.Broken", broken, raising=False)
    entry = AGENTS[NAMES[kind]]
    monkeypatch.setitem(AGENTS, "broken", dataclasses.replace(entry, agent=f"{__name__}:Broken", audit=""))
    monkeypatch.setattr(Entry, "load", lambda self: broken if self.agent.endswith(":Broken") else LOAD(self))
    return "broken"


LOAD = Entry.load


@pytest.mark.parametrize("kind", GAMES)
@pytest.mark.parametrize("visits", [2, 5, 43])
@pytest.mark.wide
def test_honest_agents_are_not_refuted(kind: type[Any], visits: int) -> None:
    """One audit in a thousand accuses an honest agent."""
    assert not refuted(GAMES[kind], NAMES[kind], visits, 400)


@pytest.mark.wide
@pytest.mark.parametrize("visits", [2, 5, 43])
def test_means_of_people_are_not_refuted(visits: int) -> None:
    assert not refuted(joint.PERSON, "jdp-linucb", visits, 400, averaged="mean")


@pytest.mark.wide
def test_where_rewards_are_protected_nothing_else_is_replaced() -> None:
    assert not refuted(joint.PERSON, "reward-dp-linucb", 43, 120, growth=4.0)


@pytest.mark.wide_at("LDPGreedy")
@pytest.mark.parametrize(
    "kind",
    [pytest.param(JDPLinUCB, marks=pytest.mark.wide), LDPGreedy, pytest.param(ShuffleLinUCB, marks=pytest.mark.wide)],
)
def test_an_agent_that_counts_all_visits_is_refuted(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    name = registered(monkeypatch, kind, Loose, counts=All)
    assert refuted(GAMES[kind], name, 32 if kind is ShuffleLinUCB else 43, 400)


@pytest.mark.parametrize("kind", [JDPLinUCB, LDPGreedy])
@pytest.mark.wide
def test_a_cap_of_three_with_the_noise_of_one_is_refuted(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    name = registered(monkeypatch, kind, Loose, counts=Three)
    assert refuted(GAMES[kind], name, 43, 1500)


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
