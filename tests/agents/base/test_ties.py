"""Ties: who has several best arms gets each as likely, of every agent, in blocks and one by one."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, make
from privbandit_agents.base.agent import LearningAgent
from privbandit_agents.base.present import choose_present, serving
from privbandit_agents.base.ties import Ties, Told, best, largest, redrawn
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.registry import can_play
from scipy.stats import chi2

from privbandit_envs.spaces import Assortments, top_k

WORLDS: dict[str, dict[str, Any]] = {
    "linear": {"id": "privbandit/Linear-v0", "n_arms": 4, "dim": 3},
    "sparse": {"id": "privbandit/SparseLinear-v0", "n_arms": 3, "dim": 20},
    "clicks": {"id": "privbandit/Clicks-v0", "n_arms": 5, "dim": 2},
    "smooth": {"id": "privbandit/Smooth-v0"},
    "arms": {"id": "privbandit/Bandit-v0", "n_arms": 7},
    "labels": {"id": "privbandit/Classification-v0", "source": "wine"},
    "two labels": {"id": "privbandit/Classification-v0"},
    "assortments": {"id": "privbandit/Assortment-v0", "n_items": 6, "capacity": 2},
}
ENVS = {name: gym.make(**world) for name, world in WORLDS.items()}
PAIRS = [
    (name, world)
    for name, entry in AGENTS.items()
    if not issubclass(entry.load(), Auto | LearningAgent) and name != "psgd-network"  # which draws its first network
    for world, env in ENVS.items()
    if can_play(name, env)
]
FIRST = {name: world for name, world in reversed(PAIRS)}
CASES = [pytest.param(*pair, marks=() if FIRST[pair[0]] == pair[1] else pytest.mark.wide) for pair in PAIRS]
RUNS = {"dp-se", "adap-klucb", "ldp-ucb", "ldp-clicks", "smooth-ldp"}
"""Agents that let a run of users share one arm: another one for every seed."""


def undecided(name: str, world: str, seed: int = 0) -> Any:
    """Return an agent that knows nothing: public data are balanced for a tree, and none for others."""
    env = ENVS[world]
    if not AGENTS[name].load().uses_public_data:
        return make(name, env, seed=seed)
    spaces, labels = (env.observation_space, env.action_space), int(env.action_space.n)  # type: ignore[attr-defined]
    width, each = env.observation_space.shape, 10 if name.startswith("tree") else 0
    public = np.full((labels * each, *width), 0.5), np.tile(np.arange(labels), each)  # type: ignore[misc]
    kind = AGENTS[name].load()
    return kind(*spaces, kind.Config(), np.random.default_rng(seed), public)


def alike(world: str, users: int) -> Any:
    """Return contexts (users, ...) in which all arms or items look the same."""
    shape = ENVS[world].observation_space.shape or ()
    if not shape:
        return np.zeros(users, int)
    contexts = np.full((users, *shape), 0.25, ENVS[world].observation_space.dtype)
    if world == "assortments":
        contexts[..., -1] = 1.0
    return contexts


def counted(actions: Any, world: str) -> Any:
    """Return how often each arm, or each set, was chosen."""
    space = ENVS[world].action_space
    if isinstance(space, Assortments):
        n = space.n_items
        kinds = [a * n + b for a in range(n) for b in range(a + 1, n)]
        found = np.flatnonzero(np.asarray(actions)) % n
        return np.array([(found.reshape(-1, 2) @ [n, 1] == kind).sum() for kind in kinds])
    return np.bincount(np.asarray(actions, int), minlength=int(space.n))  # type: ignore[attr-defined]


def uniform(counts: Any, chance: float = 1e-6) -> bool:
    """Return whether counts pass the test of being uniform that honest ones fail with this chance."""
    expected = counts.sum() / len(counts)
    return bool(((counts - expected) ** 2 / expected).sum() < chi2.isf(chance, len(counts) - 1))


@pytest.mark.every_agent
@pytest.mark.wide_at("smooth-ldp-*")
@pytest.mark.parametrize("users", [120, pytest.param(10_000, marks=pytest.mark.wide)])
@pytest.mark.parametrize(("name", "world"), CASES)
def test_first_choices_are_uniform_in_blocks_and_one_by_one(name: str, world: str, users: int) -> None:
    """False alarms: one in a million each, two a case."""
    if name in RUNS:
        firsts = [
            int(undecided(name, world, seed).select_action(alike(world, 1)[0])) for seed in range(min(users, 200))
        ]
        assert uniform(counted(firsts, world))
        return
    block, steps, contexts = undecided(name, world), undecided(name, world), alike(world, users)
    together = np.asarray(block.select_action(contexts))
    alone = np.array([steps.select_action(context) for context in contexts])
    assert uniform(counted(together, world)) and uniform(counted(alone, world))
    assert np.array_equal(together, alone) or name in ("lints", "neural-linear")
    law = block.probabilities(contexts[:2]) if world != "assortments" else None
    if law is not None and law.error is None:
        assert np.allclose(law, 1 / law.shape[1])


@pytest.mark.parametrize(
    ("name", "world"), [case for case in CASES if case.values[0] not in RUNS and case.values[1] != "assortments"]
)
def test_first_choices_are_uniform_over_the_arms_that_are_present(name: str, world: str) -> None:
    """False alarms: one in a million each, two a case; and the laws of two users are exact, or within five errors."""
    users, (block, steps) = 120, (undecided(name, world) for _ in range(2))
    arms = int(block.action_space.n)
    mask = np.arange(arms) % 3 != 1 if arms > 2 else np.array([False, True])
    contexts, masks = alike(world, users), np.tile(mask, (users, 1))
    together = np.asarray(choose_present(block, contexts, masks)[1])
    alone = np.array([choose_present(steps, context, mask)[1] for context in contexts])
    for counts in (counted(together, world), counted(alone, world)):
        assert not counts[~mask].any() and (mask.sum() == 1 or uniform(counts[mask]))
    assert np.array_equal(together, alone) or name in ("lints", "neural-linear")
    law = block.probabilities(contexts[:2], mask=masks[:2])
    error = 5 * law.error if law.error is not None else 1e-12
    assert (np.abs(law - mask / mask.sum()) <= error).all()


@pytest.mark.every_agent
@pytest.mark.parametrize(("name", "world"), [case for case in CASES if case.values[0] not in RUNS])
def test_an_index_that_is_nan_locks_no_arm(name: str, world: str) -> None:
    """Features of NaN for one arm, or for all where they share them; of 60 users no arm has all, one by one."""
    agent, contexts = undecided(name, world), alike(world, 60).astype(float)
    odd = contexts.ndim == 3
    if contexts.ndim > 1:
        contexts[:, 1 if odd else slice(None)] = math.nan
    counts = counted([agent.select_action(context) for context in agent.contexts_of(contexts)], world)
    assert counts.max() < 60 and (not odd or world == "assortments" or counts[1] < 40)


@pytest.mark.parametrize(
    ("name", "world"), [("linucb", "clicks"), ("ucb1", "arms"), ("prec-ts", "linear"), ("lplr", "linear")]
)
def test_users_by_counts_share_ties_out(name: str, world: str) -> None:
    agent = undecided(name, world)
    rows, arms, counts = agent.select_counts(alike(world, 3), np.array([9000, 0, 6000]))
    assert set(rows.tolist()) == {0, 2} and counts[rows == 0].sum() == 9000
    shared = np.zeros((3, int(agent.action_space.n)))
    shared[rows, arms] = counts
    assert uniform(shared[0]) and uniform(shared[2])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("arms", [1, 2, 5, 16, 40])
def test_the_best_arm_is_the_largest_that_is_there(arms: int, dtype: Any) -> None:
    """One by one and in blocks; with NaN, infinities and masks; values apart by rounding are equal."""
    rng = np.random.default_rng(arms)
    values = rng.choice([0.0, 0.5, 1.0, math.nan, math.inf, -math.inf], (400, arms)).astype(dtype)
    values[:40] = 1 + np.finfo(dtype).eps * rng.integers(0, 3, (40, arms))
    masks = rng.random((400, arms)) < 0.7
    masks[np.arange(400), rng.integers(0, arms, 400)] = True
    for present in (None, masks):
        block, steps = Ties(3), Ties(3)
        block.present = present
        together = best(values, block)
        for user, row in enumerate(values):
            steps.present = None if present is None else present[user]
            assert best(row, steps) == together[user] and isinstance(best(row, Told(0.5, steps.present)), np.int64)
        equal = largest(values, present)
        assert equal[np.arange(400), together].all() and block.users == steps.users == 400
        assert present is None or masks[np.arange(400), together].all()
        assert (equal[:40] == (True if present is None else masks[:40])).all()


def test_items_that_are_worth_the_same_are_drawn_alike() -> None:
    """Two of five items that tie for the last places, beside one that is ahead; no item has more than its share."""
    values = np.tile([3.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0], (30_000, 1))
    sets = redrawn(top_k(values, 3), values, Ties(1))
    assert (sets.sum(axis=1) == 3).all() and sets[:, 0].all() and not sets[:, 1].any()
    kinds = np.unique(sets[:, 2:] @ 2 ** np.arange(5), return_counts=True)[1]
    assert len(kinds) == 10 and uniform(kinds)
    alone, ties = [], Ties(1)
    for row in values[:50]:
        alone.append(redrawn(top_k(row[None], 3), row[None], ties)[0])
    assert np.array_equal(alone, sets[:50])


def test_people_who_report_and_who_do_not_have_the_same_ties_however_they_are_grouped() -> None:
    env = gym.make("privbandit/Clicks-v0", n_arms=5, dim=2)
    contexts, person = alike("clicks", 300), np.arange(300) // 2
    block, steps = (make("jdp-linucb", env, seed=0, people=100) for _ in range(2))
    with serving(block, None, person):
        together = np.asarray(block.select_action(contexts))
    alone: list[Any] = []
    for one, context in zip(person, contexts, strict=True):
        with serving(steps, None, np.array([one])):
            alone.append(steps.select_action(context))
    assert len(set(together.tolist())) == 5 and block.ties.users == steps.ties.users == 300
    assert np.array_equal(together, alone)
