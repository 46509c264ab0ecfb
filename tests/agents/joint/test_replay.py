"""What the replay and the noise test say of strangers' curators, and what a curator's ``publish`` does."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privbandit_agents import AGENTS, make, register_agent
from privbandit_agents.privacy.accounting.costs import zcdp
from privbandit_agents.privacy.accounting.ledger import PrivacyBudgetExceeded
from privbandit_agents.testing import check_agent
from privbandit_agents.testing.noise import check_noise
from privbandit_agents.testing.replay import NotSeen, check_replay
from privbandit_agents.testing.runs import environment
from privbandit_agents.testing.watchers import Writer

LINEAR = "privbandit/Linear-v0"
SOURCE = """
from dataclasses import dataclass
import numpy as np
from privbandit_agents import CentralAgent, Guarantee, Ledger
from privbandit_agents.base.spaces import arms_with_features
from privbandit_agents.base.settings import Budget, Settings
from privbandit_agents.privacy import pure


@dataclass(frozen=True)
class Config(Settings):
    epsilon: Budget = 1.0


class Coin:
    "Laplace noise of a stranger's own."

    def __init__(self, scale):
        self.scale = scale

    def release(self, value, rng):
        return value + self.scale * rng.laplace(size=value.shape)


class Quiet(CentralAgent):
    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self):
        self.guarantee = Guarantee.joint(self.config.epsilon, 0.0, None, "a test")
        self.ledger = Ledger(self.config.epsilon)
        self.release, self.sum = np.zeros(self.context_shape[1]), np.zeros(self.context_shape[1])
        self.users, self.end, self.batch = 0, 16, 0

    def select_action(self, context):
        return (self.contexts_of(context) @ self.release).argmax(axis=-1)

    def frozen_rounds(self):
        return self.end - self.users

    def curate(self, contexts, actions, feedback):
        released = None
        for context, action, reward in zip(contexts, actions, feedback):
            x = np.append(context[action], reward) if action >= 0 else np.zeros(len(context[0]) + 1)
            x = np.clip(x, -1, 1) if np.isfinite(x).all() else np.zeros(len(x))
            self.sum = self.sum + x[-1] * x[:-1]
            self.users += 1
            if self.users == self.end:
                released = self.made()
                self.end, self.batch, self.sum = 2 * self.end, self.batch + 1, 0 * self.sum
        return released

    def made(self):
        self.ledger.spend(pure(self.config.epsilon), group=self.batch)
        return Coin(2 * len(self.sum) / self.config.epsilon).release(self.sum, self.rng)


class Hasty(Quiet):
    def frozen_rounds(self):
        return 1 if self.sum[0] > 0 else super().frozen_rounds()


class Nosy(Quiet):
    def select_action(self, context):
        return (self.contexts_of(context) @ (self.release + 100 * self.sum)).argmax(axis=-1)


class Half(Quiet):
    "Every other user's release is published, its mechanism is a stranger to us, and it is paid for."

    def made(self):
        mechanism = Coin(2 * len(self.sum) / self.config.epsilon)
        draw = lambda: mechanism.release(self.sum, self.rng)
        return self.publish(mechanism, self.sum, draw, pure(self.config.epsilon), self.batch)


class Told(Coin):
    "It says what a pair costs by a function that refuses 0."

    def loss(self, exact, other, released):
        return pure(abs(exact - other).sum() / self.scale)


class Steady(Quiet):
    "What it releases is nearly always the same, whatever the noise was."

    def made(self):
        mechanism = Told(2 * len(self.sum) / self.config.epsilon)
        draw = lambda: 1 + np.round(mechanism.release(self.sum, self.rng) / 1e4)
        return self.publish(mechanism, self.sum, draw, pure(self.config.epsilon), self.batch)
