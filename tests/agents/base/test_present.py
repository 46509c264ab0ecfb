"""Arms that come and go: the world draws masks and holds to them, and every agent that plays arms respects them."""

import copy
import json
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from privbandit_agents import AGENTS, make, play
from privbandit_agents.base.agent import LearningAgent
from privbandit_agents.base.present import Visit, choose_present, serving
from privbandit_agents.playing.play import choose, learn
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.registry import can_play

import privbandit_envs  # noqa: F401  (registers the environments)
from privbandit_envs.changing.masks import stand_ins

LINEAR, LABELS = "privbandit/Linear-v0", "privbandit/Classification-v0"
WORLDS: list[dict[str, Any]] = [
    {"id": LINEAR, "n_arms": 5, "dim": 3},
    {"id": LABELS, "source": "wine"},
    {"id": LABELS},
]


@pytest.mark.wide_at("*-1.0", "*Classification-v0-0.01")
@pytest.mark.parametrize("available", [1.0, 0.5, 0.01])
@pytest.mark.parametrize("world", WORLDS[:2], ids=lambda world: world["id"])
def test_masked_users_are_those_of_the_world_without_masks(world: dict[str, Any], available: float) -> None:
    plain, masked = gym.make(**world, horizon=1300), gym.make(**world, horizon=1300, available=available)
    assert plain.reset(seed=3)[1].keys() == {"person"}
    _, info = masked.reset(seed=3)
    arms: Any = []
    for _ in range(1300):
        mask = info["action_mask"]
        assert mask.dtype == np.int8 and mask.shape == (masked.action_space.n,) and mask.any()  # type: ignore[attr-defined]
        assert np.array_equal(mask, masked.unwrapped.action_masks())  # type: ignore[attr-defined]
        arm = int(masked.action_space.sample(mask))
        _, reward, _, _, info = masked.step(arm)
        arms.append((mask, arm, reward, info["regret"], info["optimal_action"], info["expected_reward"]))
        assert mask[info["optimal_action"]] and info["regret"] >= 0
    masks, chosen, rewards, regrets, best, expected = (np.array(column) for column in zip(*arms, strict=True))
    unmasked = plain.unwrapped.serve(chosen)  # type: ignore[attr-defined]
    assert np.array_equal(unmasked.reward, rewards) and np.array_equal(unmasked.expected_reward, expected)
    assert (unmasked.regret >= regrets).all()
    assert np.array_equal(unmasked.optimal_action, best) == (available == 1) or masks.shape[1] == 2
    k = masks.shape[1]
    law = available + (1 - available) ** k / k  # one in any case
    assert abs(masks.mean() - law) < 5 * np.sqrt(0.25 / masks.size)


def test_blocks_slots_bookmarks_and_steps_have_the_same_masks() -> None:
    arguments: Any = {"id": LINEAR, "n_arms": 4, "dim": 2, "available": 0.4, "horizon": 1200}
    stepped, blocks, slots = gym.make(**arguments), gym.make(**arguments), gym.make_vec(num_envs=3, **arguments)
    _, info = stepped.reset(seed=1)
    blocks.reset(seed=1)
    _, told = slots.reset(seed=1)
    masks = blocks.unwrapped.action_masks(900)  # type: ignore[attr-defined]
    arms = masks.argmax(axis=1)
    served = blocks.unwrapped.serve(arms)  # type: ignore[attr-defined]
    for user in range(0, 900, 3):
        assert np.array_equal(told["action_mask"], masks[user : user + 3])
        _, rewards, _, _, told = slots.step(arms[user : user + 3])
        assert np.array_equal(rewards, served.reward[user : user + 3])
        for one in range(user, user + 3):
            assert np.array_equal(info["action_mask"], masks[one])
            _, reward, _, _, info = stepped.step(arms[one])
            assert reward == served.reward[one] and info["regret"] == served.regret[one]
    place = json.loads(json.dumps(blocks.unwrapped.bookmark()))  # type: ignore[attr-defined]
    other = gym.make(**arguments).unwrapped
    other.go_to(place)  # type: ignore[attr-defined]
    assert np.array_equal(other.action_masks(250), blocks.unwrapped.action_masks(250))  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_vectors_tell_the_masks_of_the_users_they_show(mode: AutoresetMode) -> None:
    arguments: Any = {"id": LINEAR, "n_arms": 4, "dim": 2, "available": 0.4, "horizon": 4}
    ours = gym.make_vec(num_envs=1, autoreset_mode=mode.value, **arguments)
    theirs = SyncVectorEnv([lambda: gym.make(**arguments)], autoreset_mode=mode)
    told = [one.reset(seed=2)[1] for one in (ours, theirs)]
    over = False
    for _ in range(10):
        assert np.array_equal(told[0]["action_mask"], told[1]["action_mask"])
        arm = np.array([int(told[0]["action_mask"][0].argmax())])
        steps = [one.step(arm) for one in (ours, theirs)]
        told, over = [step[4] for step in steps], bool(steps[0][3].any())
        assert np.array_equal(steps[0][0], steps[1][0])
        if over and mode is AutoresetMode.DISABLED:
            told = [one.reset()[1] for one in (ours, theirs)]


