"""People who come again: each counts once, everybody is served, and nobody explores on those who do not report."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import load, make, play, save
from privbandit_agents.base.people import Seen
from privbandit_agents.joint.linear.person_means import PersonMeans, shares_of, snapshot_times
from privbandit_agents.local.linear.own_means import OwnMeans, clipped_means
from privbandit_agents.playing.snapshots import Snapshots

from privbandit_envs.changing.delay import DelayFeedback


def world(people: int | None = None, horizon: int = 400, **more: Any) -> Any:
    returning = {} if people is None else {"people": people, **more}
    return gym.make("privbandit/Linear-v0", n_arms=3, dim=2, horizon=horizon, **returning)


def anybody(users: int) -> None:
    """Refuse nobody."""


def one_by_one(seen: Seen, ids: np.ndarray) -> list[bool]:
    found = []
    for one in ids:
        found.append(bool(seen.new(int(one), 1)[0]))
        seen.taken((np.zeros((1, 2)), np.zeros(1), np.zeros(1)), int(one), anybody)
    return found


@pytest.mark.parametrize("low", [0, -50])
@pytest.mark.parametrize("most", [1, 7, 40, 1000])
def test_groups_and_single_visits_count_the_same_people(most: int, low: int) -> None:
    ids = np.random.default_rng(most).integers(low, 60, 300)
    alone, together = Seen(most), Seen(most)
    first = one_by_one(alone, ids)
    grouped = np.concatenate([np.zeros(0, bool)])
    for part in np.split(ids, [1, 2, 50, 51, 200]):
        grouped = np.r_[grouped, together.new(part, len(part))]
        together.taken((np.zeros((len(part), 2)), np.zeros(len(part)), np.zeros(len(part))), part, anybody)
    assert grouped.tolist() == first
    assert alone.counted == together.counted == min(most, len(set(ids.tolist()))) == sum(first)
    again = Seen(most)
    again.restore(*together.state())
    assert again.new(ids, len(ids)).sum() == 0


@pytest.mark.parametrize("person", [1.0, [1, 2], ["a"], [[1]], [None], [2**64], np.ma.masked_array([3], [True])])
def test_who_came_is_one_integer_a_visit(person: Any) -> None:
    agent = make("ldp-greedy", env := world(), seed=0, people=5)
    with pytest.raises(ValueError, match="person must be one integer a visit"):
        agent.update(env.reset(seed=0)[0], 0, 1.0, person)  # type: ignore[call-arg]
    assert agent.people_seen is not None and agent.people_seen.counted == 0


@pytest.mark.parametrize(
    ("name", "words"), [("jdp-linucb", "joint 1, 1e-05 a person"), ("prec-ts", "local 1 a person, exact")]
)
def test_the_guarantee_is_to_persons(name: str, words: str) -> None:
    agent = make(name, world(), seed=0, people=300)
    assert agent.guarantee.words.startswith(words) and agent.guarantee.unit == "person"
    assert (
        agent.guarantee.neighbours == "replace-one-person" and "all visits of every person" in agent.guarantee.protects
    )
    assert agent.guarantee.protects.endswith("who comes, and when the first report of each comes, is public")
    assert make(name, world(), seed=0).guarantee.unit == "visit"


def test_returns_are_public_where_contexts_and_actions_are() -> None:
    promise = make("reward-dp-linucb", world(), seed=0, people=300).guarantee
    assert promise.unit == "person" and promise.protects.endswith("; who comes, and when, is public")


def test_more_people_than_n_are_served_and_not_counted() -> None:
    agent = make("ldp-greedy", env := world(100), seed=0, people=30)
    result = play(env, agent, seed=0)
    assert agent.ledger.releases == 30 and result.checkpoints[-1] == 400  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["jdp-linucb", "ldp-greedy", "shuffle-linucb"])
def test_a_second_episode_counts_nobody_twice(name: str) -> None:
    agent, env = make(name, world(50), seed=0, people=50), world(50)
    play(env, agent, seed=0)
    assert agent.people_seen is not None and agent.people_seen.full
    state = agent.state()
    play(env, agent)
    assert all(np.array_equal(state[0][key], array) for key, array in agent.state()[0].items())


def test_a_saved_curator_knows_who_came(tmp_path: Any) -> None:
    env = world(50, horizon=100)
    agent = make("jdp-linucb", env, seed=0, people=50)
    play(env, agent, seed=0)
    save(agent, tmp_path / "a.npz")
    again = load(tmp_path / "a.npz", env)
    assert again.people_seen is not None and agent.people_seen is not None
    assert again.people_seen.state()[0]["bits"].tolist() == agent.people_seen.state()[0]["bits"].tolist()


class Nameless(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that does not say who comes."""

    per_user = True

    def reset(self, **options: Any) -> Any:
        context, info = self.env.reset(**options)
        return context, {key: value for key, value in info.items() if key != "person"}


