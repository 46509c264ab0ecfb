from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import NormalizeObservation
from scipy import stats

import privbandit_envs
from privbandit_envs.changing.people import Returns, most_visits
from privbandit_envs.testing import check_people

WORLDS: list[tuple[str, dict[str, Any]]] = [
    ("privbandit/Classification-v0", {"source": "wine"}),
    ("privbandit/Assortment-v0", {"source": "expedia-sample"}),
]


def world(env_id: str, **kwargs: Any) -> Any:
    return gym.make(env_id, **kwargs).unwrapped


def people_of(env_id: str, kwargs: dict[str, Any]) -> int:
    """Return how many people there are, as the error for too long a horizon says."""
    with pytest.raises(ValueError, match="horizon must be at most") as error:
        world(env_id, population="without-replacement", horizon=10**7, **kwargs)
    return int(str(error.value).split("at most ")[1].split(",")[0])


def everybody(env: Any) -> Any:
    """Return the contexts of all people, sorted."""
    problem = env.problem
    if not hasattr(problem, "hotels"):
        return ordered(problem.data.records[:, : problem.dim])
    contexts = np.ones((len(problem.hotels.users), *env.observation_space.shape), np.float32)
    problem.hotels.write(np.arange(len(contexts)), contexts[..., :-1])
    return ordered(contexts)


def ordered(contexts: Any) -> Any:
    rows = contexts.reshape(len(contexts), -1)
    return rows[np.lexsort(rows[:, ::-1].T)]


@pytest.mark.parametrize(("env_id", "kwargs"), WORLDS)
@pytest.mark.wide
def test_without_replacement_nobody_comes_twice_in_an_episode(env_id: str, kwargs: dict[str, Any]) -> None:
    people = people_of(env_id, kwargs)
    env = world(env_id, population="without-replacement", horizon=people, **kwargs)
    env.reset(seed=3)
    first = env.upcoming(people)
    assert np.array_equal(ordered(first), everybody(env)) and env.visits() == 1
    # the second episode goes on with those who have not come yet
    h = people // 2 - 1
    half = world(env_id, population="without-replacement", horizon=h, **kwargs)
    half.reset(seed=3)
    served = []
    for _ in range(2):
        served.append(half.upcoming(half.rounds_left))
        half.serve(np.repeat(np.asarray(half.action_space.sample())[None], half.rounds_left, axis=0))
        half.reset()
    assert np.array_equal(np.concatenate(served), first[np.r_[:h, h + 1 : 2 * h + 1]])  # one was shown, not served
    # another seed has another order
    env.reset(seed=4)
    assert not np.array_equal(env.upcoming(people), first) and np.array_equal(
        ordered(env.upcoming(people)), ordered(first)
    )


@pytest.mark.wide_at("*-kwargs1")
@pytest.mark.parametrize(("env_id", "kwargs"), WORLDS)
def test_with_replacement_one_person_comes_often(env_id: str, kwargs: dict[str, Any]) -> None:
    """The most frequent rows, shared by as many people as have them, come about as often as is said."""
    env = world(env_id, horizon=20_000, **kwargs)
    env.reset(seed=0)
    alike = Counter(row.tobytes() for row in everybody(env))
    came = Counter(row.tobytes() for row in env.upcoming(20_000))
    assert came.keys() == alike.keys()
    assert 0.7 * env.visits() < max(came[row] / alike[row] for row in came) < env.visits()


def test_users_who_are_all_new_come_once() -> None:
    for env_id in ("Linear-v0", "SparseLinear-v0", "Assortment-v0", "Classification-v0"):
        assert world(f"privbandit/{env_id}").visits() == 1
    wine = world("privbandit/Classification-v0", source="wine", horizon=100)
    assert wine.visits() == 1 < wine.visits(129) < wine.visits(20_000)


