import math
from typing import Any

import numpy as np
import pytest
from given import classification
from privbandit_agents import make, play
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.local.trees.lpct_prune import PrunedTree
from privbandit_agents.local.trees.partition import grow, max_edge
from privbandit_agents.local.trees.printed import AuthorsTree, PrintedTree
from privbandit_agents.local.trees.report import LeafReport

from privbandit_envs.families.classification import eta

USERS = 5000


def pruned(noise: float, rows: int = 200, depth: int = 4) -> tuple[PrunedTree, Any]:
    rng = np.random.default_rng(0)
    x, y = rng.random((rows, 2)), rng.integers(0, 2, rows)
    tree = max_edge(x, y, depth)
    return PrunedTree(tree, x, y, (noise, noise), 0.5), rng


@pytest.mark.parametrize("noise", [0.01, 100.0])
def test_the_statistic_is_the_best_over_lambda(noise: float) -> None:
    """Against a grid of lambda in (15), or its two ends where the noise prevails."""
    tree, rng = pruned(noise)
    users = 1000
    total = 30 * rng.standard_normal((16, 1))
    _, value, _ = tree.statistics(total, users)
    private, public = tree.partition.gather(total)[:, 0], tree.public[:, 0]
    variance = users * (noise * tree.width[:, 0] + tree.mass[:, 0])
    inner = np.concatenate([[0], np.geomspace(1e-6, 1e8, 4001)])
    grid = inner if noise < 1 else np.array([0.0, 1e8])
    objective = np.abs(private[:, None] + np.outer(public, grid))
    objective /= np.sqrt(variance[:, None] + np.outer(np.maximum(tree.rows[:, 0], 1e-9), grid**2))
    objective /= math.sqrt(0.5 * math.log(users + 200 + 2))
    if noise > 1:  # what is not clear may be all noise
        objective[objective[:, 0] < 1, 0] = 0
    best = objective.max(axis=1)
    assert value == pytest.approx(best, rel=1e-3, abs=1e-3)


def test_a_leaf_has_the_label_of_its_deepest_clear_ancestor() -> None:
    tree, rng = pruned(0.5)
    total = 60 * rng.standard_normal((16, 1))
    label, value, stop = tree.statistics(total, 1000)
    answers = tree.predict(total, 1000).argmax(axis=1)
    kinds = set()
    for leaf, start in enumerate(tree.partition.of_leaf):
        path = [int(start)]
        while tree.partition.parent[path[-1]] > 0:
            path.append(int(tree.partition.parent[path[-1]]))
        clear = [node for node in path if stop[node]]
        expected = clear[0] if clear else max(path, key=lambda node: value[node])
        kinds.add(len(clear) > 0 and clear[0] == path[0])
        assert answers[leaf] == label[expected]
    assert kinds == {True, False}


@pytest.mark.wide_at("*-[2345]", "cart-8")
@pytest.mark.parametrize("depth", range(1, 9))
@pytest.mark.parametrize("rule", ["max-edge", "cart"])
def test_every_depth_plays(depth: int, rule: str) -> None:
    env = classification(300)
    agent = make("lpct-prune", env, seed=0, depth=depth, partition=rule, epsilon=2.0)
    play(env, agent, 300, seed=0)
    assert set(np.unique(agent.select_action(np.random.default_rng(0).random((500, 2))))) <= {0, 1}


@pytest.mark.wide
def test_accuracy_without_much_noise() -> None:
    """Over four worlds; the public tree alone has about 0.65, the Bayes classifier 0.786."""
    x = np.random.default_rng(1).random((20_000, 2))
    one, found = eta(x), []
    for seed in range(4):
        env = classification(10_000, public_seed=seed)
        agent = make("lpct-prune", env, seed=seed, epsilon=100.0)
        play(env, agent, seed=seed)
        found.append(np.where(agent.select_action(x) == 1, one, 1 - one).mean())
    assert np.mean(found) > 0.74


@pytest.mark.usefixtures("brief")
@pytest.mark.wide
def test_it_keeps_its_claim() -> None:
    verdict = audit(game("lpct-prune", 4.0), 20_000, np.random.default_rng(0), confidence=0.999)
    assert not verdict.refuted and verdict.lower_bound > 0.85 * 4


