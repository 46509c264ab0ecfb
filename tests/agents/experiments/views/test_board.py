"""TensorBoard of means: few runs, a chart for each environment, and regret before all else."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from made_up import sweep
from privbandit_agents.experiments.names import MEAN_EVENTS, TRIAL_EVENTS
from privbandit_agents.experiments.results.frame import as_frame
from privbandit_agents.experiments.views.board import curves_of, write_means


def events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return found


@pytest.mark.wide
def test_a_large_sweep_has_fewer_than_forty_runs_and_loses_no_curve(tmp_path: Path) -> None:
    frame = as_frame(list(sweep(2)))
    write_means(frame, tmp_path)
    board = tmp_path / MEAN_EVENTS
    assert {path.name for path in board.iterdir()} == {*frame["agent"].unique(), "overview"}
    assert len(list(board.iterdir())) < 40
    curves = [(run, chart) for run, charts, _ in curves_of(frame) for chart in charts]
    assert len(set(curves)) == len(curves)
    assert len(list(curves_of(frame))) == frame.select("env", "label").unique().height
    tags = events(board / "linucb").Tags()["scalars"]
    assert "regret/SparseLinear-v0, epsilon=0.5" in tags and min({tag.partition("/")[0] for tag in tags}) == "regret"


def test_a_small_sweep_has_a_run_for_each_agent_with_its_settings(tmp_path: Path) -> None:
    frame = as_frame([one for one in sweep(3) if one.job["agent"] in ("uniform", "jdp-linucb", "linucb")])
    write_means(frame, tmp_path)
    names = {path.name for path in (tmp_path / MEAN_EVENTS).iterdir()}
    assert names == {"overview", "uniform", "linucb", *(f"jdp-linucb-epsilon={e}" for e in ("0.5", "1", "4"))}
    found = events(tmp_path / MEAN_EVENTS / "uniform")
    own = frame.filter(agent="uniform", env="privbandit/Linear-v0")
    mean = own.group_by("checkpoint").agg(pl.col("regret").mean()).sort("checkpoint")
    told = [(event.step, event.value) for event in found.Scalars("regret/Linear-v0")]
    np.testing.assert_allclose(told, mean.rows(), rtol=1e-6)
    assert {event.value for event in found.Scalars("regret_share/Linear-v0")} == {1.0}
    better = events(tmp_path / MEAN_EVENTS / "linucb")
    share, log = (better.Scalars(f"regret_share{kind}/Linear-v0")[-1].value for kind in ("", "_log10"))
    beside = frame.filter(env="privbandit/Linear-v0", checkpoint=2000)
    mean_of = {agent: float(beside.filter(agent=agent)["regret"].to_numpy().mean()) for agent in ("linucb", "uniform")}
    ratio = mean_of["linucb"] / mean_of["uniform"]
    assert share == pytest.approx(ratio, rel=1e-6) and log == pytest.approx(np.log10(ratio), rel=1e-5)


def test_what_is_no_more_is_forgotten_and_runs_of_trials_move(tmp_path: Path) -> None:
    old = tmp_path / MEAN_EVENTS / "Linear-v0" / "linucb" / "seed-0-12345678"
    old.mkdir(parents=True)
    (old / "events.out.tfevents.1").write_bytes(b"x")
    both = [one for one in sweep(1) if one.job["agent"] in ("uniform", "linucb")]
    write_means(as_frame(both), tmp_path)
    write_means(as_frame([one for one in both if one.job["agent"] == "uniform"]), tmp_path)
    assert {path.name for path in (tmp_path / MEAN_EVENTS).iterdir()} == {"overview", "uniform"}
    assert (tmp_path / TRIAL_EVENTS / "Linear-v0" / "linucb" / "seed-0-12345678" / "events.out.tfevents.1").exists()
