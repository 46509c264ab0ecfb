"""Many canaries in one run: bounds that hold however guesses hang together, and find what is there."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator
from privbandit_agents.audits.bounds.means import lower_mean
from privbandit_agents.audits.canaries import bound_of_runs, most_moved, rho_of
from privbandit_agents.audits.claims import Claim, Floats, Game
from privbandit_agents.audits.linear import ArmGame, BlockGame, CounterGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.power import power, power_of_less_noise
from privbandit_agents.audits.registry import games
from privbandit_agents.privacy.mechanisms.counters import Counter
from scipy.special import ndtr

MU, CANARIES = 0.5, 24
Guesses = Callable[[Floats, Generator], Floats]


def signs(shown: Floats, rng: Generator) -> Floats:
    return np.sign(shown)


def boldest(shown: Floats, rng: Generator) -> Floats:
    """Guess half of the canaries, those that show most; abstain from the others."""
    return np.sign(shown) * (np.abs(shown) >= np.median(np.abs(shown), axis=-1, keepdims=True))


def together(shown: Floats, rng: Generator) -> Floats:
    """Guess like the majority: a greedy adversary, whose guesses of a run stand or fall together."""
    return np.repeat(np.sign(shown.sum(axis=-1, keepdims=True) + 0.5), shown.shape[-1], axis=-1)


def random(shown: Floats, rng: Generator) -> Floats:
    return rng.choice([-1.0, 1.0], shown.shape)


class Ideal(Game):
    """An ideal Gaussian mechanism: it shows coin mu / 2 + noise of each canary, and nothing else."""

    name, canaries, pair, statistics = "ideal", CANARIES, "a coin", ("share",)

    def __init__(self, mu: float, guesses: Guesses = signs) -> None:
        self.claim = Claim(1.0, 1e-5, mu**2 / 2, gaussian_type=False)
        self.mu, self.guesses = mu, guesses

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        coins = rng.choice([-1.0, 1.0], (runs, CANARIES))
        shown = coins * self.mu / 2 + rng.standard_normal(coins.shape)
        right = self.guesses(shown, rng) * coins
        return np.asarray(((1 + right.mean(axis=1)) / 2)[:, None])


class Twins(Ideal):
    """The same played twice with one noise and all coins turned; guesses are bold where scores are large."""

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        coins = rng.choice([-1.0, 1.0], (runs, CANARIES))
        noise = rng.standard_normal(coins.shape)
        guesses = np.clip([noise + side * coins * self.mu / 2 for side in (1, -1)], -1, 1)
        right = ((guesses[0] - guesses[1]) * coins).mean(axis=1) / 2
        return np.column_stack([(1 + right) / 2, (guesses**2).mean(axis=(0, 2))])


class TwoWorlds(Game):
    """Gaussian noise on 0 or on mu."""

    name, pair, statistics = "two worlds", "0 or mu", ("what is shown",)

    def __init__(self, mu: float) -> None:
        self.claim, self.mu = Claim(1.0, 1e-5, mu**2 / 2), mu

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        return self.mu * world + rng.standard_normal((runs, 1))


class Bursts(Ideal):
    """It shows all coins of a run with probability delta, and else none: (0, delta)-DP, and no better."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.claim = Claim(0.0, 0.2)

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        return np.where(rng.random((runs, 1)) < 0.2, 1.0, super().play(world, runs, rng))


@pytest.mark.parametrize(
    "game", [Bursts(), Twins(MU), Twins(1.0), *(Ideal(MU, guesses) for guesses in (signs, boldest, together, random))]
)
def test_an_honest_mechanism_is_accused_at_most_at_the_stated_rate(game: Game) -> None:
    """200 audits at 90 %, each of 40 runs: more than 36 accusations have probability 0.0002 at a rate of 10 %."""
    rng = np.random.default_rng(0)
    assert sum(audit(game, 40, rng, 0.9).refuted for _ in range(200)) <= 36


@pytest.mark.parametrize("mu", [0.12, 0.25, 0.5])
def test_noise_that_twins_share_is_no_obstacle(mu: float) -> None:
    """At 99.9 %, 1500 runs refute noise / 1.25; twice as many without twins do not, where the claim is small."""
    rng = np.random.default_rng(0)
    less, alone = Twins(1.25 * mu), Ideal(1.25 * mu)
    less.claim = alone.claim = Twins(mu).claim
    assert audit(less, 1500, rng, 0.999).refuted and not audit(Twins(mu), 1500, rng, 0.999).refuted
    assert mu > 0.2 or not audit(alone, 3000, rng, 0.999).refuted