@pytest.mark.parametrize(("draws", "people"), [(0, 5), (1, 1), (7, 1), (50, 10), (999, 3), (20_000, 134), (10**7, 44)])
def test_most_visits_is_the_quantile_of_the_union_bound(draws: int, people: int) -> None:
    k = most_visits(draws, people)
    assert people * stats.binom.sf(k, draws, 1 / people) <= 0.01
    assert k == 0 or people * stats.binom.sf(k - 1, draws, 1 / people) > 0.01


@pytest.mark.parametrize("population", ["once", None, 3, ["without-replacement"]])
def test_another_population_is_named(population: Any) -> None:
    with pytest.raises(ValueError, match="population must be"):
        world("privbandit/Classification-v0", source="wine", population=population)
    with pytest.raises(ValueError, match="population"):
        world("privbandit/Assortment-v0", population=population)


def test_worlds_of_new_users_have_no_population_to_choose() -> None:
    for env_id in ("privbandit/Classification-v0", "privbandit/Assortment-v0"):
        with pytest.raises(ValueError, match="population"):
            world(env_id, population="without-replacement")


LINEAR, LAWS = "privbandit/Linear-v0", ("uniform", "zipf", "in-turn")
SMALL: dict[str, Any] = {"n_arms": 3, "dim": 4}
SYNTHETIC: list[tuple[str, dict[str, Any]]] = [
    *(
        (LINEAR, {**SMALL, "design": design, "delta": 0.3})
        for design in ("sphere", "case1", "case2", "ill", "mixed", "heavy")
    ),
    (LINEAR, {**SMALL, "support": 20, "dtype": "float64"}),
    ("privbandit/SparseLinear-v0", {"dim": 30, "margin": 0.2}),
    ("privbandit/Clicks-v0", {"correlation": 0.4}),
    ("privbandit/Classification-v0", {}),
    ("privbandit/Assortment-v0", {"n_items": 6, "capacity": 2, "revenues": "random"}),
    ("privbandit/Assortment-v0", {"n_items": 6, "capacity": 2, "features": "unit"}),
]


def names(setting: tuple[str, dict[str, Any]]) -> str:
    return f"{setting[0].split('/')[1]}-{'-'.join(map(str, setting[1].values()))}"


def features(env: Any, contexts: Any) -> Any:
    """Return contexts without the revenues of an assortment."""
    return contexts[..., :-1] if "Assortment" in env.spec.id else contexts


@pytest.mark.parametrize("setting", [*SYNTHETIC, (LINEAR, {"design": "adversarial"})], ids=names)
def test_without_people_everyone_is_new(setting: tuple[str, dict[str, Any]]) -> None:
    env = world(setting[0], **setting[1], horizon=1500)
    _, info = env.reset(seed=1)
    action = env.action_space.sample()
    assert info["person"] == 0 and env.step(action)[4]["person"] == 1
    env.serve(np.repeat(np.asarray(action)[None], 1000, axis=0))
    assert env.upcoming_people(3).tolist() == [1001, 1002, 1003]
    assert env.reset()[1]["person"] == 1002  # one was shown, not served
    assert env.reset(seed=1)[1]["person"] == 0


@pytest.mark.parametrize("setting", SYNTHETIC, ids=names)
@pytest.mark.parametrize("returns", LAWS)
def test_people_alone_move_no_context_and_no_reward(setting: tuple[str, dict[str, Any]], returns: str) -> None:
    plain, peopled = (world(setting[0], **setting[1], **more) for more in ({}, {"people": 50, "returns": returns}))
    for env in (plain, peopled):
        env.reset(seed=2)
    actions = np.stack([plain.action_space.sample() for _ in range(1500)])
    assert np.array_equal(plain.upcoming(1500), peopled.upcoming(1500))
    assert np.array_equal(plain.serve(actions).reward, peopled.serve(actions).reward)


