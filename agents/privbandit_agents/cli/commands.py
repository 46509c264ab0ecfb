"""The commands: list what there is, run trials."""

import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from privbandit_agents.cli.process import interruption
from privbandit_agents.cli.text import warned
from privbandit_agents.experiments.usage import AGAINST, UNFINISHED, UsageError, on_one_line, unwritten, usage_errors

if TYPE_CHECKING:
    from rich.console import Console

    from privbandit_agents.experiments.jobs.trial import Trial
    from privbandit_agents.experiments.running.engine import Engine

EXITS = (
    "Exit codes: 0 good; 1 a checked claim fails; 2 bad usage; 3 an error of privbandit's own; 4 some of the work "
    "failed or could not be written; 130 stopped. PRIVBANDIT_TRACEBACK=1 shows where an error of its own comes from."
)


@cache
def out() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120)


@cache
def err() -> "Console":
    from rich.console import Console

    return Console(stderr=True)


class OneSentence(TyperGroup):
    """A group of commands: bad usage is a sentence on stderr and exit code 2, Ctrl-C likewise and 130."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is asked for; the one with a command for each data set is loaded only here."""
        if args[0] != "data":
            return super().resolve_command(ctx, args)
        from privbandit_agents.cli.data import data

        group = get_group(data)
        group.name = "data"
        return "data", group, args[1:]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BaseException as error:
            if (stop := interruption(error)) is None:
                raise
            print(str(stop) or "stopped.", file=sys.stderr)
            raise typer.Exit(130) from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except (typer.TyperException, UsageError) as error:
            print(on_one_line(message_of(error)), file=sys.stderr)
            code = 2
        sys.exit(code or 0)


def message_of(error: Exception) -> str:
    """Return the error; if the command itself was not understood, with a hint at its usage."""
    if not isinstance(error, typer.TyperException):
        return str(error)
    path = getattr(getattr(error, "ctx", None), "command_path", "")
    how = f"; `{path} --help` says how it goes." if path else "."
    return error.format_message().rstrip(".") + how


app = typer.Typer(
    cls=OneSentence,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes would take as long to load as all the rest
    help="Benchmark contextual bandits, private and not.",
    epilog=EXITS,
)


@app.command("data", add_help_option=False)
def data_sets() -> None:
    """Prepare real data for the environments."""  # cli/data.py, which ``resolve_command`` loads


def show_version(wanted: bool) -> None:
    from importlib.metadata import version

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
    warnings.filterwarnings("ignore", "A worker stopped while some jobs")  # loky renews a worker that has grown
    warnings.filterwarnings("default", category=DeprecationWarning, module="privbandit")  # names that go soon
    warnings.showwarning = warned
    warnings.filterwarnings("once", ".* is retired", DeprecationWarning)


@app.command("list", short_help="List environments, agents, experiments and data sets.")
def list_all(
    what: Annotated[str, typer.Argument(help="envs, agents, experiments, targets, datasets or all.")] = "all",
    notion: Annotated[
        str | None, typer.Option(help="Only agents of this privacy: none, local, shuffle, joint, reward.")
    ] = None,
    plays: Annotated[
        str | None, typer.Option(help="Only agents that play linear, sparse, assortments or labels.")
    ] = None,
) -> None:
    """List the environments, the agents with what they play and promise, the experiments and the data sets."""
    from privbandit_agents.cli.core import told

    told(what, notion, plays)


@app.command("show", short_help="Show the manual page of a name.")
def show_page(
    name: Annotated[str, typer.Argument(help="An agent, environment, experiment, data set or audit target.")],
) -> None:
    """Show the manual page of a name: what it is, what it promises, its settings and their meaning."""
    with usage_errors("show"):
        from privbandit_agents.cli.manual import page

        lines = list(page(name))
    print(*lines, sep="\n")


@app.command("new", short_help="Begin an environment or an agent of your own.")
def new(
    kind: Annotated[str, typer.Argument(help="env, agent, local-agent or joint-agent.")],
    name: Annotated[str, typer.Argument(help="What it shall be called, such as mine or my-agent.")],
) -> None:
    """Write a skeleton and its test, which passes, into the current folder; say which commands come next."""
    from privbandit_agents.cli.new import begin

    with usage_errors("new"):
        lines = list(begin(kind, name, Path()))
    print(*lines, sep="\n")


def whole(text: str) -> int:
    """Return the whole number that a text spells, 1e4 too."""
    from privbandit_agents.experiments.schema.yaml_text import from_yaml

    with suppress(ValueError):
        if isinstance(value := from_yaml(text), int) and not isinstance(value, bool):
            return value
    raise typer.BadParameter(f"{text!r} is not a valid integer.")


