"""TensorBoard events: the documented tags, few points, and no doubling."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from matplotlib.figure import Figure
from privbandit_agents import LogRegret, make, play
from privbandit_agents.experiments import Trial, run_trial
from privbandit_agents.playing.board import Board, write_overview

from privbandit_envs.wrappers import RegretCurve

TAGS = {"regret/cumulative", "regret/per_round", "reward/mean", "spent/epsilon", "speed/rounds_per_s"}


def read_events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return events


def test_the_documented_tags_at_the_checkpoints(tmp_path: Path) -> None:
    trial = Trial("privbandit/Linear-v0", "linucb", 3000, 1, {"dim": 4})
    result = run_trial(trial, tmp_path).result
    events = read_events(tmp_path / "tensorboard-trials" / trial.run_name)
    assert set(events.Tags()["scalars"]) == TAGS
    for tag in TAGS:
        assert [event.step for event in events.Scalars(tag)] == result.checkpoints.tolist()
        assert len(events.Scalars(tag)) == 200
    regret = [event.value for event in events.Scalars("regret/cumulative")]
    np.testing.assert_allclose(regret, result.regret, rtol=1e-6)
    per_round = [event.value for event in events.Scalars("regret/per_round")]
    np.testing.assert_allclose(per_round, np.diff(result.regret, prepend=0) / 15, rtol=1e-5, atol=1e-9)
    reward = [event.value for event in events.Scalars("reward/mean")]
    np.testing.assert_allclose(reward, result.reward / result.checkpoints, rtol=1e-5)
    assert {event.value for event in events.Scalars("spent/epsilon")} == {0.0}
    assert all(event.value > 0 for event in events.Scalars("speed/rounds_per_s"))


def test_agents_of_a_library_have_its_tags_beside_ours(tmp_path: Path) -> None:
    trial = Trial("privbandit/Linear-v0", "a2c", 256, 1, {"dim": 4}, checkpoints=4)
    result = run_trial(trial, tmp_path).result
    events = read_events(tmp_path / "tensorboard-trials" / trial.run_name)
    assert set(events.Tags()["scalars"]) == TAGS | {"rollout/ep_rew_mean", "time/fps"}
    recent = [event.value for event in events.Scalars("rollout/ep_rew_mean")]
    np.testing.assert_allclose(recent, np.diff(result.reward, prepend=0) / 64, rtol=1e-5)
    speeds = [[event.value for event in events.Scalars(tag)] for tag in ("time/fps", "speed/rounds_per_s")]
    assert speeds[0] == speeds[1]


def test_hparams_has_the_settings_and_the_final_regret(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG, parse_session_start_info_plugin_data

    trial = Trial("privbandit/Linear-v0", "linucb", 100, 1, {"dim": 4, "design": "ill"}, {"alpha": 0.5})
    result = run_trial(trial, tmp_path).result
    events = read_events(tmp_path / "tensorboard-trials" / trial.run_name)
    final = events.Scalars("regret/cumulative")[-1]
    assert final.step == 100 and final.value == pytest.approx(result.regret[-1])
    content = events.SummaryMetadata(SESSION_START_INFO_TAG).plugin_data.content
    hparams = parse_session_start_info_plugin_data(content).hparams
    assert hparams["agent.alpha"].number_value == 0.5 and hparams["env.dim"].number_value == 4
    assert hparams["env.design"].string_value == "ill" and hparams["agent"].string_value == "linucb"


def test_a_rerun_replaces_the_events(tmp_path: Path) -> None:
    trial = Trial("privbandit/Linear-v0", "uniform", 50, checkpoints=10)
    for _ in range(2):
        run_trial(trial, tmp_path)
        for file in (tmp_path / "trials").iterdir():
            file.unlink()
    folder = tmp_path / "tensorboard-trials" / trial.run_name
    assert len(list(folder.iterdir())) == 1
    assert len(read_events(folder).Scalars("regret/cumulative")) == 10


def test_trials_that_look_alike_have_events_of_their_own(tmp_path: Path) -> None:
    twins = [Trial("privbandit/Linear-v0", "uniform", 50, checkpoints=points) for points in (5, 10)]
    for trial in twins:
        run_trial(trial, tmp_path)
    points = [
        len(read_events(tmp_path / "tensorboard-trials" / trial.run_name).Scalars("reward/mean")) for trial in twins
    ]
    assert points == [5, 10]


def test_the_ledger_says_what_was_spent(tmp_path: Path) -> None:
    spent = iter([0.25, 0.5])
    agent: Any = SimpleNamespace(ledger=SimpleNamespace(spent_epsilon=lambda: next(spent)))
    with Board(tmp_path, agent) as board:
        RegretCurve([1, 2], board.write).extend(np.ones(2), np.ones(2))
    assert [event.value for event in read_events(tmp_path).Scalars("spent/epsilon")] == [0.25, 0.5]


def test_the_overview_has_figures_and_the_columns_of_hparams(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams import plugin_data_pb2

    picture = tmp_path / "regret.png"
    Figure().savefig(picture)
    trials = [Trial("privbandit/Linear-v0", "linucb", 50, 1, {"dim": 4}, {"alpha": 0.5})]
    trials += [Trial("privbandit/Linear-v0", "jdp-linucb", 50, 1, {"theta": [0.5]}, {"counter": "tree"})]
    for _ in range(2):
        write_overview(tmp_path, [trial.spec for trial in trials], [picture])
    assert len(list((tmp_path / "overview").iterdir())) == 1
    events = read_events(tmp_path / "overview")
    assert events.Images("the figures/regret")[0].encoded_image_string == picture.read_bytes()
    content = events.SummaryMetadata("_hparams_/experiment").plugin_data.content
    experiment = plugin_data_pb2.HParamsPluginData.FromString(content).experiment
    types = {info.name: info.type for info in experiment.hparam_infos}
    assert types["env.dim"] == types["agent.alpha"] == 3 and types["agent.counter"] == types["env.theta"] == 1
    assert [metric.name.tag for metric in experiment.metric_infos] == ["regret/cumulative"]


def test_a_clock_that_jumps_changes_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the day goes back by years and forth; durations are not taken from it."""
    trial = Trial("privbandit/Linear-v0", "linucb", 60, 0, {"dim": 3, "n_arms": 2}, checkpoints=10)
    steady = run_trial(trial, tmp_path / "steady").result
    jumps = np.random.default_rng(0).uniform(0, 2e9, 10_000).tolist()
    monkeypatch.setattr("time.time", jumps.pop)
    jumped = run_trial(trial, tmp_path / "jumped").result
    assert np.array_equal(steady.regret, jumped.regret)
    assert 0 < jumped.seconds < 600
    assert read_events(tmp_path / "jumped" / "tensorboard-trials" / trial.run_name).Tags()["scalars"]


