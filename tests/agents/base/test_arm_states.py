"""Arms with names, which come and go: every agent serves the active ones alone, or refuses; no budget moves."""

import copy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from privbandit_agents import AGENTS, Explore, load, make, play, save
from privbandit_agents.joint.linear.jdp_glm import JDPGLM
from privbandit_agents.joint.linear.jdp_linucb import JDPLinUCB
from privbandit_agents.testing.replay import replay
from privbandit_agents.zoo.registry import can_play, named

import privbandit_envs  # noqa: F401  (registers the environments)

WORLDS: dict[str, dict[str, Any]] = {
    "linear": {"id": "privbandit/Linear-v0", "n_arms": 5, "dim": 3},
    "clicks": {"id": "privbandit/Clicks-v0", "n_arms": 5, "dim": 2},
    "bandit": {"id": "privbandit/Bandit-v0", "n_arms": 5},
    "smooth": {"id": "privbandit/Smooth-v0", "n_arms": 5, "dim": 1},
    "labels": {"id": "privbandit/Classification-v0", "source": "digits"},
}
CALENDAR = {0: [0, 1, 2], 100: [0, 1, 2, 3], 180: [1, 2, 3]}
PLAYERS = [
    (name, world)
    for world, env in [(world, gym.make(**settings, horizon=10)) for world, settings in WORLDS.items()]
    for name in AGENTS
    if world not in ("labels", "smooth") or name in ("lpct", "warm-ldp-sgd", "tree-all", "smooth-ldp", "jdp-smooth")
    if not AGENTS[name].successor and can_play(name, env)
]


def turn(agent: Any, users: int) -> None:
    """Let the arms of the calendar come and go."""
    if users == 0:
        agent.add_arms(["a", "b", "c"])
    if users == 100:
        agent.add_arms(["d"])
    if users == 180:
        agent.retire_arms(["a"])


def served(agent: Any, env: Any, users: int = 250, step: int = 10) -> Any:
    """Serve users of a world without masks, by the agent's own states; return the actions."""
    env.reset(seed=3)
    actions = []
    for first in range(0, users, step):
        turn(agent, first)
        done = 0
        while done < step:
            n = min(agent.frozen_rounds(), step - done)
            contexts = env.unwrapped.upcoming(n)
            actions.append(np.asarray(agent.select_action(contexts)))
            agent.update(contexts, actions[-1], env.unwrapped.serve(actions[-1]).feedback)
            done += n
    return np.concatenate(actions)


@pytest.mark.few_agents
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "world"), PLAYERS)
def test_every_agent_serves_the_active_arms_alone_or_refuses(name: str, world: str, tmp_path: Path) -> None:
    env = gym.make(**WORLDS[world], horizon=300)
    agent = make(name, env, seed=0)
    if not agent.learns_logs or name == "smooth-ldp":
        with pytest.raises(TypeError, match=r"(owns its runs|eliminates arms), which no arm joins later: make another"):
            agent.add_arms(["a"])
        return
    actions = served(agent, env)
    assert set(actions[:100]) <= {0, 1, 2} and set(actions[180:]) <= {1, 2, 3}
    assert dict(agent.arm_states) == {"a": "retired", "b": "active", "c": "active", "d": "active"}
    save(agent, tmp_path / "agent.npz")
    again = load(tmp_path / "agent.npz", env)
    assert dict(again.arm_states) == dict(agent.arm_states) == dict(copy.deepcopy(agent).arm_states)
    law = np.asarray(again.probabilities(env.unwrapped.upcoming(4), 20))  # type: ignore[attr-defined]
    assert (law[:, [0, *range(4, law.shape[1])]] == 0).all() and np.allclose(law.sum(axis=1), 1)


@pytest.mark.wide_at("linucb-bandit", "ldp-linucb-*", "linucb-clicks", "greedy-clicks", "linucb-linear")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "world"),
    [
        ("linucb", "linear"),
        ("linucb", "clicks"),
        ("linucb", "bandit"),
        ("greedy", "clicks"),
        ("jdp-linucb", "linear"),
        ("jdp-linucb", "clicks"),
        ("ldp-linucb", "linear"),
    ],
)
def test_an_agents_own_arms_are_the_masks_of_a_calendar(name: str, world: str) -> None:
    plain = gym.make(**WORLDS[world], horizon=250)
    masked = gym.make(**WORLDS[world], horizon=250, available=CALENDAR)
    own, told = make(name, plain, seed=1), make(name, masked, seed=1)
    actions = served(own, plain, step=1)
    masked.reset(seed=3)
    masks = masked.unwrapped.action_masks(250)  # type: ignore[attr-defined]
    assert masks.sum(axis=1).tolist() == [3] * 100 + [4] * 80 + [3] * 70
    result = play(masked, told, 250, seed=3, checkpoints=range(1, 251), by_counts=False)
    masked.reset(seed=3)
    again = masked.unwrapped.serve(actions)  # type: ignore[attr-defined]
    assert np.allclose(np.cumsum(again.regret), result.regret)