def test_an_absent_arm_is_refused_and_serves_nobody() -> None:
    env = gym.make(LINEAR, n_arms=6, dim=2, available=0.3).unwrapped
    env.reset(seed=0)
    masks = env.action_masks(20)  # type: ignore[attr-defined]
    before = env.upcoming(3)  # type: ignore[attr-defined]
    absent = int(np.flatnonzero(~masks[0])[0])
    with pytest.raises(
        ValueError, match=rf"action must be an arm that info\['action_mask'\] marks as present: \[.*\]; got {absent}\."
    ):
        env.step(absent)
    arms = masks.argmax(axis=1)
    arms[7] = int(np.flatnonzero(~masks[7])[0])
    with pytest.raises(ValueError, match="action must be an arm"):
        env.serve(arms)  # type: ignore[attr-defined]
    assert np.array_equal(before, env.upcoming(3))  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"action must be an arm 0, \.\.\., 5|actions must be"):
        env.step(9)


@pytest.mark.parametrize("available", [0, -0.1, 1.5, float("nan"), "half", True])
def test_a_share_that_is_none_is_refused(available: Any) -> None:
    with pytest.raises(ValueError, match="available must"):
        gym.make(LINEAR, available=available)


def test_assortments_have_no_arms() -> None:
    with pytest.raises(
        ValueError, match=r"masks, and the setting available, are for worlds with arms; got Assortments"
    ):
        gym.make("privbandit/Assortment-v0", available=0.5)


def test_stand_ins_are_present_and_shared_out() -> None:
    masks = np.random.default_rng(0).random((2000, 7)) < 0.4
    masks[:, 3] |= ~masks.any(axis=1)
    instead = stand_ins(masks)
    assert np.take_along_axis(masks, instead, axis=1).all()
    assert np.array_equal(instead == np.arange(7), masks)
    for mask, arms in zip(masks, instead, strict=True):
        shares = np.bincount(arms[~mask], minlength=7)[mask]
        assert shares.max() - shares.min() <= 1


THEMSELVES = [name for name, entry in AGENTS.items() if not issubclass(entry.load(), Auto | LearningAgent)]
MADE = [gym.make(**world, horizon=60) for world in WORLDS]
PLAYED = [{name for name in THEMSELVES if can_play(name, env)} for env in MADE]
CASES: list[Any] = [(name, 0) for name in sorted(PLAYED[0])] + [(name, 1) for name in sorted(PLAYED[1])]
CASES += [(name, 2) for name in sorted(PLAYED[2] - PLAYED[1])]
LONG = {("kernel-ldp", 1), ("histogram", 1)}
CASES = [pytest.param(*case, marks=pytest.mark.slow) if case in LONG else case for case in CASES]


