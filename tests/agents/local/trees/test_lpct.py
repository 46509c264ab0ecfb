import itertools
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import classification, rng
from privbandit_agents import make, play
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.local.trees.lpct import LPCT, Config
from privbandit_agents.local.trees.partition import Partition, Rule, grow, max_edge
from privbandit_agents.local.trees.report import Kind, LeafReport, chosen_depth
from privbandit_agents.local.trees.votes import WeightedTree
from privbandit_agents.privacy.accounting.ledger import Ledger, PrivacyBudgetExceeded

from privbandit_envs.families.classification import eta

USERS = 10_000

KINDS = ("laplace", "signed-subset", "ternary", "grr")
TABLE: dict[tuple[str, float, int], float] = {  # variance of S = (2 y - 1) e_leaf / 2, user outside the leaf
    ("laplace", 0.5, 16): 160,
    ("laplace", 1, 64): 40,
    ("laplace", 4, 256): 2.5,
    ("grr", 0.5, 16): 38.8,
    ("grr", 1, 64): 22.0,
    ("grr", 2, 256): 6.35,
    ("grr", 4, 16): 0.0149,
    ("grr", 8, 64): 1.75e-4,
    ("signed-subset", 0.5, 16): 4.17,
    ("signed-subset", 1, 256): 1.17,
    ("signed-subset", 2, 16): 0.289,
    ("signed-subset", 2, 64): 0.308,
    ("signed-subset", 4, 64): 0.0292,
    ("signed-subset", 4, 256): 0.0354,
}
OWN: dict[tuple[float, int], float] = {
    (1, 16): 0.92,
    (2, 16): 0.49,
    (2, 64): 0.42,
    (2, 256): 0.41,
    (4, 16): 0.164,
    (4, 64): 0.319,
    (4, 256): 0.285,
}


def built(config: Config, x: Any, y: Any) -> LPCT:
    env = classification(USERS)
    return LPCT(env.observation_space, env.action_space, config, rng(), (x, y))


def accuracy(agent: Any) -> float:
    x = rng(1).random((40_000, 2))
    one = eta(x)
    return float(np.where(agent.select_action(x) == 1, one, 1 - one).mean())


def boxes(tree: Partition) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    found = [(np.zeros(2), np.ones(2))] * len(tree.feature)
    for node in range(len(tree.feature)):
        if tree.feature[node] >= 0:
            (low, high), axis = found[node], tree.feature[node]
            upper, lower = high.copy(), low.copy()
            upper[axis] = lower[axis] = tree.threshold[node]
            found[tree.children[node, 0]], found[tree.children[node, 1]] = (low, upper), (lower, high)
    return found


def test_max_edge_halves_a_longest_edge_at_its_midpoint() -> None:
    x = rng().random((60, 2))
    tree = max_edge(x, (x[:, 1] > 0.5).astype(int), 5)
    assert tree.leaves == 32 and tree.feature[0] == 1  # the cut that separates the labels
    for (low, high), axis, cut in zip(boxes(tree), tree.feature, tree.threshold, strict=True):
        if axis >= 0:
            assert high[axis] - low[axis] == (high - low).max() and cut == (low[axis] + high[axis]) / 2
    points = rng(1).random((500, 2))
    leaves = [boxes(tree)[node] for node in tree.of_leaf[tree.find(points)]]
    assert all((low <= p).all() and (p <= high).all() for (low, high), p in zip(leaves, points, strict=True))


@pytest.mark.parametrize("rule", ["max-edge", "cart"])
def test_sums_over_the_tree(rule: Rule) -> None:
    x = rng().random((80, 3))
    tree = grow(rule, x, (rng(1).random(80) < 0.5).astype(int), 5)
    values = rng(2).random((tree.leaves, 2))
    sums = tree.gather(values)
    assert np.allclose(sums[0], values.sum(axis=0))
    inner = np.flatnonzero(tree.feature >= 0)
    assert np.allclose(sums[inner], sums[tree.children[inner]].sum(axis=1))
    assert len(np.unique(tree.find(x))) <= tree.leaves and np.array_equal(sums[tree.of_leaf], values)


