"""What one user sends never decides how another user of the group is read, counted, served or refused."""

import math
import warnings
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, LocalAgent
from privbandit_agents import make as built
from privbandit_agents.audits.views.reports import encoded
from privbandit_agents.base.agent import LearningAgent
from privbandit_agents.base.labels import LabelAgent
from privbandit_agents.base.present import choose_present
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.testing.runs import released, same_state
from privbandit_agents.zoo.registry import can_play


def make(name: str, env: Any, **given: Any) -> Any:
    return built(name, env, **given)


WORLDS: dict[str, dict[str, Any]] = {
    "privbandit/Linear-v0": {"n_arms": 2, "dim": 3},
    "privbandit/SparseLinear-v0": {"n_arms": 3, "dim": 6, "sparsity": 2},
    "privbandit/Assortment-v0": {"n_items": 4, "capacity": 2, "dim": 2},
    "privbandit/Classification-v0": {},
}
USERS, BAD = 12, (3, 10)
KINDS: dict[str, Any] = {
    "text": "secret-7",
    "None": None,
    "complex": 7j,
    "401 digits": 10**400,
    "half": np.float16(0.1),
    "integer": 1,
    "boolean": True,
    "a double among floats": 0.1,
    "ragged": [[0.5], [0.5, 0.5]],
    "nested": [[[[0.5]]]],
    "empty": [],
    "of wrong length": [0.5] * 7,
    "a long double": np.longdouble("0.1"),
}
OURS = {
    name: entry.load()
    for name, entry in AGENTS.items()
    if not name.startswith("auto") and not issubclass(entry.load(), LearningAgent)
}
PAIRS = [
    (name, env_id)
    for env_id, given in WORLDS.items()
    for env in [gym.make(env_id, horizon=2000, **given)]
    for name in OURS
    if can_play(name, env)
]
LABELS = [name for name, kind in OURS.items() if issubclass(kind, LabelAgent)]


def filled(shape: tuple[int, ...], value: Any) -> Any:
    return [filled(shape[1:], value) for _ in range(shape[0])] if shape else value


def variants(part: Any, bad: Any) -> Iterator[Any]:
    """Yield one user's part with something in its place, in all of its entries, and in one of them."""
    yield bad
    if np.ndim(part):
        yield filled(np.shape(part), bad)
        lists = np.asarray(part).tolist()
        inner = lists[0] if np.ndim(part) == 2 else lists
        inner[0] = bad
        yield lists


@pytest.fixture(scope="module")
def groups() -> dict[str, Any]:
    """Return for each world the environment and well-formed records of a group, features being 0 and 1 as in JSON."""
    made = {}
    for env_id, given in WORLDS.items():
        env: Any = gym.make(env_id, horizon=2000, **given).unwrapped
        env.reset(seed=0)
        contexts = (env.upcoming(USERS) > 0.3).astype(int).tolist()
        actions = np.asarray(make("uniform", env, seed=0).select_action(env.upcoming(USERS)))
        feedback = env.serve(actions).feedback.tolist()
        made[env_id] = env, (contexts, actions.tolist(), feedback)
    return made


