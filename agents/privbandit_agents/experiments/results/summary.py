"""The summary of results: a row for each cell."""

from typing import Any

import numpy as np
import polars as pl

from privbandit_agents.experiments.names import as_text, canonical, plain
from privbandit_agents.experiments.results.cells import VARIANT, Cells, world
from privbandit_agents.experiments.results.frame import PROMISES
from privbandit_agents.experiments.results.queries import WORLD, beside_uniform, finals
from privbandit_agents.experiments.results.ranks import ranks
from privbandit_agents.experiments.results.readings import Reading, Results
from privbandit_agents.experiments.results.statistics import student_interval


def summarised(last: pl.DataFrame) -> pl.DataFrame:
    """Return one row per environment, horizon and agent; the best rows of each notion of privacy come first.

    Args:
        last: the last rows of trials, from ``finals(frame_of(trials))``.

    Returns:
        ``env``, ``horizon``, ``agent``, ``config`` (canonical JSON), ``seeds`` (how many), ``regret`` (mean of the
        final regret), ``median`` (of it), ``half_width`` (of the mean's 95 % interval; null for one seed),
        ``ratio_to_uniform`` (of the mean regrets; null without uniform), ``reward`` (mean per round),
        ``rounds_per_s``, ``privacy`` (the agent's promise to a user, in words), ``visits`` (how often one person
        comes at most), ``person`` (the epsilon that such a person has at most, where it is known and more than that of
        a visit), ``label``, ``notion``, ``epsilon``, ``delta``, ``rho``, ``rank`` (among agents of one notion) and
        ``better``, as in ``ranks``.
    """
    placed = ranks(last).select(*WORLD, "label", "rank", "better")
    keys = (*WORLD, "player", "config")
    rows = [trial_row(own) for _, own in beside_uniform(last).group_by(keys, maintain_order=True)]
    numbers = dict.fromkeys(("half_width", "ratio_to_uniform", "person", *PROMISES[1:]), pl.Float64)
    summary = pl.DataFrame(rows, schema_overrides={**numbers, "notion": pl.String})
    joined = summary.join(placed, on=[*WORLD, "label"], how="left", maintain_order="left")
    first = pl.int_range(pl.len()).min().over(WORLD)  # environments stay in their order
    place = pl.col("rank").rank("dense").over(*WORLD, "notion")  # promises of two notions do not compare
    kinds_of = (first, pl.col("notion") != "none", "notion", "rank")
    return joined.with_columns(rank=place).sort(kinds_of, maintain_order=True)


def trial_row(own: pl.DataFrame) -> dict[str, Any]:
    """Return the summary of a cell, given the last rows of its trials beside uniform play's."""
    first, regret, horizon = own.row(0, named=True), own["regret"].to_numpy(), own["horizon"][0]
    mean = student_interval(regret)
    with np.errstate(all="ignore"):
        ratio = None if first["uniform"] is None else float(np.divide(mean.value, first["uniform"]))
    return {
        **{key: first[key] for key in WORLD},
        **{"agent": first["player"], "config": first["config"]},
        "seeds": own.height,
        "regret": float(mean.value),
        "median": float(np.median(regret)),
        "half_width": float(mean.half_width) if own.height > 1 else None,
        "ratio_to_uniform": ratio,
        "reward": float(np.mean(own["reward"].to_numpy() / horizon)),
        "rounds_per_s": horizon * own.height / sum(own["seconds"]),
        "privacy": first["privacy"],
        "visits": own["visits"].max(),
        "person": own["person"].max(),
        **{key: first[key] for key in ("label", *PROMISES)},
    }


def summarise_fits(cells: Cells, results: Results) -> pl.DataFrame:
    """Return one row per cell.

    Returns:
        ``world``, ``method``, ``epsilon`` (null without one), ``replications``, ``best`` (mean accuracy of the point of
        the grid that is best on the test sets), ``half_width`` (of its 95 % interval), ``best_point``, ``honest`` (mean
        with the point chosen on other replications), ``seconds`` (of the best point's fit), ``note`` (why there is no
        accuracy).
    """
    rows = []
    for cell in cells:
        best, honest = (Reading(cell, "accuracy", pick=pick).read(results) for pick in ("best", "honest"))
        seconds = Reading(cell, "seconds").read(results)
        n = len(best.replications)
        rows.append(
            {
                "world": world(cell),
                "method": cell.settings["method"],
                "epsilon": cell.settings.get("epsilon"),
                "replications": n,
                "best": float(best.mean[0]) if n else None,
                "half_width": float(best.interval.half_width[0]) if n > 1 else None,
                "best_point": as_text(plain(best.point)) if best.point else "",
                "honest": float(honest.mean[0]) if n else None,
                "seconds": float(seconds.mean[0]) if n else None,
                "note": best.why,
            }
        )
    numbers = ("epsilon", "best", "half_width", "honest", "seconds")
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(numbers, pl.Float64))


def summarise(cells: Cells, results: Results) -> pl.DataFrame:
    """Return the summary of an experiment; cells that have a name of its variants are called so."""
    if cells[0].job.kind == "fit":
        return summarise_fits(cells, results)
    rows = summarised(finals(pl.concat([results[cell.name] for cell in cells if cell.name in results])))
    named = [cell for cell in cells if VARIANT in cell.settings]
    names = {(cell.job.spec["agent"], canonical(cell.job.spec["config"])): cell.settings[VARIANT] for cell in named}
    labels = [names.get((row["agent"], row["config"]), row["label"]) for row in rows.iter_rows(named=True)]
    return rows.with_columns(label=pl.Series(labels, dtype=pl.String))
