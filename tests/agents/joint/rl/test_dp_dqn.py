from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import rng
from privbandit_agents import make, play
from privbandit_agents.audits.games.rewards import Steps
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.pairs.attacks import finite
from privbandit_agents.privacy.contributions.gradients import sensitivity
from privbandit_agents.privacy.mechanisms.counters import Counter
from privbandit_agents.testing.noise import check_noise
from privbandit_agents.testing.replay import check_replay
from privbandit_agents.testing.runs import same_parts, same_state, without_generators

LINEAR = "privbandit/Linear-v0"
T, K, D = 120, 3, 4
SCORERS = pytest.mark.parametrize("scorer", ["linear", "features"])


def world(**kwargs: Any) -> Any:
    return gym.make(LINEAR, **{"n_arms": K, "dim": D, "horizon": T, **kwargs}).unwrapped


def agent_of(seed: int = 0, horizon: int = T, **config: Any) -> Any:
    return make("dp-dqn", world(horizon=horizon), seed=seed, **{"batch": 7, "features": 16, **config})


def records(n: int, seed: int = 0) -> tuple[Any, Any, Any]:
    draw = rng(seed)
    return draw.standard_normal((n, K, D)), draw.integers(K, size=n), draw.standard_normal(n)


@SCORERS
def test_equal_releases_give_equal_policies(scorer: str) -> None:
    one, other = agent_of(0, scorer=scorer), agent_of(0, scorer=scorer)
    one.update(*records(T, 1))
    other.update(*records(T, 2))
    contexts = 3 * rng(3).standard_normal((500, K, D))
    assert not np.array_equal(one.select_action(contexts), other.select_action(contexts))
    other.release = one.release
    assert np.array_equal(one.select_action(contexts), other.select_action(contexts))


@SCORERS
def test_users_may_be_grouped_at_will(scorer: str) -> None:
    whole, parts = agent_of(scorer=scorer), agent_of(scorer=scorer)
    sent = records(T)
    whole.update(*sent)
    for part in np.split(np.arange(T), [1, 2, 7, 40, 97]):
        parts.update(*(column[part] for column in sent))
    assert same_state(whole, parts) and np.array_equal(whole.release, parts.release)
    assert whole.counter.t == T // 7 and len(whole.open) == T % 7


@pytest.mark.parametrize("n", [2, T])
def test_a_group_that_is_refused_leaves_no_trace(n: int) -> None:
    agent = agent_of()
    agent.update(*records(T - 1))
    before = without_generators(agent)
    with pytest.raises(RuntimeError, match=f"horizon of {T}"):
        agent.update(*records(n))
    assert same_parts(before, without_generators(agent))


@SCORERS
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_noise_covers_the_sensitivity_of_a_sum_of_clipped_gradients(scorer: str, epsilon: float) -> None:
    agent = agent_of(scorer=scorer, epsilon=epsilon, clip=0.3)
    made, promised = agent.counter, agent.guarantee
    size = len(agent.release)
    assert size == (D if scorer == "linear" else 16) and made.horizon == -(-T // 7)
    assert (sensitivity(0.3, 7, size) * made.column_norm()) ** 2 / (2 * made.scale**2) <= promised.rho * (1 + 1e-9)
    assert agent.ledger.spent().as_rho() == promised.rho
    assert epsilon * (1 - 1e-6) <= agent.ledger.spent_epsilon(promised.delta) <= epsilon * (1 + 1e-6)


@SCORERS
def test_without_noise_a_step_goes_along_the_clipped_gradients(scorer: str) -> None:
    agent = agent_of(scorer=scorer, epsilon=np.inf, clip=10.0)
    contexts, actions, rewards = records(7)
    contexts /= 3 * np.linalg.norm(contexts, axis=-1, keepdims=True)
    agent.update(contexts, actions, np.clip(rewards, -1, 1))
    z = agent.lifted(contexts[np.arange(7), actions])
    gradient = -(np.clip(rewards, -1, 1)[:, None] * z).sum(axis=0)
    length = agent.stiffness(7) if scorer == "linear" else 7 * (1 + 3 * 7 / T)
    assert np.allclose(agent.release, -gradient / length, rtol=1e-6)
    cosine = agent.release @ gradient / np.linalg.norm(agent.release) / np.linalg.norm(gradient)
    assert cosine < -1 + 1e-9


@SCORERS
def test_the_first_batch_is_served_at_random_and_later_ones_greedily(scorer: str) -> None:
    agent = agent_of(scorer=scorer)
    contexts = np.zeros((3000, K, D))
    assert np.ptp(np.bincount(agent.select_action(contexts), minlength=K)) < 200  # 5 standard errors
    assert agent.select_action(contexts[0]) in range(K)
    agent.update(*records(6))
    assert agent.frozen_rounds() == 1 and not agent.release.any()
    agent.update(*records(1))
    assert agent.frozen_rounds() == 7 and agent.release.any()
    drawn = records(50)[0]
    assert np.array_equal(agent.select_action(drawn), agent.predict(drawn).argmax(axis=1))


@pytest.mark.parametrize("wild", [np.nan, np.inf, -1e308, 1e308, None, "text"])
@SCORERS
def test_any_record_counts_and_none_is_seen(scorer: str, wild: Any) -> None:
    agent = agent_of(scorer=scorer, epsilon=1e-6)
    for _ in range(3):
        agent.update([[[wild] * D] * K] * 20, [0] * 20, [1.0] * 20)
        agent.update(np.ones((20, K, D)), [5] * 20, [wild] * 20)
        assert finite(agent), "the records of a batch that has not ended"
    assert agent.users == T and np.isfinite(agent.release).all() and np.abs(agent.counter.total).max() < T
    assert agent.select_action(np.full((K, D), np.nan)) in range(K)


@pytest.mark.parametrize("config", [{"scorer": "features"}, {"batch": 1}, {"epsilon": 4.0}])
@pytest.mark.wide
def test_settings_are_replayed(config: dict[str, Any]) -> None:
    small = {"features": 12, **config}
    check_replay("dp-dqn", LINEAR, 60, small)
    check_noise("dp-dqn", LINEAR, 60, small)


@pytest.mark.wide
def test_the_audit_finds_most_of_the_claim_and_refutes_seven_tenths_of_the_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """160 runs of 32 canaries, at epsilon = 4 and 95 %."""
    game = Steps("dp-dqn", {"epsilon": 4.0})
    found = audit(game, 160, np.random.default_rng(0), 0.95)
    assert not found.refuted and found.rho_bound is not None and found.rho_bound > 0.25
    honest = Counter._drawn
    monkeypatch.setattr(Counter, "_drawn", lambda self: 0.7 * honest(self))
    assert audit(game, 160, np.random.default_rng(0), 0.95).refuted


@pytest.mark.wide_at("features-*")
@pytest.mark.parametrize(("scorer", "link"), [("linear", "identity"), ("features", "band")])
def test_regret_is_sane(scorer: str, link: str) -> None:
    """A large budget is close to none, a small one no worse than chance by much."""
    env = world(horizon=4000, n_arms=10, dim=3, link=link)
    regret = {
        epsilon: play(env, make("dp-dqn", env, seed=0, epsilon=epsilon, scorer=scorer), seed=0).regret[-1]
        for epsilon in (0.01, 2.0, np.inf)
    }
    chance = play(env, make("uniform", env, seed=0), seed=0).regret[-1]
    assert regret[np.inf] < regret[2.0] < 0.8 * chance and regret[0.01] < 1.3 * chance
