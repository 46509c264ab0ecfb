"""What each command does; ``cli/grammar.py`` has its options."""

import os
import re
import shlex
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from privbandit_agents.cli import grammar
from privbandit_agents.cli.process import TRACEBACK, interruption
from privbandit_agents.experiments.text import paragraph, said, warned, width
from privbandit_agents.experiments.usage import (
    AGAINST,
    UNFINISHED,
    UsageError,
    code_of,
    sentence,
    unwritten,
    usage_errors,
)

if TYPE_CHECKING:
    from rich.console import Console

    from privbandit_agents.experiments.jobs.trial import Trial
    from privbandit_agents.experiments.running.engine import Engine
    from privbandit_agents.experiments.views.style import Look


@cache
def console_out() -> "Console":
    from rich.console import Console

    return Console(width=width())


@cache
def err() -> "Console":
    from rich.console import Console

    return Console(stderr=True)


def command(arguments: Sequence[str]) -> int:
    """Run a command line; return its exit code.

    Raises:
        UsageError: it is not understood, or cannot be run; the message is one sentence.
    """
    warnings.filterwarnings("ignore", "A worker stopped while some jobs")  # loky renews a worker that has grown
    warnings.filterwarnings("default", category=DeprecationWarning, module="privbandit")  # names that go soon
    warnings.showwarning = warned
    warnings.filterwarnings("once", ".* is retired", DeprecationWarning)
    verb, *rest = arguments or ["--help"]
    if verb in ("--help", "-h"):
        print(grammar.overview())
        return 0
    if verb == "--version":
        from importlib.metadata import version

        print(f"privbandit {version('privbandit')}")
        return 0
    if verb == "--completion":
        print(grammar.completion())
        return 0
    if verb not in grammar.VERBS:
        hint = grammar.near(verb, grammar.VERBS)
        raise UsageError(f"no command is called {verb[:60]!r}{hint}; `privbandit --help` shows all.")
    if verb == "data":
        from privbandit_agents.cli.data import prepare

        return prepare(rest)
    return int(DO[verb](**grammar.parsed(verb, rest)) or 0)


def app(arguments: Sequence[str] | None = None) -> None:
    """Run the command line of this process, or another one, and end; bad usage is one sentence and exit code 2."""
    try:
        code = command(sys.argv[1:] if arguments is None else arguments)
    except UsageError as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        print(said(str(error)), file=sys.stderr)
        code = code_of(error.__cause__) if isinstance(error.__cause__, OSError) else 2
    except (OSError, MemoryError) as error:  # of the machine, whatever was at work
        if (stop := interruption(error)) is not None:
            raise stop from None
        print(said(sentence(error)), file=sys.stderr)
        code = code_of(error)
    except BaseException as error:
        if (stop := interruption(error)) is None:
            raise
        print(said(str(stop) or "stopped."), file=sys.stderr)
        code = 130
    raise SystemExit(code)


def list_all(what: str | None, notion: str | None, plays: str | None) -> None:
    """Print what to take first, or lists, of agents those of a notion of privacy and a family; these imply agents.

    Raises:
        UsageError: an unknown word; the message has the nearest one.
    """
    from privbandit_agents.cli.listing import NOTIONS, lists, overview
    from privbandit_agents.zoo.entries import FAMILIES
    from privbandit_envs.validate import one_of

    what = what or ("agents" if notion or plays else "")
    with usage_errors("list"):
        kinds = lists(notion, plays)
        one_of((*kinds, "all"), what=what or "all")
        one_of(NOTIONS, notion=notion or NOTIONS[0])
        one_of(FAMILIES, plays=plays or next(iter(FAMILIES)))
    if not what:
        print(*overview(), "", sep="\n")
        return
    for kind in kinds if what == "all" else [what]:
        print(*kinds[kind](), "", sep="\n")


def show_page(name: str) -> None:
    from privbandit_agents.cli.manual import page

    with usage_errors("show"):
        lines = list(page(name))
    print(*lines, sep="\n")


def new(kind: str, name: str) -> None:
    from privbandit_agents.cli.new import begin

    with usage_errors("new"):
        first, *further = begin(kind, name, Path())
    print(*paragraph(first), *(grammar.folded(command.strip()) for command in further), sep="\n")


