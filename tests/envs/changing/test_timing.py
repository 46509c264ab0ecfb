import math
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import LearningAgent, make, play
from privbandit_agents.playing.play import without_limit

from privbandit_envs import Delay, DelayFeedback
from privbandit_envs.changing.delay import regime
from privbandit_envs.changing.timeline import Timeline
from privbandit_envs.families.linear import LinearProblem

SMALL: dict[str, Any] = {"n_arms": 3, "dim": 3, "horizon": 1200}
CHANGING: dict[str, dict[str, Any]] = {
    "jumps": {"jumps": [300, 601]},
    "drift": {"drift": 0.01},
    "shift": {"shifts": {500: {"design": "ill"}}},
    "all": {"jumps": [300], "drift": -0.003, "shifts": {"300": {"noise": "uniform"}, 700: {"design": "heavy"}}},
}


def world(**more: Any) -> Any:
    return gym.make("privbandit/Linear-v0", **SMALL, **more).unwrapped


def test_a_world_that_does_not_change_has_the_users_it_always_had() -> None:
    """Numbers of the version before worlds could change."""
    env = world()
    env.reset(seed=11)
    contexts = env.upcoming(400)
    served = env.serve(np.arange(400) % 3)
    assert np.allclose(contexts[399].sum(), EXPECTED[0], atol=1e-6) and served.reward.sum() == EXPECTED[1]
    assert served.regret.sum() == pytest.approx(EXPECTED[2], abs=1e-9)


EXPECTED = (-2.392930746078491, -6.0, 174.283083077178)


def test_blocks_before_the_first_change_are_those_of_the_world_that_stays() -> None:
    plain = world()
    for changed in ({"jumps": [700]}, {"shifts": {700: {"design": "ill"}}}):
        env = world(**changed)
        for one in (env, plain):
            one.reset(seed=4)
        assert np.array_equal(env.upcoming(512), plain.upcoming(512))
        a, b = (one.serve(np.zeros(512, int)) for one in (env, plain))
        assert np.array_equal(a.reward, b.reward) and np.array_equal(a.regret, b.regret)


@pytest.mark.parametrize("kind", CHANGING)
def test_steps_blocks_and_bookmarks_give_the_same_users(kind: str) -> None:
    env, other = world(**CHANGING[kind]), world(**CHANGING[kind])
    env.reset(seed=4)
    other.reset(seed=4)
    served = env.serve(np.arange(1000) % 3)
    rewards, mark = [], None
    for t in range(1000):
        if t == 650:
            mark = other.bookmark()
        rewards.append(other.step(t % 3)[1])
    assert np.array_equal(served.reward, rewards)
    again = world(**CHANGING[kind])
    again.go_to(pickle.loads(pickle.dumps(mark)))
    assert np.array_equal(again.serve(np.arange(650, 1000) % 3).reward, rewards[650:])


def test_theta_jumps_and_turns_as_it_is_told() -> None:
    env = world(jumps=[500], drift=0.002)
    env.reset(seed=1)
    time = env.problem
    assert isinstance(time, Timeline)
    thetas = {user: time.at(user).theta for user in (0, 49, 50, 450, 499, 500, 549, 550)}  # type: ignore[attr-defined]
    norm = np.linalg.norm(thetas[0])
    assert all(np.linalg.norm(theta) == pytest.approx(norm) for theta in thetas.values())
    assert (
        np.array_equal(thetas[0], thetas[49]) and np.array_equal(thetas[450], thetas[499]) and thetas[500] is not None
    )
    for start, later in ((0, 50), (0, 450), (500, 550)):
        assert thetas[start] @ thetas[later] / norm**2 == pytest.approx(math.cos(0.002 * (later - start)))
    assert not np.allclose(thetas[499], thetas[500], atol=1e-3)


def test_a_shift_changes_the_users_and_leaves_theta() -> None:
    env = world(shifts={400: {"design": "adversarial"}})
    env.reset(seed=1)
    assert np.array_equal(env.problem.at(0).theta, env.problem.at(400).theta)
    contexts = env.upcoming(800)
    assert not (contexts[:400] == 0).any() and (contexts[400:] == 0).any(axis=(1, 2)).all()


