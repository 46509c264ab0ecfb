from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from privbandit_envs import BanditEnv
from privbandit_envs.datasets import load
from privbandit_envs.families.classification import ClassificationProblem, Split, eta, min_max

DATA = ["breast_cancer", "digits", "digits-binary", "wine"]


def make(**kwargs: Any) -> BanditEnv:
    env = gym.make("privbandit/Classification-v0", **kwargs)
    assert isinstance(env, BanditEnv)
    return env


def world(env: BanditEnv) -> ClassificationProblem:
    env.reset(seed=1)
    assert isinstance(env.problem, ClassificationProblem)
    return env.problem


def test_bayes_classifier_is_right_with_probability_0786() -> None:
    x = np.random.default_rng(0).random((1_000_000, 2))
    assert np.maximum(eta(x), 1 - eta(x)).mean() == pytest.approx(0.786, abs=5e-4)


def test_eta_by_hand() -> None:
    points = np.array([[1.0, 0.5], [0.0, 0.5], [0.0, 0.1], [1 / 3, 0.5], [0.3, 1.0]])
    g = np.array([1 * 0.25 * 1, 0.5 * 0.25 * 1, 0.5 * 0.35 * 0.2])
    signs = np.array([1, -1, 1])
    assert eta(points) == pytest.approx([*(0.5 + 0.4 * signs * g**0.1), 0.5, 0.5])
    assert eta(points, 0.5) == pytest.approx([*(0.5 + 0.4 * signs * g**0.05), 0.5, 0.5])


def test_public_and_private_probabilities_have_the_papers_relation() -> None:
    x = np.random.default_rng(0).random((1000, 2))
    private, public = eta(x) - 0.5, eta(x, 0.5) - 0.5
    assert public == pytest.approx(np.sign(private) * 0.4 * (np.abs(private) / 0.4) ** 0.5)


@pytest.mark.parametrize("gamma", [0.5, 5.0])
def test_public_labels_follow_eta_q(gamma: float) -> None:
    env = make(n_public=200_000, gamma=gamma)
    assert env.public_data is not None
    x, y = env.public_data
    signal = np.sign(eta(x) - 0.5)
    agreement = np.mean(signal * (2 * y - 1))
    assert agreement == pytest.approx(np.mean(2 * np.abs(eta(x, gamma) - 0.5)), abs=0.01)
    assert x.dtype == np.float32 and x.shape == (200_000, 2)


def test_exactly_one_label_is_right() -> None:
    env = make(horizon=2000)
    rewards = []
    for label in (0, 1):
        env.reset(seed=3)
        rewards.append(env.serve(np.full(2000, label)).reward)
    assert (rewards[0] + rewards[1] == 1).all()


@pytest.mark.parametrize("source", ["lpct-synthetic", *DATA])
def test_public_data_are_the_same_before_reset_and_in_every_world(source: str) -> None:
    env = make(source=source, n_public=40)
    assert env.public_data is not None
    before = [part.copy() for part in env.public_data]
    for seed in (1, 2):
        env.reset(seed=seed)
        assert isinstance(env.problem, ClassificationProblem)
        for part, same in zip(before, env.problem.public_data, strict=True):
            assert np.array_equal(part, same)
    vector = gym.make_vec("privbandit/Classification-v0", num_envs=2, source=source, n_public=40)
    assert np.array_equal(vector.unwrapped.public_data[0], before[0])  # type: ignore[attr-defined]
    other = make(source=source, n_public=40, public_seed=1).public_data
    assert other is not None and not np.array_equal(other[0], before[0])


@pytest.mark.parametrize("source", ["lpct-synthetic", "wine"])
def test_public_data_of_different_sizes_are_nested(source: str) -> None:
    few, many = make(source=source, n_public=20).public_data, make(source=source, n_public=60).public_data
    assert few is not None and many is not None
    assert np.array_equal(few[1], many[1][:20])
    if source == "lpct-synthetic":  # the scale of real data depends on all public rows
        assert np.array_equal(few[0], many[0][:20])


@pytest.mark.parametrize("source", DATA)
def test_no_user_is_a_public_row(source: str) -> None:
    problem = world(make(source=source, n_public=60))
    split = problem.data
    assert isinstance(split, Split)
    rows = np.concatenate([split.public_rows, split.private_rows])
    assert np.array_equal(np.sort(rows), np.arange(len(load(source).y)))
    assert len(split.public_rows) == 60


def test_users_are_private_rows_and_public_rows_never_appear() -> None:
    env = make(source="breast_cancer", dtype="float64", n_public=100, horizon=20_000)
    problem = world(env)
    assert isinstance(problem.data, Split)
    seen = {row.tobytes() for row in env.upcoming(20_000)}
    public = {row.tobytes() for row in problem.public_data[0]}
    private = {row[:-1].tobytes() for row in problem.data.records}
    assert seen == private and not seen & public


