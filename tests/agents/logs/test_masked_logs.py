"""Logs of worlds whose arms come and go: masks are written, and values are right by them."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import polars as pl
import pytest
from privbandit_agents import Explore, Log, dr, ips, log, make, play, private_value, snips, to_obp
from privbandit_agents.base import state
from privbandit_agents.base.present import choose_present
from privbandit_agents.logs.record import ARRAYS

from privbandit_envs import Delay, DelayFeedback
from privbandit_envs.changing.masks import masks_of

LINEAR: dict[str, Any] = {"id": "privbandit/Linear-v0", "n_arms": 4, "dim": 2, "horizon": 3000}
LABELS: dict[str, Any] = {"id": "privbandit/Classification-v0", "source": "digits", "horizon": 200}
AVAILABLE = 0.5
Law = Callable[[Any, Any], Any]


def world(given: dict[str, Any] = LINEAR, **more: Any) -> Any:
    return gym.make(**{**given, "available": AVAILABLE, **more}).unwrapped


def true_value(env: Any, law: Law) -> float:
    """The sum over masks (each arm alone, and one in any case), contexts and arms."""
    contexts, total = env.problem.support().contexts, 0.0
    for mask in itertools.product([False, True], repeat=4):
        if size := sum(mask):
            chance = AVAILABLE**size * (1 - AVAILABLE) ** (4 - size) + (size == 1) * (1 - AVAILABLE) ** 4 / 4
            chances = np.asarray(law(contexts, np.tile(mask, (len(contexts), 1))))
            total += chance * (chances * env.problem.means(contexts)).sum(axis=1).mean()
    return total


@pytest.fixture(scope="module")
def played() -> tuple[Any, Log, Any]:
    """A world with eight contexts, a log of it, and a policy that learned from earlier users."""
    env = world(support=8)
    judged = make("explore-linucb", env, seed=5, share=0.2)
    play(env, judged, 300, seed=1)
    return env, log(env, Explore(make("jdp-linucb", env, epsilon=1.0, seed=2), 0.5, 2), 2600), judged


def fixed(contexts: Any) -> Any:
    """Chances that know of no mask."""
    return np.tile([0.4, 0.3, 0.2, 0.1], (len(contexts), 1))


POLICIES: dict[str, Callable[[Any], tuple[Any, Law]]] = {
    "agent": lambda judged: (judged, lambda x, m: judged.probabilities(x, mask=m)),
    "function": lambda judged: (fixed, lambda x, m: fixed(x) * m / (fixed(x) * m).sum(axis=1, keepdims=True)),
}


@pytest.mark.parametrize("kind", POLICIES)
def test_values_on_masked_logs_are_those_of_the_closed_form(played: tuple[Any, Log, Any], kind: str) -> None:
    """Within four standard errors, and what forgets the masks is not."""
    env, logged, judged = played
    policy, law = POLICIES[kind](judged)
    truth = true_value(env, law)
    assert logged.masks is not None and 0.4 < logged.masks.mean() < 0.7
    estimates = [ips(logged, policy), snips(logged, policy), dr(logged, policy)]
    estimates.append(private_value(logged, policy, epsilon=20.0, rng=np.random.default_rng(0)))  # type: ignore[arg-type]
    for found in estimates:
        assert abs(found.value - truth) < 4 * found.error and found.error < 0.06
    shifted = dataclasses.replace(logged, rewards=logged.rewards + 1)
    assert abs(ips(shifted, policy).value - truth - 1) < 4 * ips(shifted, policy).error
    with pytest.raises(ValueError, match="propensity 1"):  # users with one arm
        ips(dataclasses.replace(shifted, masks=None), policy)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("uniform", LINEAR, {}),
    ("uniform", LABELS, {}),
    ("epsilon-greedy", LINEAR, {"exploration": 0.5}),
    ("squarecb", LINEAR, {}),
    ("squarecb", LABELS, {}),
    ("regcb", LINEAR, {"variant": "elimination"}),
    ("regcb", LABELS, {"variant": "elimination"}),
    ("tree-all", LABELS, {"exploration": 0.5}),
    ("lints", LINEAR, {}),
    ("explore-linucb", LINEAR, {"share": 0.5}),
    ("explore-lpct", LABELS, {"share": 0.5}),
    ("explore-ldp-greedy", LINEAR, {"share": 0.5}),
]


@pytest.mark.wide_at("squarecb-given4-*", "regcb-given6-*", "lints-*")
@pytest.mark.parametrize(("name", "given", "config"), CASES)
def test_probabilities_are_the_frequencies_among_the_arms_that_are_present(
    name: str, given: dict[str, Any], config: dict[str, Any]
) -> None:
    """They are exact but for lints, and so they are without masks."""
    env = world(given)
    agent = make(name, env, seed=0, **config)
    play(env, agent, 50, seed=0)
    contexts, masks = env.upcoming(3), env.action_masks(3)
    bare = np.asarray(agent.probabilities(contexts, draws=2000, rng=np.random.default_rng(1)))
    drawn = np.asarray(agent.select_action(np.repeat(contexts, 2000, axis=0))).reshape(3, 2000, 1)
    assert np.abs((drawn == np.arange(masks.shape[1])).mean(axis=1) - bare).max() < 5 * np.sqrt(2 * 0.25 / 2000)
    law = agent.probabilities(contexts, draws=2000, rng=np.random.default_rng(1), mask=masks)
    values, n = np.asarray(law), 2000
    assert np.allclose(values.sum(axis=1), 1) and (values[~masks] == 0).all()
    assert (law.error is None) == (name != "lints")
    if law.error is not None:
        assert (law.error[~masks] == 0).all() and (law.error[masks] > 0).all()
    _, arms = choose_present(agent, np.repeat(contexts, n, axis=0), np.repeat(masks, n, axis=0))
    seen = (np.asarray(arms).reshape(3, n, 1) == np.arange(masks.shape[1])).mean(axis=1)
    assert np.abs(seen - values).max() < 5 * np.sqrt(2 * 0.25 / n)
    if name.startswith("explore"):
        least = 0.5 / masks.sum(axis=1, keepdims=True)
        assert (values >= np.where(masks, least, 0.0) - 1e-12).all(), "uniform over those that are there"
        assert (values[masks] >= agent.least_propensity).all()  # type: ignore[attr-defined]
    absent = (~masks).argmax(axis=1)
    assert (agent.propensities(contexts, absent, draws=20, mask=masks)[~masks.all(axis=1)] == 0).all()


@pytest.mark.wide
def test_a_masked_log_is_the_run_of_play_through_wrappers_too() -> None:
    for name in ("explore-jdp-linucb", "uniform"):
        env = world()
        agents = [make(name, env, seed=3) for _ in range(3)]
        result = play(env, agents[0], 200, seed=5, by_counts=False)
        blocks = log(env, agents[1], 200, seed=5)
        steps = log(gym.Wrapper(env), agents[2], 200, seed=5)
        assert blocks.rewards.sum() == result.reward[-1]
        assert all(np.array_equal(array, steps.arrays[key]) for key, array in blocks.arrays.items())
        assert blocks.masks is not None and blocks.masks[np.arange(200), blocks.actions].all()
        env.reset(seed=5)
        assert np.array_equal(blocks.masks, env.action_masks(200))
        if name == "uniform":
            assert np.array_equal(blocks.propensities, 1 / blocks.masks.sum(axis=1))


def test_late_reports_come_with_the_masks_of_their_users() -> None:
    """With a delay of 0 an agent that reads masks learns what it learns without the wrapper."""
    env = world(LABELS)
    for name in ("tree-all", "explore-lpct"):
        bare, late = (make(name, env, seed=1) for _ in range(2))
        play(env, bare, 150, seed=0, by_counts=False)
        play(DelayFeedback(env, 0), late, 150, seed=0)
        probe = env.upcoming(40)
        assert np.array_equal(bare.select_action(probe), late.select_action(probe))
    delayed = DelayFeedback(world(), Delay(5))
    logged = log(delayed, make("explore-linucb", delayed, seed=0), 60, seed=0)
    assert logged.masks is not None and not logged.masks.all()


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_masks_come_back_from_files_and_old_files_have_none(tmp_path: Path, ending: str) -> None:
    env = world()
    logged = log(env, make("uniform", env, seed=0), 30, 1)
    path = tmp_path / f"log.{ending}"
    logged.write(path)
    again = Log.read(path)
    assert again.masks is not None and logged.masks is not None and again.masks.dtype == bool
    assert np.array_equal(again.masks, logged.masks) and again.about == logged.about
    some = again[3:9].masks
    assert some is not None and np.array_equal(some, logged.masks[3:9])
    old = {name: getattr(logged, name) for name in ARRAYS}
    Log(**old, about=logged.about).write(path)
    kept = state.read(path)[0] if ending == "npz" else pl.read_parquet(path).columns
    assert "masks" not in kept and Log.read(path).masks is None


def test_the_open_bandit_pipeline_gets_masks() -> None:
    env = world()
    feedback = to_obp(log(env, make("uniform", env, seed=0), 30, 1))
    assert feedback["action_mask"].shape == (30, 4) and feedback["n_actions"] == 4
    assert np.array_equal(feedback["pscore"], 1 / feedback["action_mask"].sum(axis=1))


def wrong() -> dict[str, tuple[Callable[[], object], type[Exception], str]]:
    env = world()
    logged = log(env, make("uniform", env, seed=0), 12, 0)
    assert logged.masks is not None
    agent, x, m, rows = make("linucb", env, seed=0), logged.contexts, logged.masks, np.arange(12)
    emptied, taken, half = m.copy(), m.copy(), m.astype(float)
    emptied[3], taken[rows, logged.actions], half[2] = False, False, 0.5
    sets: Any = gym.make("privbandit/Assortment-v0", n_items=5, capacity=2, horizon=20).unwrapped
    with_sets = log(sets, make("uniform", sets, seed=0), 5, 0)
    absent = np.eye(4)[(~m).argmax(axis=1)]
    absent[m.all(axis=1)] = 0.25
    return {
        "nothing": (lambda: agent.probabilities(x, mask=emptied), ValueError, "with a 1 for every user"),
        "shape": (lambda: agent.probabilities(x, mask=m[:, :3]), ValueError, r"shape \(12, 4\)"),
        "users": (lambda: agent.propensities(x, logged.actions, mask=m[:5]), ValueError, r"shape \(12, 4\)"),
        "half": (lambda: agent.probabilities(x, mask=half), ValueError, "0 or 1"),
        "none": (lambda: agent.probabilities(x, mask="all"), ValueError, "0 or 1"),  # type: ignore[arg-type]
        "nan": (lambda: masks_of([np.nan, 1.0], (2,)), ValueError, "0 or 1"),
        "loop": (lambda: choose_present(agent, x[0], np.zeros(4)), ValueError, "action_mask must"),
        "log-nothing": (lambda: dataclasses.replace(logged, masks=emptied), ValueError, "masks must be 0 or 1"),
        "log-shape": (lambda: dataclasses.replace(logged, masks=m[0]), ValueError, r"shape \(12, "),
        "log-narrow": (lambda: dataclasses.replace(logged, masks=m[:, :1]), ValueError, "masks must"),
        "log-absent": (lambda: dataclasses.replace(logged, masks=taken), ValueError, "masks must"),
        "sets": (lambda: dataclasses.replace(with_sets, masks=np.ones((5, 5), bool)), ValueError, "sets"),
        "policy-absent": (lambda: ips(logged, absent), ValueError, "none of those of user"),
        "policy-wide": (lambda: ips(logged, np.full((12, 5), 0.2)), ValueError, "a probability for every arm"),
        "policy-nan": (lambda: ips(logged, np.full((12, 4), np.nan)), ValueError, "add up to 1"),
        "sets-mask": (
            lambda: make("ucb-mnl", sets).propensities(with_sets.contexts, with_sets.actions, mask=m),
            TypeError,
            "sets",
        ),
    }


@pytest.mark.parametrize("case", wrong())
def test_wrong_masks_are_one_sentence(case: str) -> None:
    call, kind, said = wrong()[case]
    with pytest.raises(kind, match=said) as told:
        call()
    assert len(str(told.value)) < 250 and str(told.value).count("\n") == 0


@pytest.mark.wide_at(
    "regcb-given6-*", "explore-squarecb-*", "squarecb-given4-*", "greedy-*", "explore-ldp-*", "lints-given8-*"
)
@pytest.mark.parametrize(
    ("name", "given", "config"), [*CASES, ("greedy", LABELS, {}), ("explore-squarecb", LABELS, {})]
)
def test_what_one_user_shows_moves_no_other_users_law(name: str, given: dict[str, Any], config: dict[str, Any]) -> None:
    """Hostile contexts, some entries or all of them; where the law is exact it is the frequencies for these, too."""
    env = world(given)
    agent = make(name, env, seed=0, **config)
    play(env, agent, 50, seed=0)
    contexts = np.asarray(env.upcoming(4), np.float64)
    right = np.asarray(agent.probabilities(contexts, draws=200, rng=np.random.default_rng(1)))
    masks = env.action_masks(4)
    here = np.asarray(agent.probabilities(contexts, draws=200, rng=np.random.default_rng(1), mask=masks))
    for number in (math.nan, math.inf, -math.inf, 1e160, -1e308):
        for part in (..., -1, 0):
            wild = contexts.copy()
            wild[1][part] = number
            law = agent.probabilities(wild, draws=200, rng=np.random.default_rng(1))
            assert np.array_equal(np.asarray(law)[[0, 2, 3]], right[[0, 2, 3]])
            assert np.allclose(law.sum(axis=1), 1) and np.isfinite(law).all() and (law >= 0).all()
            present = np.asarray(agent.probabilities(wild, draws=200, rng=np.random.default_rng(1), mask=masks))
            assert np.array_equal(present[[0, 2, 3]], here[[0, 2, 3]]) and (present[~masks] == 0).all()
            choose_present(agent, wild, masks)
            if law.error is None:
                drawn = np.asarray(agent.select_action(np.repeat(wild[1:2], 400, axis=0)))
                share = (drawn[:, None] == np.arange(law.shape[1])).mean(axis=0)
                assert np.abs(share - np.asarray(law)[1]).max() < 5 * np.sqrt(0.25 / 400)
