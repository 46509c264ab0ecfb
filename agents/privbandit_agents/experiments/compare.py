"""Agents compared in a line of Python: a sweep without a file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from privbandit_agents.base.agent import Agent, AnyAgent
from privbandit_agents.experiments.jobs.catalogue import at_home
from privbandit_agents.experiments.names import canonical
from privbandit_agents.experiments.results.frame import as_frame
from privbandit_agents.experiments.results.ranks import ranks
from privbandit_agents.experiments.running.attempt import told as sentences
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.schema.sweep import Sweep, parse_sweep
from privbandit_agents.zoo import registry
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.foreign import ForeignAgent

Named = str | Mapping[str, Any]
"""A name, or a name with settings beside it as in the file of a sweep."""
Factory = Callable[[Any, int | None], AnyAgent]
"""A function of an environment and a seed that makes an agent."""
Player = Named | AnyAgent | type[AnyAgent] | Factory
"""An agent by its name, as a class, as an object, or by a function that makes it."""


def compare(
    envs: Named | Sequence[Named],
    agents: Player | Sequence[Player],
    seeds: int | Sequence[int] = 10,
    horizon: int | None = None,
    *,
    checkpoints: int = 200,
    folder: str | Path | None = None,
    jobs: int | None = None,
) -> pl.DataFrame:
    """Let agents play environments, and return their results, the best agents first.

    Args:
        envs: ids of environments; one with settings is a mapping, ``{"id": "privbandit/Linear-v0", "dim": 5}``.
        agents: their names, or mappings: ``{"name": "jdp-linucb", "grid": {"epsilon": [0.5, 1, 2]}}``. A ``label``
            beside the name, for one choice of settings, is what tables and figures call it. A class of yours, an agent
            as an object, a trained model with ``predict``, or a function ``(env, seed) -> agent`` stands for itself, or
            beside a label: ``{"agent": model, "label": "my PPO"}``. Every trial plays a copy of an object.
        seeds: how many, or which ones.
        horizon: users of each trial; default: the environment's.
        checkpoints: points of a regret curve.
        folder: keeps the results; runs that it has are not run again; default: none.
        jobs: processes; 1: this very one; default: one per core, or this one if it alone knows what plays, such as a
            notebook with a class of its own.

    Returns:
        The table of ``load_results``, with ``rank`` in front: an agent's place by the interquartile mean of its final
        regret, private agents and the others apart. ``ranks`` gives more detail.

    Raises:
        ValueError: an unknown name, a bad setting, a label for several agents, a trial that failed, or a folder beside
            an object or a function, whose results nobody could tell from those of another one.
        TypeError: something that is no agent.

    Examples:
        >>> frame = compare("privbandit/Linear-v0", ["uniform", "greedy"], seeds=2, horizon=50)
        >>> frame["label"].unique(maintain_order=True).to_list()
        ['greedy', 'uniform']
    """
    many = seeds if isinstance(seeds, int) else list(seeds)
    block = {"envs": entries(envs, "id"), "seeds": many, "horizon": horizon, "checkpoints": checkpoints}
    listed = [agents] if isinstance(agents, str | Mapping) or not isinstance(agents, Sequence) else list(agents)
    with known_players(listed) as (named, ready):
        if ready and folder is not None:
            raise ValueError(f"folder= keeps results of names; {ready[0]!r} is an object: leave the folder out.")
        players, labels = unlabelled(named)
        trials = parse_sweep({**block, "agents": players}, "compare").trials("compare")
        called = labelled({label: parse_sweep({**block, "agents": [one]}, "compare") for label, one in labels.items()})
        here = jobs == 1 or any(at_home(trial.env, trial.agent) for trial in trials)
        with TemporaryDirectory() if folder is None else nullcontext(str(folder)) as place:
            results, failures = run_jobs(trials, place, Engine(jobs=jobs, alone=here))
        if failures:
            raise ValueError(" ".join(sentences(failures)))
        frame = as_frame(list(results.values()))
        told = frame.select("agent", "config", "label").iter_rows()
        texts = [called.get((agent, config), label) for agent, config, label in told]
        frame = frame.with_columns(pl.Series("label", texts, pl.String))
    ranking = ranks(frame).filter(pl.col("horizon").is_not_null()).select("env", "horizon", "label", "rank")
    ranked = frame.join(ranking, on=["env", "horizon", "label"], how="left", maintain_order="left")
    order = ["env", "horizon", pl.col("notion") == "none", "rank", "seed", "checkpoint"]
    return ranked.sort(order, maintain_order=True).select("rank", pl.exclude("rank"))


@contextmanager
def known_players(given: Sequence[Player]) -> Iterator[tuple[list[dict[str, Any]], list[str]]]:
    """Give names to agents that have none, for as long as they play; yield all as mappings, and the new names."""
    named: list[dict[str, Any]] = []
    ready: list[str] = []
    try:
        for one in given:
            entry: dict[str, Any]
            entry = {"name": one} if isinstance(one, str) else dict(one) if isinstance(one, Mapping) else {"agent": one}
            player = entry.pop("agent", None)
            if isinstance(player, type):
                entry["name"] = registry.named(player)
            elif player is not None:
                called = entry.pop("label", None) or name_of(player)
                if entry:
                    raise ValueError(f"{called} is made already, and takes no settings; got {', '.join(entry)}.")
                if not isinstance(called, str) or called in AGENTS:
                    raise ValueError(f"label must be a text that no other agent has; got {called!r:.60}.")
                AGENTS[called] = registry.Ready(f"__main__:{called}", "an agent as an object", build=maker(player))
                ready.append(called)
                entry["name"] = called
            named.append(entry)
        yield named, ready
    finally:
        for name in ready:
            AGENTS.pop(name, None)


def name_of(player: Any) -> str:
    """Return what an object or a function is called by itself."""
    name = getattr(player, "name", None) or getattr(player, "__name__", None) or type(player).__name__
    return str(name) if name not in AGENTS else f"this {name}"


def maker(player: Any) -> Factory:
    """Return the function that makes the agent of a trial.

    Raises:
        TypeError: no agent, no model with ``predict``, and no function.
    """
    if isinstance(player, Agent):
        return partial(copied, player)
    if callable(getattr(player, "predict", None)):
        # the policy of a trained model, which learns no more
        return lambda env, seed: ForeignAgent(
            env, lambda context: player.predict(context, deterministic=True)[0], lambda *_: None
        )
    if callable(player):
        return lambda env, seed: checked(player(env, seed))
    raise TypeError(f"an agent is a name, a class, an object, a trained model or a function; got {player!r:.60}.")


def copied(agent: AnyAgent, env: Any, seed: int | None) -> AnyAgent:
    """Return a copy of an agent, after checking that it plays these spaces."""
    context, action = registry.spaces_of(env)
    if (agent.observation_space, agent.action_space) != (context, action):
        raise ValueError(f"{agent.name} plays {agent.observation_space} and {agent.action_space}; got {context}.")
    return deepcopy(agent)


def checked(agent: AnyAgent) -> AnyAgent:
    if not isinstance(agent, Agent):
        raise TypeError(f"a function of an environment and a seed must return an agent; got {agent!r:.60}.")
    return agent


def entries(given: Named | Sequence[Named], key: str) -> list[dict[str, Any]]:
    """Return a sweep's environments or agents: a list of mappings."""
    listed = [given] if isinstance(given, str | Mapping) else list(given)
    return [{key: one} if isinstance(one, str) else dict(one) for one in listed]


def unlabelled(players: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return agents without their labels, and those that have one by it."""
    plain = [{key: value for key, value in one.items() if key != "label"} for one in players]
    labels: dict[str, dict[str, Any]] = {}
    for one, bare in zip(players, plain, strict=True):
        label = one.get("label")
        if label is None:
            continue
        if not isinstance(label, str) or not label or label in labels:
            raise ValueError(f"label must be a text that no other agent has; got {str(label)[:60]!r}.")
        labels[label] = bare
    return plain, labels


def labelled(sweeps: Mapping[str, Sweep]) -> dict[tuple[str, str], str]:
    """Return the label of each agent and its settings, as the table writes them."""
    found: dict[tuple[str, str], str] = {}
    for label, sweep in sweeps.items():
        trials = sweep.trials("compare")
        places = {(trial.env, canonical(trial.env_kwargs), trial.horizon, trial.seed) for trial in trials}
        configs = {(trial.agent.rpartition(":")[2], canonical(trial.config)) for trial in trials}
        if len(places) < len(trials) or found.keys() & configs:
            raise ValueError(f"label {label[:60]!r} must stand for one agent with one choice of settings.")
        found |= dict.fromkeys(configs, label)
    return found
