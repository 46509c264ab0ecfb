import math
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import load, make, play, save
from privbandit_agents.joint.sparse.fliphat import Config, calibrate, n_iht
from privbandit_agents.joint.sparse.squared_loss import SquaredLoss
from privbandit_agents.privacy.mechanisms.selection import (
    GumbelTopK,
    LaplacePeeling,
    project_on_l1_ball,
    step_sensitivity,
)
from privbandit_agents.testing.runs import same_state
from scipy.signal import lfilter

SPARSE = "privbandit/SparseLinear-v0"
WILD = [1e38, -1e38, 1e308, math.inf, -math.inf, math.nan, 1.0, -1.0]
PUBLISHED: dict[str, Any] = {"epsilon": 1.0, "calibration": "published"}


def sparse(**kwargs: Any) -> Any:
    return gym.make(SPARSE, **{"dim": 30, "sparsity": 2, "horizon": 2000, **kwargs}).unwrapped


def records(n: int, dim: int = 30, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, dim)), rng.standard_normal(n)


def loss_of(x: Any, y: Any, gram: bool, x_max: float = 2.0, R: float = 3.0) -> SquaredLoss:
    loss = SquaredLoss(x.shape[1], np.float64, x_max, R, users=len(x), gram=gram)
    loss.add(x, y)
    return loss


def test_episodes_double_whatever_the_data() -> None:
    for sign in (1.0, -1.0):
        agent, lengths = make("fliphat", sparse(), seed=0), list[int]()
        while len(lengths) < 8:
            lengths.append(agent.frozen_rounds())
            agent.update(np.full((lengths[-1], 3, 30), sign), np.zeros(lengths[-1], int), np.full(lengths[-1], sign))
        assert lengths == [2**k for k in range(8)]


@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("n", [5, 3000])
def test_the_gradient_is_that_of_the_clipped_users(gram: bool, n: int) -> None:
    x, y = records(n)
    y[0] = 1e9
    theta = np.zeros(30)
    theta[[3, 7]] = 0.5, -0.2
    clipped, bounded = np.clip(x, -2, 2), np.clip(y, -3, 3)
    expected = -2 / n * clipped.T @ (bounded - clipped @ theta)
    assert np.allclose(loss_of(x, y, gram).gradient()(theta), expected, atol=1e-12)


def test_the_gradient_is_the_slope_of_the_mean_squared_loss() -> None:
    x, y = records(40)
    x, y = np.clip(x, -2, 2), np.clip(y, -3, 3)
    theta, step = np.random.default_rng(1).standard_normal(30), 1e-6

    def loss(at: Any) -> float:
        return float(((y - x @ at) ** 2).mean())

    slope = [(loss(theta + step * e) - loss(theta - step * e)) / (2 * step) for e in np.eye(30)]
    assert np.allclose(loss_of(x, y, False).gradient()(theta), slope, atol=1e-6)


@pytest.mark.parametrize("gram", [False, True])
def test_one_user_moves_a_step_by_the_declared_bound_and_no_further(gram: bool) -> None:
    n, eta, x_max, R, C = 50, 0.3, 2.0, 3.0, 1.5
    x, y = records(n)
    theta = C * np.eye(30)[0]
    declared = step_sensitivity(eta, x_max, R, C, n)

    def step(features: Any, reward: float) -> Any:
        x[7], y[7] = features, reward
        return theta - eta * loss_of(x, y, gram, x_max, R).gradient()(theta)

    straight = np.where(np.arange(30) == 0, -x_max, x_max)
    attained = np.abs(step(straight, R) - step(np.full(30, -x_max), R)).max()
    assert attained == pytest.approx(declared, rel=1e-9)
    rng = np.random.default_rng(2)
    wild = [1e38, -1e38, 1e308, -1e308, math.inf, -math.inf, math.nan, 1.0, 1.0, 1.0]
    steps = [step(rng.choice(wild, 30), float(rng.choice(wild))) for _ in range(100)]
    steps += [step(rng.choice([1e38, -1e38, 0.5], 30), float(rng.choice(wild))) for _ in range(100)]
    assert all(np.isfinite(s).all() and np.abs(s - steps[0]).max() <= declared * (1 + 1e-9) for s in steps)


