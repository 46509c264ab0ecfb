"""Tests of the tests: agents that break their promise are refuted by an audit, or fail the conformance suite."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.local.gradients.pglm import PGLM
from privbandit_agents.local.label_agent import LocalLabelAgent
from privbandit_agents.local.layered.practical import LPLR
from privbandit_agents.local.layered.report import Report
from privbandit_agents.local.linear.ldp_linucb import LDPLinUCB
from privbandit_agents.local.linear.moments import MomentAgent
from privbandit_agents.local.trees.lpct import LPCT
from privbandit_agents.local.trees.votes import LeafVotes
from privbandit_agents.testing import HORIZON
from privbandit_agents.testing.reports import check_reports
from privbandit_agents.testing.twins import check_local
from privbandit_agents.zoo.entries import AGENTS

RUNS = 20_000  # a fifth of the default, and fewer pilot runs: what is refuted here is so at full length
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalGame, "pilots", 400)
    monkeypatch.setattr(LocalGame, "heats", ((4, 2000),))


def label_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fixed entry of the report carries the label of every user; the leaf stays private."""
    honest = LPCT.randomize

    def leaky(self: LPCT, context: Any, action: Any, feedback: Any) -> Any:
        report = honest(self, context, action, feedback).copy()
        labels = self.revealed(*self.records_of(context, action, feedback)[1:])
        report.reshape(len(report), -1)[:, 0] = np.where(labels > 0, 1, -1)
        return report

    monkeypatch.setattr(LPCT, "randomize", leaky)


def quiet_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The features' matrix has a quarter of its noise, the moment all of it: epsilon = 2.3 in place of 1."""
    honest = LDPLinUCB.randomize

    def quiet(self: LDPLinUCB, context: Any, action: Any, feedback: Any) -> Any:
        vectors = self.encode(context, action, feedback)
        noise = honest(self, context, action, feedback) - vectors
        noise[:, 2:] /= 4
        return vectors + noise

    monkeypatch.setattr(LDPLinUCB, "randomize", quiet)


def loud_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices use 1.5 epsilon."""

    def louder(self: LPLR, context: Any, action: Any, feedback: Any) -> Any:
        inputs, oracle = self.inputs(context, action, feedback), self.oracle
        more = Report.of(self.config.release, 1.5 * self.config.epsilon, oracle.cells, oracle.report.layout)
        return more.randomizer.randomize(inputs.cells, inputs.values, self.rng)

    monkeypatch.setattr(LPLR, "randomize", louder)


def loud_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimators' way in uses 2 epsilon."""
    honest = LocalLabelAgent.learn_labels

    def louder(self: Any, contexts: Any, labels: Any, aggregate: bool = False) -> None:
        kept, report = self.report, type(self.report)
        self.report = report("auto", 2 * self.config.epsilon, kept.leaves, kept.labels)
        honest(self, contexts, labels, aggregate)
        self.report = kept

    monkeypatch.setattr(LocalLabelAgent, "learn_labels", louder)


def loud_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of reports that are drawn at once are those of 2 epsilon."""
    honest = LocalLabelAgent.learn_labels

    def louder(self: Any, contexts: Any, labels: Any, aggregate: bool = False) -> None:
        kept, report = self.report, type(self.report)
        if aggregate:
            self.report = report("auto", 2 * self.config.epsilon, kept.leaves, kept.labels)
        honest(self, contexts, labels, aggregate)
        self.report = kept

    monkeypatch.setattr(LocalLabelAgent, "learn_labels", louder)


def sums_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that are drawn at once are of two reports of every user."""
    for kind in (LeafVotes, PGLM):
        monkeypatch.setattr(kind, "take", twice_at_once(kind.take))


def twice_at_once(honest: Any) -> Any:
    def twice(self: Any, contexts: Any, labels: Any, aggregate: bool) -> None:
        for _ in range(1 + aggregate):
            honest(self, contexts, labels, aggregate)

    return twice


def sums_and_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server keeps the exact number of ones beside a sum that is drawn at once."""
    honest = LocalLabelAgent.learn_labels

    def leaky(self: Any, contexts: Any, labels: Any, aggregate: bool = False) -> None:
        honest(self, contexts, labels, aggregate)
        self.ones = np.array(labels[:3]) if aggregate else np.zeros(3)

    monkeypatch.setattr(LocalLabelAgent, "learn_labels", leaky)


def inactive_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """With three labels, a user without one sends an entry that nobody else sends."""
    honest = LPCT.randomize

    def leaky(self: LPCT, context: Any, action: Any, feedback: Any) -> Any:
        report = honest(self, context, action, feedback).copy()
        labels = self.revealed(*self.records_of(context, action, feedback)[1:])
        report.reshape(len(report), -1)[labels < 0, 0] = 3
        return report

    monkeypatch.setattr(LPCT, "randomize", leaky)


def two_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every user reports twice, and the ledger books the second report as another user's."""
    honest = MomentAgent.randomize

    def twice(self: Any, *record: Any) -> Any:
        return np.concatenate([honest(self, *record), honest(self, *record)])

    monkeypatch.setattr(MomentAgent, "randomize", twice)


