"""Ranges of settings: at both ends of each an agent runs for several releases; beyond them one sentence refuses it.

``pytest -s -m "wide or not wide" tests/agents/base/test_settings.py`` prints a table of all ends, with the number of
releases of joint agents, and of reports of the others.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, make, play
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.settings import ranges
from privbandit_agents.testing.watchers import Writer
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.entries import FAMILIES, preset_of
from privbandit_agents.zoo.registry import can_play

USERS = 100
PRIVATE = [
    name
    for name, entry in AGENTS.items()
    if entry.notion != "none" and not issubclass(entry.load(), Auto) and not preset_of(name)
]
PLAYED = {
    ("lpct", "min_samples_leaf"): {"partition": "cart"},
    ("lpct-prune", "min_samples_leaf"): {"partition": "cart"},
}
"""What a setting needs besides."""
REFUSED = {
    ("jdp-smooth", "cells"): "above 4,096; take fewer.",
    ("phist", "splits"): "cells, above 4194304; take fewer.",
    ("dp-dqn", "horizon"): "takes horizons up to 100000000",
    ("dpmnl", "horizon"): "keeps every choice",
    ("dpmnl-approx", "horizon"): "keeps every choice",
}
"""Settings whose upper end takes more memory than there is in this world, and the sentence that says so."""
ITERATIONS = {("fliphat", "M"), ("fliphat", "M0")}
"""Their upper ends take long: one estimate of few users is enough."""


def world(name: str, users: int) -> Any:
    return next(env for env_id in FAMILIES.values() if can_play(name, env := gym.make(env_id, horizon=users)))


def ends(name: str) -> Iterator[tuple[str, float]]:
    """Yield every setting of an agent that is a number, and each end of its range."""
    config_class: Any = AGENTS[name].load().Config
    for key, _, one in ranges(config_class):
        for end in one.ends or ():
            if (key, end) != ("horizon", 1):  # fewer users than play
                yield key, end
        if one.infinity:
            yield key, math.inf


def run(name: str, users: int, **settings: Any) -> int:
    """Return how many releases, or reports, an agent makes; what it has learned is finite."""
    env = world(name, users)
    agent = make(name, env, seed=1, **settings)
    writer = Writer()
    if isinstance(agent, CentralAgent):
        agent.watcher = writer
    play(env, agent, seed=1)
    for key, part in agent.state()[0].items():
        assert part.dtype.kind != "f" or np.isfinite(part).all(), f"{name} with {settings}: {key} is not finite"
    return len(writer.notes) if isinstance(agent, CentralAgent) else users


@pytest.mark.few_agents
@pytest.mark.wide_at("kernel-ldp", "dpmnl")
@pytest.mark.parametrize("name", PRIVATE)
def test_an_agent_runs_at_the_ends_of_its_budgets(name: str) -> None:
    budgets = [(key, end) for key, end in ends(name) if key in ("epsilon", "rho")]
    assert [end for key, end in budgets if key == "epsilon"] == [1e-9, 1e9, math.inf]
    for key, end in budgets:
        made = run(name, 40, **{key: end})
        print(f"{name:18} {key:18} {end:<22.10g} {made}")
        assert made or name == "dp-se"  # has long epochs at small budgets


@pytest.mark.wide
@pytest.mark.parametrize("name", PRIVATE)
def test_an_agent_runs_at_both_ends_of_every_setting(name: str) -> None:
    for key, end in ends(name):
        users, given = 4 if (name, key) in ITERATIONS else 200, {key: end, **PLAYED.get((name, key), {})}
        try:
            made: object = run(name, users, **given)
            assert made or end > users or name == "dp-se" or key == "people"  # of whom one is too few
        except ValueError as error:
            made = str(error)
            assert REFUSED[name, key] in made and end > 1
        print(f"{name:18} {key:18} {end:<22.10g} {made}")


@pytest.mark.parametrize("name", PRIVATE)
def test_beyond_a_range_one_sentence_has_the_value_and_the_range(name: str) -> None:
    config_class: Any = AGENTS[name].load().Config
    for key, _, one in ranges(config_class):
        if one.ends is None:
            continue
        low, high = one.ends
        for value in (low - 1 if isinstance(low, int) else low / 10, high * 10, 5e-324, 1e300, -1.0, math.nan):
            if low <= value <= high:
                continue
            with pytest.raises(ValueError, match=rf"^{key} must [^\n]*{re.escape(f'{value}')}[^\n]*\.$"):
                config_class(**{key: value})


@pytest.mark.parametrize("epsilon", [np.int64(1), np.float32(1), np.float64(1), 1])
@pytest.mark.parametrize("name", ["jdp-linucb", "ldp-linucb", "dp-se"])
def test_numbers_of_numpy_are_numbers(name: str, epsilon: Any) -> None:
    agent = make(name, world(name, 10), epsilon=epsilon)
    assert agent.guarantee.epsilon == 1 and "int64" not in repr(agent) and type(agent.config.epsilon) in (int, float)


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [(1e300, "or be infinite; got 1e+300"), (10**400, "at most 1e+300, or infinite; got more")],
    ids=["1e300", "10**400"],
)
def test_a_budget_beyond_floats_is_refused_in_a_true_sentence(epsilon: Any, words: str) -> None:
    for name in ("jdp-linucb", "ldp-linucb", "auto-joint", "auto-local"):
        with pytest.raises(ValueError, match=rf"^epsilon must [^\n]*{re.escape(words)}[^\n]*\.$"):
            make(name, world(name, 10), epsilon=epsilon)
