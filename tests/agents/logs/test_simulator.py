"""Logs in tables, worlds made of logs, and the command that prices a promise by one."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from commanding import invoke
from numpy.random import default_rng
from privbandit_agents import Log, check_simulator, dr, from_log, ips, make, play, replay
from privbandit_agents.cli.cost import Row, cost, difference, predicted
from privbandit_agents.experiments.results.statistics import Interval
from privbandit_agents.experiments.usage import UsageError
from privbandit_agents.logs.record import estimated_propensities
from privbandit_agents.logs.simulator import LOG_ENV, Simulator, possible_worlds, simulator

import privbandit_envs  # noqa: F401  (registers the environments)
from privbandit_envs import from_table
from privbandit_envs.testing import check_bandit_env

N = 3000


def rows(n: int = N, uniform: bool = False, crossed: bool = False) -> dict[str, Any]:
    """Return a table of decisions among three arms: arm a is best if x is large, arm c never."""
    rng = default_rng(4)
    x, y = rng.normal(size=(2, n))
    law = np.full((n, 3), 1 / 3) if uniform else np.array([0.2, 0.2, 0.2]) + 0.4 * np.eye(3)[rng.integers(3, size=n)]
    arm = np.minimum((law.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), 2)
    effect = np.sign(x * y) if crossed else x
    chance = 0.4 + 0.3 * np.tanh(np.stack([effect, -effect, -2 * np.ones(n)], axis=1))
    click = rng.random(n) < chance[np.arange(n), arm]
    return {
        "x": x,
        "y": y,
        "arm": np.array(["a", "b", "c"])[arm],
        "click": click.astype(int),
        "p": law[np.arange(n), arm],
        "who": np.arange(n) // 3,
    }


ROLES: dict[str, Any] = {"action": "arm", "reward": "click", "propensity": "p", "person": "who"}


def test_a_table_of_decisions_is_read_as_a_log(tmp_path: Path) -> None:
    table = rows()
    read = Log.from_table(table, **ROLES)
    assert read.contexts.shape == (N, 2) and read.about["features"] == ["x", "y"]
    assert read.about["arms"] == ["a", "b", "c"] and read.about["uniform"] == 1 / 3
    assert [read.about["arms"][arm] for arm in read.actions] == table["arm"].tolist()
    assert read.rewards.tolist() == table["click"].tolist() == read.feedback.tolist()
    assert read.people is not None and np.bincount(read.people).tolist() == [3] * (N // 3)
    for name in ("log.npz", "log.parquet"):
        read.write(tmp_path / name)
        again = Log.read(tmp_path / name)
        assert all(np.array_equal(again.arrays[key], value) for key, value in read.arrays.items())
        assert again.about == read.about and set(again.arrays) == set(read.arrays)
    read.write(tmp_path / "log.csv")
    from_csv = Log.from_table(
        tmp_path / "log.csv", action="action", reward="reward", propensity="propensity", person="person"
    )
    assert np.array_equal(from_csv.contexts, read.contexts) and np.array_equal(from_csv.actions, read.actions)
    assert np.array_equal(from_csv.propensities, read.propensities)
    with pytest.raises(ValueError, match="from_table"):
        Log.read(tmp_path / "log.csv")


def test_features_are_those_that_are_named() -> None:
    read = Log.from_table(rows(), action="arm", reward="click", propensity="p", features=["y"])
    assert read.contexts.shape == (N, 1) and read.people is None
    for bad, word in ((["z"], "'z'"), (["arm"], "'arm'"), ([], "at least one")):
        with pytest.raises(ValueError, match=word):
            Log.from_table(rows(), action="arm", reward="click", propensity="p", features=bad)


def test_a_row_without_a_person_is_refused_or_somebody_of_its_own() -> None:
    table = rows(12) | {"who": np.array(["a", "b", None, "a", "", "b", None, "c", "c", "nan", "a", "b"], object)}
    with pytest.raises(ValueError, match=r"'who' names nobody in row 2.*strangers=True"):
        Log.from_table(table, **ROLES)
    read = Log.from_table(table, **ROLES, strangers=True)
    assert read.people is not None and sorted(np.bincount(read.people).tolist()) == [1, 1, 1, 1, 2, 3, 3]
    assert read.people[0] == read.people[3] == read.people[10] != read.people[2]
    numbers = Log.from_table(table | {"who": np.array([3.0, np.nan] * 6)}, **ROLES, strangers=True)
    assert numbers.people is not None and sorted(np.bincount(numbers.people).tolist()) == [1] * 6 + [6]


def test_missing_propensities_are_estimated_by_models_that_have_not_seen_the_row() -> None:
    """A policy that depends on x alone: estimates have the law's mean weight 1 and are near it."""
    rng = default_rng(0)
    x = rng.normal(size=(4000, 1))
    law = 1 / (1 + np.exp(-1.5 * x[:, 0]))
    arm = (rng.random(4000) < law).astype(np.int64)
    found = estimated_propensities(x, arm, 2)
    true = np.where(arm == 1, law, 1 - law)
    assert np.abs(found - true).mean() < 0.02
    assert abs(np.mean((arm == 1) / found) - 1) < 0.1
    read = Log.from_table({"x": x[:, 0], "arm": arm, "click": arm}, action="arm", reward="click")
    assert np.array_equal(read.propensities, found) and "estimated" in read.about["propensities"]


