"""What ``privbandit audit`` says of its power: in the table, in the picture and in the numbers."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import privbandit_agents
import pytest
from matplotlib.figure import Figure
from privbandit_agents.audits.claims import AuditResult, Claim, Game
from privbandit_agents.audits.pairs.records import world_for
from privbandit_agents.audits.registry import games
from privbandit_agents.cli import audit
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
@pytest.mark.wide
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


@pytest.mark.wide_at("options0", "options1")
@pytest.mark.parametrize("options", [["--no-power"], ["--calibration", "published"]])
def test_what_is_refuted_or_not_asked_for_has_no_power(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = audited(tmp_path, capsys, "private-cov", "--runs", "2000", *options)
    (path,) = tmp_path.glob("*.json")
    assert code == ("published" in options) and json.loads(path.read_text())["power"] is None
    assert "of 100 such audits" not in printed and not any("how many audits" in text for text in DRAWN)


@pytest.mark.wide
def test_a_picture_is_to_be_had_for_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = audited(tmp_path, capsys, "grr", "--runs", "200", "--no-power", "--format", "pdf", "--format", "svg")
    heads = {kind: (tmp_path / f"grr-correct.{kind}").read_bytes()[:5] for kind in ("png", "pdf", "svg")}
    assert code == 0 and heads == {"png": b"\x89PNG\r", "pdf": b"%PDF-", "svg": b"<?xml"}


@pytest.mark.wide_at("arguments2-*")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grr"], r"not refuted: strongest bound \.\d\d of 1; power at 1\.25 times: [.\d]+$"),
        (["gaussian", "--no-power"], r"not refuted: strongest bound [.\d]+ of rho \.0359$"),
        (["private-cov", "--calibration", "published"], r"REFUTED: rho >= [.\d]+ at 99\.9 %$"),
    ],
)
def test_the_first_line_is_the_verdict(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app(["audit", *arguments, "--runs", "3000", "--out", str(tmp_path)])
    first = capsys.readouterr().out.splitlines()[0]
    assert re.fullmatch(said, first), first
    assert ended.value.code == first.startswith("REFUTED")


def test_a_presumption_has_a_line_of_its_own_and_no_exit_code() -> None:
    curve = np.zeros((2, 2))
    presumed = AuditResult("a, batches", Claim.gaussian(1.0, 1e-5), 0.3, 0.999, "", 100, curve)
    result = AuditResult("a, batches", Claim(1.0, 1e-5), 0.5, 0.999, "", 100, curve, presumed=presumed)
    game: Any = None
    first, second = audit.verdict([audit.Found(game, result, None)], 0.999).splitlines()
    assert first == "not refuted: strongest bound .50 of 1"
    assert second == "if all noise is Gaussian, as the agent declares: REFUTED: rho >= .30 at 99.9 %"
    assert not result.refuted


@pytest.mark.wide
def test_ctrl_c_says_what_stands_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is pressed while the second game is played."""
    played, run = list[str](), audit.run_audit

    def pressed(game: Game, *arguments: Any) -> AuditResult:
        played.append(game.part)
        if len(played) > 1:
            raise KeyboardInterrupt
        return run(game, *arguments)

    monkeypatch.setattr(audit, "run_audit", pressed)
    with pytest.raises(SystemExit) as ended:
        app(["audit", "jdp-linucb", "--runs", "20", "--no-power", "--out", str(tmp_path)])
    told = capsys.readouterr()
    assert ended.value.code == 130 and told.out.startswith("not refuted: strongest bound")
    assert "interrupted after 1 of 2 games" in told.err


@pytest.mark.parametrize("name", ["private-pursuit", "dpmnl-approx"])
def test_an_agent_of_which_no_game_has_power_is_told_what_watches_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = audited(tmp_path, capsys, name)
    assert code == 0 and printed.startswith(f"{name}: no game has power") and "check_agent(" in printed


@pytest.mark.parametrize(("effort", "runs"), [("quick", 5000), ("normal", 20_000), ("long", 80_000)])
def test_effort_is_counted_and_not_timed(effort: str, runs: int) -> None:
    assert games("grr", 1.0, effort=effort)[0].runs == runs
    with pytest.raises(ValueError, match="effort must be one of quick, normal, long; got 'quik'"):
        games("grr", 1.0, effort="quik")


def test_settings_are_of_the_agent_or_of_the_world() -> None:
    config, world = audit.settings_of("file.py:Mine", ["epsilon=2", "Mine.clip=1", "env.dim=3"])
    assert config == {"epsilon": 2, "clip": 1} and world_for("linucb", world).observation_space.shape == (2, 3)
    assert world_for("linucb", {"id": "privbandit/Bandit-v0", "n_arms": 3}).action_space.n == 3  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="or env"):
        audit.settings_of("linucb", ["world.dim=3"])


@pytest.mark.wide
def test_an_agent_of_a_file_has_its_pictures_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{Path(__file__).parent / 'hidden.py'}:HiddenDevice"
    audited(tmp_path, capsys, name, "--set", "env.dim=3", "--runs", "20", "--no-power", "--effort", "quick")
    assert {path.name for path in tmp_path.iterdir()} == {
        f"hidden.py-HiddenDevice-correct.{kind}" for kind in ("png", "json")
    }


@pytest.mark.wide
def test_an_audit_of_a_mechanism_imports_no_agent(tmp_path: Path) -> None:
    code = (
        "import sys; from privbandit_agents.audits.registry import games; games('laplace', 1.0); "
        "print([m for m in sys.modules if m.startswith(tuple(f'privbandit_agents.{kind}.' for kind in "
        "('local', 'joint', 'shuffle', 'baselines')))])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_no_audit_looks_at_a_clock() -> None:
    home = Path(privbandit_agents.__file__).parent
    files = [*home.glob("audits/**/*.py"), *home.glob("testing/**/*.py")]
    assert len(files) > 30 and not [
        path for path in files if re.search(r"^(import|from) time\b", path.read_text(), re.M)
    ]
