"""Audits by name: mechanisms, and every private agent, by the game that its entry in the zoo names."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any

from privbandit_agents.audits import mechanisms, published
from privbandit_agents.audits.agents import EFFORTS, FEWEST_RUNS, AgentGame
from privbandit_agents.audits.claims import Game
from privbandit_agents.audits.games import joint, local, shuffled
from privbandit_agents.audits.mechanisms import Request
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.privacy.mechanisms.additive import Laplace
from privbandit_agents.privacy.mechanisms.counters import BinaryTree, SquareRootToeplitz
from privbandit_agents.privacy.mechanisms.spherical import KNorm
from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
from privbandit_agents.privacy.randomizers.one_hot import UnaryEncoding
from privbandit_agents.zoo.auto import Auto
from privbandit_agents.zoo.entries import AGENTS, CHECKS, Entry
from privbandit_agents.zoo.explore import explored_name
from privbandit_agents.zoo.plugins import load_plugins
from privbandit_agents.zoo.reading import import_named
from privbandit_agents.zoo.registry import field_names, find
from privbandit_envs.validate import did_you_mean, one_of, positive, shown


@dataclass(frozen=True)
class Target:
    """A mechanism that can be audited by its name.

    Attributes:
        game: from a request to the game.
        runs: fresh runs of each world by default.
        delta: of (epsilon, delta) by default.
        published: the largest epsilon of its published calibration; 0: there is none.
    """

    game: Callable[[Request], Game]
    runs: int = Game.runs
    delta: float = Game.delta
    published: float = 0.0


WATCH = "the replay of exact losses, and the test of published noise and of choices"
"""What looks at agents of which no game has power: both are in the conformance suite."""
MANY = 150_000  # runs that distinguish epsilon = 0.5 from 0.625 by rare events
TARGETS: dict[str, Target] = {
    "laplace": Target(partial(mechanisms.pure, Laplace)),
    "gaussian": Target(mechanisms.gaussian),
    "private-value": Target(mechanisms.bounded_mean),
    "private-selection": Target(mechanisms.selection, runs=100_000),
    "gumbel-topk": Target(mechanisms.gumbel_top_k, runs=5000, delta=0.01),
    "exponential-choice": Target(mechanisms.exponential_choice, runs=80_000, delta=0.01),
    "wishart-difference": Target(mechanisms.wishart_difference, runs=MANY),
    "k-norm": Target(partial(mechanisms.pure, KNorm), runs=MANY),
    "objective-perturbation": Target(mechanisms.objective_perturbation, runs=5000, published=math.inf),
    "tree": Target(partial(mechanisms.first_term, BinaryTree)),
    "toeplitz": Target(partial(mechanisms.first_term, SquareRootToeplitz)),
    "grr": Target(partial(mechanisms.category, KaryRandomizedResponse)),
    "oue": Target(partial(mechanisms.category, UnaryEncoding)),
    "subset": Target(partial(mechanisms.category, SubsetSelection)),
    "signed-subset": Target(mechanisms.signed_subset),
    "bin-cap": Target(mechanisms.bin_cap),
    "hemisphere": Target(mechanisms.hemisphere),
    "lplr-update": Target(published.lplr_update, runs=200_000, published=1),
    "lplr-ci": Target(published.lplr_ci, published=1),
    "lplr-wishart": Target(published.lplr_wishart, runs=MANY, published=1),
    "fliphat-peeling": Target(published.fliphat_peeling, runs=5000, delta=0.01, published=math.inf),
    "private-cov": Target(published.private_cov, published=math.inf),
    "lpct-report": Target(published.lpct_report, published=math.inf),
}


def register_target(name: str, game: Callable[[Request], Game], **defaults: Any) -> None:
    """Add a mechanism to those that ``privbandit audit NAME`` knows.

    Args:
        name: its name.
        game: returns the game for a request, which has epsilon, delta, and whether the published calibration is meant.
        **defaults: ``runs``, ``delta`` and ``published`` of a Target.

    Raises:
        ValueError: there is a target of this name.
    """
    if name in TARGETS:
        raise ValueError(f"a target called {name!r} is registered; choose another name.")
    TARGETS[name] = Target(game, **defaults)


def game(name: str, epsilon: float, **asked: Any) -> Game:
    """Return the first game that ``prepared`` yields for the same arguments; the others are not prepared.

    Raises:
        ValueError: no game has power over this agent; the message names what watches it.
    """
    for first in prepared(name, epsilon, **asked):
        return first
    raise ValueError(f"no game has power over {name}; {WATCH} watch it, by check_agent.")


def games(name: str, epsilon: float, **asked: Any) -> list[Game]:
    """Return all games that ``prepared`` yields for the same arguments."""
    return list(prepared(name, epsilon, **asked))


def prepared(
    name: str,
    epsilon: float,
    delta: float | None = None,
    calibration: str = "correct",
    env: str | Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    effort: str = "normal",
    answers: Sequence[float] = (),
) -> Iterator[Game]:
    """Yield the games of an audit target, each prepared when it is asked for.

    There is one, or several that look at different parts of an agent; none of an agent at which ``WATCH`` looks.

    Args:
        name: a mechanism of ``TARGETS``, a private agent, ``"module:name"`` for one that a module registers, or
            ``"file.py:Class"`` for a class of an agent.
        epsilon: budget, > 0 and finite.
        delta: of (epsilon, delta), where the target has one; default: the game's own, mostly 1e-5.
        calibration: ``"correct"`` or ``"published"``.
        env: id of the environment that an agent is audited in, or settings of it, such as ``{"id": ..., "dim": 2}``;
            default: the game's choice.
        config: further settings of an agent; they win over ``epsilon`` and ``delta``.
        effort: ``"quick"``, ``"normal"`` or ``"long"``: how many users are served, whatever the machine.
        answers: of users, that are tried besides the game's own: each is replaced by the next.

    Raises:
        ValueError: an unknown target, one without a published calibration, or an environment that does not fit.
        TypeError: a setting that the agent does not have.
    """
    if name not in TARGETS and name not in AGENTS:
        load_plugins("privbandit.agents", "privbandit.audits")
    module, colon, short = name.rpartition(":")
    if colon:
        import_named(module)
        name = short if short in TARGETS else name
    base = explored_name(name) or name
    if name not in TARGETS and ":" not in name:
        if base not in AGENTS:
            known = (name for name, entry in AGENTS.items() if private(entry) or chooses(entry))
            near = did_you_mean(base, (*TARGETS, *known))
            raise ValueError(f"no target is called {shown(name)}{near}; `privbandit list targets` shows all.")
        if not private(AGENTS[base]) and not chooses(AGENTS[base]):
            raise ValueError(f"{name} promises no privacy, so there is nothing to refute.")
    positive(epsilon=epsilon)
    one_of(("correct", "published"), calibration=calibration)
    one_of(EFFORTS, effort=effort)
    if name not in TARGETS:
        asked = {"epsilon": epsilon, "delta": delta, "calibration": calibration}
        yield from agent_games(name, asked, env, config or {}, effort, answers)
        return
    if env or config or answers:
        raise ValueError(f"{name} is a mechanism: it has no environment, no settings and no answers.")
    target, as_published = TARGETS[name], calibration == "published"
    if as_published and not target.published:
        those = ", ".join(key for key, other in TARGETS.items() if other.published)
        raise ValueError(f"{name} has no published calibration; those of {those} can be audited.")
    if as_published and epsilon > target.published:
        raise ValueError(f"{name}: the paper defines epsilon in (0, {target.published:g}]; got {epsilon:g}.")
    played = target.game(Request(epsilon, target.delta if delta is None else delta, as_published))
    played.name, played.runs = name, max(FEWEST_RUNS, math.ceil(EFFORTS[effort] * target.runs))
    yield played


def stronger(
    name: str, factor: float, epsilon: float, config: Mapping[str, Any] | None = None, **asked: Any
) -> list[Game] | None:
    """Return the games of a target with ``factor`` times its epsilon; None if no setting scales it."""
    given = dict(config or {})
    scalable = name.rpartition(":")[2] in TARGETS or {"epsilon", "rho"} & set(field_names(find(name).load().Config))
    if asked.get("calibration", "correct") != "correct" or not scalable:
        return None
    powers = {"epsilon": 1, "rho": 2}
    scaled = {key: value * factor ** powers[key] for key, value in given.items() if key in powers}
    return games(name, epsilon * factor, config=given | scaled, **asked)


def agent_games(
    name: str, asked: dict[str, Any], env: Any, config: Mapping[str, Any], effort: str, answers: Sequence[float]
) -> Iterator[Game]:
    """Yield the games that an agent's entry names, or those for its shape, with the requested settings."""
    kinds = game_classes(name)
    entry, known = find(name), field_names(find(name).load().Config)
    if not kinds:
        return
    if asked["calibration"] == "published" and "calibration" not in known:
        raise ValueError(f"{name} has no published calibration.")
    asked["delta"] = kinds[0].delta if asked["delta"] is None else asked["delta"]
    if "rho" in config:  # in place of epsilon
        del asked["epsilon"]
    settings = {key: value for key, value in asked.items() if key in known} | dict(config)
    for kind in kinds:
        played = kind(name, settings, env, effort, answers)
        if kind is kinds[0] and entry.runs:
            played.runs = played.afforded(entry.runs)
        if not (kind.canaries and not played.canaries):
            yield played


