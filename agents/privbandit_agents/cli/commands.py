"""What each command does; ``cli/grammar.py`` has its options, which come as one object."""

import os
import re
import shlex
import shutil
import sys
import traceback
import warnings
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
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
    from privbandit_agents.experiments.store.results import Finished
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
    known = grammar.VERBS[verb]
    return int(resolve_name(known.run)(rest if known.own else Namespace(**grammar.parsed(verb, rest))) or 0)


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


def list_all(given: Namespace) -> None:
    """Print what to take first, or lists, of agents those of a notion of privacy and a family; these imply agents.

    Raises:
        UsageError: an unknown word; the message has the nearest one.
    """
    from privbandit_agents.cli.listing import NOTIONS, lists, overview
    from privbandit_agents.zoo.entries import FAMILIES
    from privbandit_envs.validate import one_of

    what = given.what or ("agents" if given.notion or given.plays else "")
    with usage_errors("list"):
        kinds = lists(given.notion, given.plays)
        one_of((*kinds, "all"), what=what or "all")
        one_of(NOTIONS, notion=given.notion or NOTIONS[0])
        one_of(FAMILIES, plays=given.plays or next(iter(FAMILIES)))
    if not what:
        print(*overview(), "", sep="\n")
        return
    for kind in kinds if what == "all" else [what]:
        print(*kinds[kind](), "", sep="\n")


def show_page(given: Namespace) -> None:
    from privbandit_agents.cli.manual import page

    with usage_errors("show"):
        lines = list(page(given.name))
    print(*lines, sep="\n")


def new(given: Namespace) -> None:
    from privbandit_agents.cli.new import begin

    with usage_errors("new"):
        first, *further = begin(given.kind, given.name, Path())
    print(*paragraph(first), *(grammar.folded(command.strip()) for command in further), sep="\n")


def run(given: Namespace) -> int:
    from privbandit_agents.experiments.names import short
    from privbandit_agents.experiments.schema.sweep import named_sweep, override, pairs_sweep
    from privbandit_agents.experiments.schema.yaml_text import from_yaml

    if given.experiment is not None:
        if given.env or given.agent:
            raise UsageError("give either an experiment or --env and --agent, not both.")
        chosen = named_sweep(given.experiment)
    else:
        chosen = pairs_sweep(given.env or [], given.agent or [])
    check_users(given.users)
    with usage_errors("--seeds"):
        seeds = None if given.seeds is None else from_yaml(given.seeds)
    fields = {"horizon": given.users, "seeds": seeds, "checkpoints": given.checkpoints}
    engine = engine_of(given)
    trials = override(chosen, given.set or [], **fields).trials()
    folder = given.out or Path("runs") / (given.experiment or short(trials[0].env))
    return execute(trials, folder, engine, look=look_of(given))


def log_users(given: Namespace) -> int:
    from privbandit_agents.cli.logs import written
    from privbandit_agents.experiments.schema.sweep import override, pairs_sweep

    check_users(given.users)
    with usage_errors("--seed"):
        fields = {"horizon": given.users, "seeds": [given.seed]}
    (trial,) = override(pairs_sweep([given.env], [given.agent]), given.set or [], **fields).trials()
    return written(trial, given.share, given.draws, given.out)


def cost_of(given: Namespace) -> int:
    from privbandit_agents.experiments.store.locks import only_one
    from privbandit_agents.logs.record import Log

    check_users(given.users)
    if given.seeds < 2:
        raise UsageError(f"--seeds must be an integer >= 2; got {given.seeds}.")
    folder = given.out or Path("runs") / f"cost-{given.file.stem}"
    check_results(folder)
    with usage_errors("--epsilon"):
        budgets = [float(text) for text in given.epsilon.split(",")]
    features, notions = (
        None if text is None else [name.strip() for name in text.split(",")] for text in (given.features, given.notions)
    )
    with usage_errors("cost"):
        log = Log.from_table(given.file, **roles_of(given), features=features, schema=given.schema, items=given.items)
    from privbandit_agents.cli.cost import cost  # takes seconds, so that a table that cannot be read is refused before

    engine, title = engine_of(given), f"What privacy would cost: {given.file.name}"
    with only_one(folder, "cost"):
        found = cost(
            log, budgets, notions, out=folder, seeds=given.seeds, users=given.users, batch=given.batch,
            mapped=given.map, always=given.always, engine=engine, err=err(), title=title,
        )  # fmt: skip
    print(found, f"{folder / 'cost.html'} has the page.", sep="\n")
    return found.code


def plan_of(given: Namespace) -> int:
    from privbandit_agents.cli.plan import plan
    from privbandit_agents.experiments.store.locks import only_one

    check_results(given.out)
    with usage_errors("--epsilon"):
        budgets = [float(text) for text in given.epsilon.split(",")]
    notions = None if given.notions is None else [name.strip() for name in given.notions.split(",")]
    with only_one(given.out, "plan"):
        found = plan(
            given.arms, given.rate, given.lift, given.users, budgets, notions, features=given.features,
            visits=given.visits, batch=given.batch, mapped=given.map, out=given.out, engine=engine_of(given), err=err(),
        )  # fmt: skip
    print(found, f"{given.out / 'plan.html'} has the page.", sep="\n")
    return found.code