@pytest.mark.wide_at("zipf")
@pytest.mark.parametrize("returns", LAWS)
def test_the_same_people_come_however_they_are_asked_for(returns: str) -> None:
    env = world(LINEAR, **SMALL, people=900, returns=returns)
    env.reset(seed=3)
    people = env.upcoming_people(5000)
    for size in (1, 32, 4096):
        env.reset(seed=3)
        came: list[int] = []
        while len(came) < 4200:
            came += env.upcoming_people(size).tolist()
            env.serve(np.zeros(size, int))
        assert np.array_equal(came[:5000], people[: len(came)])
    # the law itself draws users one by one
    law, rngs = Returns(900, returns), [np.random.Generator(np.random.SFC64(4)) for _ in range(2)]
    parts = [law.draw(start, size, rngs[0]) for start, size in ((0, 1), (1, 32), (33, 967))]
    assert np.array_equal(np.concatenate(parts), law.draw(0, 1000, rngs[1]))


def test_people_come_by_the_law_that_is_asked_for() -> None:
    """A chi-square test each, with a false alarm in 10 000; a law in proportion to i^-0.95 is refuted."""
    users, people = 200_000, 40
    chances = {"uniform": np.ones(people), "zipf": 1 / np.arange(1, people + 1)}
    for returns, weights in chances.items():
        env = world(LINEAR, **SMALL, people=people, returns=returns, horizon=users)
        env.reset(seed=5)
        counts = np.bincount(env.upcoming_people(users), minlength=people)
        assert stats.chisquare(counts, users * weights / weights.sum()).pvalue > 1e-4
        wrong = weights * np.arange(1, people + 1) ** 0.05
        assert stats.chisquare(counts, users * wrong / wrong.sum()).pvalue < 1e-4
    env = world(LINEAR, **SMALL, people=people, returns="in-turn")
    env.reset(seed=5)
    assert env.upcoming_people(100).tolist() == [user % people for user in range(100)]


@pytest.mark.wide_at("0.5-Clicks-*", "0.5-Linear-v0-3-4-[shm]*", "0.5-Assortment-v0-6-2-unit")
@pytest.mark.parametrize("setting", SYNTHETIC, ids=names)
@pytest.mark.parametrize("spread", [0, 0.5])
def test_contexts_of_a_person_hang_together(setting: tuple[str, dict[str, Any]], spread: float) -> None:
    env = world(setting[0], **setting[1], people=30, person_spread=spread)
    env.reset(seed=6)
    contexts, people = env.upcoming(3000), env.upcoming_people(3000)
    assert all(env.observation_space.contains(context) for context in contexts)
    x = features(env, contexts).reshape(3000, -1).astype(np.float64)
    own = np.stack([x[people == person].mean(axis=0) for person in range(30)])
    within = ((x - own[people]) ** 2).mean()
    if spread == 0:
        assert within < 1e-12
    else:
        assert 0.1 * x.var(axis=0).mean() < within < 0.5 * x.var(axis=0).mean()
    # the people stay for the next episode, and are others with another seed
    env.reset()
    later, who = env.upcoming(3000), env.upcoming_people(3000)
    y = features(env, later).reshape(3000, -1).astype(np.float64)
    means = np.stack([y[who == person].mean(axis=0) for person in range(30)])
    assert ((means - own) ** 2).mean() < 0.1 * x.var(axis=0).mean()
    env.reset(seed=7)
    z, who = features(env, env.upcoming(3000)).reshape(3000, -1).astype(np.float64), env.upcoming_people(3000)
    others = np.stack([z[who == person].mean(axis=0) for person in range(30)])
    assert ((others - own) ** 2).mean() > 0.3 * x.var(axis=0).mean()


