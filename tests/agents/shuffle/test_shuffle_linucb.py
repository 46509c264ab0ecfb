"""The shuffle model: what the server learns, leaks that the suite finds, and an audit in both directions."""

import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, Guarantee, Ledger, Settings, arms_with_features, load, make, n_arms, play, save
from privbandit_agents.audits.games.shuffled import ShuffleGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.pairs.records import Record
from privbandit_agents.audits.pairs.targets import targets
from privbandit_agents.base.settings import Budget
from privbandit_agents.base.shuffling import ShuffleAgent, Shuffler
from privbandit_agents.privacy.accounting.costs import pure
from privbandit_agents.privacy.contributions.moments import SENSITIVITY, pack
from privbandit_agents.privacy.randomizers.coins import CoinSums, shift_of
from privbandit_agents.shuffle.batches import protocol
from privbandit_agents.shuffle.shuffle_linucb import ShuffleLinUCB
from privbandit_agents.testing import check_agent
from privbandit_agents.testing.runs import environment
from privbandit_agents.testing.shuffling import check_shuffle
from privbandit_agents.testing.twins import check_local
from privbandit_agents.zoo.entries import Entry

from privbandit_envs import Delay

LINEAR, NAME = "privbandit/Linear-v0", "shuffle-linucb"
Patch = pytest.MonkeyPatch


def world(horizon: int = 1000, dim: int = 3) -> Any:
    return gym.make(LINEAR, n_arms=3, dim=dim, horizon=horizon, instance_seed=0)


def test_the_promise_names_the_trust_that_it_needs() -> None:
    promise = make(NAME, world(), epsilon=2.0, delta=1e-6).guarantee
    assert (promise.notion, promise.epsilon, promise.delta, promise.neighbours) == (
        "shuffle",
        2.0,
        1e-6,
        "replace-one-user",
    )
    assert (
        "a share 1 - honest of others, if the shuffler keeps senders" in promise.protects
        and promise.arithmetic == "exact"
    )
    assert make(NAME, world(dim=30), epsilon=0.05).guarantee.arithmetic == "real"  # too many coins to toss


def test_secure_coins_are_the_systems_and_where_they_cannot_be_tossed_another_agent_is_named() -> None:
    env = world(60)
    agent: Any = make(NAME, env, noise="secure")
    assert agent.guarantee.arithmetic == "exact" and agent.sums.noise == "secure"

    class Unused:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"numpy's generator was asked for {name}")

    agent.rng = Unused()
    bits = agent.randomize(np.zeros((50, 3, 3)), np.zeros(50, int), np.zeros(50))
    tossed, size = agent.sums.tosses(100), agent.sums.dim
    heads = bits[:, :size] - agent.sums.steps
    assert abs(heads.mean() / (tossed / 2) - 1) < 5 / math.sqrt(50 * size * tossed)
    with pytest.raises(ValueError, match=r"take prec-ts\.$"):
        make(NAME, world(dim=30), epsilon=0.05, noise="secure")
    with pytest.raises(ValueError, match="tosses at most"):
        dataclasses.replace(make(NAME, world(dim=30), epsilon=0.05).sums, noise="secure")  # type: ignore[attr-defined]


def test_the_bits_of_any_two_records_are_as_near_as_the_coins_need() -> None:
    """Every pair of hostile and ordinary records, with the same uniforms: more than 0.9 of the distance is used."""
    env = environment(LINEAR, 60)
    agent: Any = make(NAME, env, seed=0, epsilon=math.inf)
    env.reset(seed=0)
    action = env.action_space.sample()
    records = targets(agent, Record(env.upcoming(1)[0], action, float(env.serve(np.array([action])).feedback[0])))
    size, sent = agent.sums.dim, []
    for record in records.values():
        agent.rng = np.random.default_rng(3)
        sent.append(agent.randomize(record.context[None], np.array([record.action]), np.array([record.feedback]))[0])
    moves = [np.linalg.norm((one - other)[:size]) for one in sent for other in sent]
    shift = shift_of(size, agent.sums.steps, SENSITIVITY)
    assert 0.9 * shift < max(moves) <= shift


def test_without_coins_the_server_knows_the_sum_of_the_moments() -> None:
    env = world()
    agent: Any = make(NAME, env, seed=0, epsilon=math.inf)
    env.reset(seed=0)
    contexts = env.unwrapped.upcoming(100)
    agent.update(contexts, np.zeros(100, int), np.full(100, 0.5))
    weight = 100 / (100 + 3 * agent.sums.sigma(100) ** 2)
    exact = pack(contexts[:, 0], np.full(100, 0.5)).sum(axis=0)
    assert np.abs(agent.total / weight - exact).max() < 5 * agent.sums.sigma(100)