def roles_of(given: Namespace) -> dict[str, Any]:
    return {role: getattr(given, role) for role in ("action", "reward", "propensity", "person")}


def schema_of(given: Namespace) -> None:
    from privbandit_agents.cli.schemas import looked_over

    looked_over(given.file, given.schema, roles_of(given) | {"label": given.label}, given.out)


def score_of(given: Namespace) -> int:
    from privbandit_agents.experiments.names import folder_name

    name, board = given.name, given.board
    if board is not None:
        from privbandit_agents.cli.score import drawn

        return drawn(board, [Path(name)] if name else [], given.suite)
    if given.check is not None:
        name = f"check-{given.check.resolve().name}"
    if name is None and not given.references:
        raise UsageError("score needs an agent, such as `privbandit score jdp-linucb`, or --references.")
    own = "references" if given.references else folder_name(f"score-{name}{'-quick' * given.quick}")
    own += "" if given.suite == "v1" else f"-{given.suite}"
    folder, where = given.out or Path("runs") / own, engine_of(given)
    check_results(folder)
    from privbandit_agents.cli.score import check, remake, score

    if given.check is not None:
        from numpy.random import default_rng

        return check(given.check, folder, where, err(), given.suite, default_rng())
    if given.references:
        return remake([name] if name else [], folder, where, err(), given.suite)
    return score(name, given.epsilon, given.quick, folder, where, console_out(), err(), given.suite, given.submit)


def tune(given: Namespace) -> int:
    from privbandit_agents.experiments.jobs.job import one_thread
    from privbandit_agents.experiments.tuning import read_plan
    from privbandit_agents.experiments.tuning import tune as tuned

    plan, folder = read_plan(given.file), given.out or Path("runs") / given.file.stem
    check_results(folder)
    with one_thread():
        alone = given.engine == "loky" and given.jobs is None
        told = tuned(plan, folder, engine=None if alone else engine_of(given))
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


def sweep(given: Namespace) -> int:
    from privbandit_agents.experiments.schema.sweep import override, read_sweep

    chosen = read_sweep(given.file)
    trials = (override(chosen, given.set) if given.set else chosen).trials(given.file.name)
    where = engine_of(given)
    i, slash, n = ("1/1" if given.shard is None else given.shard).partition("/")
    short_enough = max(len(i), len(n)) < 10
    if not (slash and short_enough and i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n)):
        raise UsageError(f"--shard must be i/n with 1 <= i <= n < 10^9, such as 2/8; got {given.shard!r}.")
    mine = trials[int(i) - 1 :: int(n)]
    return execute(mine, given.out or Path("runs") / given.file.stem, where, trials, look_of(given))


def reproduce(given: Namespace) -> int:
    from privbandit_agents.experiments.names import folder_name
    from privbandit_agents.experiments.study import carry_out, prepare

    if given.set and given.out is None:
        raise UsageError("--set needs --out: name a folder, so that the results of the experiment as it is stay apart.")
    where = engine_of(given)
    study = prepare(given.name, given.scale, given.set or (), given.agent or "")
    beside = f"{study.folder}-{folder_name(given.agent)}" if given.agent else study.folder
    folder = given.out or Path(beside)
    check_results(folder)
    return carry_out(study, folder, where, console_out(), err(), look_of(given))


def report(given: Namespace) -> int:
    from privbandit_agents.experiments.results.files import load_trials
    from privbandit_agents.experiments.running.progress import forecast
    from privbandit_agents.experiments.study import again, show

    folder, look = given.folder, look_of(given)
    if given.out is None and (code := again(folder, console_out(), look)) is not None:
        return code

    def trials() -> "list[Finished]":  # whoever takes them may let them go: ten thousand are a hundred megabytes
        with usage_errors("report"):
            return load_trials(folder, pace=forecast("reading", err()))

    if given.out is None:
        return show(trials(), folder, console_out(), err(), look, given.speed)
    # the page
    from privbandit_agents.experiments.results.frame import frame_of, public
    from privbandit_agents.experiments.views.audits import audit_files
    from privbandit_agents.experiments.views.page import write_report
    from privbandit_envs.files import streams

    places = [folder, folder / "audit", Path("runs/audit")] if given.audits is None else given.audits
    audits = list(dict.fromkeys(path.resolve() for place in places for path in audit_files(place)))
    title = given.title or f"Results of {folder.resolve().name}"
    frame = public(frame_of(trials(), more=("static",)))
    lost = unwritten(given.out, {"the page": partial(write_report, frame, given.out, title, audits)})
    print(*(lost or [f"page: {given.out}"]), sep="\n", file=sys.stderr if lost or streams(given.out) else sys.stdout)
    return UNFINISHED if lost else 0