def test_a_visit_has_the_law_of_a_new_user() -> None:
    """With so many people that nobody comes twice, a context has the family's law: KS tests, .1 % each."""
    for env_id, kwargs in (("Clicks-v0", {}), ("Classification-v0", {}), ("Linear-v0", {"dim": 3, "n_arms": 1})):
        env = world(f"privbandit/{env_id}", **kwargs, people=20_000, returns="in-turn", person_spread=0.7)
        env.reset(seed=8)
        x = env.upcoming(10_000).reshape(10_000, -1)[:, 0]
        law = {"Clicks-v0": stats.norm(), "Classification-v0": stats.uniform(), "Linear-v0": stats.uniform(-1, 2)}
        assert stats.kstest(x, law[env_id].cdf).pvalue > 1e-3
        assert stats.kstest(1.05 * x, law[env_id].cdf).pvalue < 1e-3
    lengths = np.linalg.norm(env.upcoming(1000).astype(np.float64), axis=-1)
    assert np.allclose(lengths, 1, atol=1e-5) and (lengths <= 1).all()


def test_rows_of_data_are_people() -> None:
    env = world("privbandit/Classification-v0", source="wine", n_public=20, horizon=3000)
    env.reset(seed=9)
    contexts, people = env.upcoming(2000), env.upcoming_people(2000)
    split = env.problem.data
    assert set(people) == set(split.private_rows.tolist())
    place = {row: i for i, row in enumerate(split.private_rows.tolist())}
    assert np.array_equal(contexts, split.records[[place[person] for person in people.tolist()], :-1])
    # another split names the same person by the same number
    other = world("privbandit/Classification-v0", source="wine", n_public=60)
    other.reset(seed=9)
    assert set(other.upcoming_people(2000).tolist()) < set(people.tolist())
    # some of them, by a law
    for returns in LAWS:
        few = world("privbandit/Classification-v0", source="wine", n_public=20, people=15, returns=returns)
        few.reset(seed=9)
        some = few.upcoming_people(600)
        assert len(set(some.tolist())) == 15 and set(some.tolist()) < set(people.tolist())
        assert np.array_equal(few.upcoming(600), split.records[[place[person] for person in some.tolist()], :-1])
        few.reset(seed=10)
        assert set(few.upcoming_people(600).tolist()) != set(some.tolist())
    hotel = world("privbandit/Assortment-v0", source="expedia-sample")
    hotel.reset(seed=9)
    assert len({row.tobytes() for row in hotel.upcoming(500)}) <= len(set(hotel.upcoming_people(500).tolist()))


def test_people_of_a_table_keep_their_numbers() -> None:
    user = np.repeat([7, 3, 5, 1, 9, 2], 2)
    table = {"user": user, "x": user / 10, "arm": np.tile([0.0, 1.0], 6), "earned": np.tile([0.0, 0.5], 6)}
    env = privbandit_envs.from_table(table, user="user", reward="earned", n_public=2, horizon=50).unwrapped
    env.reset(seed=1)
    people, contexts = env.upcoming_people(40), env.upcoming(40)  # type: ignore[attr-defined]
    assert len(set(people.tolist())) == 4 and max(people) < 6
    one_each = {(person, context.tobytes()) for person, context in zip(people.tolist(), contexts, strict=True)}
    assert len(one_each) == 4


def test_late_reports_say_whose_they_are() -> None:
    env = privbandit_envs.DelayFeedback(gym.make(LINEAR, **SMALL, people=5, person_spread=0), {"mean": 4})
    context, info = env.reset(seed=1)
    shown: dict[bytes, int] = {}
    told = 0
    for _ in range(200):
        shown[context.tobytes()] = info["person"]
        context, *_, info = env.step(0)
        if info["reports"] is not None:
            assert [shown[one.tobytes()] for one in info["reports"][0]] == info["report_people"].tolist()
            told += len(info["report_people"])
        else:
            assert "report_people" not in info
    assert told > 150 and len(shown) == 5


def test_wrappers_and_vectors_of_environments_hand_people_on() -> None:
    inner: dict[str, Any] = {"n_arms": 3, "dim": 2, "people": 4, "returns": "in-turn"}
    env = NormalizeObservation(privbandit_envs.PerArm(gym.make("privbandit/Clicks-v0", **inner)))
    _, info = env.reset(seed=0)
    assert [info["person"], *(env.step(0)[4]["person"] for _ in range(5))] == [0, 1, 2, 3, 0, 1]
    envs = gym.make_vec("privbandit/Clicks-v0", 2, "sync", **inner)
    assert envs.reset(seed=0)[1]["person"].tolist() == [0, 0]
    assert envs.step(np.array([0, 1]))[4]["person"].tolist() == [1, 1]


