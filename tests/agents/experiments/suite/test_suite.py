"""The suite: pinned worlds, the arithmetic of scores and boards, the references that ship, and the leaderboard."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from privbandit_agents.experiments.suite.leaderboard import leaderboard
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
from privbandit_agents.experiments.suite.scores import (
    Board,
    board_tasks,
    boards_in,
    improvement,
    on_board,
    overall,
    placed,
    pooled,
    profile,
    scores_of,
    stability,
)
from privbandit_agents.experiments.suite.tasks import OPEN, ChangedWorldError, Suite, Task, load_suite
from privbandit_agents.zoo.entries import AGENTS

SUITE = load_suite()
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


def test_profiles_and_improvement_are_those_of_rliable() -> None:
    ours, theirs = [np.array([0.0, 1.0]), np.array([1.0, 1.0])], [np.array([0.0, 0.5]), np.array([1.0, 2.0])]
    assert profile(ours, np.array([-1.0, 0.0, 0.5, 1.0])) == pytest.approx([1.0, 0.75, 0.75, 0.0])
    # first task: pairs (0,0) tie, (0,.5) lost, (1,0) won, (1,.5) won: 2.5 of 4; second: ties and losses: 1 of 4
    assert improvement(ours, theirs) == pytest.approx((2.5 / 4 + 1 / 4) / 2)
    assert improvement(theirs, ours) == pytest.approx(1 - (2.5 / 4 + 1 / 4) / 2)


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
    assert places["good"]["better"] == pytest.approx((1 + 0.5) / 2) and places["half"]["played"] == 1
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
    """Its frozen numbers are those of the references; uniform play is far from the best; some private agent learns."""
    task, known = SUITE.tasks[name], references()
    assert np.mean(known["uniform"].regrets[name][OPEN]) == pytest.approx(task.uniform, rel=1e-5)
    assert np.mean(known[task.best_agent].regrets[name][OPEN]) == pytest.approx(task.best, rel=1e-5)
    assert task.uniform > 3 * task.best
    private = [
        float(np.mean(task.scores(regrets)))
        for found in known.values()
        if found.notion != OPEN
        for regrets in found.regrets.get(name, {}).values()
    ]
    assert any(0.1 < score < 0.9 for score in private)


def test_the_order_of_agents_is_stable() -> None:
    """At epsilon = 1, by two disjoint halves of the seeds, on boards of five agents or more.

    Boards of persons have one or two tasks, so that agents that are level change places there.
    """
    found = stability(scores_of(references(), SUITE))
    many = {board: agreement for board, (agents, agreement) in found.items() if agents >= 5 and board.unit == VISIT}
    told = {board.title: round(agreement, 3) for board, agreement in many.items()}
    assert len(many) >= 7 and np.median(list(many.values())) >= 0.9 and min(many.values()) >= 0.6, told


def test_the_leaderboard_has_every_agent_and_says_how_to_be_added() -> None:
    page = leaderboard()
    assert all(f"`{name}`" in page for name in references())
    assert "pull request" in page and "## Linear, joint privacy a visit" in page and "nan" not in page