@pytest.mark.parametrize("source", DATA)
def test_the_label_is_hidden_from_the_agent_and_known_to_the_oracle(source: str) -> None:
    env = make(source=source, horizon=500)
    problem = world(env)
    contexts = env.upcoming(500)
    assert contexts.shape == (500, load(source).X.shape[1]) and env.observation_space.contains(contexts[0])
    actions = np.arange(500) % problem.means(problem.users(0, 1, np.random.default_rng(0))).shape[1]
    served = env.serve(actions)
    right = actions == served.optimal_action
    assert np.array_equal(served.reward, right) and np.array_equal(served.regret, ~right)
    assert 0 < right.sum() < 500


def test_labels_belong_to_their_rows() -> None:
    env = make(source="digits", dtype="float64", n_public=300, horizon=200)
    problem, data = world(env), load("digits")
    assert isinstance(problem.data, Split)
    scaled = min_max(data.X, data.X[problem.data.public_rows])
    label_of = {row.tobytes(): label for row, label in zip(scaled, data.y, strict=True)}
    contexts = env.upcoming(200)
    labels = env.serve(np.zeros(200, int)).optimal_action
    assert [label_of[row.tobytes()] for row in contexts] == labels.tolist()


def test_scaling_reads_the_reference_alone() -> None:
    reference = np.array([[0.0, 7.0], [10.0, 7.0]])
    x = np.array([[5.0, 7.0], [-1.0, 6.0], [99.0, 8.0]])
    assert min_max(x, reference).tolist() == [[0.5, 0.5], [0, 0], [1, 1]]


def test_a_csv_file_is_a_world(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((60, 2))
    lines = [f"{a},{'yes' if a > b else 'no'},{b}" for a, b in x]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["a,answer,b", *lines]))
    env = make(source=str(path), label="answer", n_public=10, horizon=100)
    env.reset(seed=0)
    contexts = env.upcoming(100)
    served = env.serve(np.zeros(100, int))
    assert contexts.shape == (100, 2) and 0 < served.reward.sum() < 100


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"source": "brest_cancer"}, "did you mean 'breast_cancer'"),
        ({"source": "wine", "n_public": 178}, "n_public must be below the 178 rows of the data set; got 178"),
        ({"source": "wine", "label": "x"}, "label is for CSV files and OpenML; wine has its own, got 'x'"),
        ({"gamma": 0}, "gamma must be > 0; got 0"),
        ({"n_public": 0}, "n_public must be an integer >= 1; got 0"),
        ({"public_seed": -1}, "public_seed must be an integer >= 0; got -1"),
        ({"dtype": "int8"}, "dtype must be one of float32, float64; got 'int8'"),
    ],
)
def test_bad_arguments_are_named(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**kwargs)


def indices_of(contexts: np.ndarray, problem: ClassificationProblem) -> list[int]:
    rows = {row.tobytes(): number for number, row in enumerate(problem.observe(problem.data.records))}  # type: ignore[union-attr]
    return [rows[np.ascontiguousarray(context).tobytes()] for context in contexts]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_users_are_a_random_order_of_the_private_rows_and_then_resampled(size: int) -> None:
    problem = ClassificationProblem(np.random.default_rng(0), source="wine", n_public=50)
    n = len(problem.data.records)  # type: ignore[union-attr]
    rng = np.random.default_rng(5)
    users = np.concatenate([problem.users(start, size, rng) for start in range(0, 1000, size)])[:1000]
    order = indices_of(problem.observe(users), problem)
    assert n == 128 and sorted(order[:n]) == list(range(n)) and order[:n] != list(range(n))
    assert len(set(order[n : 2 * n])) < n and set(order[n:]) == set(range(n))
    whole = problem.users(0, 1000, np.random.default_rng(5))
    assert np.array_equal(users, whole)
    assert not np.array_equal(whole[:n], problem.users(0, n, np.random.default_rng(6)))


def test_worlds_that_differ_in_their_own_seed_alone_share_a_split() -> None:
    first, second, other = (
        ClassificationProblem(np.random.default_rng(seed), source="wine", n_public=n).data
        for seed, n in [(0, 50), (1, 50), (0, 51)]
    )
    assert first is second and other is not first


def test_columns_of_the_largest_numbers_are_scaled_to_finite_ones() -> None:
    x = np.array([[1e308, 1.0], [-1e308, 2.0], [1.7e308, 4.0], [-1.7e308, 3.0]])
    scaled = min_max(x, x)
    assert np.isfinite(scaled).all() and scaled.min() == 0 and scaled.max() == 1
    assert scaled[0, 0] == pytest.approx(2.7 / 3.4)
