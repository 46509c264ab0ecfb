"""What the classifiers share: the order of users, feedback that makes no sense, and public data alone."""

import numpy as np
import pytest
from given import classification
from privbandit_agents import make, play
from privbandit_agents.base.agent import NEVER
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.testing.runs import same_state, without_generators

USERS = 600

CLASSIFIERS = ("tree-all", "histogram")


@pytest.mark.wide_at("histogram-digits")
@pytest.mark.parametrize("source", ["lpct-synthetic", "digits"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_group_of_users_across_refits_is_those_users_in_order(name: str, source: str) -> None:
    world = classification(USERS, source=source)
    together, alone = (make(name, world, seed=0) for _ in range(2))
    world.reset(seed=0)
    contexts = world.upcoming(400)
    truth = world.serve(np.zeros(400, int)).optimal_action
    answers = np.where(np.arange(400) % 3 == 0, 0, truth)
    right = (answers == truth).astype(float)
    assert together.frozen_rounds() < 100
    together.update(contexts, answers, right)
    for user in zip(contexts, answers, right, strict=True):
        alone.update(*user)
    assert same_state(together, alone)


@pytest.mark.parametrize("feedback", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_feedback_that_is_not_finite_counts_as_nothing(name: str, feedback: float) -> None:
    world = classification(USERS)
    agent, others = make(name, world, seed=0), make(name, world, seed=0)
    contexts = np.stack([world.reset(seed=0)[0]] * 3)
    with pytest.warns(IgnoredRecord):
        agent.update(contexts[0], 0, feedback)
    with pytest.warns(IgnoredRecord):
        agent.update(contexts, np.zeros(3, int), np.array([1, feedback, 0]))
    others.update(contexts[:2], np.zeros(2, int), np.array([1, 0]))
    (arrays, values), (expected, _) = agent.state(), others.state()
    assert values["users"] == 4 and arrays.keys() == expected.keys()
    assert all(np.array_equal(arrays[key], expected[key]) for key in arrays)


@pytest.mark.parametrize("name", ["tree-public", "histogram"])
def test_public_data_alone_leave_the_agent_as_it_is(name: str) -> None:
    world = classification(USERS, source="digits")
    agent, untouched = (make(name, world, seed=0, learn_from="public") for _ in range(2))
    assert agent.frozen_rounds() == NEVER
    play(world, agent, seed=0)
    (arrays, values), (arrays_before, values_before) = without_generators(agent), without_generators(untouched)
    assert values == values_before and all(np.array_equal(arrays[key], arrays_before[key]) for key in arrays_before)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_what_to_learn_from_is_checked(name: str) -> None:
    with pytest.raises(ValueError, match=r"learn_from must be one of all, public; got 'al' \(did you mean 'all'\?\)"):
        make(name, classification(USERS), learn_from="al")
