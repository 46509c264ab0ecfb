from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from privbandit_envs.datasets.hotels import data as prepared
from privbandit_envs.datasets.hotels import sample as expedia_sample
from privbandit_envs.families.assortment import AssortmentProblem
from privbandit_envs.families.mnl import attraction

sample = expedia_sample.prepared  # which prepares it once


def problem(**changes: Any) -> AssortmentProblem:
    return AssortmentProblem(np.random.default_rng(0), **{"source": "expedia-sample", "dtype": "float64", **changes})


@pytest.mark.parametrize(("join", "dim"), [("outer", 180), ("concatenated", 28), ("full", 209)])
def test_features_are_products_of_a_hotel_and_a_search(join: str, dim: int) -> None:
    one = problem(join=join)
    contexts = one.contexts(50, np.random.default_rng(3))
    assert contexts.shape == (50, 40, dim + 1) and one.theta.shape == (dim,)
    drawn = np.random.default_rng(3).integers(1000, size=50)
    for user, search in zip(contexts, drawn, strict=True):
        u = sample().users[search]
        for hotel in (0, 17, 39):
            h = sample().hotels[hotel]
            both = np.outer(np.append(1, h), np.append(1, u)).ravel()
            expected = {"outer": np.outer(h, u).ravel(), "concatenated": np.concatenate([u, h]), "full": both}[join]
            assert np.allclose(user[hotel, :-1], expected, rtol=1e-12, atol=0)


def test_choices_come_from_the_fitted_model() -> None:
    one = problem(join="full")
    contexts = one.contexts(20, np.random.default_rng(4))
    searches = np.random.default_rng(4).integers(1000, size=20)
    phi = sample().theta["full"].reshape(11, 19)
    h, u = prepared.extended(sample().hotels), prepared.extended(sample().users[searches])
    assert np.allclose(one.weights(contexts), attraction(u @ phi.T @ h.T), rtol=1e-9)


@pytest.mark.wide
def test_searches_are_drawn_with_replacement_and_all_of_them_come() -> None:
    one = problem(join="concatenated")
    users = one.contexts(20_000, np.random.default_rng(5))[:, 0, :18]
    assert len(np.unique(users, axis=0)) == len(np.unique(sample().users, axis=0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("join", ["outer", "full"])
@pytest.mark.wide
def test_the_bounds_are_finite_and_reached(join: str, dtype: str) -> None:
    one = problem(join=join, dtype=dtype)
    contexts = one.contexts(6000, np.random.default_rng(6))
    high, largest = one.observation_space.high, np.abs(contexts).max(axis=(0, 1))
    assert np.isfinite(high).all() and (np.abs(contexts) <= high).all()
    assert (largest >= 0.7 * high[0]).all()


def test_a_constant_feature_has_a_bound_all_the_same(tmp_path: Path) -> None:
    hotels = sample().hotels.copy()
    hotels[:, 0] = 0
    flat = prepared.HotelData(hotels, sample().users, sample().prices, sample().theta, sample().facts)
    prepared.save(flat, tmp_path / "flat.npz")
    high = problem(source=str(tmp_path / "flat.npz")).observation_space.high
    assert (high[:, :18] == 1).all() and (high > 0).all()


def test_a_prepared_file_plays_like_the_sample(tmp_path: Path) -> None:
    prepared.save(sample(), tmp_path / "a.npz")
    first, second = (
        gym.make("privbandit/Assortment-v0", source=source, horizon=50).unwrapped
        for source in ("expedia-sample", str(tmp_path / "a.npz"))
    )
    assert isinstance(first.reset(seed=3), tuple) and isinstance(second.reset(seed=3), tuple)
    assert np.array_equal(first.upcoming(50), second.upcoming(50))  # type: ignore[attr-defined]


def test_revenues_of_hotels() -> None:
    prices = problem(revenues="prices").contexts(2, np.random.default_rng(0))[..., -1]
    assert np.allclose(prices, sample().prices / sample().prices.max())
    assert (problem().contexts(2, np.random.default_rng(0))[..., -1] == 1).all()
    fixed = np.linspace(0, 0.5, 40)
    assert np.allclose(problem(revenues=fixed).contexts(2, np.random.default_rng(0))[..., -1], fixed)
    assert len(np.unique(problem(revenues="random").contexts(2, np.random.default_rng(0))[..., -1])) == 80


BAD: list[tuple[dict[str, Any], str]] = [
    ({"n_items": 40}, "n_items cannot be combined with source 'expedia-sample'; leave it out, got 40."),
    ({"dim": 180}, "dim cannot be combined with source 'expedia-sample'; leave it out, got 180."),
    ({"features": "unit"}, "features cannot be combined with source 'expedia-sample'; leave it out, got 'unit'."),
    ({"theta": [0.0, 1.0]}, "theta cannot be combined with source 'expedia-sample'; leave it out, got [0.0, 1.0]."),
    ({"join": "outre"}, "join must be one of outer, concatenated, full; got 'outre' (did you mean 'outer'?)."),
    ({"source": "synthetic", "join": "full"}, "join cannot be combined with source 'synthetic'; leave it out"),
    ({"source": "synthetic", "revenues": "prices"}, "revenues must be one of ones, random; got 'prices'"),
    ({"source": "expedia"}, "got 'expedia' (did you mean 'expedia-sample'?)."),
    ({"source": "nowhere.npz"}, "the path of a file made by privbandit data expedia; got 'nowhere.npz'."),
    ({"source": 5}, "got 5."),
    ({"source": __file__}, "is no prepared file of hotels"),
    ({"revenues": [1.0] * 39}, "revenues must be 40 finite numbers"),
    ({"capacity": 41}, "capacity must be at most n_items = 40; got 41."),
]


@pytest.mark.parametrize(("kwargs", "message"), BAD)
def test_arguments_that_cannot_be_combined_are_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        gym.make("privbandit/Assortment-v0", **{"source": "expedia-sample", **kwargs})
    assert message in str(error.value) and "\n" not in str(error.value)
