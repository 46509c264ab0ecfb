"""Agents and games that somebody writes in one file outside the repository are audited by name."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from privbandit_agents.audits.claims import AuditResult
from privbandit_agents.audits.games import joint
from privbandit_agents.audits.games.joint import FirstRelease, JointGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.audits.views.reports import Contrast
from privbandit_agents.cli.commands import app
from privbandit_agents.testing.privacy import check_audit
from privbandit_agents.testing.replay import NotSeen
from privbandit_agents.zoo.entries import AGENTS

MIDDLE = {"Linear-v0": 0.0, "SparseLinear-v0": 0.0, "Assortment-v0": -0.5, "Classification-v0": 0.5}
"""Of the feedback of each family."""
COMMON = """
from dataclasses import dataclass

import numpy as np
from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.zoo.plugins import register_agent


@dataclass(frozen=True)
class Config:
    epsilon: float = 1.0
    leaky: bool = False
    middle: float = 0.0


class Shared:
    Config = Config

    def __init__(self, *args):
        super().__init__(*args)
        epsilon = self.config.epsilon
        notion = "local" if isinstance(self, LocalAgent) else "joint"
        self.guarantee = Guarantee(notion, epsilon=epsilon, delta=0.0, protects="the record", reference="this file")
        self.ledger = Ledger(epsilon=epsilon)
        self.action_space.seed(0)
        drawn = [self.action_space.sample() for _ in range(20)]
        self.two = drawn[0], next(action for action in drawn if np.any(action != drawn[0]))
        self.good = 0

    def select_action(self, context):
        chosen = self.two[self.good]
        single = np.ndim(context) == len(self.observation_space.shape)
        return chosen if single else np.array([chosen] * len(context))
"""
LOCAL = (
    COMMON
    + """

class Voter(Shared, LocalAgent):
    def randomize(self, context, action, feedback):
        feedback = np.atleast_1d(feedback)
        if self.config.leaky:
            return {"reward": (feedback, np.ones(len(feedback))), "nothing": None}
        good = feedback > self.config.middle
        keep = self.rng.random(len(good)) < 1 / (1 + np.exp(-self.config.epsilon))
        return np.where(keep, good, ~good)

    def absorb(self, report):
        self.good = 1


class VoteGame(AgentGame):
    pair = "reward 1 or -1"
    statistics = ("the vote",)
    seen = "the vote of one user"
    world = {"id": "privbandit/Linear-v0", "n_arms": 3, "dim": 4}

    def play(self, world, runs, rng):
        device = self.agent(int(rng.integers(2**31)))
        report = device.randomize(np.zeros((runs, 3, 4)), np.zeros(runs, int), np.full(runs, 1.0 - 2 * world))
        return np.asarray(report["reward"][0] if self.config.get("leaky") else report, float)[:, None]


register_agent("voter", "outsider:Voter", "randomized response about the reward")
register_agent("own-game", "outsider:Voter", "the same with a game", audit="outsider:VoteGame", runs=200)
"""
)
JOINT = (
    COMMON
    + """

class LastReward(Shared, CentralAgent):
    def curate(self, context, action, feedback):
        last = np.clip(float(np.ravel(feedback)[-1]) - self.config.middle, -1, 1)
        noise = 0 if self.config.leaky else self.rng.laplace(scale=2 / self.config.epsilon)
        return int(last + noise > 0)

    def select_action(self, context):
        self.good = getattr(self, "release", 0)
        return super().select_action(context)


class FirstUserGame(AgentGame):
    pair = "reward 1 or -1"
    statistics = ("the action towards the second user",)
    runs = 300

    def play(self, world, runs, rng):
        context = np.zeros(self.env.observation_space.shape)
        out = np.zeros((runs, 1))
        for run in range(runs):
            agent = self.agent(int(rng.integers(2**31)))
            agent.update(context, 0, 1.0 - 2 * world)
            out[run] = agent.select_action(context)
        return out


