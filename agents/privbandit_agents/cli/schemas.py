"""``privbandit schema``: what a table holds, what each column becomes, and which bounds and levels are public."""

from pathlib import Path

from privbandit_agents.experiments.text import paragraph
from privbandit_agents.experiments.usage import UsageError, usage_errors
from privbandit_agents.experiments.views.table import Column, Table
from privbandit_envs.files import real
from privbandit_envs.tables.encoding import Encoding, named
from privbandit_envs.tables.proposing import CALLED, propose
from privbandit_envs.tables.schema import Field, Schema
from privbandit_envs.validate import listed


def looked_over(table: Path, schema: Path | None, roles: dict[str, str | None], out: Path | None) -> None:
    """Propose a table's schema, or check the table by one that there is; print it, and write it as JSON.

    Raises:
        UsageError: no table or no schema, cells that do not fit it, or a file that is there already.
    """
    with usage_errors("--out"):
        kept = real(out or Path(f"{table.name.partition('.')[0]}.schema.json"))
    if schema is None and kept.exists():
        raise UsageError(f"{kept} exists: `--schema {kept}` checks the table by it, --out names another file.")
    with usage_errors("schema"):
        guessed = () if roles.get("label") else tuple(CALLED)
        found = propose(table, guessed, **roles) if schema is None else Schema.of(schema).roles(**roles)
        encoding = Encoding(found)
        print(*table_of(encoding, table.name).lines(), "", sep="\n")
        if schema is not None:
            rows = sum(len(contexts) for contexts, _ in encoding.blocks(table))
            print(*paragraph(f"All {rows:,} rows fit."), sep="\n")
        if schema is None or out is not None:
            found.write(kept)
            print(*paragraph(f"{kept} has the schema; --schema {kept} takes it."), sep="\n")
        print(*paragraph(told(found)), sep="\n")


def table_of(encoding: Encoding, title: str) -> Table:
    """Return a line for each column."""
    rows = [
        {
            "column": field.name,
            "type": field.type,
            "role": field.use.role,
            "limits": limits(field),
            "known": known(field, encoding.schema),
            "size": len(named(field)) if field.use.role == "context" else None,
        }
        for field in encoding.schema.fields
    ]
    names = {"column": "column", "type": "type", "role": "role", "limits": "levels or bounds", "known": "known from"}
    columns = [Column(said, key, True) for key, said in names.items()]
    return Table(rows, [*columns, Column("coordinates", "size")], title)


def limits(field: Field) -> str:
    """Return a column's levels or bounds in words."""
    ends = field.constraints.minimum, field.constraints.maximum
    if field.use.role == "ignore" or field.type == "boolean":
        return ""
    if field.use.columns is not None:
        return "by a hash"
    if field.levels:
        more = [f"{len(field.levels) - 4} more"] if len(field.levels) > 5 else []
        return ", ".join([*(field.levels[:4] if more else field.levels), *more])
    return " to ".join(f"{end:g}" if isinstance(end, float | int) else str(end) for end in ends if end is not None)


def known(field: Field, schema: Schema) -> str:
    """Return whether a column's levels or bounds are public, or were read from the data."""
    if not limits(field) or field.use.role in ("person", "propensity", "time", "public"):
        return ""
    return "the data" if field.name in schema.private else "public"


def told(schema: Schema) -> str:
    """Return what the schema says of people, in a sentence."""
    if not schema.private:
        return "All bounds and levels are public."
    private = listed(schema.private, "columns")
    return (
        f"Bounds or levels of {private} are read from people's data, and can give a person away. "
        'Write those that you know without the data into the schema, with "privbandit": {"public": true}.'
    )
