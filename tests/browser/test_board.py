"""The leaderboard in a real browser: it draws at once, can be read and reached, sorts, filters, finds and copies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import DESKTOP, PHONE, chromium, opened, serious, too_wide
from privbandit_agents.experiments.suite.leaderboard import leaderboard, standings
from privbandit_agents.experiments.suite.records import references

pytestmark = pytest.mark.slow
LARGEST = 400_000
DRAWN = "document.querySelectorAll('#heat td').length > 50"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the references, sixty agents or more."""
    assert len(references()) >= 60
    path = tmp_path_factory.mktemp("board") / "board.html"
    path.write_text(leaderboard(standings({"jdp-linucb": "not refuted, power 1.00"})))
    assert path.stat().st_size < LARGEST
    return path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [{"width": 1280, "height": 900}, PHONE], ids=["desktop", "phone"])
def test_the_page_can_be_read(browser: Any, address: str, size: dict[str, int], scheme: str) -> None:
    with opened(browser, address, size, scheme) as page:
        page.wait_for_function(DRAWN)
        assert not too_wide(page) and page.told == []
        for one in page.locator("summary").all():
            one.click()
        assert not too_wide(page) and serious(page) == []
        sizes = page.evaluate(
            "[...document.querySelectorAll('body *')].map((e) => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(sizes) >= 11
        assert page.locator("#heat").bounding_box()["y"] < size["height"] / 2  # the first thing to see


def test_the_first_picture_is_there_within_a_second(browser: Any, address: str) -> None:
    found = []
    for _ in range(5):
        with opened(browser, address, PHONE) as page:
            page.wait_for_function(DRAWN)
            found.append(int(page.evaluate("document.body.dataset.drawn")))  # ms since the page was asked for
    assert min(found) < 1000, found


def rows(page: Any) -> list[list[str]]:
    found: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('#rows tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return found


def test_choices_change_the_picture_and_the_table(browser: Any, address: str) -> None:
    with opened(browser, address, DESKTOP) as page:
        page.wait_for_function(DRAWN)
        assert [row[:2] for row in rows(page)[:2]] == [["1\u20133", rows(page)[0][1]], ["1\u20133", rows(page)[1][1]]]
        assert any("jdp-linucb = auto-joint" in row[1] for row in rows(page))
        before = page.inner_text("#heat")
        page.select_option("#epsilon", "4")
        assert page.inner_text("#heat") != before and "epsilon = 4" in page.inner_text("#answer")
        page.select_option("#promise", "local privacy a visit")
        assert "kernel-ldp" in page.inner_text("#heat") and "jdp-linucb" not in page.inner_text("#heat")
        page.select_option("#promise", "without privacy")
        assert page.locator("#epsilon").is_disabled() and "linucb" in page.inner_text("#heat")
        assert page.told == []
        page.goto(page.url)  # the choice is in the address
        assert page.input_value("#promise") == "without privacy"


def test_the_table_sorts_filters_finds_and_copies(browser: Any, address: str) -> None:
    with opened(browser, address, DESKTOP) as page:
        page.wait_for_function(DRAWN)
        page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        page.click("#rows th:has-text('score (95 %)') button")
        scores = [float(row[2].split()[0]) for row in rows(page)]
        assert scores == sorted(scores, reverse=True) and len(scores) > 20
        page.click("#rows th:has-text('score (95 %)') button")
        assert [float(row[2].split()[0]) for row in rows(page)] == sorted(scores)
        page.select_option("#family", "clicks")
        assert {row[4] for row in rows(page)} == {"clicks"}
        page.fill("#find", "dqn")
        assert [row[1] for row in rows(page)] == ["dp-dqn"]
        page.click("#csv")
        page.wait_for_function("window.copied")
        head, line, _ = page.evaluate("window.copied").split("\n")
        assert head.startswith("rank,agent,score (95 %)") and ",dp-dqn," in line and "dp_dqn.py" in line
        page.click("#latex")
        page.wait_for_function("window.copied.startsWith('\\\\begin{tabular}')")
        assert "dp-dqn" in page.evaluate("window.copied") and "95 \\%" in page.evaluate("window.copied")
        page.fill("#find", "kernel-ldp")
        assert "local privacy a visit" in page.inner_text("#told") and rows(page) == []


def test_it_prints_without_controls(browser: Any, address: str, tmp_path: Path) -> None:
    with opened(browser, address, DESKTOP, "dark") as page:
        page.wait_for_function(DRAWN)
        page.emulate_media(media="print")
        assert page.locator("#csv").is_hidden() and page.locator("#heat").is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        pages = page.pdf(path=str(tmp_path / "board.pdf"), format="A4").count(b"/Type /Page\n")
        page.set_viewport_size({"width": 718, "height": 1040})  # A4 without margins
        assert 1 <= pages <= 3 and page.locator("#rows thead").is_visible() and not too_wide(page)
