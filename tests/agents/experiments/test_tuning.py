import json
from pathlib import Path
from typing import Any

import pytest
from privbandit_agents.experiments.tuning import Plan, read_plan, tune
from privbandit_agents.experiments.usage import UsageError

SMALL: dict[str, Any] = {
    "env": "privbandit/Linear-v0",
    "agent": "linucb",
    "search": {"alpha": {"low": 0.01, "high": 3.0, "log": True}, "intercept": [True, False]},
    "horizon": 100,
    "trials": 6,
    "env_kwargs": {"dim": 2, "n_arms": 2},
    "tuning": 2,
    "final": 2,
    "checkpoints": 4,
}


def test_tuning_and_table_have_other_seeds_and_the_best_is_played_again(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    plan, said = Plan(**SMALL), list[str]()
    told = tune(plan, tmp_path, said.append)
    assert told == json.loads((tmp_path / "tuned.json").read_text())
    assert told["seeds"] == {"tuning": [980000, 980001], "final": [990000, 990001]}
    regrets = [trial["regret"] for trial in told["trials"] if trial["regret"] is not None]
    assert regrets == sorted(regrets) and told["best"] == told["trials"][0]["settings"]
    assert len(said) == len(told["trials"]) == 6 and set(told["final"]) == {"defaults", "tuned"}
    assert tune(plan, tmp_path / "again", said.append) == told, "the same seeds, the same search"


WRONG: list[tuple[str, str]] = [
    ("search: {alpha: [1]}\nenv: privbandit/Linear-v0", "agent must be given"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {}", "search must say"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: {low: 2, high: 1}}", "low < high"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: {low: 0, high: 1, log: true}}", "low < high"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\nseeds: 3", "unknown key 'seeds'"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alfa: [1]}", "no setting 'alfa'"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\nfirst_final: 980001", "overlap"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\nconfig: {alpha: 1}", "searched and set"),
    ("env: privbandit/Linear-v0\nagent: linucb\nsearch: {alpha: [1]}\ntrials: 0", "trials must"),
    ("env: privbandit/Lineal-v0\nagent: linucb\nsearch: {alpha: [1]}", "Lineal"),
    ("[1, 2]", "a table"),
]


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_a_plan_that_cannot_be_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        read_plan(path)