@pytest.mark.few_agents
@pytest.mark.wide_at("sw-*-1", "lpct-[pr]-1", "lpdt-1")
@pytest.mark.parametrize(("name", "place"), CASES)
@pytest.mark.filterwarnings("ignore::privbandit_agents.base.guarantee.UnprovenCalibration")
def test_every_agent_plays_arms_that_are_present(name: str, place: int) -> None:
    """In blocks and by steps alike; the world raises an error for any other arm."""
    results = []
    for wrapped in (False, True):
        env: Any = gym.make(**WORLDS[place], horizon=60, available=0.4)
        agent: Any = make(name, env, seed=0)
        env = gym.wrappers.TimeLimit(env, 1000) if wrapped else env
        results.append(play(env, agent, 60, seed=4, by_counts=False))
        if agent.guarantee.notion != "none":
            assert agent.ledger.spent_epsilon(agent.guarantee.delta or 1e-5) <= (agent.guarantee.epsilon or 1e9) + 1e-9
    assert np.array_equal(results[0].regret, results[1].regret)


@pytest.mark.wide_at("linucb")
@pytest.mark.parametrize("name", ["linucb", "jdp-linucb", "ldp-greedy"])
def test_agents_learn_where_arms_come_and_go(name: str) -> None:
    """Half of the uniform agent's regret, at a tenth of it by 1 % chance if nothing were learnt."""
    env = gym.make(LINEAR, n_arms=6, dim=3, available=0.5, horizon=3000, instance_seed=1)
    settings = {} if name == "linucb" else {"epsilon": 8.0}
    regrets = [
        play(env, make(one, env, seed=1, **given), seed=1).regret[-1]
        for one, given in ((name, settings), ("uniform", {}))
    ]
    assert regrets[0] < 0.5 * regrets[1]


def test_uniform_play_is_uniform_over_the_arms_that_are_present() -> None:
    env = gym.make(LINEAR, n_arms=4, dim=2)
    agent = make("uniform", env, seed=0)
    masks = np.tile([True, False, True, True], (6000, 1))
    _, arms = choose_present(agent, np.zeros((6000, 4, 2)), masks)
    counts = np.bincount(np.asarray(arms), minlength=4)
    assert counts[1] == 0 and (np.abs(counts[[0, 2, 3]] - 2000) < 5 * np.sqrt(6000 * 2 / 9)).all()
    assert agent.visit == (None, None) and "visit" not in str(agent.state())


@pytest.mark.wide
@pytest.mark.parametrize(("name", "world"), [("ppo", LINEAR), ("dqn", LABELS)])
def test_agents_of_reinforcement_learning_play_too(name: str, world: str) -> None:
    pytest.importorskip("stable_baselines3")
    env = gym.make(world, horizon=256, available=0.5)
    assert play(env, make(name, env, seed=0), 256, seed=0).regret[-1] > 0


@pytest.mark.wide
def test_maskable_algorithms_find_the_masks() -> None:
    pytest.importorskip("stable_baselines3")
    from privbandit_agents.baselines.rl import to_sb3
    from stable_baselines3.common.vec_env import DummyVecEnv

    ours = to_sb3(gym.make_vec(LINEAR, num_envs=3, n_arms=4, dim=2, available=0.4))
    theirs = DummyVecEnv([lambda: gym.make(LINEAR, n_arms=4, dim=2, available=0.4)])
    for users in (ours, theirs):
        users.seed(0)
        users.reset()
        for _ in range(20):
            assert users.has_attr("action_masks")
            masks = np.stack(users.env_method("action_masks"))
            assert masks.shape == (users.num_envs, 4) and masks.dtype == bool and masks.any(axis=1).all()
            users.step(masks.argmax(axis=1))