def test_a_turned_world_keeps_its_rotation_whatever_changes() -> None:
    """Jumps, drift and shifts, of the support too, happen in the coordinates of the first user."""
    changes: dict[str, Any] = {"jumps": [300], "shifts": {600: {"delta": 0.5}}, "support": 20, "delta": 0.01}
    straight, turned = (world(design="ill", rotate=rotate, **changes) for rotate in (False, True))
    for env in (straight, turned):
        env.reset(seed=3)
    rotation = turned.problem.at(0).rotation
    for user in (0, 300, 600):
        before, after = straight.problem.at(user), turned.problem.at(user)
        assert np.array_equal(after.rotation, rotation)
        assert np.allclose(after.theta, rotation @ before.theta, atol=1e-12)
    assert np.allclose(turned.upcoming(900), straight.upcoming(900) @ rotation.T, atol=1e-6)
    assert not np.allclose(turned.problem.at(0).theta, turned.problem.at(300).theta, atol=1e-3)


def test_static_regret_is_that_against_the_best_fixed_policy() -> None:
    """In hindsight no fixed direction of a fine grid does better than the policy that static regret is against."""
    env = world(jumps=[400, 900])
    result = play(env, make("uniform", env, seed=0), 1200, seed=3)
    env.reset(seed=3)
    contexts, means = env.upcoming(1200), np.zeros((1200, 3))
    for start, stop in ((0, 400), (400, 900), (900, 1200)):
        means[start:stop] = env.problem.at(start).means(contexts[start:stop])
    thetas = np.random.default_rng(0).standard_normal((400, 3))
    best = max(means[np.arange(1200), (contexts @ theta).argmax(axis=1)].sum() for theta in thetas)
    dynamic_best = means.max(axis=1).sum()
    assert result.static is not None
    fixed = dynamic_best - (result.regret[-1] - result.static[-1])
    assert fixed == pytest.approx(best, abs=25) and fixed > best - 8, "on average over users, not in hindsight"


def test_other_families_change_too() -> None:
    for name, more in (("SparseLinear", {"dim": 20}), ("Assortment", {"n_items": 6, "capacity": 2})):
        env = gym.make(f"privbandit/{name}-v0", horizon=200, jumps=[80], drift=0.01, **more)  # type: ignore[arg-type]
        result = play(env, make("uniform", env, seed=0), 200, seed=0)
        assert (result.static is None) == (name == "Assortment") and result.regret[-1] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"jumps": "soon"},
        {"jumps": [5, 5]},
        {"jumps": [0]},
        {"jumps": [2.5]},
        {"drift": math.nan},
        {"drift": 0.1, "theta": [0.5, 0.0, 0.0]},
        {"jumps": [9], "theta": [0.1, 0.2, 0.3]},
        {"shifts": [3]},
        {"shifts": {4: {"dim": 9}}},
        {"shifts": {4: {"design": "round"}}},
        {"shifts": {-4: {}}},
        {"shifts": {4: {"theta": [0.1, 0.2, 0.3]}}},
        {"drift": ""},
    ],
)
def test_changes_that_cannot_be_are_refused_in_a_sentence(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)) as told:
        world(**wrong)
    assert "\n" not in str(told.value) and len(str(told.value)) < 200


def test_arrays_of_numbers_are_lists() -> None:
    env, other = world(jumps=np.array([5, 9])), world(jumps=[5, 9], drift=None, shifts=None)
    for one in (env, other):
        one.reset(seed=0)
    assert np.array_equal(env.serve(np.zeros(20, int)).reward, other.serve(np.zeros(20, int)).reward)