def whole_option(*names: str, help: str) -> Any:
    return typer.Option(*names, parser=whole, metavar="INTEGER", help=help)


Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", help="env.KEY=VALUE, agent.KEY=VALUE (all that have it) or AGENT.KEY=VALUE; may repeat."),
]
Formats = Annotated[list[str] | None, typer.Option("--format", help="Figures also as pdf or svg; may repeat.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder of the results.  [default: runs/...]")]
Jobs = Annotated[int | None, whole_option(help="Processes.  [default: one per core]")]
Kind = Annotated[str, typer.Option("--engine", help="loky (this machine) or dask (a cluster).")]
Address = Annotated[str | None, typer.Option(help="Of a Dask scheduler.  [default: a cluster on this machine]")]
Keep = Annotated[
    bool, typer.Option("--keep", help="Use results of agents and environments whose code has changed since.")
]
SaveEvery = Annotated[float, typer.Option(help="Seconds between two snapshots of a running trial.")]


@app.command(short_help="Run agents in environments, or a bundled sweep.")
def run(
    experiment: Annotated[str | None, typer.Argument(help="A bundled sweep: demo.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="Environment id; may repeat.")] = None,
    agent: Annotated[list[str] | None, typer.Option(help="Agent; may repeat.")] = None,
    horizon: Annotated[int | None, whole_option(help="Users per trial.  [default: the environment's]")] = None,
    seeds: Annotated[str | None, typer.Option(help="How many seeds, or a list: 10, [3, 5].  [default: 1]")] = None,
    assignments: Assignments = None,
    folder: Out = None,
    jobs: Jobs = None,
    checkpoints: Annotated[int | None, whole_option(help="How many points a regret curve has.  [default: 200]")] = None,
    formats: Formats = None,
    keep: Keep = False,
) -> None:
    """Run agents in environments, or a bundled sweep; finished trials are not run again."""
    from privbandit_agents.experiments.names import short
    from privbandit_agents.experiments.schema.sweep import named_sweep, override, pairs_sweep
    from privbandit_agents.experiments.schema.yaml_text import from_yaml

    if experiment is not None:
        if env or agent:
            raise UsageError("give either an experiment or --env and --agent, not both.")
        chosen = named_sweep(experiment)
    else:
        chosen = pairs_sweep(env or [], agent or [])
    with usage_errors("--seeds"):
        given = {"horizon": horizon, "seeds": None if seeds is None else from_yaml(seeds), "checkpoints": checkpoints}
    engine = engine_of("loky", jobs, None, 60.0, keep)
    trials = override(chosen, assignments or [], **given).trials()
    raise typer.Exit(
        execute(trials, folder or Path("runs") / (experiment or short(trials[0].env)), engine, formats=formats)
    )


@app.command("log", short_help="Play, and write what happened with propensities.")
def log_users(
    env: Annotated[str, typer.Option(help="Environment id.")],
    agent: Annotated[str, typer.Option(help="Agent.")],
    output: Annotated[Path, typer.Option("--out", help="A file that ends in .npz, .parquet or .csv.")],
    users: Annotated[int | None, whole_option("--users", "-n", help="How many.  [default: the environment's]")] = None,
    share: Annotated[
        float | None, typer.Option(help="Of users who get a uniformly random action.  [default: as the agent plays]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the environment and the agent.")] = 0,
    draws: Annotated[int | None, whole_option(help="For propensities without a closed form.  [default: 1000]")] = None,
    assignments: Assignments = None,
) -> None:
    """Let an agent play, and write contexts, actions, rewards and the probability of every action."""
    from privbandit_agents.cli.logs import written
    from privbandit_agents.experiments.schema.sweep import override, pairs_sweep

    with usage_errors("--seed"):
        given = {"horizon": users, "seeds": [seed]}
    (trial,) = override(pairs_sweep([env], [agent]), assignments or [], **given).trials()
    raise typer.Exit(written(trial, share, draws or 1000, output))


@app.command("cost", short_help="What would privacy cost, by a log of decisions?")
def cost_of(
    file: Annotated[Path, typer.Argument(help="CSV or parquet: a row a decision, with the user's features.")],
    action: Annotated[str, typer.Option(help="Column of the arm that was taken.")],
    reward: Annotated[str, typer.Option(help="Column of what it earned, such as a click.")],
    propensity: Annotated[
        str | None, typer.Option(help="Column of the arm's probability.  [default: estimated from the features]")
    ] = None,
    person: Annotated[str | None, typer.Option(help="Column of who it was, if people come again.")] = None,
    features: Annotated[str | None, typer.Option(help="Columns, apart by commas.  [default: all others]")] = None,
    epsilon: Annotated[str, typer.Option(help="Budgets, apart by commas.")] = "0.3,1,3",
    notions: Annotated[
        str | None, typer.Option(help="Of joint, shuffle, local, reward.  [default: those with an agent]")
    ] = None,
    model: Annotated[str, typer.Option(help="Of rewards: auto, logistic or trees.")] = "auto",
    users: Annotated[int | None, whole_option("--users", "-n", help="Of a run.  [default: the log's]")] = None,
    seeds: Annotated[int, typer.Option(min=2, help="Runs of each agent.")] = 8,
    folder: Annotated[Path | None, typer.Option("--out", help="Folder of the page.  [default: runs/cost-...]")] = None,
    jobs: Jobs = None,
) -> None:
    """Make a world of a log, let private agents play it, and write a page: reward, share of the gain kept, promise.

    For example: privbandit cost decisions.csv --action arm --reward click --propensity p
    """
    from privbandit_agents.cli.cost import checked_folder, cost
    from privbandit_agents.logs.record import Log

    folder = folder or Path("runs") / f"cost-{file.stem}"
    checked_folder(folder)
    with usage_errors("--epsilon"):
        budgets = [float(text) for text in epsilon.split(",")]
    chosen = None if features is None else [name.strip() for name in features.split(",")]
    columns = {"action": action, "reward": reward, "propensity": propensity, "person": person, "features": chosen}
    with usage_errors("cost"):
        log = Log.from_table(file, **columns)  # type: ignore[arg-type]
    engine = engine_of("loky", jobs, None, 60.0, False)
    wanted = None if notions is None else [name.strip() for name in notions.split(",")]
    found = cost(
        log, budgets, wanted, out=folder, seeds=seeds, users=users, model=model, engine=engine, err=err(),
        title=f"What privacy would cost: {file.name}",
    )  # fmt: skip
    print(found, f"{folder / 'cost.html'} has the page.", sep="\n")
    raise typer.Exit(found.code)


@app.command(short_help="Tune an agent's settings by a file.")
def tune(
    file: Annotated[Path, typer.Argument(help="YAML: env, agent, search; see docs/howto/tuning.md.")],
    folder: Annotated[Path | None, typer.Option("--out", help="Folder of tuned.json.  [default: runs/...]")] = None,
    jobs: Annotated[int | None, whole_option(help="Processes, for the seeds of a trial at once.  [default: 1]")] = None,
    kind: Kind = "loky",
    address: Address = None,
) -> None:
    """Search settings with Optuna, give up runs that lag behind, and judge the best on seeds that tuned nothing."""
    from privbandit_agents.experiments.jobs.job import one_thread
    from privbandit_agents.experiments.tuning import read_plan
    from privbandit_agents.experiments.tuning import tune as tuned

    plan, folder = read_plan(file), folder or Path("runs") / file.stem
    with usage_errors("--out"):
        folder.mkdir(parents=True, exist_ok=True)
    with one_thread():
        engine = None if kind == "loky" and jobs is None else engine_of(kind, jobs, address, 60.0, False)
        told = tuned(plan, folder, engine=engine)
    for name, found in (told["final"] or {}).items():
        gave = f"failed: {found['error']}" if "regret" not in found else f"regret {found['regret']:.6g}"
        print(
            f"{name}: {gave}" + (f" +- {found['error']:.2g} on seeds that tuned nothing" if "regret" in found else "")
        )
    failed = sum("error" in row for row in told["trials"]) + sum(
        "regret" not in one for one in (told["final"] or {}).values()
    )
    if told["final"]:
        kept = "" if told["lost"] else f"; {folder / 'tuned.json'} has all trials"
        print(f"best settings: {told['best'] or 'the defaults'}{kept}")
    else:
        print("no trial could be run to its end, so there are no best settings.", file=sys.stderr)
    if failed:
        why = "" if told["lost"] else f"; {folder / 'tuned.json'} says why"
        print(f"{failed} of the runs failed{why}.", file=sys.stderr)
    raise typer.Exit(UNFINISHED if failed or told["lost"] or not told["final"] else 0)


@app.command(short_help="Run all trials of a file.")
def sweep(
    file: Annotated[Path, typer.Argument(help="YAML: envs, agents, seeds; see docs/sweeps.md.")],
    folder: Out = None,
    kind: Kind = "loky",
    address: Address = None,
    jobs: Jobs = None,
    shard: Annotated[str | None, typer.Option(help="i/n: only the i-th of n parts of the trials.")] = None,
    assignments: Assignments = None,
    save_every: SaveEvery = 60.0,
    formats: Formats = None,
    keep: Keep = False,
) -> None:
    """Run all trials of a file; killed and started again, it goes on where it was."""
    from privbandit_agents.experiments.schema.sweep import override, read_sweep

    chosen = read_sweep(file)
    trials = override(chosen, assignments).trials(file.name) if assignments else chosen.trials(file.name)
    engine = engine_of(kind, jobs, address, save_every, keep)
    i, slash, n = ("1/1" if shard is None else shard).partition("/")
    short_enough = max(len(i), len(n)) < 10
    if not (slash and short_enough and i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n)):
        raise UsageError(f"--shard must be i/n with 1 <= i <= n < 10^9, such as 2/8; got {shard!r}.")
    mine = trials[int(i) - 1 :: int(n)]
    raise typer.Exit(execute(mine, folder or Path("runs") / file.stem, engine, trials, formats))


@app.command(short_help="Run an experiment and check its statements.")
def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment (privbandit list experiments), or a YAML file of yours.")],
    scale: Annotated[
        str,
        typer.Option(
            help="paper (decides), quick (with fewer seeds, where an experiment has it) or smoke (does it run?)."
        ),
    ] = "paper",
    folder: Out = None,
    kind: Kind = "loky",
    address: Address = None,
    jobs: Jobs = None,
    assignments: Assignments = None,
    save_every: SaveEvery = 60.0,
    formats: Formats = None,
    keep: Keep = False,
) -> None:
    """Run an experiment, check its statements, draw its figures; exit 1 if one comes out against expectation."""
    from privbandit_agents.experiments.study import carry_out, prepare

    if assignments and folder is None:
        raise UsageError("--set needs --out: name a folder, so that the results of the experiment as it is stay apart.")
    engine = engine_of(kind, jobs, address, save_every, keep)
    study = prepare(name, scale, assignments or ())
    folder = folder or study.folder
    check_results(folder)
    raise typer.Exit(carry_out(study, folder, engine, out(), err(), checked_formats(formats)))


