"""The conformance suite of agents, for this package's and for outsiders' alike.

Register an agent, then call ``check_agent("mine", "privbandit/Linear-v0")`` in a test, or parametrise over ``CHECKS``
for one test a check.
"""

import copy
import dataclasses
import math
import pickle
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import privbandit_envs  # noqa: F401  (registers the environments)
from privbandit_agents.base.agent import AnyAgent, CentralAgent, LocalAgent
from privbandit_agents.base.learning import LearningAgent
from privbandit_agents.base.records import IgnoredRecord
from privbandit_agents.hostile import PARTS, SECRET, Attack, Record, attacks, finite, in_group, misfits
from privbandit_agents.play import Result, play
from privbandit_agents.registry import find, make
from privbandit_agents.saving import load, save

HORIZON = 300
FORKS = 6
"""Continuations of one agent; two of them can be equal by chance where a release has few values."""
Check = Callable[[str, str, int, dict[str, Any]], None]
Parts = tuple[dict[str, Any], dict[str, Any]]


def check_agent(name: str, env_id: str, horizon: int = HORIZON, **config: Any) -> None:
    """Run every check on a registered agent.

    Args:
        name: as for ``make``.
        env_id: an environment that the agent plays.
        horizon: length of the runs.
        **config: settings of the agent.

    Raises:
        AssertionError: a check failed; the message says what was expected.
    """
    for check in checks_for(name):
        check(name, env_id, horizon, config)


