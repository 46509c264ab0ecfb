"""The figure of a run, its colours and its labels."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from privbandit_agents.experiments import Trial
from privbandit_agents.experiments.results.frame import as_frame
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.views import lines
from privbandit_agents.experiments.views.figures import draw_regret
from privbandit_agents.experiments.views.style import Line, spread, styles_of


def outcome(agent: str, seed: int, regret: Sequence[float], **env_kwargs: object) -> Finished:
    checkpoints = np.arange(1, len(regret) + 1) * 100.0
    config = {"alpha": 0.5} if agent == "linucb" else {}
    trial = Trial("privbandit/Linear-v0", agent, int(checkpoints[-1]), seed, env_kwargs, config, len(regret))
    arrays = {"checkpoints": checkpoints, "regret": np.array(regret, float), "reward": checkpoints * 0.5}
    return Finished("trial", trial.spec, trial.settings, {**arrays, "seconds": np.array([1.0])})


LINUCB = [outcome("linucb", 0, [4, 4]), outcome("linucb", 1, [5, 6]), outcome("linucb", 2, [6, 8])]
HAND = [outcome("uniform", 0, [10, 20]), outcome("uniform", 1, [20, 40]), *LINUCB]


def panels_of(runs: Sequence[Finished]) -> dict[str, list[Line]]:
    return {title: lines.curves_of(rows) for title, rows in lines.panels_of(as_frame(runs)).items()}


@pytest.mark.wide
def test_the_figure_is_written_and_shows_something(tmp_path: Path) -> None:
    draw_regret(as_frame([*HAND, outcome("uniform", 0, [1, 2], dim=5)]), tmp_path / "regret.png")
    image = matplotlib.image.imread(tmp_path / "regret.png")
    height, width, _ = image.shape
    assert width > 1000 and height > 300
    colours = {tuple(colour) for colour in (image[..., :3] * 255).astype(int).reshape(-1, 3)}
    assert (0x77, 0x77, 0x77) in colours and (0x00, 0x72, 0xB2) in colours


def test_horizons_have_panels_of_their_own_and_agents_may_be_gone(tmp_path: Path) -> None:
    runs = [outcome("uniform", 0, [1, 2]), outcome("uniform", 0, [1, 2, 3])]
    assert list(panels_of(runs)) == ["Linear-v0, 200 users", "Linear-v0, 300 users"]
    gone = [Finished("trial", {**run.job, "agent": "gone:agent"}, run.settings, run.arrays) for run in runs]
    draw_regret(as_frame(gone), tmp_path / "gone.png")
    assert (tmp_path / "gone.png").stat().st_size > 10_000


@pytest.mark.wide
def test_agents_of_equal_regret_are_both_drawn(tmp_path: Path) -> None:
    for regret in ([1, 2], [0, 0]):
        draw_regret(
            as_frame([outcome(one, 0, regret) for one in ("greedy", "linucb", "uniform")]), tmp_path / "tie.png"
        )
        assert (tmp_path / "tie.png").stat().st_size > 10_000


def test_a_curve_is_the_mean_over_seeds() -> None:
    ((title, (curve,)),) = panels_of(LINUCB).items()
    assert title == "Linear-v0" and curve.label == "linucb alpha=0.5" and curve.replications == 3
    assert curve.x.tolist() == [100, 200] and not curve.level
    np.testing.assert_allclose(curve.mean.value, [5, 6])
    np.testing.assert_allclose(curve.mean.half_width, [4.302653 / math.sqrt(3), 4.302653 * 2 / math.sqrt(3)], rtol=1e-5)


def test_an_agent_looks_the_same_in_every_panel_and_unlike_its_neighbours() -> None:
    agents = ["uniform", "greedy", "linucb", "lints", "ppo", "a2c", "dqn"]
    runs = [outcome(agent, 0, [1, 2]) for agent in agents]
    others = ["uniform", "dqn", "sa-lasso", "histogram", "tree-all"]
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