@pytest.mark.parametrize("rule", ["max-edge", "cart"])
def test_partition_and_public_counts_know_nothing_of_the_users(rule: str) -> None:
    agents: list[Any] = []
    for users, seed in ((0, 0), (3000, 1), (3000, 2)):
        env = classification(3000)
        agent: Any = make("lpct", env, seed=seed, partition=rule)
        if users:
            play(env, agent, users, seed=seed)
        agents.append(agent)
    for agent in agents[1:]:
        assert np.array_equal(agent.partition.threshold, agents[0].partition.threshold)
        assert np.array_equal(agent.partition.feature, agents[0].partition.feature)
        assert np.array_equal(agent.tree.counts, agents[0].tree.counts)
        assert np.array_equal(agent.tree.mass, agents[0].tree.mass)
        assert agent.refit_at == agents[1].refit_at and agent.report.kind == agents[0].report.kind
    assert not np.array_equal(agents[1].total, agents[2].total)


@pytest.mark.parametrize(("kind", "epsilon", "leaves"), TABLE)
def test_variances_are_those_of_the_table(kind: str, epsilon: float, leaves: int) -> None:
    report = LeafReport(kind, epsilon, leaves, 2)
    assert report.variance[0] / 4 == pytest.approx(TABLE[kind, epsilon, leaves], rel=0.02)


@pytest.mark.parametrize(("epsilon", "leaves"), OWN)
def test_variances_in_the_own_leaf(epsilon: float, leaves: int) -> None:
    own = LeafReport("signed-subset", epsilon, leaves, 2).variance[1] / 4
    assert own == pytest.approx(OWN[epsilon, leaves], rel=0.02)


@pytest.mark.wide_at("1.0-*", "3.0-ternary", "3.0-laplace")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_reports_are_unbiased_with_the_stated_variance(kind: str, epsilon: float) -> None:
    """50 000 reports: means within 5 standard errors, variances within 6 %; sums drawn at once agree."""
    report, n = LeafReport(kind, epsilon, 8, 2), 50_000
    estimates = report.estimate(report.randomize(np.full(n, 3), np.ones(n, int), rng()))[..., 0]
    mean = np.zeros(8)
    mean[3] = 1
    variance = np.where(np.arange(8) == 3, report.variance[1], report.variance[0])
    assert (np.abs(estimates.mean(axis=0) - mean) <= 5 * np.sqrt(variance / n)).all()
    assert estimates.var(axis=0) == pytest.approx(variance, rel=0.06)
    sums = [report.total(np.full(n, 3), np.ones(n, int), rng(seed))[:, 0] for seed in range(400)]
    assert np.var(sums, axis=0) / n == pytest.approx(variance, rel=0.4)
    assert (np.abs(np.mean(sums, axis=0) / n - mean) <= 5 * np.sqrt(variance / n / 400)).all()


@pytest.mark.wide_at("0.5-*", "6.0-*")
@pytest.mark.parametrize("kind", [*KINDS, "subset"])
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_likelihood_ratios_of_the_whole_report(kind: str, labels: int, epsilon: float) -> None:
    """Over every pair of records; the bound is reached by some report (Laplace: at a corner)."""
    if kind == "subset" and labels == 2:
        return
    report = LeafReport(kind, epsilon, 3, labels)
    hidden = [] if labels == 2 else [(0, -1)]
    records = [*itertools.product(range(3), range(labels)), *hidden]
    largest = 0.0
    for leaf, label in records:
        cells, values = report.encode(np.array([leaf] * 300), np.array([label] * 300))
        reports = report.randomizer.randomize(cells, values, rng())
        if kind == "laplace":  # beyond all inputs in every direction
            reports[::2] = 50 * np.where(reports[::2] > 0.5, 1, -1)
        likelihoods = []
        for other in records:
            (cell,), value = report.encode(np.array([other[0]]), np.array([other[1]]))
            value = None if value is None else value[0]
            likelihoods.append(report.randomizer.log_likelihood(reports, int(cell), value))
        largest = max(largest, float(np.ptp(likelihoods, axis=0).max()))
    assert 0.999 * epsilon <= largest <= epsilon + 1e-9


