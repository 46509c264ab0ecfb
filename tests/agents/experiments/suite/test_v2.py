"""The second suite: tasks of the first as they are, with their results, and worlds of real data."""

import math

import numpy as np
import pytest
from privbandit_agents.experiments.suite.records import own_references, references
from privbandit_agents.experiments.suite.tasks import load_suite

from privbandit_envs.datasets import packaged

V1, V2 = load_suite("v1"), load_suite("v2")


def test_tasks_that_stay_are_the_same_and_so_are_their_results() -> None:
    stay = [name for name in V2.tasks if name in V1.tasks]
    assert len(stay) == len(V1.tasks) - 6 and (V2.seeds, V2.budgets, V2.delta) == (V1.seeds, V1.budgets, V1.delta)
    assert all(V2.tasks[name] == V1.tasks[name] for name in stay)
    first, second = references("v1"), references("v2")
    assert set(first) <= set(second)
    for name, record in first.items():
        for task in set(record.regrets) & set(stay):
            assert second[name].regrets[task] == record.regrets[task]
            assert second[name].speed[task] == record.speed[task]
        assert set(second[name].regrets) | set(second[name].refused) <= set(V2.tasks)


def test_every_family_with_real_data_has_a_real_task() -> None:
    assert {V2.tasks[name].family for name in V2.own} == {"linear", "assortments", "labels", "clicks"}
    for name in V2.own:
        task = V2.tasks[name]
        assert task.world["source"] in packaged.SHEETS and task.group in ("real data", "drift")


def test_references_of_real_tasks_bear_out_uniform_and_best() -> None:
    """They are the means over the seeds that stand in the file, and no agent without privacy is better."""
    own = own_references("v2")
    assert own and all(set(record.regrets) | set(record.refused) <= set(V2.own) for record in own.values())
    for name in V2.own:
        task = V2.tasks[name]
        found = {agent: record.regrets.get(name, {}).get("none", []) for agent, record in own.items()}
        means = {agent: float(np.mean(each)) for agent, each in found.items() if len(each) == len(V2.seeds)}
        assert means["uniform"] == pytest.approx(task.uniform, rel=1e-5)
        best = min(means, key=means.__getitem__)
        assert best == task.best_agent and means[best] == pytest.approx(task.best, rel=1e-5)
        assert math.isfinite(task.scores(task.best).item())


@pytest.mark.wide_at("assortments-real")
@pytest.mark.parametrize("name", V2.own)
def test_worlds_are_pinned(name: str) -> None:
    source = str(V2.tasks[name].world["source"])
    if not packaged.is_there(source):
        pytest.skip(f"{source} is not there; privbandit data get {source} downloads it.")
    V2.check([name])
