"""The report page as text: its data are the results, and nothing in a name or an audit is markup."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commanding import invoke
from made_up import sweep, written
from privbandit_agents.experiments.results.frame import as_frame
from privbandit_agents.experiments.usage import UsageError
from privbandit_agents.experiments.views.audits import Audit, audit_table
from privbandit_agents.experiments.views.lines import curves_of, frontiers_of, panels_of
from privbandit_agents.experiments.views.page import numbers, page, write_report
from privbandit_agents.experiments.views.style import Line, styles_of

FRAME = as_frame(list(sweep(5)))
SMALL = FRAME.filter(pl.col("agent").is_in(["uniform", "jdp-linucb"]))
AUDIT = {"target": "jdp-linucb, far", "claim": {"epsilon": 1.0, "delta": 1e-5}, "epsilon": 0.4, "refuted": False}


def data_of(text: str) -> dict[str, Any]:
    (inner,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return dict(json.loads(inner))


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return data_of(page(FRAME, "A title", [], "library()"))


def test_the_page_has_every_curve_and_frontier(data: dict[str, Any]) -> None:
    assert data["envs"] == ["Linear-v0", "SparseLinear-v0", "Assortment-v0", "Classification-v0"]
    assert len(data["curves"]) == FRAME.select("env", "label").unique().height
    curve = next(one for one in data["curves"] if one["name"] == "fliphat epsilon=4")
    own = FRAME.filter(label="fliphat epsilon=4").group_by("checkpoint").agg(pl.col("regret").mean()).sort("checkpoint")
    assert curve["x"] == own["checkpoint"].to_list() and curve["mean"] == pytest.approx(
        own["regret"].to_list(), rel=1e-4
    )
    assert (curve["epsilon"], curve["notion"], curve["seeds"], curve["each"]) == (4, "joint", 5, [])
    lines = {(one["env"], one["name"]): one for one in data["frontier"]}
    assert lines[1, "fliphat"]["x"] == [0.5, 1, 4] and lines[0, "uniform"]["level"]
    assert {name for env, name in lines if name.startswith("best")} and not lines[1, "fliphat"]["level"]


def test_an_agent_has_one_color_in_both_charts_of_the_page_and_in_both_figures(data: dict[str, Any]) -> None:
    """Of three budgets the middle one has the agent's own color; the frontier has it, too, with or without others."""
    curves = {one["agent"]: one["color"] for one in data["curves"] if one["epsilon"] in (None, 1)}
    frontier = {one["agent"]: one["color"] for one in data["frontier"]}
    assert len(frontier) > 12 and frontier.items() <= curves.items()
    colors: dict[str, set[str]] = {}
    for frame in (FRAME, SMALL):
        drawn = [styles_of([curves_of(rows) for rows in panels_of(frame).values()]), styles_of([*lines_of(frame)])]
        for styles in drawn:
            for label, style in styles.items():
                name = label.removeprefix("best without privacy: ").removesuffix(" epsilon=1")
                if name in frontier:
                    colors.setdefault(name, set()).add(style["color"].lower())
    assert len(colors) > 12 and {name: len(found) for name, found in colors.items() if len(found) > 1} == {}


def lines_of(frame: pl.DataFrame) -> list[list[Line]]:
    return list(frontiers_of(frame).values())


def test_a_page_with_one_budget_has_no_frontier() -> None:
    one = FRAME.filter(pl.col("epsilon").is_null() | (pl.col("epsilon") == 1))
    data = data_of(page(one, "A title", [], ""))
    assert data["frontier"] == [] and len(data["curves"]) > 12


def test_curves_come_with_the_least_regret_first() -> None:
    ends = [(one["env"], one["mean"][-1]) for one in data_of(page(SMALL, "A title", [], ""))["curves"]]
    assert ends == sorted(ends)


def test_of_few_seeds_each_is_in_the_page_and_no_interval() -> None:
    curve = data_of(page(SMALL.filter(pl.col("seed") < 2), "A title", [], ""))["curves"][0]
    assert len(curve["each"]) == 2 and set(curve["half"]) == {None}


