"""Agents compared in a line of Python: what a sweep does, without a file."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from privbandit_agents.experiments.analysis.frame import as_frame
from privbandit_agents.experiments.analysis.ranks import ranks
from privbandit_agents.experiments.running.attempt import told
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.spec.sweep import parse_sweep

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
        agents: their names, or mappings: ``{"name": "jdp-linucb", "grid": {"epsilon": [0.5, 1, 2]}}``.
        seeds: how many, or which ones.
        horizon: users of each trial; default: the environment's.
        checkpoints: points of a regret curve.
        folder: keeps the results, and what it has is not run again; default: none.
        jobs: processes; default: one per core.

    Returns:
        The table of ``load_results``, with ``rank`` in front: an agent's place by the interquartile mean of its final
        regret, private agents and the others apart. ``ranks`` tells more of it.

    Raises:
        ValueError: an unknown name or a bad setting, or a trial that failed.

    Example:
        >>> frame = compare("privbandit/Linear-v0", ["uniform", "greedy"], seeds=2, horizon=50)
        >>> frame["label"].unique(maintain_order=True).to_list()
        ['greedy', 'uniform']
    """
    block = {"envs": entries(envs, "id"), "agents": entries(agents, "name"), "checkpoints": checkpoints}
    many = seeds if isinstance(seeds, int) else list(seeds)
    trials = parse_sweep({**block, "seeds": many, "horizon": horizon}, "compare").trials("compare")
    with TemporaryDirectory() if folder is None else nullcontext(str(folder)) as place:
        results, failures = run_jobs(trials, place, Engine(jobs=jobs))
    if failures:
        raise ValueError(" ".join(told(failures)))
    frame = as_frame(list(results.values()))
    ranking = ranks(frame).filter(pl.col("horizon").is_not_null()).select("env", "horizon", "label", "rank")
    ranked = frame.join(ranking, on=["env", "horizon", "label"], how="left", maintain_order="left")
    order = ["env", "horizon", pl.col("notion") == "none", "rank", "seed", "checkpoint"]
    return ranked.sort(order, maintain_order=True).select("rank", pl.exclude("rank"))


def entries(given: Named | Sequence[Named], key: str) -> list[dict[str, Any]]:
    """Return what a sweep says of environments or agents: a list of mappings."""
    listed = [given] if isinstance(given, str | Mapping) else list(given)
    return [{key: one} if isinstance(one, str) else dict(one) for one in listed]