"""


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "quiet_strangers.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    known = dict(AGENTS)
    for name in ("Quiet", "Hasty", "Nosy", "Half", "Steady"):
        register_agent(name.lower(), f"quiet_strangers:{name}", "a stranger's agent")
    yield
    AGENTS.clear()
    AGENTS.update(known)
    sys.modules.pop("quiet_strangers", None)


@pytest.mark.wide
@pytest.mark.usefixtures("stranger")
def test_a_curator_that_publishes_nothing_is_reported_and_compared_from_outside() -> None:
    for check in (check_replay, check_noise):
        with pytest.warns(NotSeen, match="quiet.* it never calls publish"):
            check("quiet", LINEAR, 120, {})
    with pytest.raises(AssertionError, match="frozen_rounds"):
        check_replay("hasty", LINEAR, 120, {})
    with pytest.raises(AssertionError, match="raw data are read"):
        check_replay("nosy", LINEAR, 120, {})


@pytest.mark.usefixtures("stranger")
def test_a_mechanism_that_does_not_know_its_loss_is_reported() -> None:
    with pytest.warns(NotSeen, match=r"Coin has no method loss\(exact, other, released\)"):
        check_replay("half", LINEAR, 60, {})
    with pytest.warns(NotSeen, match="Coin has no method standardised"):
        check_noise("half", LINEAR, 60, {})


@pytest.mark.usefixtures("stranger")
@pytest.mark.filterwarnings("ignore::privbandit_agents.testing.replay.NotSeen")
@pytest.mark.wide
def test_an_honest_stranger_passes_the_suite() -> None:
    check_agent("quiet", LINEAR, 60)
    check_agent("half", LINEAR, 60)
    check_agent("steady", LINEAR, 60)


@pytest.mark.parametrize("config", [{"epsilon": np.inf}, {"calibration": "published", "epsilon": 1.0}])
@pytest.mark.filterwarnings("ignore::privbandit_agents.base.guarantee.UnprovenCalibration")
def test_what_promises_nothing_is_not_held_against_it(config: dict[str, Any]) -> None:
    check_replay("fliphat", LINEAR, 60, config)
    check_noise("fliphat", LINEAR, 60, config)


@pytest.mark.parametrize("config", [{"counter": "tree"}, {"counter": "toeplitz"}, {"epsilon": 4.0}])
@pytest.mark.wide
def test_settings_are_replayed(config: dict[str, Any]) -> None:
    check_replay("jdp-linucb", LINEAR, 60, config)
    check_noise("jdp-linucb", LINEAR, 60, config)


@pytest.mark.wide_at("config1", "config0", "config2")
@pytest.mark.parametrize("config", [{"composition": "basic"}, {"rho": 0.1}, {"M": 3, "s": 2}])
def test_peelings_are_replayed(config: dict[str, Any]) -> None:
    check_replay("fliphat", LINEAR, 60, config)
    check_noise("fliphat", LINEAR, 60, config)


def test_a_cost_is_entered_before_anything_is_drawn() -> None:
    agent: Any = make("newton-mnl", environment("privbandit/Assortment-v0", 60), seed=0, rho=1.0)
    with pytest.raises(PrivacyBudgetExceeded):
        agent.publish(None, 0.0, lambda: pytest.fail("something was drawn"), zcdp(1.1))
    assert agent.publish(None, 0.0, lambda: 7, zcdp(0.5), 0) == 7 and agent.ledger.spent().rho == 0.5


def test_a_watcher_is_no_state_and_changes_nothing() -> None:
    env = environment(LINEAR, 60)
    watched, plain = (make("jdp-linucb", env, seed=0) for _ in range(2))
    watched.watcher = writer = Writer()  # type: ignore[attr-defined]
    env.reset(seed=0)
    contexts = env.upcoming(50)
    for agent in (watched, plain):
        agent.update(contexts, np.zeros(50, int), np.ones(50))
    assert watched.state()[0].keys() == plain.state()[0].keys() and watched.state()[1] == plain.state()[1]
    assert sum(len(note.exact) for note in writer.notes) == watched.schedule.counter.t > 30  # type: ignore[attr-defined]
