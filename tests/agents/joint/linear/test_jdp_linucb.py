from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import rng
from privbandit_agents import make, play
from privbandit_agents.base.agent import next_change
from privbandit_agents.base.central import Publication
from privbandit_agents.joint.linear.schedules import Epochs
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.contributions.moments import SENSITIVITY, WEIGHED, pack, packed_sum
from privbandit_agents.privacy.vectors import svec
from privbandit_agents.testing.replay import BRIEFLY, replay
from privbandit_agents.testing.runs import same_parts, same_state, without_generators
from privbandit_agents.testing.watchers import loss

from privbandit_envs import register
from privbandit_envs.families.linear import LinearProblem

T, K, D = 120, 3, 4


def world(**kwargs: Any) -> Any:
    return gym.make("privbandit/Linear-v0", **{"n_arms": K, "dim": D, "horizon": T, **kwargs}).unwrapped


def agent_of(seed: int = 0, horizon: int = T, **config: Any) -> Any:
    return make("jdp-linucb", world(horizon=horizon), seed=seed, **config)


def records(n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    draw = rng(seed)
    return draw.standard_normal((n, K, D)), draw.integers(K, size=n), draw.standard_normal(n)


def test_equal_releases_give_equal_policies() -> None:
    one, other = agent_of(0), agent_of(1)
    one.update(*records(T, 1))
    other.update(*records(T, 2))
    contexts = 3 * rng(3).standard_normal((500, K, D))
    assert not np.array_equal(one.select_action(contexts), other.select_action(contexts))
    other.release = one.release
    assert np.array_equal(one.select_action(contexts), other.select_action(contexts))


@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
def test_users_may_be_grouped_at_will(counter: str) -> None:
    whole, parts = agent_of(counter=counter), agent_of(counter=counter)
    sent = records(T)
    whole.update(*sent)
    for part in np.split(np.arange(T), [1, 2, 40, 97]):
        parts.update(*(column[part] for column in sent))
    assert same_state(whole, parts) and np.array_equal(whole.release, parts.release)


@pytest.mark.parametrize("n", [2, T])
def test_a_group_that_is_refused_leaves_no_trace(n: int) -> None:
    agent = agent_of()
    agent.update(*records(T - 1))
    before, generator = without_generators(agent), agent.schedule.counter.rng.bit_generator.state
    with pytest.raises(RuntimeError, match=f"horizon of {T}"):
        agent.update(*records(n))
    with pytest.raises(ValueError, match="records must be"):
        agent.update(*records(1)[:2], np.ones(2))
    assert same_parts(before, without_generators(agent)) and agent.schedule.counter.rng.bit_generator.state == generator
    agent.update(*records(1))
    assert agent.users == T


@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_noise_covers_the_sensitivity_of_the_packed_moments(counter: str, epsilon: float) -> None:
    agent = agent_of(counter=counter, epsilon=epsilon)
    promised, made = agent.guarantee, agent.schedule.counter
    assert (SENSITIVITY * made.column_norm()) ** 2 / (2 * made.scale**2) <= promised.rho * (1 + 1e-9)
    assert agent.ledger.spent().as_rho() == promised.rho > epsilon_to_rho(epsilon, promised.delta)
    assert epsilon * (1 - 1e-6) <= agent.ledger.spent_epsilon(promised.delta) <= epsilon * (1 + 1e-6)
    x = 1e9 * rng(1).standard_normal((2000, D))
    worst = np.linalg.norm(pack(x, np.full(2000, 1e9)) - pack(x, np.full(2000, -1e9)), axis=1).max()
    other = np.linalg.norm(pack(x[:1000], np.ones(1000)) - pack(x[1000:], -np.ones(1000)), axis=1).max()
    assert other <= worst * (1 + 1e-12) and worst == pytest.approx(SENSITIVITY)


def test_a_counted_user_is_what_pack_makes_of_the_played_arm() -> None:
    agent = agent_of(epsilon=np.inf)
    contexts, actions, rewards = records(30)
    agent.update(contexts, actions, rewards)
    packed = pack(contexts[np.arange(30), actions], rewards)
    epoch, n = agent.schedule.epoch, len(agent.schedule.epoch.open)
    assert 0 < n < agent.users and np.allclose(agent.schedule.counter.total, packed[:-n].sum(axis=0))
    assert np.allclose(packed_sum(epoch.take()[0]), packed[-n:].sum(axis=0))


def epochs(growth: float, users: int) -> int:
    schedule = agent_of().schedule
    schedule.growth = growth
    return int(schedule.terms(users))


@pytest.mark.parametrize("growth", [1.000001, 1.001, 1.05, 1.5, 2.0, 10.0])
@pytest.mark.parametrize("users", [1, 2, 3, 20, 21, 1000, 9_999, 10_000, 30_011])
def test_the_counter_has_room_for_every_epoch_and_little_more(users: int, growth: float) -> None:
    end, ended = 1, 0
    while end <= users:
        end, ended = next_change(end, growth), ended + 1
    assert ended <= epochs(growth, users) <= 1.02 * ended


def test_epochs_of_absurd_settings_are_counted_at_once() -> None:
    assert 10**7 < epochs(1 + 1e-7, 10**12) < 2e8
    assert epochs(1 + 2e-9, 10**15) < 3e13
    assert epochs(1e9, 10**8) == 1


def test_groups_that_cross_products_and_epochs_change_no_bit() -> None:
    """Products are taken at the same users, whatever the groups."""
    T = 1500
    sent = records(T)
    whole, parts = (agent_of(growth=1.5, horizon=T) for _ in range(2))
    whole.update(*sent)
    for part in np.split(np.arange(T), [255, 256, 257, 700, 1111, 1112]):
        parts.update(*(column[part] for column in sent))
    assert same_state(whole, parts) and np.array_equal(whole.release, parts.release)


def test_the_release_is_a_ridge_regression_without_noise() -> None:
    agent = agent_of(epsilon=np.inf, bonus_scale=0.0, growth=1.01)
    contexts, actions, rewards = records(50)
    contexts /= np.linalg.norm(contexts, axis=-1, keepdims=True)
    agent.update(contexts, actions, np.clip(rewards, -1, 1))
    x = contexts[np.arange(50), actions]
    theta = np.linalg.solve(x.T @ x + np.eye(D), x.T @ np.clip(rewards, -1, 1))
    assert agent.schedule.ends == 51 and np.allclose(agent.release[:, -1], theta)
    assert np.array_equal(agent.release[:, :-1], np.zeros((D, D)))


@pytest.mark.wide
def test_regret_is_sane() -> None:
    """A large budget is close to none, a small one no worse than chance by much."""
    env, seeds = world(horizon=3000), range(4)
    regret = {
        epsilon: np.mean(
            [play(env, make("jdp-linucb", env, seed=s, epsilon=epsilon), seed=0).regret[-1] for s in seeds]
        )
        for epsilon in (0.01, 1.0, 100.0, np.inf)
    }
    chance = play(env, make("uniform", env, seed=0), seed=0).regret[-1]
    assert (
        regret[np.inf] < regret[1.0] < chance
        and regret[100.0] < 1.5 * regret[np.inf] + 20
        and regret[0.01] < 1.2 * chance
    )


def test_the_policy_changes_when_users_have_grown_by_the_factor() -> None:
    agent, changes = agent_of(growth=1.5), []
    for user in range(T):
        before = agent.release
        agent.update(*records(1, user))
        if agent.release is not before:
            changes.append(user + 1)
    assert changes == [1, 2, 3, 5, 8, 12, 18, 27, 41, 62, 93]


class WeakProblem(LinearProblem):
    """A linear world with a weak direction that is turned."""

    def __init__(self, rng: np.random.Generator, *, horizon: int = 3000) -> None:
        super().__init__(rng, n_arms=3, dim=2, design="ill", delta=1e-3, rotate=True, horizon=horizon)


def weak_run(users: int = 1500, **config: Any) -> tuple[Any, Any]:
    """Return an agent after users of a world with a weak direction, and the world."""
    register("weak/Turned-v0", f"{__name__}:WeakProblem")
    env: Any = gym.make("weak/Turned-v0", horizon=users)
    agent: Any = make("jdp-linucb", env, seed=0, **{"epsilon": 20.0, **config})
    play(env, agent, users, seed=1)
    return agent, env.unwrapped.problem


def test_batches_follow_where_a_direction_is_weak_and_nowhere_else() -> None:
    agent, problem = weak_run()
    schedule = agent.schedule
    assert schedule.batch > 4 and schedule.counter.t < schedule.counter.horizon
    values, vectors = np.linalg.eigh(schedule.stretch.T @ schedule.stretch)
    weak = problem.rotation[:, 1]
    assert values[1] > 25 * values[0] and abs(vectors[:, 1] @ weak) > 0.9
    assert np.sign(schedule.theta @ weak) == np.sign(problem.theta @ weak)
    assert agent.ledger.spent().as_rho() == agent.guarantee.rho == schedule.counter.rho
    isotropic = agent_of(horizon=1000, epsilon=20.0)
    play(world(horizon=1000), isotropic, seed=1)
    assert isotropic.schedule.batch == 0 and np.array_equal(isotropic.schedule.stretch, np.eye(isotropic.dim))
    rewards: Any = make("reward-dp-linucb", world())
    assert type(weak_run(500, people=500)[0].schedule) is type(rewards.schedule) is Epochs


def test_users_may_be_grouped_at_will_in_batches() -> None:
    env: Any = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, design="ill", delta=1e-3, horizon=900).unwrapped
    env.reset(seed=2)
    contexts, arms = env.upcoming(900), np.arange(900) % 3
    sent = contexts, arms, env.serve(arms).feedback
    agents: list[Any] = [make("jdp-linucb", env, seed=3, epsilon=20.0) for _ in range(2)]
    whole, parts = agents
    whole.update(*sent)
    for part in np.split(np.arange(900), [1, 2, 40, 97, 98, 500, 777]):
        parts.update(*(column[part] for column in sent))
    assert whole.schedule.batch > 2 and same_state(whole, parts) and np.array_equal(whole.release, parts.release)