def test_weights_of_right_answers_know_which_labels_are_played_for_an_absent_guess() -> None:
    """The guess itself, any label that is present if it is absent, and each of several best guesses by its share."""
    agent = make("histogram", gym.make(LABELS, source="wine"), seed=0, depth=1)
    masks = np.array([[True, False, True], [True, True, True], [False, True, True]])
    played = []
    for guesses in ([1, 1, 0], [-1, -1, -1]):
        agent.guess = lambda contexts, guesses=guesses: np.array(guesses)  # type: ignore[attr-defined]
        agent.several = lambda contexts: np.array([[True, True, False]] * len(contexts))  # type: ignore[attr-defined]
        played.append(agent.played(np.zeros((3, 13)), masks).tolist())  # type: ignore[attr-defined]
    assert played[0] == [[0.5, 0, 0.5], [0, 1, 0], [0, 0.5, 0.5]]
    assert played[1] == [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0]]


@pytest.mark.parametrize("name", ["jdp-linucb", "ldp-greedy", "lpct"])
def test_an_agent_that_keeps_something_else_as_the_visit_is_refused(name: str) -> None:
    """Where masks come with visits; who is served is public, and what an agent keeps may not be."""
    kind = AGENTS[name].load()

    class Own(kind):  # type: ignore[misc, valid-type]
        def frozen_rounds(self) -> int:
            self.visit = 0
            return 1

    env = gym.make(**(WORLDS[2] if name == "lpct" else WORLDS[0]), horizon=10, available=0.5)
    agent = make(name, env, seed=0)
    public = (env.unwrapped.public_data,) if agent.uses_public_data else ()  # type: ignore[attr-defined]
    own = Own(agent.observation_space, agent.action_space, agent.config, None, *public)
    with pytest.raises(TypeError, match=r"Own\.visit belongs to the base class"):
        play(env, own, 10, seed=0)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, ValueError])
def test_nobody_is_served_after_an_interrupt(raised: type[BaseException]) -> None:
    """The mask and the person of a visit that was interrupted are not those of the next one."""
    env = gym.make(**WORLDS[0])
    agent: Any = make("ldp-greedy", env, seed=0, people=5)
    mask = np.array([[True] + [False] * (int(agent.action_space.n) - 1)])
    with pytest.raises(raised), serving(agent, mask, np.array([3])):
        assert agent.visit.mask is agent.ties.present is mask and agent.visit.person == 3
        with serving(agent):
            assert agent.visit == (None, None) and agent.ties.present is None
        assert agent.ties.present is mask
        raise raised
    assert agent.visit == (None, None) and agent.ties.present is None


@pytest.mark.parametrize("name", ["jdp-linucb", "shuffle-linucb", "dp-dqn", "ldp-clicks"])
def test_private_agents_play_the_best_arm_that_is_present_of_those_that_share_a_context(name: str) -> None:
    """At epsilon = 1000 and 3000 users with half of four arms each, two seeds, as shares of uniform play's regret."""
    regret = {}
    for other in (name, "uniform"):
        regret[other] = 0.0
        for seed in (0, 1):
            env = gym.make("privbandit/Clicks-v0", n_arms=4, dim=2, scale=1.5, horizon=3000, available=0.5)
            config = {} if other == "uniform" else {"epsilon": 1000.0}
            regret[other] += float(play(env, make(other, env, seed=seed, **config), seed=seed).regret[-1])
    assert regret[name] < (0.6 if name == "ldp-clicks" else 0.25) * regret["uniform"]  # public arms cost regret


def test_a_visit_that_an_interrupt_kept_ends_with_the_next() -> None:
    env = gym.make(LINEAR, n_arms=3, dim=2, horizon=100)
    agent = make("linucb", env, seed=0)
    contexts, mask = np.zeros((60, 3, 2)), np.array([True, False, False])
    kept = serving(agent, mask, 7)
    kept.__enter__()
    twin = copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))
    assert all(one.visit == Visit() and one.ties.present is None for one in twin)
    assert set(choose(agent, contexts, None)[1].tolist()) == {0, 1, 2} and agent.visit == Visit()
    with serving(agent, mask):
        kept = serving(agent, ~mask)
    kept.__exit__(None, None, None)
    learn(agent, contexts[0], 0, 0.5, None)
    assert agent.visit == Visit() and agent.ties.present is None