def run(
    experiment: str | None,
    env: list[str] | None,
    agent: list[str] | None,
    users: int | None,
    seeds: str | None,
    set: list[str] | None,
    out: Path | None,
    jobs: int | None,
    checkpoints: int | None,
    title: str,
    size: str | None,
    font: float | None,
    format: list[str] | None,
    keep: bool,
) -> int:
    from privbandit_agents.experiments.names import short
    from privbandit_agents.experiments.schema.sweep import named_sweep, override, pairs_sweep
    from privbandit_agents.experiments.schema.yaml_text import from_yaml

    if experiment is not None:
        if env or agent:
            raise UsageError("give either an experiment or --env and --agent, not both.")
        chosen = named_sweep(experiment)
    else:
        chosen = pairs_sweep(env or [], agent or [])
    check_users(users)
    with usage_errors("--seeds"):
        given = {"horizon": users, "seeds": None if seeds is None else from_yaml(seeds), "checkpoints": checkpoints}
    engine = engine_of("loky", jobs, None, 60.0, keep)
    trials = override(chosen, set or [], **given).trials()
    folder = out or Path("runs") / (experiment or short(trials[0].env))
    return execute(trials, folder, engine, look=look_of(title, size, font, format))


def log_users(
    env: str,
    agent: str,
    out: Path,
    users: int | None,
    share: float | None,
    seed: int,
    draws: int,
    set: list[str] | None,
) -> int:
    from privbandit_agents.cli.logs import written
    from privbandit_agents.experiments.schema.sweep import override, pairs_sweep

    check_users(users)
    with usage_errors("--seed"):
        given = {"horizon": users, "seeds": [seed]}
    (trial,) = override(pairs_sweep([env], [agent]), set or [], **given).trials()
    return written(trial, share, draws, out)


def cost_of(
    file: Path,
    action: str,
    reward: str,
    propensity: str | None,
    person: str | None,
    features: str | None,
    epsilon: str,
    notions: str | None,
    model: str,
    users: int | None,
    seeds: int,
    out: Path | None,
    jobs: int | None,
) -> int:
    from privbandit_agents.cli.cost import cost
    from privbandit_agents.experiments.store.locks import only_one
    from privbandit_agents.logs.record import Log

    check_users(users)
    if seeds < 2:
        raise UsageError(f"--seeds must be an integer >= 2; got {seeds}.")
    folder = out or Path("runs") / f"cost-{file.stem}"
    check_results(folder)
    with usage_errors("--epsilon"):
        budgets = [float(text) for text in epsilon.split(",")]
    chosen = None if features is None else [name.strip() for name in features.split(",")]
    columns = {"action": action, "reward": reward, "propensity": propensity, "person": person, "features": chosen}
    with usage_errors("cost"):
        log = Log.from_table(file, **columns)  # type: ignore[arg-type]
    engine = engine_of("loky", jobs, None, 60.0, False)
    wanted = None if notions is None else [name.strip() for name in notions.split(",")]
    with only_one(folder, "cost"):
        found = cost(
            log, budgets, wanted, out=folder, seeds=seeds, users=users, model=model, engine=engine, err=err(),
            title=f"What privacy would cost: {file.name}",
        )  # fmt: skip
    print(found, f"{folder / 'cost.html'} has the page.", sep="\n")
    return found.code


def score_of(
    name: str | None,
    epsilon: float,
    quick: bool,
    references: bool,
    out: Path | None,
    engine: str,
    address: str | None,
    jobs: int | None,
    keep: bool,
) -> int:
    from privbandit_agents.experiments.names import folder_name

    if name is None and not references:
        raise UsageError("score needs an agent, such as `privbandit score jdp-linucb`, or --references.")
    kind = "-quick" * quick
    folder = out or Path("runs") / ("references" if references else folder_name(f"score-{name}{kind}"))
    where = engine_of(engine, jobs, address, 60.0, keep)
    check_results(folder)
    from privbandit_agents.cli.score import remake, score

    if references:
        return remake([name] if name else [], folder, where, err())
    return score(str(name), epsilon, quick, folder, where, console_out(), err())


def tune(file: Path, out: Path | None, jobs: int | None, engine: str, address: str | None) -> int:
    from privbandit_agents.experiments.jobs.job import one_thread
    from privbandit_agents.experiments.tuning import read_plan
    from privbandit_agents.experiments.tuning import tune as tuned

    plan, folder = read_plan(file), out or Path("runs") / file.stem
    check_results(folder)
    with one_thread():
        where = None if engine == "loky" and jobs is None else engine_of(engine, jobs, address, 60.0, False)
        told = tuned(plan, folder, engine=where)
    for name, found in (told["final"] or {}).items():
        gave = f"failed: {found['error']}"
        if "regret" in found:
            gave = f"regret {found['regret']:.6g} ± {found['error']:.2g} on held-out seeds"
        print(*paragraph(f"{name}: {gave}"), sep="\n")
    failed = sum("error" in row for row in told["trials"]) + sum(
        "regret" not in one for one in (told["final"] or {}).values()
    )
    if told["final"]:
        kept = "" if told["lost"] else f"; {folder / 'tuned.json'} has all trials"
        print(*paragraph(f"best settings: {told['best'] or 'the defaults'}{kept}"), sep="\n")
    else:
        print("no trial could be run to its end, so there are no best settings.", file=sys.stderr)
    if failed:
        why = "" if told["lost"] else f"; {folder / 'tuned.json'} has the reasons"
        print(f"{failed} of the runs failed{why}.", file=sys.stderr)
    return UNFINISHED if failed or told["lost"] or not told["final"] else 0


