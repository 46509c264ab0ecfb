from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy import stats

from privbandit_envs.changing.people import most_visits

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
