"""The example of a service: killed at any place, it loses no record and draws no release twice."""

import asyncio
import hashlib
import importlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from given import Later
from numpy.random import default_rng

fastapi, httpx = Later("fastapi"), Later("httpx")  # the extra service
SERVICE = Path(__file__).parents[1] / "examples" / "service"
FORMER = Path(__file__).parent / "agents" / "playing" / "former" / "0.3" / "curator.npz"
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


def dies(curators: Any, place: int) -> Dying:
    """Let this process be killed at the n-th write or rename of the curator that it opens."""
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
    return dying


def context_of(user: int) -> np.ndarray:
    return default_rng([5, user]).normal(size=DIM).astype(np.float32)


def serve(folder: Path, place: int, out: int) -> None:
    """Serve users until the process is killed; write to ``out`` all that a client sees, as lines."""
    sys.path.insert(0, str(SERVICE))
    curators = importlib.import_module("curator")
    dies(curators, place)
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


DAYS, A_DAY = 365, 8
CHANGES = {100: ("spring", "0"), 200: ("summer", "1"), 300: ("autumn", "spring")}
"""After how many nights which arm comes, and which goes."""


def live(folder: Path, place: int) -> None:
    """Serve a year, until the process is killed: users by day, their rewards at night, changes of arms after it."""
    sys.path.insert(0, str(SERVICE))
    curators = importlib.import_module("curator")
    dying = dies(curators, place)
    curator = opened(curators, folder, horizon=DAYS * A_DAY, room=6, batch=A_DAY)
    number, waiting = "SELECT count(*) FROM decisions", "SELECT id FROM decisions WHERE id > ? ORDER BY id"
    while curator.learned < DAYS * A_DAY:
        nights = curator.learned // A_DAY
        for night, (comes, goes) in CHANGES.items():
            if nights >= night and comes not in curator.states:
                curator.change([comes], [goes])
        decided = dying.db.execute(number).fetchone()[0]
        while decided < (nights + 1) * A_DAY:
            decided = curator.decide(context_of(decided))["decision"]
        for (decision,) in dying.db.execute(waiting, (curator.learned,)).fetchall():
            curator.reward(decision, float(decision % 3 == 0))


@pytest.mark.slow
def test_a_year_of_nights_loses_no_record_and_pays_once(tmp_path: Path, curators: Any) -> None:
    """365 batches, three changes of arms and twenty kills."""
    rng, kills = default_rng(0), 0
    while True:
        place = int(rng.integers(1, 800)) if kills < 20 else 10**9
        child = multiprocessing.get_context("fork").Process(target=live, args=(tmp_path, place))
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        kills += 1
    assert kills == 20
    curator = opened(curators, tmp_path, horizon=DAYS * A_DAY, room=6, batch=A_DAY)
    users = DAYS * A_DAY
    records = curator.db.execute("SELECT id, decision, reward FROM records ORDER BY id").fetchall()
    assert records == [(one, one, float(one % 3 == 0)) for one in range(1, users + 1)]
    assert curator.learned == users == curator.agent.users
    # everyone got an arm of the day
    actions = [row[0] for row in curator.db.execute("SELECT action FROM decisions ORDER BY id")]
    there, names = {"0", "1", "2"}, [*curator.states]
    for first, last in pairwise([0, *CHANGES, DAYS]):
        there = there - {CHANGES[first][1]} | {CHANGES[first][0]} if first else there
        assert {names[action] for action in actions[first * A_DAY : last * A_DAY]} <= there
    # the ledger is that of one process, record by record
    nights = {"mean": A_DAY, "law": "batch"}
    env = curators.gym.make("privbandit/Clicks-v0", n_arms=6, dim=DIM, horizon=users, feedback=nights)
    agent, paid, user = curators.make("auto-joint", env, epsilon=1.0, noise="secure"), [(0, 0)], 0

    def pay(publication: Any) -> Any:
        paid.append((user + 1, 1))
        return publication.draw()

    agent.watcher = pay
    for user in range(users):
        agent.update(context_of(user), actions[user], float((user + 1) % 3 == 0))
    assert curator.db.execute("SELECT records, place FROM ledger ORDER BY records, place").fetchall() == paid
    assert curator.agent.ledger.spent() == agent.ledger.spent()


