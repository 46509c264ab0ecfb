"""What is saved of a private agent, and what two agents made of one file have in common."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Space
from numpy.random import Generator
from privbandit_agents import LocalAgent, load, make, play, register_agent, save
from privbandit_agents.audits.registry import private_agents
from privbandit_agents.base import state
from privbandit_agents.joint.settings import COUNTERS
from privbandit_agents.local.linear.ldp_greedy import LDPGreedy
from privbandit_agents.testing.runs import same_state
from privbandit_agents.testing.twins import check_local
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import can_play, find

LINEAR = "privbandit/Linear-v0"
WORLDS = [LINEAR, "privbandit/Classification-v0", "privbandit/Assortment-v0", "privbandit/SparseLinear-v0"]
WORLDS += ["privbandit/Bandit-v0"]
LOCAL = [name for name in private_agents() if issubclass(find(name).load(), LocalAgent)]


def world_of(name: str) -> Any:
    envs = (gym.make(world, horizon=400) for world in WORLDS)
    return next(env for env in envs if can_play(name, env))


def generators(thing: Any, seen: set[int]) -> Iterator[Generator]:
    """Yield every generator that can be reached from an object."""
    if id(thing) in seen or isinstance(thing, Space | type):
        return
    seen.add(id(thing))
    if isinstance(thing, Generator):
        yield thing
    inner = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, tuple | list) else ()
    for value in [*inner, *getattr(thing, "__dict__", {}).values()]:
        yield from generators(value, seen)


def origins(agent: Any) -> list[tuple[int, tuple[int, ...]]]:
    seeds: Any = [generator.bit_generator.seed_seq for generator in generators(agent, set())]
    return [(seed.entropy, seed.spawn_key) for seed in seeds]


@pytest.mark.every_agent
@pytest.mark.parametrize("name", private_agents())
def test_without_a_seed_every_generator_has_a_key_of_its_own(name: str) -> None:
    """A generator that is spawned from another one's key tells that key to whoever sees its state."""
    found = origins(make(name, world_of(name)))
    assert found and len({entropy for entropy, _ in found}) == len(found)
    assert not any(spawned for _, spawned in found)


@pytest.mark.every_agent
@pytest.mark.parametrize("name", private_agents())
def test_a_loaded_private_agent_has_no_old_key(name: str, tmp_path: Path) -> None:
    env = world_of(name)
    agent = make(name, env, seed=3)
    save(agent, tmp_path / "agent.npz")
    old = {generator.bit_generator.state["state"]["inc"] for generator in generators(agent, set())}
    forks = [load(tmp_path / "agent.npz", env) for _ in range(2)]
    new = [generator.bit_generator.state["state"]["inc"] for fork in forks for generator in generators(fork, set())]
    assert len(set(new)) == len(new) and not old & set(new)


@pytest.mark.every_agent
@pytest.mark.wide_at("smooth-ldp", "kernel-ldp", "ldp-mnl")
@pytest.mark.parametrize("name", LOCAL)
def test_the_state_of_a_local_agent_has_nothing_of_its_devices(name: str, tmp_path: Path) -> None:
    """Its file is the same whatever the devices drew, and has neither their generator nor one they share."""
    env = world_of(name)
    agent: Any = make(name, env, seed=3)
    play(env, agent, 60, seed=0)
    save(agent, tmp_path / "before.npz")
    contexts = env.unwrapped.upcoming(5)
    actions = np.asarray(agent.select_action(contexts))
    save(agent, tmp_path / "before.npz")
    report = agent.randomize(contexts, actions, env.unwrapped.serve(actions).feedback)
    save(agent, tmp_path / "after.npz")
    assert len(report) and (tmp_path / "before.npz").read_bytes() == (tmp_path / "after.npz").read_bytes()
    _, values = state.read(tmp_path / "after.npz")
    assert str(agent.rng.bit_generator.state["state"]["inc"]) not in str(values)


def test_damage_to_a_saved_agent_never_goes_unnoticed(tmp_path: Path) -> None:
    env = gym.make(LINEAR, dim=2, horizon=50)
    agent, path = make("jdp-linucb", env, seed=1), tmp_path / "agent.npz"
    play(env, agent, 20, seed=0)
    save(agent, path)
    raw = path.read_bytes()
    refused = 0
    for position in range(0, len(raw), 61):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        try:
            loaded = load(path, env, fork=False)
            assert same_state(loaded, agent)  # harmless where the bit is in a part that is not read
        except ValueError as error:
            assert str(path) in str(error) and "\n" not in str(error)
            refused += 1
    assert refused > 50
    for text, message in (
        (b"", "is damaged, or is no saved agent: "),
        (raw[:-100], "is damaged"),
        (raw[:50], "is damaged"),
    ):
        path.write_bytes(text)
        with pytest.raises(ValueError, match=message):
            load(path, env)
    state.write(path, {}, {"header": 3})
    with pytest.raises(ValueError, match="is no saved agent"):
        load(path, env)


