"""``privbandit data``: real data, prepared for the environments."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_envs._validate import count, positive

if TYPE_CHECKING:
    from privbandit_envs.datasets.expedia import Searches
    from privbandit_envs.datasets.prepared import Prepared

data = typer.Typer(help="Prepare real data for the environments.")
GENERATED = "This is a generated sample, not real data."


@data.command("expedia")
def prepare_expedia(
    path: Annotated[Path, typer.Argument(help='train.csv of Kaggle\'s "Personalize Expedia Hotel Searches".')],
    out: Annotated[Path | None, typer.Option(help="The file to write.  [default: beside PATH, ending in .npz]")] = None,
    max_hotels: Annotated[int, typer.Option(help="Hotels that are kept, those shown most.")] = 124,
    min_items: Annotated[int, typer.Option(help="Of these, how many a search shows at least.")] = 5,
    ridge: Annotated[float, typer.Option(help="Penalty of the choice model.")] = 1.0,
) -> None:
    """Prepare the Expedia searches for Assortment-v0: hotels, users and a fitted choice model in one file."""
    from privbandit_envs.datasets import expedia, hotels, prepared

    out = out or path.with_suffix(".npz")
    check_target(out, path)
    if out.exists() and not prepared.is_prepared(out):
        raise UsageError(f"{str(out)!r} exists and is no file that was prepared before; name another one with --out.")
    with usage_errors("data expedia"), bar() as progress:
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
    from privbandit_envs.datasets import expedia_sample

    if path.exists():
        raise UsageError(f"{path} exists; choose the name of a new file.")
    check_target(path)
    with usage_errors("data expedia-sample"):
        rows = expedia_sample.write(path, searches, seed)
    print(f"{path}: {rows:,} rows. {GENERATED}\nprivbandit data expedia {path} prepares it.")


def check_target(out: Path, source: Path | None = None) -> None:
    """Raise a UsageError if a file cannot be written, before any work is done."""
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
def bar() -> Iterator[Progress]:
    """Show how much of a file is read."""
    columns = BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    console, news = Console(stderr=True), TextColumn("{task.description}")
    with Progress(*columns, news, console=console, disable=not console.is_terminal) as progress:
        yield progress


def summary(searches: "Searches", found: "Prepared", out: Path) -> Iterator[str]:
    """Yield what was found, where it went, and how to use it."""
    facts = found.facts
    yield f"{facts.origin}: {searches.n_searches:,} searches of {searches.n_destinations:,} destinations"
    yield (
        f"destination {facts.destination}: {len(found.users):,} searches ({facts.bookings:,} end in a booking), "
        f"{len(found.hotels)} hotels"
    )
    yield f"{len(facts.hotel_features)} hotel features, {len(facts.user_features)} user features"
    if facts.dropped:
        yield f"left out, mostly missing: {', '.join(facts.dropped)}"
    if facts.generated:
        yield GENERATED
    yield f"written: {out}"
    yield f'gym.make("privbandit/Assortment-v0", source={json.dumps(str(out), ensure_ascii=False)})'