@pytest.mark.wide
def test_a_folder_of_another_version_goes_on(tmp_path: Path, curators: Any) -> None:
    """An agent that version 0.3 saved after 300 records, two of which the process before had not learned from."""
    settings = {"name": "jdp-linucb", "horizon": 400}
    curator = opened(curators, tmp_path, **settings)
    shutil.copy(FORMER, tmp_path / "agent-300.npz")
    for user in range(302):
        row = (context_of(user).tobytes(), 0, 0, 1.0)
        curator.db.execute("INSERT INTO decisions (context, action, wanted, probability) VALUES (?, ?, ?, ?)", row)
        curator.db.execute("INSERT INTO records (decision, reward) VALUES (?, ?)", (user + 1, float(user % 2)))
    curator.close()
    again = opened(curators, tmp_path, **settings)
    assert again.learned == again.agent.users == 302 and again.agent.release.any()
    for user in range(302, 400):
        again.reward(again.decide(context_of(user))["decision"], 1.0)
    fresh = opened(curators, tmp_path / "new", **settings).agent
    assert again.agent.users == 400 and again.agent.ledger.spent() == fresh.ledger.spent()
    assert not again.db.execute("SELECT * FROM aside").fetchall()


PLACES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 21, 26, 33, 50, 90, 151)


@pytest.mark.wide_but("3", "17")
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
    first.close()
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
            assert (await http.post("/reports", content=b"x")).status_code == 403

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
    curator.close()
    again = opened(curators, tmp_path / "server", **given)
    assert again.agent.users == 40 and np.array_equal(again.agent.sums, curator.agent.sums)


JSON = {"content-type": "application/json"}
ODD = (
    b"null", b"true", b"1", b"-1", b"0", b"1.5", b"25", b"1e308", b"-1e400", b"NaN", b"Infinity", b"-0.0", b"1e-320",
    b"9" * 25, b"9" * 5000, b'"1"', b'"x"', b'""', b"[]", b"[[]]", b"[1]", b"[0.1, 0.2]", b"[true, 0.1]", b'["0.1", 1]',
    b"[null, 0]", b"[1e39, 0]", b"{}", b'{"a": 1}', b"[" * 3000 + b"]" * 3000, b"\xff", b"", b"{",
)  # fmt: skip
"""Bodies and parts of bodies: each type of JSON, numbers at the ends, and what is no JSON."""


def odd_bodies() -> list[tuple[str, bytes]]:
    """Return paths with bodies: each odd value as the body, and at each place of a right one."""
    bodies = [(path, odd) for path in ("/decisions", "/rewards") for odd in ODD]
    for odd in ODD:
        bodies += [
            ("/decisions", b'{"context": %s}' % odd),
            ("/decisions", b'{"context": [%s, 0.1]}' % odd),
            ("/rewards", b'{"decision": %s, "reward": 1}' % odd),
            ("/rewards", b'{"decision": 1, "reward": %s}' % odd),
            ("/rewards", b'{"decision": 2, "reward": 1, "more": %s}' % odd),
        ]
    return bodies


def odd_reports(right: np.ndarray) -> list[bytes]:
    """Return reports of other types, shapes, lengths and numbers than the right one, and what is no report."""
    saved = []
    for odd in (
        0.5, right[0], right[None], right.astype(np.float32), right.astype(complex), right > 0, right * 3,
        right * 1e308, right * np.nan, right * np.inf, np.array(["x"]), np.zeros((0, 3)), right.astype(">f8"),
        np.repeat(right, 2, 0), np.zeros(1, [("a", float)]),
    ):  # fmt: skip
        file = io.BytesIO()
        np.save(file, odd, allow_pickle=False)
        saved.append(file.getvalue())
    file = io.BytesIO()
    np.save(file, right, allow_pickle=False)
    whole = file.getvalue()
    huge = whole.replace(str(right.shape).encode(), b"(999999999999,)")
    return [*saved, b"", b"x", whole[:-1], whole + b"0", whole[:40], huge, *(bytes([i]) + whole[1:] for i in range(9))]


