"""Pictures of worlds: they are drawn, and the cells of a partition tile the square."""

import math
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from privbandit_agents.bounds.labels import excess_risk
from privbandit_agents.experiments.schema.experiment import read_experiment
from privbandit_agents.experiments.schema.figures import Picture
from privbandit_agents.experiments.shelf import library
from privbandit_agents.experiments.views.pictures import boxes, draw_picture
from privbandit_agents.experiments.views.style import Look
from privbandit_agents.local.trees.partition import grow

DRAWN = [
    pytest.param(picture, id=picture.name)
    for name in ("lpct-fig3", "lpct-fig9")
    for picture in read_experiment(library()[name]).pictures
]


@pytest.mark.parametrize("picture", DRAWN)
@pytest.mark.wide
def test_a_picture_is_drawn(picture: Picture, tmp_path: Path) -> None:
    draw_picture(picture, tmp_path / "it.png", Look())
    pixels: Any = matplotlib.image.imread(tmp_path / "it.png")
    assert len(np.unique(pixels[..., :3].reshape(-1, 3), axis=0)) > 20  # not a blank page


def test_the_cells_of_a_partition_tile_the_square() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((300, 2)), rng.integers(0, 2, 300)
    for rule in ("max-edge", "occupied", "random"):
        tree = grow(rule, x, y, 5)
        corners = boxes(tree)
        assert len(corners) == tree.leaves and sum((high - low).prod() for low, high in corners) == pytest.approx(1)
        points = np.array([(low + high) / 2 for low, high in corners])
        assert len(set(tree.find(points))) == tree.leaves


def test_the_rates_have_their_powers() -> None:
    n = np.array([1e3, 8e3])
    assert np.divide(*excess_risk(n)) == pytest.approx(2)  # n^(-1/3)
    assert np.divide(*excess_risk(n, of="n_public", gamma=0.5)) == pytest.approx(4)  # n^(-2/3)
    worth = (math.expm1(2) / math.expm1(1)) ** 2  # of a row at epsilon = 2 beside one at 1
    assert excess_risk(1e4, epsilon=2)[()] == pytest.approx(excess_risk(worth * 1e4)[()])
    with pytest.raises(ValueError, match="of must be"):
        excess_risk(n, of="users")  # type: ignore[arg-type]