def test_a_folder_of_a_colleague_costs_the_events_and_not_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial("privbandit/Linear-v0", "linucb", 100, 1, {"dim": 4}, checkpoints=4)
    expected = run_trial(trial, tmp_path / "own").result
    opened = Path.open

    def refused(path: Path, *how: Any, **more: Any) -> Any:
        if path.name.startswith("events.out"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *how, **more)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.warns(UserWarning, match="no events for TensorBoard can be written: Permission denied"):
        found = run_trial(trial, tmp_path / "shared").result
    np.testing.assert_array_equal(found.regret, expected.regret)


def test_a_loop_of_ones_own_and_play_write_equal_tags(tmp_path: Path) -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=250)
    played = play(env, make("linucb", env, seed=0), seed=0, checkpoints=[100, 200, 250], tensorboard=tmp_path / "play")
    logged = LogRegret(env, tmp_path / "loop", every=100)
    agent = make("linucb", env, seed=0)
    context, _ = logged.reset(seed=0)
    for _ in range(250):
        arm = agent.select_action(context)
        following, _, _, _, info = logged.step(arm)
        agent.update(context, arm, info["feedback"])
        context = following
    logged.close()
    logged.close()  # a second one writes nothing
    read = {}
    for run in ("play", "loop"):
        events = read_events(tmp_path / run)
        read[run] = {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert read["play"].keys() == read["loop"].keys() >= {"regret/cumulative", "reward/mean"}
    for tag in ("regret/cumulative", "regret/per_round", "reward/mean"):
        assert [step for step, _ in read["play"][tag]] == [100, 200, 250]
        assert np.allclose(read["play"][tag], read["loop"][tag], rtol=1e-6)
    assert read["play"]["regret/cumulative"][-1][1] == pytest.approx(played.regret[-1])


@pytest.mark.wide
def test_a_plain_loop_a_loop_like_cleanrl_s_and_a_model_of_sb3_stand_in_one_folder(tmp_path: Path) -> None:
    """CleanRL steps a vector of environments, each wrapped; SB3 wraps one environment itself. Tags are the same."""
    from stable_baselines3 import A2C

    def world(run: str) -> LogRegret:
        return LogRegret(gym.make("privbandit/Linear-fixed-v0", n_arms=3, dim=2, horizon=100), tmp_path / run, every=50)

    plain = world("plain")
    plain.reset(seed=0)
    for _ in range(100):
        plain.step(0)
    plain.close()
    many = gym.vector.SyncVectorEnv(
        [partial(world, f"cleanrl-{k}") for k in range(2)], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )
    many.reset(seed=0)
    for _ in range(100):
        many.step(many.action_space.sample())
    many.close()
    model = A2C("MlpPolicy", world("sb3"), gamma=0.0, seed=0, device="cpu").learn(100)
    model.get_env().close()  # type: ignore[union-attr]
    runs = sorted(path.name for path in tmp_path.iterdir())
    assert runs == ["cleanrl-0", "cleanrl-1", "plain", "sb3"]
    for run in runs:
        events = read_events(tmp_path / run)
        assert set(events.Tags()["scalars"]) == TAGS
        assert [one.step for one in events.Scalars("regret/cumulative")] == [50, 100]


def test_a_second_run_into_a_folder_leaves_the_first_alone(tmp_path: Path) -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=20)
    play(env, make("linucb", env, seed=0), seed=0, checkpoints=[20], tensorboard=tmp_path)
    first = read_events(tmp_path).Scalars("regret/cumulative")
    play(env, make("uniform", env, seed=0), seed=0, checkpoints=[10, 20], tensorboard=tmp_path)
    LogRegret(env, tmp_path).close()
    assert read_events(tmp_path).Scalars("regret/cumulative") == first
    assert [event.step for event in read_events(tmp_path / "2").Scalars("regret/cumulative")] == [10, 20]
    assert len(list((tmp_path / "3").iterdir())) == 1


def test_an_environment_without_regret_is_refused(tmp_path: Path) -> None:
    env = LogRegret(gym.make("CartPole-v1"), tmp_path)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="regret"):
        env.step(0)
    env.close()