def frontier(given: Namespace) -> int:
    import matplotlib

    from privbandit_agents.experiments.results.files import load_results
    from privbandit_agents.experiments.views.plots import plot_frontier
    from privbandit_agents.experiments.views.style import save

    look, path = look_of(given), given.out or given.folder / "frontier.png"
    with usage_errors("frontier"), matplotlib.rc_context(look.text):
        figure = plot_frontier(load_results(given.folder, final=True), title=look.title, size=look.size)
        # links are followed if the user named the file
        lost = unwritten(path, {"the figure": partial(save, figure, path, look.formats, given.out is not None)})
    print(*(lost or [f"figure: {path.with_suffix('.png')}"]), sep="\n", file=sys.stderr if lost else sys.stdout)
    return UNFINISHED if lost else 0


def look_of(given: Namespace) -> "Look":
    """Check the options of figures and return them as a look; a command may lack some."""
    import matplotlib

    from privbandit_agents.experiments.views.style import FORMATS, Look
    from privbandit_envs.validate import one_of

    title, size, font, formats = (getattr(given, key, None) for key in ("title", "size", "font", "format"))
    with usage_errors("--format"):
        kinds = tuple(one_of(FORMATS, format=one) for one in formats or [])
    if "pgf" in kinds and shutil.which(latex := matplotlib.rcParams["pgf.texsystem"]) is None:
        raise UsageError(f"--format pgf measures texts by {latex}, which is not here: install LaTeX, or take pdf.")
    if font is not None and not 4 <= font <= 40:
        raise UsageError(f"--font must be points between 4 and 40, such as 8; got {font:g}.")
    if size is None:
        return Look(title or "", None, kinds, font)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", size)
    if not found or not all(1 <= float(text) <= 50 for text in found.groups()):
        raise UsageError(f"--size must be inches WxH between 1x1 and 50x50, such as 6x4; got {size[:60]!r}.")
    return Look(title or "", (float(found[1]), float(found[2])), kinds, font)


def check_users(users: int | None) -> None:
    """Raise a UsageError unless a number of users is None or at least 1."""
    if users is not None and users < 1:
        raise UsageError(f"--users must be an integer >= 1; got {users}.")


def engine_of(given: Namespace) -> "Engine":
    """Check the options of where jobs run; a command may lack some."""
    from privbandit_agents.experiments.fields import at_most
    from privbandit_agents.experiments.running.engine import Engine
    from privbandit_envs.validate import positive

    how = {"engine": "loky", "jobs": None, "address": None, "save_every": 60.0, "keep": False, **vars(given)}
    with usage_errors("--jobs"):
        jobs = None if how["jobs"] is None else at_most(1000, jobs=how["jobs"])
    with usage_errors("--save-every"):
        positive(save_every=how["save_every"])
    with usage_errors("--engine"):
        return Engine(how["engine"], jobs, how["address"], save_every=how["save_every"], keep=how["keep"])


def audit_target(given: Namespace) -> int:
    from privbandit_agents.experiments.fields import at_most

    name, formats, calibration = given.name, look_of(given).formats, given.calibration
    with usage_errors("--runs"):
        runs = None if given.runs is None else at_most(10**8, runs=given.runs)
    with usage_errors("audit"):
        from rich.text import Text

        from privbandit_agents.audits.registry import WATCH, games, stronger
        from privbandit_agents.cli import audit
        from privbandit_agents.experiments.views.style import save

        asked: dict[str, Any] = {key: getattr(given, key) for key in ("epsilon", "delta", "calibration", "effort")}
        asked["config"], world = audit.settings_of(name, given.set or [])
        asked["env"] = {**({"id": given.env} if given.env else {}), **world} or None
        asked["answers"] = [float(one) for one in given.answers.split(",") if one.strip()]
        truths = partial(stronger, name, **asked)
        with err().status(Text(f"pilot runs of {name}")):
            played = games(name, **asked)
        if not played:
            print(f"{name}: no game has power over its noise. What watches it: {WATCH}, by check_agent({name!r}, ENV).")
            return 0
        found = audit.audited(played, truths, given.power, runs, given.seed, given.confidence, err())
    if not found:
        raise KeyboardInterrupt
    print(*audit.colored(audit.verdict(found, given.confidence)), sep="\n")
    lost = []
    for one in found:
        print("", *audit.result_lines(one, calibration), sep="\n")
        called = re.split(r"[/\\]", one.game.title)[-1]  # a file's address is no folder to write to
        picture = given.out / f"{re.sub('[:, ]+', '-', called)}-{calibration}.png"
        numbers = partial(audit.write_numbers, one, picture.with_suffix(".json"))
        drawn = partial(save, audit.picture(one, given.curve), picture, formats)
        missing = unwritten(given.out, {"the picture": drawn, "the numbers": numbers})
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
    """Run trials, show their results, and return the exit code."""
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
