"""What the conformance suites say to somebody whose agent or environment is wrong: the values, and the way out."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from privbandit_agents import AGENTS, Agent, Guarantee, Ledger, LocalAgent, Settings, register_agent
from privbandit_agents.base.spaces import Action, Array
from privbandit_agents.testing import check_agent
from privbandit_agents.testing.runs import said_by
from privbandit_agents.zoo.entries import Entry

from privbandit_envs import Problem, register
from privbandit_envs.problem import Floats
from privbandit_envs.testing import check_regret

LINEAR = "privbandit/Linear-v0"


class Plain(Agent[Settings]):
    """Arm 0, for everybody."""

    def select_action(self, context: Array) -> Action:
        users = np.shape(context)[: np.ndim(context) - len(self.context_shape)]
        return np.zeros(users, int)[()]

    def update(self, context: Array, action: Action, feedback: Any) -> None:
        pass


class OneForAll(Plain):
    """One action, however many users there are."""

    def select_action(self, context: Array) -> Action:
        return 0


class Fractional(Plain):
    """Half an arm."""

    def select_action(self, context: Array) -> Action:
        return cast(Action, np.asarray(super().select_action(context)) + 0.5)


class Late(Plain):
    """State that is there after the first user alone."""

    def update(self, context: Array, action: Action, feedback: Any) -> None:
        self.late = 1


class Listed(Plain):
    """Numbers of numpy in a list."""

    def begin(self) -> None:
        self.seen = [np.int64(0)]


class IntKeys(Plain):
    """A dictionary whose keys JSON turns into text."""

    def begin(self) -> None:
        self.counts = {0: 1}


class Unseeded(Plain):
    """Arms by a generator that nobody passed in."""

    def begin(self) -> None:
        self.own = np.random.default_rng()
        self.fixed = self.fixed | {"own"}  # type: ignore[misc]

    def select_action(self, context: Array) -> Action:
        users = np.shape(context)[: np.ndim(context) - len(self.context_shape)]
        return self.own.integers(3, size=users)[()]


class Frozen(Plain):
    """Says that its policy stays, and changes it."""

    def begin(self) -> None:
        self.users = 0

    def select_action(self, context: Array) -> Action:
        return cast(Action, np.asarray(super().select_action(context)) + self.users % 2)

    def frozen_rounds(self) -> int:
        return 10

    def update(self, context: Array, action: Action, feedback: Any) -> None:
        self.users += np.size(action)


@dataclass(frozen=True)
class Config(Settings):
    """Settings.

    Attributes:
        epsilon: budget.
    """

    epsilon: float = field(default=1.0)


class NoLedger(LocalAgent[Config, Array]):
    """A private agent that keeps no account."""

    Config = Config

    def begin(self) -> None:
        self.guarantee = Guarantee.local(self.config.epsilon, 0.0, "nowhere")

    select_action = Plain.select_action

    def randomize(self, context: Array, action: Action, feedback: Any) -> Array:
        return self.rng.standard_normal(np.size(feedback))

    def absorb(self, report: Array) -> None:
        pass


class NothingEntered(NoLedger):
    """A private agent with a ledger that stays empty."""

    def begin(self) -> None:
        super().begin()
        self.ledger = Ledger(epsilon=self.config.epsilon)


MISTAKES: dict[type[Agent[Any]], str] = {
    OneForAll: r"one action a user: \(9,\) for contexts of shape \(9, 10, 20\); got shape \(\); work along the last",
    Fractional: r"action must be an arm 0, \.\.\., 9; got np\.float64\(0\.5\)",
    Late: r"the saved state has late, which a new Late lacks: make it in begin\(\)",
    Listed: r"seen cannot be saved: Object of type int64 .*; keep an array",
    IntKeys: r"load\(\) returned another state: counts",
    Unseeded: r"equal seeds gave regret [\d.]+ and [\d.]+; draw from self\.rng alone",
    Frozen: r"after \d+ users the regret is [\d.]+ in blocks of frozen_rounds\(\) and [\d.]+ one by one",
    NoLedger: r"promises privacy and has no ledger; in begin\(\) write self\.ledger = Ledger\(",
    NothingEntered: r"nothing was entered in the ledger at .*; call self\.ledger\.spend\(",
}


@pytest.fixture
def zoo() -> Iterator[None]:
    before = dict(AGENTS)
    yield
    AGENTS.clear()
    AGENTS.update(before)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_named_with_its_values_and_the_way_out(zoo: None, mistake: type[Agent[Any]]) -> None:
    register_agent("planted", f"{__name__}:{mistake.__name__}", "a mistake")
    with pytest.raises((AssertionError, ValueError, TypeError)) as error:
        check_agent("planted", LINEAR, 100)
    message = str(error.value)
    assert re.search(MISTAKES[mistake], message) and "\n" not in message


class Tilted(Problem):
    """Two actions; the oracle calls the worse one best."""

    def __init__(self, rng: np.random.Generator, *, horizon: int = 100, lies: bool = True, dtype: str = "float32"):
        self.observation_space, self.action_space = Box(0, 1, (2,), np.dtype(dtype).type), Discrete(2)
        self.lies = lies

    def contexts(self, n: int, rng: np.random.Generator) -> Array:
        return rng.random((n, 2), dtype=np.float32)

    def expected_reward(self, contexts: Array, actions: Array) -> Floats:
        return 0.25 + 0.5 * np.asarray(actions)

    def best_action(self, contexts: Array) -> Array:
        return np.full(len(contexts), 0 if self.lies else 1)

    def outcome(self, contexts: Array, actions: Array, rng: np.random.Generator) -> tuple[Array, Floats]:
        reward = self.expected_reward(contexts, actions) + 0.1 * rng.standard_normal(len(actions))
        return reward, reward


def test_a_failed_check_leads_with_its_name() -> None:
    with (
        pytest.raises(AssertionError, match=r"^check_actions: an action is wrong$"),
        said_by("check_actions", "own", {}),
    ):
        raise AssertionError("an action is wrong")
    with pytest.raises(AssertionError, match=r"^check_actions: once$"), said_by("check_actions", "own", {}):
        raise AssertionError("check_actions: once")


def test_a_wrong_oracle_is_named_with_the_action_and_both_means() -> None:
    register("planted/Tilted-v0", f"{__name__}:Tilted")
    check_regret("planted/Tilted-v0", lies=False)
    with pytest.raises(
        AssertionError, match=r"user \d+: action 1 has mean 0\.75, action 0 has 0\.25, and best_action\(\)"
    ):
        check_regret("planted/Tilted-v0")


class Loud(Plain):
    """Whatever it is asked, it raises."""

    error: Exception = OverflowError("math range error")

    def update(self, context: Array, action: Action, feedback: Any) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "way_out"),
    [
        (OverflowError("math range error"), "use numpy's exp"),
        (AttributeError("'list' object has no attribute 'shape'"), "self.records_of"),
        (RuntimeError("no"), "An agent serves every record at every budget"),
    ],
)
def test_whatever_is_raised_has_check_settings_and_way_out(
    error: Exception, way_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loud, "error", error)
    monkeypatch.setitem(AGENTS, "loud", Entry(f"{__name__}:Loud", "it raises"))
    with pytest.raises(AssertionError, match=f"check_seeds: loud raised an error at .*{way_out}"):
        check_agent("loud", LINEAR, 40)


@pytest.mark.wide
def test_checks_that_play_with_little_noise_do_not_warn_of_a_small_promise(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    check_agent("ldp-ucb", "privbandit/Bandit-v0", 160)
    assert [str(one.message) for one in recwarn if "promises little" in str(one.message)] == []
