"""Users by counts are the same world's users: laws, books and bookmarks. Error rates below 1e-4 a check."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from scipy import stats

from privbandit_envs import register
from privbandit_envs.env import BanditEnv
from privbandit_envs.families.linear import LinearProblem
from privbandit_envs.problem import Support
from privbandit_envs.testing import check_counts, check_episode
from privbandit_envs.wrappers import RegretCurve

SMALL = {"n_arms": 3, "dim": 2, "support": 12, "horizon": 10**7}


def world(seed: int = 0, **changes: Any) -> BanditEnv:
    env: Any = gym.make("privbandit/Linear-v0", **{**SMALL, **changes}).unwrapped
    env.reset(seed=seed)
    return env  # type: ignore[no-any-return]


def arms(env: BanditEnv) -> np.ndarray:
    assert env.support is not None
    return np.arange(len(env.support.contexts)) % 3


def test_contexts_come_as_often_as_in_the_stream() -> None:
    env = world()
    assert env.support is not None
    counts = env.draw_counts(20_000)
    stream = env.upcoming(20_000)
    seen = np.array([(stream == context).all(axis=(1, 2)).sum() for context in env.support.contexts])
    assert counts.sum() == 20_000
    assert stats.chi2_contingency(np.stack([counts, seen])).pvalue > 1e-4
    assert stats.chi2_contingency(np.stack([counts * (1 + 0.3 * (np.arange(12) < 6)), seen])).pvalue < 1e-4


def test_rewards_have_the_law_of_the_stream() -> None:
    env = world()
    assert env.support is not None
    rows = np.arange(12)
    tally = env.serve_counts(rows, arms(env), np.full(12, 40_000))
    means = env.problem.expected_reward(env.support.contexts, arms(env))
    for row in rows:
        here = tally.rows == row
        assert tally.counts[here].sum() == 40_000 and set(tally.feedback[here]) <= {-1.0, 1.0}
        assert tally.counts[here] @ tally.feedback[here] / 40_000 == pytest.approx(means[row], abs=0.025)
    assert tally.reward == tally.counts @ tally.feedback


def test_regret_is_the_oracles() -> None:
    env, twin = world(), world()
    contexts = twin.upcoming(3000)
    assert env.support is not None
    rows = np.array([(env.support.contexts == context).all(axis=(1, 2)).argmax() for context in contexts])
    served = twin.serve(arms(env)[rows])
    tally = env.serve_counts(np.arange(12), arms(env), np.bincount(rows, minlength=12))
    assert tally.regret == pytest.approx(served.regret.sum())


def test_counted_users_leave_the_stream_alone() -> None:
    env, twin = world(), world()
    env.serve_counts(np.arange(12), arms(env), env.draw_counts(5000))
    assert np.array_equal(env.upcoming(100), twin.upcoming(100))
    assert env.rounds_left == twin.rounds_left - 5000


def test_a_bookmark_holds_the_place_among_the_counted() -> None:
    env = world(seed=3)
    env.draw_counts(1000)
    bookmark = env.bookmark()
    following = env.draw_counts(1000), env.upcoming(5)
    other = world(seed=9)
    other.go_to(bookmark)
    assert np.array_equal(other.draw_counts(1000), following[0]) and np.array_equal(other.upcoming(5), following[1])


@pytest.mark.parametrize("changes", [{"support": None}, {"noise": "uniform"}])
def test_a_world_without_finitely_many_contexts_or_rewards_has_none(changes: dict[str, Any]) -> None:
    env = world(**changes)
    assert env.support is None
    with pytest.raises(TypeError, match=r"serve its users with step or serve\.$"):
        env.draw_counts(5)


@pytest.mark.parametrize(
    ("chances", "message"),
    [([0.5], r"must be 2, one for each context; got \(1,\)"), ([0.5, 0.6], "add up to 1"), ([-0.5, 1.5], ">= 0")],
)
def test_probabilities_of_a_support_are_checked(chances: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Support(np.zeros((2, 3, 4)), np.array(chances))


def test_an_episode_serves_no_more_users_than_it_has() -> None:
    env = world(horizon=100)
    with pytest.raises(ResetNeeded, match="100 left"):
        env.serve_counts(np.array([0]), np.array([1]), np.array([101]))


def test_a_curve_counts_many_users_up_to_its_next_checkpoint() -> None:
    curve = RegretCurve([10, 30])
    curve.add_many(10, 5.0, 1.0)
    curve.add(0.5, 1.0)
    assert curve.to_next == 19
    with pytest.raises(ValueError, match=r"users must be 1, \.\.\., 19"):
        curve.add_many(20, 1.0, 1.0)
    curve.add_many(19, 2.0, 3.0)
    assert curve.regret.tolist() == [5.0, 7.5] and curve.reward.tolist() == [1.0, 5.0] and curve.to_next > 10**18


@pytest.mark.parametrize(("design", "n_arms", "dim"), [("case1", 2, 3), ("case2", 2, 3), ("ill", 3, 2), ("ill", 1, 4)])
def test_all_contexts_of_a_discrete_design_have_its_law(design: str, n_arms: int, dim: int) -> None:
    settings: dict[str, Any] = {"design": design, "n_arms": n_arms, "dim": dim, "delta": 0.2}
    listed, drawn = world(support="all", **settings), world(support=None, **settings)
    assert listed.support is not None and listed.support.probabilities.sum() == pytest.approx(1)
    support = listed.support.contexts
    assert len(np.unique(support, axis=0)) == len(support)
    seen = [(env.upcoming(20_000)[:, None] == support).all(axis=(2, 3)).sum(axis=0) for env in (listed, drawn)]
    for counts in (*seen, listed.draw_counts(20_000)):
        assert counts.sum() == 20_000
        assert stats.chisquare(counts, 20_000 * listed.support.probabilities).pvalue > 1e-4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"support": "all", "design": "sphere"}, "support 'all' is for the discrete designs .*; got design 'sphere'"),
        ({"support": "some"}, "support must be a number of contexts or 'all'; got 'some'"),
        (
            {"support": "all", "design": "ill", "n_arms": 6, "dim": 5},
            r"support 'all' has 2\^24 contexts, more than 2236962",
        ),
        ({"support": "all", "design": "ill", "n_arms": 3, "dim": 400}, r"support 'all' has 2\^1197 contexts"),
        ({"support": 11_184_811}, "support must be at most 11184810 contexts of this shape; got 11184811"),
    ],
)
def test_a_support_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        world(**changes)


def test_thousands_of_contexts_serve_a_billion_users() -> None:
    env = world(support="all", design="case1", delta=0.2, n_arms=14, horizon=10**9)
    assert env.support is not None and env.support.probabilities.sum() == pytest.approx(1)
    contexts, users = env.support.contexts, 10**9
    assert contexts.shape == (2**14, 14, 2)
    counts = env.draw_counts(users)
    rare = counts @ contexts[:, :, 1]  # of every arm; deviations of 5 sigma and more are refused
    assert np.abs(rare - 0.2 * users).max() < 5 * np.sqrt(0.16 * users) < 0.001 * users
    tally = env.serve_counts(np.arange(2**14), np.zeros(2**14, int), counts)
    assert tally.counts.sum() == users


def test_a_mixed_design_has_large_features_as_often_as_it_says() -> None:
    contexts = world(support=None, design="mixed", delta=0.01).upcoming(20_000)
    large = np.abs(contexts[..., 1] / contexts[..., 0]) > 0.2  # the ladder has 0.1
    assert np.mean(large) == pytest.approx(0.05 * (1 - 2 * np.arctan(0.2) / np.pi), abs=0.004)
    assert (np.linalg.norm(contexts, axis=-1) <= 1).all()


class Lying(LinearProblem):
    """A world by counts with other rewards than one by one."""

    def outcome_law(self, contexts: Any, actions: Any) -> Any:
        values, chances = super().outcome_law(contexts, actions)
        return values, chances[:, ::-1]


def test_the_conformance_suite_looks_at_users_by_counts() -> None:
    register("lying/Counts-v0", f"{__name__}:Lying")  # no "Linear-v0", which other tests take for the package's
    for support in (2, 200):
        for check in (check_counts, check_episode):
            check("privbandit/Linear-v0", support=support)
        with pytest.raises(AssertionError, match="other means"):
            check_counts("lying/Counts-v0", support=support)
