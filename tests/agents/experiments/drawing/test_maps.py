"""Maps of where agents may be trusted: what they say of made-up results, and the picture."""

from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray
from privbandit_agents.experiments import Trial
from privbandit_agents.experiments.analysis.tables import write_tables
from privbandit_agents.experiments.analysis.trust import TrustMap, share, trust_maps, trust_table
from privbandit_agents.experiments.drawing import maps as maps_module
from privbandit_agents.experiments.drawing.maps import draw_maps
from privbandit_agents.experiments.schema.experiment import parse_experiment
from privbandit_agents.experiments.store.results import Finished
from privbandit_agents.experiments.study import Study, prepared
from privbandit_agents.experiments.usage import UsageError

from privbandit_envs.wrappers import even_checkpoints

SEEDS, USERS = 4, 1000
AGENTS = [
    {"name": "uniform"},
    {"name": "linucb"},
    {"name": "ldp-greedy", "grid": {"epsilon": [1, 2]}},
    {"name": "ldp-linucb", "grid": {"epsilon": [1, 2]}},
    {"name": "jdp-linucb", "epsilon": 1},
]
WORLDS = {"plane": {"env.dim": 2}, "space": {"env.dim": 3}}


def study(scale: str = "paper", **changed: Any) -> Study:
    columns = ["uniform", "linucb", "ldp-greedy", "ldp-linucb", "jdp-linucb"]
    content = {
        "title": "made up",
        "about": "nothing is run",
        "sweep": {
            "envs": [{"id": "privbandit/Linear-v0", "grid": {"dim": [2, 3]}}],
            "agents": AGENTS,
            "horizon": USERS,
            "seeds": SEEDS,
            "checkpoints": 100,
        },
        "variants": {name: {"agent": name} for name in columns},
        "scales": {"smoke": {"seeds": 2}},
        "maps": [{"name": "map", "title": "Made up", "agents": columns, "worlds": WORLDS} | changed],
    }
    return prepared(parse_experiment(content, "made-up.yaml"), "made-up", scale)


def curve(trial: Trial, users: NDArray[np.float64]) -> NDArray[np.float64]:
    """Uniform: 1 a user. LinUCB and jdp-linucb: nothing after 100 users. ldp-greedy: as uniform on one of 4 seeds."""
    if trial.agent == "uniform" or (trial.agent == "ldp-greedy" and trial.seed == 3):
        return users
    return np.minimum(users, 100) if trial.agent.endswith("linucb") and trial.agent[0] != "l" else users / 10


def results_of(made: Study) -> dict[str, Finished]:
    results = {}
    for trial in made.jobs:
        assert isinstance(trial, Trial)
        users = even_checkpoints(trial.horizon, trial.checkpoints).astype(np.float64)
        arrays = {"checkpoints": users, "regret": curve(trial, users), "reward": users, "seconds": np.ones(1)}
        kind = {"l": "local 1 a visit, exact", "j": "joint 1, 1e-05 a visit, real"}.get(trial.agent[0], "none")
        notes = {"simulation": "users", "privacy": "none" if trial.agent == "linucb" else kind}
        results[trial.name] = Finished("trial", trial.spec, trial.settings, arrays, notes)
    return results


def maps_of(made: Study) -> list[TrustMap]:
    ((spec, places),) = made.maps
    return trust_maps(spec, places, made.cells, results_of(made))


def test_a_map_says_what_was_measured() -> None:
    one, two = maps_of(study())
    assert (one.panel, two.panel) == ("epsilon = 1", "epsilon = 2")
    uniform, linucb, greedy, noisy, joint = one.places[0]
    assert uniform and linucb and greedy and noisy and joint
    assert (uniform.mean.value, uniform.failed, uniform.notion) == (1, 1, "none")
    assert (linucb.mean.value, linucb.failed, linucb.late) == pytest.approx((0.1, 0, 0.1))
    assert (greedy.mean.value, greedy.median, greedy.failed) == pytest.approx((0.325, 0.1, 0.25))
    assert (joint.mean.value, joint.late) == pytest.approx((0.1, 0)) and (joint.notion, joint.seeds) == ("joint", SEEDS)
    assert one.over_best(0, 2) == pytest.approx(3.25) and one.over_best(0, 3) == one.over_best(0, 4) == 1
    assert two.places[1][4] is None and two.places[1][1] == one.places[1][1]  # no budget: in every map


