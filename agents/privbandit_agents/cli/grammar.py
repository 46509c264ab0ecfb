"""The command line: one table of commands, options and examples, and the parser that it makes.

Nothing but the standard library is imported here, so that a list, a page and a help are there at once.
"""

import argparse
import difflib
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from privbandit_agents.experiments.usage import UsageError

EXITS = (
    "Exit codes: 0 good; 1 a checked claim fails; 2 bad usage; 3 an internal error; 4 some work failed or "
    "could not be written; 130 interrupted. PRIVBANDIT_TRACEBACK=1 shows the traceback of an internal error."
)
ABOUT = "Benchmark contextual bandits, private and not."


GROUPS = {
    "find": "list show new",
    "play": "run sweep reproduce tune",
    "see": "report frontier",
    "judge": "audit score cost plan",
    "data": "log data schema",
}
"""The commands as the first screen groups them."""


@dataclass(frozen=True)
class Option:
    """An argument or an option of a command.

    Attributes:
        names: the long one first; a single name without dashes is a positional argument.
        help: one line.
        hidden: other names that are understood and not shown.
        how: further arguments of ``add_argument``.
    """

    names: tuple[str, ...]
    help: str
    hidden: tuple[str, ...] = ()
    how: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verb:
    """A command.

    Attributes:
        about: one line for the list of commands.
        text: its description, for its own help.
        run: the function of its options, ``"module:name"``.
        options: its arguments and options.
        examples: commands that work as they stand, or with names of the reader's files.
        own: whether the function parses the words itself.
    """

    about: str
    text: str
    run: str
    options: Sequence[Option]
    examples: Sequence[str]
    own: bool = False


def opt(*names: str, help: str, hidden: Sequence[str] = (), **how: Any) -> Option:
    """Return an option; its help has the default."""
    default = how.get("default")
    plain = default in (None, "") or isinstance(default, bool)
    shown = "" if plain else f"  [default: {format(default, 'g') if isinstance(default, float) else default}]"
    return Option(names, help + shown, tuple(hidden), how)


def whole(text: str) -> int:
    """Return the whole number that a text spells, 1e4 too."""
    try:
        return int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            number = 0.5
    if number != number // 1 or "_" in text or abs(number) > 1e18:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a whole number")
    return int(number)


def real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a number") from None


def several(name: str, metavar: str, help: str) -> Option:
    return opt(name, help=f"{help}; may repeat.", action="append", metavar=metavar)


def counted(*names: str, help: str, **how: Any) -> Option:
    return opt(*names, help=help, type=whole, metavar="N", **how)


def number(name: str, metavar: str, help: str, default: float | None = None) -> Option:
    return opt(name, help=help, type=real, metavar=metavar, default=default)


def word(name: str, metavar: str, help: str, **how: Any) -> Option:
    return opt(name, help=help, metavar=metavar, **how)


def flag(name: str, help: str) -> Option:
    return opt(name, help=help, action="store_true")


def output(help: str, **how: Any) -> Option:
    return opt("--out", "-o", help=help, hidden=("--output",), type=Path, metavar="PATH", **how)


def path(name: str, metavar: str, help: str) -> Option:
    return opt(name, help=help, type=Path, metavar=metavar)


def users(default: str) -> Option:
    return counted("--users", "-n", help=f"Users of each run.  [default: {default}]", hidden=("--horizon",))


SET = several("--set", "KEY=VALUE", "A setting: env.KEY, agent.KEY, NAME.KEY, or a KEY that only one of them has")
USERS = users("the environment's")
OUT = output("Folder of the results.  [default: runs/...]")
JOBS = counted("--jobs", help="Processes.  [default: one per core]")
BATCH = counted("--batch", help="Users whose feedback comes together, as at night.", default=1)
MAP = word("--map", "KIND", "Agents see public functions of features: fourier, interactions or bins.")
KEEP = flag("--keep", "Keep results of changed agents and environments.")
SEED = counted("--seed", help="Seed of environment and agent.", default=0)
FORMATS = several("--format", "KIND", "Figures also as pdf, svg, eps, ps or pgf")
SIZE = word("--size", "WxH", "Inches of the figure, such as 6x4.")
FONT = number("--font", "PT", "Points of the text.  [default: 10; 8 if less than 5 inches wide]")
TITLE = word("--title", "TEXT", "Title of the figure.", default="")
LOOK = (SIZE, FONT, FORMATS)
WHERE = (
    word("--engine", "KIND", "loky (this machine) or dask (a cluster).", default="loky"),
    word("--address", "URL", "Address of a Dask scheduler.  [default: a cluster on this machine]"),
)
SAVE = number("--save-every", "S", "Seconds between two snapshots of a run.", 60.0)
FOLDER = opt("folder", help="Folder of a run, a sweep or an experiment.", type=Path)
ROLES = (
    word("--action", "COLUMN", "Column of the arm that was taken."),
    word("--reward", "COLUMN", "Column of the reward, such as a click."),
    word("--propensity", "COLUMN", "Column of the arm's probability."),
    word("--person", "COLUMN", "Column of the person, if people return."),
)
SCHEMA = word("--schema", "FILE", "Types, bounds, levels and roles of columns.  [default: proposed]", type=Path)
RUNS = "privbandit_agents.cli.commands"