def hidden_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second report of every user is entered in the ledger as another user's."""
    honest = MomentAgent.absorb

    def twice(self: Any, report: Any) -> None:
        honest(self, report)
        self.ledger.spend(self.cost, group=self.ledger.group + 1, groups=len(report))

    monkeypatch.setattr(MomentAgent, "absorb", twice)


@pytest.mark.parametrize(
    ("patch", "name"),
    [
        (label_in_the_clear, "lpct"),
        (quiet_matrix, "ldp-linucb"),
        (loud_device, "lplr"),
        (inactive_in_the_clear, "lpct"),
    ],
)
@pytest.mark.wide
def test_a_leak_in_one_part_of_a_report_is_refuted(patch: Patch, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if patch is quiet_matrix:  # Gaussian noise takes more pilot runs to tell good pairs from others
        monkeypatch.setattr(LocalGame, "pilots", 2000)
        monkeypatch.setattr(LocalGame, "heats", ((4, 8000),))
    patch(monkeypatch)
    assert audit(game(name, 1.0), RUNS, np.random.default_rng(0), confidence=0.999).refuted


@pytest.mark.wide_at("loud_[sl]*", "sums_of_two-pglm-*")
@pytest.mark.parametrize(
    ("patch", "name", "env", "message"),
    [
        (label_in_the_clear, "lpct", "Classification", "something else than the randomizer"),
        (quiet_matrix, "ldp-linucb", "Linear", "something else than the randomizer"),
        (loud_device, "lplr", "Linear", "something else than the randomizer"),
        (loud_labels, "lpct", "Classification", r"learn_labels\(\) made 0 reports of 40 users"),
        (loud_sums, "lpct", "Classification", r"learn_labels\(aggregate=True\) made 0 reports of 40 users"),
        (sums_of_two, "lpct", "Classification", r"learn_labels\(aggregate=True\) made 80 reports of 40 users"),
        (sums_of_two, "pglm", "Classification", r"learn_labels\(aggregate=True\) made 80 reports of 40 users"),
        (sums_and_the_truth, "lpct", "Classification", "learned something that was in no report"),
        (two_reports, "ldp-greedy", "Linear", "40 users sent 80 reports"),
        (hidden_entry, "ldp-greedy", "Linear", "40 users reported, and 80 entries"),
    ],
)
def test_reports_made_otherwise_fail_the_conformance_suite(
    patch: Patch, name: str, env: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(monkeypatch)
    with pytest.raises(AssertionError, match=message):
        check_reports(name, f"privbandit/{env}-v0", HORIZON, {})


STRANGERS = """
from dataclasses import dataclass

import numpy as np
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.spaces import arms_with_features, labels_of_contexts
from privbandit_agents.privacy.accounting.costs import pure
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.zoo.plugins import register_agent


@dataclass(frozen=True)
class Config:
    epsilon: float = 1.0
    times: float = 1.0


class Stranger(LocalAgent):
    Config = Config

    def begin(self):
        self.guarantee = Guarantee.local(self.config.epsilon, 0.0, "this file")
        self.ledger = Ledger(epsilon=self.config.epsilon)
        self.spent = min(self.config.times * self.config.epsilon, 1e300)
        self.total, self.best = np.zeros(self.observation_space.shape[-1] + 1), np.zeros(2)
        self.explorer = self.rng.spawn(1)[0]

    def absorb(self, report):
        for noisy in report:
            self.ledger.spend(pure(self.config.epsilon), group=self.ledger.releases)
            self.learn(noisy)


class Voter(Stranger):
    "Epsilon-greedy on randomized response about the label; it explores by a generator of its own."

    plays = staticmethod(labels_of_contexts)

    def select_action(self, context):
        context = self.contexts_of(context)
        drawn = self.explorer.random((len(context.reshape(-1, 2)), 2))
        actions = np.where(drawn[:, 0] < 0.2, 2 * drawn[:, 1], self.best.argmax()).astype(int)
        return actions if context.ndim == 2 else int(actions[0])

    def randomize(self, context, action, feedback):
        _, actions, answers = self.records_of(context, action, feedback)
        truth = np.where(np.isfinite(answers) & (answers > 0.5), actions, 1 - actions) > 0
        keep = self.rng.random(len(truth)) < 1 / (1 + np.exp(-min(self.spent, 700.0)))
        return np.where(keep, truth, ~truth)

    def learn(self, noisy):
        self.best = self.best + [not noisy, noisy]


class Remembering(Voter):
    "Its devices say what the user before would have said, where that is another label."

    def randomize(self, context, action, feedback):
        _, actions, answers = self.records_of(context, action, feedback)
        truth = np.where(np.isfinite(answers) & (answers > 0.5), actions, 1 - actions) > 0
        keep = self.rng.random(len(truth)) < 1 / (1 + np.exp(-min(self.spent, 700.0)))
        before = np.append(truth[:1], truth[:-1])
        return np.where(truth == before, truth == keep, before)


class Moments(Stranger):
    "Greedy on y x with Laplace noise; without noise if ``times`` is negative."

    plays = staticmethod(arms_with_features)

    def select_action(self, context):
        return (self.contexts_of(context) @ self.total[:-1]).argmax(axis=-1)

    def randomize(self, context, action, feedback):
        contexts, actions, rewards = self.records_of(context, action, feedback)
        x = np.nan_to_num(contexts[np.arange(len(rewards)), actions].astype(float), posinf=0, neginf=0)
        x = x / np.maximum(np.abs(x).sum(axis=1, keepdims=True), 1)
        z = x * np.clip(np.nan_to_num(rewards, posinf=0, neginf=0), -1, 1)[:, None]
        return z + self.rng.laplace(scale=max(2 / self.spent, 0), size=z.shape)

    def learn(self, noisy):
        self.total = self.total + np.append(noisy, 1.0)


register_agent("voter", "strangers:Voter", "randomized response")
register_agent("remembering", "strangers:Remembering", "randomized response")
register_agent("moments", "strangers:Moments", "Laplace noise")
"""


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Agents of somebody else, which use no randomizer and no mechanism of ours."""
    (tmp_path / "strangers.py").write_text(STRANGERS)
    monkeypatch.syspath_prepend(tmp_path)
    known = dict(AGENTS)
    yield
    AGENTS.clear()
    AGENTS.update(known)
    sys.modules.pop("strangers", None)


@pytest.mark.wide_at("1.25-True-moments", "1.25-*-voter", "10.0-*", "-1.0-*", "1.0-*")
@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("name", ["voter", "moments"])
@pytest.mark.parametrize(("times", "caught"), [(1.0, False), (1.25, True), (10.0, True), (-1.0, True)])
def test_a_strangers_agent_is_refuted_if_it_overspends(name: str, times: float, caught: bool) -> None:
    """By 1.25, tenfold, or without noise: the voter then always lies, which tells as much as the truth."""
    if name == "voter" and times < 0:
        times = -100.0
    played = game(f"strangers:{name}", 1.0, config={"times": times})
    assert audit(played, RUNS, np.random.default_rng(0), confidence=0.999).refuted == caught


@pytest.mark.usefixtures("strangers")
@pytest.mark.wide
def test_what_the_next_users_report_tells_of_a_user_is_seen() -> None:
    """The report of a user and that of the next one cost more together than the one that is meant to tell."""
    played = game("strangers:remembering", 1.0)
    result = audit(played, RUNS, np.random.default_rng(0), confidence=0.999)
    assert result.refuted
    assert "the next user's report" in played.pair


@pytest.mark.wide
def test_an_answer_that_is_filled_in_from_the_user_before_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of a user without an answer is about the one before, who so reports twice."""
    honest = MomentAgent.encode

    def filled(self: Any, context: Any, action: Any, feedback: Any) -> Any:
        answers = np.array(feedback, float)
        silent = 1 + np.flatnonzero(np.isnan(answers[1:]))
        answers[silent] = answers[silent - 1]
        return honest(self, context, action, answers)

    monkeypatch.setattr(MomentAgent, "encode", filled)
    played = game("ldp-greedy", 1.0)
    assert audit(played, RUNS, np.random.default_rng(0), confidence=0.999).lower_bound > 1.3
    assert "whose feedback is NaN" in played.pair


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize(("name", "env"), [("voter", "Classification"), ("moments", "Linear")])
def test_a_strangers_correct_agent_is_not_accused(name: str, env: str) -> None:
    """One of them explores by a generator of its own."""
    for check in (check_local, check_reports):
        check(f"strangers:{name}", f"privbandit/{env}-v0", HORIZON, {})


def test_a_server_that_keeps_a_context_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LPCT.select_action

    def keeping(self: Any, context: Any) -> Any:
        self.last = np.array(context)
        return honest(self, context)

    monkeypatch.setattr(LPCT, "select_action", keeping)
    with pytest.raises(AssertionError, match="keeps something of a context"):
        check_local("lpct", "privbandit/Classification-v0", HORIZON, {})
