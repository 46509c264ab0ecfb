"""The names that choose: which agent they stand for, and that it is that agent in every respect."""

import math
import os
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, Guarantee, load, make, play, save
from privbandit_agents.audits.registry import games
from privbandit_agents.local.choice import default_local
from privbandit_agents.privacy.accounting.conversions import pure_to_rho
from privbandit_agents.testing import check_agent
from privbandit_agents.zoo.entries import FAMILIES
from privbandit_agents.zoo.registry import can_play, public_data, spaces_of

LINEAR, SPARSE, ASSORTMENT, LABELS, CLICKS, ARMS = (
    FAMILIES[name] for name in ("linear", "sparse", "assortments", "labels", "clicks", "arms")
)


@pytest.mark.parametrize(
    ("env", "settings", "stands_for"),
    [
        (LINEAR, {}, "jdp-linucb"),
        (LINEAR, {"dim": 400}, "private-pursuit"),
        (SPARSE, {}, "private-pursuit"),
        (SPARSE, {"dim": 5, "sparsity": 2}, "private-pursuit"),
        (ASSORTMENT, {}, "newton-mnl"),
    ],
)
def test_joint_privacy_is_played_by_the_default_agent_of_the_family(
    env: str, settings: dict[str, Any], stands_for: str
) -> None:
    agent = make("auto-joint", gym.make(env, horizon=100, **settings), epsilon=2.0, delta=1e-6)
    promise = agent.guarantee
    assert agent.name == stands_for and (promise.notion, promise.epsilon, promise.delta) == ("joint", 2.0, 1e-6)
    assert stands_for in repr(agent) and promise.words in repr(agent)


def test_arms_without_a_context_have_default_agents() -> None:
    env = gym.make(ARMS, horizon=100)
    made = [make(name, env, epsilon=0.5) for name in ("auto-joint", "auto-local")]
    assert [agent.name for agent in made] == ["adap-klucb", "ldp-ucb"]
    assert all((one.guarantee.epsilon, one.guarantee.arithmetic) == (0.5, "exact") for one in made)


@pytest.mark.parametrize("env", [LINEAR, SPARSE, LABELS, ASSORTMENT, CLICKS])
def test_local_privacy_is_played_by_the_default_agent_of_the_family(env: str) -> None:
    agent = make("auto-local", gym.make(env, horizon=100), epsilon=0.5)
    promise = agent.guarantee
    named = {LABELS: "kernel-ldp", ASSORTMENT: "ldp-mnl", CLICKS: "ldp-clicks", SPARSE: "ldp-lasso"}.get(env, "prec-ts")
    assert (agent.name, promise.notion, promise.epsilon, promise.arithmetic) == (named, "local", 0.5, "exact")


