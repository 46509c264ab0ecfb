"""The example of a service: killed at any place, it loses no record and draws no release twice."""

import asyncio
import hashlib
import importlib
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

pytest.importorskip("fastapi", reason="the extra service is not installed")
httpx: Any = pytest.importorskip("httpx", reason="the extra service is not installed")
SERVICE = Path(__file__).parents[1] / "examples" / "service"
USERS, ARMS, DIM = 40, 3, 2


@pytest.fixture
def curators(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SERVICE))
    return importlib.import_module("curator")


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SERVICE))
    return importlib.import_module("device")


def opened(curators: Any, folder: Path, **given: Any) -> Any:
    settings = {"arms": ARMS, "dim": DIM, "horizon": 200, "name": "auto-joint", "epsilon": 1.0, "shadow": False}
    return curators.Curator(folder, **(settings | given))


class Dying:
    """A connection whose process is killed before or after its n-th write, counted with renames of files."""

    def __init__(self, db: Any, place: int) -> None:
        self.db, self.place, self.passed = db, place, 0

    def tick(self) -> None:
        self.passed += 1
        if self.passed == self.place:
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(self, text: str, *given: Any) -> Any:
        if not text.startswith("INSERT"):
            return self.db.execute(text, *given)
        self.tick()
        done = self.db.execute(text, *given)
        self.tick()
        return done


def context_of(user: int) -> np.ndarray:
    return default_rng([5, user]).normal(size=DIM).astype(np.float32)


def serve(folder: Path, place: int, out: int) -> None:
    """Serve users until the process is killed; write to ``out`` all that a client sees, as lines."""
    sys.path.insert(0, str(SERVICE))
    curators = importlib.import_module("curator")
    replace, connect = os.replace, curators.sqlite3.connect
    dying = Dying(None, place)

    def renamed(*given: Any) -> None:
        dying.tick()
        replace(*given)
        dying.tick()

    class Opened:
        def __init__(self, *given: Any, **named: Any) -> None:
            dying.db = connect(*given, **named)

        def __getattr__(self, name: str) -> Any:
            return dying.execute if name == "execute" else getattr(dying.db, name)

    os.replace = renamed  # type: ignore[assignment]
    curators.sqlite3.connect = Opened
    curator = opened(curators, folder)

    def seen(**what: Any) -> None:
        os.write(out, (json.dumps(what) + "\n").encode())

    for user in range(curator.learned, USERS):
        release = hashlib.sha256(np.ascontiguousarray(curator.agent.release).tobytes()).hexdigest()
        told = curator.decide(context_of(user))
        seen(served=curator.learned, release=release)
        curator.record(told["decision"], float(user % 2), None)
        seen(acked=user + 1)


def run_and_kill(folder: Path, place: int) -> list[dict[str, Any]]:
    """Serve in a process of its own that is killed at a place; return what clients saw."""
    inside, outside = os.pipe()
    child = multiprocessing.get_context("fork").Process(target=serve, args=(folder, place, outside))
    child.start()
    os.close(outside)
    with os.fdopen(inside) as lines:
        seen = [json.loads(line) for line in lines]
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return seen


PLACES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 21, 26, 33, 50, 90, 151)


@pytest.mark.wide_at("2", "4", "6", "7", "8", "9", "11", "12", "14", "21", "26", "33", "90")
@pytest.mark.parametrize("place", PLACES)
def test_a_killed_curator_goes_on_without_loss(place: int, tmp_path: Path, curators: Any) -> None:
    seen = run_and_kill(tmp_path, place)
    acked = max([0, *(line["acked"] for line in seen if "acked" in line)])
    assert acked < USERS, "it was killed"
    # killed again while it recovers, then in peace
    for again in (place % 7 + 1, 10**9):
        seen += run_and_kill(tmp_path, again)
    curator = opened(curators, tmp_path)
    # no acknowledged record is lost
    records = curator.db.execute("SELECT count(*) FROM records").fetchone()[0]
    assert records >= USERS > acked
    # between two releases all users were served by one release, whatever process served them
    entered = [row[0] for row in curator.db.execute("SELECT records FROM ledger ORDER BY records")]
    by_release = defaultdict(set)
    for line in seen:
        if "served" in line:
            by_release[max(at for at in entered if at <= line["served"])].add(line["release"])
    assert all(len(releases) == 1 for releases in by_release.values()), "a release was drawn twice and shown"
    # every release that was shown stands in the ledger, and the budget is entered once
    shown = {release for releases in by_release.values() for release in releases}
    assert len(shown) <= len(entered) and entered[0] == 0
    assert curator.agent.ledger.spent() == opened(curators, tmp_path / "new").agent.ledger.spent()
    assert curator.agent.users == records


