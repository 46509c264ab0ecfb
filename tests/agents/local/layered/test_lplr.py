"""LPLR: the bins, the report's privacy, the estimates; error rates below 1e-3 a check."""

import math
import warnings
from typing import Any, get_args

import gymnasium as gym
import numpy as np
import pytest
from given import rng
from privbandit_agents import make, play
from privbandit_agents.audits.games.servers import history
from privbandit_agents.local.layered.forest import Forest
from privbandit_agents.local.layered.report import Release
from privbandit_agents.privacy.randomizers.matrices import PublishedLayer

WILD = [math.nan, math.inf, -math.inf, 1e38, -1e308]


def world(horizon: int = 10_000, **kwargs: Any) -> Any:
    return gym.make("privbandit/Linear-v0", horizon=horizon, **{"n_arms": 3, "dim": 2, "design": "ill", **kwargs})


def agent_of(env: Any, seed: int = 0, **config: Any) -> Any:
    return make("lplr", env, seed=seed, **config)


def on_layer_two(release: str = "hemisphere", epsilon: float = 1.0, **config: Any) -> Any:
    """An agent whose released theta on layer 1 is absurdly large, so that y_h is clipped."""
    agent = agent_of(world(10**6), release=release, epsilon=epsilon, first=10**7, gamma=2.0, **config)
    agent.absorb_sum(history(agent), agent.frozen_rounds())
    assert agent.oracle.layer == 2 and agent.oracle.bins == 2
    return agent


def offline(n: int, seed: int, **kwargs: Any) -> tuple[np.ndarray, np.ndarray]:
    """Errors and half-widths on the contexts of a design after n users of one arm."""
    config = {
        key: kwargs.pop(key) for key in ("epsilon", "z", "preset", "calibration", "kappas", "release") if key in kwargs
    }
    env = world(n, n_arms=1, support=200, delta=n**-0.5, **kwargs)
    agent = agent_of(env, seed, first=n, **config)
    play(env, agent, seed=seed, checkpoints=[n])
    contexts = env.unwrapped.support.contexts
    errors = agent.predict(contexts) - env.unwrapped.problem.means(contexts)
    return np.abs(errors[:, 0]), agent.interval(contexts)[:, 0]


def random_forest(dim: int = 3, gamma: float = 1.7, levels: int = 4) -> Forest:
    """Two trees with some bins active on two layers, directions at random."""
    forest, noise = Forest(dim, gamma, levels), rng(3)
    parents = forest.plant(2) + np.arange(2)
    for _ in range(2):
        parent, level = np.repeat(parents, 2), np.tile([0, 2], len(parents))
        raw = (forest.complement(parent) @ noise.standard_normal((len(parent), dim, 1)))[..., 0]
        u = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        parents = forest.grow(parent, level, u, noise.uniform(-1, 1, len(parent)))
    return forest


def figure_2(forest: Forest, phi: np.ndarray, node: int, layers: int) -> tuple[int, np.ndarray, float]:
    """The procedure of Figure 2 for one point, word by word: (bin, phi_h, prediction)."""
    rest, predicted = phi.astype(float), 0.0
    for _ in range(layers):
        k = max(k for k in range(forest.levels + 1) if k == 0 or np.linalg.norm(rest) <= forest.gamma**-k)
        node = -1 if node < 0 or k == forest.levels else int(forest.child[node, k])
        if node >= 0:
            depth = forest.depth[node] - 1
            u = forest.path[node, depth]
            predicted += float(u @ rest) * forest.slopes[node, depth]
            rest = rest - (u @ rest) * u
    return node, rest, predicted


