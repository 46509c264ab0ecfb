import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import polars as pl
import pytest
from privbandit_agents import Explore, Log, ips, log, make, play, to_obp
from privbandit_agents.base import state
from privbandit_agents.base.law import Probabilities
from privbandit_agents.logs.record import ARRAYS
from privbandit_agents.testing.loops import check_actions, check_frozen, check_resume
from privbandit_agents.testing.twins import check_keys, check_local

SMALL: dict[str, Any] = {"n_arms": 4, "dim": 2, "horizon": 300}
Check = Callable[[str, str, int, dict[str, Any]], None]


def world() -> Any:
    return gym.make("privbandit/Linear-v0", **SMALL).unwrapped


@pytest.mark.wide_at("linucb", "ldp-greedy", "lints")
@pytest.mark.parametrize("name", ["linucb", "jdp-linucb", "ldp-greedy", "lints", "explore-jdp-linucb"])
def test_a_logged_run_is_the_run_of_play(name: str) -> None:
    env = world()
    agents = [make(name, env, seed=3) for _ in range(2)]
    result = play(env, agents[0], 200, seed=5, by_counts=False)
    logged = log(env, agents[1], 200, seed=5, draws=20)
    probe = env.upcoming(50)
    assert logged.rewards.sum() == result.reward[-1]
    assert np.array_equal(agents[0].select_action(probe), agents[1].select_action(probe))


@pytest.mark.wide_at("lints")
@pytest.mark.parametrize("name", ["linucb", "jdp-linucb", "explore-linucb", "uniform", "epsilon-greedy", "lints"])
def test_probabilities_are_the_frequencies_of_actions(name: str) -> None:
    env = world()
    agent = make(name, env, seed=0)
    play(env, agent, 60, seed=0)
    context = env.upcoming(2)
    law = agent.probabilities(context, draws=4000, rng=np.random.default_rng(1))
    assert isinstance(law, Probabilities) and np.allclose(law.sum(axis=1), 1)
    drawn = np.asarray(agent.select_action(np.repeat(context, 4000, axis=0))).reshape(2, 4000)
    seen = (drawn[..., None] == np.arange(4)).mean(axis=1)
    assert np.abs(seen - np.asarray(law)).max() < 5 * np.sqrt(2 * 0.25 / 4000)
    assert (law.error is None) == (name != "lints")


def test_asking_for_probabilities_leaves_the_agent_as_it_was() -> None:
    env = world()
    one, other = (make("lints", env, seed=0) for _ in range(2))
    env.reset(seed=0)
    context = env.upcoming(30)
    one.probabilities(context, draws=50)
    one.propensities(context, np.zeros(30, int), draws=50)
    assert np.array_equal(one.select_action(context), other.select_action(context))


def test_the_mean_inverse_of_a_drawn_propensity_is_that_of_the_probability() -> None:
    """E[(m + 1) / (c + 1)] = (1 - (1 - p)^(m + 1)) / p for c of m draws."""
    rng, m, p = np.random.default_rng(0), 30, 0.1
    hits = rng.binomial(m, p, 400_000)
    assert ((m + 1) / (hits + 1)).mean() == pytest.approx((1 - (1 - p) ** (m + 1)) / p, rel=0.01)


@pytest.mark.parametrize("name", ["uniform", "ucb-mnl", "explore-ucb-mnl"])
def test_sets_have_propensities_and_no_list_of_probabilities(name: str) -> None:
    env: Any = gym.make("privbandit/Assortment-v0", n_items=5, capacity=2, horizon=100).unwrapped
    logged = log(env, make(name, env, seed=0), 100, seed=0, draws=50)
    values = {"uniform": {0.1}, "ucb-mnl": {1.0}, "explore-ucb-mnl": {0.01, 0.91}}[name]
    assert set(logged.propensities[-5:].round(6).tolist()) <= values, "it explores at first"
    with pytest.raises(TypeError, match="sets"):
        make(name, env, seed=0).probabilities(logged.contexts)


def test_wrapped_environments_are_logged_too() -> None:
    env = gym.make("privbandit/Linear-v0", **SMALL)
    bare, wrapped = world(), gym.Wrapper(env)
    logs = [log(one, make("explore-linucb", one, seed=1), 40, seed=2) for one in (bare, wrapped)]
    assert all(np.array_equal(getattr(logs[0], name), getattr(logs[1], name)) for name in ARRAYS)


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_a_log_comes_back_from_its_file(tmp_path: Path, ending: str) -> None:
    env: Any = gym.make("privbandit/Assortment-v0", n_items=5, capacity=2, horizon=100).unwrapped
    for logged in (log(world(), make("uniform", world(), seed=0), 9, 1), log(env, make("uniform", env, seed=0), 9, 1)):
        path = tmp_path / f"log.{ending}"
        logged.write(path)
        again = Log.read(path)
        assert path.stat().st_mode & 0o077 == 0, "others can read raw data"
        assert again.about == logged.about
        for name in ARRAYS:
            assert np.array_equal(getattr(again, name), getattr(logged, name)), name
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="damaged"):
        Log.read(path)