def test_a_curator_that_forgets_the_rules_is_found(tmp_path: Path, curators: Any) -> None:
    """Without a save after each release a killed curator draws it again: the test above would see two releases."""
    first = opened(curators, tmp_path)
    first.save = lambda: None
    for user in range(8):
        first.record(first.decide(context_of(user))["decision"], 1.0, None)
    shown = first.agent.release.copy()
    del first
    again = opened(curators, tmp_path)
    assert again.learned == 8 and not np.array_equal(again.agent.release, shown)


def test_shadow_mode_acts_uniformly_and_logs_what_the_agent_wanted(tmp_path: Path, curators: Any) -> None:
    curator = opened(curators, tmp_path, shadow=True)
    for user in range(60):
        curator.record(curator.decide(context_of(user))["decision"], 1.0, None)
    rows = curator.db.execute("SELECT action, wanted, probability FROM decisions").fetchall()
    actions = np.bincount([row[0] for row in rows], minlength=ARMS)
    assert {row[2] for row in rows} == {1 / ARMS} and actions.min() > 5
    assert any(action != wanted for action, wanted, _ in rows) and curator.agent.users == 60


def test_requests_and_refusals(tmp_path: Path, curators: Any) -> None:
    app = curators.service(opened(curators, tmp_path))

    async def talk() -> None:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://curator") as http:
            told = (await http.post("/decisions", json={"context": [0.1, 0.2]})).json()
            rewarded = {"decision": told["decision"], "reward": 1}
            for _ in range(2):  # a client that asks again changes nothing
                assert (await http.post("/rewards", json=rewarded)).status_code == 200
            assert (await http.get("/ledger")).json()["records"] == 1
            assert (await http.post("/rewards", json={"decision": 99, "reward": 1})).status_code == 404
            assert (await http.post("/decisions", json={"context": [0.1]})).status_code == 422
            assert (await http.get("/policy")).status_code == 403, "a curator's state holds raw records"
            assert (await http.post("/reports", content=b"x")).status_code == 422

    asyncio.run(talk())


def test_devices_of_their_own_teach_a_policy_by_reports(tmp_path: Path, curators: Any, devices: Any) -> None:
    """Every device reports once; reports since the last save are learned from again by the next process."""
    given = {"name": "ldp-clicks", "epsilon": 4.0}
    curator = opened(curators, tmp_path / "server", **given)
    for user in range(40):
        policy = (tmp_path / "server" / f"agent-{curator.saved}.npz").read_bytes()
        agent, arm = devices.choose(policy, context_of(user), ARMS)
        kept = tmp_path / f"device-{user}"
        content = devices.report(agent, context_of(user), arm, 1.0, kept)
        assert devices.report(agent, context_of(user), arm, 1.0, kept) is None, "a device reports once"
        curator.record(None, None, content)
    assert curator.agent.users == 40 and curator.agent.ledger.spent().pure == 4.0
    again = opened(curators, tmp_path / "server", **given)
    assert again.agent.users == 40 and np.array_equal(again.agent.sums, curator.agent.sums)


@pytest.mark.wide
def test_a_service_answers_two_hundred_requests_in_a_second_of_its_core(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(SERVICE / "curator.py"), str(tmp_path), "--arms", "3", "--dim", "2"]
    with subprocess.Popen([*command, "--horizon", "1000", "--port", str(port)]) as server:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}") as http:
                for _ in range(300):
                    try:
                        http.get("/ledger")
                        break
                    except httpx.ConnectError:
                        time.sleep(0.1)
                before = cpu_seconds(server.pid)
                for user in range(200):
                    told = http.post("/decisions", json={"context": context_of(user).tolist()}).json()
                    http.post("/rewards", json={"decision": told["decision"], "reward": 1.0}).raise_for_status()
                spent = cpu_seconds(server.pid) - before
        finally:
            server.kill()
    print(f"{400 / spent:.0f} requests a CPU second")
    assert 400 / spent > 200, f"{400 / spent:.0f} requests a CPU second"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
