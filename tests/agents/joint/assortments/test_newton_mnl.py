import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import clipped_derivatives
from privbandit_agents import load, make, play, save
from privbandit_agents.base.choices import lay_out
from privbandit_agents.joint.assortments.newton_mnl import of_kinds
from privbandit_agents.privacy.accounting.ledger import PrivacyBudgetExceeded
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
from privbandit_agents.testing.runs import same_parts, same_state

ASSORTMENT = "privbandit/Assortment-v0"
SMALL = {"n_items": 20, "capacity": 4, "dim": 3, "horizon": 2000}
WILD = [math.nan, math.inf, -math.inf, 1e38, -1e308]


def assortment(**kwargs: Any) -> Any:
    return gym.make(ASSORTMENT, **{**SMALL, **kwargs}).unwrapped


def agent_of(**config: Any) -> Any:
    return make("newton-mnl", assortment(), seed=0, **config)


def records(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Return contexts, sets and purchases of n users."""
    rng = np.random.default_rng(seed)
    sets = np.zeros((n, 20), np.int8)
    for row in sets:
        row[rng.choice(20, rng.integers(0, 5), replace=False)] = 1
    return rng.standard_normal((n, 20, 4)), sets, rng.integers(-1, 20, n)


def serve_batch(agent: Any, seed: int) -> None:
    batch = agent.batch
    while agent.batch == batch:
        agent.update(*records(min(agent.frozen_rounds(), agent.length - len(agent.choices)), seed))


class Watch:
    """Writes down every release of a Gaussian mechanism: (mechanism, exact value)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[GridGaussian, Any]] = []
        release = GridGaussian.release

        def watched(mechanism: GridGaussian, value: Any, rng: Any) -> Any:
            self.seen.append((mechanism, np.array(value)))
            return release(mechanism, value, rng)

        monkeypatch.setattr(GridGaussian, "release", watched)


