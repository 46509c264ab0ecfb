"""The report page in a real browser: it draws, filters, can be read and reached, and says nothing on the console."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from browsing import DESKTOP, OVERLAPS, PHONE, chromium, opened, serious, too_wide
from made_up import sweep
from privbandit_agents.experiments.results.frame import as_frame
from privbandit_agents.experiments.views.page import library, write_report

pytestmark = pytest.mark.slow
FOCUSED = """(() => {
  const at = document.activeElement;
  return at.id || at.getAttribute("aria-label") || at.name || at.textContent;
})()"""
DRAWN = "document.body.dataset.drawn"
AUDIT = {"target": "jdp-linucb, far", "claim": {"epsilon": 1.0, "delta": 1e-5}, "epsilon": 0.4, "refuted": False}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("vl_convert")
    folder = tmp_path_factory.mktemp("report")
    (folder / "audit.json").write_text(json.dumps({**AUDIT, "power": {"1.25": 0.4}}))
    write_report(as_frame(list(sweep())), folder / "report.html", "A <report> & more", [folder / "audit.json"])
    return (folder / "report.html").as_uri()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_draws_can_be_read_and_passes_axe(browser: Any, address: str, size: dict[str, int]) -> None:
    with opened(browser, address, size) as page:
        page.wait_for_function(DRAWN)
        assert page.locator("#frontier svg").count() == page.locator("#curves svg").count() == 1
        assert page.locator("#curves path[stroke-width='2.2']").count() >= 8
        assert page.evaluate(OVERLAPS) == [] and not too_wide(page)
        sizes = page.evaluate(
            "[...document.querySelectorAll('body *')].map((e) => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(sizes) >= 12
        assert serious(page) == [] and page.told == []
        assert page.title() == "A <report> & more"


def test_the_choices_filter_charts_and_ranks_in_every_environment(browser: Any, address: str) -> None:
    with opened(browser, address, DESKTOP) as page:
        page.wait_for_function(DRAWN)
        for env in range(4):
            choose(page, "env", str(env))
            assert page.evaluate(OVERLAPS) == [], env
        choose(page, "env", "0")
        both = rows(page)
        assert len(both) == 4 + 3 * 4  # four agents without privacy, and four with three epsilons each
        choose(page, "epsilon", "0.5")
        assert len(rows(page)) == 4 + 4
        choose(page, "agent", "prec-ts")
        assert len(rows(page)) == 1 and "prec-ts epsilon=0.5" in rows(page)[0]
        assert "prec-ts epsilon=0.5" in page.inner_text("#curves-legend") and "greedy" not in page.inner_text(
            "#curves-legend"
        )
        choose(page, "group", "open")
        assert rows(page) == [] and "Nothing fits" in page.inner_text("#curves-note")
        page.check("input[value=log]")
        choose(page, "group", "")
        page.wait_for_function("JSON.parse(document.body.dataset.drawn).log")
        assert page.told == []


def test_a_page_of_one_budget_has_no_chart_against_privacy(browser: Any, tmp_path: Path) -> None:
    frame = as_frame(list(sweep()))
    write_report(frame.filter(pl.col("epsilon").is_null() | (pl.col("epsilon") == 1)), tmp_path / "one.html", "One")
    with opened(browser, (tmp_path / "one.html").as_uri(), DESKTOP) as page:
        page.wait_for_function(DRAWN)
        assert page.locator("#privacy").is_hidden() and page.locator("#curves svg").count() == 1


def choose(page: Any, name: str, value: str) -> None:
    page.select_option(f"#{name}", value)
    page.wait_for_function(f"JSON.parse({DRAWN})['{name}'] === '{value}'")


def rows(page: Any) -> list[str]:
    shown: list[str] = page.locator("#ranks tbody tr:visible").all_inner_texts()
    return [row for row in shown if not row.startswith("all ")]


def test_pointing_at_a_line_tells_its_numbers(browser: Any, address: str) -> None:
    with opened(browser, address, DESKTOP) as page:
        page.wait_for_function(DRAWN)
        page.locator("#curves .mark-symbol path").nth(7).hover(force=True)
        page.wait_for_selector("#vg-tooltip-element.visible")
        assert {"agent", "regret", "seeds"} <= set(page.inner_text("#vg-tooltip-element").split())


def test_everything_is_reached_by_keys(browser: Any, address: str) -> None:
    with opened(browser, address, DESKTOP) as page:
        page.wait_for_function(DRAWN)
        reached = []
        for _ in range(9):
            page.keyboard.press("Tab")
            reached.append(page.evaluate(FOCUSED))
        assert reached[1:5] == ["env", "agent", "epsilon", "group"]
        assert {"Ranks, table", "Speed, table", "Audits, table"} <= set(reached)
        page.focus("#env")
        page.keyboard.press("ArrowDown")
        page.wait_for_function(f"JSON.parse({DRAWN}).env === '1'")


def test_ten_thousand_trials_open_nearly_as_fast_as_an_empty_page(browser: Any, tmp_path: Path) -> None:
    frame = as_frame(list(sweep(170)))
    trials = frame.select("env", "label", "seed").unique().height
    write_report(frame, tmp_path / "large.html", "Large")
    draw = "vegaEmbed(document.body, {mark: 'point', data: {values: []}}).then(() => document.body.dataset.drawn = 1)"
    empty = f"<script type=module>{library()}</script><script type=module>{draw}</script>"
    (tmp_path / "empty.html").write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{empty}")
    took = {name: opening(browser, (tmp_path / f"{name}.html").as_uri()) for name in ("empty", "large")}
    size = (tmp_path / "large.html").stat().st_size
    print(f"{trials} trials: {took['large']:.2f} s, empty {took['empty']:.2f} s, {size / 1e6:.1f} MB")
    assert trials > 9900 and size < 10e6 and took["large"] < 5 * took["empty"]


def opening(browser: Any, address: str) -> float:
    """Return the seconds until a page has drawn, the best of five."""
    found = []
    for _ in range(5):
        started = time.perf_counter()
        with opened(browser, address, DESKTOP) as page:
            page.wait_for_function(DRAWN)
            found.append(time.perf_counter() - started)
    return float(np.min(found))