VERBS: dict[str, Verb] = {
    "list": Verb(
        "List environments, agents, experiments and data sets.",
        "List environments and the agents to take first, or everything of one kind.",
        f"{RUNS}:list_all",
        [
            opt("what", help="envs, agents, experiments, targets, datasets or all.", nargs="?"),
            word("--notion", "KIND", "Only agents of this privacy: none, local, shuffle, joint, reward."),
            word("--plays", "KIND", "Only agents that play linear, sparse, assortments, labels or clicks."),
        ],
        ["privbandit list", "privbandit list all", "privbandit list agents --notion joint --plays linear"],
    ),
    "show": Verb(
        "Show the manual page of a name.",
        "Show the manual page of a name: description, guarantee, settings and their meaning.",
        f"{RUNS}:show_page",
        [opt("name", help="An agent, environment, experiment, data set or audit target.")],
        ["privbandit show jdp-linucb", "privbandit show Linear-v0"],
    ),
    "run": Verb(
        "Run agents in environments, or the demo.",
        "Run agents in environments, or the demo; finished runs are not run again.",
        f"{RUNS}:run",
        [
            opt("experiment", help="demo: private and other agents on four families.", nargs="?"),
            several("--env", "ID", "Environment, such as privbandit/Linear-v0"),
            several("--agent", "NAME", "Agent, or file.py:Class of yours"),
            USERS,
            word("--seeds", "N", "Number of seeds, or a list: 10, [3, 5].  [default: 1]"),
            SET,
            OUT,
            JOBS,
            counted("--checkpoints", help="Points of a regret curve.  [default: 200]"),
            TITLE,
            *LOOK,
            KEEP,
        ],
        [
            "privbandit run demo",
            "privbandit run --env privbandit/Linear-v0 --agent jdp-linucb --agent uniform --seeds 5 "
            "--set dim=5 --set epsilon=1",
        ],
    ),
    "report": Verb(
        "Draw the figure and the table of a folder, or write a page.",
        "Draw the figure and the table of all results in a folder; with --out, write a page that a browser opens.",
        f"{RUNS}:report",
        [
            FOLDER,
            output("Write an HTML page to this file."),
            opt(
                "--audits",
                help="Folder of audits, may repeat.  [default: FOLDER, FOLDER/audit, runs/audit]",
                action="append",
                type=Path,
                metavar="FOLDER",
            ),
            flag("--speed", "Users a second in the table."),
            TITLE,
            *LOOK,
        ],
        ["privbandit report runs/demo", "privbandit report runs/demo --out demo.html"],
    ),
    "frontier": Verb(
        "Draw regret against epsilon.",
        "Draw regret against epsilon of a folder's agents, with uniform play and the best agent without privacy.",
        f"{RUNS}:frontier",
        [FOLDER, output("A PNG.  [default: FOLDER/frontier.png]"), TITLE, *LOOK],
        ["privbandit frontier runs/demo --out frontier.png"],
    ),
    "sweep": Verb(
        "Run all trials of a file.",
        "Run all trials of a file; the same command resumes after an interruption.",
        f"{RUNS}:sweep",
        [
            opt("file", help="YAML: envs, agents, seeds; see docs/sweeps.md.", type=Path),
            OUT,
            *WHERE,
            JOBS,
            word("--shard", "I/N", "i/n: only the i-th of n parts of the trials."),
            SET,
            SAVE,
            TITLE,
            *LOOK,
            KEEP,
        ],
        ["privbandit sweep examples/linear.yaml --out runs/linear"],
    ),
    "reproduce": Verb(
        "Run an experiment and check its statements.",
        "Run an experiment, check its statements, draw its figures; exit 1 if a verdict is unexpected.",
        f"{RUNS}:reproduce",
        [
            opt("name", help="An experiment (privbandit list experiments), or a YAML file of yours."),
            word(
                "--scale", "SCALE", "paper (decides), quick (fewer seeds) or smoke (decides nothing).", default="paper"
            ),
            word("--agent", "FILE:Class", "An agent, also of yours, that plays beside the experiment's."),
            OUT,
            *WHERE,
            JOBS,
            SET,
            SAVE,
            *LOOK,
            KEEP,
        ],
        ["privbandit reproduce lpct-fig4 --scale smoke", "privbandit reproduce examples/epsilon.yaml"],
    ),
    "audit": Verb(
        "Bound a target's epsilon from below.",
        "Run a mechanism or an agent in two worlds that differ in one user, and bound epsilon from below; exit 1 if "
        "the claim is refuted.",
        f"{RUNS}:audit_target",
        [
            opt("name", help="A mechanism, a private agent, or file.py:Class of yours."),
            number("--epsilon", "E", "Claimed epsilon.", 1.0),
            number("--delta", "D", "Claimed delta, if there is one.  [default: by target]"),
            counted("--runs", help="Fresh runs of each world.  [default: by game]"),
            word("--effort", "HOW", "quick, normal or long: how many users are served.", default="normal"),
            word("--calibration", "KIND", "correct or published.", default="correct"),
            word("--env", "ID", "Environment of an agent.  [default: the first it plays]"),
            word("--answers", "A,A", "Further answers to try, comma-separated.", default=""),
            SET,
            counted("--seed", help="Seed of the audit.", default=0),
            number("--confidence", "P", "Confidence of all lower bounds together.", 0.999),
            opt("--power", help="Report the power of the audit.", action=argparse.BooleanOptionalAction, default=True),
            flag("--curve", "Draw error rates below the verdict."),
            output("Folder of the pictures and numbers.", default=Path("runs/audit")),
            FORMATS,
        ],
        [
            "privbandit audit laplace",
            "privbandit audit jdp-linucb --epsilon 1",
            "privbandit audit private-cov --calibration published",
        ],
    ),
    "cost": Verb(
        "Estimate the cost of privacy from a log of decisions.",
        "Say what a log can tell, let private agents play in worlds that it leaves possible, and write a page: reward, "
        "share of the gain kept, promise.",
        f"{RUNS}:cost_of",
        [
            opt("file", help="CSV, parquet or Arrow: a row a decision, with the user's features.", type=Path),
            *ROLES,
            SCHEMA,
            word(
                "--items", "FILE", "Table of the arms' features, a row an arm, with the column of --action.", type=Path
            ),
            word("--features", "COLUMNS", "Context columns, comma-separated.  [default: all others]"),
            word("--epsilon", "E,E", "Budgets, comma-separated.", default="1"),
            word("--notions", "KINDS", "joint, shuffle, local, reward.  [default: all with an agent]"),
            flag("--always", "Let agents play though the log shows no gain."),
            users("the log's"),
            BATCH,
            MAP,
            counted("--seeds", help="Worlds that are drawn, a run of each agent in each, 2 or more.", default=16),
            output("Folder of the page.  [default: runs/cost-...]"),
            JOBS,
        ],
        ["privbandit cost decisions.csv --action arm --reward click --propensity p"],
    ),
    "plan": Verb(
        "Estimate the cost of privacy before there is a log.",
        "Let private agents play in worlds of a given size, and write a page: share of the gain kept, users needed.",
        f"{RUNS}:plan_of",
        [
            counted("--arms", help="Arms to choose from.", default=5),
            number("--rate", "P", "Rate of clicks under uniform play.", 0.02),
            number("--lift", "G", "Gain of the best arm for each user, as a share of the rate.", 0.25),
            counted("--users", "-n", help="Users who come.", default=100_000),
            word("--epsilon", "E,E", "Budgets, comma-separated.", default="1"),
            word("--notions", "KINDS", "joint, shuffle, local, reward.  [default: all with an agent]"),
            counted("--features", help="Features of a user.", default=5),
            counted("--visits", help="Visits of a person, whose budget it is.", default=1),
            BATCH,
            MAP,
            output("Folder of the page.", default=Path("runs/plan")),
            JOBS,
        ],
        ["privbandit plan --arms 5 --rate .02 --lift .25 --users 100000 --epsilon 1"],
    ),
    "score": Verb(
        "Score an agent by the suite and compare it with the references.",
        "Let an agent play the suite's tasks, check and audit it, and write a sheet that compares it with references.",
        f"{RUNS}:score_of",
        [
            opt("name", help="An agent, or file.py:Class of yours; none with --references: all.", nargs="?"),
            number("--epsilon", "E", "Budget of the ranks: 0.5, 1 or 4.", 1.0),
            flag("--quick", "Two seeds and this budget alone, in minutes."),
            word("--suite", "V", "v1, or v2 with real data that privbandit data get has brought.", default="v1"),
            flag("--references", "Remake what ships with the package."),
            path("--submit", "DIR", "Write a row of the leaderboard, with the agent's file, for others to check."),
            path(
                "--check", "ROW", "Run ten random cells of such a folder, or reference, again; exit 1 if one differs."
            ),
            path("--board", "FILE", "Draw the leaderboard (.html) or the price of privacy (.png), and stop."),
            output("Folder of results and sheet.  [default: runs/score-...]"),
            *WHERE,
            JOBS,
            KEEP,
        ],
        ["privbandit score jdp-linucb --quick", "privbandit score my_agents.py:Mine --submit mine"],
    ),
    "tune": Verb(
        "Tune an agent's settings by a file.",
        "Search settings with Optuna, prune bad runs, and judge the best settings on held-out seeds.",
        f"{RUNS}:tune",
        [
            opt("file", help="YAML: env, agent, search; see docs/howto/tuning.md.", type=Path),
            output("Folder of tuned.json.  [default: runs/...]"),
            counted("--jobs", help="Processes, for the seeds of a trial at once.  [default: 1]"),
            *WHERE,
        ],
        ["privbandit tune examples/tune.yaml --out runs/tuned"],
    ),
    "log": Verb(
        "Record a run with action propensities.",
        "Let an agent play, and write contexts, actions, rewards and the probability of every action.",
        f"{RUNS}:log_users",
        [
            word("--env", "ID", "Environment, such as privbandit/Linear-v0.", required=True),
            word("--agent", "NAME", "Agent, or file.py:Class of yours.", required=True),
            output("A file that ends in .npz, .parquet or .csv.", required=True),
            USERS,
            number("--share", "P", "Share of users with a random action.  [default: as the agent plays]"),
            SEED,
            counted("--draws", help="Draws for propensities without a closed form.", default=1000),
            SET,
        ],
        ["privbandit log --env privbandit/Clicks-v0 --agent linucb --share 0.1 --out decisions.csv"],
    ),
    "new": Verb(
        "Begin an environment, an agent, an audit or an experiment.",
        "Write a skeleton and its test, which passes, into the current folder; print the next commands.",
        f"{RUNS}:new",
        [
            opt("kind", help="env, agent, local-agent, joint-agent, audit or experiment."),
            opt("name", help="Its name, such as mine or my-agent."),
        ],
        ["privbandit new joint-agent mine", "privbandit new env clinic"],
    ),
    "schema": Verb(
        "Propose a table's schema, or check the table by it.",
        "Print what a table's columns hold and become, and which bounds and levels come from people's data; write it "
        "as JSON, for you to edit.",
        f"{RUNS}:schema_of",
        [
            opt("file", help="CSV, lines of JSON, parquet or Arrow.", type=Path),
            SCHEMA,
            *ROLES,
            word("--label", "COLUMN", "Column to predict."),
            output("The file to write.  [default: NAME.schema.json]"),
        ],
        ["privbandit schema decisions.csv", "privbandit schema decisions.csv --schema decisions.schema.json"],
    ),
    "data": Verb(
        "Download or prepare real data for the environments.",
        "Download or prepare real data for the environments; without a name, list the data sets and how to get each.",
        "privbandit_agents.cli.data:prepare",
        [],
        ["privbandit data", "privbandit data get electricity", "privbandit data rice"],
        own=True,
    ),
}
"""The commands."""


