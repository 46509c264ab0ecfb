"""Audits of private assortments: what keeps its promise is not refuted, what does not is, by the runs stated."""

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents.audits import registry as audits
from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.assortments import GramGame
from privbandit_agents.audits.claims import AuditResult
from privbandit_agents.audits.games.derivatives import HessianGame, MinimiserGame, NewtonGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.joint.assortments import dpmnl, private_cov
from privbandit_agents.privacy.contributions import choices as choice
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation

pytestmark = pytest.mark.filterwarnings("ignore:.*published calibration")


GAMES: dict[str, type[GramGame]] = {"dpmnl": GramGame, "dpmnl-approx": GramGame}


def audited(game: AgentGame, runs: int, seed: int = 0) -> AuditResult:
    return audit(game, runs, np.random.default_rng(seed))


@pytest.mark.parametrize("rho", [0.1, 1.0])
@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
def test_dpmnl_keeps_its_promise(counter: str, rho: float) -> None:
    found = audited(GramGame("dpmnl", {"rho": rho, "counter": counter}), 80)
    assert not found.refuted
    assert found.claim.rho == pytest.approx(0.95 * rho)


@pytest.mark.parametrize("rho", [0.1, 1.0])
@pytest.mark.parametrize("counter", ["tree", "toeplitz"])
def test_the_published_gram_matrix_is_refuted_within_100_runs(counter: str, rho: float) -> None:
    assert audited(GramGame("dpmnl", {"rho": rho, "counter": counter, "calibration": "published"}), 100).refuted


@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
def test_half_the_noise_of_the_gram_matrix_is_caught(counter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the claim; 150 runs see at least one and a half times it, so the audit has power to spare."""
    game = GramGame("dpmnl", {"rho": 1.0, "counter": counter})
    right = private_cov.gram_sensitivity
    monkeypatch.setattr(dpmnl, "gram_sensitivity", lambda k, radius: right(k, radius) / 2)
    found = audited(game, 150)
    assert found.refuted and found.rho_bound is not None and found.rho_bound > 1.5 * 0.95


def test_the_approximate_benchmark_keeps_its_promise_and_a_quarter_of_its_noise_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = GramGame("dpmnl-approx", {"rho": 1.0})
    assert not audited(game, 80).refuted
    right = private_cov.gram_sensitivity
    monkeypatch.setattr(dpmnl, "gram_sensitivity", lambda k, radius: right(k, radius) / 20)
    assert audited(game, 80).refuted


@pytest.mark.parametrize("game", [NewtonGame, HessianGame])
@pytest.mark.parametrize("rho", [0.1, 1.0])
def test_newton_steps_keep_their_promise(game: type[AgentGame], rho: float) -> None:
    """Of rho = 1 a fifth is found in 60 runs, so that little of what a canary tells is lost."""
    found = audited(game("newton-mnl", {"rho": rho}), 60, seed=1)
    assert not found.refuted and found.rho_bound is not None and found.rho_bound > (0.2 * rho if rho == 1 else -1)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("rho", [0.1, 1.0])
def test_half_the_noise_of_newton_steps_is_caught(part: int, rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the gradients, and of the Hessians, each by the game that looks at it."""
    game = (NewtonGame, HessianGame)[part]("newton-mnl", {"rho": rho})
    right = choice.sensitivities
    halved = "privbandit_agents.joint.assortments.newton_mnl.sensitivities"
    scales = [1.0, 1.0]
    scales[part] = 0.5
    monkeypatch.setattr(halved, lambda *given: tuple(a * b for a, b in zip(right(*given), scales, strict=True)))
    assert audited(game, 50).refuted


@pytest.mark.parametrize("name", ["dpmnl", "dpmnl-approx"])
def test_private_mle_keeps_its_promise_and_does_not_without_noise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    game = MinimiserGame(name, {"epsilon": 1.0})
    assert not audited(game, 60).refuted
    honest = ObjectivePerturbation.minimise

    def quiet(self: Any, likelihood: Any, rng: Any, start: Any) -> Any:
        return honest(dataclasses.replace(self, sigma=self.sigma / 100), likelihood, rng, start)

    monkeypatch.setattr(ObjectivePerturbation, "minimise", quiet)
    assert audited(game, 60).refuted


@pytest.mark.parametrize("name", GAMES)
def test_two_equal_users_are_not_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: six audits of the same world twice, at 95 %, give at most two bounds above 0.

    More are above with probability 0.002.
    """
    game = GAMES[name](name, {"rho": 1.0})
    play = type(game).statistic
    monkeypatch.setattr(type(game), "statistic", lambda self, agent, world: play(self, agent, 0))
    bounds = [audited(game, 20, seed).rho_bound for seed in range(6)]
    assert sum(bound is not None and bound > 0 for bound in bounds) <= 2


@pytest.mark.parametrize("name", GAMES)
def test_the_command_line_knows_them(name: str) -> None:
    game: Any = audits.game(name, 2.0)
    assert game.claim.epsilon == 2.0 and game.claim.rho is not None
    assert game.play(0, 3, np.random.default_rng(0)).shape == (3, len(game.statistics))


def test_probes_read_what_was_released() -> None:
    """The bank of probes finds the ratio V_11 / V_22 of the agent's own release to within a step of the bank."""
    game = GramGame("dpmnl", {"rho": 1.0})
    agent = game.agent(3)
    game.serve(agent, np.tile([1.0, 0.0], (10, 1)), -1)
    V = agent.cov.matrix()
    shorter = int((np.asarray(agent.select_action(game.bank))[:, 0] == 1).sum())
    inverse = np.linalg.inv(V)
    assert game.lengths[shorter] == pytest.approx(np.sqrt(inverse[0, 0] / inverse[1, 1]), rel=0.02)
    assert isinstance(game.env, gym.Env)