def test_the_agent_clips_to_what_its_noise_covers_and_spends_what_it_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """One user of an episode is replaced: what each of the M iterations peels moves within the calibrated bound."""
    seen: list[list[Any]] = [[], []]
    release = GumbelTopK.release
    for world in (0, 1):
        agent: Any = make("fliphat", sparse(), seed=0, epsilon=1.0, delta=0.01, M=3, x_max=2.0, C=1.5, R=3.0, s=5)

        def watched(self: Any, value: Any, rng: Any, world: int = world) -> Any:
            seen[world].append((self, np.array(value)))
            chosen, noisy = release(self, 0 * value, np.random.default_rng(len(seen[world])))  # the same in both
            return chosen, noisy

        monkeypatch.setattr(GumbelTopK, "release", watched)
        x, y = records(63, seed=1)
        x[40], y[40] = (np.full(30, 1e30), 1e30) if world else (np.full(30, -1e30), 1e30)
        for t in range(63):
            agent.update(np.tile(x[t], (3, 1)), 0, y[t])
    assert len(seen[0]) == len(seen[1]) == 6 * 3 and np.abs(agent.release).sum() <= 1.5 * (1 + 1e-12)
    declared = step_sensitivity(0.4, 2.0, 3.0, 1.5, 32)
    moved = [np.abs(one - other).max() for (_, one), (_, other) in zip(seen[0][-3:], seen[1][-3:], strict=True)]
    assert 0.2 * declared < max(moved) <= declared * (1 + 1e-9)
    peel = seen[0][-1][0]
    one = declared**2 / 2 * (peel.k / peel.beta**2 + peel.k / peel.sigma**2)
    assert 3 * one == pytest.approx(agent.rho) and agent.ledger.spent().at(0.01) == pytest.approx(1.0)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e12, 1e17])
def test_the_projection_ends_in_the_ball(size: float) -> None:
    vector = size * np.random.default_rng(0).standard_normal(10)
    assert np.abs(project_on_l1_ball(vector, 2.0)).sum() <= 2.0 * (1 + 1e-12)


def test_the_number_of_users_enters_the_noise_once() -> None:
    config = Config(M=3, R=9.0)
    scales = [calibrate(config, n, 10, 0.1)[0] for n in (100, 1000)]
    for one, ten in zip(*([m.beta, m.sigma] for m in scales if isinstance(m, GumbelTopK)), strict=True):
        assert one / ten == pytest.approx(10)


def test_the_authors_preset_takes_one_iteration_and_the_largest_gaussian_for_x_max() -> None:
    agent: Any = make("fliphat", sparse(dim=400), seed=0, preset="authors")
    config = agent.config
    assert config.x_max == pytest.approx(math.sqrt(2 * math.log(400))) and (config.sigma, config.eta) == (1.0, 1e-4)
    assert {config.iterations(2**k) for k in range(14)} == {1}
    assert config.bounds(100)[1] == pytest.approx(config.x_max * config.C + math.sqrt(2 * math.log(100)))
    given: Any = make("fliphat", sparse(), seed=0, preset="authors", x_max=1.0, M0=3.0).config
    assert (given.x_max, given.M0, given.sigma) == (1.0, 3.0, 1.0)
    text = Config()
    assert (text.x_max, text.M0, text.sigma, text.eta) == (4.0, 1.6, 0.1, 0.4)


@pytest.mark.wide
@pytest.mark.parametrize(("epsilon", "theirs"), [(1.0, 5660), (10.0, 825)])
@pytest.mark.filterwarnings("ignore:fliphat")
def test_figure_1_can_be_had_by_the_authors_settings_and_their_beta(epsilon: float, theirs: float) -> None:
    """Ten seeds scatter by less than 15 % of the mean; the text's M0 has 27 000 and 4 200."""
    beta = [0.7484, 0.637, 0.6345, 0.6964, 0.7199]
    config = {"preset": "authors", "C": sum(beta), "epsilon": epsilon, "delta": 0.01, "calibration": "published"}

    def regret(seed: int) -> float:
        env = gym.make(SPARSE, beta=beta).unwrapped
        return float(play(env, make("fliphat", env, seed=seed, **config), seed=seed).regret[-1])

    assert np.mean([regret(seed) for seed in range(10)]) == pytest.approx(theirs, rel=0.2)


