from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import classification
from privbandit_agents import make, play
from privbandit_agents.classifiers import AgentClassifier

USERS = 2000


def crossed(rows: int, seed: int) -> tuple[Any, Any]:
    """Labels by the product of two features, which no linear score can tell."""
    x = np.random.default_rng(seed).random((rows, 2))
    return x, ((x[:, 0] - 0.5) * (x[:, 1] - 0.5) > 0).astype(int)


def tilted(rows: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.random((rows, 6))
    return x, (rng.random(rows) < 1 / (1 + np.exp(-(x - 0.5) @ np.linspace(-9, 9, 6)))).astype(int)


def test_the_gradient_of_the_network_is_that_of_its_loss() -> None:
    agent: Any = make("psgd-network", classification(USERS), seed=0, hidden=4)
    x, y = crossed(6, 0)
    model, start = agent.model, agent.theta
    theta = start + 0.1 * np.random.default_rng(1).standard_normal(len(start))

    def loss(theta: Any) -> Any:
        return np.logaddexp(0, np.where(y == 1, -1, 1) * model.scores(x, theta))

    step = 1e-6 * np.eye(len(theta))
    numeric = np.stack([(loss(theta + s) - loss(theta - s)) / 2e-6 for s in step], axis=1)
    assert len(theta) == 4 * 3 + 4 + 1
    assert model.gradients(x, y, theta) == pytest.approx(numeric, abs=1e-5)
    each = model.backward(model.features(x), y, theta)
    assert model.summed_gradient(model.features(x), y, theta) == pytest.approx(each.sum(axis=0))


@pytest.mark.wide
def test_a_hidden_layer_tells_what_a_linear_score_cannot() -> None:
    test, rows = crossed(4000, 9), (crossed(4000, 1), crossed(200, 2))
    found = {}
    for name, settings in (("psgd-linear", {}), ("psgd-network", {"hidden": 8})):
        model = AgentClassifier(name, {"epsilon": 8.0, **settings}, scale_by="range", random_state=0)
        found[name] = model.fit(*rows[0], *rows[1]).score(*test)
    assert found["psgd-linear"] < 0.6 < 0.85 < found["psgd-network"]


@pytest.mark.parametrize("name", ["psgd-linear", "psgd-network"])
@pytest.mark.wide
def test_users_improve_the_public_start(name: str) -> None:
    """Means of three seeds, against one user, who moves hardly anything."""
    test, found = tilted(10_000, 99), []
    for users in (1, 5000):
        settings = {"epsilon": 8.0, "step": 0.01}
        models = [AgentClassifier(name, settings, scale_by="range", random_state=seed) for seed in range(3)]
        scores = [m.fit(*tilted(users, 50 + s), *tilted(30, 70 + s)).score(*test) for s, m in enumerate(models)]
        found.append(np.mean(scores))
    assert found[1] > found[0] + 0.02


def test_one_user_a_step_and_seeded_starts() -> None:
    agents: list[Any] = [make("psgd-network", classification(USERS), seed=seed) for seed in (0, 0, 1)]
    assert agents[0].frozen_rounds() == 1 and agents[0].model.hidden == 2
    assert np.array_equal(agents[0].theta, agents[1].theta)
    assert not np.array_equal(agents[0].theta, agents[2].theta)


def test_the_largest_report_is_one_step_of_the_learning_rate() -> None:
    agent: Any = make("psgd-linear", classification(USERS), seed=0, step=0.01, epsilon=2.0)
    before = agent.theta
    agent.update(np.array([0.2, 0.9]), 1, 1.0)
    assert np.linalg.norm(agent.theta - before) == pytest.approx(0.01 / agent.device.mean)
    assert type(agent.device).__name__ == "BinCapSign"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("psgd-linear", {"step": 0.0}, "step must be > 0; got 0.0"),
        ("psgd-network", {"hidden": 0}, "hidden must be"),
    ],
)
def test_settings_are_checked(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(name, classification(USERS), **settings)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("psgd-linear", {}, {"epsilon": 0.1}),
    ("psgd-linear", {"source": "breast_cancer"}, {"epsilon": 8.0, "step": 1e9}),  # the largest there is
    ("psgd-linear", {}, {"epsilon": float("inf")}),
    ("psgd-network", {"n_public": 1}, {"hidden": 3, "step": 0.5}),
    ("psgd-network", {"source": "digits-binary"}, {}),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.wide_at("psgd-network-world4-*")
@pytest.mark.parametrize(("name", "world", "config"), CASES)
def test_devices_in_turn_are_the_step_loop_bit_for_bit(name: str, world: Any, config: Any) -> None:
    users, found = 130, []
    for wrapped in (lambda env: env, gym.Wrapper):
        env = gym.make("privbandit/Classification-v0", horizon=users, **world)
        agent: Any = make(name, env, seed=1, **config)
        result = play(wrapped(env), agent, seed=2)
        found.append((result.regret, *agent.state(), agent.devices_state(), agent.ledger.releases))
    (regret, arrays, *rest), (loop_regret, loop_arrays, *loop_rest) = found
    assert np.array_equal(regret, loop_regret) and str(rest) == str(loop_rest)
    assert all(np.array_equal(arrays[key], loop_arrays[key], equal_nan=True) for key in loop_arrays)


def test_a_device_that_was_changed_keeps_the_loop() -> None:
    env = classification(80)
    agent, calls = make("psgd-linear", env, seed=0), []
    randomize = agent.randomize  # type: ignore[attr-defined]
    agent.randomize = lambda *record: calls.append(1) or randomize(*record)  # type: ignore
    play(env, agent, 80, seed=0)
    assert len(calls) == 80
