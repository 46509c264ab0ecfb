import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import rng
from privbandit_agents import make, play
from privbandit_agents.audits.claims import Claim, Game
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import TARGETS, game, prepared, private_agents
from privbandit_agents.privacy.accounting.conversions import gaussian_epsilon
from privbandit_agents.privacy.mechanisms.additive import Gaussian, Laplace
from privbandit_agents.privacy.mechanisms.counters import BinaryTree, BufferedToeplitz
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK, project_on_l1_ball
from privbandit_agents.privacy.mechanisms.spherical import wishart
from privbandit_agents.privacy.vectors import svec
from privbandit_agents.zoo.registry import find
from searches import largest_loss, one_run_bound, search_sensitivity

LOCAL = ("grr", "oue", "subset", "signed-subset", "bin-cap", "hemisphere", "lplr-update", "lplr-ci", "lpct-report")
ADDITIVE = ("laplace", "k-norm", "wishart-difference")
CONCENTRATED = ("gaussian", "tree", "toeplitz", "private-cov")


class Shifted(Game):
    """Laplace or Gaussian noise on 0 or on a shift."""

    name, pair = "shifted", "0 and the shift"

    def __init__(self, claim: Claim, scale: float, shift: float = 1.0, gaussian: bool = False) -> None:
        self.claim, self.scale, self.shift, self.gaussian = claim, scale, shift, gaussian

    def play(self, world: int, runs: int, rng: np.random.Generator) -> Any:
        noise = rng.standard_normal((runs, 1)) if self.gaussian else rng.laplace(size=(runs, 1))
        return self.shift * world + self.scale * noise


@pytest.mark.wide_at("claim0", "claim1", "claim2")
@pytest.mark.parametrize("claim", [Claim(1e-9), Claim(1e-9, 1e-6), Claim(1e-9, 1e-6, 1e-18)])
def test_identical_worlds_refute_nothing(claim: Claim) -> None:
    """At 95 % confidence at most 5 of 100 may; a claim of next to nothing is refuted by any bound above 0."""
    gaussian = claim.rho is not None
    refuted = sum(audit(Shifted(claim, 1.0, 0.0, gaussian), 500, rng(seed), 0.95).refuted for seed in range(100))
    assert refuted <= 5


@pytest.mark.wide_at("gaussian-*")
@pytest.mark.parametrize(
    ("played", "runs"),
    [
        (Shifted(Claim(1.0), 0.5), 140),  # Laplace, scale 2x too small
        (Shifted(Claim.gaussian(1, 0.01), 1 / (2 * math.sqrt(2 * Claim.gaussian(1, 0.01).rho)), gaussian=True), 226),  # type: ignore[operator]
        (Shifted(Claim.gaussian(1, 1e-5), 1 / (2 * math.sqrt(2 * Claim.gaussian(1, 1e-5).rho)), gaussian=True), 794),  # type: ignore[operator]
    ],
    ids=["laplace", "gaussian-0.01", "gaussian-1e-5"],
)
def test_halved_noise_is_caught(played: Game, runs: int) -> None:
    """At 90 % power; of 100 audits fewer than 80 succeed with probability 0.002 then."""
    assert sum(audit(played, runs, rng(seed), 0.95, pilot=2000).refuted for seed in range(100)) >= 80


@pytest.mark.wide
def test_a_bound_is_valid_and_close() -> None:
    bounds = [audit(Shifted(Claim(1.0), 1.0), 4000, rng(seed), 0.95).lower_bound for seed in range(60)]
    assert sum(bound > 1 for bound in bounds) <= 6 and np.median(bounds) > 0.75
    gaussian = [audit(Shifted(Claim(1.0, 1e-5, 0.5), 1.0, gaussian=True), 4000, rng(seed), 0.95) for seed in range(60)]
    assert sum(verdict.refuted for verdict in gaussian) <= 6
    assert np.median([verdict.bound for verdict in gaussian]) > 0.4


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("fliphat-peeling", "gumbel-topk")]