def cases(records: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield groups in which two users send something else in all parts of their records, and what each of them does."""
    kinds = list(KINDS)
    for kind, other in zip(kinds[::2], [*kinds[1::2], kinds[0]], strict=True):
        for form in range(3):
            sent = [list(column) for column in records]
            for column in sent:
                for user, bad in zip(BAD, (KINDS[kind], KINDS[other]), strict=True):
                    ways = list(variants(column[user], bad))
                    column[user] = ways[min(form, len(ways) - 1)]
            yield f"{kind} and {other}, form {form}", sent


def trained(name: str, env: Any) -> Any:
    """Return an agent that has learned from some users, at a budget at which it has learned something."""
    agent = make(name, env, seed=4, **({"epsilon": 100.0} if hasattr(OURS[name].Config, "epsilon") else {}))
    env.reset(seed=1)
    for _ in range(5):
        contexts = env.upcoming(60)
        actions = np.asarray(agent.select_action(contexts))
        agent.update(contexts, actions, env.serve(actions).feedback)
    return agent


def reports_of(agent: Any, sent: list[Any], seed: int) -> Any:
    agent.rng = np.random.default_rng(seed)
    return agent.randomize(*agent.records_of(*sent))


@pytest.mark.few_agents
@pytest.mark.wide_at("kernel-*", "lpct-?-*", "psgd-*", "*-privbandit/SparseLinear*")
@pytest.mark.parametrize(("name", "env_id"), PAIRS)
def test_every_other_user_gets_the_same(name: str, env_id: str, groups: dict[str, Any]) -> None:
    """The same bits of actions and reports, the same count, schedule and fate, for every kind of record."""
    env, records = groups[env_id]
    others = [user for user in range(USERS) if user not in BAD]
    fresh = trained(name, env)
    plain = deepcopy(fresh)
    played = np.asarray(deepcopy(fresh).select_action(records[0]))
    device = isinstance(plain, LocalAgent | ShuffleAgent) and np.ndim(plain.randomize(*plain.records_of(*records))) > 0
    if getattr(fresh, "asks_anew", False) and fresh.frozen_rounds() < USERS:
        device = False  # later users of the group answer what earlier reports have made of the server
    reports = reports_of(plain, records, 5) if device else None
    learned = deepcopy(fresh)
    learned.update(*records)
    with np.errstate(all="ignore"):
        for what, sent in cases(records):
            agent = deepcopy(fresh)
            actions = np.asarray(agent.select_action(sent[0]))
            assert actions.shape == played.shape and np.array_equal(actions[others], played[others]), what
            if reports is not None:
                assert reports_of(agent, sent, 5)[others].tobytes() == reports[others].tobytes(), what
            agent = deepcopy(fresh)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", IgnoredRecord)  # agents without privacy say so
                agent.update(*sent)
            assert counted(agent) == counted(learned), f"{what}: the group counts otherwise"
            if encoded(released(agent)) == encoded(released(learned)):  # it may depend on what was released
                assert agent.frozen_rounds() == learned.frozen_rounds(), f"{what}: the schedule moved"


def counted(agent: Any) -> tuple[int, int]:
    """Return how many users an agent has counted, and how many releases or reports its ledger has."""
    ledger = getattr(agent, "ledger", None)
    return int(getattr(agent, "users", 0)), 0 if ledger is None else ledger.releases


@pytest.mark.every_agent
@pytest.mark.wide_at("kernel-*", "*-privbandit/SparseLinear*")
@pytest.mark.parametrize(("name", "env_id"), PAIRS)
def test_a_group_of_bad_records_counts_as_many(name: str, env_id: str, groups: dict[str, Any]) -> None:
    env, records = groups[env_id]
    good = make(name, env, seed=4)
    good.update(*([records[at][0]] * 2 for at in range(3)))
    bads: list[Any] = [None, "secret-7", [1, 2], [[1, 2], [3]], {}, 1j]
    for bad in bads:
        for both in (True, False):
            agent = make(name, env, seed=4)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", IgnoredRecord)
                agent.update([bad, bad if both else records[0][0]], [bad, records[1][0]], [bad, records[2][0]])
            assert counted(agent) == counted(good)


def test_lists_with_anything_in_them_are_served_with_masks_as_well(groups: dict[str, Any]) -> None:
    env, records = groups["privbandit/Linear-v0"]
    masks = np.tile([True, False], (3, 1))
    for name in ("prec-ts", "lplr", "jdp-linucb", "linucb"):
        _, actions = choose_present(make(name, env, seed=0), cast(Any, [records[0][0], None, [[1], "x"]]), masks)
        assert np.asarray(actions).tolist() == [0, 0, 0]


@pytest.mark.every_agent
@pytest.mark.wide_at("kernel-*")
@pytest.mark.parametrize("bad", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("name", LABELS)
def test_labels_are_learned_row_by_row(name: str, bad: Any, groups: dict[str, Any]) -> None:
    env, (contexts, actions, _) = groups["privbandit/Classification-v0"]
    if not can_play(name, env):
        return
    tame, wild = (make(name, env, seed=4) for _ in range(2))
    nothing = [math.nan] * len(contexts[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IgnoredRecord)
        tame.learn_labels([nothing, *contexts[1:]], actions)
        wild.learn_labels([{}, *contexts[1:]], actions)
        assert same_state(tame, wild)
        wild.learn_labels([bad, *contexts[1:]], [bad, *actions[1:]])
        assert counted(wild)[1] in (0, 2 * USERS)
        for x, y in ((contexts[:5], actions[:1]), (contexts[:1], actions[:5])) if hasattr(wild, "ledger") else ():
            before = counted(wild)
            with pytest.raises(ValueError, match="records must be"):
                wild.learn_labels(x, y)
            assert counted(wild) == before
