"""The table of the auditing page: all targets, what the registry says of them, and shares as power."""

import csv
import io
from itertools import pairwise
from pathlib import Path

import audits
import pytest
from privbandit_agents.audits import MECHANISMS
from privbandit_agents.audits.registry import TARGETS, games

FILE = Path(__file__).parents[3] / "docs" / "privacy" / "audit-power.csv"


@pytest.fixture(scope="module")
def text() -> str:
    return FILE.read_text(encoding="utf-8")


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))[1:]


def test_the_table_is_what_the_command_writes_today(text: str) -> None:
    assert audits.tabled(text, {}) == text, f"run `python benchmarks/audits.py --table {FILE.name}`"
    named = {row[0].split("`")[1] for row in cells(text)}
    assert named == set(audits.own_targets()) and {"laplace", "private-pursuit", "shuffle-linucb"} <= named


def test_power_is_a_share_that_grows_with_the_truth_or_not_measured(text: str) -> None:
    for row in cells(text):
        assert len(row) == len(audits.HEAD), row[0]
        if not {"not measured", audits.NOT_PLAYED} & set(row[5:9]):
            shares = [float(share) for share in row[5:9]]
            assert 0 <= shares[0] and shares[3] <= 1 and all(b >= a - 0.1 for a, b in pairwise(shares))


def test_what_is_missing_or_has_other_runs_is_not_measured(text: str) -> None:
    """A target that the table forgot comes back, and numbers of other runs or of another claim do not count."""
    row = next(line for line in text.splitlines() if line.startswith("`laplace`,"))
    (before,) = csv.reader([row])
    for less in (text.replace(row + "\n", ""), text.replace(row, row.replace("20,000", "19,000"))):
        (found,) = (one for one in cells(audits.tabled(less, {})) if one[0] == "`laplace`")
        assert found == audits.line("laplace", before[1], before[2], 1.0, 20_000, audits.UNKNOWN)
    measured = {"name": "laplace", "runs": 20_000, "power": [0.1, 0.2, 0.3, 0.4], "seconds": 7.0}
    own, other = (
        next(one for one in cells(audits.tabled(text, known)) if one[0] == "`laplace`")
        for known in ({("laplace", claim): [measured | {"claim": claim}]} for claim in (1.0, 4.0))
    )
    assert own[4:9] == ["20,000", "0.10", "0.20", "0.30", "0.40"] and own[-1] == "7"
    assert other[:9] == before[:9] and other[10] == "0.20"
    assert audits.tabled(text, {("laplace", 2.0): [measured]}) == text
    with pytest.raises(ValueError, match="columns must be"):
        audits.tabled("a page", {})


@pytest.mark.wide_at("jdp-linucb")
@pytest.mark.parametrize("name", ["grr", "jdp-linucb", "dp-dqn", "newton-mnl", "dpmnl"])
def test_what_is_written_is_what_is_played(name: str) -> None:
    played = games(name, 1.0)
    assert [(title, unseen, runs) for title, _, unseen, runs in audits.looks(name)] == [
        (game.title, game.unseen, game.runs) for game in played
    ]
    assert all(seen.startswith(game.seen) for (_, seen, _, _), game in zip(audits.looks(name), played, strict=True))


def test_lists_name_the_mechanisms_that_the_registry_has() -> None:
    homes = {name: getattr(target.game, "func", target.game).__module__ for name, target in TARGETS.items()}
    ours = {name: bool(TARGETS[name].published) for name in TARGETS if homes[name].startswith("privbandit_agents.")}
    assert list(ours.items()) == list(MECHANISMS.items())


def test_a_game_that_an_audit_left_out_is_not_played(text: str) -> None:
    measured = {"name": "dpmnl, Gram matrix", "runs": 1000, "power": [0.1, 0.2, 0.3, 0.4], "seconds": 7.0}
    table = audits.tabled(text, {("dpmnl", 1.0): [measured], ("dpmnl", 4.0): [measured]})
    played, left_out = (row[5:] for row in cells(table) if row[0].startswith("`dpmnl`"))
    assert played[:4] == ["0.10", "0.20", "0.30", "0.40"] and played[5:] == ["0.20", "7"]
    assert left_out[:4] == [audits.NOT_PLAYED] * 4 and left_out[5:] == [audits.NOT_PLAYED, "0"]