@pytest.mark.parametrize(
    ("kind", "labels"),
    [*itertools.product(("laplace", "signed-subset", "ternary"), (2, 3)), ("grr", 3), ("subset", 3)],
)
def test_users_without_a_label_count_nowhere_on_average(kind: str, labels: int) -> None:
    """10 000 reports: means within 5 standard errors of 0, far from the 1 of a user with a label."""
    report, n = LeafReport(kind, 3.0, 4, labels), 10_000
    estimates = report.estimate(report.randomize(np.full(n, 2), np.full(n, -1), rng()))
    error = estimates.std(axis=0) / n**0.5
    assert (np.abs(estimates.mean(axis=0)) <= 5 * error).all() and error.max() < 0.1


def test_auto_takes_the_report_of_least_variance() -> None:
    for epsilon, leaves in itertools.product((0.5, 1, 2, 4, 8), (16, 64, 256)):
        spreads = {kind: LeafReport(kind, epsilon, leaves, 2) for kind in KINDS}
        least = min(report.spread(kind, report.randomizer) for kind, report in spreads.items())
        chosen = LeafReport("auto", epsilon, leaves, 2)
        assert chosen.spread(chosen.kind, chosen.randomizer) <= least * (1 + 1e-5)
    assert LeafReport("auto", 1.0, 16, 2).kind == "signed-subset" and LeafReport("auto", 8.0, 16, 2).kind == "grr"


def test_depth_grows_with_users_and_epsilon() -> None:
    depths = [chosen_depth("auto", epsilon, 2, 50_000, 4) for epsilon in (0.001, 0.5, 1.0, 2.0, 8.0)]
    assert depths == sorted(depths) and depths[0] == 4 and depths[-1] > depths[0]
    assert chosen_depth("auto", 8.0, 2, 10**9, 4) == 8


def test_the_paper_estimate_is_equation_8() -> None:
    """Without shrinkage the sign is that of sum S + lambda sum (2 y - 1) over the public rows of the leaf."""
    x, y = rng().random((200, 2)), rng(1).integers(0, 2, 200)
    tree = max_edge(x, y, 3)
    weighted = WeightedTree(tree, x, y, 2, (160.0, 160.0), weight=7.0, tau=math.inf)
    total = 40 * rng(2).standard_normal((8, 1))
    sums = total[:, 0] + 7 * np.bincount(tree.find(x), 2 * y - 1, 8)
    assert np.array_equal(weighted.predict(total, 1000).argmax(axis=1) == 1, sums > 0)


@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf, 1e38, -1e308])
@pytest.mark.parametrize("source", ["lpct-synthetic", "wine"])
def test_records_are_sanitised_first(wild: float, source: str) -> None:
    env = classification(USERS, source=source)
    agent: Any = make("lpct", env, seed=0, epsilon=math.inf)
    shape = env.observation_space.shape
    for context, feedback in ((np.full(shape, wild), 1.0), (np.full(shape, 0.5), wild)):
        before = agent.total
        agent.update(context, 0, feedback)
        assert np.isfinite(agent.total).all() and np.abs(agent.total - before).sum() <= 1


@pytest.mark.slow
def test_accuracy_grows_with_epsilon() -> None:
    """Means over eight worlds of 50 public rows; standard errors are about 0.006."""
    means = {}
    for epsilon in (1e-3, 1.0, 4.0):
        pairs = []
        for seed in range(8):
            env = classification(USERS, public_seed=seed)
            agent = make("lpct", env, seed=seed, epsilon=epsilon)
            first = accuracy(agent)
            play(env, agent, seed=seed)
            pairs.append((first, accuracy(agent)))
        means[epsilon] = np.mean(pairs, axis=0)
    assert abs(means[1e-3][1] - means[1e-3][0]) < 0.01  # noise does no harm
    assert means[1.0][1] > 0.67 and means[1.0][1] > means[1.0][0] + 0.01
    assert means[4.0][1] > 0.715


