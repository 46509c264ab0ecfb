from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import classification
from gymnasium.spaces import Box, Discrete
from privbandit_agents import load, make, play, save
from privbandit_agents.baselines.histogram import Histogram
from privbandit_agents.zoo.registry import can_play

from privbandit_envs.wrappers import FlattenContext

USERS = 600


def histogram(world: Any, seed: int = 0, **config: Any) -> Histogram:
    agent = make("histogram", world, seed=seed, **config)
    assert isinstance(agent, Histogram)
    return agent


def unit_square(x: Any, y: Any, n_labels: int = 2, **config: Any) -> Histogram:
    """A histogram of the given public rows."""
    x = np.asarray(x, dtype=float)
    settings = Histogram.Config(**config)
    cube = Box(0, 1, (x.shape[1],), np.float64)
    return Histogram(cube, Discrete(n_labels), settings, np.random.default_rng(0), (x, np.asarray(y)))


def test_cells_are_those_of_the_max_edge_rule() -> None:
    """Halve every cell on its longest edge, the first of equal ones, written as the recursion it is."""
    x = np.random.default_rng(0).random((300, 3))
    x[0], x[1], x[2] = 0, 1, 0.5
    cells = unit_square(x, np.arange(300) % 2, depth=7).cells(x)
    for point, cell in zip(x, cells, strict=True):
        low, high, code = np.zeros(3), np.ones(3), 0
        for _ in range(7):
            edge = int(np.argmax(high - low))
            middle = (low[edge] + high[edge]) / 2
            right = bool(point[edge] >= middle)
            (low if right else high)[edge] = middle
            code = 2 * code + right
        assert cell == code


def test_empty_and_tied_cells_ask_their_parents() -> None:
    x = [[0.1], [0.2], [0.3], [0.9]]
    agent = unit_square(x, [1, 1, 0, 0], depth=2)
    assert agent.guess(np.array([[0.1], [0.3], [0.6], [0.9]])).tolist() == [1, 0, 0, 0]
    tied = unit_square([[0.1], [0.15], [0.3], [0.9]], [1, 0, 1, 0], depth=2)
    assert tied.guess(np.array([[0.1], [0.3], [0.6]])).tolist() == [1, 1, 0]


def test_more_features_than_halvings_use_the_first_ones() -> None:
    x = np.random.default_rng(0).random((50, 9))
    agent = unit_square(x, np.arange(50) % 2, depth=3)
    assert np.array_equal(agent.cells(x), (x[:, 0] >= 0.5) * 4 + (x[:, 1] >= 0.5) * 2 + (x[:, 2] >= 0.5))


def test_two_labels_are_revealed_by_the_feedback() -> None:
    agent = unit_square([[0.1]], [0], depth=1)
    agent.update(np.array([[0.2], [0.2], [0.8], [0.8]]), np.array([0, 1, 0, 1]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert agent.counts.tolist() == [[2, 1], [1, 1]]


def test_with_more_labels_right_answers_count_their_inverse_probability() -> None:
    agent = unit_square([[0.1]], [0], n_labels=4, depth=1, exploration=0.2)
    agent.update(np.array([[0.2], [0.2], [0.8]]), np.array([0, 2, 3]), np.array([1.0, 1.0, 0.0]))
    assert agent.counts[0] == pytest.approx([1 + 1 / 0.85, 0, 1 / 0.05, 0])
    assert agent.counts[1].tolist() == [0, 0, 0, 0]


def test_counted_labels_are_unbiased() -> None:
    world = classification(40_000, source="wine", n_public=30)
    agent = histogram(world, exploration=0.3, depth=1, refit=1e6)
    before = agent.counts.sum(axis=0)
    play(world, agent, seed=0)
    counted = (agent.counts.sum(axis=0) - before) / 40_000
    world.reset(seed=0)
    truth = np.bincount(world.serve(np.zeros(40_000, int)).optimal_action, minlength=3) / 40_000
    assert counted == pytest.approx(truth, abs=0.02)


def test_exploration_has_its_rate() -> None:
    agent = unit_square([[0.1]], [2], n_labels=4, depth=1, exploration=0.2)
    actions = agent.select_action(np.full((20_000, 1), 0.1))
    assert np.bincount(actions, minlength=4) / 20_000 == pytest.approx([0.05, 0.05, 0.85, 0.05], abs=0.01)


def test_default_exploration_depends_on_the_number_of_labels() -> None:
    assert unit_square([[0.1]], [0]).exploration == 0
    assert unit_square([[0.1]], [0], n_labels=3).exploration == 0.05


@pytest.mark.wide_at("wine", "digits")
@pytest.mark.parametrize("source", ["lpct-synthetic", "digits", "wine"])
def test_blocks_and_steps_give_the_same_run(source: str) -> None:
    runs = []
    for world in (classification(USERS, source=source), gym.Wrapper(classification(USERS, source=source))):
        agent = histogram(world)
        result = play(world, agent, seed=5)
        runs.append((result.reward, agent.counts, agent.majority))
    for block, step in zip(*runs, strict=True):
        assert np.array_equal(block, step)


@pytest.mark.parametrize("source", ["lpct-synthetic", "digits"])
def test_a_saved_agent_goes_on_bit_for_bit(source: str, tmp_path: Any) -> None:
    world = classification(USERS, source=source)
    agent = histogram(world, seed=4)
    play(world, agent, 300, seed=2)
    save(agent, tmp_path / "agent.npz")
    copy = load(tmp_path / "agent.npz", world)
    first, second = (play(world, one, 300, seed=3).reward for one in (agent, copy))
    assert np.array_equal(first, second)


def test_memory_does_not_grow_with_the_users() -> None:
    def size(agent: Histogram) -> int:
        return sum(array.nbytes for array in agent.state()[0].values())

    world = classification(20_000)
    agent = histogram(world)
    before = size(agent)
    play(world, agent, seed=0)
    assert size(agent) == before


def test_accuracy_on_the_synthetic_source() -> None:
    world = classification(50_000)
    result = play(world, histogram(world), seed=0, checkpoints=[45_000, 50_000])
    assert np.diff(result.reward)[0] / 5000 >= 0.74


def test_feedback_out_of_range_is_right_or_wrong() -> None:
    agent = unit_square([[0.1]], [0], depth=1)
    agent.update(np.full((3, 1), 0.9), np.ones(3, int), np.array([1e300, -1e300, 7]))
    assert agent.counts[1].tolist() == [1, 2]


def test_only_unit_cubes_with_public_data_are_played() -> None:
    linear = gym.make("privbandit/Linear-v0")
    assert not can_play("histogram", linear) and can_play("histogram", classification(USERS))
    with pytest.raises(ValueError, match="histogram plays classification"):
        make("histogram", linear)
    with pytest.raises(ValueError, match=r"contexts in \[0, 1\]\^d"):
        make("histogram", FlattenContext(linear))
    with pytest.raises(ValueError, match="Histogram needs an environment with public_data; got None"):
        cube = Box(0, 1, (2,))
        Histogram(cube, Discrete(2), Histogram.Config(), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"depth": 0}, "depth must be an integer >= 1; got 0"),
        ({"depth": 25}, "depth must be at most 24; got 25"),
        ({"exploration": 1.5}, r"exploration must lie in \[0, 1\]; got 1.5"),
        ({"refit": 1.0}, "refit must be > 1; got 1.0"),
    ],
)
def test_bad_settings_are_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("histogram", classification(USERS), **config)
