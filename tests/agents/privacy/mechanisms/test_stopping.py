import math
from typing import Any, cast

import numpy as np
import pytest
from numpy.random import Generator
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.mechanisms import Request, selection
from privbandit_agents.privacy import Ledger, PrivacyBudgetExceeded, private_selection
from privbandit_agents.privacy.mechanisms.stopping import share_of


def density(q: np.ndarray, gamma: float) -> np.ndarray:
    """Return the law of the selected result, given that of one run, by increasing score."""
    upper = np.cumsum(q[::-1])[::-1]
    above = upper - q
    return np.asarray(gamma * q / ((gamma + (1 - gamma) * above) * (gamma + (1 - gamma) * upper)))


@pytest.mark.wide
def test_the_selected_result_has_the_law_of_the_proof() -> None:
    q, rng = np.array([0.5, 0.3, 0.2]), np.random.default_rng(0)

    def run(setting: int, epsilon: float, delta: float, rng: Generator) -> tuple[float, Any]:
        return float(rng.choice(3, p=q)), None

    found = np.array([private_selection([0, 1], run, 1.0, runs=4, rng=rng).score for _ in range(3000)])
    law = density(q, 0.25)
    assert law.sum() == pytest.approx(1)
    for score in range(3):
        assert abs((found == score).mean() - law[score]) < 5 * math.sqrt(law[score] / 3000)


@pytest.mark.wide
def test_secure_settings_and_coins_have_the_law_of_the_proof_and_no_seed() -> None:
    """Runs get a generator with a key of its own; nothing is drawn from the one that was passed in."""
    q, keys = np.array([0.5, 0.3, 0.2]), list[int]()

    class Unused:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"numpy's generator was asked for {name}")

    def run(setting: int, epsilon: float, delta: float, rng: Generator) -> tuple[float, Any]:
        keys.append(int(rng.integers(2**63)))
        return float(setting), None

    settings, unused = [0, 0, 0, 0, 0, 1, 1, 1, 2, 2], cast(Generator, Unused())
    kept = [private_selection(settings, run, 1.0, runs=4, rng=unused, noise="secure").score for _ in range(3000)]
    seen = np.bincount(np.array(kept, int), minlength=3) / 3000
    assert np.abs(seen - density(q, 0.25)).max() < 5 * math.sqrt(0.25 / 3000)
    assert len(set(keys)) == len(keys) and abs(len(keys) / 3000 - 4) < 5 * math.sqrt(12 / 3000)
    with pytest.raises(ValueError, match="noise must be one of"):
        private_selection([0], run, 1.0, noise="opendp")


@pytest.mark.parametrize("gamma", [1.0, 0.3, 0.01, 1e-4])
def test_no_pair_of_runs_passes_three_epsilon_and_some_come_near(gamma: float) -> None:
    rng, epsilon, worst = np.random.default_rng(1), 0.5, 0.0
    for trial in range(400):
        q = rng.dirichlet(np.ones(4)) if trial else np.array([0.2, 0.1, 0.1, 0.6])
        tilt = np.exp(epsilon / 2 * rng.choice([-1, 1], 4)) if trial else np.exp(epsilon * np.array([0, 0, 1, 0]))
        other = q * tilt
        other /= other.sum()
        apart = np.abs(np.log(other / q)).max()
        if apart < 1e-6:
            continue
        ratio = np.abs(np.log(density(other, gamma) / density(q, gamma))).max()
        assert ratio <= 3 * apart + 1e-9
        worst = max(worst, ratio / apart)
    assert worst > (1.5 if gamma < 0.1 else 0.9)


@pytest.mark.wide
def test_equal_scores_do_not_favour_an_output() -> None:
    rng = np.random.default_rng(2)
    found = [private_selection([0, 1], lambda s, e, d, r: (1.0, s), 1.0, runs=9, rng=rng).output for _ in range(3000)]
    assert abs(np.mean(found) - 0.5) < 5 * 0.5 / math.sqrt(3000)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 9.0, 900.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_shares_of_runs_make_up_the_whole(epsilon: float, delta: float) -> None:
    one, part = share_of(epsilon, delta, 20.0)
    assert 3 * one == pytest.approx(epsilon)
    assert part * 20 == pytest.approx(delta)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("runs", [1.0, 5.0, 40.0])
def test_runs_that_leak_stay_within_delta_and_half_the_share_would_be_wasted(epsilon: float, runs: float) -> None:
    """Runs leak their record with the best score, and else answer at random: the exact delta of what is selected."""
    delta, rng = 0.01, np.random.default_rng(3)
    one, part = share_of(epsilon, delta, runs)
    worst = 0.0
    for trial in range(200):
        q = rng.dirichlet(np.ones(3)) if trial else np.array([0.2, 0.1, 0.7])
        tilted = q * np.exp(one / 2 * rng.choice([-1, 1], 3))
        other = tilted / tilted.sum()
        if np.abs(np.log(other / q)).max() > one:
            continue
        place = 3 if trial % 2 else 0  # the leak has the best score, or the worst
        laws = [np.insert((1 - part) * law, place, [part, 0.0][:: 1 - 2 * at]) for at, law in enumerate((q, other))]
        found, against = (density(law, 1 / runs) for law in laws)
        worst = max(worst, float(np.maximum(found - math.exp(epsilon) * against, 0).sum()))
    assert 0.5 * delta <= worst <= delta * (1 + 1e-9)


def test_the_ledger_pays_once_before_anything_runs() -> None:
    ledger, calls = Ledger(1.0), []

    def run(setting: int, epsilon: float, delta: float, rng: Generator) -> tuple[float, Any]:
        calls.append(epsilon)
        return math.nan, setting

    found = private_selection([5], run, 0.9, runs=5, ledger=ledger, rng=np.random.default_rng(0))
    assert found.setting == 5 and found.score == -math.inf and set(calls) == {0.3}
    assert ledger.spent_epsilon() == pytest.approx(0.9)
    before = len(calls)
    with pytest.raises(PrivacyBudgetExceeded):
        private_selection([5], run, 0.9, ledger=ledger)
    assert len(calls) == before


@pytest.mark.parametrize("wrong", [{"settings": []}, {"epsilon": 0}, {"delta": 1.0}, {"runs": 0.5}, {"runs": math.inf}])
def test_bad_parameters_are_refused(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"settings": [1], "epsilon": 1.0, **wrong}
    with pytest.raises(ValueError, match="must"):
        private_selection(run=lambda *_: (0.0, None), **given)


@pytest.mark.parametrize(("naive", "refuted"), [(False, False), (True, True)])
@pytest.mark.wide
def test_the_audit_refutes_who_does_not_count_the_runs(naive: bool, refuted: bool) -> None:
    game = selection(Request(1.0, 1e-5), naive)
    game.name = "private-selection"
    assert audit(game, 2000, np.random.default_rng(0)).refuted == refuted