def answers(app: Any, bodies: list[tuple[str, bytes]], on: str = "") -> list[tuple[int, Any]]:
    """Post bodies, reports on a policy, to an application; return the codes and what was said."""

    async def talk() -> list[tuple[int, Any]]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://curator", headers=JSON) as http:
            told = [await http.post(path, content=body, headers={"If-Match": on}) for path, body in bodies]
        return [(answer.status_code, answer.json()) for answer in told]

    return asyncio.run(talk())


def test_an_odd_body_is_refused_in_one_sentence_or_learned_from_again(tmp_path: Path, curators: Any) -> None:
    curator = opened(curators, tmp_path)
    decided = [curator.decide(context_of(user))["decision"] for user in range(2)]
    assert decided == [1, 2]
    bodies = odd_bodies()
    assert len(bodies) > 200
    told = answers(curators.service(curator), bodies)
    for body, (code, said) in zip(bodies, told, strict=True):
        if code == 200:
            continue
        assert code in (400, 404, 409, 413, 422), body
        assert isinstance(said["detail"], str) and 10 < len(said["detail"]) < 200, body
    assert 2 <= sum(code == 200 for code, _ in told) < 40
    learned = curator.agent.users
    curator.close()
    again = opened(curators, tmp_path)
    assert again.agent.users == again.learned == learned == 1
    assert not again.db.execute("SELECT * FROM aside").fetchall()


def test_an_odd_report_is_refused_in_one_sentence(tmp_path: Path, curators: Any) -> None:
    curator = opened(curators, tmp_path, name="ldp-clicks", epsilon=4.0)
    right = curator.agent.randomize(*curator.agent.records_of(context_of(0), 0, 1.0))
    app, on = curators.service(curator), curator.asked
    told = answers(app, [("/reports", body) for body in odd_reports(right)], on)
    assert {code for code, _ in told} == {422} and all("a report is an array" in said["detail"] for _, said in told)
    assert answers(app, [("/reports", curators.as_bytes(right))], on)[0] == (200, {"records": 1})
    assert answers(app, [("/reports", b"0" * 2**21)], on)[0][0] == 413


def test_a_report_on_another_arm_than_the_policy_asks_about_is_refused(tmp_path: Path, curators: Any) -> None:
    curator = opened(curators, tmp_path, name="ldp-clicks", epsilon=4.0)
    app, agent, early = curators.service(curator), curator.agent, curator.asked
    one = [("/reports", curators.as_bytes(agent.randomize(*agent.records_of(context_of(0), agent.arm, 1.0))))]
    for _ in range(agent.frozen_rounds()):
        assert answers(app, one, early)[0][0] == 200
    before = curator.learned
    for other in (early, ""):
        code, said = answers(app, one, other)[0]
        assert code == 409 and "today's policy" in said["detail"] and curator.learned == before
    assert answers(app, one, curator.asked)[0][0] == 200
    # once arms are public no more, all reports are alike
    agent.exploring = False
    assert curator.asked == '"*"'


def test_records_end_with_the_horizon_and_decisions_go_on(tmp_path: Path, curators: Any) -> None:
    curator = opened(curators, tmp_path, horizon=3)
    app = curators.service(curator)
    asked = ("/decisions", b'{"context": [0.1, 0.2]}')
    rewards = [("/rewards", b'{"decision": %d, "reward": 1}' % decision) for decision in range(1, 6)]
    codes = [code for code, _ in answers(app, [asked] * 5 + rewards + [asked])]
    assert codes == [200] * 5 + [200] * 3 + [409] * 2 + [200]
    # the same reward once more is no second record; another one is refused
    assert answers(app, [rewards[0], ("/rewards", b'{"decision": 1, "reward": 0}')])[0][0] == 200
    assert answers(app, [("/rewards", b'{"decision": 1, "reward": 0}')])[0][0] == 409
    curator.close()
    assert opened(curators, tmp_path, horizon=3).agent.users == 3


