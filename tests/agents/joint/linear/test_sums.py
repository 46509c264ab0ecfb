"""A statistic of a stranger on the schedules that are there, and a schedule of a stranger for a statistic of ours."""

import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, make, play
from privbandit_agents.base.settings import Budget, Count, Growth, Open01
from privbandit_agents.joint.linear.jdp_linucb import JDPLinUCB
from privbandit_agents.joint.linear.schedules import Epochs
from privbandit_agents.joint.linear.sums import SummedRecords
from privbandit_agents.joint.settings import CounterName, GaussianSettings
from privbandit_agents.testing.loops import check_frozen, check_resume
from privbandit_agents.testing.noise import check_noise
from privbandit_agents.testing.replay import check_replay
from privbandit_agents.zoo.entries import Entry

LINEAR, CLICKS = "privbandit/Linear-v0", "privbandit/Clicks-v0"


@dataclass(frozen=True)
class Config(GaussianSettings):
    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    horizon: Count | None = None
    growth: Growth = 1.1
    counter: CounterName = "buffered"


class Along(SummedRecords[Config]):
    """Play the arm with the largest x . m, where m is the noisy mean of y x over all epochs."""

    Config = Config
    proof = "docs/privacy/regression-moments.md"

    @property
    def counted(self) -> int:
        return self.models * self.dim

    def scheduled(self) -> Epochs:
        return Epochs(self, self.config.horizon or 100_000)

    def term(self, products: Any) -> Any:
        return products[:, :-1, -1].ravel()

    def learned(self, noisy: Any, sigma: float, users: int) -> Any:
        flat = np.zeros((self.dim, self.dim))
        return np.hstack([np.column_stack([flat, mean]) for mean in noisy.reshape(self.models, -1) / users])


class Unclipped(Along):
    def clipped(self, features: Any, rewards: Any) -> tuple[Any, Any]:
        return np.nan_to_num(features), np.nan_to_num(np.clip(rewards, -5, 5))


class Nightly(Epochs):
    """Epochs that end with every seventh user."""

    def following(self, users: int) -> int:
        return (users // 7 + 1) * 7

    def terms(self, users: int) -> int:
        return users // 7 + 1

    def longest(self, users: int) -> int:
        return min(users, 7)


class ByNight(JDPLinUCB):
    def scheduled(self) -> Nightly:
        return Nightly(self, self.config.horizon or 100_000)


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Along, Unclipped, ByNight):
        monkeypatch.setitem(AGENTS, kind.__name__.lower(), Entry(f"{__name__}:{kind.__name__}", "a stranger"))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Along.__module__])


@pytest.mark.wide_at(f"*-{CLICKS}", "bynight-*", "*-check_frozen-*", "*-check_resume-*", "*-check_replay-*")
@pytest.mark.parametrize("env_id", [LINEAR, CLICKS])
@pytest.mark.parametrize("check", [check_replay, check_noise, check_frozen, check_resume])
@pytest.mark.parametrize("name", ["along", "bynight"])
def test_a_stranger_conforms(name: str, check: Any, env_id: str) -> None:
    check(name, env_id, 60, {})


def test_a_statistic_that_does_not_clip_is_found() -> None:
    with pytest.raises(AssertionError, match="BufferedToeplitz costs"):
        check_replay("unclipped", LINEAR, 60, {})


def test_a_statistic_is_what_it_says() -> None:
    env: Any = gym.make(LINEAR, n_arms=3, dim=2, horizon=2000)
    agent: Any = make("along", env, seed=0, epsilon=np.inf)
    assert play(env, agent, seed=0).regret[-1] < play(env, make("uniform", env, seed=0), seed=0).regret[-1] / 3


def test_a_schedule_ends_when_it_says() -> None:
    env: Any = gym.make(LINEAR, n_arms=3, dim=2, horizon=100)
    agent: Any = make("bynight", env, seed=0)
    play(env, agent, seed=0)
    assert agent.schedule.counter.t == 14 and agent.schedule.counter.horizon == 15 and agent.schedule.ends == 105
