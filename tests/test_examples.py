"""The files of examples/, which README and docs name, are read, checked and run at a tiny size."""

from pathlib import Path

import pytest
from privbandit_agents.experiments import run_trial
from privbandit_agents.experiments.schema.sweep import LeftOut, override, read_sweep
from privbandit_agents.experiments.study import prepare

EXAMPLES = Path(__file__).parents[1] / "examples"
TEXTS = [path.read_text() for path in (EXAMPLES.parent / "README.md", *(EXAMPLES.parent / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_named_where_people_read_and_names_its_command(path: Path) -> None:
    assert any(f"examples/{path.name}" in text for text in TEXTS)
    assert any(f"privbandit {verb} examples/{path.name} --out" in path.read_text() for verb in ("sweep", "reproduce"))


@pytest.mark.parametrize("name", ["linear", "families"])
@pytest.mark.filterwarnings("ignore::privbandit_agents.experiments.schema.sweep.LeftOut")
def test_an_example_of_a_sweep_runs(name: str, tmp_path: Path) -> None:
    sweep = override(read_sweep(EXAMPLES / f"{name}.yaml"), [], horizon=40, seeds=1, checkpoints=2)
    trials = sweep.trials(name)
    assert len(trials) == {"linear": 4, "families": 11}[name]
    for trial in trials:
        assert run_trial(trial, tmp_path).result.regret[-1] >= 0


def test_pairs_that_cannot_be_played_are_left_out_with_one_note() -> None:
    with pytest.warns(
        LeftOut, match=r"^pairs that cannot be played are left out: newton-mnl in Linear-v0, lpct in Lin"
    ) as notes:
        read_sweep(EXAMPLES / "families.yaml").trials()
    assert len(notes) == 1


def test_the_example_of_an_experiment_is_ready_to_run() -> None:
    study = prepare(str(EXAMPLES / "epsilon.yaml"))
    assert len(study.jobs) == (2 + 5 + 5) * 10 and len(study.measures) == 1 and len(study.figures) == 1
