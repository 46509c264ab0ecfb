import numpy as np
import pytest
from given import rng
from privbandit_agents.audits.claims import Claim
from privbandit_agents.audits.games.sparse import SparseGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
@pytest.mark.wide
def test_fliphat_keeps_its_claim(epsilon: float) -> None:
    """Each of the two may be refuted by chance once in a thousand."""
    assert not audit(game("fliphat", epsilon), 100, rng(), confidence=0.999, pilot=100).refuted


@pytest.mark.parametrize("epsilon", [1.0])
@pytest.mark.filterwarnings("ignore:fliphat")
@pytest.mark.wide
def test_the_published_calibration_is_refuted_at_one_iteration(epsilon: float) -> None:
    assert audit(game("fliphat", epsilon, calibration="published"), 150, rng(), pilot=100).refuted


@pytest.mark.filterwarnings("ignore:fliphat")
@pytest.mark.parametrize(("calibration", "refuted"), [("published", True), ("correct", False)])
@pytest.mark.wide
def test_the_authors_settings_are_refuted_and_the_same_with_a_proof_are_not(calibration: str, refuted: bool) -> None:
    """x_max is that of 400 features; the audit has eleven."""
    settings = {"preset": "authors", "x_max": 3.46}
    played = game("fliphat", 1.0, calibration=calibration, config=settings)
    assert audit(played, 150, rng(), confidence=0.999, pilot=100).refuted == refuted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fliphat")
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_audits_at_full_length(epsilon: float) -> None:
    """At epsilon = 5 a refutation takes some 600 runs at least: the rarer event has probability 1/150."""
    assert audit(game("fliphat", epsilon, calibration="published"), 2000, rng(1), confidence=0.999).refuted
    verdict = audit(game("fliphat", epsilon), 4000, rng(1), confidence=0.999)
    assert not verdict.refuted and (epsilon < 5 or verdict.lower_bound > 0.2 * epsilon)


def test_the_probes_read_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise the others hold the coordinates at a fifth, and one user of 256 moves each by 1/256."""
    monkeypatch.setattr(Claim, "empty", "")
    played = SparseGame("fliphat", {"epsilon": 1e6})
    first, second = (played.play(world, 3, rng())[:, 1] for world in (0, 1))
    assert np.allclose(first - second, 2 * 10 / 256, rtol=0.1)


@pytest.mark.wide
def test_an_agent_with_a_sixth_of_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = GumbelTopK.release

    def quiet(self: GumbelTopK, *args: object) -> object:
        return original(GumbelTopK(self.k, self.beta / 6, self.sigma / 6, self.rho, self.kept), *args)  # type: ignore[arg-type]

    monkeypatch.setattr(GumbelTopK, "release", quiet)
    assert audit(game("fliphat", 1.0), 100, rng(), pilot=100).refuted


@pytest.mark.slow
def test_an_agent_with_half_the_noise_is_caught_at_epsilon_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """At epsilon 5 so many runs do not tell: their bound is 4.5."""
    original = GumbelTopK.release

    def quiet(self: GumbelTopK, *args: object) -> object:
        return original(GumbelTopK(self.k, self.beta / 2, self.sigma / 2, self.rho, self.kept), *args)  # type: ignore[arg-type]

    monkeypatch.setattr(GumbelTopK, "release", quiet)
    assert audit(game("fliphat", 1.0), 4000, rng(), confidence=0.99).refuted


@pytest.mark.slow
def test_two_equal_worlds_are_not_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of forty audits at 95 % two are expected to find a bound above 0, eight or more once in three thousand."""
    played = game("fliphat", 1.0)
    play = played.play
    monkeypatch.setattr(type(played), "play", lambda self, world, runs, rng: play(0, runs, rng))
    bounds = [audit(played, 50, rng(seed), confidence=0.95, pilot=50).lower_bound for seed in range(40)]
    assert sum(bound > 0 for bound in bounds) < 8


def test_choices_keep_their_claim_and_with_a_third_of_the_noise_they_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not audit(game("exponential-choice", 1.0), 800, rng(), confidence=0.999, pilot=200).refuted
    original = ExponentialChoice.from_rho
    monkeypatch.setattr(ExponentialChoice, "from_rho", lambda rho, D: original(9 * rho, D))
    assert audit(game("exponential-choice", 1.0), 800, rng(), confidence=0.999, pilot=200).refuted
