"""The search of hyperparameters: what a trial may choose is a setting, and its value a share of uniform regret."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("tune_rl")


class First:
    """A trial that takes the first option, and the least number."""

    def suggest_categorical(self, name: str, options: list[Any]) -> Any:
        return options[0]

    def suggest_float(self, name: str, low: float, high: float, log: bool) -> float:
        return low


@pytest.mark.parametrize(("agent", "kind"), [("dqn", "mlp"), ("ppo", "items"), ("a2c", "arms")])
def test_a_trial_plays_the_worlds_of_the_tuning_seeds(tuning: Any, agent: str, kind: str) -> None:
    settings = tuning.suggested(First(), agent)
    assert settings["learning_rate"] == 1e-3 and settings["schedule"] == "constant" and len(settings) >= 5
    assert 0.2 < tuning.share(agent, kind, settings, 64, 2) < 5
    assert tuning.share("uniform", kind, {}, 64, 2) == 1


def test_every_choice_has_today_s_value_among_its_options(tuning: Any) -> None:
    for agent, choices in tuning.CHOICES.items():
        for kind in ("mlp", "arms", "wide", *(["items"] if agent != "dqn" else [])):
            today = tuning.hyperparameters(agent.upper(), kind, {"policy": None})
            assert all(today[name] in options for name, options in choices.items()), (agent, kind)


@pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="optuna is not installed")
def test_trials_are_written_best_first(tuning: Any, tmp_path: Path) -> None:
    path = tuning.search("a2c", "arms", 3, 64, 1, tmp_path)
    written = yaml.safe_load(path.read_text())
    shares = [trial["share"] for trial in written["trials"]]
    assert len(shares) == 3 and shares == sorted(shares) and written["first_seed"] == 980_000
