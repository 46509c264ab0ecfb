"""Devices that hide rewards alone, and send contexts and actions in the clear: a promise of its own."""

import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from commanding import invoke
from privbandit_agents import make
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import games
from privbandit_agents.base.guarantee import ONE_REWARD, SAME, Guarantee
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.spaces import arms_with_features
from privbandit_agents.cli import score
from privbandit_agents.experiments.suite.records import references
from privbandit_agents.experiments.suite.scores import Board, boards_in, scores_of
from privbandit_agents.experiments.suite.tasks import load_suite
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.testing import NotSeen, check_agent

NAME = f"{__file__}:HiddenAnswers"


@dataclass(frozen=True)
class Config:
    epsilon: float = 1.0
    fault: str = ""


class HiddenAnswers(LocalAgent[Config, Any]):
    """A device sends its context, its action, and its answer's sign by randomized response."""

    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        epsilon, fault = self.config.epsilon, self.config.fault
        relation = SAME if fault == "promises all" else ONE_REWARD
        self.guarantee = Guarantee.local(epsilon, 0.0, "this file", neighbours=relation)
        self.ledger, self.cost = Ledger(epsilon=epsilon), Cost(epsilon=epsilon)
        self.keep = 1 / (1 + np.exp(-epsilon * (2.0 if fault == "half the noise" else 1.0)))
        self.moments = np.zeros(self.context_shape[1])

    def select_action(self, context: Any) -> Any:
        return (context @ self.moments).argmax(axis=-1)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        good = np.asarray(feedback) > 0
        sent = np.where(self.rng.random(len(good)) < self.keep, good, ~good)
        clear = {"answer": feedback} if self.config.fault == "answers in the clear" else {}
        return {"context": context, "action": action, "good": sent, **clear}

    def absorb(self, report: Any) -> None:
        self.pay(len(report["good"]))
        played = np.nan_to_num(np.take_along_axis(report["context"], report["action"][:, None, None], axis=1)[:, 0])
        self.moments = self.moments + (2.0 * report["good"] - 1) @ np.clip(played, -1, 1)


@dataclass(frozen=True)
class FalseConfig(Config):
    fault: str = "answers in the clear"


class ClearAnswers(HiddenAnswers):
    """The same, with the answer beside it."""

    Config = FalseConfig


def refuted(fault: str) -> bool:
    """Return whether the quick audit refutes an agent's claim; honest ones in at most one of a thousand cases."""
    played = games(NAME, 1.0, config={"fault": fault}, effort="quick")
    return any(audit(one, one.runs, np.random.default_rng(3), 1 - 0.001 / len(played)).refuted for one in played)


def test_the_promise_is_in_words_of_its_own() -> None:
    env = gym.make("privbandit/Linear-v0")
    promise, whole = (make(NAME, env, seed=0, fault=fault).guarantee for fault in ("", "promises all"))
    assert promise.words == "local-reward 1 a visit, real" and whole.words == "local 1 a visit, real"
    assert promise.protects.startswith("reward of every user, from the server") and "every context" in promise.protects
    assert "when is public" in promise.per_person().protects.replace(",", "") and promise.per_person().of_rewards
    assert Guarantee("joint", 1.0, neighbours=ONE_REWARD).kind == "reward" == Guarantee("reward", 1.0).kind
    with pytest.raises(ValueError, match=r"neighbours must be .*replace-one-reward"):
        Guarantee("local", 1.0, neighbours="replace-one-label")


def test_its_audit_replaces_the_answer_alone() -> None:
    assert not refuted("")


@pytest.mark.wide_at("promises all", "half the noise")
@pytest.mark.parametrize("fault", ["answers in the clear", "half the noise", "promises all"])
def test_a_false_promise_is_refuted(fault: str) -> None:
    assert refuted(fault)


@pytest.mark.wide
def test_the_honest_agent_passes_every_check() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSeen)
        check_agent(NAME, "privbandit/Linear-v0")


def test_boards_keep_the_promises_apart() -> None:
    suite = load_suite()
    whole = references()["ldp-greedy"]
    assert whole.notion == "local"
    mine = replace(whole, agent=NAME, notion="local-reward")
    boards, others = (set(boards_in(scores_of({"one": one}, suite))) for one in (mine, whole))
    assert boards and not boards & others
    assert Board("linear", "local-reward", "visit").title == "linear, local-reward privacy a visit"


@pytest.mark.wide
@pytest.mark.usefixtures("own_worlds")
@pytest.mark.parametrize("name, code, rank", [("HiddenAnswers", 0, True), ("ClearAnswers", 1, False)])
def test_a_refuted_agent_has_no_rank(
    name: str, code: int, rank: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = load_suite()
    monkeypatch.setattr(
        score, "load_suite", lambda version: replace(suite, tasks={"linear-small": suite.tasks["linear-small"]})
    )
    shown = invoke("score", f"{__file__}:{name}", "--quick", "--jobs", "1", "--out", str(tmp_path))
    told = json.loads((tmp_path / "score.json").read_text())
    assert shown.exit_code == code and told["refuted"] is not rank, shown.stdout + shown.stderr
    assert told["boards"][0]["board"] == "linear, local-reward privacy a visit"
    assert (told["boards"][0]["rank"] is not None) is rank
    assert ("Not to be compared: audit" in shown.stdout) is not rank
