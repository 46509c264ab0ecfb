"""Joint agents of somebody else, audited by what they release and do: faults are found, honest ones are not accused."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Claim
from privbandit_agents.audits.games import batches, joint
from privbandit_agents.audits.games import schedules as schedule
from privbandit_agents.audits.games.batches import BatchCanaries
from privbandit_agents.audits.games.joint import FirstRelease, JointGame
from privbandit_agents.audits.games.schedules import ScheduleGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.pairs.records import drawn
from privbandit_agents.audits.registry import games
from privbandit_agents.audits.views.readings import Layout, Readings
from privbandit_agents.testing.privacy import check_audit
from privbandit_agents.zoo.entries import AGENTS

STRANGER = "joint_strangers:stranger"
PARTS = ["all releases", "first release", "schedule", "batches"]


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of this file is on the path; agents registered meanwhile are forgotten, and pilot runs are few."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    for few in ({"pilots": 8, "heats": ((4, 16),), "fits": 60}, {"runs": 40}):
        for key, value in few.items():
            monkeypatch.setattr(JointGame, key, value)
    for key, value in {"pilots": 10, "heats": ((4, 20),), "fits": 200, "runs": 600}.items():
        monkeypatch.setattr(FirstRelease, key, value)
    for key, value in {"PILOTS": 100, "SCOUTS": 1}.items():
        monkeypatch.setattr(batches, key, value)
    monkeypatch.setattr(batches, "drawn", lambda env: drawn(env)[:64])
    monkeypatch.setattr(schedule, "USERS_A_RUN", 32)
    for key, value in {"pilots": 20, "fits": 40, "runs": 1500, "budget": 6000, "most": 1}.items():
        monkeypatch.setattr(ScheduleGame, key, value)
    for key, value in {"USERS_A_RUN": 64, "RUNS_OF_PURE": 600}.items():
        monkeypatch.setattr(joint, key, value)
    monkeypatch.setattr(JointGame, "among", 1)
    monkeypatch.setattr(FirstRelease, "among", 1)
    known = dict(AGENTS)
    yield
    AGENTS.clear()
    AGENTS.update(known)
    sys.modules.pop("joint_strangers", None)


@pytest.mark.parametrize(
    ("law", "fault"),
    [("laplace", "no noise"), ("laplace", "raw reads"), ("gaussian", "ten times epsilon"), ("gaussian", "raw reads")],
)
@pytest.mark.wide
def test_gross_faults_are_found_by_few_runs(law: str, fault: str) -> None:
    game = JointGame(STRANGER, {"law": law, "fault": fault})
    assert audit(game, 120, np.random.default_rng(0), 0.99).refuted


@pytest.mark.parametrize(("law", "claim"), [("gaussian", "zcdp"), ("gram", ""), ("tree", "")])
@pytest.mark.wide
def test_canaries_find_half_the_noise_of_batches(law: str, claim: str) -> None:
    """At epsilon = 4, by 150 runs with their twins: of rho if that is promised, else of what is presumed."""
    game = BatchCanaries(STRANGER, {"law": law, "claim": claim, "fault": "noise x 0.5", "epsilon": 4.0})
    found = audit(game, 150, np.random.default_rng(0), 0.999)
    assert found.refuted == (claim == "zcdp")
    assert found.refuted or (found.presumed is not None and found.presumed.refuted)


@pytest.mark.parametrize(
    ("config", "caught"),
    [({"fault": "schedule leak"}, True), ({"trigger": 1.0}, False), ({"trigger": 0.05}, True), ({}, False)],
)
@pytest.mark.wide
def test_a_schedule_that_raw_data_decide_is_refuted_and_a_private_one_is_not(config: Any, caught: bool) -> None:
    """A batch ends early by its raw sum, by its sum with the noise of half of epsilon or a twentieth of it, or never.

    An honest one is accused with probability 0.001.
    """
    game = ScheduleGame(STRANGER, config)
    assert audit(game, game.runs, np.random.default_rng(0), 0.999).refuted == caught


@pytest.mark.wide
def test_a_sparse_vector_without_noise_of_its_queries_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right after a user a batch ends in one run of twenty, or never, by the user's record."""
    monkeypatch.setattr(schedule, "USERS_A_RUN", 128)
    monkeypatch.setattr(ScheduleGame, "runs", 6000)
    monkeypatch.setattr(ScheduleGame, "budget", 24_000)
    game = ScheduleGame(STRANGER, {"trigger": 1.0, "fault": "no query noise"})
    assert audit(game, game.runs, np.random.default_rng(0), 0.999).refuted