def test_the_sensitivity_is_four_x_max_times_the_published_one() -> None:
    mechanism, cost = calibrate(Config(delta=0.01, calibration="published", M=1), 64, 10, 0.1)
    right, _ = calibrate(Config(delta=0.01, composition="basic", M=1), 64, 10, 0.1)
    assert isinstance(mechanism, LaplacePeeling) and isinstance(right, LaplacePeeling)
    assert right.scale / mechanism.scale == pytest.approx(4 * 4.0)
    assert cost.rho == pytest.approx(2.5 * 10 * (right.sup_sensitivity / mechanism.scale) ** 2)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 5.0, 50.0, 1000.0])
@pytest.mark.parametrize("M", [1, 14])
def test_basic_composition_uses_the_published_scale_where_it_is_proved(epsilon: float, M: int) -> None:
    peel, _ = calibrate(Config(epsilon=epsilon, delta=0.01, composition="basic", M=M), 512, 10, 0.1)
    assert isinstance(peel, LaplacePeeling)
    x = peel.sup_sensitivity / peel.scale
    basic = 3 * peel.k * x <= epsilon / M * (1 + 1e-9)
    assert basic or peel.cost.at(0.01 / M) <= epsilon / M * (1 + 1e-6)
    paper = LaplacePeeling.published_scale(epsilon / M, 0.01 / M, peel.k, peel.sup_sensitivity)
    assert peel.scale == pytest.approx(paper) if epsilon / M <= 5 else peel.scale > paper


def test_what_is_spent_is_what_was_declared() -> None:
    for config in ({}, {"composition": "basic"}, {"rho": 0.1}):
        env = sparse()
        agent = make("fliphat", env, seed=0, delta=0.01, **config)
        play(env, agent, seed=0)
        spent = agent.ledger.spent()  # type: ignore[attr-defined]
        if "rho" in config:
            assert spent.as_rho() == pytest.approx(0.1) and agent.guarantee.epsilon is None
        else:
            assert spent.at(0.01) == pytest.approx(1.0) and agent.guarantee.epsilon == 1.0


def test_the_published_calibration_says_what_it_is() -> None:
    env = sparse()
    with pytest.warns(UserWarning, match="published"):
        agent = make("fliphat", env, seed=0, delta=0.01, calibration="published", M=1)
    play(env, agent, 100, seed=0)
    assert not agent.guarantee.proven
    assert agent.ledger.spent_epsilon(0.01) > 5 * 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(("config", "d"), [({}, 30), ({"M": 2, "eta": 0.5, "x_max": 2.0, "R": 2.0, "s": 5}, 400)])
