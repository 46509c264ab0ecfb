import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import classification
from privbandit_agents import load, make, play, save
from privbandit_agents.base.agent import NEVER
from privbandit_agents.baselines.tree import TreeClassifier

USERS = 600


def tree(world: Any, name: str = "tree-all", **config: Any) -> TreeClassifier:
    agent = make(name, world, seed=0, **config)
    assert isinstance(agent, TreeClassifier)
    return agent


def late_accuracy(name: str, horizon: int, **kwargs: Any) -> float:
    """Accuracy over the last tenth of a run."""
    world = classification(horizon, **kwargs)
    result = play(world, tree(world, name), seed=0, checkpoints=[horizon * 9 // 10, horizon])
    return float(np.diff(result.reward)[0] / (horizon - horizon * 9 // 10))


@pytest.mark.wide
def test_accuracy_on_the_synthetic_source() -> None:
    assert late_accuracy("tree-all", 50_000) >= 0.74


def test_public_data_alone_are_better_than_chance_and_worse_than_all_data() -> None:
    public = np.mean([late_accuracy("tree-public", 10_000, public_seed=seed) for seed in range(8)])
    assert 0.6 <= public <= 0.72


@pytest.mark.wide
def test_accuracy_on_real_data() -> None:
    assert late_accuracy("tree-all", 5000, source="breast_cancer") >= 0.9
    assert late_accuracy("tree-all", 5000, source="digits") >= 0.5


def test_predictions_are_those_of_scikit_learn() -> None:
    from sklearn.tree import DecisionTreeClassifier

    world = classification(USERS, source="digits", n_public=300)
    agent = tree(world, "tree-public", max_depth=6, min_samples_leaf=2)
    x, y = world.public_data
    reference = DecisionTreeClassifier(max_depth=6, min_samples_leaf=2, random_state=agent.tree_seed).fit(x, y)
    world.reset(seed=0)
    contexts = world.upcoming(500)
    guesses, expected = agent.guess(contexts), reference.predict(contexts)  # of several best labels it takes the first
    several = agent.several(contexts)
    assert np.array_equal(several.argmax(axis=1), expected) and np.array_equal(guesses < 0, several.sum(axis=1) > 1)
    assert np.array_equal(guesses[guesses >= 0], expected[guesses >= 0])


def test_the_public_tree_never_changes() -> None:
    world = classification(USERS)
    agent = tree(world, "tree-public")
    world.reset(seed=1)
    contexts = world.upcoming(200)
    before = agent.guess(contexts)
    play(world, agent, seed=0)
    assert agent.frozen_rounds() == NEVER and len(agent.y) == 50
    assert np.array_equal(agent.guess(contexts), before)


def test_refits_follow_the_growth_of_the_data() -> None:
    world = classification(USERS, n_public=50)
    agent = tree(world, refit=1.5)
    fits = []
    for _ in range(4):
        fits.append(agent.frozen_rounds())
        play(world, agent, agent.frozen_rounds())
    assert fits == [25, 38, 57, 85]
    assert agent.fitted_rows == len(agent.y) == 50 + sum(fits)


def keep_at_most(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.baselines.tree.KEPT_BYTES", rows * (4 * 64 + 16))  # rows of digits


@pytest.mark.wide_at("digits-65536")
@pytest.mark.parametrize(("source", "kept"), [("lpct-synthetic", 100), ("digits", 2**16), ("digits", 150)])
def test_blocks_and_steps_give_the_same_run(source: str, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_at_most(kept, monkeypatch)
    runs = []
    for world in (classification(USERS, source=source), gym.Wrapper(classification(USERS, source=source))):
        agent = tree(world)
        result = play(world, agent, seed=5)
        runs.append((result.reward, agent.x.view(), agent.y.view(), agent.weight.view(), agent.votes))
    for block, step in zip(*runs, strict=True):
        assert np.array_equal(block, step)


@pytest.mark.parametrize(
    ("name", "source", "kept"),
    [("tree-all", "lpct-synthetic", 100), ("tree-all", "digits", 2**16), ("tree-public", "digits", 2**16)],
)
def test_a_saved_agent_goes_on_bit_for_bit(
    name: str, source: str, kept: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_at_most(kept, monkeypatch)
    world = classification(USERS, source=source)
    agent = tree(world, name)
    play(world, agent, 560, seed=2)
    assert agent.frozen_rounds() > 1
    save(agent, tmp_path / "agent.npz")
    copy = load(tmp_path / "agent.npz", world)
    assert isinstance(copy, TreeClassifier) and np.array_equal(copy.tree.threshold, agent.tree.threshold)
    first, second = (play(world, one, 300, seed=3).reward for one in (agent, copy))
    assert np.array_equal(first, second)


def test_rows_are_kept_up_to_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.baselines.tree.KEPT_BYTES", 100 * 256)
    agent = tree(classification(USERS))
    corner, middle = np.zeros((1, 2)), np.full((5000, 2), 0.5)
    for users in (1, 30, 5000):
        agent.learn_labels(middle[:users], np.ones(users, int))
        assert len(agent.y) == min(50 + agent.users, 100)
        assert agent.x.array.nbytes + agent.y.array.nbytes + agent.weight.array.nbytes <= 2 * 2400 + 64 * 24
        agent.fit()
    splits = agent.tree
    assert agent.guess(middle[:1]) == 1 and not agent.votes.any()
    # later rows turn a leaf's vote, and no other one's
    before = agent.guess(corner)
    agent.learn_labels(middle[:40], np.zeros(40, int))
    assert agent.guess(middle[:1]) == 1  # not before the next refit
    agent.learn_labels(middle, np.zeros(5000, int))
    agent.fit()
    assert agent.tree is splits and agent.votes.sum() == 5040 and len(agent.y) == 100
    same_leaf = agent.leaves(corner) == agent.leaves(middle[:1])
    assert agent.guess(middle[:1]) == 0 and (same_leaf or agent.guess(corner) == before)


def test_missing_scikit_learn_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = classification(USERS)
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    with pytest.raises(ImportError, match=r"pip install 'privbandit\[data\]'"):
        tree(world)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"max_depth": 0}, "max_depth must be an integer >= 1; got 0"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be an integer >= 1; got 0"),
        ({"exploration": -1}, r"exploration must lie in \[0, 1\]; got -1"),
    ],
)
def test_bad_settings_are_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("tree-all", classification(USERS), **config)