def test_a_state_of_another_version_is_refused(tmp_path: Path) -> None:
    env = gym.make(LINEAR, dim=2, horizon=50)
    save(make("ldp-greedy", env), tmp_path / "agent.npz")
    arrays, values = state.read(tmp_path / "agent.npz")
    for changed in ({**values["state"], "rng": 3}, {}, {**values["state"], "ledger._people": {"a": "b"}}):
        state.write(tmp_path / "agent.npz", arrays, {**values, "state": changed})
        with pytest.raises(ValueError, match=r"agent.npz was saved by another version of ldp-greedy: [^\n]*$"):
            load(tmp_path / "agent.npz", env)


def test_a_setting_that_the_agent_has_no_longer_is_named(tmp_path: Path) -> None:
    env = gym.make("privbandit/Classification-v0", horizon=50)
    save(make("kernel-ldp", env), tmp_path / "agent.npz")
    arrays, values = state.read(tmp_path / "agent.npz")
    values["header"]["config"]["memory"] = None
    state.write(tmp_path / "agent.npz", arrays, values)
    with pytest.raises(ValueError, match=r"kernel-ldp has no setting 'memory'[^\n]*$"):
        load(tmp_path / "agent.npz", env)


def test_an_agent_without_privacy_goes_on_as_it_was(tmp_path: Path) -> None:
    env = gym.make(LINEAR, dim=3, horizon=300)
    agent = make("epsilon-greedy", env, seed=1, exploration=0.5)
    save(agent, tmp_path / "agent.npz")
    first, again = (play(env, one, seed=1).regret for one in (agent, load(tmp_path / "agent.npz", env)))
    assert np.array_equal(first, again)


@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
def test_two_continuations_share_no_noise_from_the_very_next_release_on(counter: str, tmp_path: Path) -> None:
    """Between two forks of a counter there is noise; between two twins there are the exact sums."""
    env = gym.make(LINEAR, dim=2, n_arms=2, horizon=400)
    agent: Any = make("jdp-linucb", env, seed=1, counter=counter, growth=1.0001)
    play(env, agent, 40, seed=0)
    save(agent, tmp_path / "agent.npz")
    forks: list[Any] = [load(tmp_path / "agent.npz", env) for _ in range(2)]
    twins: list[Any] = [load(tmp_path / "agent.npz", env, fork=False) for _ in range(2)]
    own = agent.schedule.counter
    terms = np.zeros((1, own.dim))
    one, other = (fork.schedule.counter.extend(terms) for fork in forks)
    assert (np.abs(one - other) > 1e-9 * own.scale).all()
    one, other = (twin.schedule.counter.extend(terms) for twin in twins)
    assert np.array_equal(one, other) and np.array_equal(one, own.extend(terms))


@pytest.mark.parametrize("counter", ["tree", "toeplitz", "buffered"])
def test_one_seed_at_two_budgets_reveals_exact_sums(counter: str) -> None:
    """Why seeds are for simulations; without one the same computation gives noise. It is that of counters in floats."""
    terms = np.ones((9, 5)).cumsum(axis=1) / 9
    errors = []
    for seed in (1, None):
        one, other = (COUNTERS[counter](9, 5, 2.0, rho, np.random.default_rng(seed)) for rho in (0.1, 0.4))
        s, t = one.scale, other.scale
        first, second = (made.extend(terms)[-1] for made in (one, other))
        errors.append(np.abs((s * second - t * first) / (s - t) - terms.sum(axis=0)).max())
    assert errors[0] < 1e-10 and errors[1] > 1e-3


class Leaky(LDPGreedy):
    """Its devices' generator is part of the state."""

    fixed = LDPGreedy.fixed - {"rng"}


class Greedy(LDPGreedy):
    """Its server draws from the devices' generator."""

    def select_action(self, context: Any) -> Any:
        self.rng.random()
        return super().select_action(context)


class Absorbing(LDPGreedy):
    def absorb(self, report: Any) -> None:
        super().absorb(report + self.rng.normal(size=report.shape))


class Hoarding(LDPGreedy):
    """Its devices draw from a generator that is the server's."""

    def begin(self) -> None:
        super().begin()
        self.rng_noise = self.rng.spawn(1)[0]

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        return self.inputs(context, action, feedback).randomize(self.rng_noise)


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (Leaky, "fixed does not name rng"),
        (Greedy, "select_action() drew from rng, which is the devices'"),
        (Absorbing, "absorb() drew from rng, which is the devices'"),
        (Hoarding, "randomize() changed more than rng"),
    ],
)
def test_the_suite_finds_a_server_with_the_devices_key(agent: type[Any], message: str) -> None:
    register_agent("with-keys", f"{__name__}:{agent.__name__}")
    try:
        with pytest.raises(AssertionError) as error:
            check_local("with-keys", LINEAR, 60, {})
        assert message in str(error.value)
    finally:
        del AGENTS["with-keys"]


def test_reports_cannot_be_undone_by_what_the_server_has(tmp_path: Path) -> None:
    """The file and the report are all there is: no generator that is made of the file draws the report's noise."""
    env = gym.make(LINEAR, dim=2, horizon=50)
    agent: Any = make("input-perturbation", env)
    save(agent, tmp_path / "agent.npz")
    record = np.zeros((10, 2)), 0, 0.0
    report = agent.randomize(*record)
    server: Any = load(tmp_path / "agent.npz", env, fork=False)
    for generator in generators(server, set()):
        server.rng = copy.deepcopy(generator)
        assert not np.allclose(server.randomize(*record), report)
    assert math.isfinite(np.abs(report).max())
