"""From a YAML file or a command line to trials, with every mistake named in one sentence."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import Annotated, Any, Self, TypeGuard

import gymnasium as gym
from pydantic import BaseModel, ConfigDict, Field, model_validator

from privbandit_agents.base.agent import LearningAgent
from privbandit_agents.experiments.fields import (
    MOST_ASKED,
    Grid,
    Model,
    Points,
    Positive,
    Seeds,
    combinations,
    given_once,
)
from privbandit_agents.experiments.jobs.catalogue import agent_defaults, env_defaults, env_settings
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.names import short
from privbandit_agents.experiments.schema.validation import place_of, validated
from privbandit_agents.experiments.schema.yaml_text import content_of, filled, from_yaml
from privbandit_agents.experiments.shelf import bundled
from privbandit_agents.experiments.usage import UsageError, on_one_line, usage_errors
from privbandit_agents.zoo import registry
from privbandit_envs import ENV_IDS, BanditEnv
from privbandit_envs.changing.delay import DelayFeedback
from privbandit_envs.changing.timeline import TIME
from privbandit_envs.validate import count, did_you_mean, one_of, shown, unknown


class Entry(BaseModel):
    """Something with settings beside its name; ``grid`` maps settings to lists, all combinations are run."""

    model_config = ConfigDict(extra="allow")
    grid: Grid = Field(default={})

    @model_validator(mode="after")
    def _given_once(self) -> Self:
        given_once(self.grid, self.model_extra or {})
        return self

    @property
    def size(self) -> int:
        return prod(map(len, self.grid.values()))

    @property
    def points(self) -> list[dict[str, Any]]:
        return [{**(self.model_extra or {}), **point} for point in combinations(self.grid)]


class EnvEntry(Entry):
    """An environment: its id, and keyword arguments beside it; ``horizon`` in the grid is the trials'."""

    id: str

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: object) -> object:
        """Take an id alone for an environment without settings, and the id of one of ours without its namespace."""
        entry = {"id": given} if isinstance(given, str) else given
        whole = {short(id): id for id in ENV_IDS}
        return {**entry, "id": whole.get(entry["id"], entry["id"])} if named(entry, "id") else entry


class AgentEntry(Entry):
    """An agent: its name, and settings beside it; ``$horizon`` and ``$people`` stand for the trial's."""

    name: str

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: object) -> object:
        """Take a name alone for an agent without settings."""
        return {"name": given} if isinstance(given, str) else given


def named(entry: object, key: str) -> TypeGuard[dict[str, Any]]:
    return isinstance(entry, dict) and isinstance(entry.get(key), str)


class Block(Model):
    """Environments x agents x seeds; ``checkpoints`` is how many points the regret curve of a trial has."""

    envs: Annotated[list[EnvEntry], Field(min_length=1)]
    agents: Annotated[list[AgentEntry], Field(min_length=1)]
    seeds: Seeds = Field(default=[0])
    horizon: Positive | None = None
    checkpoints: Points = 200

    @model_validator(mode="after")
    def _one_horizon(self) -> Self:
        if self.horizon is not None and any("horizon" in env.grid for env in self.envs):
            raise ValueError(f"horizon must be given once; got {self.horizon} and a grid of an environment")
        return self

    @property
    def size(self) -> int:
        """How many trials there are."""
        return sum(env.size for env in self.envs) * sum(agent.size for agent in self.agents) * len(self.seeds)


class Sweep(Model):
    """Blocks, run together."""

    parts: Annotated[list[Block], Field(min_length=1)]

    def trials(self, source: str = "") -> list[Trial]:
        """Return the trials, each once, after checking that all can be run.

        Args:
            source: the file, for error messages.

        Raises:
            UsageError: an unknown name, a value out of range, or an agent that cannot play an environment.
        """
        many = sum(block.size for block in self.parts)
        if many > MOST_ASKED:
            raise UsageError(f"{source or 'run'}: these are {many:,} trials; {MOST_ASKED:,} are the most.")
        found: dict[str, Trial] = {}
        for i, block in enumerate(self.parts):
            part = f"parts[{i}]." if len(self.parts) > 1 else ""  # a single one need not be called so in the file
            found |= {trial.name: trial for trial in block_trials(block, part, source)}
        return list(found.values())

    def guests(self, name: str, source: str = "") -> list[Trial]:
        """Return the trials of another agent in the worlds of these blocks, at the budgets of the agents there.

        Raises:
            UsageError: there is no such agent, or it plays none of the worlds.
        """
        with usage_errors("--agent"):
            known = set(agent_defaults(name)) & {"epsilon", "delta", "rho", "people"}
        found, refused = dict[str, Trial](), list[UsageError]()
        for block in self.parts:
            given = [point for agent in block.agents for point in agent.points]
            budgets = [{key: point[key] for key in sorted(known & set(point))} for point in given]
            asked = [one for i, one in enumerate(budgets) if one and one not in budgets[:i]] or [{}]
            own = [AgentEntry(**{"name": name, **budget}) for budget in asked]
            try:
                found |= {
                    trial.name: trial for trial in block_trials(block.model_copy(update={"agents": own}), "", source)
                }
            except UsageError as error:
                refused.append(error)
        if not found:
            raise refused[0]
        return list(found.values())