@pytest.mark.parametrize("runs", [40, 400])
def test_the_stated_rate_is_not_far_from_the_true_one(runs: int) -> None:
    """A mean one and a half standard errors of the bound's size above the claim is found more often than not."""
    mean = ndtr(MU / 2)
    more = 3.5 * np.sqrt(mean * (1 - mean) / (CANARIES * runs))
    shares = np.random.default_rng(0).binomial(CANARIES, mean + more, size=(50, runs)) / CANARIES
    assert sum(lower_mean(row, 0.1) > mean for row in shares) >= (30 if runs == 40 else 42)


def test_a_lower_bound_of_a_mean_holds_for_values_that_depend_on_what_was_before() -> None:
    """A fair martingale that doubles its stakes after losses: at 90 %, at most 36 of 200 bounds exceed the mean."""
    rng, failures = np.random.default_rng(0), 0
    for _ in range(200):
        stake, values = 0.01, []
        for _ in range(60):
            up = rng.random() < 0.5
            values.append(0.5 + stake if up else 0.5 - stake)
            stake = 0.01 if up else min(2 * stake, 0.5)
        failures += lower_mean(np.array(values), 0.1) > 0.5
    assert failures <= 36


@pytest.mark.parametrize("made", [1.0, 0.2])
@pytest.mark.parametrize("claim", [Claim(1.0), Claim(1.0, 0.01), Claim(1.0, 1e-5, 0.03, gaussian_type=False)])
def test_guesses_a_little_better_than_a_claim_allows_refute_it(claim: Claim, made: float) -> None:
    """Of runs that are all alike: randomized response attains what is allowed, whether all guesses are made or few."""
    right = made * (np.e + claim.delta / made) / (np.e + 1)
    if claim.rho is not None:  # 2 t atanh t = rho
        right = made * (1 + np.sqrt(claim.rho / 2) / np.sqrt(made)) / 2
    for more, refuted in ((0.05 * made, True), (-0.01 * made, False)):
        share = (1 + 2 * (right + more) - made) / 2
        runs = np.tile([share, made, made], (20_000, 1))
        assert claim.refuted_by(*bound_of_runs(claim, runs, 0.05)) == refuted


@pytest.mark.parametrize("abstain", [0.0, 0.9])
def test_bounds_of_guesses_that_abstain_hold_as_often_as_is_said(abstain: float) -> None:
    """Randomized response at epsilon = 1, of whose guesses a share is not made: at most 36 of 200 at 90 % are wrong."""
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        made = rng.random((200, CANARIES)) >= abstain
        right = np.where(rng.random(made.shape) < np.e / (1 + np.e), 1.0, -1.0) * made
        runs = np.column_stack([(1 + right.mean(axis=1)) / 2, made.mean(axis=1), made.mean(axis=1)])
        found.append(bound_of_runs(Claim(1.0), runs, 0.1)[0])
    assert sum(bound > 1 for bound in found) <= 36 and np.median(found) > 0.6


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_the_best_guesses_of_a_gaussian_show_nearly_all_of_it_and_no_guesses_show_more(mu: float) -> None:
    """The divergence by numbers: tanh attains what Gaussian noise can show, signs and clipped scores stay below it."""
    rho, z = mu**2 / 2, np.linspace(-12, 12, 200_001)
    weights = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    shown, found = mu / 2 + z, []  # for a coin of 1; guesses are odd functions of it
    for guess in (
        np.tanh(mu * shown / 2),
        0.3 * np.tanh(mu * shown / 2),
        np.clip(shown, -1, 1),
        np.sign(shown),
        np.sign(shown) * (np.abs(shown) > 1),
    ):
        moved, square = float(guess @ weights), float(guess**2 @ weights)
        found.append(rho_of(moved, square))
        assert most_moved(found[-1], square) == pytest.approx(moved, rel=1e-3)
    assert found[0] == pytest.approx(found[1], rel=1e-6) and max(found[2:]) <= found[0] <= rho
    assert found[0] > {0.1: 0.99, 0.5: 0.95, 1.0: 0.87, 3.0: 0.5}[mu] * rho
    assert rho_of(0.0, 0.5) == pytest.approx(0.0, abs=1e-9)


def test_two_coins_show_all_of_rho() -> None:
    """Randomized response with error q: its guesses are right by t = 1 - 2q, and 2 t atanh t is its divergence."""
    t = 0.4
    p, q = (1 + t) / 2, (1 - t) / 2
    assert rho_of(t, 1.0) == pytest.approx(p * np.log(p / q) + q * np.log(q / p))


