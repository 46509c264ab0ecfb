"""Arms without a context under joint privacy: what is released, what it costs, and what is learned."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import make, play
from privbandit_agents.joint.arms.runs import STEPS, RunAgent
from privbandit_agents.testing.replay import check_replay

NAMES = ("dp-se", "adap-klucb")
BANDIT = "privbandit/Bandit-v0"


def regret(name: str, seed: int, horizon: int, gap: float = 0.2, **config: Any) -> float:
    env = gym.make(BANDIT, gap=gap, n_arms=5, horizon=horizon)
    return float(play(env, make(name, env, seed=seed, **config), seed=seed).regret[-1])


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_one_arm_and_is_released_once(name: str) -> None:
    env: Any = gym.make(BANDIT, n_arms=3, horizon=4000).unwrapped
    agent: Any = make(name, env, seed=0, **({"width": 0.1} if name == "dp-se" else {}))
    env.reset(seed=0)
    served = 0
    while served < 2000 and agent.length:
        n, runs = min(agent.frozen_rounds(), 2000 - served), agent.ledger.group
        contexts = env.upcoming(n)
        actions = np.asarray(agent.select_action(contexts))
        assert (actions == agent.arm).all() and agent.arm == int(agent.release[0])
        whole = n == agent.frozen_rounds()
        agent.update(contexts, actions, env.serve(actions).feedback)
        assert agent.ledger.group == runs + whole
        served += n
    assert agent.ledger.spent_epsilon(0.0) == 1.0 and agent.ledger.group > 3


@pytest.mark.parametrize("record", [(0, 5.0), (0, math.nan), (0, -3.0), (1, 1.0), (-1, 0.0), (0, 0.3)])
def test_no_record_moves_a_run_by_more_than_a_reward(record: tuple[int, float]) -> None:
    agent: Any = make("adap-klucb", gym.make(BANDIT, n_arms=2), seed=0)
    arm = (agent.arm + record[0]) % 2 if record[0] >= 0 else -1
    moved = agent.moved(np.array([arm]), np.array([record[1]]))
    assert np.abs(moved).max() <= STEPS / 2 and (moved == np.rint(moved)).all()
    assert record[0] == 0 or not moved.any(), "a record with another arm than the run's tells nothing"


@pytest.mark.wide
@pytest.mark.parametrize("name", NAMES)
def test_counts_have_the_law_of_users(name: str) -> None:
    """Mean regrets of 30 runs each differ by at most four standard errors."""
    means, errors = [], []
    for by_counts in (True, False):
        found = []
        for seed in range(30):
            env = gym.make(BANDIT, gap=0.3, n_arms=3, horizon=6000)
            agent = make(name, env, seed=seed + 100 * by_counts)
            found.append(play(env, agent, seed=seed + 100 * by_counts, by_counts=by_counts).regret[-1])
        means.append(np.mean(found))
        errors.append(np.var(found) / 30)
    assert abs(means[0] - means[1]) < 4 * math.sqrt(sum(errors))


@pytest.mark.wide
def test_regret_falls_with_the_budget_and_is_far_below_uniform_play() -> None:
    """Uniform play has 0.16 T."""
    tight, loose = (
        [np.mean([regret(name, seed, 20_000, epsilon=eps) for seed in range(6)]) for name in NAMES] for eps in (0.1, 2)
    )
    assert all(low < high for low, high in zip(loose, tight, strict=True))
    assert max(loose) < 0.25 * 0.16 * 20_000


def test_published_runs_double_and_forget() -> None:
    env = gym.make(BANDIT, n_arms=2, horizon=10_000)
    agent: Any = make("adap-klucb", env, seed=0, growth=2, forget=True, epsilon=math.inf)
    play(env, agent, seed=0)
    assert (agent.released == 1).all() and (np.log2(agent.pulls) % 1 == 0).all()
    assert (agent.sizes == np.maximum(agent.pulls / 2, 1)).all()


@pytest.mark.wide
def test_a_bound_on_the_noise_of_several_releases_holds() -> None:
    """The optimistic mean is below the true one in at most a share t^-1 of cases: t = 64, 12 runs of 4 users."""
    agent: Any = make("adap-klucb", gym.make(BANDIT, n_arms=1), seed=0, epsilon=0.5)
    rng, n, missed = np.random.default_rng(3), 48, 0
    for _ in range(4000):
        noise = rng.laplace(scale=2.0, size=12).sum()
        agent.sums, agent.sizes = np.array([rng.binomial(n, 0.5) + noise]), np.array([float(n)])
        agent.released, agent.users = np.array([12.0]), 63
        missed += agent.optimistic()[0] < 0.5
    assert missed / 4000 < 1 / 64


def by_named_arms(self: Any, arms: Any, rewards: Any) -> Any:
    """A mutant: twice the contribution, as if a record left one arm's sum and entered another one's."""
    return 2 * honest(self, np.full_like(arms, self.arm), rewards)


honest = RunAgent.moved


@pytest.mark.wide
def test_replay_refutes_half_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    check_replay("adap-klucb", BANDIT, 60, {})
    monkeypatch.setattr(RunAgent, "moved", by_named_arms)
    with pytest.raises(AssertionError, match="GridLaplace"):
        check_replay("adap-klucb", BANDIT, 60, {})
