"""Agents with one mistake are refuted, and the same agents without it are not; honest laws are seldom accused."""

import math
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator
from privbandit_agents.audits.claims import Claim, Floats, Game
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import prepared
from privbandit_agents.privacy.accounting.conversions import gaussian_mu
from privbandit_agents.zoo import AGENTS
from scipy.optimize import brentq

KNOWN = dict(AGENTS)
sys.path.insert(0, str(Path(__file__).parent))
MADE = import_module("mistakes")  # which registers agents: forgotten at once, as other tests look at all there are
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
def test_what_devices_of_a_call_share_is_seen(mistake: str, mended: bool) -> None:
    """One audit in a thousand accuses an honest agent."""
    assert accused(mistake, mended, "quick") == (not mended)


@pytest.mark.slow
@pytest.mark.parametrize("mended", [False, True])
@pytest.mark.parametrize("mistake", MADE.MISTAKES)
def test_mistakes_are_refuted_and_mended_agents_are_not(mistake: str, mended: bool) -> None:
    """One audit in a thousand accuses an honest agent."""
    assert accused(mistake, mended, "normal") == (not mended)


Law = Callable[[int, int, Generator], Floats]


class LawGame(Game):
    """What a law releases in two worlds."""

    name, pair, statistics = "a law", "0 or 1", ("what is released",)

    def __init__(self, claim: Claim, law: Law, presumed: Claim | None = None) -> None:
        self.claim, self.law, self.presumed = claim, law, presumed

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        return np.asarray(self.law(world, runs, rng), np.float64).reshape(runs, -1)


def lattice(epsilon: float, delta: float = 1e-5) -> float:
    """Return the sigma of discrete Gaussian noise on a bit, whose sum over all integers is delta at epsilon."""
    at = np.arange(-400, 401)

    def excess(sigma: float) -> float:
        p, q = (np.exp(-((at - world) ** 2) / (2 * sigma**2)) for world in (0, 1))
        return float(np.maximum(p / p.sum() - math.exp(epsilon) * q / q.sum(), 0).sum()) - delta

    return float(brentq(excess, 0.2, 30.0))


def response(epsilon: float, draws: Callable[[int], int] = lambda world: 1) -> Law:
    """Return randomized response; a world may draw more for a run, so that generators fall out of step."""

    def law(world: int, runs: int, rng: Generator) -> Floats:
        lies = np.array([rng.random(draws(world))[-1] for _ in range(runs)]) > 1 / (1 + math.exp(-epsilon))
        return np.asarray(np.abs(world - 1.0 * lies), np.float64)

    return law


def discrete_gaussian(epsilon: float) -> Law:
    """Return a bit with discrete Gaussian noise of ``lattice``."""
    at, sigma = np.arange(-400, 401), lattice(epsilon)
    chances = np.exp(-(at**2) / (2 * sigma**2))

    def law(world: int, runs: int, rng: Generator) -> Floats:
        return np.asarray(world + rng.choice(at, size=runs, p=chances / chances.sum()), np.float64)

    return law


def laplace(scale: float) -> Law:
    return lambda world, runs, rng: world + rng.laplace(scale=scale, size=runs)


LAWS: dict[str, tuple[Claim, Law]] = {
    "randomized response": (Claim(0.5), response(0.5)),
    "randomized response, out of step": (Claim(0.5), response(0.5, lambda world: 1 + world)),
    "Laplace": (Claim(1.0), laplace(1.0)),
    "geometric": (
        Claim(1.0),
        lambda world, runs, rng: world + np.subtract(*rng.geometric(1 - math.exp(-1), size=(2, runs))),
    ),
    "atoms": (
        Claim(1.0),
        lambda world, runs, rng: np.where(rng.random(runs) < 0.5, 9.0, response(1.0)(world, runs, rng)),
    ),
    "Gaussian as (epsilon, delta)": (
        Claim(1.0, 1e-5),
        lambda world, runs, rng: world * gaussian_mu(1.0, 1e-5) + rng.standard_normal(runs),
    ),
    "Gaussian as its curve": (
        Claim.gaussian(1.0, 0.05),
        lambda world, runs, rng: world * gaussian_mu(1.0, 0.05) + rng.standard_normal(runs),
    ),
    **{
        f"discrete Gaussian, {epsilon:g}": (Claim(epsilon, 1e-5), discrete_gaussian(epsilon))
        for epsilon in (1, 2, 3, 4, 8)
    },
}


def rates(name: str, audits: int, runs: int) -> dict[float, int]:
    """Return how many audits of an honest law, with equal seeds, refute its claim at 95 and at 99 %."""
    claim, law = LAWS[name]
    return {
        level: sum(
            audit(LawGame(claim, law), runs, np.random.default_rng([7, k]), level).refuted for k in range(audits)
        )
        for level in (0.95, 0.99)
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_honest_laws_are_refuted_no_more_often_than_is_said(name: str) -> None:
    """Of 400 audits 33 at 95 % and 11 at 99 %, or more, have a chance below 0.003 at the stated rates."""
    found = rates(name, 400, 1000)
    assert found[0.95] <= 33 and found[0.99] <= 11


def test_discrete_gaussian_noise_is_not_refuted_by_a_curve_that_nobody_promised() -> None:
    """At epsilon = 3 and 100 000 runs; the curve is refuted, beside the claim, if it is presumed."""
    claim, law = LAWS["discrete Gaussian, 3"]
    found = audit(LawGame(claim, law, Claim.gaussian(3.0, 1e-5)), 100_000, np.random.default_rng(0), CONFIDENCE)
    assert not found.refuted and found.presumed is not None and found.presumed.refuted


@pytest.mark.parametrize("where", ["rng", "child"])
def test_worlds_that_draw_unequally_are_played_apart(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the generator or one that it has spawned falls out of step; equal draws are played together."""
    seeds: list[list[int]] = []

    def drawing(more: int) -> Law:
        def law(world: int, runs: int, rng: Generator) -> Floats:
            seeds[-1].append(int(rng.bit_generator.state["state"]["state"] % 2**61))
            (child,) = rng.spawn(1)
            noise = (rng if where == "rng" else child).laplace(size=runs + more * world)
            return world + noise[:runs]

        return law

    for more in (0, 1):
        seeds.append([])
        audit(LawGame(Claim(1.0), drawing(more)), 400, np.random.default_rng(0), 0.99)
    together, apart = (len(set(one)) / len(one) for one in seeds)
    assert together == 0.5 and apart > 0.5