@pytest.mark.wide_but("hemisphere", "oue", "grr")
@pytest.mark.parametrize("name", LOCAL + ADDITIVE)
def test_pure_mechanisms_keep_their_claim_and_are_tight(name: str) -> None:
    floor = 0.85 if name in LOCAL or name == "laplace" else 0.8
    runs = 40_000 if floor == 0.85 else 100_000
    assert floor <= audit(game(name, 1.0), runs, rng(), 0.95, pilot=runs // 2).lower_bound <= 1.0


@pytest.mark.wide_at("4.0-tree", "0.5-*")
@pytest.mark.parametrize("name", [*CONCENTRATED, *SLOW, "lplr-wishart"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_other_mechanisms_keep_their_claim(name: str, epsilon: float) -> None:
    assert not audit(game(name, epsilon), 3000, rng()).refuted


@pytest.mark.wide
def test_objective_perturbation_keeps_its_claim() -> None:
    verdict = audit(game("objective-perturbation", 4.0), 2000, rng())
    assert not verdict.refuted and verdict.lower_bound > 0


@pytest.mark.wide_at("private-cov-*", "fliphat-*-2.0", "private-cov-2.0", "lplr-*-0.5")
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        ("lplr-update", 1.0),  # below, the event is too rare for runs of a test
        *((name, epsilon) for name in ("lplr-ci", "lplr-wishart") for epsilon in (0.5, 1.0)),
        *((name, epsilon) for name in ("fliphat-peeling", "private-cov") for epsilon in (1.0, 2.0)),
    ],
)
def test_published_calibrations_are_refuted(name: str, epsilon: float) -> None:
    runs = 3000 if name == "fliphat-peeling" else min(TARGETS[name].runs, 20_000 if name != "lplr-update" else 200_000)
    assert audit(game(name, epsilon, calibration="published"), runs, rng()).refuted


@pytest.mark.wide_at("objective-perturbation")
@pytest.mark.parametrize("name", ["lpct-report", "objective-perturbation"])
def test_published_calibrations_that_hold_are_not_refuted(name: str) -> None:
    runs = 20_000 if name == "lpct-report" else 1000
    assert not audit(game(name, 1.0, calibration="published"), runs, rng()).refuted


PURE = ("ldp-greedy", "ldp-sgd", "input-perturbation", "prec-ts")


@pytest.mark.parametrize("name", ["ldp-linucb", *PURE, "jdp-linucb"])
@pytest.mark.wide
def test_private_agents_keep_their_claim(name: str) -> None:
    runs = 60 if name.startswith("jdp") else 8000
    verdict = audit(game(name, 4.0), runs, rng(), pilot=runs)
    assert not verdict.refuted
    if name != "jdp-linucb":
        assert verdict.lower_bound > 0.6 * 4


@pytest.mark.wide
def test_an_agent_with_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Gaussian.from_epsilon

    def halved(epsilon: float, delta: float, sensitivity: float, noise: str) -> Gaussian:
        right = original(epsilon, delta, sensitivity)
        return Gaussian(right.sigma / 2, right.rho)

    monkeypatch.setattr(Gaussian, "from_epsilon", halved)
    assert audit(game("ldp-linucb", 2.0), 4000, rng()).refuted


@pytest.mark.wide
def test_a_joint_agent_with_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = BufferedToeplitz.__init__

    def halved(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.scale /= 2

    monkeypatch.setattr(BufferedToeplitz, "__init__", halved)
    assert audit(game("jdp-linucb", 4.0), 60, rng()).refuted


@pytest.mark.wide
def test_selection_without_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = GumbelTopK.from_rho

    def silent(*args: Any) -> GumbelTopK:
        right = original(*args)
        return GumbelTopK(right.k, right.beta * 1e-6, right.sigma, right.rho)

    monkeypatch.setattr(GumbelTopK, "from_rho", silent)
    assert audit(game("gumbel-topk", 1.0), 300, rng()).refuted


def test_zcdp_is_no_gaussian_curve() -> None:
    """Randomized response with log-ratios +-r/2 is r^2/8-zCDP: no audit of that rho refutes it."""
    r = 1.6
    claim = Claim(1.0, 1e-5, r**2 / 8)

    class Response(Shifted):
        def play(self, world: int, runs: int, rng: np.random.Generator) -> Any:
            return np.abs(world - 1.0 * (rng.random((runs, 1)) > 1 / (1 + math.exp(-r / 2))))

    assert not audit(Response(claim, 1.0), 50_000, rng(), 0.999).refuted
    gaussian = {name for name in private_agents() if find(name).load().gaussian}
    counters = {"jdp-linucb", "jdp-smooth", "sw-jdp-linucb", "reward-dp-linucb", "dp-dqn"}
    batches = {"jdp-glm", "jdp-kernel", "shuffle-glm", "shuffle-linucb", "newton-mnl"}
    assert gaussian == {"ldp-linucb", "ldp-oful", "sw-ldp-linucb", "pglm", *batches, *counters}


@pytest.mark.parametrize("name", ["lplr-update", "lplr-ci", "lplr-wishart"])
def test_published_calibrations_are_audited_where_they_are_defined(name: str) -> None:
    with pytest.raises(ValueError, match=r"the paper defines epsilon in \(0, 1\]; got 2"):
        game(name, 2.0, calibration="published")


def test_the_l1_projection_is_the_nearest_point() -> None:
    generator = rng(3)
    for _ in range(50):
        vector = generator.standard_normal(6) * 2
        nearest = project_on_l1_ball(vector, 1.0)
        assert np.abs(nearest).sum() <= 1 + 1e-12
        for _ in range(20):
            other = generator.standard_normal(6)
            other *= generator.random() / np.abs(other).sum()
            assert np.linalg.norm(vector - nearest) <= np.linalg.norm(vector - other) + 1e-12
    inside = np.array([0.2, -0.3])
    assert np.array_equal(project_on_l1_ball(inside, 1.0), inside)


def test_every_private_agent_and_mechanism_is_a_target() -> None:
    assert {"ldp-linucb", "ldp-greedy", "jdp-linucb"} <= set(private_agents())
    assert set(LOCAL) | set(ADDITIVE) | set(CONCENTRATED) <= set(TARGETS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("laplase", 1.0), "did you mean 'laplace'?"),
        (("laplace", 1.0, None, "published"), "laplace has no published calibration"),
        (("jdp-linucb", 1.0, None, "published"), "jdp-linucb has no published calibration"),
        (("laplace", -1.0), "epsilon must be > 0; got -1.0"),
        (("laplace", math.inf), "epsilon must be a finite number; got inf"),
        (("gaussian", 1.0, 2.0), "delta must lie in (0, 1); got 2.0"),
    ],
)
def test_bad_requests_get_one_sentence(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError) as error:
        next(prepared(*arguments))
    assert message in str(error.value)


