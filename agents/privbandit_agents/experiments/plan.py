"""From a YAML file or a command line to trials, with every mistake named in one sentence."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.resources import files
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, Self

import gymnasium as gym
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from privbandit_agents import registry
from privbandit_agents.experiments.catalogue import agent_defaults, env_defaults
from privbandit_agents.experiments.settings import from_yaml
from privbandit_agents.experiments.trial import Trial
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_envs import BanditEnv
from privbandit_envs.validate import did_you_mean, one_of


def seed_list(value: Any) -> Any:
    """Return 0, ..., N - 1 for a number N."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value < 1:
        raise ValueError(f"must be an integer >= 1 or a list of seeds; got {value}")
    return list(range(value))


def distinct(seeds: list[int]) -> list[int]:
    """Return the seeds if no two are the same."""
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"each seed must be given once; got {seeds}")
    return seeds


Positive = Annotated[StrictInt, Field(ge=1, le=10**15)]
Points = Annotated[StrictInt, Field(ge=1, le=10**6)]
Seed = Annotated[StrictInt, Field(ge=0, lt=2**63)]


class Entry(BaseModel):
    """Something with settings beside its name; ``grid`` has lists of values for some, of which all combinations are."""

    model_config = ConfigDict(extra="allow")
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}

    @model_validator(mode="after")
    def said_once(self) -> Self:
        """Raise if a setting is both in the grid and beside it."""
        twice = sorted(self.grid.keys() & (self.model_extra or {}).keys())
        if twice:
            raise ValueError(f"{twice[0]} must be given once; got it in the grid and beside it")
        return self

    @property
    def points(self) -> list[dict[str, Any]]:
        """The settings, one dict for each combination of the grid."""
        combinations = product(*self.grid.values())
        return [{**(self.model_extra or {}), **dict(zip(self.grid, values, strict=True))} for values in combinations]


class EnvEntry(Entry):
    """An environment: its id, and keyword arguments beside it."""

    id: str


class AgentEntry(Entry):
    """An agent: its name, and settings beside it."""

    name: str


class Block(BaseModel):
    """Environments x agents x seeds; ``checkpoints`` is how many points the regret curve of a trial has."""

    model_config = ConfigDict(extra="forbid")
    envs: Annotated[list[EnvEntry], Field(min_length=1)]
    agents: Annotated[list[AgentEntry], Field(min_length=1)]
    seeds: Annotated[list[Seed], Field(min_length=1), BeforeValidator(seed_list), AfterValidator(distinct)] = [0]
    horizon: Positive | None = None
    checkpoints: Points = 200


class Plan(BaseModel):
    """Blocks, run together."""

    model_config = ConfigDict(extra="forbid")
    parts: Annotated[list[Block], Field(min_length=1)]

    def trials(self, source: str = "") -> list[Trial]:
        """Return the trials, each once, after checking that all can be run.

        Args:
            source: the file, for error messages.

        Raises:
            UsageError: an unknown name, a value out of range, or an agent that cannot play an environment.
        """
        found = {trial.name: trial for i, block in enumerate(self.parts) for trial in block_trials(block, i, source)}
        return list(found.values())