@pytest.mark.wide_at("signed-subset", "laplace", "ternary", "subset")
@pytest.mark.parametrize("report", ["auto", "subset", "signed-subset", "ternary", "grr", "laplace"])
def test_many_labels_are_learned_where_the_public_ones_are_wrong(report: Kind) -> None:
    env = classification(8000, source="wine", n_public=40)
    x, y = env.unwrapped.public_data
    config = Config(epsilon=8.0, report=report, partition="cart", depth=4, exploration=0.3)
    agent = LPCT(env.observation_space, env.action_space, config, rng(), (x, (y + 1) % 3))
    assert (agent.select_action(x) == y).mean() < 0.2
    play(env, agent, seed=0)
    agent.exploration = 0.0
    assert (agent.select_action(x) == y).mean() > 0.85


def test_without_exploration_a_label_gives_way_where_reports_are_against_it() -> None:
    """The public rows name the wrong label of three; noise alone changes nothing."""
    env = classification(8000, source="wine", n_public=40)
    x, y = env.unwrapped.public_data
    for epsilon, turned in ((8.0, True), (1e-2, False)):
        agent = LPCT(env.observation_space, env.action_space, Config(epsilon=epsilon), rng(), (x, (y + turned) % 3))
        before = np.asarray(agent.select_action(x))
        play(env, agent, seed=0)
        assert (np.mean(agent.select_action(x) == before) < 0.5) == turned


def test_a_label_that_nobody_could_tell_has_its_public_share() -> None:
    x, y = rng().random((60, 2)), rng(1).integers(0, 3, 60)
    tree = WeightedTree(max_edge(x, y, 2), x, y, 3, (4.0, 4.0))
    total, told = 500 * rng(2).random((4, 3)), np.array([1.0, 0.0, 0.0]) * np.ones((4, 1))
    means = [tree.shrink(*tree.evidence(sums, users, told)) for sums, users in ((total, 5000), (0 * total, 0))]
    assert np.array_equal(means[0][:, 1:], means[1][:, 1:]) and not np.allclose(means[0][:, 0], means[1][:, 0])


def test_public_rows_alone_answer_where_reports_say_that_they_are_right_more_often() -> None:
    """Sums in leaves that both would label differently are counted with the sign of the label of all rows together."""
    agent: Any = make("lpct", classification(USERS), seed=0, epsilon=1.0)
    agent.combined, agent.alone = np.tile([0.2, 0.8], (16, 1)), np.tile([0.2, 0.8], (16, 1))
    agent.alone[:2], agent.combined[1] = [0.7, 0.3], [0.6, 0.4]
    agent.users, agent.total, agent.given = 100, -30.0 + np.arange(16.0)[:, None], np.full((16, 1), 100.0)
    agent.judge()
    assert agent.gain == -30 and agent.noise == pytest.approx(100 * agent.report.variance[0])
    for gain, alone in ((-1e9, True), (0.0, False)):
        agent.gain = gain
        agent.predict_leaves()
        assert np.array_equal(agent.leaf_chances, agent.alone if alone else agent.combined)
    assert not np.array_equal(agent.alone, agent.combined)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    "epsilon", [pytest.param(0.5, marks=pytest.mark.slow), 1.0, 4.0, pytest.param(8.0, marks=pytest.mark.slow)]
)
@pytest.mark.wide
def test_the_audit_does_not_refute_and_comes_near(epsilon: float) -> None:
    """Refuted by chance once in a thousand."""
    verdict = audit(game("lpct", epsilon), 100_000 if epsilon <= 1 else 40_000, rng(), confidence=0.999)
    assert not verdict.refuted and verdict.lower_bound >= 0.85 * epsilon


@pytest.mark.usefixtures("brief")
@pytest.mark.wide
def test_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = LeafReport.build
    monkeypatch.setattr(LeafReport, "build", lambda self, kind, epsilon: original(self, kind, 2 * epsilon))
    with pytest.raises(PrivacyBudgetExceeded):  # it says what it costs
        audit(game("lpct", 1.0), 4000, rng())
    for door in ("spend", "check"):
        monkeypatch.setattr(Ledger, door, lambda *args, **kwargs: None)
    assert audit(game("lpct", 1.0), 4000, rng()).refuted


