import math

import numpy as np
from gymnasium.spaces import Discrete
from privbandit_agents.base.arms import ArmModels, best_arm, in_blocks, optimistic_scorer, with_intercept
from privbandit_agents.base.records import played
from privbandit_agents.base.ties import Ties
from privbandit_agents.privacy.contributions.moments import inverse_root


def test_arms_that_do_not_exist_have_no_features() -> None:
    contexts = np.arange(12.0).reshape(2, 3, 2)
    assert played(contexts, [1, 2]).tolist() == [[2, 3], [10, 11]]
    for bad in (-1, 3, 7, 0.5, math.nan):
        assert played(contexts[:1], bad).tolist() == [[0, 0]]


def test_the_best_arm_maximises_the_upper_bound() -> None:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((3, 3))
    a, theta, contexts = root @ root.T + np.eye(3), rng.standard_normal(3), rng.standard_normal((20, 5, 3))
    scorer = optimistic_scorer(inverse_root(a), theta, 2.0)
    widths = np.sqrt(np.einsum("nki,ij,nkj->nk", contexts, np.linalg.inv(a), contexts))
    assert np.allclose(np.linalg.norm(contexts @ scorer[:, :-1], axis=-1), 2 * widths)
    assert np.array_equal(best_arm(contexts, scorer, Ties(0)), (contexts @ theta + 2 * widths).argmax(axis=1))


def test_a_user_alone_has_the_features_and_the_block_that_it_has_among_others() -> None:
    contexts = np.random.default_rng(4).standard_normal((6, 3)) * np.array([0.1, 1, 9, 1e200, 1, 1])[:, None]
    contexts[4, 1], contexts[5, 2] = math.nan, math.inf
    arms, rewards = np.array([0, 3, -1, 1, 2, 3]), np.array([0.2, -1.0, 2.0, 0.7, math.nan, 1.0])
    models = ArmModels()
    models.context_shape, models.action_space = (3,), Discrete(4)
    together = models.regressed(contexts, arms, rewards)
    blocks = in_blocks(together[0], together[2], 4)
    for user in range(len(arms)):
        own = slice(user, user + 1)
        alone = models.regressed(contexts[own], arms[own], rewards[own])
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, np.asarray(all_of_them)[own])
        np.testing.assert_array_equal(in_blocks(alone[0], alone[2], 4), blocks[own])
        np.testing.assert_array_equal(with_intercept(contexts[user]), with_intercept(contexts)[user])
