"""The built documentation in a real browser, where it was built: at the width of a desk and of a phone."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browsing import DESKTOP, PHONE, chromium, missing, opened, serious, too_wide

pytestmark = pytest.mark.slow
SITE = Path(__file__).parents[2] / "site"
PAGES = (
    "index.html",
    "gallery/index.html",
    "sweeps/index.html",
    "privacy/index.html",
    "cards/agents/linucb/index.html",
)
SEEN = """() => {
  const name = innerWidth < 960 ? '.md-header label[for=__search]' : '.md-search__input';
  const box = document.querySelector(name).getBoundingClientRect();
  return box.width > 0 && box.top >= 0 && box.bottom <= innerHeight;
}"""
"""Whether the search can be reached without scrolling."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not (SITE / "index.html").is_file():
        missing("site/ (make docs builds it)")
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve the site as a reader gets it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read(browser: Any, address: str, name: str, size: dict[str, int], scheme: str) -> None:
    with opened(browser, address + name, size, scheme) as page:
        page.wait_for_load_state()
        assert (
            page.locator("body").get_attribute("data-md-color-scheme") == {"light": "default", "dark": "slate"}[scheme]
        )
        assert page.locator("h1").count() >= 1 and not too_wide(page)
        assert [one for one in page.told if one.startswith("error")] == []
        assert serious(page) == []
        assert page.locator(".md-sidebar--primary a").count() <= 60
        page.evaluate("window.scrollTo(0, document.body.scrollHeight / 2)")
        assert page.evaluate(SEEN)


def test_the_search_finds_a_page(browser: Any, address: str) -> None:
    with opened(browser, address, DESKTOP) as page:
        page.locator(".md-search__input").fill("deploy")
        page.locator(".md-search-result__item").first.wait_for()
        assert "deploy" in page.locator(".md-search-result__item").first.inner_text().lower()


def test_nothing_comes_from_elsewhere() -> None:
    if not (SITE / "index.html").is_file():
        missing("site/ (make docs builds it)")
    for path in SITE.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link)[^>]*(?:src|href)="?(https?:[^" >]+)', path.read_text(encoding="utf-8")
        )
        assert loaded == [], path
