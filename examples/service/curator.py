"""A curator over HTTP: it serves actions of a private agent, learns from rewards or reports, and survives being killed.

    python curator.py FOLDER --arms 4 --dim 6 --horizon 100000 [--agent auto-joint] [--epsilon 1] [--shadow]
    python curator.py FOLDER --deploy deploy.json [--shadow]

The second form serves what ``privbandit cost --schema`` has priced: rows as the table has them, and arms by name.
Four rules keep the promise. A folder has one owner at a time, and one promise for ever. A record is checked, then on
disk, then acknowledged; so what is stored can be learned from again. A release is in the ledger before its noise is
drawn. Nobody is served by a release before the agent that made it is saved; so a release that was lost with the process
was never seen, and is made again with fresh noise for the entry that stands already.
"""

import argparse
import io
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from filelock import FileLock, Timeout
from privbandit_agents import CentralAgent, LocalAgent, load, make, save
from pydantic import BaseModel, ConfigDict, Field

import privbandit_envs  # noqa: F401 (registers the environments)
from privbandit_envs.tables import Encoding, Schema
from privbandit_envs.tables.encoding import named

REPORTS_A_FILE = 200  # a local agent is saved whenever that many reports have come
LARGEST_BODY = 2**20  # bytes
FAILED = (sqlite3.Error, OSError, MemoryError)  # what the machine does, whatever the record
TABLES = """
CREATE TABLE IF NOT EXISTS promise (asked TEXT);
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY, context BLOB, action INTEGER, wanted INTEGER, probability REAL);
CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, decision INTEGER UNIQUE, reward REAL, report BLOB);
CREATE TABLE IF NOT EXISTS coordinates (place INTEGER PRIMARY KEY, name TEXT UNIQUE, scale TEXT);
CREATE TABLE IF NOT EXISTS aside (record INTEGER PRIMARY KEY, why TEXT);
CREATE TABLE IF NOT EXISTS ledger (records INTEGER, place INTEGER, entry TEXT, PRIMARY KEY (records, place));
"""


class Body(BaseModel):
    """A body in JSON: these names, and numbers that are numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


class User(Body):
    """The features of a user, finite in float32; or the cells of a row, by column, if there is a schema."""

    context: list[Annotated[float, Field(ge=-3e38, le=3e38)]] | None = None
    row: dict[str, bool | float | str | None] | None = None


class Reward(Body):
    """The reward of a decision."""

    decision: int = Field(ge=1, lt=2**63)
    reward: float = Field(allow_inf_nan=False)


class Arms(Body):
    """Names of arms that come, and of arms that go for good."""

    add: list[Annotated[str, Field(min_length=1, max_length=200)]] = []
    retire: list[str] = []


class Plan:
    """What ``privbandit cost`` has priced: schema, names of arms, range of rewards, agent, batch, and features.

    Raises:
        ValueError: bounds or levels of the schema are not public, or the budget is a person's, whom nobody names here.
    """

    def __init__(self, path: Path):
        kept = json.loads(path.read_bytes())
        schema, (first, *_) = Schema.of(kept["schema"]), kept["agents"]
        schema.check_public()
        if first["unit"] != "visit":
            raise ValueError(f"the budget of {path} is for a {first['unit']}; this service knows visits alone.")
        self.encoding, self.names, self.range = Encoding(schema), kept["arms"], kept["reward_range"]
        self.asked = {"name": first["agent"], "epsilon": first["epsilon"], "horizon": first["horizon"]}
        self.asked |= {"arms": len(self.names), "dim": len(self.encoding.names), "batch": kept.get("batch", 1)}
        self.features = kept.get("features")
        self.places = np.arange(len(self.encoding.names))

    def take_places(self, db: sqlite3.Connection, dim: int) -> None:
        """Give each coordinate its place in the agent's contexts: that of an earlier schema, or the next one.

        Raises:
            ValueError: a coordinate has other bounds than before, or there is no place left.
        """
        for field in self.encoding.fields:
            ends = field.constraints.minimum, field.constraints.maximum, field.use.fill
            scale = "" if field.type == "string" else json.dumps([field.type, *ends])
            for name in named(field):
                stands = db.execute("SELECT scale FROM coordinates WHERE name = ?", (name,)).fetchone()
                if stands is not None and stands[0] != scale:
                    raise ValueError(
                        f"{name} was {stands[0]} and is {scale}; give a column with new bounds a new name."
                    )
                if stands is None:
                    place = db.execute("SELECT count(*) FROM coordinates").fetchone()[0]
                    if place == dim:
                        raise ValueError(f"{name} finds no place: the agent was made for {dim}, by --columns.")
                    db.execute("INSERT INTO coordinates VALUES (?, ?, ?)", (place, name, scale))
        placed = dict(db.execute("SELECT name, place FROM coordinates").fetchall())
        self.places = np.array([placed[name] for name in self.encoding.names])

    def context(self, row: dict[str, Any], dim: int) -> np.ndarray:
        """Return a row's context; a coordinate that no schema has yet, or this one has no more, is 0."""
        x = np.zeros(dim, np.float32)
        x[self.places] = self.encoding.row(row)
        return x