@pytest.mark.parametrize("design", ["heavy", "adversarial"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_heavy_and_adversarial_features_are_in_the_ball(design: str, dtype: str) -> None:
    env = world(design=design, dtype=dtype)
    env.reset(seed=0)
    lengths = np.linalg.norm(env.upcoming(1200).astype(np.float64), axis=2)
    assert lengths.max() <= 1
    if design == "heavy":
        for r in (0.1, 0.3, 0.9):
            share, expected = (lengths > r).mean(), (0.05 / r) ** 1.2
            assert abs(share - expected) < 5 * math.sqrt(expected / lengths.size)


def test_an_adversary_shows_one_direction_after_the_other() -> None:
    env = world(design="adversarial")
    env.reset(seed=0)
    spread = np.ptp(env.upcoming(1200), axis=1).reshape(3, 400, 3)
    assert (spread[[0, 1, 2], :, [0, 1, 2]] > 1.9).all()
    assert (spread[0, :, 1:] == 0).all() and (spread[1, :, 2] == 0).all()
    direct = LinearProblem(np.random.default_rng(0), n_arms=3, dim=3, design="adversarial", horizon=1200)
    late = direct.users(800, 2, np.random.default_rng(1))
    assert (np.ptp(late, axis=1)[:, 2] > 1.9).all()


def late(law: Any) -> DelayFeedback:
    return DelayFeedback(world(), law)


@pytest.mark.parametrize("agent", ["linucb", "ldp-greedy"])
def test_no_delay_is_no_change(agent: str) -> None:
    env = world()
    plain = play(env, make(agent, env, seed=2), 200, seed=5, by_counts=False)
    delayed = play(late(0), make(agent, env, seed=2), 200, seed=5)
    assert np.array_equal(plain.regret, delayed.regret)


@pytest.mark.wide_at("heavy", "fixed")
@pytest.mark.parametrize("law", ["fixed", "geometric", "heavy", "batch"])
def test_every_report_comes_once_when_it_is_due(law: str) -> None:
    env = late(Delay(20, law))
    context, _ = env.reset(seed=1)
    shown, came = [], []
    for t in range(1200):
        shown.append(context)
        context, *_, info = env.step(t % 3)
        assert "feedback" not in info
        if info["reports"] is not None:
            came += [(t, c, a) for c, a in zip(info["reports"][0], info["reports"][1], strict=True)]
    users = [next(u for u in range(t, -1, -1) if np.array_equal(shown[u], c)) for t, c, _ in came]
    assert len(set(users)) == len(users) == 1200 - env.outstanding
    assert all(action == user % 3 for user, (_, _, action) in zip(users, came, strict=True))
    delays = np.array([t - user for user, (t, _, _) in zip(users, came, strict=True)])
    assert delays.mean() == pytest.approx(9.5 if law == "batch" else 20, rel=0.25)
    assert (law in ("fixed", "batch")) == (np.diff(users) > 0).all(), "out of order where delays are drawn"


def test_missing_reports_never_come() -> None:
    env = late(Delay(0, "fixed", missing=0.3))
    env.reset(seed=0)
    came = sum(env.step(0)[4]["reports"] is not None for _ in range(1000))
    assert abs(came - 700) < 5 * math.sqrt(210) and env.outstanding == 0


def test_delays_know_nothing_of_records() -> None:
    """Other actions get other answers, and reports come at the same times."""
    times = []
    for action in (0, 2):
        env = late(Delay(15))
        env.reset(seed=3)
        times.append([0 if (r := env.step(action)[4]["reports"]) is None else len(r[2]) for _ in range(300)])
    assert times[0] == times[1]


@pytest.mark.parametrize("law", [-1, math.nan, lambda rng, user: -2, lambda rng, user: "soon"])
def test_delays_that_cannot_be_are_refused(law: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        env = late(law)
        env.reset(seed=0)
        env.step(0)


@pytest.mark.parametrize("name", ["linucb", "ldp-linucb", "shuffle-linucb", "jdp-linucb", "dp-dqn"])
def test_agents_of_every_shape_take_late_and_missing_reports(name: str) -> None:
    """Who hears of nobody stays as it was, and a local agent's users have paid nothing."""
    for law in (Delay(7, "batch"), Delay(3, "heavy", missing=0.3), Delay(0, "fixed", missing=1.0), Delay(1e9, "fixed")):
        env = late(law)
        agent: Any = make(name, env, seed=0)
        fresh = make(name, env, seed=0)
        assert np.isfinite(play(env, agent, 60, seed=1).regret).all()
        if law.missing == 1 or (law.mean == 1e9 and name != "linucb"):  # which counts users whose rewards are to come
            probe = world().reset(seed=0)[0][None]
            laws = [one.probabilities(probe, 30, np.random.default_rng(0)) for one in (agent, fresh)]
            assert np.array_equal(laws[0], laws[1])
            assert name != "ldp-linucb" or agent.ledger.spent_epsilon() == 0


class Owner(LearningAgent[Any]):
    """It owns its loop."""

    def select_action(self, context: Any) -> Any:
        return 0

    def learn(self, *arguments: Any, **more: Any) -> None:
        raise AssertionError("nobody is served")


def test_who_owns_the_loop_takes_no_late_reports() -> None:
    env = late(3)
    with pytest.raises(TypeError, match="late reports"):
        play(env, Owner(env.observation_space, env.action_space, None), 100, seed=0)


def test_without_a_time_a_changing_world_answers_for_the_first_user() -> None:
    env: Any = gym.make("privbandit/Linear-v0", n_arms=6, dim=4, jumps=[50], horizon=100).unwrapped
    env.reset(seed=0)
    world = env.problem
    contexts = world.contexts(200, np.random.default_rng(1))
    best, first, later = world.best_action(contexts), world.at(0), world.at(60)
    assert np.array_equal(best, first.best_action(contexts))
    assert not np.array_equal(best, later.best_action(contexts)), "the jump moved the best arms"
    assert np.array_equal(world.expected_reward(contexts, best), first.expected_reward(contexts, best))


REGIMES: list[dict[str, Any]] = [
    {"mean": 30, "law": "batch"},
    {"mean": 4, "law": "growing", "growth": 1.5},
    {"law": "ends", "ends": [10, 90, 91]},
    {"mean": 25, "law": "fixed"},
    {"mean": 20, "law": "geometric", "missing": 0.2},
    {"mean": 5, "law": "heavy"},
]


@pytest.mark.parametrize("law", REGIMES[:3])
def test_a_batch_comes_with_its_last_user(law: dict[str, Any]) -> None:
    delay, rng = Delay.of(law), np.random.default_rng(0)
    ends = [delay.end(user) for user in range(300)]
    assert [user + delay(rng, user) + 1 for user in range(300)] == ends
    assert all(user < end for user, end in enumerate(ends)) and (np.diff(ends) >= 0).all()
    first, second, third = sorted(set(ends))[:3]
    wanted = {"batch": (30, 60, 90), "growing": (4, 6, 9), "ends": (10, 90, 91)}
    assert (first, second, third) == wanted[delay.law]


def test_batches_go_on_as_long_as_the_last_one() -> None:
    assert [Delay(law="ends", ends=(3, 5)).end(user) for user in range(3, 9)] == [5, 5, 7, 7, 9, 9]


def test_a_column_of_times_gives_the_batches_of_its_periods() -> None:
    nights = np.array(["2026-03-01T22", "2026-03-02T01", "2026-03-02T23", "2026-03-04T00"], "M8[h]")
    assert Delay.by_time(nights, np.timedelta64(1, "D")).ends == (1, 3, 4)
    assert Delay.by_time([0.5, 9.0, 10.0, 25.0], 10).ends == (2, 3, 4)
    with pytest.raises(ValueError, match="in order"):
        Delay.by_time([2, 1], 10)


@pytest.mark.parametrize("law", [{"law": "ends"}, {"ends": [3]}, {"law": "ends", "ends": [3, 3]}, {"growth": 1.0}])
def test_batches_that_cannot_be_are_refused(law: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"ends|growth"):
        Delay.of(law)


def test_an_environment_is_made_with_a_regime_and_again_from_its_spec() -> None:
    env: Any = gym.make("privbandit/Linear-v0", **SMALL, feedback=REGIMES[0])
    again: Any = without_limit(gym.make(env.spec))
    for one in (env, again, pickle.loads(pickle.dumps(env))):
        assert isinstance(one, DelayFeedback) and one.env is one.unwrapped and one.law == Delay(30, "batch")
    assert regime(env) == Delay(30, "batch") and regime(world()) is None
    assert regime(late(lambda rng, user: 3)) is None, "a function promises nothing"


@pytest.mark.wide_at("lints-more2-law1", "jdp-linucb-more1-law[34]", "linucb-more0-law[123]", "lints-more2-law[2-5]")
@pytest.mark.parametrize("law", REGIMES)
@pytest.mark.parametrize(("name", "more"), [("linucb", {}), ("jdp-linucb", {}), ("lints", {"available": 0.7})])
def test_users_between_reports_are_served_together_as_one_by_one(
    law: dict[str, Any], name: str, more: dict[str, Any]
) -> None:
    """The first users of the blocks are those of the steps, and learn in the same order."""
    env = gym.make("privbandit/Linear-v0", **SMALL, **more, feedback=law)
    results = [
        play(one, make(name, env, seed=2), 250, seed=5)
        for one in (env, gym.wrappers.TimeLimit(env, 1000))  # behind another wrapper everyone is served alone
    ]
    assert np.array_equal(results[0].regret, results[1].regret)


def test_people_and_steps_go_on_after_users_who_were_served_together() -> None:
    env: Any = gym.make("privbandit/Linear-v0", **SMALL, people=9, feedback=40)
    env.reset(seed=1)
    alone: Any = gym.make("privbandit/Linear-v0", **SMALL, people=9, feedback=40)
    context, _ = alone.reset(seed=1)
    came: list[Any] = []
    for _ in range(60):
        context, *_, info = alone.step(1)
        came += [] if info["reports"] is None else [info]
    env.serve(np.ones(59, int))
    early = env.arrived()
    following, *_, info = env.step(1)
    assert np.array_equal(following, context)
    together = [np.concatenate([one["report_people"] for one in some]) for some in (came, [early, info])]
    assert np.array_equal(together[0], together[1]) and len(together[0]) == 20