class Parser(argparse.ArgumentParser):
    """A parser with errors of one sentence that ends in a way out."""

    def error(self, message: str) -> NoReturn:
        told = message.removeprefix("argument ")
        told = told.replace("the following arguments are required: ", "missing: ")
        raise UsageError(f"{self.prog}: {told.rstrip('.')}; `{self.prog} --help` shows the options.")


def formatter(prog: str) -> argparse.HelpFormatter:
    wide = shutil.get_terminal_size((80, 24)).columns
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=26, width=min(wide, 100))


def filled(text: str) -> str:
    wide = min(shutil.get_terminal_size((80, 24)).columns, 100)
    return textwrap.fill(text, max(wide - 2, 20), break_on_hyphens=False)


def examples(commands: Iterable[str]) -> str:
    """Return commands as a help shows them."""
    return "examples:\n" + "\n".join(map(folded, commands))


def folded(command: str) -> str:
    """Return an indented command, ready to be copied: a long one goes on below."""
    wide = min(shutil.get_terminal_size((80, 24)).columns, 100)
    glued = re.sub(r"(?<= )(--?\S+) (?!-)", "\\1\0", command)  # an option and its value stay together
    parts = textwrap.wrap(glued, max(wide - 8, 20), break_long_words=False, break_on_hyphens=False)
    return "  " + " \\\n      ".join(part.replace("\0", " ") for part in parts)


