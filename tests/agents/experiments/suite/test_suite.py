"""The suite: pinned worlds, the arithmetic of scores and boards, the references that ship, and the leaderboard."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from privbandit_agents.cli.score import plan_of
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.running.attempt import run_trial
from privbandit_agents.experiments.suite.leaderboard import leaderboard, standings
from privbandit_agents.experiments.suite.price import gain_kept, price
from privbandit_agents.experiments.suite.records import (
    PERSON,
    VISIT,
    Record,
    as_json,
    from_json,
    reference_file,
    references,
    write_references,
)
from privbandit_agents.experiments.suite.rows import same
from privbandit_agents.experiments.suite.scores import (
    Board,
    board_tasks,
    boards_in,
    drawn,
    level_tasks,
    on_board,
    overall,
    placed,
    pooled,
    profile,
    scores_of,
    stability,
    tied,
)
from privbandit_agents.experiments.suite.tasks import OPEN, ChangedWorldError, Suite, Task, load_suite
from privbandit_agents.zoo.entries import AGENTS

SUITE = load_suite()
PROMISE = "joint 4, 1e-05 a visit (rho 0.428), exact"
GROUPS = {
    *("small data", "long run", "many features", "correlation", "weak directions", "imbalance", "masks", "delay"),
    *("drift", "returning people"),
}


@pytest.mark.parametrize("name", SUITE.tasks)
def test_a_world_is_the_pinned_one(name: str) -> None:
    SUITE.tasks[name].check(SUITE.seeds[0])


@pytest.mark.parametrize("key, value", [("dim", 6), ("noise", "uniform"), ("n_arms", 6)])
def test_a_world_that_changed_is_refused_by_name(key: str, value: object) -> None:
    task = SUITE.tasks["linear-small"]
    changed = replace(task, world={**task.world, key: value})
    with pytest.raises(
        ChangedWorldError, match=r"the world of linear-small has changed: the first 100 (contexts|reward)"
    ):
        changed.check(SUITE.seeds[0])
    with pytest.raises(ChangedWorldError, match="linear-small"):
        replace(SUITE, tasks={**SUITE.tasks, "linear-small": changed}).check()


@pytest.mark.parametrize("key", ["agent", "notion", "tasks", "promises", "refused", "users_a_second"])
def test_a_record_with_a_part_of_another_type_is_refused_by_name(key: str) -> None:
    told = as_json(references()["uniform"], SUITE)
    assert from_json(told) == references()["uniform"]
    with pytest.raises(ValueError, match="regrets" if key == "tasks" else "speed" if key[0] == "u" else key):
        from_json({**told, key: {"t": {"1": {"regret": ["x"]}}} if key == "tasks" else ["x"]})


def test_a_pin_tells_a_change_in_the_sixth_digit_from_none() -> None:
    task = SUITE.tasks["clicks-small"]
    first, second = task.pin
    replace(task, pin=(first + 2e-7, second)).check(SUITE.seeds[0])
    with pytest.raises(ChangedWorldError, match="contexts"):
        replace(task, pin=(first + 1e-5, second)).check(SUITE.seeds[0])
    with pytest.raises(ChangedWorldError, match="rewards"):
        replace(task, pin=(first, second + 1e-5)).check(SUITE.seeds[0])


def test_the_suite_has_five_families_and_the_named_groups() -> None:
    assert {task.family for task in SUITE.tasks.values()} == {"linear", "sparse", "assortments", "labels", "clicks"}
    assert {task.group for task in SUITE.tasks.values()} == GROUPS
    assert list(SUITE.budgets) == [0.5, 1, 4] and SUITE.delta == 1e-5
    sources = {task.world["source"] for task in SUITE.tasks.values() if task.family == "labels"}
    assert sources <= {"wine", "breast_cancer", "digits", "digits-binary"}  # no download


def made_up(uniform: float = 1000.0, best: float = 10.0) -> Suite:
    """A suite of two tasks with round numbers, and one with returning people."""
    tasks = [
        Task("one", "linear", "small data", "?", 100, {"n_arms": 2, "dim": 2}, uniform, best),
        Task("two", "linear", "long run", "?", 100, {"n_arms": 2, "dim": 2}, uniform, best),
        Task("again", "linear", "returning people", "?", 100, {"n_arms": 2, "dim": 2, "people": 5}, uniform, best),
    ]
    return Suite("v0", range(4), [0.5, 1, 4], 1e-5, {task.name: task for task in tasks})


def record(agent: str, notion: str, *by_task: list[float], budget: str = "1") -> Record:
    return Record(agent, notion, {name: {budget: own} for name, own in zip(("one", "two"), by_task, strict=False)})


def test_scores_are_logarithms_between_uniform_play_and_the_best() -> None:
    task = made_up().tasks["one"]
    # U = 1000, B = 10: log10(1000 / R) / 2
    assert task.scores([1000.0, 10.0, 100.0, 10_000.0, 1.0]) == pytest.approx([0.0, 1.0, 0.5, -0.5, 1.5])
    assert task.scores([0.1, 0.0, 1e-9]) == pytest.approx([2.0, 2.0, 2.0])  # B^2 / U = 0.1 is the least


def test_pooled_scores_are_interquartile_means_with_seeds_drawn_within_tasks() -> None:
    scores = [np.array([0.0, 1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0, 100.0])]
    found = pooled(scores)
    assert found.value == pytest.approx((2 + 3 + 4 + 5) / 4)  # a quarter of eight is cut at either end
    assert found.low < found.value < found.high
    level = pooled([np.zeros(4), np.full(4, 1.0)])  # between tasks nothing is drawn
    assert (level.low, level.value, level.high) == (0.5, 0.5, 0.5)
    assert math.isnan(pooled([np.array([1.0])]).low)


def test_profiles_are_those_of_rliable() -> None:
    ours = [np.array([0.0, 1.0]), np.array([1.0, 1.0])]
    assert profile(ours, np.array([-1.0, 0.0, 0.5, 1.0])) == pytest.approx([1.0, 0.75, 0.75, 0.0])


def test_agents_are_ranked_within_a_family_and_a_promise_alone() -> None:
    suite = made_up()
    records = {
        "good": record("good", "joint", [10.0] * 4, [100.0] * 4),
        "bad": record("bad", "joint", [1000.0] * 4, [100.0] * 4),
        "half": record("half", "joint", [10.0] * 4),
        "reports": record("reports", "local", [500.0] * 4, [500.0] * 4),
        "open": record("open", "none", [10.0] * 4, [10.0] * 4, budget=OPEN),
    }
    board = Board("linear", "joint", VISIT)
    scores = scores_of(records, suite)
    assert boards_in(scores) == [Board("linear", notion, VISIT) for notion in ("none", "joint", "local")]
    every = placed(scores, 1.0)
    places = {row["agent"]: row for row in on_board(every, board).to_dicts()}
    assert {name: place["rank"] for name, place in places.items()} == {"half": None, "good": 1, "bad": 2}
    assert places["good"]["score"] == pytest.approx(0.75) and places["bad"]["score"] == pytest.approx(0.25)
    assert places["good"]["last"] == 1 and places["half"]["played"] == 1
    (open_place,) = on_board(every, Board("linear", "none", VISIT)).to_dicts()
    assert open_place["score"] == pytest.approx(1.0) and open_place["rank"] is None  # it lacks the returning people


def test_a_refused_task_has_score_zero_and_harm_is_shown() -> None:
    suite = made_up()
    shy = replace(record("shy", "joint", [10.0] * 4), refused={"two": "it cannot."})
    wild = record("wild", "joint", [10.0] * 4, [100_000.0] * 4)
    found = placed(scores_of({"shy": shy, "wild": wild}, suite), 1.0)
    places = {row["agent"]: row for row in found.to_dicts()}
    assert places["shy"]["score"] == pytest.approx(0.5) and places["shy"]["played"] == places["shy"]["rank"] == 1
    assert places["wild"]["score"] == pytest.approx(0.0) and suite.tasks["two"].scores([1e5]) == pytest.approx([-1])


def test_promises_to_a_person_stand_on_a_board_of_their_own() -> None:
    suite = made_up()
    whole = Record("whole", "joint", {name: {"1": [100.0] * 4} for name in suite.tasks})
    scores = scores_of({"whole": whole}, suite)
    assert boards_in(scores) == [Board("linear", "joint", VISIT), Board("linear", "joint", PERSON)]
    assert [task.name for task in board_tasks(suite, Board("linear", "joint", PERSON))] == ["again"]
    assert overall(scores, "whole", 1.0).value == pytest.approx(0.5)
    assert suite.settings("jdp-linucb", suite.tasks["again"], 1) == {"epsilon": 1, "delta": 1e-5, "people": 5}
    assert suite.settings("jdp-linucb", suite.tasks["one"], 1) == {"epsilon": 1, "delta": 1e-5}
    assert suite.settings("linucb", suite.tasks["again"], 1) == {}


def test_a_name_that_chooses_plays_as_the_agent_that_it_stands_for() -> None:
    played = {task.name: trials[0].agent for task, _, trials in SUITE.plays("auto-joint", [1], [7])}
    assert played["linear-small"] == "jdp-linucb" and played["sparse-small"] == "private-pursuit"
    assert len(played) == len(SUITE.tasks)


def test_records_survive_their_file(tmp_path: Path) -> None:
    suite = made_up()
    before = {"good": replace(record("good", "joint", [10.0, 20.5], [3.0, 4.0]), speed={"one": 1000, "two": 10})}
    write_references(before, suite, tmp_path / "references.json")
    text = (tmp_path / "references.json").read_text()
    told = json.loads(text)["agents"]["good"]
    assert from_json(told) == before["good"] and told == as_json(before["good"], suite)
    assert told["tasks"]["two"]["1"]["score"][0] == pytest.approx(
        (math.log10(1000 / 3) + math.log10(250)) / 4, abs=1e-4
    )


def test_every_agent_has_a_reference_in_a_file_that_fits() -> None:
    assert reference_file().stat().st_size <= 1_000_000
    families = {task.family for task in SUITE.tasks.values()}
    ours = {
        name: entry for name, entry in AGENTS.items() if entry.agent.startswith("privbandit_") and not entry.successor
    }
    assert set(references()) == {name for name, entry in ours.items() if families & set(entry.families)}
    assert all(found.notion == AGENTS[name].notion and found.regrets for name, found in references().items())


@pytest.mark.parametrize("name", SUITE.tasks)
def test_a_task_asks_something(name: str) -> None:
    """Its frozen numbers are near the references; uniform play is far from the best; a private agent learns."""
    task, known = SUITE.tasks[name], references()
    assert np.mean(known["uniform"].regrets[name][OPEN]) == pytest.approx(task.uniform, rel=1e-5)
    assert task.best / 3 < np.mean(known[task.best_agent].regrets[name][OPEN]) < 3 * task.best
    assert task.uniform > 3 * task.best
    private = [
        float(np.mean(task.scores(regrets)))
        for found in known.values()
        if found.notion != OPEN
        for regrets in found.regrets.get(name, {}).values()
    ]
    assert any(0.1 < score < 0.9 for score in private)


def ties(*order: list[np.ndarray]) -> list[tuple[int, int]]:
    return tied([pooled(one).value for one in order], [drawn(one) for one in order], len(order[0][0]), len(order[0]))


def test_agents_that_cannot_be_told_apart_are_tied() -> None:
    rng = np.random.default_rng(0)
    seeds = [rng.normal(size=6) for _ in range(4)]  # how easy each seed is: much, and alike for all agents
    good, level, bad = ([one + gain + 0.05 * rng.normal(size=6) for one in seeds] for gain in (0.4, 0.4, 0.0))
    assert ties(good, level, bad) == [(1, 2), (1, 2), (3, 3)]
    alone = [pooled(one) for one in (level, bad)]
    assert alone[0].low < alone[1].high  # intervals overlap by far, and the paired difference is clear
    # the third cannot be told from the second, nor that from the first: all are one group
    chain = [[np.full(6, 0.2)], [np.array([0.1] * 3 + [0.3] * 3)], [np.full(6, 0.19)]]
    assert ties(*chain) == [(1, 3)] * 3
    assert (
        tied([], [], 0, 0) == [] and ties([np.array([1.0])], [np.array([0.0])]) == [(1, 2)] * 2
    )  # one seed tells nothing


def test_equal_agents_are_rarely_told_apart() -> None:
    """In 1 % of cases, each ordered by chance: of 200 at most 8, which 1.2 % would exceed once in 1,200."""
    rng = np.random.default_rng(1)
    told = 0
    for _ in range(200):
        both = [list(rng.normal(size=(3, 6))) for _ in range(2)]
        both.sort(key=lambda one: -pooled(one).value)
        told += ties(*both) == [(1, 1), (2, 2)]
    assert told <= 8


def test_names_of_the_same_runs_share_a_row() -> None:
    suite = made_up()
    own = record("own", "joint", [10.0, 20.0, 30.0, 40.0], [100.0] * 4)
    records = {"own": own, "auto-joint": replace(own, agent="auto-joint")}
    (row,) = placed(scores_of(records, suite), 1.0).to_dicts()
    assert row["agent"] == "own" and row["also"] == ["auto-joint"] and (row["rank"], row["last"]) == (1, 1)


@pytest.mark.wide
@pytest.mark.parametrize("epsilon", [1.0, *(pytest.param(one, marks=pytest.mark.wide) for one in (0.5, 4.0))])
def test_the_order_of_agents_repeats(epsilon: float) -> None:
    """Half of the seeds forms groups, the other half judges: correlation .95 or more, under 2 % of pairs flip."""
    found = stability(scores_of(references(), SUITE), epsilon)
    assert len(found) >= 13 and sum(row["groups"] > 1 for row in found) >= 11
    for row in found:
        assert not row["flips"] >= 0.02 and not row["correlation"] < 0.95, row


def test_an_order_of_noise_does_not_repeat_and_its_tasks_are_named() -> None:
    rng = np.random.default_rng(2)
    noise = {f"a{i}": record(f"a{i}", "joint", *np.exp(rng.normal(4, 1, (2, 4))).tolist()) for i in range(6)}
    clear = {f"a{i}": record(f"a{i}", "joint", [10.0 * 2**i] * 4, [10.0 * 2**i] * 4) for i in range(6)}
    suite = made_up()
    (row,) = stability(scores_of(noise, suite))
    assert row["groups"] == 1 and math.isnan(row["correlation"])
    assert {one["task"] for one in level_tasks(scores_of(noise, suite))} == {"one", "two"}
    (row,) = stability(scores_of(clear, suite))
    assert row["groups"] == 6 and row["correlation"] == 1 and row["flips"] == 0
    assert level_tasks(scores_of(clear, suite)) == []


def test_the_leaderboard_is_one_page_with_a_row_for_each_agent_of_a_board() -> None:
    records = {
        "linucb": record("linucb", "none", [10.0] * 4, [10.0] * 4, budget=OPEN),
        "jdp-linucb": replace(record("jdp-linucb", "joint", [20.0] * 4, [30.0] * 4), promises={"one": PROMISE}),
        "dp-dqn": replace(record("dp-dqn", "joint", [500.0] * 4), refused={"two": "</script> no."}),
    }
    page = leaderboard(standings({"jdp-linucb": "not refuted, power 1.00"}, suite=made_up(), records=records))
    assert "$" not in page.partition("<script>")[0].partition("<style>")[0] and page.count("</script>") == 2
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)  # it needs no other file
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])  # type: ignore[index]
    rows = {row["agent"]: row for row in data["rows"]}
    assert set(rows) == set(records)
    row = rows["jdp-linucb"]
    assert row["promise"] == "delta = 1e-05, exact" and row["audit"].startswith("not refuted")
    assert row["file"].endswith("agents/privbandit_agents/joint/linear/jdp_linucb.py") and "Private" in row["paper"]
    assert row["places"]["1"][0] == pytest.approx(made_up().tasks["one"].scores([20, 30]).mean(), abs=1e-3)
    assert row["tasks"]["two"]["1"] == pytest.approx(made_up().tasks["two"].scores([30]).item(), abs=1e-3)
    assert rows["dp-dqn"]["tasks"]["two"] == {one: None for one in ("0.5", "1", "4")}


def test_the_gain_that_is_kept_is_a_share_of_that_without_privacy() -> None:
    suite = made_up()
    records = {
        "half": record("half", "joint", [505.0] * 4, [505.0] * 4),  # U = 1000, B = 10
        "worse": record("worse", "joint", [900.0] * 4, [900.0] * 4),
        "noisy": record("noisy", "local", [1000.0, 10.0] * 2, [1000.0] * 4),
    }
    for name, one in records.items():
        regrets = {task: dict.fromkeys(("0.5", "1", "4"), own["1"]) for task, own in one.regrets.items()}
        records[name] = replace(one, regrets=regrets)
    kept, families = gain_kept(records, suite)
    assert families == ["linear"] and list(kept) == ["joint", "local"]
    assert [one.value for one in kept["joint"]] == pytest.approx([0.5] * 3)
    assert kept["joint"][0].low == pytest.approx(0.5)
    noisy = kept["local"][1]
    assert noisy.value == pytest.approx(0.25) and noisy.low < 0.25 < noisy.high
    assert len(price(records, suite).axes) == 1
    # of a suite with real data, these tasks alone count: "half" has 505 in "one", 10 in "two"
    records["half"] = replace(
        records["half"], regrets={**records["half"].regrets, "two": dict.fromkeys(("0.5", "1", "4"), [10.0] * 4)}
    )
    real = replace(suite, tasks={**suite.tasks, "one": replace(suite.tasks["one"], group="real data")})
    assert gain_kept(records, suite)[0]["joint"][1].value == pytest.approx(0.75)
    assert gain_kept(records, real)[0]["joint"][1].value == pytest.approx(0.5)
    # a family that no agent of a notion plays whole has no place
    records["noisy"] = replace(records["noisy"], regrets={"one": records["noisy"].regrets["one"]})
    with pytest.raises(ValueError, match="no family"):
        gain_kept(records, suite)


@pytest.mark.wide
def test_the_page_of_the_references_has_every_agent_and_is_small() -> None:
    page = leaderboard(standings())
    assert all(f'"{name}"' in page for name in references())
    assert "--submit" in page and "NaN" not in page and len(page.encode()) < 400_000


@pytest.mark.wide
@pytest.mark.parametrize("name", sorted(references()))
def test_a_reference_is_what_its_agent_does(name: str, tmp_path: Path) -> None:
    """By the first seed of the shortest task of each family."""
    known, shortest = references()[name], dict[str, tuple[Task, str, Trial]]()
    for task, budget, trials in plan_of(name, load_suite()).parts:
        if trials and budget in ("1", OPEN) and task.name in known.regrets:
            first = shortest.setdefault(task.family, (task, budget, trials[0]))
            if task.users < first[0].users:
                shortest[task.family] = task, budget, trials[0]
    assert shortest
    for task, budget, trial in shortest.values():
        regret = float(run_trial(trial, tmp_path).result.regret[-1])
        assert same(known.regrets[task.name][budget][0], regret), task.name