def sweep(
    file: Path,
    out: Path | None,
    engine: str,
    address: str | None,
    jobs: int | None,
    shard: str | None,
    set: list[str] | None,
    save_every: float,
    title: str,
    size: str | None,
    font: float | None,
    format: list[str] | None,
    keep: bool,
) -> int:
    from privbandit_agents.experiments.schema.sweep import override, read_sweep

    chosen = read_sweep(file)
    trials = override(chosen, set).trials(file.name) if set else chosen.trials(file.name)
    where = engine_of(engine, jobs, address, save_every, keep)
    i, slash, n = ("1/1" if shard is None else shard).partition("/")
    short_enough = max(len(i), len(n)) < 10
    if not (slash and short_enough and i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n)):
        raise UsageError(f"--shard must be i/n with 1 <= i <= n < 10^9, such as 2/8; got {shard!r}.")
    mine = trials[int(i) - 1 :: int(n)]
    return execute(mine, out or Path("runs") / file.stem, where, trials, look_of(title, size, font, format))


def reproduce(
    name: str,
    scale: str,
    out: Path | None,
    engine: str,
    address: str | None,
    jobs: int | None,
    set: list[str] | None,
    save_every: float,
    size: str | None,
    font: float | None,
    format: list[str] | None,
    keep: bool,
) -> int:
    from privbandit_agents.experiments.study import carry_out, prepare

    if set and out is None:
        raise UsageError("--set needs --out: name a folder, so that the results of the experiment as it is stay apart.")
    where = engine_of(engine, jobs, address, save_every, keep)
    study = prepare(name, scale, set or ())
    folder = out or study.folder
    check_results(folder)
    return carry_out(study, folder, where, console_out(), err(), look_of("", size, font, format))


def report(
    folder: Path,
    out: Path | None,
    audits: list[Path] | None,
    speed: bool,
    title: str,
    size: str | None,
    font: float | None,
    format: list[str] | None,
) -> int:
    from privbandit_agents.cli.pages import write_page
    from privbandit_agents.experiments.results.files import load_trials
    from privbandit_agents.experiments.running.progress import forecast
    from privbandit_agents.experiments.study import again, show

    look = look_of(title, size, font, format)
    if out is None and (code := again(folder, console_out(), look)) is not None:
        return code
    with usage_errors("report"):
        trials = load_trials(folder, pace=forecast("reading", err()))
    if out is not None:
        return write_page(trials, folder, out, audits, title)
    return show(trials, folder, console_out(), err(), look, speed)


def frontier(
    folder: Path, out: Path | None, title: str, size: str | None, font: float | None, format: list[str] | None
) -> int:
    from privbandit_agents.cli.pages import draw_frontier
    from privbandit_agents.experiments.results.files import load_results

    look = look_of(title, size, font, format)
    with usage_errors("frontier"):
        return draw_frontier(load_results(folder, final=True), out or folder / "frontier.png", look, out is not None)


def look_of(title: str, size: str | None, font: float | None, formats: list[str] | None) -> "Look":
    """Check the options of figures and return them as a look."""
    import matplotlib

    from privbandit_agents.experiments.views.style import FORMATS, Look
    from privbandit_envs.validate import one_of

    with usage_errors("--format"):
        kinds = tuple(one_of(FORMATS, format=one) for one in formats or [])
    if "pgf" in kinds and shutil.which(latex := matplotlib.rcParams["pgf.texsystem"]) is None:
        raise UsageError(f"--format pgf measures texts by {latex}, which is not here: install LaTeX, or take pdf.")
    if font is not None and not 4 <= font <= 40:
        raise UsageError(f"--font must be points between 4 and 40, such as 8; got {font:g}.")
    if size is None:
        return Look(title, None, kinds, font)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", size)
    if not found or not all(1 <= float(text) <= 50 for text in found.groups()):
        raise UsageError(f"--size must be inches WxH between 1x1 and 50x50, such as 6x4; got {size[:60]!r}.")
    return Look(title, (float(found[1]), float(found[2])), kinds, font)


def check_users(users: int | None) -> None:
    """Raise a UsageError unless a number of users is None or at least 1."""
    if users is not None and users < 1:
        raise UsageError(f"--users must be an integer >= 1; got {users}.")


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