def test_errors_say_what_to_do() -> None:
    env = classification(USERS)
    with pytest.raises(ValueError, match="report='subset' is for more than two labels; use 'auto'"):
        make("lpct", env, report="subset")
    with pytest.raises(ValueError, match="depth must be at most 16; got 20"):
        make("lpct", env, depth=20)
    with pytest.raises(ValueError, match="weight must be > 0; got 0"):
        make("lpct", env, weight=0.0)
    with pytest.raises(ValueError, match="partition='cart' needs public rows; got none: use 'max-edge'"):
        built(Config(partition="cart"), np.zeros((0, 2)), np.zeros(0, np.int64))


def test_one_public_class_and_empty_leaves_have_an_answer() -> None:
    x = np.full((3, 2), 0.2)
    agent = built(Config(depth=4), x, np.ones(3, np.int64))
    chances = agent.tree.predict(np.zeros((agent.report.leaves, 1)), 0)
    assert np.isfinite(chances).all() and (chances.argmax(axis=1) == 1).all()
    assert chances.sum(axis=1) == pytest.approx(1)


@pytest.mark.wide_at("-1-*", "1000000000-*", "inf-*")
@pytest.mark.parametrize("report", [*KINDS, "auto"])
@pytest.mark.parametrize("source", ["lpct-synthetic", "digits"])
@pytest.mark.parametrize("action", [5, -1, 10**9, 0.5, math.nan, math.inf])
def test_any_action_makes_one_report(report: str, source: str, action: float) -> None:
    env: Any = classification(USERS, source=source)
    agent: Any = make("lpct", env, seed=0, report=report)
    context = env.reset(seed=0)[0]
    for feedback in (0.0, 1.0, math.nan, 1e308):
        label = agent.revealed(*agent.records_of(context, action, feedback)[1:])
        assert -1 <= label[0] < agent.n_labels
        assert len(agent.randomize(context, action, feedback)) == 1


@pytest.mark.parametrize("name", ["lpct", "warm-ldp-sgd", "pglm"])
def test_users_play_after_others_were_known(name: str) -> None:
    """Nothing is concluded in between, and a group may be empty; everybody pays once."""
    agent: Any = make(name, classification(USERS), seed=0)
    x, y = rng().random((500, 2)), np.arange(500) % 2
    for n in (500, 0):
        agent.learn_labels(x[:n], y[:n])
        assert agent.frozen_rounds() >= 1
        agent.update(x[:n], y[:n], np.ones(n))
    assert agent.ledger.releases == 1000 and agent.ledger.spent_epsilon() <= 1 + 1e-9


@pytest.mark.parametrize("name", ["lpct", "lpct-p", "phist", "warm-ldp-sgd", "psgd-linear", "pglm"])
def test_known_labels_that_do_not_exist_count_as_the_first(name: str) -> None:
    strange, told = np.array([-1, 7, math.nan, math.inf, 1]), np.array([0, 0, 0, 0, 1])
    agents: list[Any] = [make(name, classification(USERS), seed=0, epsilon=8.0) for _ in range(2)]
    for agent, labels in zip(agents, (strange, told), strict=True):
        agent.learn_labels(rng().random((5, 2)), labels)
        agent.conclude()
    x = rng(1).random((50, 2))
    assert np.array_equal(agents[0].chances(x), agents[1].chances(x))


@pytest.mark.wide_at("wine")
@pytest.mark.parametrize("source", ["lpct-synthetic", "wine"])
def test_blocks_and_steps_are_the_same_run(source: str) -> None:
    runs = []
    for wrapped in (lambda env: env, gym.Wrapper):
        env = wrapped(classification(USERS, source=source).unwrapped)
        runs.append(play(env, make("lpct", env, seed=1), 700, seed=1).regret)
    assert np.array_equal(runs[0], runs[1])
