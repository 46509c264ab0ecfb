"""``privbandit data``: real data, prepared for the environments."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from privbandit_agents.experiments.fields import at_most
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_envs.datasets import tables as lpct
from privbandit_envs.validate import count, positive

if TYPE_CHECKING:
    from privbandit_envs.datasets.hotels.data import HotelData
    from privbandit_envs.datasets.hotels.read import Searches
    from privbandit_envs.datasets.tables import PreparedTable

ABOUT = "Prepare real data for the environments; without a command: list the data sets, and how to get each."
data = typer.Typer(help=ABOUT, rich_markup_mode=None)
out_console = Console(width=None if sys.stdout.isatty() else 120)
GENERATED = "This is a generated sample, not real data."


@data.callback(invoke_without_command=True)
def show(context: typer.Context) -> None:
    """List the data sets: which are there, and how to get the others."""
    if context.invoked_subcommand is None:
        from privbandit_agents.cli.listing import dataset_lines

        for line in dataset_lines():
            out_console.print(line)


@data.command("expedia")
def prepare_expedia(
    path: Annotated[Path, typer.Argument(help='train.csv of Kaggle\'s "Personalize Expedia Hotel Searches".')],
    out: Annotated[Path | None, typer.Option(help="The file to write.  [default: beside PATH, ending in .npz]")] = None,
    max_hotels: Annotated[int, typer.Option(help="Hotels that are kept, those shown most.")] = 124,
    min_items: Annotated[int, typer.Option(help="Of these, how many a search shows at least.")] = 5,
    ridge: Annotated[float, typer.Option(help="Penalty of the choice model.")] = 1.0,
) -> None:
    """Prepare the Expedia searches for Assortment-v0: hotels, users and a fitted choice model in one file."""
    from privbandit_envs.datasets.hotels import data as prepared
    from privbandit_envs.datasets.hotels import prepare as hotels
    from privbandit_envs.datasets.hotels import read as expedia

    out = out or path.with_suffix(".npz")
    check_target(out, path)
    if out.exists() and not prepared.is_prepared(out):
        raise UsageError(f"{str(out)!r} exists and is no file that was prepared before; name another one with --out.")
    with interruptible("data expedia"), usage_errors("data expedia"), bar() as progress:
        count(max_hotels=max_hotels), count(min_items=min_items), positive(ridge=ridge)
        task = progress.add_task("reading", total=None)
        searches = expedia.read(path, lambda done, total: progress.update(task, completed=done, total=total))
        progress.update(task, description="fitting the choice model")
        found = hotels.prepare(searches, path.name, max_hotels=max_hotels, min_items=min_items, ridge=ridge)
        prepared.save(found, out)
    print("\n".join(summary(searches, found, out)))


@data.command("expedia-sample")
def write_sample(
    path: Annotated[Path, typer.Argument(help="The CSV file to write; it must not exist.")],
    searches: Annotated[int, typer.Option(help="Searches for the top destination.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
) -> None:
    """Write a generated sample with the columns of the Expedia file: for trying things out, not real data."""
    from privbandit_envs.datasets.hotels import sample as expedia_sample

    check_target(path)
    with interruptible("data expedia-sample"), usage_errors("data expedia-sample"):
        rows = expedia_sample.write(path, at_most(10**7, n_searches=searches), seed)
    print(f"{path}: {rows:,} rows. {GENERATED}\nprivbandit data expedia {path} prepares it.")


def command_for(name: str) -> Callable[..., None]:
    """Return the command that prepares a data set for Classification-v0."""
    source = lpct.SOURCES[name]
    files = " and ".join(source.files)
    several = ", in a folder or a .zip file" if len(source.files) > 1 else ""
    default = " Without it they are downloaded." if source.url else ""

    def prepare_rows(
        path: Annotated[Path | None, typer.Argument(help=f"{files} of {source.page}{several}.{default}")] = None,
        out: Annotated[
            Path | None, typer.Option(help=f"The folder to write {name}.npz in.  [default: see docs/data.md]")
        ] = None,
    ) -> None:
        target = out / f"{name}.npz" if out else lpct.place(name)
        if out and out.exists() and not out.is_dir():
            raise UsageError(f"--out must be a folder; got the file {str(out)!r}.")
        if target.exists() and lpct.data.facts_of(target) is None:
            raise UsageError(
                f"{str(target)!r} exists and is no file that was prepared before; delete it or name another --out."
            )
        with interruptible(f"data {name}"), usage_errors(f"data {name}"), bar() as progress:
            task = progress.add_task("reading", total=None)
            found = lpct.get(name, path, out, lambda rows: progress.update(task, completed=rows))
        print("\n".join(rows_summary(found, target, name if out is None else str(target))))

    prepare_rows.__doc__ = f"Prepare for Classification-v0: {source.title}"
    return prepare_rows


for set_name in lpct.NAMES:
    data.command(set_name)(command_for(set_name))


@data.command("sample")
def write_rows_sample(
    name: Annotated[str, typer.Argument(help="The data set: privbandit data shows their names.")],
    path: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    rows: Annotated[int, typer.Option(help="Rows of each file.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
) -> None:
    """Write a generated sample with the columns of a data set: for trying things out, not real data."""
    from privbandit_envs.datasets.tables import sample

    check_target(path)
    with interruptible("data sample"), usage_errors("data sample"):
        written = sample.write(name, path, at_most(10**7, rows=rows), seed)
    print(f"{path}: {written:,} rows. {GENERATED}\nprivbandit data {name} {path} --out FOLDER prepares it.")


def rows_summary(found: "PreparedTable", target: Path, name: str) -> Iterator[str]:
    """Yield sentences on the result, its file, and its use."""
    rows, facts, source = found.data, found.facts, lpct.SOURCES[found.facts.name]
    n, d = rows.X.shape
    yield f"{facts.origin}: {n:,} rows, {d:,} features, {rows.label_names[1]}: {rows.y.mean():.1%}"
    if len(rows.different) < n:
        yield f"of these rows {len(rows.different):,} are different; deduplicate=True keeps one of each"
    if source.rule and rows.public is not None:
        public = int(rows.public.sum())
        yield f"public by the rule ({source.rule.text}): {public:,} rows; private: {n - public:,}"
    if facts.incomplete or facts.others:
        yield f"left out: {facts.incomplete:,} rows with missing values, {facts.others:,} of other kinds"
    if facts.generated:
        yield GENERATED
    yield f"written: {target}"
    source_text = json.dumps(name, ensure_ascii=False)
    yield f'gym.make("privbandit/Classification-v0", source={source_text}, n_public={source.n_public})'


def check_target(out: Path, source: Path | None = None) -> None:
    """Raise a UsageError if a file cannot be written, before any work is done; without a source it must be new."""
    if source is None and out.exists():
        raise UsageError(f"{out} exists; choose the name of a new file.")
    with usage_errors("--out" if source else "path"):
        if source is not None and out.exists() and source.exists() and out.samefile(source):
            raise UsageError(f"--out must not be the file that is read; got {str(out)!r}.")
        if out.is_dir():
            raise UsageError(f"{str(out)!r} is a folder; give the name of a file in it.")
        if not out.parent.is_dir():
            raise UsageError(f"there is no folder {str(out.parent)!r}; make it first.")
        with TemporaryFile(dir=out.parent):
            pass


@contextmanager
def interruptible(place: str) -> Iterator[None]:
    """Say in a sentence that Ctrl-C has ended a command, which leaves no half-written file behind."""
    try:
        yield
    except KeyboardInterrupt:
        said = f"{place}: interrupted, and nothing is left half-written; the same command starts again."
        raise KeyboardInterrupt(said) from None


@contextmanager
def bar() -> Iterator[Progress]:
    columns = BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    console, news = Console(stderr=True), TextColumn("{task.description}")
    with Progress(*columns, news, console=console, disable=not console.is_terminal) as progress:
        yield progress


def summary(searches: "Searches", found: "HotelData", out: Path) -> Iterator[str]:
    """Yield sentences on the result, its file, and its use."""
    facts = found.facts
    yield f"{facts.origin}: {searches.n_searches:,} searches of {searches.n_destinations:,} destinations"
    users = f"{len(found.users):,} searches ({facts.bookings:,} end in a booking)"
    yield f"destination {facts.destination}: {users}, {len(found.hotels)} hotels"
    yield f"{len(facts.hotel_features)} hotel features, {len(facts.user_features)} user features"
    if facts.dropped:
        yield f"left out, mostly missing: {', '.join(facts.dropped)}"
    if facts.generated:
        yield GENERATED
    yield f"written: {out}"
    yield f'gym.make("privbandit/Assortment-v0", source={json.dumps(str(out), ensure_ascii=False)})'