def test_names_are_no_markup(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    frame = FRAME.filter(agent="greedy", env="privbandit/Linear-v0").with_columns(
        agent=pl.lit(evil), label=pl.lit(evil), env=pl.lit(evil)
    )
    audit = tmp_path / "a.json"
    audit.write_text(json.dumps({**AUDIT, "target": evil}))
    text = page(frame, evil, [audit], "")
    assert "<script>alert" not in text and text.count("</script>") == 3
    assert data_of(text)["curves"][0]["name"] == evil


def test_audits_are_told_with_their_power(tmp_path: Path) -> None:
    one, other, foreign = (tmp_path / name for name in ("one.json", "other.json", "foreign.json"))
    one.write_text(json.dumps({**AUDIT, "power": {"1.25": 0.4, "2.0": 1.0}}))
    other.write_text(json.dumps({**AUDIT, "refuted": True, "power": None, "target": "laplace"}))
    foreign.write_text("[1, 2")
    found, refuted = audit_table([one, other, foreign, tmp_path / "none.json"]).cells
    assert found[1:5] == ["epsilon = 1, delta = 1e-05", "0.4", "40 % at 1.25 times, 100 % at 2 times", "not refuted"]
    assert found[-1] == "exact" and (refuted[4], refuted[3], refuted[-1]) == ("REFUTED", "-", "-")
    text = page(SMALL, "A title", [one, other], "")
    shown = 'aria-label="found at least 0.4 of the claim, 40 of 100 such audits refute it at 1.25 times'
    assert shown in text and text.count("<circle") == 2
    assert "<td class=refuted>REFUTED</td>" in text and "Audits" not in page(SMALL, "A title", [foreign], "")


@pytest.mark.parametrize(
    ("claim", "found", "share"),
    [
        ({"epsilon": 2.0}, {"epsilon": 3.0}, 1.5),
        ({"epsilon": 1.0, "delta": 1e-5, "rho": 0.04}, {"epsilon": 0.3, "rho": 0.01}, 0.5),
        ({"epsilon": None, "rho": 1.0}, {"epsilon": 9.0, "rho": 4.0}, 2.0),
        ({"epsilon": None}, {"epsilon": 9.0}, None),
        ({"epsilon": 0}, {"epsilon": 9.0}, None),
        ({"epsilon": 1.0}, {"epsilon": float("nan")}, None),
    ],
)
def test_a_glance_is_a_share_of_the_claim(claim: object, found: dict[str, object], share: float | None) -> None:
    audit = Audit.model_validate_json(json.dumps({"target": "x", "claim": claim, "refuted": False, **found}))
    assert audit.found == (None if share is None else pytest.approx(share)) and bool(audit.svg()) == (share is not None)


def test_without_the_library_one_sentence_says_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError, match=r"pip install 'privbandit\[report\]' brings it"):
        write_report(SMALL, tmp_path / "report.html", "A title")
    assert not (tmp_path / "report.html").exists()


def test_the_commands_write_a_page_and_a_frontier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privbandit_agents.experiments.views.page.library", lambda: "library()")
    out = written(tmp_path / "out", 1, ("uniform", "ldp-greedy"))
    shown = invoke("report", str(out), "-o", str(tmp_path / "page.html"))
    assert shown.exit_code == 0 and shown.stdout == f"page: {tmp_path / 'page.html'}\n", shown.stderr
    assert "Results of out" in (tmp_path / "page.html").read_text()
    shown = invoke("frontier", str(out), "--format", "svg")
    assert shown.exit_code == 0 and (out / "frontier.svg").exists() and (out / "frontier.png").exists()
    refused = invoke("frontier", str(out), "--format", "gif")
    assert refused.exit_code == 2 and "'gif'" in refused.stderr


def test_numbers_that_are_none_are_null() -> None:
    assert numbers([1.234567, float("nan"), float("inf"), 0.0]) == [1.2346, None, None, 0.0]


def test_the_headline_says_what_is_kept_of_the_gain_and_what_may_be_deployed() -> None:
    world = FRAME.filter(env="privbandit/SparseLinear-v0")
    last = world.filter(pl.col("checkpoint") == pl.col("horizon")).group_by("agent", "epsilon")
    regret = {(agent, epsilon): mean for agent, epsilon, mean in last.agg(pl.col("regret").mean()).iter_rows()}

    def told(*agents: str) -> list[str]:
        text = page(world.filter(pl.col("agent").is_in(agents)), "A title", [], "")
        return re.findall(r'<p class="headline" data-world="0">(.*?)</p>', text)

    (kept,), (lost,) = told("uniform", "private-pursuit", "fliphat"), told("uniform", "jdp-linucb")
    gain = 1 - regret["private-pursuit", 1.0] / regret["uniform", None]
    assert f"keeps {gain:.0%} of the gain; it may be deployed with noise=secure" in kept and "epsilon = 1" in kept
    assert "is worse than uniform play" in lost and regret["jdp-linucb", 1.0] > regret["uniform", None]
    # nothing to compare with, no headline
    assert told("private-pursuit") == []
