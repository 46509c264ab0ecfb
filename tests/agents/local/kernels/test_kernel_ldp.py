"""Kernel models that private reports move: what leaves a device, what the server learns, and who serves."""

import math
from typing import Any

import numpy as np
import pytest
from given import classification
from gymnasium.spaces import Box, Discrete
from privbandit_agents import load, make, play, save
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.local.kernels.kernel_ldp import KernelLDP

USERS = 2000


def crossed(rows: int, seed: int, dim: int = 2, noise: float = 0.0) -> tuple[Any, Any]:
    """Labels by the product of two features, some of them turned."""
    rng = np.random.default_rng(seed)
    x = rng.random((rows, dim))
    turned = rng.random(rows) < noise
    return x, (((x[:, 0] - 0.5) * (x[:, 1] - 0.5) > 0) ^ turned).astype(int)


def built(public: tuple[Any, Any], labels: int = 2, **config: Any) -> Any:
    """Return an agent with these public rows."""
    spaces = Box(0, 1, (np.shape(public[0])[1],), np.float64), Discrete(labels)
    return KernelLDP(*spaces, KernelLDP.Config(**config), np.random.default_rng(0), public)


def score(agent: Any, test: tuple[Any, Any]) -> float:
    return float((agent.chances(test[0]).argmax(axis=1) == test[1]).mean())


@pytest.mark.wide
def test_users_correct_what_public_rows_tell() -> None:
    """A third of the public labels are turned."""
    test, public, people = crossed(2000, 1), crossed(60, 2, noise=0.35), crossed(8000, 3)
    agent = built(public, epsilon=6.0, horizon=8000, directions=30)
    before = score(agent, test)
    for start in range(0, 8000, 400):
        x, y = (part[start : start + 400] for part in people)
        given = agent.select_action(x)
        agent.update(x, given, (given == y).astype(float))
    assert score(agent, test) > max(0.9, before + 0.05)


@pytest.mark.wide
def test_wrong_answers_teach_with_more_than_two_labels() -> None:
    """The public rows know three of four labels."""
    rng = np.random.default_rng(0)
    x = rng.random((8000, 2))
    y = 2 * (x[:, 0] > 0.5) + (x[:, 1] > 0.5)
    agent = built((x[:40], np.where(y[:40] == 3, 2, y[:40])), labels=4, epsilon=8.0, horizon=8000, directions=30)
    before = score(agent, (x, y))
    for start in range(40, 8000, 200):
        part = slice(start, start + 200)
        given = agent.select_action(x[part])
        agent.update(x[part], given, (given == y[part]).astype(float))
    assert score(agent, (x, y)) > before + 0.1


@pytest.mark.wide
def test_noise_alone_does_not_move_who_serves() -> None:
    """At a tiny epsilon the answers stay those of the public rows."""
    test = crossed(500, 1)
    for seed in range(2):
        agent = built(crossed(60, 10 + seed), epsilon=1e-2, horizon=4000, directions=20)
        before = agent.chances(test[0])
        agent.learn_labels(*crossed(4000, 20 + seed))
        agent.conclude()
        assert (agent.chances(test[0]).argmax(axis=1) == before.argmax(axis=1)).mean() > 0.97


def test_without_public_rows_it_learns() -> None:
    agent = built((np.zeros((0, 2)), np.zeros(0, int)), epsilon=6.0, horizon=8000, directions=30)
    agent.learn_labels(*crossed(8000, 1))
    agent.conclude()
    assert score(agent, crossed(2000, 2)) > 0.8


@pytest.mark.parametrize(
    ("rows", "labels", "dim", "epsilon"),
    [(0, 3, 2, 32.0), (1, 2, 1, 0.1), (2, 2, 3, 32.0), (2, 26, 4, 0.1), (30, 26, 3, 32.0), (50, 2, 1000, 0.1)],
)
@pytest.mark.wide
def test_public_rows_of_every_number(rows: int, labels: int, dim: int, epsilon: float) -> None:
    rng = np.random.default_rng(0)
    public = rng.random((rows, dim)), rng.integers(labels, size=rows)
    agent = built(public, labels, epsilon=epsilon, horizon=40, directions=20)
    x = rng.random((40, dim))
    given = agent.select_action(x)
    agent.update(x, given, rng.integers(2, size=40).astype(float))
    chances = agent.chances(x)
    assert np.isfinite(chances).all() and chances.sum(axis=1) == pytest.approx(1)


@pytest.mark.wide
def test_one_public_label_and_rows_that_are_all_alike() -> None:
    for public in ((crossed(20, 0)[0], np.ones(20, int)), (np.full((20, 2), 0.5), np.arange(20) % 2)):
        agent = built(public, epsilon=2.0, horizon=200)
        agent.learn_labels(*crossed(200, 1))
        assert np.isfinite(agent.chances(crossed(50, 2)[0])).all()


def wild(agent: Any) -> Any:
    """Return records of all kinds: contexts, actions, answers."""
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random((8, 2)), [[0, 0], [1, 1], [1e30, -math.inf], [math.nan, 0]]])
    labels = agent.n_labels
    actions = np.tile(np.arange(labels), len(x))
    x = np.repeat(x, labels, axis=0)
    return np.tile(x, (2, 1)), np.tile(actions, 2), np.repeat([0.0, 1.0], len(x))


def states(agent: Any) -> Any:
    """Yield the agent at public states of every kind: new, sure of one label, and sure of nothing."""
    yield agent
    server = agent.server
    server.means = server.means + 1e3
    yield agent
    server.means, server.spreads = 0 * server.means, 1e12 * server.spreads
    yield agent


