"""Audits of private assortments: what keeps its promise is not refuted, what does not is, by the runs stated."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from privbandit_agents.audits import registry as audits
from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import AuditResult
from privbandit_agents.audits.games.assortments import CAPACITY, ROUNDS, GramGame
from privbandit_agents.audits.games.counters import columns
from privbandit_agents.audits.games.derivatives import Hessians, MinimiserGame, NewtonGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.joint.assortments import dpmnl, private_cov
from privbandit_agents.privacy.contributions import choices as choice
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation

pytestmark = pytest.mark.filterwarnings("ignore:.*published calibration")


def audited(game: AgentGame, runs: int, seed: int = 0) -> AuditResult:
    return audit(game, runs, np.random.default_rng(seed), 0.95)


@pytest.mark.parametrize(("counter", "rho"), [("tree", 0.1), ("tree", 1.0), ("toeplitz", 1.0), ("buffered", 1.0)])
@pytest.mark.wide
def test_dpmnl_keeps_its_promise(counter: str, rho: float) -> None:
    found = audited(GramGame("dpmnl", {"rho": rho, "counter": counter}), 25)
    assert not found.refuted
    assert found.claim.rho == pytest.approx(0.95 * rho)


@pytest.mark.parametrize(("counter", "rho"), [("tree", 0.1), ("toeplitz", 1.0)])
@pytest.mark.wide
def test_the_published_gram_matrix_is_refuted_within_30_runs(counter: str, rho: float) -> None:
    assert audited(GramGame("dpmnl", {"rho": rho, "counter": counter, "calibration": "published"}), 30).refuted


@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
@pytest.mark.wide
def test_half_the_noise_of_the_gram_matrix_is_caught(counter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the claim; 120 runs see at least 1.5 times it, so the audit has power to spare."""
    game = GramGame("dpmnl", {"rho": 1.0, "counter": counter})
    right = private_cov.gram_sensitivity
    monkeypatch.setattr(dpmnl, "gram_sensitivity", lambda k, radius: right(k, radius) / 2)
    found = audited(game, 120)
    assert found.refuted and found.rho_bound is not None and found.rho_bound > 1.5 * 0.95


@pytest.mark.wide
def test_the_approximate_benchmark_keeps_its_promise_and_a_quarter_of_its_noise_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not audited(GramGame("dpmnl-approx", {"rho": 1.0}), 25).refuted
    right = private_cov.gram_sensitivity
    monkeypatch.setattr(dpmnl, "gram_sensitivity", lambda k, radius: right(k, radius) / 20)
    assert audited(GramGame("dpmnl-approx", {"rho": 1.0}), 25).refuted


@pytest.mark.parametrize("game", [NewtonGame, Hessians])
@pytest.mark.parametrize("rho", [pytest.param(0.1, marks=pytest.mark.slow), 1.0])
@pytest.mark.wide
def test_newton_steps_keep_their_promise(game: type[AgentGame], rho: float) -> None:
    """Of rho = 1 a fifth is found in 60 runs, so that little of what a canary tells is lost."""
    found = audited(game("newton-mnl", {"rho": rho}), 60, seed=1)
    assert not found.refuted and found.rho_bound is not None and found.rho_bound > (0.2 * rho if rho == 1 else -1)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.wide
def test_half_the_noise_of_newton_steps_is_caught(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the gradients, and of the Hessians, each by the game that looks at it."""
    game = (NewtonGame, Hessians)[part]("newton-mnl", {"rho": 1.0})
    right = choice.sensitivities
    halved = "privbandit_agents.joint.assortments.newton_mnl.sensitivities"
    scales = [1.0, 1.0]
    scales[part] = 0.5
    monkeypatch.setattr(halved, lambda *given: tuple(a * b for a, b in zip(right(*given), scales, strict=True)))
    assert audited(game, 150).refuted


@pytest.mark.parametrize("name", ["dpmnl", "dpmnl-approx"])
@pytest.mark.wide
def test_private_mle_keeps_its_promise_and_does_not_without_noise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    game = MinimiserGame(name, {"epsilon": 1.0})
    assert not audited(game, 60).refuted
    honest = ObjectivePerturbation.minimise

    def quiet(self: Any, likelihood: Any, rng: Any, start: Any) -> Any:
        return honest(dataclasses.replace(self, sigma=self.sigma / 100), likelihood, rng, start)

    monkeypatch.setattr(ObjectivePerturbation, "minimise", quiet)
    assert audited(MinimiserGame(name, {"epsilon": 1.0}), 60).refuted


@pytest.mark.wide
def test_coins_that_nobody_was_told_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: all canaries have the same record. Each of three audits errs once in a thousand."""
    game, serve = GramGame("dpmnl", {"rho": 1.0}), GramGame.served
    monkeypatch.setattr(GramGame, "served", lambda self, agent, coins: serve(self, agent, np.ones(len(coins))))
    assert [audit(game, 20, np.random.default_rng(seed), 0.999).rho_bound for seed in range(3)] == [0, 0, 0]


@pytest.mark.wide
def test_the_command_line_knows_them() -> None:
    assert audits.games("dpmnl-approx", 2.0) == []
    game: Any = audits.game("dpmnl", 2.0)
    assert game.claim.epsilon == 2.0 and game.claim.rho is not None
    assert game.play(0, 3, np.random.default_rng(0)).shape == (3, game.canaries)


@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
def test_the_release_tells_v(counter: str) -> None:
    """What is read of a release is the agent's own V, after every user."""
    game = GramGame("dpmnl", {"rho": 1.0, "counter": counter})
    agent = game.agent(3)
    read = game.served(agent, np.ones(game.canaries))
    assert np.allclose(read[-1], agent.cov.matrix())


@pytest.mark.parametrize(("counter", "canaries"), [("tree", 5), ("toeplitz", 16), ("buffered", 16)])
def test_canaries_are_users_who_move_the_releases_far(counter: str, canaries: int) -> None:
    """Of a tree those in the most blocks; each moves the releases by what is claimed, or up to 15 % less."""
    game = GramGame("dpmnl", {"rho": 1.0, "counter": counter})
    counted = game.agent(0).cov.counter
    apart = np.linalg.norm(columns(counted, ROUNDS), axis=0) * 2 * CAPACITY / (math.sqrt(2) * counted.scale)
    assert len(game.users) == canaries and game.claim.rho is not None
    assert apart.max() <= math.sqrt(2 * game.claim.rho) * (1 + 1e-6)
    assert apart[game.users].min() >= 0.85 * math.sqrt(2 * game.claim.rho)
