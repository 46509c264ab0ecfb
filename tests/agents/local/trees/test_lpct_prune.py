import math
from typing import Any

import numpy as np
import pytest
from given import classification
from privbandit_agents import make, play
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.local.trees.lpct_prune import PrunedTree
from privbandit_agents.local.trees.partition import max_edge

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


@pytest.mark.parametrize("depth", range(1, 9))
@pytest.mark.parametrize("rule", ["max-edge", "cart"])
def test_every_depth_plays(depth: int, rule: str) -> None:
    env = classification(300)
    agent = make("lpct-prune", env, seed=0, depth=depth, partition=rule, epsilon=2.0)
    play(env, agent, 300, seed=0)
    assert set(np.unique(agent.select_action(np.random.default_rng(0).random((500, 2))))) <= {0, 1}


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
def test_it_keeps_its_claim() -> None:
    verdict = audit(game("lpct-prune", 4.0), 20_000, np.random.default_rng(0), confidence=0.999)
    assert not verdict.refuted and verdict.lower_bound > 0.85 * 4


def test_it_is_for_two_labels() -> None:
    with pytest.raises(ValueError, match="lpct-prune plays classification with two labels"):
        make("lpct-prune", classification(USERS, source="wine"))
    with pytest.raises(ValueError, match="constant must be > 0; got 0"):
        make("lpct-prune", classification(USERS), constant=0.0)