@pytest.mark.parametrize("labels", [2, 3])
def test_no_record_says_more_than_a_unit_vector(labels: int) -> None:
    rng = np.random.default_rng(0)
    public = rng.random((9, 2)), rng.integers(labels, size=9)
    for agent in states(built(public, labels)):
        values = agent.inputs(*wild(agent)).values
        norms = np.linalg.norm(values, axis=1)
        assert np.isfinite(values).all() and norms.max() <= 1 + 1e-12
    assert norms.max() == pytest.approx(1)


@pytest.mark.parametrize("report", ["hemisphere", "bin-cap"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_worst_pair_of_records_has_a_ratio_of_epsilon(report: str, epsilon: float) -> None:
    worst = []
    for agent in states(built(crossed(9, 0), epsilon=epsilon, report=report, directions=3)):
        values = agent.inputs(*wild(agent)).values
        device = agent.device
        reports = device.randomize(np.zeros(len(values) * 20, int), np.repeat(values, 20, axis=0), agent.rng)
        density = np.array([device.log_likelihood(reports, 0, value) for value in values])
        worst.append((density.max(axis=0) - density.min(axis=0)).max())
    assert 0.8 * epsilon < max(worst) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("labels", [2, 3])
def test_a_report_is_the_slope_of_the_log_likelihood(labels: int) -> None:
    """Its direction, by finite differences in eta; and the server foresees its mean where eta is true."""
    rng = np.random.default_rng(0)
    public = rng.random((9, 2)), rng.integers(labels, size=9)
    server = built(public, labels, directions=4).server
    x, given = rng.random((30, 2)), rng.integers(labels, size=30)
    right = server.surprises(x, given)
    fixed, phi = server.field.parts(x)
    moves = np.einsum("nd,mdk->nkm", phi, server.field.directions)
    p, moderate = server.likely(fixed, phi, server.field.moved(server.means[0], server.spreads[0]))

    def log_chance(eta: Any) -> Any:
        scores = moderate[:, None] * (fixed + moves @ eta)
        return (scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))[np.arange(30), given]

    slope = np.stack([(log_chance(step) - log_chance(-step)) / 2e-6 for step in 1e-6 * np.eye(4)], axis=1)
    assert np.vecdot(right, slope) == pytest.approx(
        np.linalg.norm(right, axis=1) * np.linalg.norm(slope, axis=1), rel=1e-3
    )
    own = p[np.arange(30), given]
    assert np.linalg.norm(right, axis=1) == pytest.approx((1 - own) / np.maximum(own, 1 - own))
    wrong = server.surprises(x, -1 - given)
    assert own[:, None] * right + (1 - own)[:, None] * wrong == pytest.approx(np.zeros((30, 4)), abs=1e-9)


@pytest.mark.wide_at("wine")
@pytest.mark.parametrize("source", ["lpct-synthetic", "wine"])
def test_a_group_larger_than_a_batch_is_the_same_as_one_by_one(source: str) -> None:
    env = classification(USERS, source=source)
    together: Any = make("kernel-ldp", env, seed=0, batch=7, directions=10)
    alone: Any = make("kernel-ldp", env, seed=0, batch=7, directions=10)
    rng = np.random.default_rng(0)
    x = rng.random((40, *env.observation_space.shape)).astype(np.float32)
    actions, answers = np.zeros(40, int), rng.integers(2, size=40).astype(float)
    together.update(x, actions, answers)
    for record in zip(x, actions, answers, strict=True):
        alone.update(*record)
    first, second = (agent.server for agent in (together, alone))
    assert first.means[1:] == pytest.approx(second.means[1:]) and first.means[1:].any()
    assert [agent.users - agent.learned for agent in (together, alone)] == [5, 5]


def test_known_labels_teach_as_feedback_does() -> None:
    x, y = crossed(900, 3)
    bandit, offline = (built(crossed(9, 0), horizon=USERS) for _ in range(2))
    bandit.update(x, 1 - y, np.zeros(900))
    offline.learn_labels(x, y)
    assert bandit.server.means == pytest.approx(offline.server.means)


@pytest.mark.parametrize(("epsilon", "kind"), [(0.1, "exact"), (1.0, "exact"), (4.0, "real")])
def test_hemispheres_are_sent_where_they_cost_little(epsilon: float, kind: str) -> None:
    agent = make("kernel-ldp", classification(USERS), seed=0, epsilon=epsilon)
    assert agent.guarantee.arithmetic == kind and agent.guarantee.epsilon == epsilon
    assert make("kernel-ldp", classification(USERS), epsilon=4.0, report="hemisphere").guarantee.arithmetic == "exact"


def test_a_saved_agent_goes_on(tmp_path: Any) -> None:
    env = classification(USERS)
    agent: Any = make("kernel-ldp", env, seed=0, epsilon=8.0)
    play(env, agent, 300, seed=0)
    save(agent, tmp_path / "agent.npz")
    again: Any = load(tmp_path / "agent.npz", env)
    x = np.random.default_rng(0).random((200, 2))
    assert isinstance(again, KernelLDP) and np.array_equal(again.chances(x), agent.chances(x))


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_it_keeps_its_claim_and_half_the_noise_is_caught() -> None:
    verdict = audit(game("kernel-ldp", 1.0), 20_000, np.random.default_rng(0), confidence=0.999)
    assert not verdict.refuted and verdict.lower_bound > 0.8
    target: Any = game("kernel-ldp", 2.0)
    target.claim = game("kernel-ldp", 1.0).claim
    assert audit(target, 5000, np.random.default_rng(0)).refuted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 0}, "batch must be"),
        ({"directions": 0}, "directions must be"),
        ({"report": "laplace"}, "report must be one of auto, bin-cap, hemisphere"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("kernel-ldp", classification(USERS), **settings)