def audit_target(
    name: str,
    epsilon: float,
    delta: float | None,
    runs: int | None,
    effort: str,
    calibration: str,
    env: str | None,
    answers: str,
    set: list[str] | None,
    seed: int,
    confidence: float,
    power: bool,
    curve: bool,
    out: Path,
    format: list[str] | None,
) -> int:
    from privbandit_agents.experiments.fields import at_most

    formats = look_of("", None, None, format).formats
    with usage_errors("--runs"):
        runs = None if runs is None else at_most(10**8, runs=runs)
    with usage_errors("audit"):
        from rich.text import Text

        from privbandit_agents.audits.registry import WATCH, games, stronger
        from privbandit_agents.cli import audit

        asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "calibration": calibration, "effort": effort}
        asked["config"], world = audit.settings_of(name, set or [])
        asked["env"] = {**({"id": env} if env else {}), **world} or None
        asked["answers"] = [float(one) for one in answers.split(",") if one.strip()]
        truths = partial(stronger, name, **asked)
        with err().status(Text(f"pilot runs of {name}")):
            played = games(name, **asked)
        if not played:
            print(f"{name}: no game has power over its noise. What watches it: {WATCH}, by check_agent({name!r}, ENV).")
            return 0
        found = audit.audited(played, truths, power, runs, seed, confidence, err())
    if not found:
        raise KeyboardInterrupt
    print(*audit.colored(audit.verdict(found, confidence)), sep="\n")
    lost = []
    for one in found:
        print("", *audit.result_lines(one, calibration), sep="\n")
        called = re.split(r"[/\\]", one.game.title)[-1]  # a file's address is no folder to write to
        picture = out / f"{re.sub('[:, ]+', '-', called)}-{calibration}.png"
        numbers = partial(audit.write_numbers, one, picture.with_suffix(".json"))
        drawn = partial(audit.draw_audit, one, picture, formats, curve)
        missing = unwritten(out, {"the picture": drawn, "the numbers": numbers})
        print(*missing, sep="\n", file=sys.stderr) if missing else print(f"picture: {picture}")
        lost += missing
    refuted = any(one.result.refuted for one in found)
    if len(found) < len(played):
        print(f"interrupted after {len(found)} of {len(played)} games; what stands so far is above.", file=sys.stderr)
        return AGAINST if refuted else 130
    return AGAINST if refuted else UNFINISHED if lost else 0


def check_results(folder: Path) -> None:
    """Raise a UsageError if no results can be written to a folder, which is made if need be."""
    from privbandit_agents.experiments.names import FOLDERS, check_folder

    with usage_errors("--out"):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
        check_folder(folder)
        for inner in (folder / name for name in FOLDERS):
            if inner.exists() and not inner.is_dir():
                raise UsageError(f"--out: {inner} must be a folder; move the file that is there.")


def execute(
    trials: Sequence["Trial"],
    folder: Path,
    engine: "Engine",
    whole: Sequence["Trial"] | None = None,
    look: "Look | None" = None,
) -> int:
    """Run trials, show their results, and return the exit code.

    Args:
        trials: what to run.
        folder: of the results.
        engine: where to run.
        whole: all trials, if ``trials`` are a shard of them.
        look: of figures.
    """
    from privbandit_agents.experiments.running.attempt import told
    from privbandit_agents.experiments.running.engine import found_before, run_jobs
    from privbandit_agents.experiments.study import show, write_board
    from privbandit_agents.experiments.views.style import Look

    check_results(folder)
    whole = whole or trials
    with suppress(OSError):  # it is written again at the end
        write_board(whole, folder)
    results, failures = run_jobs(trials, folder, engine, err())
    shown = list(results.values())
    if len(whole) > len(trials):
        known = (found_before(trial, folder, engine.keep) for trial in whole)
        shown = [found for found in known if found is not None]
    code = show(shown, folder, console_out(), err(), look or Look()) if shown else 0
    if (missing := len(whole) - len(failures) - len(shown)) > 0:
        way_out = f"privbandit report {shlex.quote(str(folder))} draws all that is there."
        print(said(f"{missing} trials of other shards are missing: {way_out}"), file=sys.stderr)
    for line in told(failures):
        print(said(line), file=sys.stderr)
    return UNFINISHED if failures else code


DO: dict[str, Callable[..., int | None]] = {
    "list": list_all,
    "show": show_page,
    "run": run,
    "report": report,
    "frontier": frontier,
    "sweep": sweep,
    "reproduce": reproduce,
    "audit": audit_target,
    "cost": cost_of,
    "score": score_of,
    "tune": tune,
    "log": log_users,
    "new": new,
}
"""What each command of ``grammar.VERBS`` does with its options; ``data`` has commands of its own."""
