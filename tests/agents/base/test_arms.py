import math

import numpy as np
from privbandit_agents.base.arms import best_arm, optimistic_scorer, played


def test_arms_that_do_not_exist_have_no_features() -> None:
    contexts = np.arange(12.0).reshape(2, 3, 2)
    assert played(contexts, [1, 2]).tolist() == [[2, 3], [10, 11]]
    for bad in (-1, 3, 7, 0.5, math.nan):
        assert played(contexts[:1], bad).tolist() == [[0, 0]]


def test_the_best_arm_maximises_the_upper_bound() -> None:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((3, 3))
    a, theta, contexts = root @ root.T + np.eye(3), rng.standard_normal(3), rng.standard_normal((20, 5, 3))
    scorer = optimistic_scorer(a, theta, 2.0)
    widths = np.sqrt(np.einsum("nki,ij,nkj->nk", contexts, np.linalg.inv(a), contexts))
    assert np.allclose(np.linalg.norm(contexts @ scorer[:, :-1], axis=-1), 2 * widths)
    assert np.array_equal(best_arm(contexts, scorer), (contexts @ theta + 2 * widths).argmax(axis=1))