ODD: dict[str, tuple[str, str]] = {
    "no such column": ("x,arm,win\n1,a,1\n", "reward"),
    "zero propensities": ("x,arm,click,p\n1,a,1,0\n2,b,0,.5\n", "'p'"),
    "negative propensities": ("x,arm,click,p\n1,a,1,-.5\n2,b,0,.5\n", "'p'"),
    "propensities in per cent": ("x,arm,click,p\n1,a,1,50\n2,b,0,50\n", "'p'"),
    "missing propensity": ("x,arm,click,p\n1,a,1,\n2,b,0,.5\n", "'p'"),
    "missing arm": ("x,arm,click,p\n1,,1,.5\n2,b,0,.5\n", "'arm'"),
    "missing reward": ("x,arm,click,p\n1,a,,.5\n2,b,0,.5\n", "'click'"),
    "one arm": ("x,arm,click,p\n1,a,1,1\n2,a,0,1\n", "'arm'"),
    "text as reward": ("x,arm,click,p\n1,a,won,.5\n2,b,lost,.5\n", "'won'"),
    "no features": ("arm,click,p\na,1,.5\nb,0,.5\n", "features"),
    "a ragged row": ("x,arm,click,p\n1,a,1\n2,b,0,.5\n", "4 columns"),
    "two columns of one name": ("x,x,arm,click,p\n1,1,a,1,.5\n", "name of its own"),
    "a header alone": ("x,arm,click,p\n", "a row or more"),
    "an empty file": ("", "two columns or more"),
    "an open quote": ('x,arm,click,p\n"1,a,1,.5\n', "quote"),
    "too few rows for a world": ("x,arm,click,p\n1,a,1,.5\n2,b,0,.5\n", "100 users"),
}


@pytest.mark.parametrize("case", ODD)
def test_an_odd_table_is_refused_in_a_sentence(case: str, tmp_path: Path) -> None:
    text, word = ODD[case]
    path = tmp_path / "decisions.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as refused:
        simulator(Log.from_table(path, action="arm", reward="click", propensity="p"))
    said = str(refused.value)
    assert word in said and "\n" not in said and len(said) < 400, said


def test_the_command_refuses_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text("x,arm,click,p\n1,a,1,0\n2,b,0,.5\n")
    shown = invoke("cost", str(path), "--action", "arm", "--reward", "click", "--propensity", "p")
    assert shown.exit_code == 2 and "'p'" in shown.stderr and shown.stderr.count("\n") == 1, shown.stderr


def test_odd_tables_that_are_right() -> None:
    """Numbers as names of arms, a byte-order mark, spaces around cells, booleans as clicks, a constant feature."""
    numbers = Log.from_table(
        {"x": [1.0, 2, 3], "arm": [10, 9, 10], "click": [True, False, True], "p": [0.5] * 3},
        action="arm",
        reward="click",
        propensity="p",
    )
    assert numbers.about["arms"] == ["9", "10"] and numbers.rewards.tolist() == [1, 0, 1]