def test_without_noise_it_finds_the_parameter(config: dict[str, Any], d: int) -> None:
    env = sparse(dim=d)
    agent = make("fliphat", env, seed=0, epsilon=math.inf, **config)
    curve = play(env, agent, seed=0).regret
    beta = env.unwrapped._stream.problem.beta if hasattr(env, "_stream") else None
    assert curve[-1] - curve[len(curve) // 2] < 20  # of 840 at random
    assert beta is None or set(np.flatnonzero(beta)) <= set(np.flatnonzero(agent.release))  # type: ignore[attr-defined]


def test_an_episode_is_forgotten_after_the_next() -> None:
    """With other data up to user 127, the estimate that user 255 gives is the same: only its noise stream matters."""
    release = []
    for sign in (1.0, -1.0):
        agent: Any = make("fliphat", sparse(), seed=0, epsilon=1e6)
        x, y = records(255, seed=5)
        x[:127] *= sign * 0.3
        for t in range(255):
            agent.update(np.tile(x[t], (3, 1)), 0, y[t])
        release.append(agent.release)
    assert np.array_equal(*release) and np.count_nonzero(release[0]) == 10


@pytest.mark.wide_at("config1")
@pytest.mark.parametrize("config", [{}, {"M0": 3.0}, {"calibration": "published"}])
def test_resuming_in_mid_episode_is_bit_for_bit(config: dict[str, Any], tmp_path: Path) -> None:
    """At user 1500, 477 users into episode 10, with rows and with the Gram matrix."""
    rows, whole = [sparse(dim=40) for _ in range(2)]
    with pytest.warns(UserWarning) if "calibration" in config else NoWarning():
        agent = make("fliphat", whole, seed=2, epsilon=20.0, **config)
        play(whole, agent, 1500, seed=2)
        save(agent, tmp_path / "agent.npz")
        copy = load(tmp_path / "agent.npz", rows, fork=False)
    rows.reset(seed=3)
    for _ in range(4):
        contexts = rows.upcoming(400)
        actions = np.asarray(agent.select_action(contexts))
        assert np.array_equal(actions, copy.select_action(contexts))
        feedback = rows.serve(actions).feedback
        agent.update(contexts, actions, feedback)
        copy.update(contexts, actions, feedback)
        assert same_state(agent, copy)


class NoWarning:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


BAD: list[tuple[dict[str, Any], str]] = [
    ({"s": 0}, "s must be an integer >= 1; got 0."),
    ({"eta": -1.0}, "eta must be > 0; got -1.0."),
    ({"composition": "advanced"}, "composition must be one of zcdp, basic; got 'advanced'."),
    ({"calibration": "wrong"}, "calibration must be one of correct, published; got 'wrong'."),
    ({"rho": 0.1, "composition": "basic"}, "rho needs calibration correct and composition zcdp"),
    ({"epsilon": 0.0}, "epsilon must be > 0; got 0.0."),
    ({"selection": 1.0}, "selection must lie in (0, 1); got 1.0."),
    ({"delta": 0.0}, "delta must lie in (0, 1); got 0.0."),
]


@pytest.mark.parametrize(("config", "message"), BAD)
def test_bad_settings_get_one_sentence(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        make("fliphat", sparse(), **config)
    assert message in str(error.value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fliphat")
def test_squared_errors_fall_with_the_rows_as_theorem_4_1_says() -> None:
    """The statistical term is of order 1/N, what correct and published noise adds of order 1/N^2, up to logarithms."""
    rows, seeds = 2 ** np.arange(13, 18), range(990_000, 990_010)
    errors = np.array([[squared_errors(int(n), seed) for n in rows] for seed in seeds]).mean(axis=0)
    without, *added = np.polyfit(np.log(rows), np.log(np.stack([errors[:, 0], *(errors.T[1:] - errors[:, 0])]).T), 1)[0]
    assert -1.2 < without < -0.8
    assert added[1] < -1.5, "published noise is too small for a guarantee; what it adds falls by the square"


def squared_errors(rows: int, seed: int) -> list[float]:
    """Return |estimate - truth|^2 without noise, with the noise of a proof and with the published one, on equal rows.

    Features are autoregressive and Gaussian; 5 of 400 entries of the parameter are +-1/sqrt(5).
    """
    data, *noises = np.random.default_rng([seed, rows]).spawn(4)
    theta = np.zeros(400)
    theta[data.choice(400, 5, replace=False)] = data.choice([-1, 1], 5) / math.sqrt(5)
    kinds: list[dict[str, Any]] = [
        {"epsilon": math.inf},
        {"epsilon": 1.0},
        PUBLISHED,
    ]
    loss = SquaredLoss(400, np.dtype(np.float64), *Config().bounds(rows), users=rows, gram=True)
    for start in range(0, rows, 4096):
        drawn = data.standard_normal((min(4096, rows - start), 400))
        drawn[:, 1:] *= math.sqrt(1 - 0.1**2)
        x = lfilter([1.0], [1.0, -0.1], drawn, axis=1)
        loss.add(x, x @ theta + 0.1 * data.standard_normal(len(x)))
    found = []
    for kind, noise in zip(kinds, noises, strict=True):
        config = Config(**kind)
        peel, _ = calibrate(config, rows, min(config.s, 400), config.concentrated())
        estimate = n_iht(loss, partial(peel.release, rng=noise), config.iterations(rows), config.eta, config.C)
        found.append(float(((estimate - theta) ** 2).sum()))
    return found


@pytest.mark.parametrize("name", ["fliphat", "private-lasso"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wild_records_leave_finite_releases(name: str, dtype: Any) -> None:
    """Three hundred users, no other ones, through several episodes or batches."""
    agent: Any = make(name, sparse(), seed=0, epsilon=5.0, **({"first": 50} if name == "private-lasso" else {}))
    rng = np.random.default_rng(0)
    values = [value for value in WILD if dtype is np.float64 or not 1e38 < abs(value) < math.inf]
    for _ in range(30):
        contexts = rng.choice(values, (10, 3, 30)).astype(dtype)
        played_arms = agent.select_action(contexts)
        assert ((played_arms >= 0) & (played_arms < 3)).all()
        agent.update(contexts, rng.choice([0, 1, 2, -1, 7, 0.5, math.nan], 10), rng.choice(WILD, 10))
    arrays = agent.state()[0]
    assert np.isfinite(agent.release).all()
    assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")