@pytest.mark.parametrize("steps", [1, 3])
def test_noise_covers_the_sensitivities_and_the_steps_of_a_batch_add_up_to_rho(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rho, share, norm, trace = 0.7, 0.6, 1.3, 0.4
    watch = Watch(monkeypatch)
    agent = agent_of(rho=rho, steps=steps, gradient_share=share, gradient_norm=norm, trace=trace, first=30)
    for batch in range(3):
        watch.seen.clear()
        serve_batch(agent, batch)
        times, spent = (steps if batch == 0 else 1), 0.0
        assert len(watch.seen) == 2 * times
        for mechanism, value in watch.seen:
            gradient = value.shape == (3,)
            sensitivity = 2 * norm if gradient else math.sqrt(2) * trace
            part = share if gradient else 1 - share
            assert mechanism.sigma == pytest.approx(sensitivity * math.sqrt(times / (2 * rho * part)))
            spent += sensitivity**2 / (2 * mechanism.sigma**2)
        assert spent == pytest.approx(rho)
        assert agent.ledger.spent().as_rho() == pytest.approx(rho)


def test_what_is_released_are_the_clipped_sums_at_the_released_theta(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, agent = Watch(monkeypatch), agent_of(first=30)
    serve_batch(agent, 0)
    watch.seen.clear()
    theta, users = agent.release[:, -1].copy(), records(agent.length, 1)
    agent.update(*users)
    x, there, bought = lay_out(*users, 4)
    gradients, hessians = clipped_derivatives(x, bought, theta, there, radius=100.0, gradient_norm=0.7, trace=0.7)
    assert np.allclose(watch.seen[0][1], gradients.sum(axis=0))
    total = hessians.sum(axis=0)
    assert np.allclose(watch.seen[1][1], np.append(np.diag(total), math.sqrt(2) * total[np.triu_indices(3, 1)]))


def test_the_model_of_a_batch_is_the_mean_of_those_of_its_steps() -> None:
    agent, clips = agent_of(rho=math.inf, first=30, steps=2), {"radius": 100.0, "gradient_norm": 0.7, "trace": 0.7}
    users = records(30, 0)
    agent.update(*users)
    x, there, bought = lay_out(*users, 4)
    theta, slopes, curvatures = np.zeros(3), [], []
    for _ in range(2):
        gradient, hessian = (part.sum(axis=0) for part in clipped_derivatives(x, bought, theta, there, **clips))
        slopes.append(gradient - hessian @ theta)  # of the model, at the anchor 0
        curvatures.append(hessian)
        precision = 3 * np.eye(3) + np.mean(curvatures, axis=0)
        theta = -np.linalg.solve(precision, np.mean(slopes, axis=0))
    assert np.allclose(agent.release, np.column_stack([precision, theta]))


def test_noise_is_added_to_every_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the agent learns is the noisy sums, all other things equal."""
    learned = []
    for seed in (0, 1):
        agent = agent_of(first=30)
        agent.rng_noise = np.random.default_rng(seed)
        serve_batch(agent, 0)
        learned.append(agent.release)
    assert (learned[0] != learned[1]).all()


def test_no_noise_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a batch nor in the next one, nor where actions are drawn."""
    agent, seen = agent_of(first=30, steps=2), []
    release = GridGaussian.release

    def watched(mechanism: GridGaussian, value: Any, rng: Any) -> Any:
        assert rng is not agent.rng
        released = release(mechanism, value, rng)
        seen.extend(((released - value) / mechanism.sigma).round(6).tolist())
        return released

    monkeypatch.setattr(GridGaussian, "release", watched)
    assert agent.rng.random() != agent.rng_noise.random()
    for seed in range(3):
        serve_batch(agent, seed)
    assert len(seen) == len(set(seen)) == 4 * (3 + 6)


@pytest.mark.parametrize("config", [{}, {"steps": 3}, {"box": (0.0, 1.0), "bonus_scale": 0.5}])
@pytest.mark.parametrize("size", [0.1, 1e4])
def test_what_follows_a_release_reads_what_was_released_alone(
    config: dict[str, Any], size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users of two kinds, and the same released numbers: the same agent."""
    agents = [agent_of(first=30, **config) for _ in range(2)]
    values = np.random.default_rng(3)
    fixed = [size * values.standard_normal(9) for _ in range(10)]

    for kind, agent in enumerate(agents):
        queue = iter(fixed)
        monkeypatch.setattr(GridGaussian, "release", lambda _, value, rng, q=queue: next(q)[: len(value)])
        for seed in range(3):
            contexts, sets, bought = records(agent.length, seed + 10 * kind)
            agent.update(contexts * (1 if kind == 0 else 1e-3), sets if kind == 0 else 0 * sets, bought)
    assert agents[0].batch == 3 and np.isfinite(agents[0].release).all()
    assert same_state(*agents)
    contexts, sets, bought = records(20, 5)
    for agent, purchases in zip(agents, (bought, np.full(20, -1)), strict=True):
        agent.update(contexts, sets, purchases)  # the batch goes on
    probe = np.random.default_rng(4).standard_normal((50, 20, 4)).astype(np.float32)
    assert np.array_equal(agents[0].select_action(probe), agents[1].select_action(probe))


def test_batches_end_at_public_times() -> None:
    schedules = []
    for kind in (0, 1):
        agent, ends, users = agent_of(rho=0.3), [], 0
        for seed in range(40):
            contexts, sets, bought = records(25, seed)
            for user in range(25):
                batch = agent.batch
                agent.update(kind * contexts[user], sets[user], kind * (bought[user] + 1) - 1)
                users += 1
                if agent.batch > batch:
                    ends.append(users)
        schedules.append(ends)
    assert schedules[0] == schedules[1] and len(ends) > 5
    assert ends[0] == math.ceil(math.sqrt(3) * (9 + 3 / math.sqrt(0.3)))
    lengths = np.diff([0, *ends])
    assert all(later == math.ceil(1.4 * sooner) for sooner, later in pairwise(lengths))
    assert agent_of(rho=1e-9).length == 2000 // 4 and agent_of(rho=math.inf).length == math.ceil(math.sqrt(3) * 9)


def test_a_user_who_contributes_nothing_changes_nothing() -> None:
    """Any two records that count as zeros, in the same place, under the same noise."""
    silent = [
        (np.zeros((20, 4)), np.ones(20, np.int8), 3),
        (np.full((20, 4), math.nan), np.ones(20, np.int8), -1),
        (np.ones((20, 4)), np.zeros(20, np.int8), 5),
    ]
    states = []
    for record in silent:
        agent = agent_of(first=30)
        for place, seed in ((7, 0), (11, 1)):
            contexts, sets, bought = records(agent.length, seed)
            if place == 7:
                contexts[place], sets[place], bought[place] = record
            agent.update(contexts, sets, bought)
        states.append(agent.state())
    assert all(same_parts(states[0], other) for other in states[1:])
    assert states[0][0]["release"][:, -1].any()


@pytest.mark.parametrize("wild", WILD)
def test_wild_records_leave_finite_releases_within_the_sensitivity(wild: float) -> None:
    released = []
    for replaced in (False, True):
        agent = agent_of(rho=math.inf, first=30)
        contexts, sets, bought = records(30, 0)
        if replaced:
            contexts[4], sets[4], bought = wild, 1, bought.astype(float)
            bought[5], contexts[6, ::2, 1] = wild, wild
        with np.errstate(all="ignore"):
            agent.update(contexts, sets, bought)
            sets = agent.select_action(np.full((3, 20, 4), wild))
        assert (sets.sum(axis=1) <= 4).all()
        assert all(np.isfinite(array).all() for array in agent.state()[0].values() if array.dtype.kind == "f")
        released.append(agent.release)
    change = np.linalg.norm(released[0][:, :-1] - released[1][:, :-1])
    assert 0 < change <= 3 * math.sqrt(2) * 0.7  # without noise the precision is the sum of Hessians


@pytest.mark.parametrize("mass", [[-1, 99, 0.5, math.nan, -7], [19, 0, 3, 3, 3]])
def test_malformed_sets_and_purchases_are_taken_for_what_they_can_be(mass: list[float]) -> None:
    agent = agent_of(first=30)
    contexts, _, _ = records(60, 0)
    sets = np.zeros((60, 20))
    sets[::3], sets[1::3, :2] = 1, (-5, math.nan)  # more than K items; odd marks; none
    agent.update(contexts, sets, np.resize(mass, 60))
    assert agent.batch == 1 and np.isfinite(agent.release).all()
    assert agent.ledger.spent().as_rho() == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", ["few purchases", "one set", "other items"])
def test_a_group_that_is_refused_was_not_taken_in(wrong: str) -> None:
    agent = agent_of(first=30)
    agent.update(*records(10, 0))
    contexts, sets, bought = records(80, 1)
    bad = {
        "few purchases": (contexts, sets, bought[:-1]),
        "one set": (contexts, sets[0], bought),
        "other items": (contexts[:, :19], sets[:, :19], bought),
    }[wrong]
    before = agent.state()
    before = {name: array.copy() for name, array in before[0].items()}, before[1]
    with pytest.raises(ValueError):
        agent.update(*bad)
    assert same_parts(before, agent.state())


def test_batches_compose_in_parallel_and_none_is_used_twice() -> None:
    agent = agent_of(rho=0.5, first=10, growth=1.2)
    for seed in range(6):
        serve_batch(agent, seed)
        assert agent.ledger.spent().as_rho() == pytest.approx(0.5)
    assert agent.ledger.releases == 12
    agent.choices.append(*records(5, 0))
    agent._estimate()
    agent.batch -= 1  # the same users
    with pytest.raises(PrivacyBudgetExceeded):
        agent._estimate()
    agent.batch = 2
    with pytest.raises(ValueError, match="its users were closed"):
        agent._estimate()


def test_either_budget_is_stated_and_kept() -> None:
    agent = agent_of(epsilon=2.0, delta=1e-3, first=30)
    serve_batch(agent, 0)
    assert (agent.guarantee.epsilon, agent.guarantee.delta) == (2.0, 1e-3)
    assert agent.ledger.spent_epsilon(1e-3) == pytest.approx(2.0)
    assert agent_of().guarantee.rho == 1.0 and agent_of().guarantee.epsilon is None


def test_the_precision_adds_up_and_theta_stays_in_the_box() -> None:
    agent = agent_of(first=30, box=(0.2, 0.4), rho=0.1)
    assert np.array_equal(agent.release[:, -1], np.full(3, 0.2 / 2 + 0.4 / 2))
    least = 0.0
    for seed in range(5):
        serve_batch(agent, seed)
        values = np.linalg.eigvalsh(agent.release[:, :-1])
        assert values.min() > least and (agent.release[:, -1] >= 0.2).all() and (agent.release[:, -1] <= 0.4).all()
        least = float(values.min())


def test_the_bonus_is_the_norm_of_the_inverse_precision() -> None:
    agent = agent_of(first=30, bonus_scale=2.0, draw_scale=0, far_scale=0)
    serve_batch(agent, 0)
    precision, theta = agent.release[:, :-1], agent.release[:, -1]
    contexts = np.random.default_rng(0).standard_normal((40, 20, 4))
    contexts[..., -1] = 1.0
    x = contexts[..., :-1]
    utilities = x @ theta + 2 * np.sqrt(np.einsum("nki,ij,nkj->nk", x, np.linalg.inv(precision), x))
    best = np.sort(np.argsort(-utilities, axis=1)[:, :4], axis=1)
    assert np.array_equal(np.nonzero(agent.select_action(contexts))[1].reshape(40, 4), best)


def test_users_are_served_by_draws_of_their_own_however_they_are_grouped() -> None:
    one, other, still = (agent_of(first=30, draw_scale=s, far_scale=s) for s in (1.0, 1.0, 0.0))
    for agent in (one, other, still):
        serve_batch(agent, 0)
    contexts = np.repeat(np.random.default_rng(0).standard_normal((1, 20, 4)), 60, axis=0)
    sets = one.select_action(contexts)
    assert np.array_equal(sets, np.stack([other.select_action(context) for context in contexts]))
    assert len(np.unique(sets, axis=0)) > 1 and len(np.unique(still.select_action(contexts), axis=0)) == 1


def test_draws_find_the_best_of_a_few_kinds_of_items() -> None:
    """Six seeds, 4000 users: without draws most stay with an item that sells well, and lose 0.15 a user."""
    env = gym.make(ASSORTMENT, features="one-hot", n_items=8, capacity=1, dim=8, horizon=4000)

    def lost(**settings: float) -> list[float]:
        agents = [make("newton-mnl", env, seed=s, **settings) for s in range(6)]
        return [float(play(env, agent, seed=s).regret[-1]) for s, agent in enumerate(agents)]

    assert max(lost()) < 200 < 500 < max(lost(draw_scale=0, far_scale=0))


def test_groups_of_any_size_leave_the_same_agent() -> None:
    contexts, sets, bought = records(400, 5)
    agents = []
    for size in (1, 7, 400):
        agent = agent_of(first=30, steps=2)
        for start in range(0, 400, size):
            part = slice(start, start + size)
            agent.update(contexts[part], sets[part], bought[part])
        agents.append(agent)
    assert same_state(agents[0], agents[1]) and same_state(agents[0], agents[2])


def test_users_added_up_in_portions_release_what_a_whole_batch_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    contexts, sets, bought = records(400, 5)
    whole, parts = agent_of(first=30), agent_of(first=30)
    whole.update(contexts, sets, bought)
    monkeypatch.setattr(type(parts), "_portion", lambda _: 8)
    parts.update(contexts, sets, bought)
    assert parts.batch == whole.batch > 3 and len(parts.choices) <= 8
    np.testing.assert_allclose(parts.release, whole.release, rtol=1e-6, atol=1e-8)
    save(parts, tmp_path / "agent.npz")
    copy: Any = load(tmp_path / "agent.npz", assortment(), fork=False)
    for one in (parts, copy):
        one.update(*records(300, 6))
    assert same_state(parts, copy)


def test_resuming_in_mid_batch_is_bit_for_bit(tmp_path: Path) -> None:
    env = assortment()
    agent: Any = make("newton-mnl", env, seed=2, bonus_scale=0.2, box=(-1.0, 1.0))
    play(env, agent, 777, seed=2)
    assert agent.batch > 2 and 0 < len(agent.choices) < agent.length
    save(agent, tmp_path / "agent.npz")
    copy: Any = load(tmp_path / "agent.npz", env, fork=False)
    for seed in range(3):
        probe = records(300, seed)
        for one in (agent, copy):
            one.update(*probe)
        assert np.array_equal(agent.select_action(probe[0]), copy.select_action(probe[0]))
        assert same_state(agent, copy)


def final(rho: float, seeds: range, horizon: int, **kwargs: Any) -> float:
    env = gym.make(ASSORTMENT, horizon=horizon, **kwargs)
    return float(np.mean([play(env, make("newton-mnl", env, seed=s, rho=rho), seed=s).regret[-1] for s in seeds]))


def uniform(seeds: range, horizon: int, **kwargs: Any) -> float:
    env = gym.make(ASSORTMENT, horizon=horizon, **kwargs)
    return float(np.mean([play(env, make("uniform", env, seed=s), seed=s).regret[-1] for s in seeds]))


@pytest.mark.parametrize("features", ["gaussian", "unit"])
@pytest.mark.wide
def test_it_learns_at_a_small_budget_and_nothing_at_none(features: str) -> None:
    """Six seeds, 1500 users: about a twentieth to an eighth of uniform regret at rho = 0.5."""
    seeds, chance = range(50, 56), uniform(range(50, 56), 1500, features=features)
    assert final(0.5, seeds, 1500, features=features) < 0.25 * chance
    assert final(1e-9, seeds, 1500, features=features) > 0.8 * chance


@pytest.mark.wide
def test_general_revenues_are_learned_too() -> None:
    chance = uniform(range(3), 1500, revenues="random")
    assert final(1.0, range(3), 1500, revenues="random") < 0.2 * chance


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rho", "features", "goal"),
    [
        *[(0.1, "gaussian", 5), (0.5, "gaussian", 4), (1.0, "gaussian", 4), (5.0, "gaussian", 3)],
        *[(0.1, "unit", 8), (0.5, "unit", 6), (1.0, "unit", 6), (5.0, "unit", 6)],
    ],
)
def test_the_goals_of_the_main_setting(rho: float, features: str, goal: float) -> None:
    """Twenty seeds, means; uniform play is at 448 (Gaussian) and 408 (unit)."""
    assert final(rho, range(20), 10_000, features=features) <= goal


BAD: list[tuple[dict[str, Any], str]] = [
    ({"rho": 0.0}, "rho must be > 0; got 0.0."),
    ({"rho": 1.0, "epsilon": 1.0}, "give rho or epsilon, not both; got rho=1.0 and epsilon=1.0."),
    ({"epsilon": -1.0}, "epsilon must be > 0; got -1.0."),
    ({"delta": 1.0}, "delta must lie in (0, 1); got 1.0."),
    ({"first": 0}, "first must be an integer >= 1; got 0."),
    ({"steps": 1.5}, "steps must be an integer >= 1; got 1.5."),
    ({"growth": 1.0}, "growth must be > 1; got 1.0."),
    ({"gradient_share": 1.0}, "gradient_share must lie in (0, 1); got 1.0."),
    ({"bonus_scale": -0.1}, "bonus_scale must be >= 0; got -0.1."),
    ({"box": (1.0, 0.0)}, "box must be (low, high) with low < high within +-1e+06; got (1.0, 0.0)."),
    ({"box": (0.0, math.inf)}, "box must be 2 finite numbers; got (0.0, inf)."),
    ({"box": (-1e300, 1e300)}, "box must be (low, high) with low < high within"),
    *[
        ({name: value}, f"{name} must lie in [1e-06, 1000000.0]; got {value!r}.")
        for name in ("radius", "gradient_norm", "trace", "ridge")
        for value in (1e-300, 1e300, 0.0, math.nan)
    ],
]


@pytest.mark.parametrize(("config", "message"), BAD)
def test_bad_settings_get_one_sentence(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        agent_of(**config)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "config",
    [
        *[{name: value} for name in ("radius", "gradient_norm", "trace", "ridge") for value in (1e-6, 1e6)],
        *[{"rho": rho} for rho in (1e-9, 1e-3, 1000.0, math.inf)],
        *[{"growth": 1e9}, {"box": (-1e6, 1e6)}, {"box": [0, 1]}],
    ],
)
def test_extreme_settings_run(config: dict[str, Any]) -> None:
    agent = agent_of(first=20, **config)
    for seed in range(2 if "growth" not in config else 1):
        serve_batch(agent, seed)
    assert np.isfinite(agent.release).all() and agent.frozen_rounds() >= 1
    assert (agent.select_action(records(5, 9)[0]).sum(axis=1) <= 4).all()


def test_the_least_budget_is_exact_and_a_smaller_one_is_refused() -> None:
    env = gym.make("privbandit/Assortment-v0", dim=5)
    assert make("newton-mnl", env, seed=0, rho=1e-9).guarantee.arithmetic == "exact"
    with pytest.raises(ValueError, match="rho must lie in"):
        make("newton-mnl", env, seed=0, rho=1e-15)


def test_kinds_are_told_by_the_own_context_of_each_user() -> None:
    kinds = np.eye(4)[[2, 0, 0, 1, 3]]
    mixed, half = np.full((5, 4), 0.5), kinds.copy()
    half[3] = [0.0, 0.5, 0.5, 0.0]
    assert of_kinds(np.stack([kinds, -3 * kinds, mixed, half, 0 * kinds])).tolist() == [True, True, False, False, False]
    assert of_kinds(kinds) and not of_kinds(np.ones((5, 1)))