def test_an_environment_without_ids_is_refused() -> None:
    agent = make("ldp-greedy", world(), seed=0, people=5)
    with pytest.raises(ValueError, match=r"people needs info\['person'\]"):
        play(Nameless(world()), agent, seed=0)


def test_of_late_reports_the_first_arrival_counts() -> None:
    env = DelayFeedback(world(40), {"mean": 10, "law": "geometric"})
    agent = make("ldp-greedy", env, seed=0, people=40)
    play(env, agent, 400, seed=0)
    assert agent.ledger.releases == 40  # type: ignore[attr-defined]


def test_who_does_not_report_gets_the_best_estimate() -> None:
    env = world(30)
    agent: Any = make("prec-ts", env, seed=0, people=30)
    play(env, agent, seed=0)
    contexts = np.random.default_rng(0).normal(size=(500, 3, 2)) / 4
    best = (contexts @ agent.scorer[:, -1]).argmax(axis=1)
    assert agent.people_seen.full and np.array_equal(agent.select_action(contexts), best)


def test_curators_play_the_estimate_after_their_horizon() -> None:
    agent: Any = make("jdp-linucb", env := world(), seed=0, bonus_scale=100.0)
    play(env, agent, seed=0)
    contexts = np.random.default_rng(0).normal(size=(500, 3, 2)) / 4
    assert np.array_equal(agent.select_action(contexts), (contexts @ agent.release[:, -1]).argmax(axis=1))


def test_sums_have_no_names() -> None:
    agent: Any = make("ldp-greedy", env := world(), seed=0, people=5)
    env.reset(seed=0)
    contexts = env.unwrapped.upcoming(3)
    with pytest.raises(TypeError, match="people, who have no names here"):
        agent.update_counts(contexts, np.zeros(3, int), np.ones(3))


@pytest.mark.parametrize("name", ["adap-klucb", "dp-se", "ldp-ucb"])
def test_counts_have_no_names(name: str) -> None:
    agent: Any = make(name, gym.make("privbandit/Bandit-v0", n_arms=2, horizon=400), seed=0, people=5)
    with pytest.raises(TypeError, match="people, who have no names here"):
        agent.update_counts(np.zeros(1, int), np.zeros(1, int), np.ones(1), np.ones(1, int))
    assert agent.people_seen.counted == agent.users == 0


@pytest.mark.parametrize("name", ["jdp-linucb", "prec-ts"])
def test_means_in_blocks_and_steps(name: str) -> None:
    agents: list[Any] = []
    results = []
    for wrapper in (lambda env: env, gym.Wrapper):
        env = world(12, 600, returns="zipf")
        agents.append(make(name, env, seed=0, people=12))
        results.append(play(wrapper(env), agents[-1], seed=0))
    assert isinstance(agents[0].people_seen, PersonMeans | OwnMeans)
    assert np.array_equal(results[0].regret, results[1].regret)
    assert results[0].regret[-1] > 0


