"""The bet of all audits: it accuses honest laws as seldom as is said, and finds a little more than is promised."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator
from privbandit_agents.audits.bounds.bets import Bet, Guess, choose
from privbandit_agents.audits.claims import Claim, Floats, Game, shown_rho, tilt
from privbandit_agents.audits.lower_bounds import audit, power, power_of_less_noise
from privbandit_agents.privacy.accounting.conversions import gaussian_mu

Law = Callable[[int, int, Generator], Floats]
Scores = Callable[[Floats, Generator], Floats]


class Released(Game):
    """What a law releases in two worlds."""

    name, pair, statistics = "a law", "0 or 1", ("what is released",)

    def __init__(self, claim: Claim, law: Law) -> None:
        self.claim, self.law = claim, law

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        return np.asarray(self.law(world, runs, rng), np.float64).reshape(runs, 1)


class Canaries(Game):
    """Scores of 8 coins (n, 8), which both worlds draw with equal generators, all coins turned in world 1."""

    name, canaries, pair, statistics, pilot = "canaries", 8, "a coin", ("score",), 100

    def __init__(self, claim: Claim, scores: Scores) -> None:
        self.claim, self.scores = claim, scores

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        coins = rng.choice([-1.0, 1.0], (runs, self.canaries))
        return coins * self.scores((1 - 2 * world) * coins, rng)


def response(epsilon: float) -> Law:
    def law(world: int, runs: int, rng: Generator) -> Floats:
        return np.asarray(np.abs(world - 1.0 * (rng.random(runs) > 1 / (1 + math.exp(-epsilon)))))

    return law


def laplace(epsilon: float) -> Law:
    return lambda world, runs, rng: world + rng.laplace(scale=1 / epsilon, size=runs)


def gaussian(mu: float) -> Law:
    return lambda world, runs, rng: world * mu + rng.standard_normal(runs)


def coins_of(rho: float) -> Law:
    """Return a coin whose two sides have the divergence rho, which two coins of opposite bias attain."""
    return lambda world, runs, rng: np.abs(world - 1.0 * (rng.random(runs) > (1 + tilt(rho)) / 2))


def leak(delta: float) -> Law:
    return lambda world, runs, rng: np.where(rng.random(runs) < delta, 1.0 - 2 * world, 0.0)


def of_gaussian(mu: float) -> Scores:
    return lambda coins, rng: mu / 2 * coins + rng.standard_normal(coins.shape)


def of_laplace(epsilon: float) -> Scores:
    return lambda coins, rng: coins / 2 + rng.laplace(scale=1 / epsilon, size=coins.shape)


def all_by_one(epsilon: float) -> Scores:
    """One lie for all canaries of a run: their guesses stand or fall together."""
    return lambda coins, rng: coins * np.where(rng.random((len(coins), 1)) < 1 / (1 + math.exp(-epsilon)), 1, -1)


MU = gaussian_mu(1.0, 1e-5)
PAIRS: dict[str, Callable[[float], tuple[Claim, Game]]] = {
    "randomized response": lambda k: (Claim(1.0), Released(Claim(1.0), response(k))),
    "Laplace": lambda k: (Claim(1.0), Released(Claim(1.0), laplace(k))),
    "Laplace with delta": lambda k: (Claim(1.0, 1e-5), Released(Claim(1.0, 1e-5), laplace(k))),
    "leak": lambda k: (Claim(0.0, 0.02), Released(Claim(0.0, 0.02), leak(0.02 * (2 * k - 1)))),
    "Gaussian": lambda k: (Claim(1.0, 1e-5, MU**2 / 2), Released(Claim(1.0, 1e-5, MU**2 / 2), gaussian(k * MU))),
    "coin of rho": lambda k: (Claim(1.0, 1e-5, 0.5), Released(Claim(1.0, 1e-5, 0.5), coins_of(0.5 * k**2))),
    "Gaussian canaries": lambda k: (Claim(1.0, 1e-5, 0.5), Canaries(Claim(1.0, 1e-5, 0.5), of_gaussian(k))),
    "Laplace canaries": lambda k: (Claim(1.0), Canaries(Claim(1.0), of_laplace(k))),
    "canaries of one coin": lambda k: (Claim(1.0), Canaries(Claim(1.0), all_by_one(k))),
}


def game_of(name: str, factor: float) -> Game:
    return PAIRS[name](factor)[1]


@pytest.mark.wide
@pytest.mark.parametrize("name", PAIRS)
def test_an_honest_law_is_accused_at_most_at_the_stated_rate(name: str) -> None:
    """200 audits at 90 %, each of 60 runs: more than 36 accusations have probability 0.0002 at a rate of 10 %."""
    rng, game = np.random.default_rng(0), game_of(name, 1.0)
    assert sum(audit(game, 60, rng, 0.9, pilot=60).refuted for _ in range(200)) <= 36


@pytest.mark.parametrize("name", PAIRS)
def test_a_quarter_more_is_refuted_and_the_claim_itself_is_not(name: str) -> None:
    """At 99.9 %: honest audits are refuted once in a thousand."""
    runs = {"leak": 60_000, "coin of rho": 6000, "canaries of one coin": 4000, "Laplace canaries": 2000}.get(name, 8000)
    honest, more = (audit(game_of(name, k), runs, np.random.default_rng(1), 0.999) for k in (1.0, 1.25))
    assert more.refuted and not honest.refuted
    assert honest.bound > (0.7 * honest.claim.level if honest.claim.level else -1)


@pytest.mark.wide
def test_canaries_with_laplace_noise_show_95_hundredths_of_epsilon_in_2000_runs() -> None:
    """In the median of 15 audits at 99.9 %, none of which shows more than there is."""
    game = game_of("Laplace canaries", 1.0)
    found = [audit(game, 2000, np.random.default_rng(seed), 0.999).bound for seed in range(15)]
    assert np.median(found) >= 0.95 and max(found) <= 1.0


@pytest.mark.parametrize("mu", [0.12, 0.25, 0.5])
def test_noise_that_both_worlds_share_is_no_obstacle(mu: float) -> None:
    """1500 runs show nearly all of rho; 3000 of runs that are played apart do not refute a fifth less noise."""
    claim = Claim(1.0, 1e-5, mu**2 / 2)
    shown = audit(Canaries(claim, of_gaussian(mu)), 1500, np.random.default_rng(0), 0.999)
    assert 0.8 < shown.share <= 1.0

    class Apart(Canaries):
        def play(self, world: int, runs: int, rng: Generator) -> Floats:
            rng.random(world)  # out of step
            return super().play(world, runs, rng)

    apart = audit(Apart(claim, of_gaussian(1.25 * mu)), 3000, np.random.default_rng(0), 0.999)
    assert not apart.bet.together and (mu > 0.2 or not apart.refuted)
    assert audit(Canaries(claim, of_gaussian(1.25 * mu)), 1500, np.random.default_rng(0), 0.999).refuted


@pytest.mark.parametrize("claim", [Claim(1.0), Claim(1.0, 0.05), Claim(1.0, 1e-5, 0.03)])
@pytest.mark.parametrize("made", [1.0, 0.2])
def test_what_a_claim_allows_is_worth_nothing_and_more_is_worth_something(claim: Claim, made: float) -> None:
    """Two coins attain what is allowed, whether all guesses are made or few."""
    right = (made * math.exp(1.0) + claim.delta) / (1 + math.exp(1.0))
    if claim.rho is not None:
        right = (made + tilt(claim.rho) * math.sqrt(made)) / 2
    told = np.array([[right, made - right, made], [right + 0.01, made - right - 0.01, made]])
    attained, more = claim.worth(told, claim.level, math.sqrt(made), 1.0)
    assert attained == pytest.approx(0.0, abs=1e-9) and more > 0.01


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_no_guess_of_a_gaussian_is_worth_anything_at_its_rho_and_graded_ones_nearly_are(mu: float) -> None:
    """By numerical integration: tanh shows .99 to .5 of rho, and signs, clipped scores and bold guesses less."""
    z = np.linspace(-12, 12, 200_001)
    weights, shown, found = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum(), mu / 2 + z, []
    bold = np.sign(shown) * (np.abs(shown) > 1)
    for guess in (np.tanh(mu * shown / 2), np.clip(shown, -1, 1), np.sign(shown), bold):
        moved, square = float(guess @ weights), float(guess**2 @ weights)
        found.append(shown_rho(moved / math.sqrt(square)))
        told = np.array([[max(moved, 0), max(-moved, 0), square]])
        for lean in (0.1, math.sqrt(square), 2.0):
            assert Claim(1.0, 0.0, mu**2 / 2).worth(told, mu**2 / 2, lean, 1.0)[0] <= 1e-9
    assert max(found[1:]) <= found[0] <= mu**2 / 2
    assert found[0] > {0.1: 0.99, 0.5: 0.95, 1.0: 0.87, 3.0: 0.5}[mu] * mu**2 / 2


def test_the_tilt_is_that_of_two_coins() -> None:
    t = 0.4
    p, q = (1 + t) / 2, (1 - t) / 2
    rho = p * np.log(p / q) + q * np.log(q / p)
    assert shown_rho(t) == pytest.approx(rho) and tilt(rho) == pytest.approx(t)
    assert tilt(0.0) == 0.0 and tilt(1e3) < 1 and tilt(math.inf) < 1


def test_a_bound_holds_for_runs_that_depend_on_what_was_before() -> None:
    """A fair martingale whose stakes double after losses: at 90 %, at most 36 of 200 bounds are above epsilon 0."""
    rng, bet, failures = np.random.default_rng(0), Bet(Claim(0.0), Guess(0, 1, -1.0, 1.0), np.zeros((1, 3))), 0
    for _ in range(200):
        size, told = 0.02, []
        for _ in range(60):
            won = rng.random() < 0.5
            told.append([size * won, size * (not won), size])
            size = 0.02 if won else min(2 * size, 1.0)
        failures += bet.bound(np.array(told), 0.1) > 0
    assert failures <= 36


CLAIMS = st.sampled_from([Claim(1.0), Claim(0.5, 0.01), Claim(1.0, 1e-5, 0.1)])


@pytest.mark.wide
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.001, 0.5), CLAIMS)
def test_less_is_shown_at_a_smaller_error_and_by_worse_guesses(seed: int, alpha: float, claim: Claim) -> None:
    rng = np.random.default_rng(seed)
    grades = np.where(rng.random((300, 2)) < 0.8, 1.0, -1.0) * (rng.random((300, 2)) < 0.7)
    told = np.stack([np.maximum(grades, 0).mean(1), np.maximum(-grades, 0).mean(1), (grades**2).mean(1)], axis=1)
    bet = Bet(claim, Guess(0, 1, -1.0, 1.0), told)
    surer, found = bet.bound(told, alpha / 10), bet.bound(told, alpha)
    stakes = bet.stakes(told, alpha)
    levels = [bet.refutes(told, stakes, level, alpha) for level in np.linspace(0, 5, 11)]
    assert surer <= found + 1e-5 and levels == sorted(levels, reverse=True)


def test_a_value_that_some_runs_of_one_world_have_is_an_event() -> None:
    """A tenth of the runs says -1000, and all others have different numbers near 0."""
    rng = np.random.default_rng(0)
    zero, one = rng.laplace(size=(2, 2000, 1))
    one = np.where(rng.random((2000, 1)) < 0.1, -1000.0, one)
    guess = choose(Claim(1.0), (zero, one), 0.001, 2000).guess
    assert (guess.sign, guess.low, guess.high) == (1, -1000.0, math.inf)
    assert guess.words(("x",)) == "x <= -1000, likelier in world 1"


def test_guesses_of_both_tails_are_told_and_no_number_abstains() -> None:
    worlds = np.array([[3.0], [-3.0], [0.0], [np.nan]]), np.array([[3.0], [-3.0], [np.nan], [0.0]])
    told = Guess(0, 1, -2.0, 2.0).told(worlds)
    assert told.tolist() == [[0.5, 0.5, 1.0], [0.5, 0.5, 1.0], [0, 0, 0], [0, 0, 0]]
    assert Guess(0, 1, -math.inf, 2.0).told(worlds)[:2].tolist() == [[0.5, 0.5, 1.0], [0, 0, 0]]
    graded = Guess(0, -1, -1.0, 1.0, graded=True)
    assert graded(np.array([-2.0, 0.5, np.nan])).tolist() == [1.0, -0.5, 0.0]


def test_the_guess_of_a_canary_does_not_know_its_coin() -> None:
    """Worlds that draw scores of which only positive ones tell are guessed alike on both sides."""
    rng = np.random.default_rng(0)
    zero, one = 1 + np.abs(rng.standard_normal((400, 4))), np.abs(rng.standard_normal((400, 4)))
    for claim in (Claim(1.0), Claim(1.0, 1e-5, 0.1)):
        guess = choose(claim, (zero, one), 0.01, 400, canaries=4).guess
        assert guess.low == -guess.high and guess.sides == 1


def test_power_says_how_often_more_is_found() -> None:
    rng = np.random.default_rng(0)
    claim = Claim(1.0)
    assert power(claim, game_of("Laplace canaries", 1.0), 60, rng, 0.95) <= 0.1
    assert power(claim, game_of("Laplace canaries", 3.0), 60, rng, 0.95) >= 0.9
    assert power_of_less_noise(audit(game_of("Laplace", 1.0), 40, rng), 2.0, rng) is None


@pytest.mark.wide
@pytest.mark.parametrize("factor", [1.25, 2.0])
def test_an_audit_s_own_runs_tell_what_less_noise_would_show(factor: float) -> None:
    """As often as runs of the ideal mechanism with that much less noise do, on average, for canaries and two worlds."""
    rng, told, played = np.random.default_rng(0), list[float](), list[float]()
    for _ in range(10):
        for name, runs in (("Gaussian canaries", 150), ("Gaussian", 1200)):
            game = game_of(name, 1.0)
            found = power_of_less_noise(audit(game, runs, rng, 0.95), factor, rng, repeats=20)
            told.append(-1.0 if found is None else found)
            played.append(power(game.claim, game_of(name, game.claim.nearer(factor)), runs, rng, 0.95, repeats=10))
    assert min(told) >= 0 and np.mean(told) == pytest.approx(np.mean(played), abs=0.2)