@pytest.mark.wide
def test_one_run_bounds_are_valid_and_useful() -> None:
    epsilon, guesses = 1.5, 1000
    right = rng(1).binomial(guesses, 1 / (1 + math.exp(-epsilon)), size=200)
    found = {int(r): one_run_bound(guesses, int(r)) for r in set(right)}
    bounds = [found[int(r)] for r in right]
    assert sum(bound > epsilon for bound in bounds) <= 16  # 5 % of 200, three standard errors
    assert np.median(bounds) > 1.3
    assert one_run_bound(100, 50) == 0 and one_run_bound(100, 100) > 3
    assert one_run_bound(1000, 850, delta=1e-6) < one_run_bound(1000, 850)
    assert one_run_bound(1500, 1350, delta=1e-5, canaries=5000) == pytest.approx(2.052, abs=2e-3)
    assert one_run_bound(300, 270, delta=1e-4, canaries=1000) == pytest.approx(1.854, abs=2e-3)
    with pytest.raises(ValueError, match="right must lie in"):
        one_run_bound(10, 11)


def test_one_run_audits_a_counter() -> None:
    """Canaries in coordinates of their own, in or out by a coin; the last release is thresholded."""
    generator, canaries = rng(2), 512
    included = generator.random(canaries) < 0.5
    for shrink, caught in ((1.0, False), (30.0, True)):
        rho = 0.01
        counter = BinaryTree(canaries, canaries, 1.0, rho * shrink**2, generator)
        for canary in range(canaries):
            released = counter.add(np.eye(canaries)[canary] * included[canary])
        guessed = np.abs(released - 0.5) > np.quantile(np.abs(released - 0.5), 0.7)
        right = int(((released > 0.5) == included)[guessed].sum())
        bound = one_run_bound(int(guessed.sum()), right, delta=1e-6, canaries=canaries)
        assert (bound > gaussian_epsilon(mu=math.sqrt(2 * 0.01), delta=1e-6)) == caught