def named_sweep(name: str) -> Sweep:
    with usage_errors("run"):
        if name not in bundled():
            raise unknown("no run", name, bundled(), "privbandit list experiments")
    return read_sweep(bundled()[name])


def pairs_sweep(envs: list[str], agents: list[str]) -> Sweep:
    if not (envs and agents):
        raise UsageError("run needs --env and --agent, or an experiment such as demo; `privbandit list` shows all.")
    return parse_sweep({"envs": [{"id": id} for id in envs], "agents": [{"name": name} for name in agents]})


def read_sweep(path: str | Path) -> Sweep:
    """Read a YAML file: one block, or a list of blocks under ``parts``.

    A block ``include: other.yaml`` stands for the blocks of that file, which lies beside this one; the other keys of
    the block replace theirs.

    Raises:
        UsageError: it cannot be read, or is not a sweep; the message names the place and the nearest valid key.
    """
    return parse_sweep(included(Path(path)), Path(path).name)


def included(path: Path, within: tuple[Path, ...] = ()) -> Any:
    """Return the content of a YAML file, its includes in place; ``within`` are the files that include it."""
    path = path.resolve()
    if path in within:
        raise UsageError(f"{path.name} includes itself: {' -> '.join(file.name for file in (*within, path))}.")
    content = content_of(path)
    blocks = content.get("parts", [content]) if isinstance(content, dict) else None
    if not isinstance(blocks, list) or not any(isinstance(block, dict) and "include" in block for block in blocks):
        return content
    parts = list(islice(chain.from_iterable(resolved(block, path, within) for block in blocks), MOST_ASKED + 1))
    if len(parts) > MOST_ASKED:
        raise UsageError(f"{path.name} has more than {MOST_ASKED:,} parts with what it includes.")
    return {**content, "parts": parts}


def resolved(block: object, path: Path, within: tuple[Path, ...]) -> list[Any]:
    if not isinstance(block, dict) or "include" not in block:
        return [block]
    other = block["include"]
    if not isinstance(other, str):
        raise UsageError(f"{path.name}: include: the name of a YAML file is needed; got {other!r}.")
    content = included(path.parent / other, (*within, path))
    inner = content["parts"] if isinstance(content, dict) and "parts" in content else [content]
    if not isinstance(inner, list):
        raise UsageError(f"{other}: parts must be a list of blocks; got {inner!r}.")
    changes = {key: value for key, value in block.items() if key != "include"}
    return [{**one, **changes} if isinstance(one, dict) else one for one in inner]


def parse_sweep(content: object, source: str = "") -> Sweep:
    if content is None:
        raise UsageError(f"{source or 'the sweep'} is empty; a sweep has envs and agents.")
    single = isinstance(content, dict) and "parts" not in content
    hidden = 2 if single or not source else 0  # parts[0] is not what the file says
    whole = {"parts": [content]} if single else content
    return validated(Sweep, whole, source, lambda place: place_of(place[hidden:]))


def block_trials(block: Block, part: str, source: str) -> Iterator[Trial]:
    """Yield the trials of a block, checked: environments x agents x seeds, but pairs that cannot be played.

    An agent that plays none of the environments, and an environment that none of the agents plays, are mistakes.
    """
    envs = [(i, entry.id, entry.grid, given) for i, entry in enumerate(block.envs) for given in entry.points]
    agents = [(j, entry.name, given) for j, entry in enumerate(block.agents) for given in entry.points]
    left_out: dict[tuple[int, int], str] = {}
    played = set()
    for i, env_id, grid, given in envs:
        with usage_errors(f"{source}: {part}envs[{i}]" if source else env_id), one_value_each(given):
            asked = count(horizon=given.pop("horizon")) if "horizon" in grid else block.horizon
            kwargs = changed(given, env_settings(env_id))
            horizon = horizon_of(env_id, kwargs, asked)
            env = Trial(env_id, "uniform", horizon, env_kwargs=kwargs).make_env()
            check_bandit(env)
        for j, name, settings in agents:
            place = f"{source}: {part}agents[{j}]" if source else name
            with usage_errors(place), one_value_each(settings):
                public = {"horizon": horizon, "people": kwargs.get("people")}
                config = checked_config(name, filled(settings, public))
                if needs := cannot_play(name, env_id, env):
                    left_out[i, j] = f"{place}: {needs}"
                    continue
                trial = Trial(env_id, name, horizon, 0, kwargs, config, block.checkpoints)
                trial.make_agent(env)
                assert trial.name  # the settings are JSON
                played.add((i, j))
            yield from (replace(trial, seed=seed) for seed in block.seeds)
        env.close()
    note({pair: needs for pair, needs in left_out.items() if pair not in played}, block)


