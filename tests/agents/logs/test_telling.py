"""What a log can tell before anything is played: findings, a gain that rows show, and how many rows it takes."""

from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng
from privbandit_agents import Log
from privbandit_agents.logs.telling import findings, gain, rows_needed


def clicks(
    n: int, arms: int = 5, rate: float = 0.2, better: float = 0.0, seed: int = 0, logging: str = "even", **more: Any
) -> Log:
    """Return a log in which one arm is better than the others by a share of the rate, and features say nothing."""
    rng = default_rng([seed, arms, n])
    x = rng.normal(size=(n, 2))
    law = np.full((n, arms), 1 / arms)
    if logging == "skewed":
        law = 0.1 / arms + 0.9 * rng.dirichlet(np.ones(arms), size=n)
    elif logging == "fixed":  # no choice if the first feature is positive
        law = np.where(x[:, :1] > 0, np.eye(arms)[0], law)
    actions = np.minimum((law.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), arms - 1)
    rewards = (rng.random(n) < rate * (1 + better * (actions == 1))).astype(float)
    p = law[np.arange(n), actions]
    about = {"uniform": 1 / arms, "arms": [f"gift {arm}" for arm in range(arms)]}
    return Log(x, actions, rewards, p, rewards, np.zeros(n), about, **more)


@pytest.mark.parametrize(
    ("logging", "logs"),
    [("skewed", 20), *(pytest.param(one, 100, marks=pytest.mark.wide) for one in ("even", "skewed", "fixed"))],
)
def test_a_gain_that_is_none_is_shown_seldom_and_one_that_is_there_is_shown(logging: str, logs: int) -> None:
    """One-sided 2.5 %: more than 3 of 20, or 6 of 100, would have a chance of about 1 in 100."""
    shown = [gain(clicks(500, seed=seed, logging=logging)).shown for seed in range(logs)]
    assert sum(shown) <= (3 if logs == 20 else 6)
    assert all(gain(clicks(6000, better=1.5, seed=seed, logging=logging)).shown for seed in range(2))


def test_the_gain_does_not_depend_on_the_order_of_rows() -> None:
    log = clicks(2000, better=1.0)
    order = np.argsort(log.actions, kind="stable")
    again = Log(**{name: array[order] for name, array in log.arrays.items()}, about=log.about)
    one, other = gain(log), gain(again)
    assert one.value == pytest.approx(other.value, abs=1e-9) and one.low == pytest.approx(other.low, abs=1e-9)


def test_the_difference_is_sharper_than_two_intervals() -> None:
    one = gain(clicks(4000, arms=2, better=0.5))
    apart = np.hypot(one.policy.value - one.policy.low, one.own.high - one.own.value)
    assert one.low <= one.value <= one.high and one.value - one.low < 0.95 * apart
    assert one.value == one.policy.value - one.own.value


def test_a_policy_that_the_log_seldom_takes_is_told_of() -> None:
    """Given propensities of 1/2 where the arm never comes for half of the users."""
    rng = default_rng(0)
    x = rng.integers(2, size=(4000, 1)).astype(float)
    actions = np.where(x[:, 0] == 0, 0, rng.integers(2, size=4000))
    rewards = (rng.random(4000) < np.where(actions == 1, 0.8, 0.2)).astype(float)
    log = Log(x, actions, rewards, np.full(4000, 0.5), rewards, np.zeros(4000), {"uniform": 0.5})
    assert gain(log).unsupported > 0.3 and not gain(log).shown


def test_rows_that_are_needed_are_those_of_two_proportions() -> None:
    """Two arms, p = .0046, a lift of .3: about 26,000 rows by simulation; five arms, p = .02, .3: 25,500."""
    for arms, rate, rows in ((2, 0.0046, 26_000), (5, 0.02, 25_500)):
        low, high = rows_needed(clicks(200_000, arms, rate), 0.3)
        assert low < rows < high * 1.1 and high < 1.4 * low
    few, many = rows_needed(clicks(500, 5, 0.02), 0.3)
    assert many > 3 * few, "46 clicks do not know their rate"


def seen(log: Log) -> str:
    return " ".join(map(str, findings(log)))


def test_findings_have_consequences() -> None:
    log = clicks(3000)
    assert "3,000 rows, 5 arms" in seen(log) and "as it should be" in seen(log) and "Warning" not in seen(log)
    rare = clicks(3000, arms=2)
    rare.actions[:3] = 2
    rare.about.update(uniform=1 / 3, arms=["gift 0", "gift 1", "gift 2"])
    assert "Arms with fewer than 10 rows: gift 2. No policy that is judged here takes them." in seen(rare)
    assert "no choice (propensity 1)" in seen(clicks(3000, logging="fixed"))
    wrong = Log(log.contexts, log.actions, log.rewards, log.propensities / 3, log.feedback, log.errors, log.about)
    assert "Warning" in seen(wrong) and "larger than it can be" in seen(wrong)
    guessed = Log(**log.arrays, about=log.about | {"propensities": "estimated from the features"})
    assert "no check can see" in seen(guessed)


def test_copies_of_rows_are_found_and_chance_is_not() -> None:
    log = clicks(2000)
    twice = {name: np.concatenate([array, array[:300]]) for name, array in log.arrays.items()}
    assert "repeat another" in seen(Log(**twice, about=log.about)) and "repeat another" not in seen(log)
    kinds = np.round(log.contexts, 1)  # users who look alike, with arms of their own
    assert "repeat another" not in seen(Log(**{**log.arrays, "contexts": kinds}, about=log.about))


def test_drift_and_people_are_found() -> None:
    log = clicks(4000)
    grown = np.maximum(log.rewards, (np.arange(4000) > 3200) & (np.arange(4000) % 4 == 0))
    drifting = Log(**{**log.arrays, "rewards": grown}, about=log.about | {"in_time": True})
    assert "tomorrow may be another" in seen(drifting)
    assert "Chance explains" in seen(Log(**log.arrays, about=log.about | {"in_time": True}))
    assert "fifth" not in seen(log), "an order that says nothing"
    assert "1,000 persons come up to 4 times" in seen(clicks(4000, people=np.arange(4000) % 1000))


def test_a_column_of_times_puts_rows_in_order() -> None:
    """Rows of a table in any order: the schema's time says which came first."""
    rng = default_rng(0)
    when = rng.permutation(600)
    table = {"day": when, "x": when / 600.0, "arm": rng.choice(["a", "b"], 600), "click": (when > 450).astype(int)}
    fields = [
        {"name": "day", "type": "integer", "privbandit": {"role": "time"}},
        {"name": "x", "type": "number", "privbandit": {"role": "context"}},
        {"name": "arm", "constraints": {"enum": ["a", "b"]}, "privbandit": {"role": "action"}},
        {"name": "click", "type": "integer", "privbandit": {"role": "reward"}},
        {"name": "p", "type": "number", "privbandit": {"role": "propensity"}},
    ]
    log = Log.from_table(table | {"p": np.full(600, 0.5)}, schema={"fields": fields})
    assert (np.diff(log.rewards) >= 0).all() and "tomorrow may be another" in seen(log)
