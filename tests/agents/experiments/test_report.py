"""The result table and the figure, against cases worked out by hand."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib.image
import numpy as np
import polars as pl
import pytest
from privbandit_agents.experiments import Outcome, Trial
from privbandit_agents.experiments.figure import curve_of, draw_regret, panels_of, spread, styles_of
from privbandit_agents.experiments.report import interval_factor, markdown, rich_tables, summarise, write_table
from privbandit_agents.play import Result


def outcome(agent: str, seed: int, regret: Sequence[float], seconds: float = 2.0, **env_kwargs: object) -> Outcome:
    checkpoints = np.arange(1, len(regret) + 1, dtype=np.int64) * 100
    config = {"alpha": 0.5} if agent == "linucb" else {}
    trial = Trial("privbandit/Linear-v0", agent, int(checkpoints[-1]), seed, env_kwargs, config, len(regret))
    return Outcome(trial, Result(checkpoints, np.array(regret, float), checkpoints * np.float64(0.5), seconds), {})


HAND = [
    outcome("uniform", 0, [10, 20]),
    outcome("uniform", 1, [20, 40]),
    outcome("linucb", 0, [4, 4]),
    outcome("linucb", 1, [5, 6], 3.0),
    outcome("linucb", 2, [6, 8], 5.0),
]


def test_the_table_against_a_case_by_hand() -> None:
    uniform, linucb = summarise(HAND).iter_rows(named=True)
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
    assert row["half_width"] is None or math.isnan(row["half_width"])
    assert row["ratio_to_uniform"] is None and math.isnan(interval_factor(1))
    assert "±" not in markdown(summarise([outcome("linucb", 0, [4, 4])]))


def test_horizons_and_settings_are_not_mixed() -> None:
    mixed = [outcome("uniform", 0, [1, 2]), outcome("uniform", 0, [1, 2, 3]), outcome("uniform", 0, [1, 9], dim=5)]
    assert summarise(mixed)["regret"].to_list() == [2, 3, 9]


def test_the_files_hold_the_table(tmp_path: Path) -> None:
    summary = summarise(HAND)
    write_table(summary, tmp_path)
    assert pl.read_csv(tmp_path / "table.csv").equals(summary)
    heading, rule, *rows = (tmp_path / "table.md").read_text().splitlines()
    assert heading.startswith("| environment | rounds | agent | seeds | final regret |")
    assert heading.count("|") == rule.count("|") == rows[0].count("|") and len(rows) == 2
    assert "| Linear-v0 | 200 | linucb(alpha=0.5) | 3 | 6 ± 4.97 | 0.2 | 0.500 | 60 |" in rows


def test_the_terminal_has_one_table_per_environment() -> None:
    tables = rich_tables(summarise([*HAND, outcome("uniform", 0, [1, 2], dim=5)]))
    assert [str(table.title) for table in tables] == ["Linear-v0, 200 users", "Linear-v0(dim=5), 200 users"]
    assert [table.row_count for table in tables] == [2, 1]


def test_the_figure_is_written_and_shows_something(tmp_path: Path) -> None:
    draw_regret([*HAND, outcome("uniform", 0, [1, 2], dim=5)], tmp_path / "regret.png")
    image = matplotlib.image.imread(tmp_path / "regret.png")
    height, width, _ = image.shape
    assert width > 1000 and height > 300
    colours = {tuple(colour) for colour in (image[..., :3] * 255).astype(int).reshape(-1, 3)}
    assert (0x77, 0x77, 0x77) in colours and (0x00, 0x72, 0xB2) in colours


def test_agents_of_equal_regret_are_both_drawn(tmp_path: Path) -> None:
    for regret in ([1, 2], [0, 0]):
        draw_regret([outcome(agent, 0, regret) for agent in ("greedy", "linucb", "uniform")], tmp_path / "tie.png")
        assert (tmp_path / "tie.png").stat().st_size > 10_000


def test_a_curve_is_the_mean_over_seeds() -> None:
    curve = curve_of(HAND[2:])
    assert curve.label == "linucb alpha=0.5" and curve.seeds == 3
    np.testing.assert_allclose(curve.mean, [5, 6])
    np.testing.assert_allclose(curve.half_width, [4.302653 / math.sqrt(3), 4.302653 * 2 / math.sqrt(3)], rtol=1e-5)


def test_an_agent_looks_the_same_in_every_panel_and_unlike_its_neighbours() -> None:
    agents = ["uniform", "greedy", "linucb", "lints", "ppo", "a2c", "dqn"]
    runs = [outcome(agent, 0, [1, 2]) for agent in agents]
    others = ["uniform", "dqn", "sa-lasso", "ucb-mnl", "histogram", "tree-all"]
    runs += [outcome(agent, 0, [1, 2], dim=5) for agent in others]
    panels = list(panels_of(runs).values())
    styles = styles_of(panels)
    assert styles["uniform"]["color"] == "#777777"
    for curves in panels:
        colours = [styles[curve.label]["color"] for curve in curves]
        assert len(set(colours)) == len(colours)


def test_labels_move_apart_as_little_as_needed() -> None:
    assert spread([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    moved = spread([0.1, 0.11, 0.12, 0.8], 0.1)
    assert min(np.diff(moved)) >= 0.1 - 1e-12 and moved[3] == pytest.approx(0.8)
    assert spread([], 0.1) == []