def parser_of(verb: str) -> Parser:
    """Return the parser of one command."""
    about = VERBS[verb]
    made = Parser(
        prog=f"privbandit {verb}",
        description=filled(about.text),
        epilog=examples(about.examples),
        formatter_class=formatter,
        allow_abbrev=False,
        add_help=False,
    )
    fill(made, about.options)
    return made


def fill(made: Parser, options: Sequence[Option]) -> None:
    """Add options to a parser, and the help."""
    for option in options:
        added = made.add_argument(*option.names, help=option.help.replace("%", "%%"), **option.how)
        for name in () if option.how.get("required") else option.hidden:
            how = {key: value for key, value in option.how.items() if key != "default"}
            made.add_argument(name, dest=added.dest, help=argparse.SUPPRESS, default=argparse.SUPPRESS, **how)
    made.add_argument("-h", "--help", action="help", help="Show this text.")


def overview() -> str:
    """Return the help of the whole command."""
    lines = [f"usage: privbandit COMMAND ...\n\n{ABOUT}\n"]
    for group, names in GROUPS.items():
        lines += [f"{group}:", *(f"  {name:10} {VERBS[name].about}" for name in names.split()), ""]
    lines += [
        "options:",
        "  --version     Print the version.",
        '  --completion  Complete in bash or zsh: eval "$(privbandit --completion)"',
    ]
    lines += ["", examples(["privbandit COMMAND --help", "privbandit run demo", "privbandit show jdp-linucb"])]
    return "\n".join([*lines, "", filled(EXITS)])