def test_sensitivity_searches_find_what_is_there() -> None:
    pairs = [(np.array([1.0, 0]), np.array([-1.0, 0]))]
    found = search_sensitivity(lambda x: x, lambda g: g.uniform(-1, 1, 2) / 2, pairs, 2.0, rng())
    assert found.attained == found.observed == 2.0 and not found.exceeded
    assert search_sensitivity(lambda x: 2 * x, lambda g: g.uniform(-1, 1, 2), pairs, 2.0, rng()).exceeded


def test_losses_are_bounded_for_laplace_noise_and_infinite_for_a_wishart_matrix() -> None:
    mechanism = Laplace.from_epsilon(0.7, 1.0)
    values = np.zeros(1), np.ones(1)
    samples = [mechanism.release(np.tile(value, (500, 1)), rng()) for value in values]
    assert largest_loss(lambda s, w: mechanism.log_density(s, values[w]), samples) == pytest.approx(0.7)

    def log_wishart(z: Any, world: int) -> Any:
        noise = z - world * np.diag([1.0, 0.0])
        inside = np.linalg.eigvalsh(noise)[:, 0] >= 0
        return np.where(inside, -np.trace(noise, axis1=1, axis2=2) / 2, -math.inf)

    assert largest_loss(log_wishart, [wishart(rng(), 2, 3, 1.0, (200,))]) == math.inf


@pytest.mark.parametrize("capacity", [1, 4, 10])
def test_the_gram_matrix_of_an_assortment_has_sensitivity_root_two_k(capacity: int) -> None:
    """Attained by K copies of e1 against K copies of e2, which the published sqrt(2 K) is not."""

    def gram(items: Any) -> Any:
        return svec(items.T @ items)

    def draw(generator: np.random.Generator) -> Any:
        items = generator.standard_normal((capacity, 3))
        return items / np.linalg.norm(items, axis=1, keepdims=True)

    named = [tuple(np.tile(np.eye(3)[axis], (capacity, 1)) for axis in (0, 1))]
    found = search_sensitivity(gram, draw, named, math.sqrt(2) * capacity, rng())  # type: ignore[arg-type]
    assert found.attained == pytest.approx(math.sqrt(2) * capacity) and not found.exceeded
    assert capacity == 1 or found.attained > math.sqrt(2 * capacity) * (1 + 1e-9)


def test_a_step_of_hard_thresholding_has_four_times_x_max_the_published_sensitivity() -> None:
    x_max, reward, radius, d = 2.0, 3.0, 1.0, 6
    theta = radius * np.eye(d)[0]

    def step(record: Any) -> Any:
        return 2 * record[0] * (record[1] - record[0] @ theta)

    def draw(generator: np.random.Generator) -> Any:
        return generator.uniform(-x_max, x_max, d), generator.uniform(-reward, reward)

    straight = np.where(np.arange(d) == 0, -x_max, x_max)
    declared = 4 * x_max * (reward + x_max * radius)
    pair = (straight, reward), (np.full(d, -x_max), reward)
    found = search_sensitivity(step, draw, [pair], declared, rng(), order=math.inf)
    assert found.attained == pytest.approx(declared) and not found.exceeded
    published = reward + x_max * radius  # B, for b_max = C
    assert found.attained / published == pytest.approx(4 * x_max)


def test_secure_noise_plays() -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=2, dim=2, horizon=5)
    agent = make("ldp-linucb", env, noise="secure")
    assert len(play(env, agent, seed=0).regret) == 5 and agent.ledger.spent_epsilon() == 1.0  # type: ignore[attr-defined]