def test_a_log_for_the_open_bandit_pipeline() -> None:
    feedback = to_obp(log(world(), make("uniform", world(), seed=0), 20, 1))
    assert feedback["context"].shape == (20, 8) and (feedback["pscore"] == 0.25).all() and feedback["n_actions"] == 4


def bad() -> list[tuple[Callable[[], object], type[Exception]]]:
    env = world()
    p = make("uniform", env, seed=0)
    logged = log(env, p, 5, 0)
    rows: dict[str, Any] = {name: getattr(logged, name) for name in ARRAYS}
    return [
        (lambda: log(env, p, 0), ValueError),
        (lambda: log(env, p, 301), ValueError),
        (lambda: log(env, "linucb", 5), TypeError),  # type: ignore[arg-type]
        (lambda: log("world", p, 5), TypeError),  # type: ignore[arg-type]
        (lambda: logged.write("log.txt"), ValueError),
        (lambda: Log(**{**rows, "propensities": np.zeros(5)}), ValueError),
        (lambda: Log(**{**rows, "rewards": np.zeros(2)}), ValueError),
        (lambda: Explore(p, 1.5), ValueError),
        (lambda: Explore("linucb"), TypeError),  # type: ignore[type-var]
        (lambda: Explore(Explore(p, 0.5)), TypeError),
        (lambda: make("explore-ppo", env), TypeError),
        (lambda: make("explore-auto-joint", env), TypeError),
        (lambda: make("explore-linuc", env), ValueError),
        (lambda: make("explore-linucb", env, share=2), ValueError),
        (lambda: make("explore-explore-linucb", env), ValueError),
        (lambda: p.propensities(logged.contexts, [0, 1, 2, 9, 0]), ValueError),
        (lambda: p.propensities(logged.contexts, [0]), ValueError),
    ]


@pytest.mark.parametrize("case", range(17))
def test_bad_usage_is_one_sentence(case: int) -> None:
    call, kind = bad()[case]
    with pytest.raises(kind) as told:
        call()
    assert len(str(told.value)) < 900 and "\n" not in str(told.value)


CHECKS: list[tuple[Check, str]] = [
    *((check, "explore-jdp-linucb") for check in (check_actions, check_frozen, check_resume, check_keys)),
    *((check, "explore-ldp-greedy") for check in (check_frozen, check_resume, check_local, check_keys)),
    *((check, "explore-lints") for check in (check_actions, check_frozen, check_resume)),
]


@pytest.mark.wide_at("check_keys-*-ldp-greedy", "check_local-*")
@pytest.mark.parametrize(("check", "name"), CHECKS, ids=lambda case: getattr(case, "__name__", str(case)))
def test_an_agent_that_explores_conforms(check: Check, name: str) -> None:
    check(name, "privbandit/Linear-v0", 100, {"share": 0.3})


def test_exploring_keeps_kind_guarantee_and_ledger() -> None:
    env = world()
    own = make("jdp-linucb", env, seed=0)
    face = Explore(own, 0.25, seed=0)
    assert isinstance(face, type(own)) and face.guarantee == own.guarantee and face.ledger is own.ledger  # type: ignore[attr-defined]
    play(env, face, 200, seed=0)
    probe = env.upcoming(40)
    law = np.asarray(face.probabilities(probe))
    assert np.allclose(law[np.arange(40), own.select_action(probe)], 0.75 + 0.25 / 4), "one state, two ways to choose"


