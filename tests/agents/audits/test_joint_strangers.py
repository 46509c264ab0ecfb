"""Joint agents of somebody else, audited by what they release and do: gross faults are found, honest ones are not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from privbandit_agents.audits.games.joint import JointGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.zoo import AGENTS


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of this file is on the path; agents registered meanwhile are forgotten."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    monkeypatch.setattr(JointGame, "pilots", 16)
    monkeypatch.setattr(JointGame, "finals", 20)
    known = dict(AGENTS)
    yield
    AGENTS.clear()
    AGENTS.update(known)
    sys.modules.pop("joint_strangers", None)


@pytest.mark.parametrize(
    ("law", "fault"), [("laplace", "no noise"), ("gaussian", "ten times epsilon"), ("gaussian", "raw reads")]
)
def test_gross_faults_are_found_by_a_tenth_of_the_default_runs(law: str, fault: str) -> None:
    game = JointGame("joint_strangers:stranger", {"law": law, "fault": fault})
    assert audit(game, 40, np.random.default_rng(0), 0.99).refuted


@pytest.mark.parametrize("law", ["laplace", "tree"])
def test_honest_agents_are_not_accused(law: str) -> None:
    """One audit in a thousand accuses an honest agent."""
    game = JointGame("joint_strangers:stranger", {"law": law})
    assert not audit(game, 40, np.random.default_rng(0), 0.999).refuted