class LeftOut(UserWarning):
    """Pairs of a sweep that cannot be played."""


def note(left_out: dict[tuple[int, int], str], block: Block) -> None:
    """Say in one line which pairs of (environment, agent) are left out.

    Raises:
        UsageError: an agent plays none of the environments, or an environment is played by no agent.
    """
    sizes = len(block.envs), len(block.agents)
    for axis, size in enumerate(sizes):
        for k in range(size):
            lost = [needs for pair, needs in left_out.items() if pair[axis] == k]
            if len(lost) == sizes[1 - axis]:
                raise UsageError(lost[0])
    if left_out:
        pairs = ", ".join(f"{block.agents[j].name} in {short(block.envs[i].id)}" for i, j in left_out)
        warnings.warn(f"pairs that cannot be played are left out: {on_one_line(pairs)}.", LeftOut, stacklevel=3)


@contextmanager
def one_value_each(given: dict[str, Any]) -> Iterator[None]:
    """Say where a list of values belongs, if a setting that is a list is refused."""
    try:
        yield
    except (ValueError, TypeError) as error:
        for key, value in given.items():
            if isinstance(value, list) and key not in TIME:
                way_out = f"values to try stand under the grid: grid: {{{key}: {shown(value)}}}"
                raise ValueError(f"{key} must be one value; got {shown(value)}; {way_out}.") from error
        raise


def check_bandit(env: gym.Env[Any, Any]) -> None:
    """Raise if an environment that is not a BanditEnv does not report what agents and curves need."""
    if isinstance(env.unwrapped, BanditEnv):
        return
    env.reset(seed=0)
    info = env.step(env.action_space.sample())[4]
    missing = [repr(key) for key in ("feedback", "regret") if key not in info]
    if missing:
        raise ValueError(f"not a bandit: the info of a step has no {' and no '.join(missing)}.")


def horizon_of(id: str, kwargs: dict[str, Any], asked: int | None) -> int:
    """Return the number of users: the one asked for, or the environment's own horizon."""
    horizon = asked or kwargs.get("horizon", env_defaults(id).get("horizon"))
    if horizon is None:
        raise ValueError("the environment has no horizon of its own; give one.")
    if "horizon" in kwargs and horizon > kwargs["horizon"]:
        raise ValueError(f"horizon must be at most the environment's {kwargs['horizon']}; got {horizon}.")
    return int(horizon)


def cannot_play(name: str, env_id: str, env: gym.Env[Any, Any]) -> str:
    """Return "" if an agent can play an environment, else why not."""
    if registry.can_play(name, env):
        owns_loop = issubclass(registry.find(name).load(), LearningAgent) and isinstance(env, DelayFeedback)
        return f"cannot play {env_id} with late feedback; it owns its loop." if owns_loop else ""
    needs = registry.find(name).load().plays(*registry.spaces_of(env)) or "environments with public data"
    return f"cannot play {env_id}; it plays {needs}."