register_agent("no-game", "outsider:LastReward", "a game that is none", audit="outsider:Config")
register_agent("last", "outsider:LastReward", "noise on the last reward")
register_agent("own-game", "outsider:LastReward", "the same with a game", audit="outsider:FirstUserGame")
"""
)


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"pilots": 8, "heats": ((4, 16),), "fits": 60}.items():
        monkeypatch.setattr(JointGame, key, value)
    monkeypatch.setattr(JointGame, "among", 1)
    monkeypatch.setattr(FirstRelease, "among", 1)
    monkeypatch.setattr(joint, "RUNS_OF_PURE", 1000)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, whose module ``outsider`` is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    known = dict(AGENTS)
    yield tmp_path / "outsider.py"
    AGENTS.clear()
    AGENTS.update(known)
    sys.modules.pop("outsider", None)


def audited(name: str, env: str, runs: int, leaky: bool) -> AuditResult:
    config = {"leaky": leaky, "middle": MIDDLE[env]}
    played = game(f"outsider:{name}", 1.0, env=f"privbandit/{env}", config=config)
    return audit(played, runs, np.random.default_rng(0), confidence=0.999)


@pytest.mark.parametrize("env", MIDDLE)
@pytest.mark.wide
def test_a_local_agent_is_audited_in_every_family(env: str, outside: Path) -> None:
    outside.write_text(LOCAL)
    honest, leaky = (audited("voter", env, 2000, leaky) for leaky in (False, True))
    assert 0.7 < honest.lower_bound <= 1.0 and leaky.refuted


@pytest.mark.parametrize("env", [name for name in MIDDLE if name != "SparseLinear-v0"])
@pytest.mark.wide
def test_a_joint_agent_is_audited_in_every_family(env: str, outside: Path) -> None:
    outside.write_text(JOINT)
    assert audited("last", env, 60, True).refuted


@pytest.mark.wide
def test_an_honest_joint_agent_is_not_refuted(outside: Path) -> None:
    outside.write_text(JOINT)
    assert not audited("last", "Linear-v0", 60, False).refuted


@pytest.mark.wide
def test_a_file_with_agent_and_game_is_audited_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "outsider.py").write_text(LOCAL)
    command = [sys.executable, "-m", "privbandit_agents.cli", "audit", "outsider:own-game"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "the vote of one user" in ended.stdout and (tmp_path / "runs/audit/outsider-own-game-correct.png").exists()


@pytest.mark.wide_at("text4-*")
@pytest.mark.parametrize(
    ("text", "arguments", "code", "said"),
    [
        (LOCAL, ["own-game", "--set", "leaky=true"], 1, "REFUTED"),
        (LOCAL, ["own-game", "--env", "privbandit/Linear-v0"], 2, "a world of its game's own"),
        (LOCAL, ["voter", "--set", "leeky=true"], 2, "did you mean 'leaky'?"),
        (LOCAL, ["voter", "--set", "leaky"], 2, "--set takes KEY=VALUE"),
        (JOINT, ["own-game", "--env", "privbandit/Linear-v0", "--set", "leaky=true"], 1, "REFUTED"),
        (JOINT, ["no-game"], 2, "is not a subclass of AgentGame"),
        (JOINT, ["uniform"], 2, "makes no promise to audit"),
        (JOINT.replace("last =", "assert np.sum(feedback) < 1e9; last ="), ["last"], 2, "feedback or NaN. Assert"),
    ],
)
def test_options_and_errors_of_the_command(
    text: str,
    arguments: list[str],
    code: int,
    said: str,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outside.write_text(text)
    monkeypatch.chdir(outside.parent)
    with pytest.raises(SystemExit) as ended:
        app(["audit", f"outsider:{arguments[0]}", *arguments[1:]])
    printed = capsys.readouterr()
    assert ended.value.code == code and said in " ".join((printed.out + printed.err).split())


def test_a_contrast_sees_a_difference_in_means_in_spread_and_in_one_coordinate() -> None:
    rng = np.random.default_rng(0)
    zero, one = rng.standard_normal((2, 4000, 5))
    one[:, 3] *= 3
    statistics = Contrast.of(zero, one)
    first, second = statistics(zero), statistics(one)
    assert statistics.clearest == 3
    assert first[:, 2].mean() > 0.3 > -0.3 > second[:, 2].mean()
    shifted = Contrast.of(zero, zero + 1)
    assert (shifted(zero)[:, 0] - shifted(zero + 1)[:, 0] > 2).all()


def test_noise_that_coordinates_share_is_seen_through() -> None:
    """Someone drew one number for all coordinates: each hides its record, and their differences show it."""
    rng = np.random.default_rng(0)
    zero, one = (rng.laplace(size=(4000, 1)) + np.zeros(3) for _ in range(2))
    one[:, 0] += 0.5
    statistics = Contrast.of(zero[:2000], one[:2000])
    shown, other = (statistics(world[2000:])[:, 0] for world in (zero, one))
    assert shown.min() > other.max() or shown.max() < other.min()


@pytest.mark.parametrize("fault", ["", "no noise", "ten times epsilon"])
@pytest.mark.wide
def test_the_suite_audits_an_outsider_s_device_if_asked(fault: str, outside: Path) -> None:
    """An honest device is accused with probability 0.001 at most."""
    text = LOCAL.replace("-self.config.epsilon", "-10 * self.config.epsilon") if fault == "ten times epsilon" else LOCAL
    outside.write_text(text)
    config = {"leaky": fault == "no noise"}
    if not fault:
        with pytest.warns(NotSeen, match="the audit of outsider:voter could not see: it: "):
            check_audit("outsider:voter", "privbandit/Linear-v0", 300, config)
        return
    with pytest.raises(AssertionError, match=r"voter claims epsilon = 1; an audit shows epsilon >= \d"):
        check_audit("outsider:voter", "privbandit/Linear-v0", 300, config)
