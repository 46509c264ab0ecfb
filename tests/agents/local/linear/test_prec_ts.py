"""Compared arms: what leaves the device, what the server makes of it, and how it plays."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.local.linear.prec_ts import CENTRED, FILL, GRAM, PLAIN, SCATTER, SPREAD
from privbandit_agents.local.linear.spreads import OCTAVES, STAGES, Scatter, Spreads, directions, octaves
from privbandit_agents.privacy.contributions.moments import NORM, pack
from privbandit_agents.privacy.contributions.pool import Pool
from privbandit_agents.privacy.vectors import smat, svec

ILL: dict[str, Any] = {"n_arms": 3, "dim": 2, "design": "ill", "support": 200}


STRETCH = np.array([[2.0, 9.0], [9.0, 40.0]])
KINDS = [PLAIN, CENTRED, SPREAD, SCATTER]


def agent_on(kind: str = PLAIN, horizon: int = 10**6, seed: int = 0, **config: Any) -> Any:
    """Return an agent whose users report on a difference of two arms in stretched features, or what ``kind`` says."""
    agent: Any = make("prec-ts", gym.make("privbandit/Linear-v0", horizon=horizon, **ILL), seed=seed, **config)
    agent.reopen(STRETCH)
    agent.scatter = Scatter(np.array([0.5, 0.02]), np.ones(2, bool), 2.7, horizon)
    agent.kind, agent.feature, agent.draws = kind, 1, np.array([[0.01, 1.0], [0.01, -1.0]])
    return agent


def users(n: int, seed: int = 1) -> tuple[Any, Any, Any]:
    """Return contexts with wild ones among them, actions and rewards."""
    rng = np.random.default_rng(seed)
    contexts = (rng.standard_normal((n, 3, 2)) * [1, 0.02]).astype(np.float32)
    contexts[0, 0], contexts[1], contexts[2] = np.nan, 1e30, 0.0
    rewards = np.where(rng.random(n) < 0.5, -1.0, 1e9)
    rewards[3] = math.inf
    return contexts, rng.integers(3, size=n), rewards


@pytest.mark.parametrize("kind", KINDS)
def test_no_record_leads_to_a_longer_vector(kind: str) -> None:
    agent, records = agent_on(kind), users(40)
    encoded = agent.encode(*records)
    assert np.isfinite(encoded).all() and np.isfinite(agent.randomize(*records)).all()
    longest = np.linalg.norm(encoded, axis=1).max()
    assert 0.8 * NORM < longest <= NORM * (1 + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_no_two_records_have_a_likelihood_ratio_beyond_epsilon(kind: str, epsilon: float) -> None:
    """Exact densities at reports of both records; the worst pair nearly reaches e^epsilon, twice it fails."""
    agent, (contexts, actions, rewards) = agent_on(kind, epsilon=epsilon), users(16)
    inputs = agent.encode(contexts, actions, rewards)
    many = [np.repeat(each, 100, axis=0) for each in (contexts, actions, rewards)]
    reports = agent.randomize(*many)
    density = np.array([agent.device.log_likelihood(reports, 0, one) for one in inputs])
    worst = (density.max(axis=0) - density.min(axis=0)).max()
    assert 0.7 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_plain_reports_are_those_of_ldp_greedy_but_for_the_weight_of_short_features() -> None:
    """A record of length r < 1 counts 1/r times as much: signal r in place of r^2."""
    agent, x = agent_on(), np.array([[0.3, 0.4], [0.8, 0.8]])
    agent.reopen(np.eye(2))
    encoded = agent.encode(x[:, None, :].repeat(3, axis=1), np.zeros(2, int), np.array([1.0, -1.0]))
    expected = pack(x, [1.0, -1.0]) * np.array([[2.0], [1.0]])
    assert np.allclose(encoded[:, :-OCTAVES], expected, atol=1e-7) and not encoded[:, -OCTAVES:].any()
    assert np.linalg.norm(encoded[1]) == pytest.approx(NORM), "the ball is filled at length 1"


def test_what_arms_share_is_not_in_centred_reports() -> None:
    """Exact means over both sides of the coin: theta comes out of differences, plain sums of one side hide it."""
    rng, theta = np.random.default_rng(2), np.array([0.7, -0.4])
    agent = agent_on(CENTRED)
    contexts = np.stack([np.full((300, 3), 0.9), 0.02 * rng.standard_normal((300, 3))], axis=2)
    pairs, total = agent.candidates(contexts).argmax(axis=2), np.zeros(agent.device.entries)
    for side in (0, 1):
        means = contexts[np.arange(300), pairs[:, side]] @ theta
        for reward in (1.0, -1.0):
            total += ((1 + reward * means) / 2) @ agent.encode(contexts, pairs[:, side], np.full(300, reward))
    assert (pairs[:, 0] != pairs[:, 1]).mean() > 0.5
    pool = Pool(agent.stretch, GRAM, 1e-9)
    pool.add(total[:-OCTAVES] / FILL, 600)
    evidence = pool.evidence(theta)
    assert abs(evidence[1, 2] / evidence[1, 1] - theta[1]) < 1e-6
    assert evidence[0, 0] < 1e-6 * evidence[1, 1], "nothing is told of what all arms share"


def test_an_arm_that_is_no_candidate_tells_nothing() -> None:
    agent, (contexts, _, rewards) = agent_on(CENTRED), users(30)
    pairs = agent.candidates(contexts).argmax(axis=2)
    third = np.array([min({0, 1, 2} - set(pair)) for pair in pairs.tolist()])
    assert not agent.encode(contexts, third, rewards).any()
    assert agent.encode(contexts, pairs[:, 0], rewards).any()


@pytest.mark.parametrize(
    ("half", "place"), [(1.0, 0), (0.51, 0), (0.5, 1), (0.02, 5), (2.0**-14, 14), (1e-7, 15), (0, 15)]
)
def test_octaves_of_ranges(half: float, place: int) -> None:
    arms = np.array([[[0.1, -half], [0.1, half], [0.1, 0.0]]])
    assert octaves(arms, 1)[0].argmax() == place and octaves(arms, 1).sum() == 1 and octaves(arms, 0)[0, -1] == 1


def told(shares: dict[int, float], noise: float, users_at_once: int = 200, seed: int = 0) -> tuple[Spreads, int]:
    """Return what is known of one feature in the end, and how many users it took."""
    rng, spreads = np.random.default_rng(seed), Spreads(1, noise, 10**9)
    exact = np.zeros(OCTAVES)
    exact[list(shares)] = list(shares.values())
    while not spreads.known:
        noisy = users_at_once * exact + noise * math.sqrt(users_at_once) * rng.standard_normal(OCTAVES)
        spreads.add(spreads.next, noisy, users_at_once)
    return spreads, int(spreads.asked[0])


def test_spreads_are_found_soon_where_they_are_clear() -> None:
    for seed in range(20):
        clear, few = told({6: 0.9, 15: 0.1}, 2.7, seed=seed)
        assert clear.size[0] == 2.0**-6.5 and clear.varies[0] and few < 600
        half, _ = told({6: 0.5, 15: 0.5}, 2.7, seed=seed)
        assert half.size[0] in (2.0**-6.5, 1.0) and half.varies[0], "two arms agree as often as not"
        assert told({5: 0.4, 6: 0.6}, 0.3, seed=seed)[0].size[0] == 2.0**-5.5, "the wider of two that are frequent"
        same, _ = told({15: 1.0}, 2.7, seed=seed)
        assert not same.varies[0] and Scatter(same.size, same.varies, 2.7, 0).stretch().tolist() == [[1.0]]
        lost, many = told({0: 0.05, 3: 0.05}, 2.7, seed=seed)
        assert lost.size[0] >= 2.0**-15 and many <= 1000 and lost.varies[0], "noise ends it too"


def test_spreads_are_not_asked_where_users_are_few() -> None:
    assert Spreads(400, 2.7, 10_000).known and not Spreads(2, 2.7, 10_000).known
    assert Spreads(3, 2.7, 1).known and Spreads(3, 0.0, 10**6).most == 30


def test_angles_see_only_features_that_vary() -> None:
    scatter = Scatter(np.array([1.0, 0.5, 0.01]), np.array([False, True, True]), 1.0, 0)
    assert scatter.angle(np.array([1.0, 0.2, 0]), np.array([-1.0, 0.3, 0])) == pytest.approx(0, abs=1e-7)
    assert scatter.angle(np.array([1.0, 0.2, 0]), np.array([1.0, -0.3, 0])) == pytest.approx(math.pi)
    assert scatter.angle(np.array([1.0, 0.02, 0]), np.array([1.0, 0, 1])) == pytest.approx(math.pi / 2)
    assert Scatter(np.ones(3), np.zeros(3, bool), 1.0, 0).angle(np.ones(3), -np.ones(3)) == 0


def test_directions_are_the_mean_over_arms_and_never_longer_than_one() -> None:
    arms = np.random.default_rng(4).standard_normal((30, 5, 3)) / 4
    arms[0], arms[1, 1:] = 0.3, 0.0  # arms that are the same
    whitened = np.array([[1.0, 0.5, 0.0], [0.0, 30.0, 2.0]])
    found = directions(arms, whitened)
    for user in range(30):
        v = (arms[user] - arms[user].mean(axis=0)) @ whitened.T
        v = v[np.linalg.norm(v, axis=1) > 1e-3]
        v = v / np.linalg.norm(v, axis=1, keepdims=True)
        assert np.allclose(smat(found[user]), v.T @ v / 5)
    assert not found[0].any() and np.linalg.norm(found, axis=1).max() <= 1 + 1e-12
    assert all(np.array_equal(directions(arms[i : i + 1], whitened)[0], found[i]) for i in range(30))


def scatter_of(scales: list[float], turned: bool, noise: float = 2.7, seed: int = 0) -> tuple[Scatter, Any]:
    """Return what is known of arms with these scales along directions of their own in the end, and the directions."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((len(scales), len(scales))))[0] if turned else np.eye(len(scales))
    arms = rng.choice([-1.0, 1.0], (2000, 4, len(scales))) * scales @ axes.T
    half = np.median(np.ptp(arms, axis=1), axis=0) / 2
    scatter = Scatter(np.where(half > 0, half, 1.0), half > 0, noise, 10**8)
    while scatter.left:
        exact = directions(arms, scatter.whitened).mean(axis=0) * 1000
        scatter.add(exact + noise * math.sqrt(1000) * rng.standard_normal(len(exact)), 1000)
    return scatter, axes


