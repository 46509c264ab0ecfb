"""Tuning settings of an agent by Optuna, on seeds that the final table does not use; it needs the extra ``tune``.

Every run of an agent is a trial of the engine, stored by its content. A search that was killed goes on where it
stopped: the same seed asks for the same runs.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, StrictInt, model_validator

from privbandit_agents.experiments.fields import Model, Points, Positive
from privbandit_agents.experiments.jobs.job import Desk
from privbandit_agents.experiments.jobs.trial import Trial
from privbandit_agents.experiments.names import plain, unfinished
from privbandit_agents.experiments.running.attempt import run_job
from privbandit_agents.experiments.running.engine import Engine, run_jobs
from privbandit_agents.experiments.schema.validation import validated
from privbandit_agents.experiments.schema.yaml_text import content_of
from privbandit_agents.experiments.store.locks import only_one
from privbandit_agents.experiments.store.results import free_name
from privbandit_agents.experiments.usage import UsageError, contained, on_one_line, sentence, unwritten, usage_errors
from privbandit_envs.files import atomic, remove_leftovers
from privbandit_envs.validate import shown
from privbandit_envs.wrappers import RegretCurve, even_checkpoints

Say = Callable[[str], None]


class Plan(Model):
    """The plan of a tuning, as a file has it.

    Attributes:
        env: id of the environment.
        agent: its name.
        search: from a setting to a list of values, or to {low, high} with ``log: true`` or ``int: true``.
        horizon: users of every run.
        trials: how many settings are tried, the defaults first.
        env_kwargs: arguments of the environment.
        config: settings of the agent that are not searched.
        tuning: how many seeds a trial plays, from 980 000 on.
        final: how many seeds the final table has, from 990 000 on.
        checkpoints: how often a run is held against the others, and may be given up.
        seed: of the search itself.
    """

    env: str
    agent: str
    search: dict[str, Any] = Field(min_length=1)
    horizon: Positive = 10_000
    trials: Points = 20
    env_kwargs: dict[str, Any] = Field(default={})
    config: dict[str, Any] = Field(default={})
    tuning: Annotated[Points, Field(le=10_000)] = 3
    final: Points = 10
    checkpoints: Points = 10
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 0

    @model_validator(mode="after")
    def _searched(self) -> Self:
        for name, space in self.search.items():
            checked_space(name, space)
        if both := set(self.search) & set(self.config):
            raise ValueError(f"{', '.join(sorted(both))} is searched and set; leave it out of one of them")
        return self

    def seeds(self, kind: str) -> range:
        """Return the seeds that tune, or those that judge."""
        first, n = (980_000, self.tuning) if kind == "tuning" else (990_000, self.final)
        return range(first, first + n)

    def trial(self, seed: int, found: Mapping[str, Any]) -> Trial:
        """Return the run of a seed with settings that were found."""
        config = {**self.config, **found}
        return Trial(self.env, self.agent, self.horizon, seed, self.env_kwargs, config, self.checkpoints)


def checked_space(name: str, space: Any) -> None:
    """Raise ValueError unless a setting's space is a list, or has a low and a high end."""
    if isinstance(space, list) and space:
        return
    ends = space if isinstance(space, Mapping) else {}
    low, high = ends.get("low"), ends.get("high")
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in (low, high))
    unknown = set(ends) - {"low", "high", "log", "int"}
    switches = all(isinstance(ends.get(key, False), bool) for key in ("log", "int"))
    whole = not ends.get("int") or (isinstance(low, int) and isinstance(high, int))
    if unknown or not switches or not whole or not numbers or not low < high or (ends.get("log") and low <= 0):  # type: ignore[operator]
        way_out = "a list of values, or low < high with log or int, true or false"
        raise ValueError(f"search.{name} must be {way_out}; got {shown(space)}")


def read_plan(path: Path) -> Plan:
    """Read a YAML file; its keys are the attributes of a Plan.

    Raises:
        UsageError: it is none; the message gives the place.
    """
    plan = validated(Plan, plain(content_of(path)), str(path))
    with usage_errors(str(path)):
        first = plan.trial(
            0, {name: space[0] if isinstance(space, list) else space["low"] for name, space in plan.search.items()}
        )
        first.make_agent(first.make_env())
    return plan


