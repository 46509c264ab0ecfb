"""What ``privbandit audit`` says of its power: in the table, in the picture and in the numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from privbandit_agents.cli.commands import app

DRAWN: list[str] = []


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collect the words on the scale of the pictures that are drawn."""
    save = Figure.savefig
    DRAWN.clear()

    def saved(self: Figure, *arguments: Any, **options: Any) -> None:
        DRAWN.extend([self.axes[0].get_xlabel(), *(text.get_text() for text in self.axes[0].texts)])
        save(self, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", saved)


def audited(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str]:
    with pytest.raises(SystemExit) as ended:
        app(["audit", *arguments, "--out", str(folder)])
    return ended.value.code, " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize(("target", "factors"), [("grr", [1.25]), ("gaussian", [1.25, 1.5, 2.0])])
def test_table_picture_and_numbers_say_the_power(
    target: str, factors: list[float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By runs of the target with more epsilon, or by those that were played: then for more factors."""
    code, printed = audited(tmp_path, capsys, target, "--runs", "3000")
    numbers = json.loads((tmp_path / f"{target}-correct.json").read_text())
    shares = {float(factor): share for factor, share in numbers["power"].items()}
    assert code == 0 and list(shares) == factors and shares[factors[-1]] > 0
    assert f"{100 * shares[1.25]:.0f} of 100 such audits refute the claim if the true epsilon is 1.25" in printed
    what = "epsilon over the claim; dots: how many audits refute it there"
    assert DRAWN == [what, *(f"{share:.0%}" for share in shares.values())]
    assert numbers["refuted"] is False and numbers["claim"]["epsilon"] == 1.0 and numbers["runs"] == 3000


@pytest.mark.parametrize("options", [["--no-power"], ["--calibration", "published"]])
def test_what_is_refuted_or_not_asked_for_has_no_power(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = audited(tmp_path, capsys, "private-cov", "--runs", "2000", *options)
    (path,) = tmp_path.glob("*.json")
    assert code == ("published" in options) and json.loads(path.read_text())["power"] is None
    assert "of 100 such audits" not in printed and not any("how many audits" in text for text in DRAWN)


def test_a_picture_is_to_be_had_for_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = audited(tmp_path, capsys, "grr", "--runs", "200", "--no-power", "--format", "pdf", "--format", "svg")
    heads = {kind: (tmp_path / f"grr-correct.{kind}").read_bytes()[:5] for kind in ("png", "pdf", "svg")}
    assert code == 0 and heads == {"png": b"\x89PNG\r", "pdf": b"%PDF-", "svg": b"<?xml"}