class Refusing:
    """The name of a generator whose numbers nobody may take for noise."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"numpy's generator was asked for {name}")


@pytest.mark.wide_at("auto-local-*-settings9-*", "*-0.5", "*-4.0")
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(
    ("name", "env", "settings"),
    [
        ("auto-joint", LINEAR, {}),
        ("auto-joint", SPARSE, {"dim": 40}),
        ("auto-joint", ASSORTMENT, {}),
        ("auto-local", LINEAR, {}),
        ("auto-local", CLICKS, {}),
        ("auto-joint", ARMS, {}),
        ("auto-local", ARMS, {}),
        ("auto-local", SPARSE, {"dim": 10}),
        ("auto-local", ASSORTMENT, {}),
        ("auto-local", LABELS, {}),
    ],
)
def test_secure_noise_is_exact_and_takes_nothing_of_numpys_generator(
    name: str, env: str, settings: dict[str, Any], epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = gym.make(env, horizon=120, **settings)
    agent: Any = make(name, world, epsilon=epsilon, noise="secure")
    promise = agent.guarantee
    assert (promise.epsilon, promise.arithmetic) == (epsilon, "exact") and "noise='secure'" in repr(agent)
    asked, honest = list[int](), os.urandom

    def watched(length: int) -> bytes:
        asked.append(length)
        return honest(length)

    monkeypatch.setattr(os, "urandom", watched)
    noisy = agent if promise.notion == "local" else vars(agent).get("schedule", agent)
    noisy = getattr(noisy, "counter", noisy)
    for generator in {"rng", "rng_noise"} & set(vars(noisy)) if promise.notion == "joint" else ("rng",):
        setattr(noisy, generator, Refusing())
    world.reset(seed=0)
    inner: Any = world.unwrapped
    for _ in range(4):
        contexts = inner.upcoming(min(agent.frozen_rounds(), 25))
        actions = np.array([world.action_space.sample() for _ in contexts])
        agent.update(contexts, actions, inner.serve(actions).feedback)
    assert asked


def test_who_has_no_secure_noise_is_refused_in_one_sentence_that_names_another() -> None:
    linear, sets, labels = gym.make(LINEAR), gym.make(ASSORTMENT), gym.make(LABELS)
    cases: list[tuple[str, Any, dict[str, Any], str]] = [
        ("fliphat", linear, {}, "^fliphat has no noise='secure'; take jdp-linucb.$"),
        ("lplr", linear, {}, "^lplr has no noise='secure'; take prec-ts.$"),
        ("dpmnl", sets, {}, "^dpmnl has no noise='secure'; take newton-mnl.$"),
        ("psgd-linear", labels, {}, "^psgd-linear has no noise='secure'; take kernel-ldp.$"),
        ("shuffle-linucb", linear, {"epsilon": 0.01}, "^noise='secure' is for guarantees .*; take prec-ts.$"),
        ("input-perturbation", linear, {}, "^noise='secure' is for guarantees .*; take prec-ts.$"),
        (
            "jdp-linucb",
            linear,
            {"epsilon": 1e-6, "delta": 1e-9},
            "^noise='secure' is for guarantees .*; take a larger budget.$",
        ),
        ("kernel-ldp", labels, {"report": "bin-cap"}, "^noise='secure' is for report='hemisphere'"),
    ]
    for name, env, config, words in cases:
        with pytest.raises(ValueError, match=words):
            make(name, env, noise="secure", **config)
    with pytest.raises(TypeError, match="linucb has no setting 'noise'"):
        make("linucb", linear, noise="secure")


WAYS: list[dict[str, Any]] = [
    {"epsilon": 0.1},
    {"epsilon": 0.1, "delta": 1e-7},
    {"rho": 0.1},
    {"rho": 1e-6},
    {"rho": 1e-6, "delta": 1e-7},
    {"rho": 1e-6, "epsilon": 0.1},
    {"people": 7},
    {"visits": "mean", "people": 7},
    {"noise": "secure"},
    {"horizon": 60},
]
"""Ways to ask for a promise."""


def implies(built: Guarantee, asked: dict[str, Any]) -> bool:
    """Return whether a guarantee implies the budget that was asked for."""
    epsilon, delta = asked.get("epsilon"), asked.get("delta", 1)
    within = (built.delta or 0) <= delta and built.epsilon is not None and built.epsilon <= (epsilon or math.inf)
    if "rho" not in asked:
        return epsilon is None or within
    pure = built.rho is None and not built.delta and built.epsilon is not None
    return bool((pure_to_rho(built.epsilon) if pure and built.epsilon else built.rho or math.inf) <= asked["rho"])


NAMES = [name for name in AGENTS if name != "dpmnl-approx"]  # the paper's, which takes a rho for the epsilon it implies


@pytest.mark.wide_at("auto-local")
@pytest.mark.every_agent
@pytest.mark.parametrize("name", [*NAMES, "explore-jdp-linucb"])
def test_the_budget_that_was_asked_for_is_the_one_that_is_built(name: str) -> None:
    families = [env for env in FAMILIES.values() if can_play(name, gym.make(env))]
    for env_id in families if name.startswith("auto") else families[:1]:
        env = gym.make(env_id, horizon=100)
        for asked in WAYS:
            try:
                agent = make(name, env, seed=None if "noise" in asked else 0, **asked)
            except (TypeError, ValueError) as error:
                assert re.match(r"^[^\n]+\.$", str(error)), (name, env_id, asked)
                continue
            assert implies(agent.guarantee, asked), (env_id, asked, agent.guarantee)
            assert ("people" in asked) == (agent.guarantee.unit == "person"), (env_id, asked)
            for key, value in asked.items():
                if key in ("people", "visits", "noise") or (key == "horizon" and hasattr(agent.config, key)):
                    assert getattr(agent.config, key) == value, (env_id, asked)


def test_two_budgets_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^give rho or epsilon, not both; got rho=2 and epsilon=1\.$"):
        make("auto-joint", gym.make(ASSORTMENT, horizon=100), epsilon=1, rho=2)


@pytest.mark.parametrize("name", [name for name, entry in AGENTS.items() if entry.notion != "none"])
def test_a_class_takes_secure_noise_for_exact_guarantees_alone(name: str) -> None:
    entry = AGENTS[name]
    env = next(env for env_id in FAMILIES.values() if can_play(name, env := gym.make(env_id, horizon=100)))
    if name.startswith("auto") or "noise" not in entry.load().Config.__dataclass_fields__ or name == "phist":
        return
    cls, public = entry.load(), (public_data(env),) if entry.load().uses_public_data else ()
    try:
        agent = cls(*spaces_of(env), cls.Config(**{**entry.defaults, "noise": "secure"}), None, *public)
    except ValueError as error:
        assert re.match(r"^[^\n]+\.$", str(error))
    else:
        assert "exact" in agent.guarantee.words or agent.guarantee.notion == "shuffle", agent  # secure coins


def test_a_family_without_an_agent_of_the_notion_is_refused_in_one_sentence() -> None:
    env = gym.make("CartPole-v1", max_episode_steps=5)
    env.observation_space = gym.spaces.Discrete(3)
    for name in ("auto-joint", "auto-local"):
        assert not can_play(name, env)
        with pytest.raises(ValueError, match=rf"^{name} plays [^\n]*$"):
            make(name, env)


def test_labels_outside_the_unit_cube_or_without_public_rows_are_played_as_arms() -> None:
    class Labels(gym.Env[Any, Any]):
        def __init__(self, high: float, public: Any, dim: int = 3) -> None:
            self.observation_space, self.action_space = gym.spaces.Box(0, high, (dim,)), gym.spaces.Discrete(2)
            self.public_data = public

    rows = np.zeros((5, 3)), np.zeros(5, int)
    for env, named in (
        (Labels(1, rows), "kernel-ldp"),
        (Labels(8, rows), "ldp-clicks"),
        (Labels(1, None), "smooth-ldp"),
        (Labels(1, None, 4), "ldp-clicks"),
    ):
        assert can_play("auto-local", env) and make("auto-local", env).name == named


def test_a_setting_that_is_no_budget_is_refused() -> None:
    with pytest.raises(TypeError, match="auto-joint has no setting 'growth'"):
        make("auto-joint", gym.make(LINEAR), growth=2.0)


def test_it_is_the_agent_bit_for_bit_in_runs_and_files(tmp_path: Path) -> None:
    def regret(name: str) -> Any:
        env = gym.make(LINEAR, horizon=200)
        return play(env, make(name, env, seed=3), 200, seed=3).regret

    np.testing.assert_array_equal(regret("auto-joint"), regret("jdp-linucb"))
    env = gym.make(LINEAR, horizon=200)
    save(make("auto-joint", env), tmp_path / "agent.npz")
    assert load(tmp_path / "agent.npz", env).name == "jdp-linucb"


def test_conformance_looks_at_the_agent_behind_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    monkeypatch.setattr("privbandit_agents.testing.CHECKS", [lambda name, *_: looked_at.append(name)])
    check_agent("auto-joint", LINEAR, epsilon=1.0)
    assert looked_at == ["jdp-linucb"]


def test_an_audit_names_the_way_to_the_agent_behind_the_name() -> None:
    with pytest.raises(ValueError, match="stands for other agents: audit these; `privbandit show auto-joint`"):
        games("auto-joint", 1.0)


@pytest.mark.wide
def test_two_labels_that_a_linear_model_tells_as_well_are_played_by_it() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((120, 6))
    tilted = (x[:, 0] - x[:, 1] + 0.05 * rng.standard_normal(120) > 0).astype(int)
    ringed = (np.sum((x[:, :2] - 0.5) ** 2, axis=1) > 0.16).astype(int)
    assert default_local((x, tilted), 2) == "warm-ldp-sgd"
    assert default_local((x, ringed), 2) == default_local((x, tilted), 3) == "kernel-ldp"
    assert default_local((x, rng.integers(2, size=120)), 2) == "kernel-ldp"