def test_it_is_for_two_labels() -> None:
    with pytest.raises(ValueError, match="lpct-prune plays classification with two labels"):
        make("lpct-prune", classification(USERS, source="wine"))
    with pytest.raises(ValueError, match="constant must be > 0; got 0"):
        make("lpct-prune", classification(USERS), constant=0.0)


def algorithm_2(tree: PrintedTree, total: Any, users: int, start: int) -> float:
    """Return s_k of a leaf as printed, with a grid for the maximum over lambda; nodes are numbered from 0, the root."""
    path, p0 = [start], len(tree.partition.levels) - 1
    while tree.partition.parent[path[-1]] > 0:
        path.append(int(tree.partition.parent[path[-1]]))
    sums = tree.partition.gather(total)
    ones = tree.partition.gather(tree.counts)
    log, best = math.log(users + tree.rows[0, 0]), (-1.0, 0.5)
    for node in path:
        k = next(depth for depth, level in enumerate(tree.partition.levels) if node in level)
        (U, V), rows, voted = sums[node], float(tree.rows[node, 0]), float(ones[node, 1])
        if (noise := 2 ** (p0 - k + 3) * users / tree.epsilon**2) >= U:
            v_q = abs(voted / rows - 0.5) / math.sqrt(4 * log / rows) if rows else 0.0
            v_p = abs(V / U - 0.5) / math.sqrt(4 * noise * log / U**2)
            s, v = (V / U, v_p) if v_q <= v_p else (voted / rows, v_q)
            if v_q <= v_p and k <= math.floor(tree.share * math.log(users * tree.epsilon**2)):
                return float(s)
        else:
            grid = np.concatenate([[0.0], np.geomspace(1e-6, 1e8, 2001)])
            eta_pq = (V + grid * voted) / (U + grid * rows)
            r = np.sqrt((32 * U + 4 * grid**2 * rows) * log) / (U + grid * rows)
            at = int(np.argmax(np.abs(eta_pq - 0.5) / r))
            s, v = float(eta_pq[at]), float(np.abs(eta_pq[at] - 0.5) / r[at])
        if v >= 1:
            return float(s)
        best = max(best, (float(v), float(s)))
    return best[1]


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0, 1000.0])
def test_the_printed_rule_is_algorithm_2_leaf_by_leaf(epsilon: float) -> None:
    rng = np.random.default_rng(int(epsilon))
    x, y, users = rng.random((200, 2)), rng.integers(0, 2, 200), 4000
    tree = PrintedTree(max_edge(x, y, 4), x, y, epsilon)
    for spread in (50.0, 500.0):
        U = users / 16 + spread * rng.standard_normal(16)
        total = np.stack([U, U / 2 + spread * rng.standard_normal(16)], axis=1)
        answers = tree.predict(total, users).argmax(axis=1)
        expected = [algorithm_2(tree, total, users, int(node)) > 0.5 for node in tree.partition.of_leaf]
        assert (answers == expected).all()


def test_the_printed_rule_reads_u_and_v() -> None:
    """The sums apart are those of the report, and only the paper's report has them."""
    together, apart = LeafReport("laplace", 1.0, 4, 2), LeafReport("laplace", 1.0, 4, 2, apart=True)
    leaf, label = np.arange(4), np.array([0, 1, 1, 0])
    one = together.total(leaf, label, np.random.default_rng(3))
    two = apart.total(leaf, label, np.random.default_rng(3))
    assert two.shape == (4, 2) and np.allclose(one[:, 0], 2 * two[:, 1] - two[:, 0])
    with pytest.raises(ValueError, match="rule printed reads U and V"):
        make("lpct-prune", classification(USERS), rule="printed")


def test_the_printed_rule_answers_by_noise_where_the_known_noise_rule_does_not() -> None:
    env = classification(USERS, n_public=200, gamma=0.5)
    right = {}
    for rule in ("printed", "known-noise"):
        agent: Any = make("lpct-prune", env, seed=0, report="laplace", epsilon=0.5, rule=rule)
        play(env, agent, USERS, seed=0)
        x = np.random.default_rng(1).random((2000, 2)).astype(np.float32)
        right[rule] = np.mean(agent.chances(x).argmax(axis=1) == (eta(x) > 0.5))
    assert right["known-noise"] > right["printed"] + 0.05


