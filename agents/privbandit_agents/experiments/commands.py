"""The commands: list what there is, run trials."""

import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from privbandit_agents.experiments.labels import short
from privbandit_agents.experiments.listing import agent_lines, env_lines
from privbandit_agents.experiments.settings import from_yaml
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_envs._validate import count, one_of

if TYPE_CHECKING:
    from privbandit_agents.experiments.trial import Trial

out = Console(width=None if sys.stdout.isatty() else 120)
err = Console(stderr=True)


class OneSentence(TyperGroup):
    """A group of commands whose bad usage is one sentence on stderr and exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and exit."""
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except (typer.TyperException, UsageError) as error:
            print(sentence(error), file=sys.stderr)
            code = 2
        except typer.Abort:
            code = 130
        sys.exit(code or 0)


def sentence(error: Exception) -> str:
    """Return an error on one line."""
    message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    return " ".join(message.split())


app = typer.Typer(
    cls=OneSentence,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Benchmark contextual bandits, private and not.",
)


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(f"privbandit {version('privbandit')}")
        raise typer.Exit


@app.callback()
def command(
    version_wanted: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Benchmark contextual bandits, private and not."""


@app.command("list")
def list_all(
    what: Annotated[str, typer.Argument(help="envs, agents or all.")] = "all",
) -> None:
    """Show the environments and the agents, with their settings and defaults."""
    with usage_errors("list"):
        one_of(("envs", "agents", "all"), what=what)
    lines = {"envs": env_lines, "agents": agent_lines}
    for kind in lines if what == "all" else [what]:
        for line in lines[kind]():
            out.print(line)


@app.command()
def run(
    experiment: Annotated[str | None, typer.Argument(help="A bundled experiment: demo.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="Environment id; may repeat.")] = None,
    agent: Annotated[list[str] | None, typer.Option(help="Agent; may repeat.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Users per trial.  [default: the environment's]")] = None,
    seeds: Annotated[str | None, typer.Option(help="How many seeds, or a list: 10, [3, 5].  [default: 1]")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="env.KEY=VALUE, agent.KEY=VALUE (all that have it) or AGENT.KEY=VALUE; may repeat."),
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Folder of the results.  [default: runs/...]")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes.  [default: one per core]")] = None,
    checkpoints: Annotated[int | None, typer.Option(help="How many points a regret curve has.  [default: 200]")] = None,
) -> None:
    """Run agents in environments, or a bundled experiment; finished trials are not run again."""
    from privbandit_agents.experiments.plan import named_plan, override, pairs_plan

    if experiment is not None:
        if env or agent:
            raise UsageError("give either an experiment or --env and --agent, not both.")
        plan = named_plan(experiment)
    else:
        plan = pairs_plan(env or [], agent or [])
    with usage_errors("--seeds"):
        chosen = None if seeds is None else from_yaml(seeds)
    with usage_errors("--jobs"):
        jobs = None if jobs is None else count(jobs=jobs)
    trials = override(plan, assignments or [], horizon=horizon, seeds=chosen, checkpoints=checkpoints).trials()
    folder = folder or Path("runs") / (experiment or short(trials[0].env))
    check_writable(folder)
    raise typer.Exit(execute(trials, folder, jobs))


@app.command("audit")
def audit_target(
    name: Annotated[str, typer.Argument(help="A mechanism or a private agent.")],
    epsilon: Annotated[float, typer.Option(help="Claimed epsilon.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="Claimed delta, where there is one.  [default: 1e-5]")] = None,
    runs: Annotated[int | None, typer.Option(help="Fresh runs of each world.  [default: by target]")] = None,
    calibration: Annotated[str, typer.Option(help="correct or published.")] = "correct",
    seed: Annotated[int, typer.Option(help="Seed of the audit.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.999,
    folder: Annotated[Path, typer.Option("--out", help="Folder of the picture.")] = Path("runs/audit"),
) -> None:
    """Bound a target's epsilon from below; exit 1 if the claim is refuted."""
    with usage_errors("audit"):
        from privbandit_agents.experiments.audit_report import draw_trade_off, run_audit, verdict_table

        verdict, pair = run_audit(name, epsilon, delta, runs, calibration, seed, confidence, err)
    check_writable(folder)
    picture = folder / f"{name}-{calibration}.png"
    draw_trade_off(verdict, picture)
    out.print(verdict_table(verdict, pair, calibration))
    print(f"picture: {picture}")
    raise typer.Exit(1 if verdict.refuted else 0)


def check_writable(folder: Path) -> None:
    """Raise a UsageError if nothing can be written to a folder, which is made if need be."""
    with usage_errors("--out"):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass


def execute(trials: Sequence["Trial"], folder: Path, jobs: int | None) -> int:
    """Run trials, show what they gave, and return the exit code."""
    from privbandit_agents.experiments.figure import draw_regret
    from privbandit_agents.experiments.report import rich_tables, summarise, write_table
    from privbandit_agents.experiments.runner import run_trials

    outcomes, failures = run_trials(trials, folder, jobs, err)
    if outcomes:
        summary = summarise(outcomes)
        out.print(*rich_tables(summary))
        write_table(summary, folder)
        draw_regret(outcomes, folder / "regret.png")
        print(f"figure: {folder / 'regret.png'}\ntable: {folder / 'table.md'}, {folder / 'table.csv'}")
        print(f"events: tensorboard --logdir {shlex.quote(str(folder / 'tensorboard'))}")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0
