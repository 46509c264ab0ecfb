"""Checks of private agents: budgets, who sees what, and keys that are used once."""

import math
import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from privbandit_agents.audits.views.reports import encoded, pieces
from privbandit_agents.base.agent import AnyAgent, CentralAgent, Devices, LocalAgent
from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.playing.saving import load, save
from privbandit_agents.testing.replay import NotSeen
from privbandit_agents.testing.runs import (
    environment,
    go_on,
    keys,
    made_by,
    parts,
    released,
    run,
    said_by,
    same_parts,
    serve,
    without_generators,
)
from privbandit_agents.zoo.registry import field_names, find, make


def check_budgets(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """A private agent states its guarantee, spends no more than it, and runs at epsilon 0.001, 1000 and infinity.

    An agent whose setting is rho runs at epsilon^2 / 2 in place of that; one that has neither setting runs as it is.
    """
    agent = make(name, environment(env_id, horizon), seed=5, **config)
    if agent.guarantee.notion == "none":
        return
    assert isinstance(agent, LocalAgent | ShuffleAgent | CentralAgent), (
        "an agent with a guarantee is a LocalAgent, a ShuffleAgent or a CentralAgent; "
        f"{name} is a {type(agent).__name__}"
    )
    for epsilon in (1e-3, 1.0, 1000.0, math.inf):
        setting = budget_of(name, epsilon)
        with said_by("check_budgets", name, setting):
            _, private = run(name, env_id, horizon, without_budget(config) | setting)
        assert isinstance(private, LocalAgent | ShuffleAgent | CentralAgent)
        assert hasattr(private, "ledger"), (
            f"{name} promises privacy and has no ledger; in begin() write self.ledger = Ledger(epsilon=...)"
        )
        stated = private.guarantee
        promised = stated.rho if stated.epsilon is None else stated.epsilon
        assert promised is not None, "a guarantee of privacy says epsilon or rho; this one says neither"
        told, *_ = [key for key in ("epsilon", "rho") if getattr(stated, key) is not None]
        assert setting.get(told, promised) == promised, (
            f"the guarantee says {told} = {promised} where the setting is {setting[told]}"
        )
        assert stated.proven and stated.protects and stated.reference, (
            f"a guarantee must be proven and say what it protects and where the proof is; got {stated}"
        )
        ledger = private.ledger
        spent = ledger.spent_epsilon(stated.delta) if told == "epsilon" else ledger.spent().as_rho()
        assert spent <= promised * (1 + 1e-6), f"{told} {spent} was spent of {promised}"
        assert spent > 0, (
            f"nothing was entered in the ledger at {setting}; call self.ledger.spend(cost, group=...) before a report "
            "or a release counts"
        )


def budget_of(name: str, epsilon: float) -> dict[str, float]:
    """Return the setting that gives an agent a budget: epsilon, or rho, or none if it has neither."""
    known = field_names(find(name).load().Config)
    values = {"epsilon": epsilon, "rho": epsilon**2 / 2}
    return dict([(key, value) for key, value in values.items() if key in known][:1])


def without_budget(config: dict[str, Any]) -> dict[str, Any]:
    """Return settings without a budget in whatever notion, so that another one may be set."""
    return {key: value for key, value in config.items() if key not in ("epsilon", "rho")}


def check_local(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """The server of a LocalAgent sees reports alone: they decide everything, and making one changes nothing else.

    The devices' generator, ``rng``, is for reports alone, and is not in the server's state. Twins choose for the same
    users, since a server may draw from a generator of its own in order to explore.
    """
    env = environment(env_id, horizon)
    agent, other, stranger = (make(name, env, seed=6, **config) for _ in range(3))
    if not isinstance(agent, LocalAgent) or not isinstance(other, LocalAgent):
        return
    env.reset(seed=6)
    contexts = env.upcoming(40)
    devices = agent.devices_state()
    actions = np.asarray(agent.select_action(contexts))
    assert agent.devices_state() == devices, "select_action() drew from rng, which is the devices'; spawn another one"
    assert np.array_equal(actions, other.select_action(contexts)), "agents of the same seed act otherwise"
    stranger.select_action(contexts[::-1])
    same = same_parts(without_generators(agent), without_generators(stranger))
    assert same, "select_action() keeps something of a context in the server's state"
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
    """Two CentralAgents with different raw data and equal releases act alike.

    Warns with ``NotSeen`` of agents that act alike before, too: they may have learned the same, or nothing yet.
    """
    env = environment(env_id, horizon)
    if not issubclass(find(name).load(), CentralAgent):
        return
    agents = [make(name, env, seed=7, **without_budget(config) | budget_of(name, 1000.0)) for _ in range(2)]
    one, other = agents
    assert isinstance(one, CentralAgent) and isinstance(other, CentralAgent)
    for seed, agent in enumerate(agents):
        context, _ = env.reset(seed=8 + seed)
        go_on(env, agent, context, horizon)
    env.reset(seed=10)
    probe = env.upcoming(horizon)
    if np.array_equal(one.select_action(probe), other.select_action(probe)):
        blind = f"actions of {name} depend on more than the release, as {horizon} users teach two curators the same"
        warnings.warn(f"it was not seen whether {blind}.", NotSeen, stacklevel=3)
        return
    other.release = one.release
    same = np.array_equal(one.select_action(probe), other.select_action(probe))
    assert same, "actions depend on more than the release"


def check_forks(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Two continuations of one saved private agent share no noise; they do if that was asked for."""
    env = environment(env_id, horizon)
    agent = make(name, env, seed=11, **config)
    if agent.guarantee.notion == "none":
        return
    env.reset(seed=11)
    serve(env, [agent], horizon // 2)
    n_forks = 6  # two of them can be equal by chance if a release has few values
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.npz"
        save(agent, path)
        forks = [load(path, env) for _ in range(n_forks)]
        twins = [load(path, env, fork=False) for _ in range(2)]
    for one in [*forks, *twins]:
        assert encoded(released(agent)) == encoded(released(one)), "load() changed what was released"
    old, new = keys(agent), [key for fork in forks for key in keys(fork)]
    assert not any(key in old for key in new), "load() left a generator of the state as it was"
    assert not any(key in new[place + 1 :] for place, key in enumerate(new)), "load() gave two continuations one key"
    if isinstance(agent, Devices):
        for twin in twins:
            twin.restore_devices(agent.devices_state())  # type: ignore[attr-defined]
    agents = [agent, *forks, *twins]
    made = made_by(env, agents, 2 * horizon - horizon // 2)
    own, by_forks, by_twins = made[0], made[1 : 1 + n_forks], made[1 + n_forks :]
    silent = says_nothing(agent, by_forks[0])
    shared = not silent and all(encoded(by_forks[0]) == encoded(one) for one in by_forks)
    assert not shared, "continuations of one saved agent share their noise"
    shared = not silent and all(encoded(own) == encoded(one) for one in by_forks)
    assert not shared, "a continuation of a saved agent shares its noise"
    assert all(encoded(own) == encoded(one) for one in by_twins), "fork=False draws other noise"


def says_nothing(agent: AnyAgent, made: Any) -> bool:
    """Return whether reports or releases may well be equal though their noise is not.

    Zeros are; so is an arm or a few whole numbers that a curator has chosen with noise, and so are whole numbers from
    devices with a large budget. A score of devices with a small one hardly ever send the same.
    """
    if isinstance(made, np.ndarray) and not made.any():
        return True
    # whole numbers may repeat
    return whole(made) and (not isinstance(agent, Devices) or (agent.guarantee.epsilon or math.inf) > 4.0)


def whole(made: Any) -> bool:
    """Return whether reports or a release consist of whole numbers."""
    found = [piece for piece in pieces(made) if isinstance(piece, np.ndarray)]
    return all(one.dtype.kind != "f" or bool((one == np.floor(one)).all()) for one in found)