def test_turned_weak_directions_are_stretched_as_straight_ones_are() -> None:
    """The strong direction is the same for all arms; the others differ by factors up to ten."""
    for seed in range(10):
        scales = [0.0, 0.2, 0.02]
        straight, turned = (scatter_of(scales, each, seed=seed) for each in (False, True))
        assert straight[0].left == 0
        diagonal = straight[0].stretch()
        assert np.array_equal(diagonal, np.diag(np.diagonal(diagonal))), "the spreads were right"
        for scatter, axes in (straight, turned):
            stretch = axes.T @ scatter.stretch() @ axes
            assert np.diagonal(stretch) == pytest.approx([1.0, 3.5, 35.0], rel=0.6)
            assert np.abs(stretch - np.diag(np.diagonal(stretch))).max() < 0.35 * 35


def test_the_scatter_is_asked_only_where_it_can_be_found_and_helps() -> None:
    two = np.ones(2, bool)
    asked = {
        "few users": Scatter(np.array([0.1, 0.1]), two, 2.7, 1000),
        "one feature": Scatter(np.array([0.1, 0.1]), np.array([True, False]), 2.7, 10**8),
        "large differences": Scatter(np.array([0.7, 0.7]), two, 2.7, 10**8),
        "small differences": Scatter(np.array([0.1, 0.1]), two, 2.7, 10**8),
        "no noise": Scatter(np.array([0.1, 0.1]), two, 0.0, 10**8),
    }
    assert {name for name, scatter in asked.items() if scatter.left == STAGES} == {"small differences", "no noise"}
    alone = Scatter(np.array([0.1, 0.1]), two, 2.7, 10**8)
    while alone.left:
        alone.add(np.zeros(3), 1000)
    assert np.array_equal(alone.matrix, np.diag([0.1**2, 0.1**2])), "noise alone changes nothing"