def nearest_leaf(tree: Any, node: int) -> int:
    below = tree.partition.children[node]
    return 0 if tree.partition.leaf[node] >= 0 else 1 + min(nearest_leaf(tree, int(child)) for child in below)


def authors_answer(tree: Any, total: Any, users: int, start: int) -> bool:
    """Return the label of a leaf as the authors' repository finds it: from itself up, with a grid for lambda."""
    sums, rows, ones = (tree.partition.gather(values) for values in (total, tree.rows_of_leaves, tree.counts[:, 1:]))
    epsilon, found = tree.epsilon / 2, []
    highest = max(1, tree.depth - math.floor(math.log2(users * tree.epsilon**2 + 1) / 3))
    node = start
    for _ in range(highest + 1):
        j = nearest_leaf(tree, node)
        k = tree.depth - j
        (U, V), Q, W = sums[node], float(rows[node, 0]), float(ones[node, 0])
        c, public = math.log(users + tree.rows[0, 0] + 2) + k + 1, math.log(tree.rows[0, 0] + 2) + k + 1
        worth = 2 ** (j + 1) * (2 * math.log(2 * users + 2) + epsilon * 2 ** (-k / 2) * math.sqrt(c)) ** 2 / c
        noise = worth * users / epsilon**2
        answer, clear = W / Q > 0.5, abs(W / Q - 0.5) * math.sqrt(Q / public)
        if U > 0 and V > 0 and (V > U or noise <= U):
            spread, V = (noise, U) if V > U else (U, V)
            grid = np.concatenate([[0.0], np.geomspace(1e-6, 1e8, 4001)])
            same = (V / U > 0.5) == (W / Q > 0.5)
            grid = grid if same else grid[:1]
            statistics = np.abs((V + grid * W) / (U + grid * Q) - 0.5) * (U + grid * Q)
            best = float((statistics / np.sqrt(c * (spread + grid**2 * Q))).max())
            if best >= clear:
                answer, clear = V / U > 0.5, best
        found.append((clear, answer))
        if clear >= 1:
            return bool(answer)
        node = max(int(tree.partition.parent[node]), 0)
    return bool(max(found, key=lambda each: each[0])[1])


@pytest.mark.parametrize("epsilon", [1.0, 8.0, 40.0])
@pytest.mark.parametrize("rows", [30, 400])
def test_the_authors_rule_is_theirs_leaf_by_leaf(epsilon: float, rows: int) -> None:
    rng = np.random.default_rng(rows)
    x, y, users, depth = rng.random((rows, 2)), rng.integers(0, 2, rows), 4000, 5
    partition = grow("occupied", x, y, depth)
    tree: Any = AuthorsTree(partition, x, y, epsilon, depth)
    tree.rows_of_leaves, m = tree.counts.sum(axis=1, keepdims=True), partition.leaves
    for spread in (5.0, 100.0, 1000.0):
        U = users / m + spread * rng.standard_normal(m)
        total = np.stack([U, U / 2 + spread * rng.standard_normal(m)], axis=1)
        answers = tree.predict(total, users).argmax(axis=1)
        expected = [authors_answer(tree, total, users, int(node)) for node in partition.of_leaf]
        assert (answers == expected).all()


def test_the_authors_rule_reports_with_half_of_the_budget() -> None:
    agents: Any = [
        make("lpct-prune", classification(USERS), seed=0, report="laplace", epsilon=2.0, rule=rule)
        for rule in ("authors", "printed")
    ]
    assert [agent.report.randomizer.epsilon for agent in agents] == [1.0, 2.0]
    with pytest.raises(ValueError, match="rule authors reads U and V"):
        make("lpct-prune", classification(USERS), rule="authors")


@pytest.mark.parametrize(("rule", "least"), [("occupied", 1), ("occupied", 5), ("cart", 5)])
def test_no_leaf_has_fewer_public_rows_than_asked_for(rule: Any, least: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((100, 2)), rng.integers(0, 2, 100)
    partition = grow(rule, x, y, 6, least=least)
    counts = np.bincount(partition.find(x), minlength=partition.leaves)
    assert counts.min() >= least and partition.leaves > 4
    with pytest.raises(ValueError, match="min_samples_leaf needs partition occupied or cart; got 2 with max-edge"):
        make("lpct", classification(USERS), min_samples_leaf=2)
