"""The built documentation in a real browser, where it was built: at the width of a desk and of a phone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import DESKTOP, PHONE, chromium, missing, opened, serious, too_wide

pytestmark = pytest.mark.slow
SITE = Path(__file__).parents[2] / "site"
PAGES = ("index.html", "gallery/index.html", "sweeps/index.html", "privacy/index.html", "leaderboard/index.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not (SITE / "index.html").is_file():
        missing("site/ (make docs builds it)")
    with chromium() as found:
        yield found


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read(browser: Any, name: str, size: dict[str, int]) -> None:
    with opened(browser, (SITE / name).as_uri(), size) as page:
        page.wait_for_load_state()
        assert page.locator("h1").count() >= 1 and not too_wide(page)
        assert [one for one in page.told if one.startswith("error") and "file://" not in one] == []
        assert serious(page) == []