@pytest.mark.parametrize("law", [Delay(250, "batch"), Delay(60, "growing"), Delay(50, "batch", missing=0.2)])
@pytest.mark.parametrize("name", [NAME, "shuffle-glm"])
def test_a_shuffled_batch_ends_with_a_promised_one(name: str, law: Delay) -> None:
    """There are fewer of them, or as many, each with the coins of its own size; people who return change the count."""
    env = gym.make(LINEAR, n_arms=3, dim=3, horizon=2000, feedback=law)
    agents: list[Any] = [make(name, env, seed=0, **given) for given in ({}, {"feedback": None}, {"people": 900})]
    ends: list[list[int]] = [[], [], []]
    for agent, mine in zip(agents, ends, strict=True):
        while agent.users < 2000:
            mine.append(agent.users + agent.batch_size)
            agent.users = mine[-1]
    told, untold, of_people = ends
    assert set(told) <= {law.release(users) for users in range(1, 4001)} and len(told) <= len(untold)
    assert of_people == untold


@pytest.mark.wide_at("500-0.9", "50-1.25")
@pytest.mark.parametrize(("size", "most"), [(50, 1.25), (500, 0.9)])
def test_who_was_told_of_batches_loses_no_more(size: int, most: float) -> None:
    """Linear-v0, 4000 users, five seeds: means of .97 and .77 by eight."""
    runs = []
    for seed in range(5):
        env = gym.make(LINEAR, n_arms=5, dim=5, horizon=4000, feedback={"mean": size, "law": "batch"})
        agents = [make(NAME, env, seed=seed, **given) for given in ({}, {"feedback": None})]
        runs.append([play(env, agent, seed=seed, checkpoints=[4000]).regret[-1] for agent in agents])
    told, untold = np.mean(runs, axis=0)
    assert told <= most * untold


def test_batches_grow_and_each_is_one_entry_of_the_whole_budget() -> None:
    env = world()
    agent: Any = make(NAME, env, seed=0, growth=1.5, first=50)
    play(env, agent, 500, seed=0)
    sizes, served = [50, 50, 50, 75, 113, 169], 0  # the last one is open
    assert agent.batches == agent.ledger.releases == 5 and agent.users == sum(sizes[:5])
    assert agent.frozen_rounds() == sizes[5] - (500 - sum(sizes[:5]))
    assert agent.ledger.spent_epsilon() == 1.0 and served == 0


def test_a_saved_server_has_neither_keys_nor_an_open_batch(tmp_path: Any) -> None:
    env = world()
    agent: Any = make(NAME, env, seed=0)
    play(env, agent, 130, seed=0)
    arrays, values = agent.state()
    assert not any("rng" in key or "shuffler" in key for key in [*arrays, *values])
    save(agent, tmp_path / "agent.npz")
    again: Any = load(tmp_path / "agent.npz", env)
    assert agent.shuffler.users == 30 and again.shuffler.users == 0 and again.frozen_rounds() == again.batch_size
    again.restore_devices(agent.devices_state())
    assert np.array_equal(again.shuffler.bag, agent.shuffler.bag) and again.frozen_rounds() == agent.frozen_rounds()


# leaks, and what finds them


def server_reads_the_open_batch(patch: Patch) -> None:
    take = Shuffler.take

    def peeking(self: Any, messages: Any) -> None:
        take(self, messages)
        self.agent.scorer[0, -1] += self.bag[0]

    begin = ShuffleLinUCB.begin

    def begun(self: Any) -> None:
        begin(self)
        self.shuffler.agent = self

    patch.setattr(Shuffler, "take", peeking)
    patch.setattr(ShuffleLinUCB, "begin", begun)


def first_report_of_a_batch_is_kept(patch: Patch) -> None:
    take = Shuffler.take

    def keeping(self: Any, messages: Any) -> None:
        if not self.users:
            self.first = messages[0]
        take(self, messages)

    absorb = ShuffleLinUCB.absorb

    def with_first(self: Any, bag: Any, users: int) -> None:
        absorb(self, bag, users)
        self.total = self.total + 1e-9 * self.shuffler.first[: len(self.total)]

    patch.setattr(Shuffler, "take", keeping)
    patch.setattr(ShuffleLinUCB, "absorb", with_first)


def raw_rewards_beside_the_reports(patch: Patch) -> None:
    randomize = ShuffleLinUCB.randomize

    def leaking(self: Any, context: Any, action: Any, feedback: Any) -> Any:
        self.total = self.total + 1e-9 * np.sum(feedback)
        return randomize(self, context, action, feedback)

    patch.setattr(ShuffleLinUCB, "randomize", leaking)


def no_zeros_are_sent(patch: Patch) -> None:
    randomize = CoinSums.randomize
    patch.setattr(CoinSums, "randomize", lambda self, *given: randomize(self, *given) * np.repeat([1, 0], self.dim))


def devices_key_used_by_the_server(patch: Patch) -> None:
    select = ShuffleLinUCB.select_action

    def drawing(self: Any, context: Any) -> Any:
        self.rng.random()
        return select(self, context)

    patch.setattr(ShuffleLinUCB, "select_action", drawing)


LEAKS: list[tuple[Callable[[Patch], None], str]] = [
    (server_reads_the_open_batch, "who sent what|not whole|changed more"),
    (first_report_of_a_batch_is_kept, "who sent what"),
    (raw_rewards_beside_the_reports, "changed more than rng"),
    (no_zeros_are_sent, "must not depend on the record"),
    (devices_key_used_by_the_server, "drew from rng"),
]


