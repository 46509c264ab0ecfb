"""Honest strangers pass, or get one sentence with the line to change."""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import prepared
from privbandit_agents.testing import NotSeen, check_agent
from privbandit_agents.zoo.entries import AGENTS

sys.path.insert(0, str(Path(__file__).parent))
import honest  # type: ignore[import-not-found]

sys.path.pop(0)
LINEAR = "privbandit/Linear-v0"
PASSING = ("Turns", "Mapped", "Objects", "Named", "Listed", "Texts", "Ragged", "Own", "Curator")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of this file is on the path; agents registered meanwhile are forgotten."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    before = dict(AGENTS)
    yield
    AGENTS.clear()
    AGENTS.update(before)


@pytest.mark.wide_at("Objects", "Curator", "Listed", "Mapped", "Named", "Ragged", "Texts", "Turns")
@pytest.mark.parametrize("name", PASSING)
def test_an_honest_stranger_passes_every_check(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSeen)
        check_agent(f"honest:{name}", LINEAR, 120)


@pytest.mark.wide
@pytest.mark.parametrize("name", PASSING)
def test_an_honest_stranger_is_not_refuted(name: str) -> None:
    """One audit in a thousand accuses an honest agent."""
    for game in prepared(f"honest:{name}", 1.0, effort="quick"):
        assert not audit(game, game.runs, np.random.default_rng(2), 1 - 0.001 / 4).refuted


@pytest.mark.wide
def test_who_draws_from_the_devices_generator_is_told_the_line() -> None:
    with pytest.raises(AssertionError, match=r"write self\.rng_choices = self\.rng\.spawn\(1\)\[0\] in begin\(\)"):
        check_agent("honest:Drawn", LINEAR, 120)


def test_a_name_that_hides_one_of_the_base_is_told_at_once() -> None:
    with pytest.raises(TypeError, match=r"Hiding\.cost\(\) hides LocalAgent\.cost, which is a value: rename it"):
        honest.define()
    with pytest.raises(TypeError, match=r"self\.state hides HidesState\.state\(\), which others call: rename"):
        check_agent("honest:HidesState", LINEAR, 120)