Results = Annotated[Path, typer.Argument(help="Folder of a run, a sweep or an experiment.")]


@app.command()
def report(
    folder: Results,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="An HTML page with all of it, to open.")] = None,
    audits: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of audits for the page.  [default: FOLDER, FOLDER/audit, runs/audit]"),
    ] = None,
    formats: Formats = None,
) -> None:
    """Draw the figure and the table of all results in a folder; with -o, write a page that a browser opens."""
    from privbandit_agents.cli.pages import write_page
    from privbandit_agents.experiments.analysis.load import load_trials
    from privbandit_agents.experiments.study import show

    chosen = checked_formats(formats)
    with usage_errors("report"):
        trials = load_trials(folder)
    if output is not None:
        raise typer.Exit(write_page(trials, folder, output, audits))
    raise typer.Exit(show(trials, folder, out(), err(), chosen))


@app.command(short_help="Draw regret against epsilon.")
def frontier(
    folder: Results,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A PNG.  [default: FOLDER/frontier.png]")
    ] = None,
    formats: Formats = None,
) -> None:
    """Draw regret against epsilon, with uniform choice and the best agent without privacy, of all in a folder."""
    from privbandit_agents.cli.pages import draw_frontier
    from privbandit_agents.experiments.analysis.load import load_results

    chosen = checked_formats(formats)
    with usage_errors("frontier"):
        code = draw_frontier(load_results(folder, final=True), output or folder / "frontier.png", chosen)
    raise typer.Exit(code)