def test_points_fall_into_the_bins_of_figure_2() -> None:
    forest, noise = random_forest(), rng(1)
    phi = noise.standard_normal((300, 3))
    phi *= noise.uniform(0, 1, (300, 1)) ** 3 / np.linalg.norm(phi, axis=1, keepdims=True)
    phi[0] = 0
    roots = noise.integers(0, 2, 300)
    reached = 0
    for layers in range(4):
        place = forest.descend(phi, roots, layers)
        for i in range(len(phi)):
            node, rest, predicted = figure_2(forest, phi[i], int(roots[i]), layers)
            assert place.node[i] == node
            assert np.allclose(place.rest[i], rest, atol=1e-12) and np.isclose(place.predicted[i], predicted)
        reached += int((place.node >= 0).sum())
    assert reached > 300  # not all of them were trivial


def test_directions_on_a_path_are_orthonormal_and_bound_predictions() -> None:
    env = world(10**7, dim=3, support=100)
    agent = agent_of(env, epsilon=20.0)
    play(env, agent, seed=0, checkpoints=[10**7])
    forest = agent.oracle.forest
    assert forest.depth.max() == 3
    for path, depth in zip(forest.path, forest.depth, strict=True):
        assert np.allclose(path[:depth] @ path[:depth].T, np.eye(depth), atol=1e-9) and not path[depth:].any()
    contexts = env.unwrapped.support.contexts[:, 0].astype(float)
    place = forest.descend(contexts, np.full(len(contexts), agent.oracle.root), 3)
    assert (np.abs(place.predicted) <= forest.reach(place.node) + 1e-12)[place.node >= 0].all()


@pytest.mark.parametrize("kind", ["case1", "case2", "sphere"])
@pytest.mark.parametrize("preset", ["practical", "published"])
def test_without_noise_theta_is_found(kind: str, preset: str) -> None:
    """What is left is the rewards' own noise: 1/sqrt(n) in every bin, a few of which make a prediction."""
    n = 10**6
    extra = {"kappas": (0.0, 0.0, 0.0, 0.0), "calibration": "correct"} if preset == "published" else {}
    errors = [offline(n, seed, design=kind, epsilon=math.inf, preset=preset, **extra)[0].mean() for seed in range(5)]
    rare = n**-0.5 * (kind == "case1")  # a bin that no context of the support is in
    assert np.mean(errors) < 8 / math.sqrt(n) + rare


@pytest.mark.parametrize("setting", [{}, {"width": "sum"}, {"oracle": "per-arm", "width": "sum"}])
def test_without_noise_the_best_arm_stays_and_others_go(setting: dict[str, Any]) -> None:
    horizon = 3 * 10**5
    env = world(horizon, design="sphere", support=50)
    agent = agent_of(env, epsilon=math.inf, z=4.0, **setting)
    play(env, agent, seed=1, checkpoints=[horizon])
    contexts = env.unwrapped.support.contexts.astype(float)
    means = env.unwrapped.problem.means(contexts)
    alive = agent.oracle.alive(contexts)
    assert alive[np.arange(50), means.argmax(axis=1)].all()
    gap = means.max(axis=1, keepdims=True) - means
    assert not alive[gap > 0.3].any() and (gap > 0.3).any()