@pytest.mark.parametrize(
    "more", [{"available": 0.5}, {"jumps": [40, 700], "drift": 0.01}, {"shifts": {90: {"delta": 0.5}}}]
)
@pytest.mark.parametrize("spread", [None, 0.3])
def test_people_live_in_worlds_that_change(more: dict[str, Any], spread: float | None) -> None:
    kwargs: dict[str, Any] = {**SMALL, "design": "case2", "people": 9, "returns": "zipf", "person_spread": spread}
    if "available" not in more:
        check_people(LINEAR, **kwargs, **more)
    env, plain = world(LINEAR, **kwargs, **more), world(LINEAR, **kwargs)
    for each in (env, plain):
        each.reset(seed=3)
    assert np.array_equal(env.upcoming_people(1500), plain.upcoming_people(1500))
    if spread is not None and "shifts" not in more:
        assert np.array_equal(env.upcoming(1500), plain.upcoming(1500))
    _, info = env.reset(seed=3)
    for person in plain.upcoming_people(40).tolist():
        assert info["person"] == person
        *_, info = env.step(int(env.action_masks().argmax()))


def test_people_are_not_served_by_counts() -> None:
    env = world(LINEAR, **SMALL, support=20, people=10)
    env.reset(seed=0)
    assert env.support is None
    with pytest.raises(TypeError, match="people are not served by counts"):
        env.draw_counts(5)


@pytest.mark.parametrize(
    ("kwargs", "problem"),
    [
        ({"people": 0}, "people must be an integer >= 1; got 0"),
        ({"people": 2.5}, "people must be an integer"),
        ({"people": 5, "returns": "zip"}, "did you mean 'zipf'"),
        ({"returns": "zipf"}, "returns is for people who come again"),
        ({"person_spread": 0.5}, "person_spread is for people who come again"),
        ({"people": 5, "person_spread": -1}, "person_spread must be >= 0; got -1"),
        ({"people": 5, "person_spread": np.nan}, "person_spread"),
        ({"people": 10**9, "person_spread": 0.5}, "people must be at most .* 256 MiB"),
        ({"people": 5, "person_spread": 0.5, "design": "adversarial"}, "adversary"),
        ({"id": "Classification", "source": "wine", "people": 500}, "people must be at most 128, the rows"),
        ({"id": "Classification", "source": "wine", "people": 5, "person_spread": 0.1}, "person_spread must be None"),
        ({"id": "Classification", "source": "wine", "people": 5, "shifts": {9: {"n_public": 5}}}, "shifts of data"),
        ({"id": "Assortment", "features": "one-hot", "people": 5, "person_spread": 0.1}, "'gaussian' and 'unit'"),
    ],
)
def test_people_who_cannot_come_again_are_refused(kwargs: dict[str, Any], problem: str) -> None:
    family = kwargs.pop("id", "Linear")
    with pytest.raises(ValueError, match=problem):
        world(f"privbandit/{family}-v0", **kwargs)


@pytest.mark.parametrize("returns", LAWS)
@pytest.mark.parametrize(("users", "people"), [(1, 5), (3000, 50), (3000, 4000), (20_000, 3)])
def test_visits_bound_how_often_one_person_comes(returns: str, users: int, people: int) -> None:
    """In 60 episodes more than 4 come oftener than is said with a chance of .03 %."""
    most = Returns(people, returns).visits(users)
    rng = np.random.default_rng(0)
    found = [int(np.bincount(Returns(people, returns).draw(0, users, rng)).max()) for _ in range(60)]
    assert sum(count > most for count in found) <= 4 and most <= 1.4 * max(found) + 2
    assert world(LINEAR, **SMALL, people=people, returns=returns, horizon=users).visits() == most