def checked_formats(formats: list[str] | None) -> list[str]:
    from privbandit_envs.validate import one_of

    with usage_errors("--format"):
        return [one_of(("pdf", "png", "svg"), format=one) for one in formats or []]


def engine_of(kind: str, jobs: int | None, address: str | None, save_every: float, keep: bool) -> "Engine":
    from privbandit_agents.experiments.fields import at_most
    from privbandit_agents.experiments.running.engine import Engine
    from privbandit_envs.validate import positive

    with usage_errors("--jobs"):
        jobs = None if jobs is None else at_most(1000, jobs=jobs)
    with usage_errors("--save-every"):
        positive(save_every=save_every)
    with usage_errors("--engine"):
        return Engine(kind, jobs, address, save_every=save_every, keep=keep)


@app.command("audit", short_help="Bound a target's epsilon from below.")
def audit_target(
    name: Annotated[str, typer.Argument(help="A mechanism, a private agent, or module:name for an agent of yours.")],
    epsilon: Annotated[float, typer.Option(help="Claimed epsilon.")] = 1.0,
    delta: Annotated[
        float | None, typer.Option(help="Claimed delta, where there is one.  [default: by target]")
    ] = None,
    runs: Annotated[int | None, whole_option(help="Fresh runs of each world.  [default: by game]")] = None,
    effort: Annotated[str, typer.Option(help="quick, normal or long: how many users are served.")] = "normal",
    calibration: Annotated[str, typer.Option(help="correct or published.")] = "correct",
    env: Annotated[str | None, typer.Option(help="Environment of an agent.  [default: the first it plays]")] = None,
    assignments: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE of an agent; may repeat.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the audit.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of all lower bounds together.")] = 0.999,
    power: Annotated[bool, typer.Option(help="Say what the audit would have found.")] = True,
    folder: Annotated[Path, typer.Option("--out", help="Folder of the pictures and numbers.")] = Path("runs/audit"),
    formats: Formats = None,
) -> None:
    """Bound a target's epsilon from below; exit 1 if the claim is refuted."""
    chosen = checked_formats(formats)
    with usage_errors("audit"):
        from privbandit_agents.audits.registry import games, stronger
        from privbandit_agents.cli import audit

        asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "calibration": calibration, "env": env}
        asked |= {"config": audit.config_of(assignments or []), "effort": effort}
        truths = partial(stronger, name, audit.STRONGER, **asked)
        with err().status(f"pilot runs of {name}"):
            played = games(name, **asked)
        found = audit.audited(played, truths, power, runs, seed, confidence, err())
    if not found:
        raise KeyboardInterrupt
    print(audit.verdict(found, confidence))
    lost = []
    for one in found:
        out().print(audit.result_table(one, calibration))
        picture = folder / f"{re.sub('[:, ]+', '-', one.game.title)}-{calibration}.png"
        numbers = partial(audit.write_numbers, one, picture.with_suffix(".json"))
        drawn = partial(audit.draw_audit, one, picture, chosen)
        missing = unwritten(folder, {"the picture": drawn, "the numbers": numbers})
        print(*missing, sep="\n", file=sys.stderr) if missing else print(f"picture: {picture}")
        lost += missing
    refuted = any(one.result.refuted for one in found)
    if len(found) < len(played):
        print(f"interrupted after {len(found)} of {len(played)} games; what stands so far is above.", file=sys.stderr)
        raise typer.Exit(AGAINST if refuted else 130)
    raise typer.Exit(AGAINST if refuted else UNFINISHED if lost else 0)