@pytest.mark.wide_at("parquet")
@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_a_flipped_bit_is_never_read_as_another_log(
    tmp_path: Path, ending: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path, rng = tmp_path / f"log.{ending}", np.random.default_rng(0)
    logged = log(world(), make("uniform", world(), seed=0), 20, 1)
    logged.write(path)
    whole, refused = path.read_bytes(), 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            again = Log.read(path)
        except ValueError:
            refused += 1
        else:
            assert again.about == logged.about
            assert all(np.array_equal(getattr(again, name), getattr(logged, name)) for name in ARRAYS)
    assert refused > 100, "damage of what nobody reads is no damage, but most is read"
    assert capfd.readouterr().err == "", "libraries say nothing by themselves"


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_a_log_of_nobody_comes_back(tmp_path: Path, ending: str) -> None:
    logged = log(world(), make("uniform", world(), seed=0), 20, 1)[:0]
    logged.write(path := tmp_path / f"log.{ending}")
    again = Log.read(path)
    assert len(again) == 0 and again.about == logged.about and again.contexts.shape == (0, 4, 2)


def test_rows_of_two_logs_are_not_one(tmp_path: Path) -> None:
    frames = []
    for seed in (1, 2):
        path = tmp_path / f"log-{seed}.parquet"
        log(world(), make("uniform", world(), seed=0), 20, seed).write(path)
        frames.append(pl.read_parquet(path).with_columns(pl.col("about").cast(pl.String)))
    pl.concat(frames).write_parquet(path)
    with pytest.raises(ValueError, match="2 logs"):
        Log.read(path)


def test_a_file_without_a_checksum_is_read_with_a_warning(tmp_path: Path) -> None:
    logged = log(world(), make("uniform", world(), seed=0), 20, 1)
    logged.write(path := tmp_path / "log.parquet")
    frame = pl.read_parquet(path)
    kept = {key: value for key, value in json.loads(frame["about"][0]).items() if key != "checksum"}
    frame.with_columns(pl.lit(json.dumps(kept)).cast(pl.Categorical).alias("about")).write_parquet(path)
    with pytest.warns(UserWarning, match="no checksum"):
        assert np.array_equal(Log.read(path).rewards, logged.rewards)


ODD: list[tuple[dict[str, Any], str]] = [
    ({"actions": [-1, 0, 0]}, "arms from 0 on, of 4"),
    ({"actions": [0, 4, 0]}, "arms from 0 on, of 4"),
    ({"actions": [0, 10, 0], "about": {"uniform": 0.1}}, "of 10 in all"),
    ({"actions": [0.5, 1, 0]}, "integers"),
    ({"actions": [[0, 2], [1, 0], [0, 0]]}, "0 and 1"),
    ({"rewards": [0, np.nan, 0]}, "rewards must be finite"),
    ({"rewards": ["a", "b", "c"]}, "rewards must be finite"),
    ({"contexts": np.full((3, 4, 2), np.inf)}, "contexts must be finite"),
    ({"propensities": [1, 1e-320, 1]}, "propensities must lie"),
    ({"propensities": [1, np.nan, 1]}, "propensities must lie"),
    ({"propensities": [1, 0.1, 1], "about": {"least_propensity": 0.2}}, "least_propensity 0.2"),
    ({"about": {"least_propensity": 5.0}}, "least_propensity must lie"),
    ({"about": {"least_propensity": "half"}}, "least_propensity in `about` must be of the kind int; got .half."),
    ({"about": {"in_order": 1}}, "in_order in `about` must be of the kind bool"),
    ({"about": {"reward_range": [0, None]}}, "reward_range in `about` must be two numbers"),
    ({"about": {"features": ["a"] * 9}}, "features in `about` must have a name for each; got 9"),
]


@pytest.mark.parametrize(("odd", "why"), ODD)
def test_arrays_that_are_no_log_are_refused(odd: dict[str, Any], why: str) -> None:
    rows: dict[str, Any] = {
        "contexts": np.ones((3, 4, 2)), "actions": np.array([0, 3, 1]), "rewards": np.zeros(3),
        "propensities": np.full(3, 0.25), "feedback": np.zeros(3), "errors": np.zeros(3),
    }  # fmt: skip
    assert len(Log(**rows, about={"least_propensity": 0.25})) == 3
    given = {key: value if key == "about" else np.asarray(value) for key, value in odd.items()}
    with pytest.raises(ValueError, match=why) as told:
        Log(**{**rows, **given})
    assert "\n" not in str(told.value)


def test_a_file_with_another_array_is_no_log(tmp_path: Path) -> None:
    state.write(tmp_path / "log.npz", {name: np.zeros(0) for name in (*ARRAYS, "more")}, {})
    with pytest.raises(ValueError, match=r"is no log.*more"):
        Log.read(tmp_path / "log.npz")


def test_an_estimate_beyond_all_numbers_is_refused() -> None:
    rows: dict[str, Any] = {"contexts": np.ones((3, 4, 2)), "actions": np.zeros(3, int), "rewards": np.full(3, 1e300)}
    one = Log(**rows, propensities=np.full(3, 1e-300), feedback=np.zeros(3), errors=np.zeros(3))
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="beyond all numbers"):
        ips(one, np.tile([1.0, 0, 0, 0], (3, 1)))


def test_more_users_than_the_memory_holds_are_refused_at_once() -> None:
    env = gym.make("privbandit/Linear-v0", n_arms=4, dim=2, horizon=2 * 10**9)
    with pytest.raises(ValueError, match="are the most of one log"):
        log(env, make("uniform", env, seed=0), 2 * 10**9)


def test_progress_is_told_up_to_the_end() -> None:
    seen: list[int] = []
    log(world(), make("jdp-linucb", world(), seed=0), 250, 0, on_users=seen.append)
    assert seen[-1] == 250 and len(seen) > 1 and seen == sorted(seen)