def check_seeds(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """The same seeds give the same run; an agent that draws random numbers draws others for another seed."""
    (first, agent), (again, _) = (run(name, env_id, horizon, config) for _ in range(2))
    assert np.array_equal(first.regret, again.regret), "equal seeds gave different runs"
    env = environment(env_id, horizon)
    if agent.rng.bit_generator.state == make(name, env, seed=1, **config).rng.bit_generator.state:
        return  # it drew nothing
    other = make(name, env, seed=2, **config)
    play(env, other, horizon, seed=1)
    assert agent.rng.bit_generator.state != other.rng.bit_generator.state, "the agent's seed is not used"


def check_actions(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Actions lie in the action space, for one user and for many."""
    env = environment(env_id, horizon)
    _, agent = run(name, env_id, horizon, config)
    env.reset(seed=2)
    contexts = env.upcoming(9)
    assert env.action_space.contains(agent.select_action(contexts[0])), "an action outside the action space"
    actions = np.asarray(agent.select_action(contexts))
    assert len(actions) == 9, "not one action a user"
    assert all(env.action_space.contains(action) for action in actions), "an action outside the action space"


def check_frozen(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Blocks of frozen rounds and single steps lead to the same run and the same agent, bit for bit."""
    blocks, agent = run(name, env_id, horizon, config)
    steps, stepped = run(name, env_id, horizon, config, wrapper=gym.Wrapper)
    assert np.array_equal(blocks.regret, steps.regret), "the block path and the step path differ"
    assert np.array_equal(blocks.reward, steps.reward), "the block path and the step path differ"
    assert same_state(agent, stepped), "the block path and the step path leave different agents"
    assert agent.frozen_rounds() >= 1, "frozen_rounds() below 1"


def check_resume(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """An agent that was saved and loaded with ``fork=False`` goes on bit for bit, and its file needs no pickle."""
    env = environment(env_id, horizon)
    agent = make(name, env, seed=3, **config)
    context, _ = env.reset(seed=3)
    context = go_on(env, agent, context, horizon // 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        save(agent, path)
        again = load(path, env, fork=False)
    if isinstance(agent, LocalAgent) and isinstance(again, LocalAgent):
        again.restore_devices(agent.devices_state())
    assert same_state(agent, again), "load() returned another state"
    other = pickle.loads(pickle.dumps(env))
    go_on(env, agent, context, horizon // 4)
    go_on(other, again, context, horizon // 4)
    assert same_state(agent, again), "the loaded agent went another way"


def check_forks(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Two continuations of one saved private agent share no noise; they do if that was asked for."""
    env = environment(env_id, horizon)
    agent = make(name, env, seed=11, **config)
    if agent.guarantee.notion == "none":
        return
    env.reset(seed=11)
    serve(env, [agent], horizon // 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        save(agent, path)
        forks = [load(path, env) for _ in range(FORKS)]
        twins = [load(path, env, fork=False) for _ in range(2)]
    for one in [*forks, *twins]:
        assert alike(released(agent), released(one)), "load() changed what was released"
    old, new = keys(agent), [key for fork in forks for key in keys(fork)]
    assert not any(key in old for key in new), "load() left a generator of the state as it was"
    if isinstance(agent, LocalAgent):
        for twin in twins:
            twin.restore_devices(agent.devices_state())  # type: ignore[attr-defined]
    agents = [agent, *forks, *twins]
    made = made_by(env, agents, 2 * horizon - horizon // 2)
    own, by_forks, by_twins = made[0], made[1 : 1 + FORKS], made[1 + FORKS :]
    assert not all(alike(by_forks[0], one) for one in by_forks), "continuations of one saved agent share their noise"
    assert not all(alike(own, one) for one in by_forks), "a continuation of a saved agent shares its noise"
    assert all(alike(own, one) for one in by_twins), "fork=False draws other noise"


def check_hostile_records(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """What is no number counts as NaN, user by user; no record stops, poisons or delays anybody, or is shown."""
    env = environment(env_id, horizon)
    env.reset(seed=6)
    contexts = env.upcoming(60)
    actions = np.asarray(make(name, env, seed=6, **config).select_action(contexts))
    group = contexts, actions, env.serve(actions).feedback
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", IgnoredRecord)
        for part in range(3):
            for no_number in (True, False):
                sent = [one for one in attacks(first(group)) if (one.part, one.no_number) == (part, no_number)]
                agent, twin = (make(name, env, seed=6, **config) for _ in range(2))
                attack_groups(agent, twin, group, sent)
        attack_alone(make(name, env, seed=6, **config), first(group))
        refuse_misfits(make(name, env, seed=6, **config), first(group))


def attack_groups(agent: AnyAgent, twin: AnyAgent, group: Record, sent: list[Attack]) -> None:
    """Let every other user of a group attack; the twin gets NaN in their place."""
    wild, tame, what = in_group(group, sent), in_group(group, sent, harmless=True), PARTS[sent[0].part]
    served, expected = np.asarray(agent.select_action(wild[0])), np.asarray(twin.select_action(tame[0]))
    honest = [user for user in range(len(served)) if user % 2 or user >= 2 * len(sent)]
    assert all(agent.action_space.contains(action) for action in served), "an action outside the action space"
    assert np.array_equal(served[honest], expected[honest]), "a hostile context changed another user's action"
    agent.update(*wild)
    twin.update(*tame)
    assert finite(agent), f"a hostile {what} left a state that is not finite"
    assert agent.frozen_rounds() == twin.frozen_rounds(), f"when the policy changes depends on a hostile {what}"
    assert not sent[0].no_number or same_state(agent, twin), f"a hostile {what} that is no number does not count as NaN"


def attack_alone(agent: AnyAgent, user: Record) -> None:
    """Let one user attack after the other."""
    for attack in attacks(user):
        wild = attack.on(user)
        assert agent.action_space.contains(agent.select_action(wild[0])), f"no valid action for a hostile {attack.name}"
        agent.update(*wild)
        assert finite(agent), f"a hostile {attack.name} left a state that is not finite"


def refuse_misfits(agent: AnyAgent, user: Record) -> None:
    """Send one context with several actions or answers, and contexts of other shapes: nothing is taken in of them."""
    for attack in misfits(user):
        before = without_generators(agent)
        try:
            agent.update(*attack.on(user))
        except ValueError as error:
            assert SECRET not in str(error), "an error shows a value of a record"
        assert same_parts(before, without_generators(agent)), f"{attack.name} left a trace"


def first(group: Record) -> Record:
    """Return the record of a group's first user."""
    return group[0][0], group[1][0], group[2][0]


def check_budgets(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """A private agent states its guarantee, spends no more than it, and runs at epsilon 0.001, 1000 and infinity."""
    agent = make(name, environment(env_id, horizon), seed=5, **config)
    if agent.guarantee.notion == "none":
        return
    assert isinstance(agent, LocalAgent | CentralAgent), "a private agent is a LocalAgent or a CentralAgent"
    for epsilon in (1e-3, 1.0, 1000.0, math.inf):
        _, private = run(name, env_id, horizon, {**config, "epsilon": epsilon})
        assert isinstance(private, LocalAgent | CentralAgent)
        assert private.guarantee.epsilon == epsilon, "the guarantee is not the declared one"
        assert private.guarantee.proven and private.guarantee.protects and private.guarantee.reference
        spent = private.ledger.spent_epsilon(private.guarantee.delta)
        assert spent <= epsilon * (1 + 1e-6), f"epsilon {spent} was spent of {epsilon}"
        assert spent > 0, "nothing was entered in the ledger"


def check_local(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """The server of a LocalAgent sees reports alone: they decide everything, and making one changes nothing else.

    The devices' generator, ``rng``, is for reports alone, and is not in the server's state.
    """
    env = environment(env_id, horizon)
    agent, other = (make(name, env, seed=6, **config) for _ in range(2))
    if not isinstance(agent, LocalAgent) or not isinstance(other, LocalAgent):
        return
    env.reset(seed=6)
    contexts = env.upcoming(40)
    devices = agent.devices_state()
    actions = np.asarray(agent.select_action(contexts))
    assert agent.devices_state() == devices, "select_action() drew from rng, which is the devices'; spawn another one"
    feedback = env.serve(actions).feedback
    before = parts(agent)
    report = agent.randomize(contexts, actions, feedback)
    assert same_parts(before, parts(agent)), "randomize() changed more than rng, or fixed does not name rng"
    devices = agent.devices_state()
    agent.absorb(report)
    assert agent.devices_state() == devices, "absorb() drew from rng, which is the devices'; spawn another one"
    other.absorb(pickle.loads(pickle.dumps(report)))
    probe = env.upcoming(horizon - 40)
    same = np.array_equal(agent.select_action(probe), other.select_action(probe))
    assert same, "a server that saw the same reports acts otherwise: it has seen something else"


def check_central(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Two CentralAgents with different raw data and equal releases act alike."""
    env = environment(env_id, horizon)
    if not issubclass(find(name).load(), CentralAgent):
        return
    agents = [make(name, env, seed=7, **{**config, "epsilon": 1000.0}) for _ in range(2)]
    one, other = agents
    assert isinstance(one, CentralAgent) and isinstance(other, CentralAgent)
    for seed, agent in enumerate(agents):
        context, _ = env.reset(seed=8 + seed)
        go_on(env, agent, context, horizon)
    env.reset(seed=10)
    probe = env.upcoming(horizon)
    assert not np.array_equal(one.select_action(probe), other.select_action(probe)), "the agent has learned nothing"
    other.release = one.release
    same = np.array_equal(one.select_action(probe), other.select_action(probe))
    assert same, "actions depend on more than the release"


CHECKS: tuple[Check, ...] = (
    check_seeds,
    check_actions,
    check_frozen,
    check_resume,
    check_forks,
    check_hostile_records,
    check_budgets,
    check_local,
    check_central,
)
LEARNER_CHECKS = (check_seeds, check_actions)
"""Checks for agents that own their loop."""


def checks_for(name: str) -> tuple[Check, ...]:
    return LEARNER_CHECKS if issubclass(find(name).load(), LearningAgent) else CHECKS


def environment(env_id: str, horizon: int) -> Any:
    return gym.make(env_id, horizon=2 * horizon).unwrapped


def run(
    name: str, env_id: str, horizon: int, config: dict[str, Any], wrapper: Callable[[Any], Any] = lambda env: env
) -> tuple[Result, AnyAgent]:
    """Play once: (result, the agent afterwards)."""
    env = wrapper(environment(env_id, horizon))
    agent = make(name, env, seed=1, **config)
    return play(env, agent, horizon, seed=1), agent


def go_on(env: Any, agent: AnyAgent, context: Any, rounds: int) -> Any:
    for _ in range(rounds):
        action = agent.select_action(context)
        following, _, _, _, info = env.step(action)
        agent.update(context, action, info["feedback"])
        context = following
    return context


def serve(env: Any, agents: Sequence[AnyAgent], users: int) -> None:
    """Let the first agent choose for so many users, and all of them learn from the same records."""
    while users:
        n = min(agents[0].frozen_rounds(), users)
        contexts = env.upcoming(n)
        actions = np.asarray(agents[0].select_action(contexts))
        feedback = env.serve(actions).feedback
        for agent in agents:
            agent.update(contexts, actions, feedback)
        users -= n


def made_by(env: Any, agents: Sequence[AnyAgent], users: int) -> list[Any]:
    """Return what each agent makes of the same users next: their reports, or the next release."""
    if isinstance(agents[0], LocalAgent):
        contexts = env.upcoming(40)
        actions = np.asarray(agents[0].select_action(contexts))
        feedback = env.serve(actions).feedback
        return [agent.randomize(contexts, actions, feedback) for agent in agents]  # type: ignore[attr-defined]
    before = copy.deepcopy(released(agents[0]))
    while users and alike(before, released(agents[0])):
        n = min(agents[0].frozen_rounds(), users)
        serve(env, agents, n)
        users -= n
    return [released(agent) for agent in agents]


def released(agent: AnyAgent) -> Any:
    return getattr(agent, "release", None)


def alike(one: Any, other: Any) -> bool:
    """Return whether two reports or releases are equal: arrays, numbers, or objects made of these."""
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(alike, one, other))
    if dataclasses.is_dataclass(one):
        return alike(list(vars(one).values()), list(vars(other).values()))
    return np.array_equal(one, other)


def parts(agent: AnyAgent) -> Parts:
    """Return a copy of an agent's state."""
    arrays, values = agent.state()
    return {key: array.copy() for key, array in arrays.items()}, copy.deepcopy(values)


def keys(agent: AnyAgent) -> list[Any]:
    """Return the states of the generators in an agent's state."""
    return [value["state"] for value in agent.state()[1].values() if is_generator(value)]


def without_generators(agent: AnyAgent) -> Parts:
    """Return a copy of an agent's state but its generators."""
    arrays, values = parts(agent)
    return arrays, {key: value for key, value in values.items() if not is_generator(value)}


def is_generator(value: Any) -> bool:
    return isinstance(value, dict) and "bit_generator" in value


def same_parts(one: Parts, other: Parts) -> bool:
    """Return whether two (arrays, values) agree bit for bit."""
    equal = all(np.array_equal(one[0][key], other[0][key], equal_nan=True) for key in one[0])
    return one[0].keys() == other[0].keys() and one[1] == other[1] and equal


def same_state(one: AnyAgent, other: AnyAgent) -> bool:
    """Return whether two agents, and their simulated devices, have the same state."""
    devices = [agent.devices_state() if isinstance(agent, LocalAgent) else None for agent in (one, other)]
    return same_parts(one.state(), other.state()) and devices[0] == devices[1]