def test_the_posterior_is_calibrated() -> None:
    """Over 300 pools z-scores have variance 1 within 4 standard errors; twice the variance is rejected."""
    rng, theta, stretch = np.random.default_rng(3), np.array([0.5, -0.5]), np.array([[0.7, 0.5], [0.5, 35.0]])
    agent = agent_on()
    agent.reopen(stretch)
    x = np.array([[0.9, 0.01], [0.9, -0.01]])
    contexts, actions = np.repeat(x[:, None, :].repeat(3, axis=1), 2, axis=0), np.zeros(4, int)
    rewards, scores = np.array([1.0, -1.0, 1.0, -1.0]), []
    for _ in range(300):
        pool = Pool(stretch, math.sqrt(0.5), agent.device.deviation)
        for weight in (1.0, 0.5):
            up = rng.binomial(10**6, (1 + x @ theta) / 2)
            counts = np.array([up[0], 10**6 - up[0], up[1], 10**6 - up[1]])
            pool.add(agent.randomize_sum(contexts, actions, rewards, counts)[:-OCTAVES], 2 * 10**6, weight)
        evidence = pool.evidence(theta)
        root = np.linalg.cholesky(evidence[:, :-1]).T
        scores.append(root @ (np.linalg.solve(evidence[:, :-1], evidence[:, -1]) - theta))
    variance = np.var(scores, axis=0)
    assert (np.abs(variance - 1) < 4 * math.sqrt(2 / 300)).all()
    assert (np.abs(variance / 2 - 1) > 4 * math.sqrt(2 / 300)).all()