@pytest.mark.wide
def test_laplace_batches_are_audited_by_their_own_likelihood_ratio() -> None:
    """600 runs find half of the noise; of an honest epsilon of 1 they find more than a third."""
    honest, halved = (
        audit(FirstRelease(STRANGER, {"fault": fault}), 600, np.random.default_rng(0), 0.99)
        for fault in ("", "noise x 0.5")
    )
    assert 0.35 < honest.lower_bound < 1 and halved.refuted


@pytest.mark.wide
def test_games_are_those_that_a_claim_admits(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (AgentGame, JointGame):  # which scene is played does not matter
        monkeypatch.setattr(kind, "prepare", lambda self: None)
    monkeypatch.setattr(batches, "PILOTS", 60)
    played = {
        (law, claim): games(STRANGER, 1.0, config={"law": law, "claim": claim})
        for law, claim in (("gaussian", ""), ("gaussian", "zcdp"), ("gaussian", "approx"), ("laplace", ""))
    }
    assert all([game.part for game in one] == PARTS for one in played.values())
    said, zcdp, unsaid, laplace = (one[-1] for one in played.values())
    assert said.claim == unsaid.claim == Claim(1.0, 1e-5) and laplace.claim == Claim(1.0)
    assert zcdp.claim.rho is not None
    assert said.presumed == Claim.gaussian(1.0, 1e-5)  # by the word of the agent, and of batches alone
    assert unsaid.presumed is zcdp.presumed is laplace.presumed is None
    assert not any(game.presumed for one in played.values() for game in one[:-1])


@pytest.mark.parametrize("law", ["laplace", pytest.param("tree", marks=pytest.mark.slow)])
@pytest.mark.wide
def test_honest_agents_are_not_accused(law: str) -> None:
    """One audit in a thousand accuses an honest agent."""
    for game in games(STRANGER, 1.0, config={"law": law}):
        assert not audit(game, 40, np.random.default_rng(0), 0.999).refuted


@pytest.mark.wide
def test_the_suite_says_what_is_wrong_with_a_strangers_agent() -> None:
    with pytest.raises(AssertionError, match="an audit shows epsilon >= "):
        check_audit(STRANGER, "privbandit/Linear-v0", 100, {"fault": "raw reads"})


@pytest.mark.parametrize("noise", ["normal", "laplace"])
def test_statistics_add_up_over_releases(noise: str) -> None:
    """A move of 1 in each of four releases that add up: the best statistic tells as much as the four ratios do."""
    rng = np.random.default_rng(0)
    drawn = getattr(rng, noise)(size=(2, 4000, 4))
    zero, one = (np.cumsum(drawn[0], axis=1), np.cumsum(drawn[1] + 1, axis=1))
    statistics = Readings.of(zero, one, Layout(0, 4, 1))
    column = {"normal": -2, "laplace": -1}[noise]
    shown, other = statistics(zero)[:, column], statistics(one)[:, column]
    best = {"normal": 0.841, "laplace": 0.804}[noise]  # of the exact ratio: Phi(1), and by simulation
    assert (np.mean(shown > 0) + np.mean(other < 0)) / 2 == pytest.approx(best, abs=0.03)
