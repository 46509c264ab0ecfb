"""Sentences for what people write themselves: problems, and environments that are none of ours."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from privbandit_agents import make, play

from privbandit_envs import ArmProblem, AsBandit, BanditEnv, Units, register, testing


class Shop(ArmProblem):
    """Three arms whose means have the shape that is asked for."""

    def __init__(
        self, rng: np.random.Generator, *, means: str = "", contexts: str = "", dtype: str = "float64"
    ) -> None:
        self.observation_space, self.action_space = Box(0, 1, (2,), np.float64), Discrete(3)
        self.wrong = means, contexts

    def contexts(self, n: int, rng: np.random.Generator) -> Any:
        return rng.random({"": (n, 2), "one": (2,), "wide": (n, 5)}[self.wrong[1]])

    def means(self, contexts: Any) -> Any:
        n = len(contexts)
        return np.zeros({"": (n, 3), "flat": (n,), "few": (n, 2), "turned": (3, n)}[self.wrong[0]])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"means": "flat"}, r"Shop\.means\(\) must return shape \(\d+, 3\); got \(\d+,\)\."),
        ({"means": "few"}, r"Shop\.means\(\) must return shape \(\d+, 3\); got \(\d+, 2\)\."),
        ({"means": "turned"}, r"Shop\.means\(\) must return shape \(\d+, 3\); got \(3, \d+\)\."),
        ({"contexts": "one"}, r"Shop\.contexts\(\) must return shape \(\d+, 2\); got \(2,\)\."),
        ({"contexts": "wide"}, r"Shop\.contexts\(\) must return shape \(\d+, 2\); got \(\d+, 5\)\."),
    ],
)
def test_a_wrong_shape_names_the_method(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        BanditEnv(Shop, horizon=50, **wrong).reset(seed=0)
    BanditEnv(Shop, horizon=50).reset(seed=0)


class Years(Shop):
    """Contexts from 0 to 80 years."""

    def contexts(self, n: int, rng: np.random.Generator) -> Any:
        return 80 * rng.random((n, 2))


def test_the_check_of_an_environment_tells_of_contexts_in_raw_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "make", lambda _, **kwargs: BanditEnv(Years, **kwargs))
    with pytest.warns(
        UserWarning, match=r"^\d+ % of contexts are longer than thrice .*: units = Units\(contexts=scale\)"
    ):
        testing.check_units("")
    monkeypatch.setattr(Years, "units", Units(contexts=80), raising=False)
    testing.check_units("")


def test_a_class_in_place_of_its_name_is_refused_with_the_name() -> None:
    with pytest.raises(TypeError, match=r"problem must be the name of a class, such as '.*test_sentences:Shop'; got"):
        register("sentences/Shop-v0", Shop)  # type: ignore[arg-type]
    assert "sentences/Shop-v0" not in gym.registry


class Plain(gym.Env[Any, Any]):
    """Two actions, of which the sign of the context tells the better one."""

    observation_space, action_space = Box(-1, 1, (1,), np.float64), Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.context = self.np_random.uniform(-1, 1, 1)
        return self.context, {}

    def step(self, action: Any) -> Any:
        reward = float(self.context[0]) * (1 if action == 1 else -1)
        self.context = self.np_random.uniform(-1, 1, 1)
        return self.context, reward, False, False, {"own": 7}


@pytest.mark.filterwarnings("ignore:.*declare public bounds")
def test_a_plain_environment_is_played_through_the_adapter_that_the_refusal_names() -> None:
    with pytest.raises(ValueError, match=r"is not a bandit: .*AsBandit\(env, best=\.\.\.\) adds it\.$"):
        play(Plain(), make("linucb", Plain(), seed=0), horizon=10, seed=0)
    env = AsBandit(Plain(), best=lambda context: abs(float(context[0])))
    result = play(env, make("linucb", env, seed=0), horizon=300, seed=0)
    uniform = play(env, make("uniform", env, seed=0), horizon=300, seed=0)
    assert 0 <= result.regret[-1] < 0.2 * uniform.regret[-1] and uniform.regret[-1] == pytest.approx(150, rel=0.2)
    assert np.allclose(result.regret + result.reward, uniform.regret + uniform.reward), "the same users came"
    assert play(env, make("jdp-linucb", env, horizon=300, seed=0), horizon=300, seed=0).regret[-1] > 0
    context, _ = env.reset(seed=1)
    assert env.step(1)[4] == {"own": 7, "feedback": context[0], "regret": abs(context[0]) - context[0]}
