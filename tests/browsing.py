"""A real browser for tests: Chromium, if there is one, without a window and without a network."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}
OVERLAPS = """() => {
  const texts = [...document.querySelectorAll('svg text')].filter(
    (text) => text.textContent.trim() && Number(getComputedStyle(text).opacity) > 0);
  const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0);
  const found = [];
  boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 2) found.push([one, other]);
  }));
  return found;
}"""


def missing(what: str) -> None:
    """Skip the test for lack of something, or fail where ``REQUIRE_BROWSER=1`` says that it must be there."""
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"REQUIRE_BROWSER=1, and there is no {what}.")
    pytest.skip(f"no {what} here: nothing was looked at")


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the system's Chromium with a profile of its own."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        missing("Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("playwright (extra browser)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, address: str, size: dict[str, int], scheme: str = "light") -> Iterator[Any]:
    """Open a page in light or dark colors; whatever it says on the console, or raises, is in ``page.told``."""
    page = browser.new_page(viewport=size, color_scheme=scheme)
    page.told = []
    page.on("console", lambda message: page.told.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: page.told.append(f"error: {error}"))
    try:
        page.goto(address)
        yield page
    finally:
        page.close()


def serious(page: Any) -> list[str]:
    """Return what axe finds serious or critical in a page."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
    ]


def too_wide(page: Any) -> bool:
    """Return whether a page has to be moved sideways to be read."""
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1"))