def test_a_new_arm_waits_for_a_short_batch(tmp_path: Path) -> None:
    """As long as the first one, also from a saved state; those of the beginning change nothing."""
    env: Any = gym.make(**WORLDS["clicks"], horizon=5000)
    agent, other = (make("jdp-glm", env, seed=0) for _ in range(2))
    agents: list[Any] = [agent, other]
    agents[0].add_arms(["a", "b", "c"])
    assert agents[0].schedule.ends == agents[1].schedule.ends == agents[0].schedule.first
    contexts = np.zeros((3000, 2))
    for one in agents:
        one.update(contexts, np.zeros(3000, int), np.zeros(3000))
    first, long = agents[0].schedule.first, agents[0].frozen_rounds()
    assert long == agents[1].frozen_rounds() > 5 * first
    agents[0].add_arms(["d"])
    save(agents[0], tmp_path / "agent.npz")
    again: Any = load(tmp_path / "agent.npz", env)
    for one in (agents[0], again):
        ends = [one.schedule.ends]
        one.update(contexts[:first], np.zeros(first, int), np.zeros(first))
        ends.append(one.schedule.ends)
        assert ends == [3000 + first, 3000 + first + -(-first // 2)]


@pytest.mark.wide_at("linear-JDPLinUCB", "clicks-JDPLinUCB", "linear-JDPGLM")
@pytest.mark.parametrize("kind", [JDPLinUCB, JDPGLM])
@pytest.mark.parametrize("world", ["linear", "clicks"])
def test_arms_that_come_and_go_cost_nothing_beyond_the_promise(kind: type[Any], world: str) -> None:
    class Changing(kind):  # type: ignore[misc]
        """Its arms come and go by the number of users, which is public."""

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.add_arms(["a", "b", "c"])

        def curate(self, contexts: Any, actions: Any, feedback: Any) -> Any:
            release = super().curate(contexts, actions, feedback)
            if self.users >= 60 and len(self.arm_states) == 3:
                self.add_arms(["d"])
                self.retire_arms(["a"])
            return release

    env = gym.make(**WORLDS[world], horizon=200)
    agent: Any = make(Changing, env, seed=0)
    without: Any = make(kind, env, seed=0)
    for one in (agent, without):
        play(gym.make(**WORLDS[world], horizon=200), one, 200, seed=0)
    assert agent.arm_states["a"] == "retired"
    assert agent.ledger.spent() == without.ledger.spent() and agent.guarantee == without.guarantee
    for user in (55, 70):
        costs, unseen = replay(named(Changing), WORLDS[world]["id"], 120, {}, user)
        assert not unseen and costs
        worst = max(cost.at(agent.guarantee.delta) for cost in costs)
        assert 0 < worst <= agent.guarantee.epsilon * (1 + 1e-6)


def test_names_are_used_once_and_errors_are_sentences() -> None:
    env = gym.make(**WORLDS["clicks"], horizon=100)
    agent = make("linucb", env, seed=0)
    with pytest.raises(ValueError, match=r"no active arm is called 'a'; active are \[\]\."):
        agent.retire_arms(["a"])
    agent.add_arms(["a", "b"])
    for wrong, sentence in [
        (["a"], "an arm called 'a' was there before, and a name is used once; take another name"),
        (["c", "c"], "an arm called 'c' was there before"),
        (["c", "d", "e", "f"], "linucb has room for 3 more arms; got 4: make one for more arms"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            agent.add_arms(wrong)
    for text in ("c", [3]):
        with pytest.raises(TypeError, match=r"names must be a list of names, such as \['a', 'b'\]; got "):
            agent.add_arms(text)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="an arm must stay active; got all of them"):
        agent.retire_arms(["b", "a"])
    agent.retire_arms(["a"])
    with pytest.raises(ValueError, match="an arm called 'a' was there before"):
        agent.add_arms(["a"])
    assert agent.arm_states == {"a": "retired", "b": "active"}
    other = make("linucb", env, seed=0)
    context, _ = env.reset(seed=0)
    other.select_action(context)
    with pytest.raises(ValueError, match="users have been given all 5 arms: name each of them first; got 2 names"):
        other.add_arms(["a", "b"])
    other.add_arms([*"abcde"])
    sets = gym.make("privbandit/Assortment-v0", n_items=6, capacity=2, dim=2)
    with pytest.raises(TypeError, match="plays sets, whose items have no states"):
        make("uniform", sets).add_arms(["a"])


def test_random_arms_are_active_ones() -> None:
    env = gym.make(**WORLDS["clicks"], horizon=300)
    env.reset(seed=0)
    agent = Explore(make("linucb", env, seed=0), 0.5, seed=0)
    agent.add_arms(["a", "b"])
    contexts = env.unwrapped.upcoming(200)  # type: ignore[attr-defined]
    actions = np.asarray(agent.select_action(contexts))
    assert set(actions) == {0, 1}
    law = np.asarray(agent.probabilities(contexts))
    assert (law[:, 2:] == 0).all() and np.allclose(law.sum(axis=1), 1) and law[:, :2].min() >= 0.25
    assert np.allclose(agent.propensities(contexts, actions), law[np.arange(200), actions])


def test_a_mask_without_an_active_arm_is_refused() -> None:
    env = gym.make(**WORLDS["clicks"], horizon=100, available={0: [0, 1]})
    agent = make("linucb", env, seed=0)
    agent.add_arms(["a", "b", "c"])
    agent.retire_arms(["a", "b"])
    with pytest.raises(ValueError, match="action_mask of active arms must be 0 or 1 for every arm"):
        play(env, agent, 10, seed=0)


@pytest.mark.parametrize("available", [{}, {5: [0]}, {0: []}, {0: [9]}, {0: "ab"}, {0: [0], "0": [1]}, {-1: [0]}])
def test_a_calendar_that_is_none_is_refused(available: Any) -> None:
    with pytest.raises(ValueError, match="available must say from user 0 on which of the arms"):
        gym.make(**WORLDS["linear"], available=available)