def tune(plan: Plan, folder: Path, say: Say = print, engine: Engine | None = None) -> dict[str, Any]:
    """Search, then play the best settings and the defaults on held-out seeds; return the written content.

    A trial that raises has its ``error`` and counts as failed. An earlier tuning's result is set aside; runs that the
    folder has are not run again.

    Args:
        plan: what to do.
        folder: where ``tuned.json`` goes, with all trials, best first, after each of them; and the results of runs.
        say: gets a line for every trial, and one for each reason why nothing could be written.
        engine: where the seeds of a trial run, at once and to their end; default: this process, one after the other,
            and no further than a trial is given up.

    Raises:
        UsageError: Optuna is not installed, or another process is tuning in the folder.
    """
    try:
        import optuna
    except ImportError:
        raise UsageError("privbandit tune needs Optuna: pip install 'privbandit[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    rows: list[dict[str, Any]] = []
    lost: set[str] = set()

    def keep(best: object = None, final: object = None) -> dict[str, Any]:
        told = told_of(plan, rows, best, final)
        for why in set(unwritten(folder, {"tuned.json": partial(write, folder, told)})) - lost:
            lost.add(why)
            say(why)
        return told | {"lost": bool(lost)}

    def objective(trial: Any) -> float:
        found = {name: suggested(trial, name, space) for name, space in plan.search.items()} if trial.number else {}
        row: dict[str, Any] = {"regret": None, "pruned": False, "settings": found}
        rows.append(row)
        how = "given up"
        try:
            with contained():
                row["regret"] = regret(plan, found, trial, folder, engine)
            how = f"{row['regret']:.6g}"
        except optuna.TrialPruned:
            row["pruned"] = True
            raise
        except Exception as error:
            row["error"] = on_one_line(sentence(error))
            how = f"failed: {row['error']}"
            raise
        finally:
            say(f"trial {len(rows)} of {plan.trials}: {found or 'defaults'}: {how}")
            keep()
        return float(row["regret"])

    with only_one(folder, "tuned"):
        remove_leftovers(folder / "*")
        set_aside(folder / "tuned.json", say)
        sampler, pruner = optuna.samplers.TPESampler(seed=plan.seed), optuna.pruners.MedianPruner(n_startup_trials=3)
        study = optuna.create_study(sampler=sampler, pruner=pruner)
        study.optimize(objective, n_trials=plan.trials, catch=(Exception,))
        whole = [row for row in rows if row["regret"] is not None]
        if not whole:
            return keep()
        best = min(whole, key=lambda row: row["regret"])
        return keep(
            best["settings"],
            {
                name: judged(plan, kept, folder, engine)
                for name, kept in (("defaults", {}), ("tuned", best["settings"]))
            },
        )


def set_aside(path: Path, say: Say) -> None:
    """Rename the result of an earlier tuning, so that it is not lost."""
    aside = free_name(path, "stale")
    with suppress(OSError):  # then writing says so
        if path.is_file():
            path.rename(aside)
            say(f"earlier trials are kept as {aside}.")


def suggested(trial: Any, name: str, space: Any) -> Any:
    """Return the value of a setting that a trial of Optuna's shall have."""
    if isinstance(space, list):
        return trial.suggest_categorical(name, space)
    draw = trial.suggest_int if space.get("int") else trial.suggest_float
    return draw(name, space["low"], space["high"], log=bool(space.get("log")))


def regret(plan: Plan, found: Mapping[str, Any], trial: Any, folder: Path, engine: Engine | None) -> float:
    """Return the mean regret over the seeds of tuning, unless the trial is given up at a checkpoint."""
    import optuna

    runs = [plan.trial(seed, found) for seed in plan.seeds("tuning")]
    if engine is not None:
        finished(runs, folder, engine)
    done, reported = 0.0, 0

    def report(regrets: Any, first: int) -> None:
        """Hold all checkpoints so far that were not held yet against the other trials."""
        nonlocal reported
        for step in range(reported + 1, first + len(regrets) + 1):
            reported = step
            trial.report(done + float(regrets[step - first - 1]), step)
            if trial.should_prune():
                raise optuna.TrialPruned

    for place, run in enumerate(runs):
        first = place * len(even_checkpoints(plan.horizon, plan.checkpoints))

        def watch(curve: RegretCurve, first: int = first) -> None:
            report(curve.regret[: curve.passed], first)

        try:
            curve = run_job(run, Desk(folder, on_checkpoint=watch)).arrays["regret"]
        except Exception:  # given up, or failed; what was interrupted goes on later
            forget(run, folder)
            raise
        report(curve, first)
        done += float(curve[-1])
    return done / plan.tuning


def forget(run: Trial, folder: Path) -> None:
    """Delete the leftovers of a run that was given up or failed."""
    for suffix in ("lock", "npz"):
        with suppress(OSError):
            unfinished(folder, run.name, suffix).unlink()


def finished(runs: Sequence[Trial], folder: Path, engine: Engine) -> list[float]:
    """Return the final regret of runs; those that the folder has are not run again.

    Raises:
        ValueError: one of them failed.
    """
    results, failures = run_jobs(runs, folder, engine)
    for failure in failures:
        forget(failure.job, folder)  # type: ignore[arg-type]
    if failures:
        raise ValueError(failures[0].error)
    return [float(results[run.name].arrays["regret"][-1]) for run in runs]


def judged(plan: Plan, found: Mapping[str, Any], folder: Path, engine: Engine | None) -> dict[str, Any]:
    """Return mean regret and its standard error over the seeds of the table, or the ``error`` that a run raised."""
    try:
        with contained():
            values = finished(
                [plan.trial(seed, found) for seed in plan.seeds("final")], folder, engine or Engine(alone=True)
            )
    except Exception as problem:
        return {"error": on_one_line(sentence(problem))}
    n = len(values)
    mean = sum(values) / n
    error = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n) if n > 1 else 0.0
    return {"regret": round(mean, 4), "error": round(error, 4)}


def told_of(plan: Plan, rows: list[dict[str, Any]], best: object, final: object) -> dict[str, Any]:
    """Return the trials so far, the best first."""
    order = sorted(rows, key=lambda row: math.inf if row["regret"] is None else row["regret"])
    seeds = {kind: [plan.seeds(kind)[0], plan.seeds(kind)[-1]] for kind in ("tuning", "final")}
    told = {"env": plan.env, "agent": plan.agent, "horizon": plan.horizon, "seeds": seeds}
    return told | {"best": best, "final": final, "trials": order}


def write(folder: Path, told: Mapping[str, Any]) -> None:
    with atomic(folder / "tuned.json") as file:
        file.write(json.dumps(told, indent=2) + "\n")