def parsed(verb: str, given: Sequence[str]) -> dict[str, Any]:
    """Return the options of a command by name.

    Raises:
        UsageError: a word that it does not understand, with the nearest one that it does.
    """
    made = parser_of(verb)
    return understood(made, given)


def understood(made: Parser, given: Sequence[str]) -> dict[str, Any]:
    """Parse words, or raise a UsageError with the nearest option for an unknown one."""
    known = {name for action in made._actions for name in action.option_strings}
    refused = [word for word in given if word.startswith("--") and word.partition("=")[0] not in known]
    if refused and "--" not in given:
        word = refused[0].partition("=")[0]
        raise UsageError(f"{made.prog} has no option {word}{near(word, shown_options(made))}; {how(made.prog)}")
    found, rest = made.parse_known_args(list(given))
    if rest:
        raise UsageError(f"{made.prog} does not expect {rest[0][:60]!r}; {how(made.prog)}")
    return vars(found)


def how(prog: str) -> str:
    return f"`{prog} --help` shows the options."


def shown_options(made: argparse.ArgumentParser) -> list[str]:
    shown = (action for action in made._actions if action.help is not argparse.SUPPRESS)
    return [name for action in shown for name in action.option_strings if name.startswith("--")]


def near(word: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known word, or ``""``."""
    found = difflib.get_close_matches(word[:60], list(known), n=1, cutoff=0.5)
    return f" (did you mean {found[0]}?)" if found else ""


def completion() -> str:
    """Return a script that completes commands and their options in bash, and in zsh by its ``bashcompinit``."""
    cases = [f"    {verb}) words='{' '.join(shown_options(parser_of(verb)))}' ;;" for verb in VERBS]
    return "\n".join(
        [
            '[ -n "$ZSH_VERSION" ] && autoload -U bashcompinit && bashcompinit',
            "_privbandit() {",
            f"  local words='{' '.join(VERBS)} --help --version'",
            '  [ "$COMP_CWORD" -gt 1 ] && case "${COMP_WORDS[1]}" in',
            *cases,
            "  esac",
            '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
            "}",
            "complete -o default -F _privbandit privbandit",
        ]
    )