class Curator:
    """An agent, its records and its ledger in one folder; ``door`` lets one request at a time through."""

    def __init__(
        self,
        folder: Path,
        arms: int,
        dim: int,
        horizon: int,
        name: str,
        epsilon: float,
        shadow: bool,
        plan: Plan | None = None,
        room: int | None = None,
        columns: int | None = None,
        batch: int = 1,
    ):
        self.names = [str(arm) for arm in range(arms)] if plan is None else [*plan.names]
        self.plan, (self.low, self.high) = plan, (0.0, 1.0) if plan is None else plan.range
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder, self.arms, self.horizon, self.shadow = folder, max(arms, room or 0), horizon, shadow
        self.lock, self.failed = threading.Lock(), False
        self.uniform = np.random.default_rng()  # draws the arms of a shadow run, which are no secret
        # the system releases the lock when the process ends, however it ends
        self.owner = FileLock(folder / "owner.lock", timeout=0)
        try:
            self.owner.acquire()
        except Timeout:
            raise ValueError(f"another curator serves {folder}; stop it first, or name another folder.") from None
        try:
            self.open(name, epsilon, max(dim, columns or 0), batch)
        except BaseException:
            self.owner.release()
            raise

    def open(self, name: str, epsilon: float, dim: int, batch: int) -> None:
        """Take up what the folder holds, or begin."""
        # every commit is on disk before it returns
        self.db = sqlite3.connect(self.folder / "curator.db", check_same_thread=False, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.executescript(TABLES)
        asked = {"agent": name, "epsilon": epsilon, "horizon": self.horizon, "arms": self.arms, "dim": dim}
        asked |= {"rewards": [self.low, self.high], "batch": batch, "features": getattr(self.plan, "features", None)}
        promised = self.keep_promise(asked)
        if self.plan is not None:
            self.plan.take_places(self.db, dim)
        # the agent as it was saved last, or a new one, whose budget is entered first; future noise is fresh in any case
        given: dict[str, Any] = {"n_arms": self.arms, "dim": dim, "horizon": self.horizon}
        given |= {"feedback": {"mean": batch, "law": "batch"}} if batch != 1 else {}
        if self.plan is None:
            env = gym.make("privbandit/Clicks-v0", **given)
        else:  # spaces and feedback of the priced world
            env = gym.make("privbandit/Smooth-v0", features=self.plan.features, **given)
        self.dim, self.map = dim, env.unwrapped.features  # type: ignore[attr-defined]
        *older, newest = [None, *sorted(self.folder.glob("agent-*.npz"), key=records_in)]
        self.learned = self.saved = records_in(newest) if newest else 0
        self.recovering = True  # entries that stand may be met again
        if newest:
            self.agent: Any = load(newest, env)
        else:
            self.agent = make(name, env, epsilon=epsilon, horizon=self.horizon, noise="secure")
            if batch != 1 and isinstance(self.agent, LocalAgent):
                raise ValueError(f"devices report one by one, not in batches of {batch}; leave the batch out.")
            if self.arms > len(self.names):
                self.agent.add_arms(self.names)
            if not promised:
                self.db.execute("INSERT INTO promise VALUES (?)", (json.dumps(asked),))
            self.enter(0, 0, self.agent.guarantee.words)
            save(self.agent, self.folder / "agent-0.npz")
        # files of processes that were killed
        for left in [*filter(None, older), *self.folder.glob(".agent-*")]:
            left.unlink(missing_ok=True)
        if isinstance(self.agent, CentralAgent):
            self.agent.watcher = self.paid_first
        # records that were acknowledged after the last save
        for row in self.db.execute("SELECT id FROM records WHERE id > ? ORDER BY id", (self.learned,)).fetchall():
            self.learn(row[0])
        self.recovering = False

    def close(self) -> None:
        self.db.close()
        self.owner.release()

    def keep_promise(self, asked: dict[str, Any]) -> bool:
        """Return whether the folder promises already; refuse to promise anything else."""
        stands = self.db.execute("SELECT asked FROM promise").fetchone()
        if stands is None and self.db.execute("SELECT 1 FROM decisions").fetchone() is not None:
            raise ValueError(f"{self.folder} does not say what it promises: another program made it.")
        for setting, value in json.loads(stands[0] if stands else "{}").items():
            if asked.get(setting, value) != value:
                other = f"got {asked[setting]}. Name another folder for another promise."
                raise ValueError(f"{self.folder} promises {setting} = {value}; {other}")
        return stands is not None

    def enter(self, records: int, place: int, entry: str) -> None:
        """Enter what is spent after so many records; only a curator that recovers may meet an entry that stands."""
        row = (records, place, entry)
        if not self.recovering or row not in self.db.execute("SELECT * FROM ledger WHERE records = ?", row[:1]):
            self.db.execute("INSERT INTO ledger VALUES (?, ?, ?)", row)

    def paid_first(self, publication: Any) -> Any:
        """Enter a release in the ledger, then draw it: the agent's own ledger has the same entry in memory."""
        self.releases += 1
        self.enter(self.learned, self.releases, f"release, cost {publication.cost or 'entered with the budget'}")
        return publication.draw()

    def learn(self, record: int) -> None:
        """Let the agent learn from a record that is on disk; save it after a release, before anybody is served.

        A record that it refuses is set aside under its number: it was paid for, and stops nobody.
        """
        query = "SELECT reward, report, context, action FROM records LEFT JOIN decisions ON decision = decisions.id"
        reward, report, context, action = self.db.execute(f"{query} WHERE records.id = ?", (record,)).fetchone()
        self.learned, self.releases = record, 0
        try:
            if report is None:
                scaled = (reward - self.low) / (self.high - self.low)
                self.agent.update(np.frombuffer(context, np.float32), action, scaled)
            else:
                with self.agent.paying(1):
                    self.agent.absorb(np.load(io.BytesIO(report), allow_pickle=False))
        except FAILED:
            raise
        except Exception as error:
            self.db.execute("INSERT OR REPLACE INTO aside VALUES (?, ?)", (record, type(error).__name__))
        if self.releases or (report is not None and self.learned >= self.saved + REPORTS_A_FILE):
            self.save()

    def save(self) -> None:
        """Write the agent under the number of its records, then drop the file before."""
        save(self.agent, self.folder / f"agent-{self.learned}.npz")
        if self.learned > self.saved:
            (self.folder / f"agent-{self.saved}.npz").unlink(missing_ok=True)
        self.saved = self.learned

    @contextmanager
    def door(self) -> Iterator[None]:
        """Let one request at a time through, and none once the machine has failed: the disk knows what stands."""
        with self.lock:
            try:
                if self.failed:
                    raise OSError
                yield
            except FAILED:
                self.failed = True
                raise HTTPException(503, "the curator cannot write; mend its disk and start it again.") from None

    def decide(self, context: np.ndarray) -> dict[str, Any]:
        """Choose for a user, and keep context and action until the reward comes."""
        wanted = int(self.agent.select_action(context))
        there = [arm for arm, state in enumerate(self.states.values()) if state == "active"]
        action = int(self.uniform.choice(there)) if self.shadow else wanted
        row = (context.tobytes(), action, wanted, 1 / len(there) if self.shadow else 1.0)
        new = self.db.execute("INSERT INTO decisions (context, action, wanted, probability) VALUES (?, ?, ?, ?)", row)
        return {"decision": int(new.lastrowid or 0), "action": action, "arm": [*self.states][action]}

    @property
    def states(self) -> dict[str, str]:
        """The names and states of arms, in the order of their numbers."""
        return dict(self.agent.arm_states) or dict.fromkeys(self.names, "active")

    def change(self, add: list[str], retire: list[str]) -> None:
        """Let arms come and go; they do when the agent is saved, and neither or both if the process dies before."""
        before = self.agent.arm_states
        try:
            if not before:
                self.agent.add_arms(self.names)
            if add:
                self.agent.add_arms(add)
            if retire:
                self.agent.retire_arms(retire)
        except (ValueError, TypeError) as error:
            self.agent.arm_states = before
            raise HTTPException(409, str(error)) from None
        self.save()

    def reward(self, decision: int, reward: float) -> None:
        """Take in the reward of a decision; the same reward once more changes nothing."""
        if self.db.execute("SELECT 1 FROM decisions WHERE id = ?", (decision,)).fetchone() is None:
            raise HTTPException(404, f"there is no decision {decision}.")
        stands = self.db.execute("SELECT reward FROM records WHERE decision = ?", (decision,)).fetchone()
        if stands is None:
            self.record(decision, reward, None)
        elif stands[0] != reward:
            raise HTTPException(409, f"decision {decision} has another reward already.")

    def report(self, content: bytes) -> None:
        """Take in a report that has the type, the shape and the length of the reports of this policy."""
        with np.errstate(over="ignore"):
            one = np.asarray(self.agent.randomize(*self.agent.records_of(self.nobody, 0, 0.0)))
            (head, numbers), (given, sent) = (parted(as_bytes(one), one), parted(content, one))
            fits = given == head and len(sent) == len(numbers)
            if not fits or not np.linalg.norm(np.frombuffer(sent, one.dtype)) <= 1.000001 * np.linalg.norm(one):
                what = f"{one.dtype} of shape {one.shape} and length {np.linalg.norm(one):.6g}"
                raise HTTPException(422, f"a report is an array as numpy writes it, {what}.")
        self.record(None, None, content)

    @property
    def nobody(self) -> np.ndarray:
        return np.zeros(self.agent.observation_space.shape, np.float32)

    @property
    def asked(self) -> str:
        """What devices report on: of an agent that asks about public arms in turn, the arm of this run."""
        return f'"{self.agent.arm}"' if getattr(self.agent, "exploring", False) else '"*"'

    def record(self, decision: int | None, reward: float | None, report: bytes | None) -> None:
        """Write a record; it is learned from when it is on disk."""
        if self.learned >= self.horizon:
            raise HTTPException(409, f"the budget is for {self.horizon} records, and all have come.")
        row = (decision, reward, report)
        new = self.db.execute("INSERT INTO records (decision, reward, report) VALUES (?, ?, ?)", row)
        self.learn(int(new.lastrowid or 0))


def records_in(file: Path) -> int:
    return int(file.stem.rpartition("-")[2])


def as_bytes(report: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, report, allow_pickle=False)
    return file.getvalue()


def parted(content: bytes, like: np.ndarray) -> tuple[bytes, bytes]:
    """Return the head and the numbers of an array in bytes."""
    head = len(as_bytes(like)) - like.nbytes
    return content[:head], content[head:]


def service(curator: Curator) -> FastAPI:
    """Return the application: decisions and rewards of a curator, or the policy and reports of devices."""
    app = FastAPI(title="privbandit curator")
    local = isinstance(curator.agent, LocalAgent)

    @app.middleware("http")
    async def small(request: Request, go_on: Any) -> Any:
        length = request.headers.get("content-length", "" if "transfer-encoding" in request.headers else "0")
        if not (length.isdecimal() and int(length[:20]) <= LARGEST_BODY):
            return JSONResponse({"detail": f"a body states its length, {LARGEST_BODY} bytes at most."}, 413)
        return await go_on(request)

    @app.exception_handler(RequestValidationError)
    async def one_sentence(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"][1:]))[:80]
        return JSONResponse({"detail": f"{place or 'the body'}: {first['msg']}."}, 422)

    @app.post("/decisions")
    async def decide(user: User) -> dict[str, Any]:
        if curator.plan is None:
            x = np.asarray(user.context, np.float32)
        else:
            try:
                if user.row is None:
                    raise ValueError("row: the cells of a row, by column, belong here.")
                x = curator.plan.context(user.row, curator.dim)
                x = x if curator.map is None else curator.map(x)
            except ValueError as error:
                raise HTTPException(422, str(error)) from None
        if local or x.shape != curator.nobody.shape:
            raise HTTPException(422, f"a context has {len(curator.nobody)} finite numbers, and devices keep theirs.")
        with curator.door():
            return curator.decide(x)

    @app.post("/arms")
    async def change(given: Arms) -> dict[str, str]:
        with curator.door():
            curator.change(given.add, given.retire)
            return curator.states

    @app.get("/health")
    async def health() -> dict[str, int]:
        with curator.door():
            return {"records": curator.learned}

    @app.get("/metrics")
    async def metrics() -> Response:
        """Numbers that are private already, as Prometheus reads them."""
        with curator.door():
            (decisions,), (entries,) = (
                curator.db.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("decisions", "ledger")
            )
            states = [*curator.states.values()]
        gauges = {"horizon_records": curator.horizon, "saved_records": curator.saved}
        gauges |= {f"arms_{state}": states.count(state) for state in ("active", "retired")}
        counters = {"decisions_total": decisions, "records_total": curator.learned, "ledger_entries_total": entries}
        kinds = [("counter", counters), ("gauge", gauges)]
        lines = (
            f"# TYPE privbandit_{name} {kind}\nprivbandit_{name} {value}\n"
            for kind, numbers in kinds
            for name, value in numbers.items()
        )
        return Response("".join(lines), media_type="text/plain; version=0.0.4")

    @app.post("/rewards")
    async def reward(given: Reward) -> dict[str, int]:
        if not curator.low <= given.reward <= curator.high:
            raise HTTPException(422, f"reward: a number from {curator.low:g} to {curator.high:g} belongs here.")
        with curator.door():
            curator.reward(given.decision, given.reward)
        return {"decision": given.decision}

    @app.get("/policy")
    async def policy() -> Response:
        """The server's state, for devices: of a local agent it is public."""
        if not local:
            raise HTTPException(403, "the state of this agent holds raw records.")
        with curator.door():
            if curator.learned > curator.saved:
                curator.save()
            content = (curator.folder / f"agent-{curator.saved}.npz").read_bytes()
            return Response(content, media_type="application/zip", headers={"ETag": curator.asked})

    @app.post("/reports")
    async def report(request: Request) -> dict[str, int]:
        if not local:
            raise HTTPException(403, "this agent learns from rewards.")
        content = await request.body()
        with curator.door():
            if request.headers.get("If-Match") != curator.asked:
                raise HTTPException(409, "If-Match must be the ETag of today's policy: this report is on another one.")
            curator.report(content)
        return {"records": curator.learned}

    @app.get("/ledger")
    async def ledger() -> dict[str, Any]:
        with curator.door():
            rows = curator.db.execute("SELECT records, entry FROM ledger ORDER BY records, place").fetchall()
            aside = [row[0] for row in curator.db.execute("SELECT record FROM aside ORDER BY record")]
        promise = curator.agent.guarantee.words
        return {"promise": promise, "records": curator.learned, "aside": aside, "entries": rows}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--deploy", type=Path, help="What privbandit cost --schema has written.")
    parser.add_argument("--arms", type=int)
    parser.add_argument("--dim", type=int)
    parser.add_argument("--room", type=int, help="How many arms will ever come, if more than at the beginning.")
    parser.add_argument("--horizon", type=int, help="Most records that will ever come.")
    parser.add_argument("--agent", default="auto-joint", help="auto-joint, or ldp-clicks for devices of their own.")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--shadow", action="store_true", help="Act uniformly, log what the agent wanted, and learn.")
    parser.add_argument("--columns", type=int, help="How many features will ever come, if more than today.")
    parser.add_argument("--batch", type=int, default=1, help="How many records come together, as every night.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    asked = vars(parser.parse_args())
    deploy, name, (host, port) = asked.pop("deploy"), asked.pop("agent"), (asked.pop("host"), asked.pop("port"))
    if deploy is None and None in (asked["arms"], asked["dim"], asked["horizon"]):
        parser.error("give --deploy, or --arms, --dim and --horizon")
    try:
        plan = None if deploy is None else Plan(deploy)
        curator = Curator(**{"name": name, **asked, **(plan.asked if plan else {})}, plan=plan)
    except (ValueError, TypeError, *FAILED) as error:
        parser.exit(2, f"{error}\n")
    uvicorn.run(service(curator), host=host, port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
