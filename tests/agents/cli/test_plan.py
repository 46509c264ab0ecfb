"""A plan without a log: worlds of a given rate and gain, and how many users keep half of it."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from commanding import invoke
from privbandit_agents.cli.plan import plan, planned_worlds, users_for_half
from privbandit_agents.experiments.usage import UsageError


@pytest.mark.wide_at("20-0.01-2.0")
@pytest.mark.parametrize(("arms", "rate", "lift"), [(2, 0.3, 0.1), (5, 0.02, 0.25), (20, 0.01, 2.0), (2, 0.1, 0.8)])
def test_worlds_have_the_rate_and_the_gain(arms: int, rate: float, lift: float) -> None:
    made = planned_worlds(arms, rate, lift, 5000, 3, 1, 2)
    one, other = map(made.drawn, range(2))
    assert one.shape == (5000, arms) and not np.array_equal(one, other)
    for table in (one, other):
        assert table.mean() == pytest.approx(rate, rel=1e-4)
        assert table.max(axis=1).mean() / table.mean() - 1 == pytest.approx(lift, rel=1e-3)


def test_users_for_half_lie_between_horizons_or_beyond() -> None:
    horizons = [100, 400, 1600]
    shares = np.array([[0.1] * 4, [0.40, 0.38, 0.41, 0.39], [0.60, 0.62, 0.64, 0.66]])
    between = users_for_half(horizons, shares)
    assert 400 < between.low < 800 < between.high < 1600
    assert users_for_half(horizons, np.full((3, 4), 0.2))[:2] == (1600, 1600)
    assert users_for_half(horizons, np.full((3, 4), 0.9))[:2] == (100, 100)


@pytest.mark.wide
def test_the_command_writes_one_page_and_one_sentence(tmp_path: Path) -> None:
    given = ["--arms", "3", "--rate", ".3", "--lift", ".5", "-n", "400", "--notions", "joint", "--jobs", "1"]
    told = invoke("plan", *given, "--visits", "2", "--out", str(tmp_path))
    assert told.exit_code == 0, told.stderr
    content = json.loads((tmp_path / "plan.json").read_text())
    assert "person, who comes 2 times" in content["headline"] and content["headline"] in " ".join(told.stdout.split())
    assert content["users_for_half"]["joint, epsilon = 1"]["most"] == 400


def test_a_plan_is_one_page_and_one_sentence(tmp_path: Path) -> None:
    found = plan(3, 0.3, 0.5, 160, notions=["joint"], draws=2, out=tmp_path)
    (row,) = found.rows
    assert row.gain.low < row.gain.value < row.gain.high and len(row.shares) == 2
    assert found.headline.startswith("With 3 arms, a rate of 0.3 and a gain of 50.0%") and "\n" not in found.headline
    page = (tmp_path / "plan.html").read_text()
    assert "data:image/png" in page and "users for half" in page and "May be deployed" in page


def test_agents_of_a_plan_are_told_when_feedback_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.experiments.running.engine.LIGHT", math.inf)  # in this process
    found = plan(3, 0.3, 0.5, 320, notions=["joint"], batch=40, draws=2, out=tmp_path)
    assert (
        "feedback after each 40 users" in found.headline
        and "after each 40 users" in (tmp_path / "plan.html").read_text()
    )
    trials = [path.read_text() for path in (tmp_path / "trials").iterdir()]
    assert trials and all('"feedback":{"law":"batch","mean":40}' in one for one in trials)
    with pytest.raises(UsageError, match="map must be one of fourier, interactions, bins; got 'cubes'"):
        plan(3, 0.3, 0.5, 320, mapped="cubes", out=tmp_path)
    with pytest.raises(UsageError, match="batch"):
        plan(3, 0.3, 0.5, 320, batch=0, out=tmp_path)


@pytest.mark.wide
def test_more_users_keep_more(tmp_path: Path) -> None:
    found = plan(3, 0.3, 0.8, 16_000, [4.0], ["joint"], features=2, draws=4, out=tmp_path)
    ((_, half),) = found.half.items()
    assert found.rows[0].gain.value > 0.5 and half.low < 16_000


def test_numbers_that_no_world_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a rate in"):
        plan(5, 1.2, 0.1, 1000, out=tmp_path)
    with pytest.raises(UsageError, match="take a smaller lift"):
        plan(2, 0.5, 0.99, 1000, out=tmp_path)