def check_results(folder: Path) -> None:
    """Raise a UsageError if no results can be written to a folder, which is made if need be."""
    with usage_errors("--out"):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
        for inner in (folder / name for name in ("trials", "unfinished", "tensorboard", "tensorboard-trials")):
            if os.path.lexists(inner) and not inner.is_dir():
                raise UsageError(f"--out: {inner} must be a folder; move what is there.")


def execute(
    trials: Sequence["Trial"],
    folder: Path,
    engine: "Engine",
    whole: Sequence["Trial"] | None = None,
    formats: list[str] | None = None,
) -> int:
    """Run trials, show their results, and return the exit code.

    Args:
        trials: what to run.
        folder: of the results.
        engine: where to run.
        whole: all trials, if ``trials`` are a shard of them.
        formats: of figures, beside PNG.
    """
    from privbandit_agents.experiments.running.attempt import told
    from privbandit_agents.experiments.running.engine import found_before, run_jobs
    from privbandit_agents.experiments.study import show, write_board

    chosen = checked_formats(formats)
    check_results(folder)
    whole = whole or trials
    with suppress(OSError):  # it is written again at the end
        write_board(whole, folder)
    results, failures = run_jobs(trials, folder, engine, err())
    shown = list(results.values())
    if len(whole) > len(trials):
        known = (found_before(trial, folder, engine.keep) for trial in whole)
        shown = [found for found in known if found is not None]
    code = show(shown, folder, out(), err(), chosen) if shown else 0
    if (missing := len(whole) - len(failures) - len(shown)) > 0:
        way_out = f"privbandit report {shlex.quote(str(folder))} draws all that is there."
        print(f"{missing} trials of other shards are missing: {way_out}", file=sys.stderr)
    for line in told(failures):
        print(line, file=sys.stderr)
    return UNFINISHED if failures else code
