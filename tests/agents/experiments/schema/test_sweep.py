"""Sweeps: what a YAML file says, and how its mistakes are named."""

from pathlib import Path

import pytest
from privbandit_agents.experiments.schema.sweep import named_sweep, override, pairs_sweep, read_sweep
from privbandit_agents.experiments.schema.yaml_text import from_yaml
from privbandit_agents.experiments.shelf import bundled
from privbandit_agents.experiments.usage import UsageError
from privbandit_agents.zoo.entries import AGENTS

GOOD = """
envs:
  - id: privbandit/Linear-v0
    dim: 5
agents:
  - name: uniform
  - {name: linucb, alpha: 0.5}
seeds: [2, 4]
horizon: 100
"""
PARTS = """
parts:
  - envs: [{id: privbandit/Linear-v0}]
    agents: [{name: uniform}, {name: linucb}]
  - envs: [{id: privbandit/Assortment-v0}]
    agents: [{name: uniform}]
    seeds: 2
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text)
    return path


def message(folder: Path, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        read_sweep(write(folder, text)).trials("plan.yaml")
    return str(caught.value)


def test_a_block_is_environments_times_agents_times_seeds(tmp_path: Path) -> None:
    trials = read_sweep(write(tmp_path, GOOD)).trials()
    pairs = [(trial.agent, trial.seed) for trial in trials]
    assert pairs == [("uniform", 2), ("uniform", 4), ("linucb", 2), ("linucb", 4)]
    assert {trial.horizon for trial in trials} == {100} and {trial.checkpoints for trial in trials} == {200}
    assert trials[0].env_kwargs == {"dim": 5} and trials[2].config == {"alpha": 0.5} and trials[0].config == {}


def test_parts_are_run_together_at_the_environments_own_horizon(tmp_path: Path) -> None:
    trials = read_sweep(write(tmp_path, PARTS)).trials()
    assert [trial.env for trial in trials] == ["privbandit/Linear-v0"] * 2 + ["privbandit/Assortment-v0"] * 2
    assert {trial.horizon for trial in trials} == {10_000}


def test_a_grid_is_all_combinations(tmp_path: Path) -> None:
    text = GOOD.replace("dim: 5", "grid: {dim: [3, 5], n_arms: [2, 10]}").replace("alpha: 0.5", "grid: {alpha: [1, 2]}")
    trials = read_sweep(write(tmp_path, text)).trials()
    worlds = [{"dim": 3, "n_arms": 2}, {"dim": 3}, {"dim": 5, "n_arms": 2}, {"dim": 5}]
    pairs = [(trial.env_kwargs, trial.agent, trial.config) for trial in trials if trial.seed == 2]
    agents = [("uniform", {}), ("linucb", {}), ("linucb", {"alpha": 2})]
    assert pairs == [(world, *agent) for world in worlds for agent in agents] and len(trials) == 24
    pinned = override(read_sweep(tmp_path / "plan.yaml"), ["env.dim=4", "linucb.alpha=3"]).trials()
    assert {trial.env_kwargs["dim"] for trial in pinned} == {4} and len(pinned) == 2 * 2 * 2
    assert {trial.config.get("alpha") for trial in pinned if trial.agent == "linucb"} == {3}


def test_a_horizon_in_the_grid_is_the_trials_and_settings_can_name_it(tmp_path: Path) -> None:
    text = GOOD.replace("dim: 5", "grid: {horizon: [50, 100], dim: [3, 5]}").replace("horizon: 100\n", "")
    text = text.replace("{name: linucb, alpha: 0.5}", "{name: lplr, first: $horizon}")
    text = text.replace("dim:", "support: [20], n_arms: [2], dim:")
    trials = read_sweep(write(tmp_path, text)).trials()
    assert len(trials) == 2 * 2 * 2 * 2 and not any("horizon" in trial.env_kwargs for trial in trials)
    lplr = [trial for trial in trials if trial.agent == "lplr"]
    assert {(trial.horizon, trial.config["first"]) for trial in lplr} == {(50, 50), (100, 100)}
    alone = text.replace("[50, 100]", "[50]").replace("grid: {horizon: [50], ", "grid: {").replace("$horizon", "50")
    same = read_sweep(write(tmp_path, alone + "horizon: 50\n")).trials()
    assert {trial.name for trial in same} == {trial.name for trial in trials if trial.horizon == 50}
    sweep = read_sweep(write(tmp_path, text))
    assert {trial.horizon for trial in override(sweep, [], horizon=30).trials()} == {30}
    assert {trial.horizon for trial in override(sweep, shrink=10).trials()} == {5, 10}
    assert "horizon must be an integer >= 1; got 'soon'." in message(tmp_path, text.replace("50, 100", "soon"))
    assert "horizon must be given once; got 70 and a grid" in message(tmp_path, text + "horizon: 70\n")
    said = message(tmp_path, text.replace("$horizon", "$horzon"))
    assert said.startswith("plan.yaml: agents[1]: there is no value for $horzon (did you mean 'horizon'?)")


def test_a_file_includes_others(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "base.yaml").write_text(PARTS)
    text = "parts:\n  - include: inner/base.yaml\n    seeds: [7]\n  - include: plan.yaml\n"
    (tmp_path / "outer.yaml").write_text(text)
    write(tmp_path, GOOD)
    trials = read_sweep(tmp_path / "outer.yaml").trials()
    assert [trial.seed for trial in trials] == [7] * 3 + [2, 4] * 2 and trials[-1].env_kwargs == {"dim": 5}


def test_a_bad_include_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("parts: [{include: b.yaml}]")
    (tmp_path / "b.yaml").write_text("include: a.yaml")
    with pytest.raises(UsageError, match=r"^a\.yaml includes itself: a\.yaml -> b\.yaml -> a\.yaml\.$"):
        read_sweep(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").write_text("include: none.yaml")
    with pytest.raises(UsageError, match=r"^no file .*none\.yaml.; give the path of a YAML file\.$"):
        read_sweep(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").write_text("include: [c.yaml]")
    with pytest.raises(UsageError, match=r"^b\.yaml: include: the name of a YAML file is needed; got \['c\.yaml'\]\.$"):
        read_sweep(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").write_text(GOOD.replace("seeds:", "sedes:"))
    with pytest.raises(UsageError, match=r"^a\.yaml: parts\[0\]\.sedes is not a known key \(did you mean 'seeds'\?\)"):
        read_sweep(tmp_path / "a.yaml")


def test_saying_a_default_changes_nothing(tmp_path: Path) -> None:
    plain = read_sweep(write(tmp_path, GOOD)).trials()
    said = GOOD.replace("dim: 5", "dim: 5\n    n_arms: 10").replace("alpha: 0.5", "alpha: 0.5, ridge: 1")
    assert [trial.name for trial in read_sweep(write(tmp_path, said)).trials()] == [trial.name for trial in plain]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("seeds:", "seed:", "plan.yaml: seed is not a known key (did you mean 'seeds'?); the keys are envs, agents,"),
        ("envs:", "env:", "plan.yaml: envs is missing (did you mean it by 'env'?)."),
        ("- name: uniform", "- nam: uniform", "plan.yaml: agents[0].name is missing (did you mean it by 'nam'?)."),
        ("horizon: 100", "horizon: -1", "plan.yaml: horizon: input should be greater than or equal to 1; got -1."),
        ("horizon: 100", "horizon: soon", "plan.yaml: horizon: input should be a valid integer; got 'soon'."),
        ("[2, 4]", "[2, x]", "plan.yaml: seeds[1]: input should be a valid integer; got 'x'."),
        ("[2, 4]", "[2, 4, 2]", "plan.yaml: seeds: each seed must be given once; got [2, 4, 2]."),
        ("[2, 4]", "1.5", "plan.yaml: seeds: input should be a valid list; got 1.5."),
        (
            "dim: 5",
            "instance_seed: 1.5",
            "plan.yaml: envs[0]: instance_seed must be an integer >= 0; got 1.5.",
        ),
        ("[2, 4]", "0", "plan.yaml: seeds: must be an integer >= 1 or a list of seeds; got 0."),
        ("dim: 5", "dmi: 5", "plan.yaml: envs[0]: LinearProblem has no argument 'dmi' (did you mean 'dim'?)"),
        ("dim: 5", "dim: -5", "plan.yaml: envs[0]: dim must be an integer >= 1; got -5."),
        ("alpha: 0.5", "alhpa: 1", "plan.yaml: agents[1]: linucb has no setting 'alhpa' (did you mean "),
        ("alpha: 0.5", "alpha: -1", "plan.yaml: agents[1]: alpha must be >= 0; got -1."),
        (
            "name: uniform",
            "name: unifrom",
            "plan.yaml: agents[0]: no agent is called 'unifrom'; did you mean uniform? ",
        ),
        ("Linear-v0", "Linaer-v0", "plan.yaml: envs[0]: no environment 'privbandit/Linaer-v0' (did you mean "),
        ("name: uniform", "name: ucb-mnl", "plan.yaml: agents[0]: cannot play privbandit/Linear-v0; "),
        ("alpha: 0.5", "seed: 5", "plan.yaml: agents[1]: an agent's seed is derived from the trial's"),
        ("dim: 5", "dim: 5\n    horizon: 50", "plan.yaml: envs[0]: horizon must be at most the "),
        ("dim: 5", "dim: 5\n    dim: 6", "plan.yaml cannot be read: key 'dim' is given twice in line 5."),
        ("envs:", "envs: [", "plan.yaml cannot be read: "),
        (
            "alpha: 0.5",
            "alpha: 1, grid: {alpha: [1]}",
            "plan.yaml: agents[1]: alpha must be given once; got it in ",
        ),
        ("alpha: 0.5", "grid: {alpha: 1}", "plan.yaml: agents[1].grid.alpha: input should be a valid list; got 1."),
        ("alpha: 0.5", "grid: {alpha: []}", "plan.yaml: agents[1].grid.alpha: list should have at least 1 item "),
        ("alpha: 0.5", "grid: {alhpa: [1, 2]}", "plan.yaml: agents[1]: linucb has no setting 'alhpa' (did "),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in GOOD
    text = message(tmp_path, GOOD.replace(old, new, 1))
    assert text.startswith(expected) and "\n" not in text


def test_a_mistake_in_a_part_is_named_with_the_part(tmp_path: Path) -> None:
    text = message(tmp_path, PARTS.replace("seeds: 2", "sedes: 2"))
    assert text.startswith("plan.yaml: parts[1].sedes is not a known key (did you mean 'seeds'?)")


def test_a_file_that_is_not_there_or_not_a_plan(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^no file '.*none\.yaml'; give the path of a YAML file\.$"):
        read_sweep(tmp_path / "none.yaml")
    assert message(tmp_path, "- a\n- b\n").startswith("plan.yaml: the file: must be keys with their values")
    for empty in ("", "# nothing\n", "null\n"):
        assert message(tmp_path, empty) == "plan.yaml is empty; a sweep has envs and agents."


def test_set_goes_to_those_that_have_the_setting() -> None:
    sweep = pairs_sweep(["privbandit/Linear-v0", "privbandit/SparseLinear-v0"], ["uniform", "linucb", "greedy"])
    changed = override(sweep, ["env.theta_norm=0.5", "env.dim=30", "agent.ridge=2", "linucb.alpha=1e-1"], horizon=50)
    by = {(trial.env, trial.agent): trial for trial in changed.trials()}
    assert by["privbandit/Linear-v0", "uniform"].env_kwargs == {"dim": 30, "theta_norm": 0.5}
    assert by["privbandit/SparseLinear-v0", "uniform"].env_kwargs == {"dim": 30}
    assert by["privbandit/Linear-v0", "linucb"].config == {"alpha": 0.1, "ridge": 2}
    assert by["privbandit/Linear-v0", "greedy"].config == {"ridge": 2}
    assert by["privbandit/Linear-v0", "uniform"].config == {} and {trial.horizon for trial in by.values()} == {50}
    assert not sweep.parts[0].envs[0].model_extra


def test_an_agent_of_a_module_is_set_by_its_short_name_too() -> None:
    plan = pairs_sweep(["privbandit/Linear-v0"], ["mine:rr", "linucb", "theirs:linucb"])
    for name in ("rr", "mine:rr"):
        (part,) = override(plan, [f"{name}.epsilon=2"]).parts
        assert [entry.model_extra for entry in part.agents] == [{"epsilon": 2}, {}, {}]
    (part,) = override(plan, ["linucb.alpha=3"]).parts  # who is called exactly so
    assert [entry.model_extra for entry in part.agents] == [{}, {"alpha": 3}, {}]
    with pytest.raises(UsageError, match=r"agent must be one of mine:rr, his:rr; got 'rr'"):
        override(pairs_sweep(["privbandit/Linear-v0"], ["mine:rr", "his:rr"]), ["rr.epsilon=2"])


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("env.dmi=3", "--set env.dmi: no env here has a setting 'dmi' (did you mean 'dim'?)."),
        ("agent.alhpa=3", "--set agent.alhpa: no agent here has a setting 'alhpa' (did you mean 'alpha'?)."),
        ("linubc.alpha=3", "--set linubc.alpha: agent must be one of uniform, linucb, jdp-linucb; got 'linubc'"),
        ("linucb.name=greedy", "--set linucb.name: 'name' names the agent and is no setting; choose with "),
        (
            "agent.name=greedy",
            "--set agent.name: 'name' names the agent and is no setting; choose with --agent.",
        ),
        ("env.id=CartPole-v1", "--set env.id: 'id' names the env and is no setting; choose with --env."),
        ("delta=0.1", "--set delta: environments and agents have a setting 'delta'; write env.delta or agent.delta."),
        ("alhpa=3", "--set alhpa: nothing here has a setting 'alhpa' (did you mean 'alpha'?)."),
        ("linucb.alpha=1,2", "--set linucb.alpha: alpha must be one value; got '1,2'; a grid of values needs a file"),
        ("env.dim", "--set takes env.key=value, agent.key=value, <agent>.key=value or key=value; got 'env.dim'."),
        ("env.dim=[", "--set env.dim: "),
    ],
)
def test_a_bad_assignment_is_named(assignment: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        override(pairs_sweep(["privbandit/Linear-v0"], ["uniform", "linucb", "jdp-linucb"]), [assignment])
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("-2E5", -200_000),
        ("2.5E3", 2500),
        ("1.0", 1.0),
        ("3", 3),
        ("ill", "ill"),
        (".inf", float("inf")),
        ("[1, 2]", [1, 2]),
    ],
)
def test_numbers_as_people_write_them(text: str, value: object) -> None:
    parsed = from_yaml(text)
    assert parsed == value and type(parsed) is type(value)


def test_the_demo_has_ten_agents_and_all_four_families() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("stable_baselines3")
    assert "demo" in bundled()
    trials = named_sweep("demo").trials("demo.yaml")
    assert len({trial.agent for trial in trials}) >= 10 and {trial.agent for trial in trials} <= set(AGENTS)
    assert {trial.env for trial in trials} == {
        f"privbandit/{family}-v0" for family in ("Linear", "SparseLinear", "Assortment", "Classification")
    }
    assert any("source" in trial.env_kwargs for trial in trials)


def test_names_alone_and_short_ids_are_agents_and_environments(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("envs: [Linear-v0]\nagents: [uniform, linucb]\nhorizon: 1e4\nseeds: 1e1\n")
    trials = read_sweep(tmp_path / "plan.yaml").trials("plan.yaml")
    assert {trial.env for trial in trials} == {"privbandit/Linear-v0"} and {trial.horizon for trial in trials} == {
        10_000
    }
    assert [trial.agent for trial in trials] == ["uniform"] * 10 + ["linucb"] * 10


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "{name: ldp-greedy, epsilon: [1, 2]}",
            "agents[0]: epsilon must be one value; got [1, 2]; values to try stand",
        ),
        ("{name: linucb, alpha: []}", "agents[0]: alpha must be one value; got []; values to try stand under the grid"),
        ("[linucb]", "agents[0]: must be keys with their values"),
        ("3", "agents[0]: must be keys with their values"),
        ("linucp", "did you mean linucb"),
    ],
)
def test_a_list_of_values_outside_the_grid_is_told_where_it_belongs(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(f"envs: [Linear-v0]\nagents: [{line}]\nhorizon: 100\n")
    with pytest.raises(UsageError) as error:
        read_sweep(tmp_path / "plan.yaml").trials("plan.yaml")
    assert said in str(error.value) and "\n" not in str(error.value)


def test_an_agent_that_plays_nowhere_and_a_world_that_nobody_plays_are_mistakes(tmp_path: Path) -> None:
    for envs, agents in (("Linear-v0, Assortment-v0", "uniform, lpct"), ("Linear-v0, Assortment-v0", "linucb, lints")):
        (tmp_path / "plan.yaml").write_text(f"envs: [{envs}]\nagents: [{agents}]\nhorizon: 100\n")
        with pytest.raises(UsageError, match="cannot play"):
            read_sweep(tmp_path / "plan.yaml").trials("plan.yaml")
