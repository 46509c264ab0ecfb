"""JSON files that look like audits and are none are left out of a page."""

import json
from pathlib import Path
from typing import Any

import pytest
from commanding import invoke
from privbandit_agents.experiments.views.audits import audit_files, audit_table

GOOD: dict[str, Any] = {
    "target": "laplace", "claim": {"epsilon": 1.0, "delta": 0, "rho": None}, "epsilon": 0.9, "refuted": False,
    "power": {"1.25": 0.5},
}  # fmt: skip
ODD: list[dict[str, Any]] = [
    {"claim": []},
    {"claim": "epsilon"},
    {"claim": {"epsilon": "1"}},
    {"claim": {"epsilon": [1]}},
    {"epsilon": "0.9"},
    {"epsilon": {}},
    {"target": 3},
    {"power": []},
    {"power": {"a": "b"}},
    {"power": {"1.25": None}},
    {"power": {"1.25": None, "a": 1}},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_what_is_no_audit_is_left_out_with_a_sentence(odd: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(GOOD | odd))
    with pytest.warns(UserWarning, match=r"odd\.json is left out"):
        assert audit_files(tmp_path) == []


@pytest.mark.parametrize("bound", [0.0, float("nan"), float("inf")])
def test_audits_with_odd_numbers_have_a_row(bound: float, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(GOOD | {"epsilon": bound, "rho": 10**400, "power": {"inf": bound}}))
    (tmp_path / "deep.json").write_text("[" * 200_000)
    (tmp_path / "other.json").write_text('{"a": 1}')
    (row,) = audit_table(audit_files(tmp_path)).cells
    assert row[0] == "laplace"


@pytest.mark.wide_at("laplace")
@pytest.mark.parametrize("target", ["laplace", "gaussian"])
def test_what_the_command_writes_has_a_row(target: str, tmp_path: Path) -> None:
    shown = invoke("audit", target, "--runs", "200", "--out", str(tmp_path))
    assert shown.exit_code == 0
    rows = audit_table(audit_files(tmp_path)).cells
    assert rows and {row[0] for row in rows} == {target}
