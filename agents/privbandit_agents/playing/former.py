"""States that version 0.3 saved, under the names of today."""

from collections.abc import Set
from typing import Any

import numpy as np

from privbandit_agents.base.state import Arrays

RENAMED = {
    **{"layer_end": "refit_at", "episode": "batch", "served": "users"},
    **{"refit_at": "schedule.ends", "rng_batches": "schedule.rng", "rng_noise": "schedule.rng"},
}
GONE = {
    "runs",
    "sigma",
    "seed_of_choices",
    "rng_choices",
    "labels",
    "exploration",
    "kept",
    "noisy",
    "counters",
    "waiting",
} | {*("kept_sigma", "noisy_sigma", "batch", "began", "stretch", "known", "theta", "group", "rng_batches")}
"""Names that mean nothing where today's agent has none of theirs: those of another schedule, and derived numbers."""
ADDED = {"ties.seed", "ties.users", "rng_runs", "rho", "size", "order", "turn", "undecided"} | {
    *(f"schedule.{name}" for name in ("growth", "window", "rng", "group", "began")),
    *("ahead", "given", "late", "public", "waiting"),
}
"""Names that 0.3 had not: a new agent's value is right, but for those that ``renewed`` sets."""

FIXED = {"intercept": True}
"""Settings that agents no longer have, and the value that all of them have now."""


def is_former(values: dict[str, Any]) -> bool:
    """Return whether a state is of version 0.3, before users had ties."""
    return "ties.seed" not in values


def renewed(arrays: Arrays, values: dict[str, Any], fresh: tuple[Arrays, dict[str, Any]]) -> tuple[Arrays, Any]:
    """Return a state of version 0.3 as (arrays, values) under the names of a new agent's state ``fresh``.

    Raises:
        ValueError: it has a name, or lacks one, that no rule here explains.
    """
    known = {**fresh[0], **fresh[1]}
    state: dict[str, Any] = {}
    for old, value in sorted({**arrays, **values}.items(), key=lambda item: item[0] in RENAMED):
        if (new := named(old, known.keys())) is not None:
            state[new] = value
        elif old.rpartition(".")[2] not in GONE:
            raise ValueError(f"version 0.3 kept {old}, which the agent no longer has")
    if "learner.server.waiting" in values:  # servers that learn in batches counted those who waited
        users, waiting = values["ledger.releases"], values["learner.server.waiting"]
        state |= {"users": users, "learned": users - waiting, "refit_at": users - waiting + known["batch"]}
        state["batch"] = known["batch"]
    if "total" in known and known["total"].ndim == 1:
        state["total"] = np.ravel(state["total"])
    if lacking := known.keys() - state.keys() - ADDED:
        raise ValueError(f"version 0.3 kept no {min(lacking)}, which the agent needs")
    # arms had their turns in order, and trees told nobody of equal answers
    own = {"order": np.arange(len(known.get("order", ()))), "turn": values.get("arm")}
    own |= {"undecided": True, "public": values.get("exploring")}
    state = known | {name: value for name, value in own.items() if name in known} | state
    return {k: v for k, v in state.items() if k in fresh[0]}, {k: v for k, v in state.items() if k in fresh[1]}


def named(old: str, known: Set[str]) -> str | None:
    """Return today's name of a part of a state, None if it has none."""
    short = old.removeprefix("learner.")
    places = old, short, short.removeprefix("server."), RENAMED.get(old, ""), f"schedule.{old}"
    found = [place for place in places if place in known]
    return RENAMED["served"] if old == "served" else next(iter(found), None)