def game_classes(name: str) -> tuple[type[AgentGame], ...]:
    """Return the games of an agent that is audited, those of its entry or its shape, before any is prepared.

    None if no game has power over it, and ``WATCH`` looks at it.

    Raises:
        ValueError: an agent that stands for others, promises nothing, or whose entry names no game.
    """
    entry = find(name)
    agent_class = entry.load()
    if issubclass(agent_class, Auto):
        raise ValueError(f"{name} stands for other agents: audit these; `privbandit show {name}` names them.")
    if not issubclass(agent_class, LocalAgent | ShuffleAgent | CentralAgent):
        raise ValueError(f"{name} is no LocalAgent, ShuffleAgent or CentralAgent: it makes no promise to audit.")
    if entry.audit == CHECKS:
        return ()
    shapes = {LocalAgent: local.LocalGame, ShuffleAgent: shuffled.ShuffleGame, CentralAgent: joint.JointGame}
    general: type[AgentGame] = next(game for shape, game in shapes.items() if issubclass(agent_class, shape))
    kind = resolve_name(entry.audit) if entry.audit else general
    if not (isinstance(kind, type) and issubclass(kind, AgentGame)):
        raise ValueError(f"{name} is registered with audit={entry.audit!r}, which is not a subclass of AgentGame.")
    return kind, *kind.besides


def private_agents() -> list[str]:
    return [name for name, entry in AGENTS.items() if private(entry)]


def private(entry: Entry) -> bool:
    """Return whether an agent promises something that can be audited; only somebody else's agent is imported."""
    if entry.notion:
        return entry.notion != "none" and not chooses(entry)
    return issubclass(entry.load(), LocalAgent | ShuffleAgent | CentralAgent)


def chooses(entry: Entry) -> bool:
    if entry.notion:
        return entry.agent.partition(":")[0] == Auto.__module__
    return issubclass(entry.load(), Auto)