@pytest.mark.parametrize("user", [10, 120])
def test_a_user_of_the_counter_or_of_a_batch_pays_once(user: int) -> None:
    """The replay prices pairs of records exactly, and fails if one user moves two groups."""
    register("weak/Turned-v0", f"{__name__}:WeakProblem")
    costs, unseen = replay("jdp-linucb", "weak/Turned-v0", 150, {"epsilon": 100.0}, user, BRIEFLY[:2])
    assert not unseen and len(costs) > 1


@pytest.mark.parametrize(("declared", "enough"), [(WEIGHED, True), (SENSITIVITY, False)])
def test_the_noise_of_a_batch_covers_root_5(declared: float, enough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short record against a long one in its direction: noise for the 2 of ``pack`` is refuted."""
    monkeypatch.setattr("privbandit_agents.joint.linear.schedules.WEIGHED", declared)
    register("weak/Turned-v0", f"{__name__}:WeakProblem")
    agent: Any = make("jdp-linucb", gym.make("weak/Turned-v0", horizon=900), seed=0, epsilon=20.0)
    seen: list[Publication] = []

    def watcher(publication: Publication) -> Any:
        seen.append(publication)
        return publication.draw()

    agent.watcher = watcher
    play(gym.make("weak/Turned-v0", horizon=900), agent, seed=1)
    batches = [one for one in seen if one.group]
    assert len(batches) > 2 and len({one.group for one in batches}) == len(batches)
    v = np.array([1.0, 0.0])
    moved = np.concatenate([v, 0 * svec(np.eye(2))]) - np.concatenate([-v, svec(np.outer(v, v))])
    for one in batches:
        exact = np.asarray(one.exact)
        cost = loss(one.mechanism, exact, exact + moved, exact)
        assert (cost.as_rho() <= agent.guarantee.rho) == enough
