"""TensorBoard of means in a real browser: fewer than 40 runs, all of them shown, and regret first."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browsing import DESKTOP, chromium, opened
from made_up import sweep
from privbandit_agents.experiments.results.frame import as_frame
from privbandit_agents.experiments.views.board import write_means

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("board")
    frame = as_frame(list(sweep()))
    named = pl.col("env").str.replace("SparseLinear-v0", "SparseLinear-v0(dim=5)", literal=True)  # as a setting is told
    write_means(frame.with_columns(named), folder)
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(folder / "tensorboard"),
        "--port",
        "0",
        "--load_fast",
        "false",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "http://" in line:
                yield "http://" + line.partition("http://")[2].partition(" ")[0]
                break
        process.kill()  # asked to end, it may wait for its own threads for ever


def test_it_opens_on_regret_with_all_agents(browser: Any, address: str, tmp_path: Path) -> None:
    with opened(browser, address, DESKTOP) as page:
        page.wait_for_selector("card-view", timeout=60_000)
        page.wait_for_timeout(4000)
        groups = [text.strip() for text in page.locator(".group-title, .group-text").all_inner_texts()]
        assert [group for group in groups if group != "Pinned"][:2] == ["regret", "regret_share"]
        assert page.locator("card-view").first.inner_text().startswith("regret")
        assert (
            page.locator("runs-table input:checked, runs-data-table input:checked, tb-data-table input:checked").count()
            >= 20
        )
        assert [one for one in page.told if one.startswith("error")] == []
        page.screenshot(path=tmp_path / "tensorboard.png")
