import numpy as np
import pytest
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

from privbandit_envs import Assortments
from privbandit_envs.spaces import top_k


@given(st.integers(1, 30), st.data())
def test_samples_are_valid_and_full(n_items: int, data: st.DataObject) -> None:
    capacity = data.draw(st.integers(1, n_items))
    space = Assortments(n_items, capacity, seed=data.draw(st.integers(0, 100)))
    sample = space.sample()
    assert space.contains(sample) and sample.sum() == capacity and sample.dtype == np.int8


def test_samples_are_uniform_over_items() -> None:
    space = Assortments(10, 3, seed=0)
    counts = np.sum([space.sample() for _ in range(6000)], axis=0)
    assert np.abs(counts - 1800).max() < 5 * np.sqrt(6000 * 0.3 * 0.7)


def test_masks_and_probabilities_are_respected() -> None:
    space = Assortments(6, 3, seed=1)
    mask = np.array([1, 0, 2, 2, 0, 2], np.int8)
    for _ in range(50):
        sample = space.sample(mask=mask)
        assert sample[0] == 1 and not sample[[1, 4]].any() and space.contains(sample)
    weighted = np.sum([space.sample(probability=np.array([10, 1, 1, 1, 1, 0.0])) for _ in range(300)], axis=0)
    assert weighted[5] == 0 and weighted[0] > weighted[1:5].max()
    with pytest.raises(ValueError, match="more than 3 items"):
        space.sample(mask=np.array([1, 1, 1, 1, 0, 0], np.int8))
    with pytest.raises(ValueError, match="Only one"):
        space.sample(mask=mask, probability=np.ones(6))


def test_sets_that_are_too_large_or_malformed_are_outside() -> None:
    space = Assortments(5, 2)
    outside = [np.ones(5, np.int8), np.ones(4, np.int8), np.full(5, 0.5), "set", np.array([2, 0, 0, 0, 0], np.int8)]
    assert not any(space.contains(x) for x in outside)
    assert space.contains(np.zeros(5, np.int8))


def test_batches_hold_one_assortment_a_user() -> None:
    batch = batch_space(Assortments(8, 3), 4)
    sample = batch.sample()
    assert sample.shape == (4, 8) and (sample.sum(axis=1) == 3).all() and batch.contains(sample)
    assert batch == Assortments(8, 3, batch=(4,)) and batch != Assortments(8, 2, batch=(4,))
    assert repr(batch) == "Assortments(8, 3, batch=(4,))"


@pytest.mark.parametrize(("n_items", "capacity"), [(0, 1), (5, 0), (5, 6), (5, 1.5), (-1, 1)])
def test_impossible_sizes_are_refused(n_items: int, capacity: int) -> None:
    with pytest.raises(ValueError, match="got"):
        Assortments(n_items, capacity)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=4, max_size=4), min_size=1, max_size=5), st.integers(1, 5))
def test_top_k_takes_k_of_the_largest_even_with_ties(rows: list[list[int]], k: int) -> None:
    scores = np.array(rows, dtype=float)
    chosen = top_k(scores, k).astype(bool)
    assert (chosen.sum(axis=1) == min(k, 4)).all()
    for row, mask in zip(scores, chosen, strict=True):
        if not mask.all():
            assert row[mask].min() >= row[~mask].max()
