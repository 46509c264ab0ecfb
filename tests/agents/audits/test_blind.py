"""Agents by an author who never read the auditor: false claims are stopped, honest agents that look odd are not."""

import warnings
from pathlib import Path
from typing import Any

import pytest
from agents.audits import blind
from privbandit_agents.cli import commands
from privbandit_agents.testing import NotSeen, check_agent

pytestmark = pytest.mark.slow
FILE = Path(blind.__file__)


def checked(name: str, world: str) -> str:
    """Return what the conformance suite holds against an agent; "" if nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSeen)
        try:
            check_agent(f"{blind.__name__}:{name}", world)
        except AssertionError as error:
            return str(error) or "an assertion"
    return ""


def audited(name: str, world: str, folder: Path) -> Any:
    """Return the code with which a quick audit ends: 1 if it refutes the claim, 0 if it does not, else a refusal."""
    asked = ["--epsilon", "1", "--env", world, "--effort", "quick", "--no-power", "--out", str(folder)]
    with pytest.raises(SystemExit) as ended:
        commands.app(["audit", f"{FILE}:{name}", *asked])
    return ended.value.code


@pytest.mark.parametrize(("name", "world"), blind.FALSE.items())
def test_a_false_claim_is_stopped(name: str, world: str, tmp_path: Path) -> None:
    assert checked(name, world) or audited(name, world, tmp_path) == 1


@pytest.mark.parametrize(("name", "world"), blind.HONEST.items())
def test_an_honest_agent_is_neither_refuted_nor_refused(name: str, world: str, tmp_path: Path) -> None:
    assert checked(name, world) == ""
    assert audited(name, world, tmp_path) == 0
