"""What a device makes of a record before it randomizes: numbers in the cube, and a label or none."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make

NAMES = ("lpct", "phist", "warm-ldp-sgd", "psgd-linear", "pglm")


def device(name: str, source: str = "lpct-synthetic") -> Any:
    return make(name, gym.make("privbandit/Classification-v0", horizon=2000, source=source), seed=0)


@pytest.mark.parametrize("name", NAMES)
def test_features_are_clipped_to_the_cube(name: str) -> None:
    """What is not finite counts as 1/2, in its own coordinate alone."""
    raw = np.array([[math.nan, 0.3], [0.3, math.inf], [-math.inf, 7.0], [-1e308, 1.0]])
    rows = device(name).rows(raw)
    assert np.array_equal(rows, np.array([[0.5, 0.3], [0.3, 0.5], [0.5, 1.0], [0.0, 1.0]], np.float32))


def test_wild_records_are_encoded_as_the_clipped_ones() -> None:
    wild, tame = np.array([[math.nan, 9.0], [-3.0, -math.inf]]), np.array([[0.5, 1.0], [0.0, 0.5]])
    for name in NAMES:
        one, other = (device(name).randomize(x, np.ones(2), np.ones(2)) for x in (wild, tame))
        assert np.array_equal(one, other), name


def test_the_label_of_a_wrong_answer_is_known_only_among_two() -> None:
    action, feedback = np.array([0, 1, 0, 1]), np.array([1.0, 1.0, 0.0, 0.0])
    assert device("lpct").revealed(action, feedback).tolist() == [0, 1, 1, 0]
    assert device("lpct", "wine").revealed(action, feedback).tolist() == [0, 1, -1, -1]


def test_feedback_that_is_not_finite_counts_as_0() -> None:
    feedback = np.array([math.inf, -math.inf, math.nan, 1e308, 0.5])
    assert device("lpct").revealed(np.ones(5, int), feedback).tolist() == [0, 0, 0, 1, 0]


def test_actions_that_do_not_exist_count_as_one_that_does() -> None:
    action = np.array([9.0, -4.0, math.nan, math.inf, -math.inf])
    agent = device("lpct", "wine")
    records = agent.records_of(np.zeros((5, *agent.context_shape)), action, np.ones(5))
    assert agent.revealed(*records[1:]).tolist() == [0, 0, 0, 0, 0]