def test_a_device_reports_once_on_ten_visits() -> None:
    agent: Any = make("prec-ts", env := world(5), seed=0, people=5, visits="mean")
    context = env.reset(seed=0)[0]
    for visit in range(25):
        agent.update(context, 0, 1.0, 3)
        assert agent.ledger.releases == (visit >= 9)


@pytest.mark.parametrize("records", [1, 10, 1000])
def test_one_person_moves_the_sum_of_means_by_one_at_most(records: int) -> None:
    rng = np.random.default_rng(records)
    means = [PersonMeans(20, 5) for _ in range(2)]
    for one in means:
        whose = np.r_[np.arange(20), np.zeros(records, int)]
        one.taken((np.zeros((len(whose), 2)), *np.zeros((2, len(whose)))), whose, anybody)
        one.add(np.random.default_rng(5).normal(size=(20, 5)))
        own = rng.normal(size=(records, 5))
        own *= 1.2 / np.linalg.norm(own, axis=1, keepdims=True)
        one.add(own)
    moved = np.linalg.norm(means[0].total() - means[1].total())
    assert 0 < moved <= means[0].sensitivity < 1 + 1e-9


def test_budgets_of_means_add_up_and_clip_bounds() -> None:
    times = snapshot_times(100_000)
    assert times[0] == 16 and times[-1] == 65_536 and len(times) == 13
    assert shares_of(times, 100_000).sum() == pytest.approx(1)
    assert np.linalg.norm(clipped_means(np.ones((10, 6)))) == pytest.approx(0.45)
    with pytest.raises(ValueError, match="reports on 10 records"):
        clipped_means(np.ones((9, 6)))


def test_means_take_memory_that_is_bounded() -> None:
    env = gym.make("privbandit/Linear-v0", dim=100, n_arms=2, horizon=3_000_000)
    with pytest.raises(ValueError, match="visits='mean' takes"):
        make("jdp-linucb", env, people=100_000, visits="mean")
    assert type(make("jdp-linucb", env, people=100_000, seed=0).people_seen) is Seen
    with pytest.raises(ValueError, match="who come again"):
        make("jdp-linucb", env, visits="mean")


def test_what_visits_are_worth() -> None:
    local = make("ldp-greedy", world(), seed=0).guarantee
    joint = make("jdp-linucb", world(), seed=0)
    assert local.for_visits(43) == 43
    assert joint.guarantee.for_visits(43, joint.gaussian) == pytest.approx(114.7, abs=0.1)
    assert make("jdp-linucb", world(), seed=0, people=9).guarantee.for_visits(43, True) == 1


@pytest.mark.wide_at("300-jdp-linucb")
@pytest.mark.parametrize("name", ["jdp-linucb", "prec-ts"])
@pytest.mark.parametrize("people", [12, 300])
def test_a_run_goes_on_from_a_snapshot(name: str, people: int, tmp_path: Path) -> None:
    class KilledError(Exception):
        pass

    def kill(curve: Any) -> None:
        if curve.passed == 100:
            raise KilledError

    def run(**more: Any) -> Any:
        env = world(people, 800, returns="zipf")
        return play(env, make(name, env, seed=0, people=people), seed=0, **more)

    with pytest.raises(KilledError):
        run(snapshots=Snapshots(tmp_path / "run.npz", "run", every=0.0), on_checkpoint=kill)
    assert (tmp_path / "run.npz").exists()
    assert np.array_equal(run(snapshots=Snapshots(tmp_path / "run.npz", "run")).regret, run().regret)


@pytest.mark.parametrize("name", ["jdp-linucb", "prec-ts"])
def test_masks_go_with_the_visits_that_count(name: str) -> None:
    results = []
    for wrapper in (lambda env: env, gym.Wrapper):
        env = world(100, 300, returns="zipf", available=0.6)
        results.append(play(wrapper(env), make(name, env, seed=0, people=100), seed=0))
    assert np.array_equal(results[0].regret, results[1].regret)
