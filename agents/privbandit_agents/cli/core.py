"""The command without the extra ``bench``: it lists, shows and begins, and names the extra that the rest needs."""

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from privbandit_agents.cli.text import warned
from privbandit_agents.experiments.usage import UsageError, on_one_line, usage_errors
from privbandit_envs.validate import one_of

BENCH = "pip install 'privbandit[bench]'"
"""It works wherever the package is installed, also from a folder: pip finds that it is there, and adds the rest."""
OTHERS = ("run", "sweep", "reproduce", "report", "frontier", "audit", "data", "log", "cost", "tune")


def app(arguments: Sequence[str] | None = None) -> None:
    """Run the command; bad usage is one sentence and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = warned
    try:
        if given[:1] and given[0] in OTHERS:
            raise UsageError(f"privbandit {given[0]} needs more than is installed: run {BENCH}.")
        asked = parser().parse_args(given)
        if asked.command == "list":
            told(asked.what, asked.notion, asked.plays)
        elif asked.command == "show":
            from privbandit_agents.cli.manual import page

            with usage_errors("show"):
                print(*page(asked.name), sep="\n")
        elif asked.command == "new":
            from privbandit_agents.cli.new import begin

            with usage_errors("new"):
                print(*begin(asked.kind, asked.name, Path()), sep="\n")
        else:
            parser().print_help()
    except UsageError as error:
        print(on_one_line(str(error)), file=sys.stderr)
        raise SystemExit(2) from None


class Sentences(argparse.ArgumentParser):
    """A parser with errors of one sentence."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"{message.rstrip('.')}; {self.prog} --help shows what there is.")


def parser() -> argparse.ArgumentParser:
    from privbandit_envs import __version__

    made = Sentences(
        prog="privbandit",
        description="Benchmark contextual bandits, private and not.",
        epilog=f"{', '.join(OTHERS)} need more than is installed: run {BENCH}.",
    )
    made.add_argument("--version", action="version", version=f"privbandit {__version__}")
    commands = made.add_subparsers(dest="command")
    listed = commands.add_parser("list", help="List environments, agents, experiments and data sets.")
    listed.add_argument("what", nargs="?", default="all", help="envs, agents, experiments, targets, datasets or all.")
    listed.add_argument("--notion", help="Only agents of this privacy: none, local, shuffle, joint, reward.")
    listed.add_argument("--plays", help="Only agents that play linear, sparse, assortments or labels.")
    shown = commands.add_parser("show", help="Show the manual page of a name.")
    shown.add_argument("name", help="An agent, environment, data set or audit target.")
    new = commands.add_parser("new", help="Begin an environment or an agent of your own.")
    new.add_argument("kind", help="env, agent, local-agent or joint-agent.")
    new.add_argument("name", help="What it shall be called, such as mine or my-agent.")
    return made


def told(what: str, notion: str | None, plays: str | None) -> None:
    """Print lists, those agents alone that have this notion of privacy and play this family.

    Raises:
        UsageError: an unknown word; the message has the nearest one.
    """
    from privbandit_agents.cli.listing import NOTIONS, lists
    from privbandit_agents.zoo.entries import FAMILIES

    with usage_errors("list"):
        kinds = lists(notion, plays)
        one_of((*kinds, "all"), what=what)
        one_of(NOTIONS, notion=notion or NOTIONS[0])
        one_of(FAMILIES, plays=plays or next(iter(FAMILIES)))
    for kind in kinds if what == "all" else [what]:
        print(*kinds[kind](), "", sep="\n")