def test_every_text_of_a_map_can_be_read_at_the_width_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """876 CSS pixels at 96 an inch: at least 7 pt there, and nothing outside the picture or on its neighbor."""
    drawn: list[Figure] = []
    monkeypatch.setattr(maps_module, "save", lambda figure, *_: drawn.append(figure))
    worlds = {f"a world whose name is rather long {dim}": {"env.dim": dim} for dim in (2, 3)}
    draw_maps(maps_of(study(worlds=worlds)), "Made up", Path("map.png"))
    (figure,) = drawn
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    page = 876 / 96 / figure.get_figwidth()  # one inch of the picture, on the page
    texts = [text for text in figure.findobj(Text) if text.get_text().strip()]
    assert min(float(text.get_fontsize()) * page for text in texts) >= 7
    assert len(figure.axes) == 2, "one map below the other"
    upper, lower = (axis.get_position() for axis in figure.axes)
    assert lower.y1 < upper.y0 and lower.x0 == pytest.approx(upper.x0, abs=0.02)
    boxes = [text.get_window_extent() for axis in figure.axes for text in axis.texts if text.get_text()]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    width, height = figure.get_size_inches() * figure.dpi
    for box in [text.get_window_extent() for text in texts]:
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1


def test_a_map_leaves_out_worlds_without_play_at_its_budget() -> None:
    made = study()
    ((spec, places),) = made.maps
    first, second = places
    bare = [a if a is b else None for a, b in zip(places[first][1], places[second][1], strict=True)]
    assert {cell is None for cell in bare} == {True, False}
    one, two = trust_maps(spec, {first: places[first], second: [places[second][0], bare]}, made.cells, results_of(made))
    assert one.worlds == list(WORLDS) and two.worlds == ["plane"] and len(two.places) == 1


def test_picture_and_tables_are_written(tmp_path: Path) -> None:
    maps = maps_of(study())
    write_tables(list(map(trust_table, maps)), tmp_path, "map")
    draw_maps(maps, "Made up", tmp_path / "map.png")
    assert matplotlib.image.imread(tmp_path / "map.png").shape[0] > 300
    table = pl.read_csv(tmp_path / "map.csv")
    assert len(table) == 2 * 10 - 2 and {"over_best", "median", "failed", "late"} <= set(table.columns)
    text = (tmp_path / "map.md").read_text()
    assert "| plane | 1.00 (100%) | .10 | .33 (25%) |" in text and "| space |" in text and "| - |" in text


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"worlds": {"hall": {"env.dim": 4}}}, "no trial has env.dim=4"),
        ({"agents": ["linucp"]}, "linucp"),
        ({"worlds": {"both": {"env": "Linear-v0"}}}, "matches 2 agents or environments"),
        ({"panels": "agent.epsilo"}, "no trial has a setting 'agent.epsilo'"),
    ],
)
def test_a_wrong_map_is_refused_before_anything_runs(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=r"maps\[0\]") as error:
        study(**changed)
    assert message in str(error.value)


def test_an_experiment_without_a_quick_scale_says_so() -> None:
    with pytest.raises(UsageError, match="no quick scale; smoke and paper are there"):
        study("quick")


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1.00"), (0.996, "1.00"), (0.9, ".90"), (0.0313, ".031"), (0.0096, ".0096")]
)
def test_a_share_has_two_digits(value: float, text: str) -> None:
    assert share(value) == text
