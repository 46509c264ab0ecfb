"""Agents that were told when feedback comes: exact replay, exact twins, and quick audits of the default ones."""

from typing import Any

import numpy as np
import pytest
from privbandit_agents.audits.games.joint import JointGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import games
from privbandit_agents.testing.replay import check_replay
from privbandit_agents.testing.reports import check_reports
from privbandit_agents.testing.shuffling import check_shuffle
from privbandit_agents.testing.twins import check_local

from privbandit_envs import Delay

LAWS = {
    "fixed": Delay(25, "batch"),
    "growing": Delay(10, "growing"),
    "delayed": Delay(15, "geometric"),
    "lost": Delay(20, "batch", missing=0.3),
}
WORLDS = {
    "jdp-linucb": "Linear-v0",
    "jdp-smooth": "Smooth-v0",
    "adap-klucb": "Bandit-v0",
    "prec-ts": "Linear-v0",
    "ldp-clicks": "Clicks-v0",
    "ldp-ucb": "Bandit-v0",
    "shuffle-linucb": "Linear-v0",
    "shuffle-glm": "Linear-v0",
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.wide_but("lost-shuffle-*", "lost-prec-ts", "lost-ldp-clicks")
@pytest.mark.filterwarnings("ignore:the replay of")
def test_exact_losses_are_within_the_promise_in_every_regime(law: str, name: str) -> None:
    first = {"first": 12} if name.startswith("shuffle") else {}
    for check, users in ((check_replay, 60), (check_local, 200), (check_reports, 200), (check_shuffle, 200)):
        check(name, f"privbandit/{WORLDS[name]}", users, {"feedback": LAWS[law], **first})


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.wide_at("fixed-*", "growing-*", "delayed-*", "lost-*")
def test_an_audit_refutes_no_promise_in_any_regime(law: str, name: str) -> None:
    """One audit in a thousand accuses an honest agent."""
    played: list[Any]
    asked = {"epsilon": 1.0, "feedback": LAWS[law]}
    if name == "jdp-linucb":  # whose own games are played with epochs of one user
        played = [JointGame(name, asked | {"horizon": 2048}, None, "quick")]  # with users before the target
    else:
        played = games(name, 1.0, effort="quick", config=asked)
    for game in played:
        assert not audit(game, game.runs, np.random.default_rng(5), 1 - 0.001 / len(played)).refuted
    assert played