def test_arms_come_and_go_and_stay_gone(tmp_path: Path, curators: Any) -> None:
    curator = opened(curators, tmp_path, room=5)
    app = curators.service(curator)
    asked = ("/decisions", b'{"context": [0.1, 0.2]}')
    (code, said), *_ = answers(app, [("/arms", b'{"add": ["gold"], "retire": ["1"]}')])
    states = {"0": "active", "1": "retired", "2": "active", "gold": "active"}
    assert (code, said) == (200, states)
    for odd, status, sentence in [
        (b'{"add": ["1"]}', 409, "an arm called '1' was there before"),
        (b'{"add": ["x"], "retire": ["1"]}', 409, "no active arm is called '1'"),
        (b'{"add": ["a", "b"]}', 409, "has room for 1 more arms; got 2"),
        (b'{"add": [1]}', 422, "valid string"),
    ]:
        ((code, said),) = answers(app, [("/arms", odd)])
        assert code == status and sentence in said["detail"]
    for shadow in (False, True):
        told = [said for _, said in answers(app, [asked] * 40)]
        assert {one["arm"] for one in told} <= {"0", "2", "gold"} and all(one["action"] != 1 for one in told)
        rows = curator.db.execute("SELECT probability FROM decisions ORDER BY id DESC LIMIT 40").fetchall()
        assert {row[0] for row in rows} == {1 / 3 if shadow else 1.0}
        curator.close()
        curator = opened(curators, tmp_path, room=5, shadow=True)
        assert curator.states == states
        app = curators.service(curator)
    alone = opened(curators, tmp_path / "other")
    ((code, said),) = answers(curators.service(alone), [("/arms", b'{"add": ["gold"]}')])
    assert code == 409 and "has room for 0 more arms" in said["detail"] and not alone.agent.arm_states
    assert answers(curators.service(alone), [("/arms", b'{"retire": ["0"]}')])[0][1]["0"] == "retired"


def test_health_and_metrics_are_numbers_that_are_private_already(tmp_path: Path, curators: Any) -> None:
    curator = opened(curators, tmp_path)
    for user in range(3):
        curator.record(curator.decide(context_of(user))["decision"], 1.0, None)
    app = curators.service(curator)

    async def talk() -> tuple[Any, Any, Any]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://curator") as http:
            healthy, metrics = await http.get("/health"), await http.get("/metrics")
            curator.failed = True
            return healthy, metrics, await http.get("/health")

    healthy, metrics, failed = asyncio.run(talk())
    assert healthy.json() == {"records": 3} and failed.status_code == 503
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in metrics.text.splitlines() if not line.startswith("#")]
    entries = curator.db.execute("SELECT count(*) FROM ledger").fetchone()[0]
    expected = {"decisions_total": 3, "records_total": 3, "ledger_entries_total": entries, "horizon_records": 200}
    expected |= {"saved_records": curator.saved, "arms_active": ARMS, "arms_retired": 0}
    assert dict(line.removeprefix("privbandit_").split() for line in lines) == {
        name: str(value) for name, value in expected.items()
    }