def test_text_with_a_mark_and_spaces_is_read(tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text("\ufeff x , arm , click , p \n 1 , a , 1 , .5 \n 2 , b , 0 , .5 \n")
    read = Log.from_table(path, action="arm", reward="click", propensity="p")
    assert read.contexts.tolist() == [[1.0], [2.0]] and read.about["arms"] == ["a", "b"]


@pytest.mark.parametrize("others", [{"click": [0, 1] * 5}, {"x": [0.0, 1.0] * 5}])
def test_a_log_given_as_labels_is_warned_of(others: dict[str, Any]) -> None:
    table = {"age": np.arange(10.0), "arm": ["a", "b"] * 5, **others}
    with pytest.warns(UserWarning, match="Log.from_table"):
        from_table(table, label="arm", n_public=4, horizon=6)


def made_log(**given: Any) -> Log:
    return Log.from_table(rows(**given), action="arm", reward="click", propensity="p")


def test_a_world_of_a_log_is_a_bandit_that_agents_play(tmp_path: Path) -> None:
    log = made_log(n=1500)
    world = from_log(log, "logistic")
    assert world.spec is not None
    world.spec.kwargs["source"].write(tmp_path / "world.npz")
    check_bandit_env(LOG_ENV, source=str(tmp_path / "world.npz"))
    uniform = play(world, make("uniform", world, seed=0), seed=0)
    learned = play(world, make("linucb", world, seed=0), seed=0)
    private = play(world, make("auto-joint", world, epsilon=2.0, seed=0), seed=0)
    assert learned.regret[-1] < private.regret[-1] < uniform.regret[-1]


@pytest.mark.wide
def test_the_reward_is_unbiased_though_the_model_is_wrong() -> None:
    """Clicks that follow the sign of x y, and a logistic model: the model's mean is off, the reward's is not."""
    log = made_log(n=12_000, crossed=True)
    made = simulator(log, "logistic")
    best = np.eye(3)[(np.prod(log.contexts, axis=1) < 0).astype(int)]  # arm a if x y > 0, else arm b
    true = 0.4 + 0.3 * np.tanh(1.0)
    simulated = float((best * made.means).sum(axis=1).mean())
    judged = dr(made.log, best, lambda _: made.means)
    assert simulated < true - 0.1
    assert abs(judged.value - true) < 4 * judged.error < 0.06
    assert any(gap.off for gap in check_simulator(made)), "trees see what the logistic model misses"
    right = simulator(log, "auto")
    assert right.kind == "trees" and right.losses["trees"] < right.losses["logistic"]


@pytest.mark.wide
def test_a_right_model_is_not_accused_and_wrong_propensities_are() -> None:
    log = made_log(n=6000)
    assert not any(gap.off for gap in check_simulator(from_log(log)))
    wrong = Log(log.contexts, log.actions, log.rewards, np.sqrt(log.propensities), log.feedback, log.errors, log.about)
    off = [gap for gap in check_simulator(from_log(wrong)) if gap.off]
    assert any(gap.policy.startswith("the weights") for gap in off)


def test_steps_and_blocks_give_one_world() -> None:
    world = from_log(made_log(n=400), "logistic", horizon=300)
    agent = make("epsilon-greedy", world, seed=0)
    blocks = play(world, agent, seed=3)
    stepped = play(gym.wrappers.RecordEpisodeStatistics(world), make("epsilon-greedy", world, seed=0), 300, seed=3)
    assert np.array_equal(blocks.reward, stepped.reward) and np.array_equal(blocks.regret, stepped.regret)


def test_arms_with_features_share_a_model_and_rewards_keep_their_range() -> None:
    rng = default_rng(1)
    contexts = rng.normal(size=(2000, 3, 2))
    actions = rng.integers(3, size=2000)
    rewards = 5 + 2 * contexts[np.arange(2000), actions, 0] + 0.1 * rng.normal(size=2000)
    log = Log(contexts, actions, rewards, np.full(2000, 1 / 3), rewards, np.zeros(2000))
    made = simulator(log)
    assert made.kind == "logistic" and made.noise < 0.02 and made.means.shape == (2000, 3)
    assert (made.means.argmax(axis=1) == contexts[..., 0].argmax(axis=1)).mean() > 0.97
    span = made.high - made.low
    assert abs(made.low + span * made.means.mean() - 5) < 0.2


def test_a_simulator_is_written_and_read(tmp_path: Path) -> None:
    made = simulator(made_log(n=300), "logistic")
    made.write(tmp_path / "world.npz")
    again = Simulator.read(tmp_path / "world.npz")
    assert np.array_equal(again.means, made.means) and again.losses == made.losses and again.kind == made.kind
    assert (tmp_path / "world.npz").stat().st_mode & 0o077 == 0


def test_refusals() -> None:
    log = made_log(n=300)
    sets = Log(
        log.contexts, np.eye(3, dtype=np.int8)[log.actions], log.rewards, log.propensities, log.actions, log.errors
    )
    with pytest.raises(ValueError, match="sets"):
        from_log(sets)
    with pytest.raises(ValueError, match="100"):
        from_log(log[:50])
    with pytest.raises(ValueError, match="auto, logistic, trees"):
        from_log(log, "forest")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="from_log"):
        check_simulator(gym.make("privbandit/Clicks-v0"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sets"):
        replay(sets, make("linucb", from_log(log, "logistic"), seed=0))


def test_replay_of_the_logging_policy_is_the_raw_mean() -> None:
    log = made_log(n=2000)
    law = np.tile((1 - log.propensities[:, None]) / 2, 3)
    law[np.arange(2000), log.actions] = log.propensities
    assert replay(log, law) == (float(log.rewards.mean()), 2000)


def test_replay_of_another_policy_agrees_with_weights() -> None:
    """Rows of a log with propensities that differ, and an agent that plays uniformly: within four standard errors."""
    log = made_log(n=20_000)
    uniform = np.full((20_000, 3), 1 / 3)
    known = ips(log, uniform)
    for policy in (uniform, make("uniform", from_log(log[:500], "logistic"), seed=1)):
        reward, kept = replay(log, policy)
        assert kept < 20_000
        assert abs(reward - known.value) < 4 * np.hypot(known.error, log.rewards.std() / np.sqrt(kept))


@pytest.mark.wide
def test_replay_keeps_a_share_of_uniform_rows_and_agrees_with_the_world() -> None:
    log = made_log(n=9000, uniform=True)
    world = from_log(log, "logistic")
    reward, kept = replay(log, make("linucb", world, seed=0))
    assert abs(kept / 9000 - 1 / 3) < 0.03
    played = play(world, make("linucb", world, seed=0), kept, seed=0).reward[-1] / kept
    assert abs(reward - played) < 0.05


def test_the_interval_of_a_share_is_that_of_one_deployment() -> None:
    """Normal shares: the 17th lies in the interval of 16 in 95 of 100 cases, and not in nearly all."""
    rng, inside = default_rng(0), 0
    for _ in range(2000):
        *known, further = rng.normal(0.5, 0.1, 17)
        kept = predicted(known)
        inside += kept.low <= further <= kept.high
    assert abs(inside / 2000 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)
    assert predicted([5.0, -7.0, 1.0]).value == pytest.approx(1 / 3), "shares beyond [-1, 1] count as its ends"


def test_two_shares_in_the_same_worlds_differ_by_less_than_their_intervals_tell() -> None:
    worlds = default_rng(0).normal(0.5, 0.2, 16)
    one, other = (
        Row(name, name, 1.0, predicted(list(worlds)), predicted(list(worlds + more)), shares=tuple(worlds + more))
        for name, more in (("joint", 0.05), ("local", 0.0))
    )
    assert difference(one, other).low > 0 and one.gain.low < other.gain.value < one.gain.high


def cost_command(given: list[str]) -> tuple[int, str]:
    """Run the command in a process of its own; return its code and its output."""
    run = [sys.executable, "-m", "privbandit", "cost", *given]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    told = (done.stdout + done.stderr).splitlines(keepends=True)
    return done.returncode, "".join(line for line in told if "privbandit cost: at work" not in line)  # a slow machine


@pytest.mark.wide
def test_one_command_from_a_table_to_a_page(tmp_path: Path) -> None:
    path, out = tmp_path / "decisions.csv", tmp_path / "out"
    table = rows(2000)
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    path.write_text("\n".join(lines))
    given = [str(path), "--action", "arm", "--reward", "click", "--propensity", "p", "--person", "who"]
    given += ["--notions", "joint,reward", "--epsilon", "1,4", "--seeds", "2", "--jobs", "1", "--out", str(out)]
    code, said = cost_command(given)
    assert code == 0 and "joint, epsilon = 4" in said and "learned from the log" in said, said
    content = json.loads((out / "cost.json").read_text())
    gains = {row["name"]: row["gain"]["value"] for row in content["rows"]}
    assert gains["linucb, not private"] > gains["joint, epsilon = 1"]
    assert content["gain"]["shown"] and content["gain"]["low"] > 0 and 3 * content["rows_needed"]["high"] > 2000
    page = (out / "cost.html").read_text()
    assert "up to 3 times" in page and "a person" in page and "May be deployed" in page and "data:image/png" in page
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*.json") if file.name != "cost.json"}
    assert cost_command(given)[0] == 0
    assert before == {file: file.stat().st_mtime_ns for file in before}, "finished runs are not run again"


@pytest.mark.wide
def test_a_notion_without_an_agent_for_the_log_is_left_out_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privbandit_agents.cli.cost.AGENTS", {"joint": "auto-joint", "local": "ldp-mnl"})
    found = cost(made_log(n=500), [1.0], out=tmp_path, seeds=2, always=True)
    assert [row.notion for row in found.rows if row.epsilon] == ["joint"] and found.code == 0
    (reason,) = found.absent
    assert "local" in reason and "ldp-mnl" in reason and reason in " ".join(str(found).split())
    assert "ldp-mnl" in (tmp_path / "cost.html").read_text()
    with pytest.raises(UsageError, match="ldp-mnl"):
        cost(made_log(n=500), [1.0], ["local"], out=tmp_path, seeds=2, always=True)


@pytest.mark.wide_at("0.0")
@pytest.mark.parametrize("clicks", [0.5, 0.0])
def test_arms_that_are_alike_have_no_gain_that_is_shown(tmp_path: Path, clicks: float) -> None:
    rng = default_rng(5)
    table = {
        "x": rng.normal(size=600),
        "arm": rng.integers(3, size=600),
        "click": (rng.random(600) < clicks).astype(int),
    }
    log = Log.from_table(table | {"p": np.full(600, 1 / 3)}, action="arm", reward="click", propensity="p")
    found = cost(log, [1.0], ["joint"], out=tmp_path)
    said = " ".join(str(found).split())
    assert found.answer == "cannot tell" and "no gain" not in said and "nan" not in said, said
    assert "cannot tell whether another choice of arms earns more" in said and "two to three times as many" in said
    content = json.loads((tmp_path / "cost.json").read_text())
    assert content["conclusive"] is False and content["gain"]["low"] <= 0 < content["rows_needed"]["low"]
    assert not (tmp_path / "trials").exists(), "nobody plays for a gain that is not shown"
    page = (tmp_path / "cost.html").read_text()
    assert "No agent played" in page and "data:image/png" in page


def rare(n: int = 1200, rate: float = 0.004, seed: int = 0) -> Log:
    """A log of four arms whose clicks are so rare that some arms have none."""
    rng = default_rng(seed)
    arms = np.array(["a", "b", "c", "dead00"])[rng.integers(4, size=n)]
    click = (rng.random(n) < rate) & (arms != "dead00")
    table = {"x": rng.integers(3, size=n), "arm": arms, "click": click.astype(int), "p": np.full(n, 0.25)}
    return Log.from_table(table, action="arm", reward="click", propensity="p")


def test_an_arm_without_a_click_is_no_alarm_and_has_its_own_name() -> None:
    made = simulator(rare(), "logistic")
    gaps = {gap.policy: gap for gap in check_simulator(made)}
    assert not any(gap.off for gap in gaps.values()), gaps
    dead = gaps["arm dead00 alone"]
    assert dead.logged >= 0 and dead.low == 0 < dead.simulated < dead.high < 0.05
    assert "the weights of arm dead00" in gaps and "arm 3 alone" not in gaps


def test_a_model_that_clicks_refute_is_found_and_named() -> None:
    made = simulator(rare(rate=0.0), "logistic")
    wrong = replace(made, means=np.where(np.arange(4) == 3, 0.2, made.means))
    off = [gap for gap in check_simulator(wrong) if gap.off]
    assert off[0].policy == "arm dead00 alone"


@pytest.mark.wide_at("1.0")
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_a_true_model_alarms_seldom_where_an_arm_is_rare_for_some_and_wrong_propensities_do(power: float) -> None:
    """Arm 0 has .005 to .9 by kind of user: of 40 rows none may show it to some; square roots are seen in 3000 rows."""
    alarmed, n = 0, 40 if power == 1 else 3000
    for seed in range(60 if power == 1 else 5):
        rng = default_rng(seed)
        kinds, chances = rng.integers(10, size=n), np.exp(rng.uniform(np.log(0.005), np.log(0.9), 10))
        actions = (rng.random(n) > chances[kinds]).astype(np.int64)
        clicks, means = (rng.random(n) < 0.02).astype(float), np.full((n, 2), 0.02)
        p = np.abs(actions - chances[kinds]) ** power
        rest: Any = ("logistic", {}, 0.0, 1.0, 0.0, None, ["a", "b"])
        made = Simulator(kinds[:, None].astype(float), means, means, actions, clicks, 1 / p, *rest)
        alarmed += any(gap.off for gap in check_simulator(made))
    assert alarmed <= 3 if power == 1 else alarmed == 5


def test_no_order_of_the_rows_makes_another_world() -> None:
    log = made_log(n=200)
    order = default_rng(0).permutation(200)
    again = Log(**{name: array[order] for name, array in log.arrays.items()}, about=log.about)
    one, other = simulator(log, "logistic"), simulator(again, "logistic")
    assert np.abs(one.means[order] - other.means).max() < 1e-6


def test_a_log_without_choice_shows_no_gain(tmp_path: Path) -> None:
    found = cost(replace(made_log(n=300), propensities=np.ones(300)), [1.0], ["joint"], out=tmp_path, seeds=2)
    assert found.answer == "cannot tell" and "no choice" in str(found) and not (tmp_path / "trials").exists()


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-0.12, -0.02, "keeps -7% (-12% to -2%)"),
        (-0.5, 0.3, "keeps less than half (-50% to 30%)"),
        (0.55, 0.99, "keeps more than half (55% to 99%)"),
        (0.2, 0.9, "keeps a share that this log cannot tell (20% to 90%)"),
    ],
)
def test_a_share_is_said_as_far_as_its_interval_reaches(low: float, high: float, said: str) -> None:
    share = Interval.around((low + high) / 2, (high - low) / 2)
    assert Row("joint", "joint", 1.0, share, share).said == said


