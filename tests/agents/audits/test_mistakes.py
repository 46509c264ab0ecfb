"""Agents with one mistake are refuted, and the same agents without it are not; honest laws are seldom accused."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from privbandit_agents.audits.claims import Claim, Floats
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import prepared
from privbandit_agents.zoo.entries import AGENTS

KNOWN = dict(AGENTS)
sys.path.insert(0, str(Path(__file__).parent))
MADE = import_module("mistakes")  # which registers agents: forgotten at once, as other tests look at all there are
LAWS = import_module("laws")
sys.path.pop(0)
AGENTS.clear()
AGENTS.update(KNOWN)
del sys.modules["mistakes"]
CONFIDENCE = 0.999


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of this file is on the path; agents registered meanwhile are forgotten."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    known = dict(AGENTS)
    yield
    AGENTS.clear()
    AGENTS.update(known)
    sys.modules.pop("mistakes", None)


def accused(mistake: str, mended: bool, effort: str) -> bool:
    config = {"mistake": mistake, "mended": mended}
    each = 1 - (1 - CONFIDENCE) / (1 if mistake in MADE.DEVICES | MADE.BOXES else 4)
    return any(
        audit(game, game.runs, np.random.default_rng(0), each).refuted
        for game in prepared(MADE.agent_of(mistake), 1.0, config=config, effort=effort)
    )


@pytest.mark.parametrize("mended", [False, True])
@pytest.mark.parametrize("mistake", ["shared-noise", "shared-coin"])
@pytest.mark.wide
def test_what_devices_of_a_call_share_is_seen(mistake: str, mended: bool) -> None:
    """One audit in a thousand accuses an honest agent."""
    assert accused(mistake, mended, "quick") == (not mended)


@pytest.mark.slow
@pytest.mark.parametrize("mended", [False, True])
@pytest.mark.parametrize("mistake", MADE.MISTAKES)
def test_mistakes_are_refuted_and_mended_agents_are_not(mistake: str, mended: bool) -> None:
    """One audit in a thousand accuses an honest agent."""
    assert accused(mistake, mended, "normal") == (not mended)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS.LAWS)
def test_honest_laws_are_refuted_no_more_often_than_is_said(name: str) -> None:
    """Of 400 audits 34 at 95 % and 4 at 99.9 %, or more, have a chance below 0.003 at the stated rates."""
    found = LAWS.accusations([LAWS.law_game(name)], 400, 1000)
    assert found[0.95] <= 33 and found[0.999] <= 3


def test_discrete_gaussian_noise_is_not_refuted_and_its_rho_is_not_overstated() -> None:
    """At epsilon = 3 and 100 000 runs; what is presumed beside the claim is bounded by the rho of the noise."""
    claim, law = LAWS.LAWS["discrete Gaussian, 3"]
    found = audit(LAWS.LawGame(claim, law, Claim.gaussian(3.0, 1e-5)), 100_000, np.random.default_rng(0), CONFIDENCE)
    truth = 1 / (2 * LAWS.lattice(3.0) ** 2)
    assert not found.refuted and found.presumed is not None and 0.8 * truth < found.presumed.bound < truth


@pytest.mark.parametrize("where", ["rng", "child"])
def test_worlds_that_draw_unequally_are_played_apart(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the generator or one that it has spawned falls out of step; equal draws are played together."""
    seeds: list[list[int]] = []

    def drawing(more: int) -> Any:
        def law(world: int, runs: int, rng: Generator) -> Floats:
            seeds[-1].append(int(rng.bit_generator.state["state"]["state"] % 2**61))
            (child,) = rng.spawn(1)
            noise = (rng if where == "rng" else child).laplace(size=runs + more * world)
            return world + noise[:runs]

        return law

    for more in (0, 1):
        seeds.append([])
        audit(LAWS.LawGame(Claim(1.0), drawing(more)), 400, np.random.default_rng(0), 0.99)
    together, apart = (len(set(one)) / len(one) for one in seeds)
    assert together == 0.5 and apart > 0.5