@pytest.mark.parametrize(("leak", "words"), LEAKS, ids=lambda case: getattr(case, "__name__", None))
def test_a_leak_is_found(leak: Any, words: str, monkeypatch: Patch) -> None:
    leak(monkeypatch)
    check: Any = check_local if leak is devices_key_used_by_the_server else check_shuffle
    with pytest.raises(AssertionError, match=words):
        check(NAME, LINEAR, 60, {"first": 10})


class Quick(ShuffleGame):
    """One pair, which the sensitivity is attained by."""

    def scenes(self) -> Any:
        return [scene for scene in super().scenes() if scene.words == "reward 1 or -1"]

    pilots, fits = 400, 2000


@pytest.mark.parametrize("share", [1.0, 0.4, 0.1])
@pytest.mark.wide
def test_an_audit_refutes_missing_coins_and_not_the_right_number(share: float, monkeypatch: Patch) -> None:
    """Where three fifths are missing, if coins are presumed to be Gaussian noise; a tenth of them break the promise."""
    honest = CoinSums.from_epsilon

    def fewer(*given: Any) -> CoinSums:
        sums = honest(*given)
        return dataclasses.replace(sums, coins=math.ceil(share * sums.coins))

    monkeypatch.setattr(CoinSums, "from_epsilon", fewer)
    protocol.cache_clear()
    game = Quick(NAME, {"epsilon": 4.0})
    found = audit(game, 6000, np.random.default_rng(0), 0.999)
    protocol.cache_clear()
    assert found.refuted == (share < 0.4)
    assert found.presumed is not None and found.presumed.refuted == (share < 1)


@pytest.mark.slow
def test_it_lies_between_joint_and_local_privacy() -> None:
    """Means of four worlds of five features after 30 000 users at epsilon = 1; uniform play has about 16 000."""
    means = {}
    for name in ("jdp-linucb", NAME, "ldp-greedy"):
        envs = [gym.make(LINEAR, dim=5, horizon=30_000, instance_seed=seed) for seed in range(4)]
        means[name] = np.mean([play(env, make(name, env, seed=0), seed=0).regret[-1] for env in envs])
    assert means["jdp-linucb"] < 1.1 * means[NAME] and 3 * means[NAME] < means["ldp-greedy"]


class Tally(ShuffleAgent[Any]):
    """A stranger: each user sends one message, the arm and whether the reward was positive, by randomised response."""

    @dataclasses.dataclass(frozen=True)
    class Config(Settings):
        epsilon: Budget = 1.0

    boldness = 1.0
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        super().begin()
        self.arms = n_arms(self.action_space)
        self.shuffler, self.cost = Shuffler(2 * self.arms), pure(self.config.epsilon)
        self.ledger = Ledger(self.config.epsilon)
        self.guarantee = Guarantee("shuffle", self.config.epsilon, 0.0, protects="the record", reference="this file")
        self.votes = np.zeros(2 * self.arms)

    @property
    def batch_size(self) -> int:
        return 20

    def select_action(self, context: Any) -> Any:
        best = int(np.argmax(self.votes[: self.arms]))
        single = np.ndim(context) == len(self.context_shape)
        return best if single else np.full(len(context), best)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        _, actions, rewards = self.records_of(context, action, feedback)
        cells = np.where(actions < 0, 0, actions) + self.arms * ~(np.isfinite(rewards) & (np.nan_to_num(rewards) > 0))
        kinds, uniforms = 2 * self.arms, self.rng.random((len(cells), 2))
        lie = kinds / (math.exp(min(self.boldness * self.config.epsilon, 700.0)) - 1 + kinds)
        sent = np.where(uniforms[:, 0] < lie, (uniforms[:, 1] * kinds).astype(int), cells)
        return np.eye(2 * self.arms, dtype=np.int64)[sent]

    def absorb(self, bag: Any, users: int) -> None:
        self.votes = self.votes + bag


class Bold(Tally):
    """It sends with twice the epsilon that it states."""

    boldness = 2.0


@pytest.fixture
def strangers(monkeypatch: Patch) -> None:
    for name in ("Tally", "Bold"):
        monkeypatch.setitem(AGENTS, name.lower(), Entry(f"{__name__}:{name}", "a tally"))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Tally.__module__])


@pytest.mark.wide
@pytest.mark.usefixtures("strangers")
@pytest.mark.filterwarnings("ignore::privbandit_agents.testing.replay.NotSeen")
def test_a_stranger_of_this_shape_passes_the_suite() -> None:
    check_agent("tally", LINEAR, 60)


class Alone(ShuffleGame):
    pilots, fits = 400, 2000


@pytest.mark.usefixtures("strangers")
@pytest.mark.wide_at("bold-*")
@pytest.mark.parametrize(("name", "refuted"), [("tally", False), ("bold", True)])
def test_an_audit_refutes_a_bold_stranger_in_a_batch_of_one(name: str, refuted: bool, monkeypatch: Patch) -> None:
    monkeypatch.setattr(Tally, "batch_size", 1)
    game = Alone(name, {"epsilon": 1.0})
    assert audit(game, 4000, np.random.default_rng(1), 0.999).refuted == refuted