@pytest.mark.parametrize(("arms", "dim", "users"), [(5, 3, 1), (5, 3, 40), (5, 30, 40), (60, 4, 1), (60, 4, 40)])
def test_arms_go_that_another_is_ahead_of_by_the_width_of_their_difference(arms: int, dim: int, users: int) -> None:
    """Few pairs and many, against every pair by itself; a user may have an arm that is no number."""
    oracle, noise = agent_of(world(n_arms=arms, dim=dim, design="sphere")).oracle, rng(arms)
    for size in (0.0, 0.05, 1.0):
        half = noise.standard_normal((dim, dim)) / 4
        oracle.thetas, oracle.roots = size * noise.standard_normal((1, 1, dim)), np.tril(half)[None, None]
        phi = noise.standard_normal((users, arms, dim))
        phi[:, 0], phi[:: users // 2 + 1, 1] = phi[:, 2], np.nan
        apart = phi[:, :, None] - phi[:, None]  # of the first arm over the second
        ahead = apart @ oracle.thetas[0, 0] > oracle.config.z * np.linalg.norm(apart @ np.tril(half), axis=-1)
        wanted = ~(ahead.any(axis=1) | np.isnan(phi[..., 0]))
        assert np.array_equal(oracle.passes(0, phi, np.ones((users, arms), bool)), wanted)
        assert wanted.any() and (not wanted.all() or users == 1 or not size)


def test_the_published_preset_sums_estimates_along_the_paths_and_widths() -> None:
    env = world(10**6, n_arms=2, support=60)
    agent = agent_of(
        env, epsilon=math.inf, preset="published", calibration="correct", kappas=(0.1, 0.0, 0.2, 0.01), first=10**5
    )
    play(env, agent, seed=0, checkpoints=[10**6])
    oracle, contexts = agent.oracle, env.unwrapped.support.contexts
    predicted, root = agent.predict(contexts), int(oracle.first_roots[-1])
    for i in range(60):
        for arm in range(2):
            phi = contexts[i, arm].astype(float)
            assert np.isclose(predicted[i, arm], figure_2(oracle.forest, phi, root + arm, 2)[2])
    widths = agent.interval(contexts)
    assert (widths > 0).all() and (widths <= 1).all() and (widths < 1).any()


def test_the_published_preset_is_uniform_play_at_practical_horizons() -> None:
    env = world(10**7, support=50)
    agent = agent_of(env, preset="published", calibration="correct")
    play(env, agent, seed=0, checkpoints=[10**7])
    assert agent.oracle.epochs_kept > 5 and agent.oracle.alive(env.unwrapped.support.contexts.astype(float)).all()


@pytest.mark.slow
def test_case_2_offline_is_learnt_at_the_promised_rate_and_widths_cover() -> None:
    """Means over 200 runs; at z = 2.2 the widths cover 95 % of the design and are at most 3.5 errors wide.

    They cover 97 to 98 %, with a standard error of 0.009: a limit fails by chance about once in fifty times.
    """
    means = []
    for n, limit in ((10**5, 0.030), (10**6, 0.011), (10**7, 0.0040)):
        runs = [offline(n, seed, design="case2", z=2.2) for seed in range(200)]
        errors, widths = (np.array(part) for part in zip(*runs, strict=True))
        assert errors.mean() <= limit
        assert (errors <= widths).mean() >= 0.95 and widths.mean() <= 3.5 * errors.mean()
        means.append(errors.mean())
    assert np.polyfit([5, 6, 7], np.log10(means), 1)[0] <= -0.43


@pytest.mark.wide
def test_regret_is_far_below_uniform_play_on_the_hard_instance() -> None:
    """Uniform play has 76 000 and 427 000; the limits are the project's targets."""
    for horizon, limit in ((10**7, 60e3), (10**8, 140e3)):
        regrets = []
        for seed in range(8):
            env = world(horizon, support=200)
            regrets.append(play(env, agent_of(env, seed), seed=seed, checkpoints=[horizon]).regret[-1])
        assert np.mean(regrets) <= limit


def records() -> list[tuple[np.ndarray, int, float]]:
    """Features long and short, along and across, all arms, extreme rewards, and records that are none."""
    rows = [(1.0, 0.0), (0.87, 0.4999), (0.1, 0.0), (0.24, 0.05), (0.2, -0.12), (0.0, 1.0), (0.0, 0.0)]
    found = [(np.tile(row, (3, 1)), arm, y) for row in rows for arm, y in ((0, 1.0), (2, -1.0))]
    found += [(np.full((3, 2), wild), 0, 1.0) for wild in WILD] + [(np.full((3, 2), 0.5), 1, wild) for wild in WILD]
    return [*found, (np.full((3, 2), 0.5), 7, 1.0)]


@pytest.mark.parametrize("release", ["hemisphere", "bin-cap", "laplace"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("layer", [1, 2])
def test_the_whole_report_has_likelihood_ratios_of_at_most_epsilon(release: str, epsilon: float, layer: int) -> None:
    agent = on_layer_two(release, epsilon) if layer == 2 else agent_of(world(), release=release, epsilon=epsilon)
    randomizer = agent.oracle.randomizer
    inputs = [agent.inputs(context[None], np.array([arm]), np.array([y]))[1:] for context, arm, y in records()]
    assert len({int(cells[0]) for cells, _ in inputs}) > 3
    reports = np.concatenate(
        [randomizer.randomize(np.repeat(c, 60), np.repeat(z, 60, axis=0), rng()) for c, z in inputs]
    )
    assert np.isfinite(reports).all()
    logs = np.array([randomizer.log_likelihood(reports, int(cells[0]), values[0]) for cells, values in inputs])
    largest = (logs.max(axis=0) - logs.min(axis=0)).max()
    least = 0.4 if release == "laplace" and layer == 2 else 0.8  # the l1 bound is for any direction: here it is one
    assert least * epsilon <= largest <= epsilon + 1e-9


@pytest.mark.parametrize("release", get_args(Release))
@pytest.mark.parametrize("layer", [1, 2])
def test_no_record_exceeds_the_declared_bounds(release: str, layer: int) -> None:
    """The randomizer has nothing to clip: statistics are within its radius as they come."""
    agent = on_layer_two(release) if layer == 2 else agent_of(world(), release=release)
    for context, arm, y in records():
        _, cells, values = agent.inputs(context[None], np.array([arm]), np.array([y]))
        kept = agent.oracle.randomizer.sanitise(cells, values)[1]
        assert np.allclose(kept, values, atol=1e-9) or cells[0] < 0
        assert np.linalg.norm(values) <= 1 + 1e-9 or cells[0] < 0


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("layer", [1, 2])
def test_vector_and_matrix_apart_cost_epsilon_together(epsilon: float, layer: int) -> None:
    """By the sensitivities of the layout, 2 l1 norms of a vector and a trace: its density has no closed form."""
    release = "wishart-difference"
    agent = on_layer_two(release, epsilon) if layer == 2 else agent_of(world(), release=release, epsilon=epsilon)
    randomizer, layout = agent.oracle.randomizer, agent.oracle.report.layout
    cost = 2 * layout.l1()[0] / randomizer.scales.min() + layout.weights[3] / randomizer.v
    assert cost == pytest.approx(epsilon)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_widths_of_the_published_preset_are_released_with_epsilon(epsilon: float) -> None:
    """Exact densities at reports of users in both bins, with the widths at both ends, and of an inactive one."""
    settings: dict[str, Any] = {
        "preset": "published",
        "calibration": "correct",
        "kappas": (0.0, 0.0, 0.0, 0.0),
        "first": 10**7,
        "gamma": 2.0,
    }
    agent = agent_of(world(10**6), epsilon=epsilon, **settings)
    agent.absorb_sum(history(agent), agent.frozen_rounds())
    randomizer = agent.oracle.randomizer
    assert agent.oracle.checking and randomizer.dim == 1
    cells = np.arange(-1, randomizer.cells)
    reports = randomizer.randomize(np.repeat(cells, 300), np.ones((300 * len(cells), 1)), rng())
    logs = np.array([randomizer.log_likelihood(reports, int(c), np.array([z])) for c in cells for z in (0.0, 1.0)])
    largest = (logs.max(axis=0) - logs.min(axis=0)).max()
    assert 0.9 * epsilon <= largest <= epsilon + 1e-9


def test_inactive_users_noise_every_bin_too() -> None:
    agent = on_layer_two()
    contexts = np.tile([1e-9, 0.0], (3000, 3, 1))
    assert (agent.inputs(contexts, np.zeros(3000, int), np.ones(3000)).cells == -1).all()
    estimates = agent.oracle.randomizer.estimate(agent.randomize(contexts, np.zeros(3000, int), np.ones(3000)))
    assert (estimates.std(axis=0) > 0.9 * math.sqrt(agent.oracle.randomizer.variance(own=False))).all()


@pytest.mark.wide_at("bin-cap", "hemisphere")
@pytest.mark.parametrize("release", get_args(Release))
def test_a_user_of_one_arm_noises_the_bins_of_all_arms(release: str) -> None:
    """Deviations within 15 % of those of an inactive user, in every cell but the user's own."""
    agent = agent_of(world(), release=release, oracle="per-arm", width="sum")
    contexts, arms = np.tile([0.8, 0.1], (4000, 3, 1)), np.ones(4000, int)
    estimate, own = agent.oracle.randomizer.estimate, agent.inputs(contexts, arms, np.ones(4000)).cells
    assert agent.oracle.trees == 3 and own[0] // agent.oracle.forest.levels == 1
    idle = estimate(agent.randomize(0 * contexts, arms, np.ones(4000))).std(axis=0)
    active = estimate(agent.randomize(contexts, arms, np.ones(4000))).std(axis=0)
    others = np.arange(len(idle)) != own[0]
    assert np.allclose(active[others] / idle[others], 1.0, atol=0.15)


@pytest.mark.parametrize("release", get_args(Release))
def test_reports_of_a_layer_that_is_over_count_and_teach_nothing(release: str) -> None:
    agent = agent_of(world(10**6), release=release, first=10**7, gamma=2.0)
    late = agent.randomize(np.full((2, 3, 2), 0.3), np.zeros(2, int), np.ones(2))
    agent.absorb_sum(history(agent), agent.frozen_rounds())
    assert late.shape[1:] != agent.total.shape
    total, paid, users = agent.total.copy(), agent.ledger.releases, agent.users
    with agent.paying(2):
        agent.absorb(late)
    assert np.array_equal(agent.total, total)
    assert (agent.ledger.releases, agent.users) == (paid + 2, users + 2)


def test_the_server_sees_reports_alone() -> None:
    """Two servers with the same reports from other users are the same, over layers and epochs."""
    env = world(20_000, delta=0.04)
    env.reset(seed=0)
    one, other = (agent_of(env, epsilon=8.0) for _ in range(2))
    while one.oracle.epoch < 3:
        n = min(one.frozen_rounds(), 200)
        contexts = env.unwrapped.upcoming(n)
        report = one.randomize(contexts, np.zeros(n, int), np.ones(n))
        one.absorb(report)
        other.absorb(report.copy())
    assert len(one.oracle.forest.tree) > 3
    arrays = one.state()[0], other.state()[0]
    assert all(np.array_equal(arrays[0][key], arrays[1][key]) for key in arrays[0])


@pytest.mark.parametrize("release", get_args(Release))
@pytest.mark.parametrize("layer", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.wide
def test_sums_of_reports_have_the_law_of_reports(release: str, layer: int) -> None:
    """Means within 4.5 standard errors, deviations within a quarter (five of theirs), over 400 draws each."""
    agent = on_layer_two(release) if layer == 2 else agent_of(world(), release=release)
    contexts = np.stack([np.tile([0.87, 0.4999], (3, 1)), np.tile([0.2, -0.12], (3, 1))])
    arms, rewards, counts = np.array([0, 2]), np.array([1.0, -1.0]), np.array([40, 20])
    repeated = [np.repeat(part, counts, axis=0) for part in (contexts, arms, rewards)]
    estimate = agent.oracle.randomizer.estimate
    single = np.array([estimate(agent.randomize(*repeated)).sum(axis=0) for _ in range(400)])
    summed = np.array([agent.randomize_sum(contexts, arms, rewards, counts) for _ in range(400)])
    summed = summed.reshape(len(summed), *single.shape[1:])
    own = agent.inputs(contexts, arms, rewards).cells
    for cell in (*own, (own[0] + 1) % single.shape[1]):
        ours, theirs = summed[:, cell], single[:, cell]
        assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) <= 4.5 * theirs.std(axis=0) / math.sqrt(200)).all()
        ratio = ours.std(axis=0) / theirs.std(axis=0)
        assert (ratio > 0.8).all() and (ratio < 1.25).all()


def test_a_layer_may_be_served_in_chunks_of_both_kinds() -> None:
    env = world(10**5, delta=0.01, support=20)
    env.reset(seed=0)
    agent, contexts = agent_of(env, first=4000), env.unwrapped.support.contexts
    end = agent.frozen_rounds()
    counts = np.full(20, 25)
    agent.update_counts(contexts, np.zeros(20, int), np.ones(20), counts)
    agent.update(contexts, np.zeros(20, int), np.ones(20))
    assert agent.frozen_rounds() == end - 520
    agent.update_counts(contexts[:1], np.zeros(1, int), np.ones(1), np.array([end - 520]))
    assert agent.oracle.first_users == end and agent.ledger.group == end - 1


@pytest.mark.slow
def test_evidence_is_calibrated_over_epochs() -> None:
    """Squared errors in units of the posterior have mean d under the model; half of that to twice that is asked."""
    distances = []
    for seed in range(24):
        env = world(10**7, dim=3, support=200)
        agent = agent_of(env, seed)
        play(env, agent, seed=seed, checkpoints=[10**7])
        theta, covariance = agent.oracle.posterior()
        error = theta[0] - env.unwrapped.problem.theta
        distances.append(error @ np.linalg.solve(covariance[0], error))
    assert 1.2 < np.mean(distances) < 6


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"oracle": "per-arm"}, "width difference needs"),
        ({"calibration": "published"}, "calibration published needs"),
        ({"share": 1.0}, "share must lie in"),
        ({"release": "gaussian"}, "release"),
        ({"gamma": 1.0}, "gamma"),
        ({"z": 0.0}, "z must"),
        ({"kappas": (1.0, 2.0)}, "kappas must be four numbers"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        agent_of(world(), **settings)


def test_the_published_preset_is_the_published_mechanism_warns_and_promises_nothing() -> None:
    with pytest.warns(UserWarning, match="comparison only"):
        agent = agent_of(world(), preset="published")
    assert not agent.guarantee.proven and isinstance(agent.oracle.randomizer, PublishedLayer)
    assert agent_of(world(), preset="published", calibration="correct").guarantee.proven
    env = world(5000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = agent_of(env, preset="published", calibration="published", kappas=(0.0, 0.0, 0.0, 0.0))
    play(env, other, seed=0, checkpoints=[5000])
    assert math.isinf(other.ledger.spent_epsilon()) and len(other.oracle.forest.tree) > 3


@pytest.mark.parametrize("calibration", ["published", "correct"])
@pytest.mark.filterwarnings("ignore:lplr")
def test_without_noise_the_paper_finds_theta_on_its_second_layer(calibration: str) -> None:
    """Rewards are +-1, so a slope has a standard error of 1 / sqrt(sum of (u . phi)^2) at most; six worlds, 4 of them.

    False alarms: 6 x 6e-5 a bin.
    """
    n, found = 400_000, 0
    for seed in range(6):
        env = world(n, n_arms=1, support=200, design="case1", delta=0.3)
        agent = agent_of(
            env, seed, preset="published", calibration=calibration, epsilon=math.inf, kappas=(0.0,) * 4, first=n
        )
        play(env, agent, n, seed=seed, checkpoints=[n])
        oracle = agent.oracle
        second = np.flatnonzero(oracle.forest.depth == 2)
        truth = oracle.forest.direction(second) @ env.unwrapped.problem.theta
        error = oracle.forest.slopes[second, 1] - truth
        assert len(second) == len(oracle.psi) and np.abs(truth).max() > 0.3
        assert (np.abs(error) * np.sqrt(n / 4 * oracle.psi * oracle.strength) < 4).all()
        found += len(second)
    assert found >= 6
