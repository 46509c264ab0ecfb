"""Agents compared in a line of Python: a sweep without a file."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from privbandit_agents.experiments.analysis.frame import as_frame
from privbandit_agents.experiments.analysis.ranks import ranks
from privbandit_agents.experiments.jobs.catalogue import at_home
from privbandit_agents.experiments.names import canonical
from privbandit_agents.experiments.running.attempt import told
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.schema.sweep import Sweep, parse_sweep

Named = str | Mapping[str, Any]
"""A name, or a name with settings beside it as in the file of a sweep."""


def compare(
    envs: Named | Sequence[Named],
    agents: Named | Sequence[Named],
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
            beside the name, for one choice of settings, is what tables and figures call it.
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
        ValueError: an unknown name, a bad setting, a label for several agents, or a trial that failed.

    Examples:
        >>> frame = compare("privbandit/Linear-v0", ["uniform", "greedy"], seeds=2, horizon=50)
        >>> frame["label"].unique(maintain_order=True).to_list()
        ['greedy', 'uniform']
    """
    many = seeds if isinstance(seeds, int) else list(seeds)
    block = {"envs": entries(envs, "id"), "seeds": many, "horizon": horizon, "checkpoints": checkpoints}
    players, labels = unlabelled(entries(agents, "name"))
    trials = parse_sweep({**block, "agents": players}, "compare").trials("compare")
    called = labelled({label: parse_sweep({**block, "agents": [one]}, "compare") for label, one in labels.items()})
    here = jobs == 1 or any(at_home(trial.env, trial.agent) for trial in trials)
    with TemporaryDirectory() if folder is None else nullcontext(str(folder)) as place:
        results, failures = run_jobs(trials, place, Engine(jobs=jobs, alone=here))
    if failures:
        raise ValueError(" ".join(told(failures)))
    frame = relabelled(as_frame(list(results.values())), called)
    ranking = ranks(frame).filter(pl.col("horizon").is_not_null()).select("env", "horizon", "label", "rank")
    ranked = frame.join(ranking, on=["env", "horizon", "label"], how="left", maintain_order="left")
    order = ["env", "horizon", pl.col("notion") == "none", "rank", "seed", "checkpoint"]
    return ranked.sort(order, maintain_order=True).select("rank", pl.exclude("rank"))


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


def relabelled(frame: pl.DataFrame, called: Mapping[tuple[str, str], str]) -> pl.DataFrame:
    rows = frame.select("agent", "config", "label").iter_rows()
    texts = [called.get((agent, config), label) for agent, config, label in rows]
    return frame.with_columns(pl.Series("label", texts, pl.String))
