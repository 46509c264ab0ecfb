import numpy as np
import pytest
from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalGame, "pilots", 400)
    monkeypatch.setattr(LocalGame, "heats", ((4, 4000),))


@pytest.mark.parametrize("epsilon", [0.5, pytest.param(4.0, marks=pytest.mark.slow)])
@pytest.mark.wide
def test_layered_regression_keeps_its_claim_and_uses_it(epsilon: float) -> None:
    """Refuted by chance once in a thousand; at full length (100 000 runs) the bound is 0.92 of epsilon or more."""
    verdict = audit(game("lplr", epsilon), 6000, np.random.default_rng(0), confidence=0.999)
    assert not verdict.refuted and verdict.lower_bound >= 0.5 * epsilon


@pytest.mark.filterwarnings("ignore:lplr")
@pytest.mark.wide
def test_the_published_noise_is_refuted() -> None:
    epsilon = 1.0
    verdict = audit(game("lplr", epsilon, calibration="published"), 3000, np.random.default_rng(0), confidence=0.999)
    assert verdict.refuted and verdict.lower_bound > 2 * epsilon