def bundled() -> dict[str, Path]:
    """Return the experiments that come with the package: name to file."""
    folder = Path(str(files("privbandit_agents.experiments")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def named_plan(name: str) -> Plan:
    """Return a bundled experiment."""
    with usage_errors("run"):
        path = bundled()[one_of(bundled(), experiment=name)]
    return read_plan(path)


def pairs_plan(envs: list[str], agents: list[str]) -> Plan:
    """Return the plan of every agent in every environment."""
    if not (envs and agents):
        raise UsageError("run needs --env and --agent, or an experiment such as demo; `privbandit list` shows all.")
    return parse_plan({"envs": [{"id": id} for id in envs], "agents": [{"name": name} for name in agents]})


def read_plan(path: str | Path) -> Plan:
    """Read a YAML file: one block, or a list of blocks under ``parts``.

    A block ``include: other.yaml`` stands for the blocks of that file, which lies beside this one; the other keys of
    the block replace theirs.

    Raises:
        UsageError: it cannot be read, or is not a plan; the message names the place and the nearest valid key.
    """
    return parse_plan(included(Path(path)), Path(path).name)


def included(path: Path, within: tuple[Path, ...] = ()) -> Any:
    """Return what a YAML file says, with its includes in place.

    Args:
        path: of the file.
        within: the files that include it, the outermost first.
    """
    path = path.resolve()
    if path in within:
        raise UsageError(f"{path.name} includes itself: {' -> '.join(file.name for file in (*within, path))}.")
    try:
        content = from_yaml(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}") from None
    blocks = content.get("parts", [content]) if isinstance(content, dict) else None
    if not isinstance(blocks, list) or not any(isinstance(block, dict) and "include" in block for block in blocks):
        return content
    return {**content, "parts": list(chain.from_iterable(resolved(block, path, within) for block in blocks))}


def resolved(block: Any, path: Path, within: tuple[Path, ...]) -> list[Any]:
    """Return the blocks that a block stands for."""
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


def parse_plan(content: Any, source: str = "") -> Plan:
    """Validate what a YAML file or the command line says."""
    single = isinstance(content, dict) and "parts" not in content
    try:
        return Plan.model_validate({"parts": [content]} if single else content)
    except ValidationError as error:
        problem = described(error.errors(include_url=False)[0], hide_part=single or not source)
        raise UsageError(f"{source}: {problem}." if source else f"{problem}.") from None


def described(error: ErrorDetails, hide_part: bool) -> str:
    """Return one validation error in words: the place, what is wrong, the nearest key."""
    location = error["loc"]
    place = place_of(location[2:] if hide_part else location)
    if error["type"] == "extra_forbidden":
        known = Plan.model_fields if len(location) == 1 else Block.model_fields
        return f"{place} is not a known key{did_you_mean(location[-1], known)}; the keys are {', '.join(known)}"
    if error["type"] == "missing":
        given = error["input"]
        near = [key for key in given if did_you_mean(key, [str(location[-1])])]
        return f"{place} is missing" + (f" (did you mean it by {near[0]!r}?)" if near else "")
    message = error["msg"].removeprefix("Value error, ")
    got = "" if "; got " in message else f"; got {error['input']!r}"
    return f"{place}: {message[0].lower()}{message[1:]}{got}"


def place_of(location: tuple[int | str, ...]) -> str:
    """Return ``parts[0].agents[1].name`` for a path of keys and positions."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return place.removeprefix(".") or "the file"


def block_trials(block: Block, part: int, source: str) -> Iterator[Trial]:
    """Yield the trials of a block, checked: environments x agents x seeds."""
    envs = [(i, entry.id, given) for i, entry in enumerate(block.envs) for given in entry.points]
    agents = [(j, entry.name, given) for j, entry in enumerate(block.agents) for given in entry.points]
    for i, env_id, given in envs:
        with usage_errors(f"{source}: parts[{part}].envs[{i}]" if source else env_id):
            kwargs = changed(given, env_defaults(env_id))
            horizon = horizon_of(env_id, kwargs, block.horizon)
            env = Trial(env_id, "uniform", horizon, env_kwargs=kwargs).make_env()
            check_bandit(env)
        for j, name, settings in agents:
            with usage_errors(f"{source}: parts[{part}].agents[{j}]" if source else name):
                config = checked_config(name, settings, env_id, env)
                trial = Trial(env_id, name, horizon, 0, kwargs, config, block.checkpoints)
                trial.make_agent(env)
                assert trial.name  # the settings are JSON
            yield from (replace(trial, seed=seed) for seed in block.seeds)
        env.close()


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
    """Return the number of users: what was asked for, or the environment's own horizon."""
    horizon = asked or kwargs.get("horizon", env_defaults(id).get("horizon"))
    if horizon is None:
        raise ValueError("the environment has no horizon of its own; give one.")
    if "horizon" in kwargs and horizon > kwargs["horizon"]:
        raise ValueError(f"horizon must be at most the environment's {kwargs['horizon']}; got {horizon}.")
    return int(horizon)


def checked_config(name: str, given: dict[str, Any], env_id: str, env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return the settings that are not defaults, or raise if they are wrong or the agent cannot play."""
    if "seed" in given:
        raise ValueError("an agent's seed is derived from the trial's; give seeds instead.")
    defaults = agent_defaults(name)
    registry.settings_of(name, given)
    if not registry.can_play(name, env):
        needs = registry.find(name).load().plays(*registry.spaces_of(env)) or "environments with public data"
        raise ValueError(f"cannot play {env_id}; it plays {needs}.")
    return changed(given, defaults)


def changed(given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from their defaults, so that saying a default changes nothing."""
    return {key: value for key, value in given.items() if key not in defaults or value != defaults[key]}


def override(plan: Plan, assignments: list[str], **given: Any) -> Plan:
    """Return the plan with ``--set`` assignments and with values that replace those of every block.

    Args:
        plan: left as it is.
        assignments: ``"env.key=value"``, ``"agent.key=value"`` (every agent that has the setting) or
            ``"linucb.key=value"``.
        **given: fields of Block; None leaves them.
    """
    content = plan.model_dump()
    for block in content["parts"]:
        block.update({key: value for key, value in given.items() if value is not None})
    for assignment in assignments:
        assign(content["parts"], assignment)
    return parse_plan(content)


def assign(blocks: list[dict[str, Any]], assignment: str) -> None:
    """Carry out one ``--set``."""
    name, equals, text = assignment.partition("=")
    target, dot, key = name.strip().rpartition(".")
    if not (equals and dot and target and key):
        raise UsageError(f"--set takes env.key=value, agent.key=value or <agent>.key=value; got {assignment!r}.")
    with usage_errors(f"--set {name}"):
        value = from_yaml(text)
        kind, identity = ("env", "id") if target == "env" else ("agent", "name")
        if key == identity:
            raise ValueError(f"{key!r} says which {kind} it is and is no setting; choose with --{kind}.")
        entries = [entry for block in blocks for entry in block[f"{kind}s"]]
        if target not in ("env", "agent"):
            one_of(dict.fromkeys(entry["name"] for entry in entries), agent=target)
            chosen = [entry for entry in entries if entry["name"] == target]
        else:
            chosen = having(entries, key, target)
        for entry in chosen:
            entry[key] = value
            entry["grid"] = {name: values for name, values in entry["grid"].items() if name != key}


def having(entries: list[dict[str, Any]], key: str, kind: str) -> list[dict[str, Any]]:
    """Return the environments or agents that have a setting; raise if none has."""
    defaults_of: Callable[[str], dict[str, Any]] = env_defaults if kind == "env" else agent_defaults
    known = [(entry, defaults_of(entry["id" if kind == "env" else "name"])) for entry in entries]
    chosen = [entry for entry, defaults in known if key in defaults]
    if not chosen:
        near = did_you_mean(key, {name for _, defaults in known for name in defaults})
        raise ValueError(f"no {kind} here has a setting {key!r}{near}.")
    return chosen