def test_an_empty_pool_and_noise_alone_tell_nothing() -> None:
    assert not Pool(np.eye(2), 0.5, 1.0).evidence(np.ones(2)).any()
    pool = Pool(np.eye(2), math.sqrt(0.5), 3.0)
    pool.add(np.array([0.1, 0.2, 0.01, 0.01, 0.0]) * 100, 100)
    assert not pool.evidence(np.ones(2)).any()


@pytest.mark.parametrize("dim", [1, 4, 30])
def test_evidence_is_that_of_the_noise_s_covariance_matrix(dim: int) -> None:
    rng = np.random.default_rng(dim)
    root = rng.standard_normal((dim, dim))
    pool, theta = Pool(np.eye(dim) + 0.1 * root @ root.T, math.sqrt(0.5), 0.4), rng.standard_normal(dim)
    for users in (500, 700):
        gram = users * np.diag(rng.random(dim))
        noise = rng.standard_normal(dim + dim * (dim + 1) // 2)
        pool.add(noise + np.concatenate([users * rng.random(dim), math.sqrt(0.5) * svec(gram)]), users)
        _, moment, values, vectors = pool.solve()
        seen, sigma = values > 0.3 * pool.floor, 0.4 / math.sqrt(pool.weights)
        values, back = values[seen], vectors[:, seen].T @ np.linalg.inv(pool.stretch)
        t = back @ theta
        covariance = sigma**2 * ((1 + t @ t) * np.eye(len(t)) + np.outer(t, t))  # as 2 w^2 = 1
        covariance += np.diag(values / min(1.0, values.sum()) / pool.weights)
        design = values[:, None] * back
        weighted = design.T @ np.linalg.inv(covariance)
        expected = np.column_stack([weighted @ design, weighted @ vectors[:, seen].T @ moment])
        for _ in range(2):
            np.testing.assert_allclose(pool.evidence(theta), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


def test_noise_hides_a_direction_by_the_rule_on_eigenvalues() -> None:
    """It is the rule itself on 400 noisy sums, a sixth of them or more on each side."""
    rng, found = np.random.default_rng(5), []
    for _ in range(400):
        dim, sigma, users = int(rng.integers(2, 30)), float(10 ** rng.uniform(-2, 1)), int(rng.integers(10, 10**5))
        gram = np.diag(0.5 ** np.arange(dim)) * users
        pool = Pool(np.eye(dim), math.sqrt(0.5), sigma)
        exact = np.concatenate([np.zeros(dim), math.sqrt(0.5) * svec(gram)])
        pool.release(exact + sigma * rng.standard_normal(len(exact)), users)
        values = np.linalg.eigvalsh(smat(pool.total[dim:] / users / math.sqrt(0.5)))
        found.append(pool.hides(ratio=20))
        assert found[-1] == (max(values[0], 1e-9) < pool.floor < values[-1] / 20)
    assert 1 / 6 < np.mean(found) < 5 / 6


def test_the_server_needs_reports_alone() -> None:
    """A server that gets the reports, and no user, comes to the same stretch, the same draws and the same questions."""
    env: Any = gym.make("privbandit/Linear-v0", horizon=40_000, **ILL).unwrapped
    agents: list[Any] = [make("prec-ts", env, seed=4, epsilon=4.0) for _ in range(2)]
    one, other = agents
    env.reset(seed=4)
    done, kinds = 0, set()
    while done < 40_000:
        many = min(one.frozen_rounds(), 40_000 - done)
        contexts = env.upcoming(many)
        report = one.randomize(contexts, (actions := one.select_action(contexts)), env.serve(actions).feedback)
        kinds.add(one.kind)
        one.absorb(report)
        other.absorb(report)
        done += many
    assert kinds == {PLAIN, CENTRED, SPREAD} and one.stretch.max() > 4
    assert np.array_equal(one.stretch, other.stretch) and np.array_equal(one.draws, other.draws)
    assert one.kind == other.kind and one.weight == other.weight


@pytest.mark.parametrize("kind", KINDS)
def test_sums_by_counts_and_by_blocks_have_the_mean_of_the_vectors(kind: str) -> None:
    agent, (contexts, _, _) = agent_on(kind, epsilon=8.0), users(1000)
    rows, rewards = agent.candidates(contexts)[:, 0].argmax(axis=1), np.ones(1000)
    exact = agent.encode(contexts, rows, rewards).sum(axis=0)
    error = 5 * agent.device.deviation * math.sqrt(1000)
    assert np.abs(agent.randomize_sum(contexts, rows, rewards, np.ones(1000, int)) - exact).max() < error
    assert np.abs(agent.randomize_sum(contexts, rows, rewards) - exact).max() < error < np.abs(exact).max()


def test_coins_are_fair_and_belong_to_users() -> None:
    agent, context = agent_on(), np.array([[0.5, 0.1], [0.5, -0.1], [0.0, 0.0]])
    actions = agent.select_action(np.tile(context, (4000, 1, 1)))
    assert set(actions) == {0, 1} and abs((actions == 0).mean() - 0.5) < 4 * 0.5 / math.sqrt(4000)
    agent.ties.users = 0
    assert agent.select_action(context) == actions[0]
    agent.ties.users = 7
    assert np.array_equal(agent.select_action(np.tile(context, (50, 1, 1))), actions[7:57])


def regrets(horizon: int, runs: int, epsilon: float = 1.0) -> list[float]:
    regret = []
    for seed in range(runs):
        env = gym.make("privbandit/Linear-v0", horizon=horizon, instance_seed=seed, **ILL)
        agent = make("prec-ts", env, seed=seed, epsilon=epsilon)
        regret.append(play(env, agent, seed=seed, checkpoints=[horizon]).regret[-1])
    return regret


@pytest.mark.wide
def test_it_learns_the_weak_direction() -> None:
    """Means of 2 runs at T = 10^7; uniform play has 76 000."""
    assert 100 < np.mean(regrets(10**7, 2)) < 30_000


@pytest.mark.wide
def test_more_noise_costs_regret() -> None:
    """Medians of 8 runs at T = 10^6, since a run may take the wrong side for good; uniform play has 13 500."""
    quiet, loud = (np.median(regrets(10**6, 8, epsilon)) for epsilon in (4.0, 0.1))
    assert quiet < 0.5 * loud


def test_without_noise_it_finds_theta() -> None:
    env = gym.make("privbandit/Linear-v0", horizon=10**6, **ILL)
    agent: Any = make("prec-ts", env, seed=5, epsilon=math.inf)
    assert play(env, agent, seed=5, checkpoints=[10**6]).simulation == "counts"
    assert np.allclose(agent.scorer[:, -1], env.unwrapped.problem.theta, atol=0.1)  # type: ignore[attr-defined]


@pytest.mark.wide_at("700-world[12]")
@pytest.mark.parametrize("world", [{"n_arms": 1}, {"dim": 1, "design": "sphere"}, {"design": "case1"}])
@pytest.mark.parametrize("horizon", [1, 700])
def test_it_plays_at_the_edges(world: dict[str, Any], horizon: int) -> None:
    for support in (200, None):
        env = gym.make("privbandit/Linear-v0", horizon=horizon, **{**ILL, "support": support, **world})
        result = play(env, make("prec-ts", env, seed=0), horizon, seed=0)
        assert np.isfinite(result.regret).all()


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"epsilon": -1.0}, "epsilon"), ({"growth": 1.0}, "growth")],
)
def test_settings_out_of_range_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agent_on(**setting)
