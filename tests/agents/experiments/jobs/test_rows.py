"""Rows of replications: draws of the laws, and cuts of data sets."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from privbandit_agents.experiments.jobs.rows import World, draw

from privbandit_envs.datasets import load


def test_replications_are_draws_of_the_laws_and_worlds_of_a_source_share_them() -> None:
    small, large = World(n_public=10, n_private=300), World(n_public=20, n_private=500, gamma=5)
    a, b, again = draw(small, 3), draw(large, 3), draw(small, 3)
    assert_array_equal(a.private[0], again.private[0])
    assert_array_equal(a.private[0], b.private[0][:300])
    assert_array_equal(a.private[1], b.private[1][:300])
    assert_array_equal(a.public[0], b.public[0][:10])
    assert not np.array_equal(a.private[0], draw(small, 4).private[0])
    assert [len(part[1]) for part in (a.private, a.public, a.test)] == [300, 10, 5000] and a.n_labels == 2
    x, y = draw(World(n_private=100_000), 0).private
    right = (y == ((x[:, 0] > 1 / 3) == (x[:, 1] > 1 / 3))).mean()
    assert right == pytest.approx(0.786, abs=0.005)  # the Bayes classifier, 4 standard errors


def test_a_stretch_multiplies_all_features_by_one_factor_a_replication() -> None:
    plain, stretched = World(n_private=50), World(n_private=50, stretch=(1, 5))
    factors = []
    for replication in range(20):
        a, b = draw(plain, replication), draw(stretched, replication)
        factor = b.private[0] / a.private[0]
        np.testing.assert_allclose(factor, factor[0, 0])
        np.testing.assert_allclose(b.test[0], factor[0, 0] * a.test[0])
        factors.append(factor[0, 0])
    assert min(factors) >= 1 and max(factors) <= 5 and np.ptp(factors) > 2


def test_a_data_set_is_cut_into_public_rows_training_and_test() -> None:
    world = World(source="breast_cancer", n_public=100)
    sample, rows = draw(world, 0), load("breast_cancer")
    assert [len(part[1]) for part in (sample.public, sample.private, sample.test)] == [100, 375, 94]  # .8 (569 - 100)
    together = np.concatenate([sample.public[0], sample.private[0], sample.test[0]])
    assert_array_equal(np.sort(together, axis=0), np.sort(rows.X, axis=0))
    assert not np.array_equal(sample.public[0], draw(world, 1).public[0])
    assert len(draw(world.model_copy(update={"n_private": 60}), 0).private[1]) == 60
    with pytest.raises(ValueError, match="n_public must be at most 568 for breast_cancer; got 569"):
        draw(World(source="breast_cancer", n_public=569), 0)
    with pytest.raises(ValueError, match="n_private must be at most 375"):
        draw(World(source="breast_cancer", n_public=100, n_private=400), 0)
    with pytest.raises(ValueError, match="n_public must be given"):
        draw(World(source="wine"), 0)


def test_public_rows_by_a_rule_are_taken_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ruled:
        X, y = np.arange(100.0)[:, None], np.arange(100) % 2
        label_names, public = ("a", "b"), np.arange(100) >= 70

    monkeypatch.setattr("privbandit_agents.experiments.jobs.rows.load", lambda source, **_: Ruled)
    sample = draw(World(source="census"), 0)
    assert set(sample.public[0].ravel()) == set(range(70, 100)) and len(sample.private[1]) == 56
    assert max(sample.private[0].max(), sample.test[0].max()) < 70
    fewer = draw(World(source="census", n_public=5), 0)
    assert len(fewer.public[1]) == 5 and fewer.public[0].min() >= 70 and len(fewer.private[1]) == 56