def checked_config(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that are not defaults, or raise if they are wrong."""
    if "seed" in given:
        raise ValueError("an agent's seed is derived from the trial's; give seeds instead.")
    defaults = agent_defaults(name)
    registry.settings_of(name, given)
    return changed(given, defaults)


def changed(given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from their defaults, so that saying a default changes nothing."""
    return {key: value for key, value in given.items() if key not in defaults or value != defaults[key]}


def override(
    sweep: Sweep,
    assignments: Sequence[str] = (),
    shrink: int = 1,
    only: Mapping[str, Sequence[Any]] | None = None,
    number: int | None = None,
    **given: Any,
) -> Sweep:
    """Return a sweep with ``--set`` assignments and with values that replace those of every block.

    Args:
        sweep: left as it is.
        assignments: ``"env.key=value"``, ``"agent.key=value"`` (every agent that has the setting),
            ``"linucb.key=value"``, or ``"key=value"`` if environments or agents alone have the setting.
        shrink: horizons are divided by it before.
        only: ``"env.KEY"`` or ``"agent.KEY"`` to the values that stay of its grids.
        number: of seeds, from the first one of each block on.
        **given: fields of Block; None leaves them.
    """
    content = sweep.model_dump()
    blocks = content["parts"]
    shrink_horizons(blocks, shrink)
    for name, kept in (only or {}).items():
        thin(blocks, name, kept)
    for block in blocks:
        block.update({key: value for key, value in given.items() if value is not None})
        if given.get("horizon") is not None:
            for env in block["envs"]:
                env["grid"].pop("horizon", None)
        if number is not None:
            block["seeds"] = {"first": block["seeds"][0], "number": number}
    for assignment in assignments:
        assign(blocks, assignment)
    return parse_sweep(content)


def shrink_horizons(blocks: list[dict[str, Any]], divisor: int) -> None:
    for i, block in enumerate(blocks if divisor > 1 else []):
        grids = [env["grid"] for env in block["envs"] if "horizon" in env["grid"]]
        if block["horizon"] is not None:
            block["horizon"] = max(1, block["horizon"] // divisor)
        elif len(grids) < len(block["envs"]):
            raise ValueError(f"shrink needs the horizon of every part; parts[{i}] has none.")
        for grid in grids:
            grid["horizon"] = [max(1, horizon // divisor) for horizon in grid["horizon"]]


def thin(blocks: list[dict[str, Any]], name: str, kept: Sequence[Any]) -> None:
    """Keep some values of the grids of a setting; raise ValueError if no grid has it, or nothing of one stays."""
    kind, _, key = name.partition(".")
    entries = [entry for block in blocks for entry in block.get(f"{kind}s", [])]
    grids = [entry["grid"] for entry in entries if key in entry["grid"]]
    if not grids:
        raise ValueError(f"only: no grid has {name!r}; env.KEY or agent.KEY with a key of a grid is needed.")
    for grid in grids:
        if not (stays := [value for value in grid[key] if value in kept]):
            raise ValueError(f"only: nothing of {name} stays of {shown(grid[key])}.")
        grid[key] = stays


def assign(blocks: list[dict[str, Any]], assignment: str) -> None:
    name, equals, text = assignment.partition("=")
    target, _, key = name.strip().rpartition(".")
    if not (equals and key):
        forms = "env.key=value, agent.key=value, <agent>.key=value or key=value"
        raise UsageError(f"--set takes {forms}; got {assignment!r}.")
    with usage_errors(f"--set {name}"):
        value = from_yaml(text)
        if isinstance(value, str) and re.fullmatch(r"[-+.\deE]+(,[-+.\deE]+)+", value):
            raise ValueError(
                f"{key} must be one value; got {value!r}; a grid of values needs a file: privbandit sweep."
            )
        for entry in assigned(blocks, target or kind_with(blocks, key), key):
            entry[key] = value
            entry["grid"] = {name: values for name, values in entry["grid"].items() if name != key}


def assigned(blocks: list[dict[str, Any]], target: str, key: str) -> list[dict[str, Any]]:
    """Return the environments or agents that an assignment to ``target.key`` concerns."""
    kind, identity = ("env", "id") if target == "env" else ("agent", "name")
    if key == identity:
        raise ValueError(f"{key!r} names the {kind} and is no setting; choose with --{kind}.")
    entries = [entry for block in blocks for entry in block[f"{kind}s"]]
    if target in ("env", "agent"):
        return having(entries, key, target)
    names = dict.fromkeys(entry["name"] for entry in entries)
    short = [name for name in names if name.rpartition(":")[2] == target]  # of module:name
    target = short[0] if target not in names and len(short) == 1 else target
    one_of(names, agent=target)
    return [entry for entry in entries if entry["name"] == target]


def kind_with(blocks: list[dict[str, Any]], key: str) -> str:
    """Return ``"env"`` or ``"agent"``, whichever alone has a setting; raise if both or none have."""
    known = {
        "env": {name for block in blocks for entry in block["envs"] for name in env_settings(entry["id"])},
        "agent": {name for block in blocks for entry in block["agents"] for name in agent_defaults(entry["name"])},
    }
    kinds = [kind for kind, names in known.items() if key in names]
    if not kinds:
        raise ValueError(f"nothing here has a setting {key!r}{did_you_mean(key, known['env'] | known['agent'])}.")
    if len(kinds) > 1:
        raise ValueError(f"environments and agents have a setting {key!r}; write env.{key} or agent.{key}.")
    return kinds[0]


def having(entries: list[dict[str, Any]], key: str, kind: str) -> list[dict[str, Any]]:
    """Return the environments or agents that have a setting; raise if none has."""
    known = [(one, env_settings(one["id"]) if kind == "env" else agent_defaults(one["name"])) for one in entries]
    chosen = [entry for entry, settings in known if key in settings]
    if not chosen:
        near = did_you_mean(key, {name for _, settings in known for name in settings})
        raise ValueError(f"no {kind} here has a setting {key!r}{near}.")
    return chosen