def test_drawn_worlds_scatter_about_the_truth_and_keep_the_mean() -> None:
    """Log-odds of three arms that depend on x: of the gains in 16 worlds some are above and some below the true one."""
    rng, n = default_rng(0), 3000
    x, arm = rng.normal(size=(n, 1)), rng.integers(3, size=n)
    true = 1 / (1 + np.exp(1 + x * [-1, 1, 0]))
    clicks = (rng.random(n) < true[np.arange(n), arm]).astype(float)
    made = possible_worlds(Log(x, arm, clicks, np.full(n, 1 / 3), clicks, np.zeros(n), {"uniform": 1 / 3}), 16)
    gains = [table.max(axis=1).mean() - table.mean() for table in map(made.drawn, range(16))]
    assert min(gains) < true.max(axis=1).mean() - true.mean() < max(gains) and np.std(gains) < 0.03
    rates = [table[np.arange(n), arm].mean() for table in map(made.drawn, range(16))]
    assert abs(np.mean(rates) - clicks.mean()) < 3 * clicks.std() / np.sqrt(n)


@pytest.mark.parametrize("kind", ["clicks", "amounts"])
def test_a_drawn_world_pays_what_its_model_says(kind: str) -> None:
    log = made_log(n=600)
    if kind == "amounts":
        rewards = np.where(log.rewards > 0, default_rng(0).exponential(5, 600), 0.0)
        log = replace(log, rewards=rewards, feedback=rewards)
    made = possible_worlds(log, 2)
    env: Any = gym.make(LOG_ENV, source=made, draw=1, horizon=20_000).unwrapped
    env.reset(seed=0)
    served = env.serve(np.zeros(20_000, np.int64))
    assert abs(served.reward.mean() - made.drawn(1)[:, 0].mean()) < 5 * served.reward.std() / np.sqrt(20_000)
    assert served.feedback.min() >= 0 and served.feedback.max() <= 1


@pytest.mark.wide
def test_a_world_made_of_a_log_says_who_comes(tmp_path: Path) -> None:
    table = rows(600)
    for roles, persons in ((ROLES, table["who"]), ({**ROLES, "person": None}, np.arange(600))):
        made = simulator(Log.from_table({**table, "x": np.arange(600.0)}, **roles, features=["x"]), "logistic")
        made.write(tmp_path / "world.npz")
        for source in (made, str(tmp_path / "world.npz")):
            env: Any = gym.make(LOG_ENV, source=source, horizon=2000).unwrapped
            _, info = env.reset(seed=1)
            who, features = env.upcoming_people(1500), env.upcoming(1500)[:, 0]
            assert info["person"] == who[0]
            row = np.searchsorted(made.contexts[:, 0], features)  # the feature grows from row to row
            assert np.array_equal(who, persons[row])
