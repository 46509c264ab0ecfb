import math
from typing import Any

import numpy as np
import pytest
from given import classification
from privbandit_agents import make, play
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.local.trees.partition import Grid, grow, max_edge
from privbandit_agents.local.trees.report import ENTRIES_A_BLOCK
from privbandit_agents.playing.saving import load, save

from privbandit_envs.families.classification import eta

USERS = 5000


def accuracy(agent: Any) -> float:
    x = np.random.default_rng(1).random((20_000, 2))
    one = eta(x)
    return float(np.where(agent.select_action(x) == 1, one, 1 - one).mean())


@pytest.mark.parametrize("splits", [1, 2, 3, 5])
def test_a_grid_has_cubic_cells(splits: int) -> None:
    x = np.random.default_rng(0).random((500, 3))
    grid = Grid(splits, 3)
    parts = np.minimum(np.floor(x * splits), splits - 1)
    cells = grid.find(x)
    assert grid.leaves == splits**3 and cells.max() < grid.leaves
    assert np.array_equal(cells[:, None] == cells, (parts[:, None] == parts).all(axis=2))
    assert grid.find(np.ones((1, 3))) == grid.leaves - 1


def test_random_cuts_are_longest_edges_that_the_labels_do_not_choose() -> None:
    x, y = np.random.default_rng(0).random((100, 3)), np.arange(100) % 2
    trees = [max_edge(x, labels, 6, np.random.default_rng(1)) for labels in (y, 1 - y, np.zeros(100, int))]
    assert all(np.array_equal(tree.feature, trees[0].feature) for tree in trees)
    assert not np.array_equal(trees[0].feature, max_edge(x, y, 6, np.random.default_rng(2)).feature)
    assert np.array_equal(np.sort(trees[0].feature[[0, 1, 3]]), [0, 1, 2])  # down one path every edge is halved once


@pytest.mark.parametrize("depth", [1, 4, 8])
def test_occupied_cells_hold_public_rows(depth: int) -> None:
    """As the whole tree, but cut only where both halves have rows."""
    x, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    tree, whole = grow("occupied", x, y, depth), max_edge(x, y, depth)
    assert (np.bincount(tree.find(x), minlength=tree.leaves) > 0).all() and tree.leaves <= whole.leaves
    z = np.random.default_rng(1).random((2000, 2))
    fine, coarse = whole.find(z), tree.find(z)
    assert all(len(np.unique(coarse[fine == leaf])) == 1 for leaf in np.unique(fine))  # unions of its leaves
    assert np.array_equal(tree.feature[:1], whole.feature[:1]) and len(tree.levels) <= depth + 1
    one = grow("occupied", x[:1], y[:1], depth)
    assert one.leaves == 1 and (one.find(z) == 0).all()


def test_random_cuts_survive_a_load(tmp_path: Any) -> None:
    env = classification(USERS)
    agent: Any = make("lpct-r", env, seed=3, depth=7)
    play(env, agent, 700, seed=0)
    save(agent, tmp_path / "agent.npz")
    copy: Any = load(tmp_path / "agent.npz", env)
    assert np.array_equal(copy.partition.feature, agent.partition.feature)
    other: Any = make("lpct-r", env, seed=4, depth=7)
    assert not np.array_equal(agent.partition.feature, other.partition.feature)
    x = np.random.default_rng(0).random((1000, 2))
    assert np.array_equal(copy.select_action(x), agent.select_action(x))


@pytest.mark.wide_at("lpdt")
@pytest.mark.parametrize("name", ["lpct-p", "lpdt", "phist"])
def test_public_labels_do_not_vote(name: str) -> None:
    """The answers are those of the sums, whatever the public rows say."""
    env = classification(USERS)
    agent: Any = make(name, env, seed=0, epsilon=math.inf, **({"depth": 4} if name != "phist" else {"splits": 4}))
    play(env, agent, seed=0)
    sums = agent.total[:, 0]
    clear = np.abs(sums) > 25
    assert clear.any() and np.array_equal(agent.answers[clear] == 1, sums[clear] > 0)


def test_public_trees_learn_nothing_from_users() -> None:
    env = classification(USERS)
    agent = make("lpct-q", env, seed=0)
    before = accuracy(agent)
    play(env, agent, 2000, seed=0)
    assert accuracy(agent) == before > 0.58 and agent.guarantee.notion == "none"


@pytest.mark.wide
def test_private_data_alone_needs_users() -> None:
    """Near chance at a small budget, near the full tree at a large one."""
    means = {}
    for epsilon in (0.05, 8.0):
        runs = []
        for seed in range(3):
            env = classification(10_000)
            agent = make("lpct-p", env, seed=seed, epsilon=epsilon)
            play(env, agent, seed=seed)
            runs.append(accuracy(agent))
        means[epsilon] = np.mean(runs)
    assert means[0.05] < 0.62 and means[8.0] > 0.7


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    "name",
    [pytest.param("lpct-p", marks=pytest.mark.slow), pytest.param("lpct-r", marks=pytest.mark.slow), "lpdt", "phist"],
)
@pytest.mark.wide
def test_audits_do_not_refute(name: str) -> None:
    """Refuted by chance once in a thousand."""
    verdict = audit(game(name, 2.0), 10_000, np.random.default_rng(0), confidence=0.999)
    assert not verdict.refuted and verdict.lower_bound > 0.4 * 2


def test_too_many_cells_are_refused() -> None:
    with pytest.raises(ValueError, match=r"splits=6 of 13 features are 6\^13 cells"):
        make("phist", classification(USERS, source="wine"), splits=6)


@pytest.mark.parametrize(("name", "settings"), [("lpct", {"depth": 14}), ("phist", {"splits": 128})])
@pytest.mark.wide
def test_many_leaves_are_served_in_small_blocks(name: str, settings: dict[str, Any]) -> None:
    blocks, steps = in_blocks_and_in_steps(name, settings)
    assert np.array_equal(blocks.total, steps.total)
    assert 1 < blocks.frozen_rounds() <= ENTRIES_A_BLOCK // blocks.total.size < blocks.refit_at - blocks.users


def test_one_cell_sums_up_in_order() -> None:
    blocks, steps = in_blocks_and_in_steps("phist", {"splits": 1})
    assert blocks.total.size == 1 and np.array_equal(blocks.total, steps.total)


def in_blocks_and_in_steps(name: str, settings: dict[str, Any]) -> tuple[Any, Any]:
    """Return the same agent after 600 users in blocks, and one by one."""
    env = classification(600)
    agents: list[Any] = [make(name, env, seed=0, growth=30.0, **settings) for _ in range(2)]
    blocks, steps = agents
    play(env, blocks, seed=1)
    context, _ = env.reset(seed=1)
    for _ in range(600):
        action = steps.select_action(context)
        following, _, _, _, info = env.step(action)
        steps.update(context, action, info["feedback"])
        context = following
    return blocks, steps
