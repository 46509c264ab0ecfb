"""The result table against cases worked out by hand."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from privbandit_agents.experiments import Trial
from privbandit_agents.experiments.results.frame import frame_of
from privbandit_agents.experiments.results.queries import finals
from privbandit_agents.experiments.results.summary import summarised
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.views.table import write_tables
from privbandit_agents.experiments.views.tables import promise, regret_of, shown, summary_table


def outcome(agent: str, seed: int, regret: Sequence[float], seconds: float = 2.0, **env_kwargs: object) -> Finished:
    checkpoints = np.arange(1, len(regret) + 1) * 100.0
    config = {"alpha": 0.5} if agent == "linucb" else {}
    trial = Trial("privbandit/Linear-v0", agent, int(checkpoints[-1]), seed, env_kwargs, config, len(regret))
    arrays = {"checkpoints": checkpoints, "regret": np.array(regret, float), "reward": checkpoints * 0.5}
    return Finished("trial", trial.spec, trial.settings, {**arrays, "seconds": np.array([seconds])})


def summarise(trials: Sequence[Finished]) -> pl.DataFrame:
    return summarised(finals(frame_of(trials)))


HAND = [
    outcome("uniform", 0, [10, 20]),
    outcome("uniform", 1, [20, 40]),
    outcome("linucb", 0, [4, 4]),
    outcome("linucb", 1, [5, 6], 3.0),
    outcome("linucb", 2, [6, 8], 5.0),
]


def test_the_table_against_a_case_by_hand() -> None:
    linucb, uniform = summarise(HAND).iter_rows(named=True)
    assert (uniform["seeds"], linucb["seeds"]) == (2, 3)
    assert uniform["regret"] == 30 and linucb["regret"] == 6
    # standard deviations sqrt(200) and 2; t quantiles 12.706 (1 degree of freedom) and 4.303 (2)
    assert uniform["half_width"] == pytest.approx(12.7062 * 10, rel=1e-5)
    assert linucb["half_width"] == pytest.approx(4.302653 * 2 / math.sqrt(3), rel=1e-5)
    assert uniform["ratio_to_uniform"] == 1 and linucb["ratio_to_uniform"] == pytest.approx(0.2)
    assert linucb["reward"] == 0.5 and linucb["rounds_per_s"] == pytest.approx(600 / 10)
    assert linucb["config"] == '{"alpha":0.5}' and linucb["horizon"] == 200


def test_one_seed_has_no_interval_and_no_uniform_no_ratio() -> None:
    (row,) = summarise([outcome("linucb", 0, [4, 4])]).iter_rows(named=True)
    assert row["half_width"] is None and row["ratio_to_uniform"] is None
    assert " to " not in summary_table(summarise([outcome("linucb", 0, [4, 4])])).markdown


def test_horizons_and_settings_are_not_mixed() -> None:
    mixed = [outcome("uniform", 0, [1, 2]), outcome("uniform", 0, [1, 2, 3]), outcome("uniform", 0, [1, 9], dim=5)]
    assert summarise(mixed)["regret"].to_list() == [2, 3, 9]


def test_the_files_hold_the_table(tmp_path: Path) -> None:
    summary = summarise(HAND)
    write_tables([summary_table(summary)], tmp_path, "table")
    assert pl.read_csv(tmp_path / "table.csv", schema_overrides=summary.schema).equals(summary)
    heading, rule, *rows = (tmp_path / "table.md").read_text().splitlines()
    assert heading.startswith("| environment | rounds | agent | rank | seeds | final regret |")
    assert heading.count("|") == rule.count("|") == rows[0].count("|") and len(rows) == 2
    assert (
        "| Linear-v0 | 200 | linucb alpha=0.5 | 1 | 3 | 6 (2.62 to 13.7) | 6 | 0.2 | 0.500 | 60 | not recorded |"
        in rows
    )


def test_the_terminal_has_one_table_per_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = list(shown(summarise([*HAND, outcome("uniform", 0, [1, 2], dim=5)])))
    assert [line for line in lines if "users" in line] == [
        "Linear-v0, 200 users, 2 to 3 seeds",
        "Linear-v0(dim=5), 200 users, 1 seed",
    ]
    assert lines[1].split() == ["agent", "promise", "regret", "95", "%", "interval", "of", "uniform"]
    assert next(line for line in lines if line.startswith("linucb")).split()[-5:] == ["2.62", "to", "13.7", "20", "%"]
    assert "users/s" not in "".join(lines)
    assert "users/s" in "".join(shown(summarise(HAND), speed=True))


@pytest.mark.parametrize(("mean", "half_width"), [(213.0, 255.0), (6.0, 4.97), (1e-9, 5.0), (3.0, 0.0)])
def test_no_interval_of_a_regret_crosses_zero(mean: float, half_width: float) -> None:
    words = regret_of({"regret": mean, "half_width": half_width}).ends()
    low, high = (float(end.replace(",", "")) for end in words.split(" to "))
    assert 0 <= low <= mean <= high
    assert "-" not in words.replace("e-", "")


def test_people_who_come_again_are_told_of() -> None:
    told = {"privacy": "local 1 a visit, exact", "visits": 1, "person": None}
    assert promise(told) == "local 1 a visit, exact" and promise({**told, "privacy": "none", "visits": 7}) == "none"
    assert promise({**told, "visits": 1200}) == "local 1 a visit, exact; up to 1,200 visits a person"


@pytest.mark.parametrize("visits", [1, 5])
def test_the_written_table_says_what_coming_again_costs(tmp_path: Path, visits: int) -> None:
    runs = [replace(run, notes={**run.notes, "privacy": "local 1 a visit, exact", "visits": visits}) for run in HAND]
    write_tables([summary_table(summarise(runs))], tmp_path, "table")
    text = (tmp_path / "table.md").read_text()
    assert ("k times the epsilon of one user" in text) == ("5 visits a person" in text) == (visits == 5)