def test_power_says_how_often_more_is_found() -> None:
    rng = np.random.default_rng(0)
    assert power(Ideal(MU).claim, Ideal(MU), 40, rng, 0.95) <= 0.1
    assert power(Ideal(MU).claim, Ideal(2 * MU), 80, rng, 0.95) >= 0.9


@pytest.mark.wide
def test_a_canary_s_own_coin_is_no_help_to_its_guess() -> None:
    """Whatever ``covers`` says on its diagonal; what others add to a score is taken away."""
    game, quiet = (CounterGame("jdp-linucb", {"epsilon": epsilon}) for epsilon in (1.0, 1e6))
    fair, added = game.play(0, 1, np.random.default_rng(0)), game.covers
    assert added is not None
    game.covers = added + 1e9 * np.eye(game.canaries)
    assert np.array_equal(fair, game.play(0, 1, np.random.default_rng(0)))
    told = quiet.scores(quiet.served(quiet.agent(0), np.ones(quiet.canaries)))
    assert np.allclose(told, added.sum(axis=1), rtol=0.05)
    assert (quiet.play(0, 3, np.random.default_rng(0)) == 1).all()
    quiet.covers = -4 * added
    assert (quiet.play(0, 3, np.random.default_rng(0)) < 1).any()


@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_an_audit_s_own_runs_tell_what_less_noise_would_show(factor: float) -> None:
    """As often as runs of the ideal mechanism with that much less noise do, on average, for canaries and two worlds."""
    rng, told, played = np.random.default_rng(0), list[float](), list[float]()
    for _ in range(10):
        for game, runs, kind in ((Ideal(MU), 40, Ideal), (TwoWorlds(MU), 400, TwoWorlds)):
            found = power_of_less_noise(audit(game, runs, rng, 0.95), factor, rng, repeats=20)
            truth = kind(game.claim.nearer(factor) * MU)
            told.append(-1.0 if found is None else found)
            played.append(power(game.claim, truth, runs, rng, 0.95, repeats=5))
    assert min(told) >= 0 and np.mean(told) == pytest.approx(np.mean(played), abs=0.2)


def test_a_claim_of_no_noise_says_nothing_of_less_noise() -> None:
    game = TwoWorlds(MU)
    game.claim = Claim(1.0)
    assert power_of_less_noise(audit(game, 40, np.random.default_rng(0)), 2.0, np.random.default_rng(0)) is None


@pytest.mark.parametrize("kind", [CounterGame, BlockGame])
@pytest.mark.wide
def test_jdp_linucb_keeps_its_promise_and_seven_tenths_of_its_noise_does_not(
    kind: type[CounterGame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """160 runs of 32 canaries, at epsilon = 4 and 95 %; of what a canary may tell little is lost on the way."""
    game = kind("jdp-linucb", {"epsilon": 4.0})
    found = audit(game, 160, np.random.default_rng(0), 0.95)
    assert not found.refuted and found.rho_bound is not None and found.rho_bound > 0.25
    honest = Counter._drawn
    monkeypatch.setattr(Counter, "_drawn", lambda self: 0.7 * honest(self))
    assert audit(game, 160, np.random.default_rng(0), 0.95).refuted


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.wide
def test_a_record_that_changes_blocks_needs_noise_in_both(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the noise in one of the two blocks is found; with all of it at most a quarter of rho is seen."""
    game = ArmGame("jdp-linucb", {"epsilon": 4.0})
    found = audit(game, 160, np.random.default_rng(0), 0.95)
    assert not found.refuted and found.rho_bound is not None and found.rho_bound > 0.04
    honest, part = Counter._drawn, np.ones(game.agent(0).counter.dim)
    part.reshape(2, -1)[block] = 0.1
    monkeypatch.setattr(Counter, "_drawn", lambda self: part * honest(self))
    quiet = ArmGame("jdp-linucb", {"epsilon": 4.0})  # pilot runs see how little the scores scatter
    assert audit(quiet, 160, np.random.default_rng(0), 0.95).refuted


def test_an_agent_may_have_several_games() -> None:
    titles = {name: [game.title for game in games(name, 1.0)] for name in ("jdp-linucb", "newton-mnl", "dpmnl", "grr")}
    assert titles == {
        "jdp-linucb": [
            "jdp-linucb, rewards",
            "jdp-linucb, rewards in the blocks of two arms",
            "jdp-linucb, the arm whose block has a record",
        ],
        "newton-mnl": ["newton-mnl, gradients", "newton-mnl, Hessians"],
        "dpmnl": ["dpmnl, Gram matrix", "dpmnl, PrivateMLE"],
        "grr": ["grr"],
    }