@pytest.mark.wide_at("jdp-linucb")
@pytest.mark.parametrize("name", ["jdp-linucb", "jdp-glm"])
def test_records_in_other_batches_than_promised_cost_no_more(name: str, tmp_path: Path, curators: Any) -> None:
    """Nights of 20 as promised, single records, and nights of 7: releases at the same records, one budget."""
    found = []
    for night in (20, 1, 7):
        curator = opened(curators, tmp_path / str(night), name=name, batch=20)
        waiting: list[int] = []
        for user in range(100):
            waiting.append(curator.decide(context_of(user))["decision"])
            if len(waiting) == night:
                for decision in waiting:
                    curator.reward(decision, float(decision % 2))
                waiting.clear()
        for decision in waiting:
            curator.reward(decision, float(decision % 2))
        ends = [row[0] for row in curator.db.execute("SELECT records FROM ledger ORDER BY records, place")]
        found.append((ends, curator.agent.ledger.spent(), curator.agent.guarantee))
    assert all(one == found[0] for one in found)
    assert len(found[0][0]) > 2 and not any(end % 20 for end in found[0][0])


def test_devices_report_one_by_one(tmp_path: Path, curators: Any) -> None:
    with pytest.raises(ValueError, match="devices report one by one, not in batches of 20; leave the batch out"):
        opened(curators, tmp_path, name="ldp-clicks", batch=20)
    opened(curators, tmp_path, name="ldp-clicks").close()


def test_a_folder_has_one_owner_and_one_promise(tmp_path: Path, curators: Any) -> None:
    first = opened(curators, tmp_path)
    with pytest.raises(ValueError, match="another curator serves"):
        opened(curators, tmp_path)
    first.close()
    for other in ({"epsilon": 0.1}, {"name": "jdp-linucb"}, {"horizon": 1000}, {"arms": 4}, {"dim": 3}, {"batch": 9}):
        setting = {"name": "agent"}.get(*other, *other)
        standing = {"horizon": 200, "arms": ARMS, "dim": DIM, "epsilon": 1.0, "agent": "auto-joint", "batch": 1}
        value = standing[setting]
        with pytest.raises(ValueError, match=rf"promises {setting} = {value}; got {next(iter(other.values()))}"):
            opened(curators, tmp_path, **other)
    # a name that is refused leaves no promise behind
    with pytest.raises(TypeError, match="no setting"):
        opened(curators, tmp_path / "other", name="linucb")
    opened(curators, tmp_path / "other").close()


def test_a_second_spend_for_a_record_is_refused(tmp_path: Path, curators: Any) -> None:
    curator = opened(curators, tmp_path)
    curator.enter(5, 1, "release")
    with pytest.raises(curators.sqlite3.IntegrityError):
        curator.enter(5, 1, "release")


def test_a_record_that_can_no_longer_be_learned_from_is_set_aside(tmp_path: Path, curators: Any) -> None:
    """A later version of the agent may refuse what an earlier one took: the others are learned from all the same."""
    curator = opened(curators, tmp_path, name="ldp-clicks", epsilon=4.0)
    right = curators.as_bytes(curator.agent.randomize(*curator.agent.records_of(context_of(0), 0, 1.0)))
    for content in (right, b"no array at all", right):
        curator.db.execute("INSERT INTO records (report) VALUES (?)", (content,))
    (tmp_path / ".agent-0.npz.0123abcd").touch()
    curator.close()
    again = opened(curators, tmp_path, name="ldp-clicks", epsilon=4.0)
    assert again.learned == 3 and again.agent.users == 2 and again.agent.ledger.releases == 3
    assert again.db.execute("SELECT * FROM aside").fetchall() == [(2, "ValueError")]
    assert not list(tmp_path.glob(".agent*")), "files of killed processes go"


