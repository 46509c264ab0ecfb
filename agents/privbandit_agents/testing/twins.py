"""Servers that got the same reports are one to the world, and two agents share no noise.

The twins of curators, which publish the same, are in ``replay``.
"""

import copy
import math
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.bounds.generators import generators
from privbandit_agents.audits.views.reports import encoded, numbers, pieces
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.playing.saving import load, save
from privbandit_agents.testing.outside import bytes_of, kept_outside, outside, same_outside
from privbandit_agents.testing.replay import limited
from privbandit_agents.testing.runs import Parts, differing_parts, environment, parts, released, serve
from privbandit_agents.zoo.registry import make

ALONE = 400  # users with one record, whose reports show which noise two agents share


def check_local(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Reports decide everything that the server of a LocalAgent or a ShuffleAgent is, does and spends.

    A twin gets the same reports, from devices with other records. All their attributes are then the same but for their
    generators, and neither keeps a record in its class or module, where all agents of a process would find it. The
    devices' generator, ``rng``, is for reports alone.
    """
    env = environment(env_id, horizon)
    agent, twin = (make(name, env, seed=6, **config) for _ in range(2))
    if not isinstance(agent, LocalAgent | ShuffleAgent) or not isinstance(twin, LocalAgent | ShuffleAgent):
        return
    for served in (40, horizon // 2):
        records = []
        for one, seed in ((agent, 6), (twin, 7)):
            env.reset(seed=seed)
            contexts, keys = env.upcoming(served), one.devices_state()
            actions = np.asarray(one.select_action(contexts))
            assert one.devices_state() == keys, (
                "select_action() drew from rng, which is the devices'; write self.rng_choices = self.rng.spawn(1)[0] "
                "in begin(), and draw from that"
            )
            records.append((contexts, actions, env.serve(actions).feedback))
        agree(agent, twin, "select_action() keeps something of a context: ")
        with scripted(agent) as sent:
            agent.update(*records[0])
        ours, keys = kept_outside(agent), twin.devices_state()
        with scripted(twin, sent):
            twin.update(*records[1])
        assert twin.devices_state()["rng"] == keys["rng"], (
            "absorb() drew from rng, which is the devices'; draw from a generator that begin() spawns from it"
        )
        agree(agent, twin, "a server that got the same reports differs, so it has seen a record: ")
        same_outside(ours, kept_outside(twin))
        act_alike(agent, twin, env.upcoming(horizon // 2), "the reports")


@contextmanager
def scripted(agent: Any, script: Sequence[Any] | None = None) -> Iterator[list[Any]]:
    """Yield the reports that an agent's devices send meanwhile; with a script these leave in place of their own.

    Devices that send their own may change nothing that the server saves.
    """
    sent: list[Any] = []
    honest = agent.randomize

    def randomize(*records: Any) -> Any:
        keys, before = agent.rng.bit_generator.state, parts(agent)
        made = honest(*records)
        if script is None:
            nothing_kept(agent, before)
        else:
            made = script[len(sent)]
            agent.rng.bit_generator.state = keys
        sent.append(made)
        return made

    agent.randomize = randomize
    try:
        yield sent
    finally:
        del agent.randomize


def nothing_kept(agent: Any, before: Parts) -> None:
    """Fail if an agent that made reports has another state than before."""
    kept = differing_parts(before, parts(agent))
    assert "rng" not in kept, "fixed does not name rng, so that the server saves the devices' key"
    assert not kept, f"randomize() changed more than rng: self.{', self.'.join(kept)}; change it in absorb() alone"


def agree(agent: Any, twin: Any, what: str) -> None:
    """Fail unless two servers have the same attributes, but for generators and what an agent gets from outside."""
    sides = []
    for one in (agent, twin):
        own = {key: value for key, value in vars(one).items() if key not in LocalAgent.fixed | {"shuffler", "ties"}}
        sides.append({key: there for key, value in own.items() if (there := bytes_of(value)) is not None})
    differ = sorted(key for key in sides[0].keys() | sides[1].keys() if sides[0].get(key) != sides[1].get(key))
    assert not differ, f"{what}self.{', self.'.join(differ)}; change it in absorb() alone"


def act_alike(agent: Any, twin: Any, probes: Any, told: str) -> None:
    """Fail unless two agents act alike; they draw the same then, as anybody may know how a server chooses."""
    for path, own in generators(vars(agent)).items():
        other = generators(vars(twin)).get(path)
        if isinstance(own, Generator) and isinstance(other, Generator):
            other.bit_generator.state = own.bit_generator.state
    same = encoded(agent.select_action(probes)) == encoded(twin.select_action(probes))
    assert same, f"actions depend on more than the release: {told}"


def check_keys(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Two agents without a seed draw other noise, in all parts of their reports or releases.

    They are made anew, or loaded from one file.
    """
    env = environment(env_id, horizon)
    agent = make(name, env, seed=11, **config)
    if agent.guarantee.notion == "none" or not limited(agent):
        return
    apart(env, [make(name, env, **config) for _ in range(2)], horizon, "two agents without a seed share")
    env.reset(seed=11)
    serve(env, [agent], horizon // 2)
    with tempfile.TemporaryDirectory() as folder:
        save(agent, path := Path(folder) / "agent.npz")
        forks = [load(path, env) for _ in range(2)]
    apart(env, forks, horizon, "continuations of one saved agent share")


def apart(env: Any, agents: list[Any], horizon: int, share: str) -> None:
    """Fail if two agents draw the same noise, or part of it."""
    own = [generators(vars(agent)) | generators(dict(outside(agent)), "") for agent in agents]
    sources = [one | {"random": random, "numpy.random": np.random} for one in own]
    before = [{path: state_of(source) for path, source in one.items()} for one in sources]
    made, again = list[Any](), () if isinstance(agents[0], CentralAgent) else (copy.deepcopy(agents[0]),)
    for agent in (*agents, *again):  # generators of classes and modules begin alike, as in two processes
        for path, source in sources[0].items():
            if not path.startswith("self"):
                put(source, before[0][path])
        made.append(first_made(env, agent, horizon, 1 if agent in agents else 20))
    known = f"noise that {share}, so that others know it; draw it from self.rng, or from what begin() spawns from it"
    for path in sources[0].keys() & sources[1].keys():
        public = encoded(before[0][path]) == encoded(before[1][path])
        moved = encoded(state_of(sources[0][path])) != encoded(before[0][path])
        assert not (public and moved), f"{path} draws {known}"
    if any(one is None for one in made):
        return
    drawn = [piece for piece in pieces(made[0]) if isinstance(piece, np.ndarray)]
    few = all(one.dtype.kind != "f" or bool((one == np.floor(one)).all()) for one in drawn)
    # a curator's whole numbers may well repeat, and those of devices with a large budget, or zeros
    silent = few and (isinstance(agents[0], CentralAgent) or (agents[0].guarantee.epsilon or math.inf) > 4.0)
    silent |= few and not any(np.any(one) for one in drawn if one.dtype.kind in "biuf")
    assert silent or encoded(made[0]) != encoded(made[1]), f"all is {known}"
    place = None if isinstance(agents[0], CentralAgent) else shared(*made)
    assert place is None, f"number {place} of a report has {known}"


def first_made(env: Any, agent: Any, horizon: int, records: int) -> Any:
    """Return the reports of users with so many records, or a curator's next release; None if it makes none."""
    env.reset(seed=11)
    if isinstance(agent, CentralAgent):
        before, users = encoded(released(agent)), 2 * horizon
        while users > 0 and encoded(released(agent)) == before:
            serve(env, [agent], n := min(agent.frozen_rounds(), users))
            users -= n
        return None if encoded(released(agent)) == before else released(agent)
    contexts = env.upcoming(records)
    actions = np.asarray(agent.select_action(contexts))
    sent = agent.records_of(contexts, actions, env.serve(actions).feedback)
    return agent.randomize(*(np.repeat(part, ALONE // records, axis=0) for part in sent))


def shared(one: Any, other: Any, elsewhere: Any) -> int | None:
    """Return which number has noise that hangs together in the reports of two agents' devices; None if none has.

    Zeros are left out, and numbers that few users decide, or that are the same for other records, ``elsewhere``, as
    public numbers hide nothing. Honest devices are accused once in a million.
    """
    *rows, others = (numbers(sent, ALONE) for sent in (one, other, elsewhere))
    width = min(side.shape[1] for side in rows)
    for place in range(width):
        if place < others.shape[1] and np.array_equal(rows[0][:, place], others[:, place]):
            continue
        two = np.stack([side[:, place] for side in rows])
        two = two[:, (two != 0).all(axis=0)]
        if two.shape[1] >= ALONE // 4 and (np.ptp(two, axis=1) > 1e-9).all():
            two = (two - two.mean(axis=1, keepdims=True)) / two.std(axis=1, keepdims=True)
            deviations = abs(float(two.prod(axis=0).sum())) / math.sqrt(two.shape[1])
            if (two**4).mean() < ALONE / 40 and deviations > 5 + math.sqrt(2 * math.log(width)):
                return place
    return None


def state_of(source: Any) -> Any:
    if isinstance(source, Generator):
        return copy.deepcopy(source.bit_generator.state)
    return source.getstate() if source is random else source.get_state()


def put(source: Any, state: Any) -> None:
    if isinstance(source, Generator):
        source.bit_generator.state = state
    else:
        (source.setstate if source is random else source.set_state)(state)