def test_a_full_disk_stops_the_curator_and_loses_no_record(
    tmp_path: Path, curators: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = opened(curators, tmp_path)
    app = curators.service(curator)
    decisions = [("/decisions", b'{"context": [0.1, 0.2]}')] * 60
    rewards = [("/rewards", b'{"decision": %d, "reward": 1}' % decision) for decision in range(1, 61)]
    answers(app, decisions)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(curators, "save", full)
        codes = [code for code, _ in answers(app, rewards)]
    stopped = codes.index(503)
    assert set(codes[stopped:]) == {503}
    assert (
        answers(app, rewards[:1] + decisions[:1])
        == [(503, {"detail": "the curator cannot write; mend its disk and start it again."})] * 2
    )
    curator.close()
    again = opened(curators, tmp_path)
    assert again.agent.users >= stopped and again.agent.ledger.spent() == curator.agent.ledger.spent()


@contextmanager
def running(folder: Path, horizon: int) -> Iterator[tuple[Any, Any]]:
    """Start the service in a process of its own; yield the process and a client, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(SERVICE / "curator.py"), str(folder), "--arms", "3", "--dim", "2"]
    with subprocess.Popen([*command, "--horizon", str(horizon), "--port", str(port)]) as server:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=JSON) as http:
                for _ in range(300):
                    try:
                        http.get("/ledger")
                        break
                    except httpx.ConnectError:
                        time.sleep(0.1)
                yield server, http
        finally:
            server.kill()


@pytest.mark.wide
def test_a_service_answers_two_hundred_requests_in_a_second_of_its_core(tmp_path: Path) -> None:
    with running(tmp_path, 1000) as (server, http):
        before = cpu_seconds(server.pid)
        for user in range(200):
            told = http.post("/decisions", json={"context": context_of(user).tolist()}).json()
            http.post("/rewards", json={"decision": told["decision"], "reward": 1.0}).raise_for_status()
        spent = cpu_seconds(server.pid) - before
        # nobody else may serve the folder meanwhile
        again = [*server.args[:-1], "0"]
        second = subprocess.run(again, capture_output=True, text=True, timeout=60)
    print(f"{400 / spent:.0f} requests a CPU second")
    assert 400 / spent > 200, f"{400 / spent:.0f} requests a CPU second"
    assert second.returncode == 2 and "another curator serves" in second.stderr


@pytest.mark.slow
def test_fifty_kills_under_load_change_no_record(tmp_path: Path, curators: Any) -> None:
    """Clients send right and odd bodies until the process dies; what was acknowledged is there, record by record."""
    rng, odd = default_rng(7), odd_bodies()
    rewards: dict[int, float] = {}
    contexts: dict[int, bytes] = {}
    codes: set[int] = set()
    for _ in range(50):
        with running(tmp_path, 100_000) as (server, http):
            dying = threading.Timer(rng.uniform(0.02, 0.8), server.kill)
            dying.start()
            try:
                while True:
                    x = rng.normal(size=DIM).astype(np.float32)
                    decision = (
                        http.post("/decisions", json={"context": x.tolist()}).raise_for_status().json()["decision"]
                    )
                    contexts[decision] = x.tobytes()
                    reward = float(rng.uniform())
                    if http.post("/rewards", json={"decision": decision, "reward": reward}).raise_for_status():
                        rewards[decision] = reward
                    path, body = odd[rng.integers(len(odd))]
                    codes.add(http.post(path, content=body).status_code)
            except httpx.TransportError:
                dying.join()
    curator = opened(curators, tmp_path, horizon=100_000)
    query = "SELECT decision, reward, context FROM records JOIN decisions ON decision = decisions.id"
    kept = {decision: (reward, context) for decision, reward, context in curator.db.execute(query)}
    print(f"{len(rewards)} acknowledged, {len(kept)} kept, codes of odd bodies {sorted(codes)}")
    assert len(rewards) > 500
    odd_decisions = {1, 2}  # an odd body may reward them first
    assert all(
        kept[decision] == (reward, contexts[decision])
        for decision, reward in rewards.items()
        if decision not in odd_decisions
    )
    assert curator.agent.users == curator.learned == len(kept) and codes <= {200, 400, 404, 409, 413, 422}
    assert not curator.db.execute("SELECT * FROM aside").fetchall()
    entered = curator.db.execute("SELECT records, place FROM ledger").fetchall()
    assert (
        len(set(entered)) == len(entered)
        and curator.agent.ledger.spent() == opened(curators, tmp_path / "new", horizon=100_000).agent.ledger.spent()
    )


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
