"""A curator over HTTP: it serves actions of a private agent, learns from rewards or reports, and survives being killed.

    python curator.py FOLDER --arms 4 --dim 6 --horizon 100000 [--agent auto-joint] [--epsilon 1] [--shadow]

Three rules keep the promise. A record is on disk before it is acknowledged. A release is in the ledger before its noise
is drawn. Nobody is served by a release before the agent that made it is saved; so a release that was lost with the
process was never seen, and is made again with fresh noise for the entry that stands already.
"""

import argparse
import io
import sqlite3
import threading
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import uvicorn
from fastapi import Body, FastAPI, HTTPException, Request, Response
from privbandit_agents import CentralAgent, LocalAgent, load, make, save

import privbandit_envs  # noqa: F401 (registers the environments)

REPORTS_A_FILE = 200  # a local agent is saved whenever that many reports have come
TABLES = """
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY, context BLOB, action INTEGER, wanted INTEGER, probability REAL);
CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, decision INTEGER UNIQUE, reward REAL, report BLOB);
CREATE TABLE IF NOT EXISTS ledger (records INTEGER PRIMARY KEY, entry TEXT);
"""


class Curator:
    """An agent, its records and its ledger in one folder; a lock lets one request at a time through."""

    def __init__(self, folder: Path, arms: int, dim: int, horizon: int, name: str, epsilon: float, shadow: bool):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder, self.arms, self.shadow, self.lock = folder, arms, shadow, threading.Lock()
        self.uniform = np.random.default_rng()  # draws the arms of a shadow run, which are no secret
        # every commit is on disk before it returns
        self.db = sqlite3.connect(folder / "curator.db", check_same_thread=False, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.executescript(TABLES)
        # the agent as it was saved last, or a new one, whose budget is entered first; future noise is fresh in any case
        env = gym.make("privbandit/Clicks-v0", n_arms=arms, dim=dim, horizon=horizon)  # it has the spaces
        files = sorted(folder.glob("agent-*.npz"), key=records_in)
        if files:
            self.agent: Any = load(files[-1], env)
        else:
            self.agent = make(name, env, epsilon=epsilon, horizon=horizon, noise="secure")
            self.enter(0, self.agent.guarantee.words)
            save(self.agent, folder / "agent-0.npz")
        self.learned = self.saved = records_in(files[-1]) if files else 0
        if isinstance(self.agent, CentralAgent):
            self.agent.watcher = self.paid_first
        # records that were acknowledged after the last save
        self.released = False
        for row in self.db.execute("SELECT id FROM records WHERE id > ? ORDER BY id", (self.learned,)).fetchall():
            self.learn(row[0])

    def enter(self, records: int, entry: str) -> None:
        self.db.execute("INSERT OR IGNORE INTO ledger VALUES (?, ?)", (records, entry))

    def paid_first(self, publication: Any) -> Any:
        """Enter a release in the ledger, then draw it: the agent's own ledger has the same entry in memory."""
        self.enter(self.learned, f"release, cost {publication.cost or 'entered with the budget'}")
        self.released = True
        return publication.draw()

    def learn(self, record: int) -> None:
        """Let the agent learn from a record that is on disk; save it after a release, before anybody is served."""
        query = "SELECT reward, report, context, action FROM records LEFT JOIN decisions ON decision = decisions.id"
        reward, report, context, action = self.db.execute(f"{query} WHERE records.id = ?", (record,)).fetchone()
        self.learned, self.released = record, False
        if report is None:
            self.agent.update(np.frombuffer(context, np.float32), action, reward)
        else:
            with self.agent.paying(1):
                self.agent.absorb(from_bytes(report))
        if self.released or (report is not None and self.learned >= self.saved + REPORTS_A_FILE):
            self.save()

    def save(self) -> None:
        """Write the agent under the number of its records, then drop the file before."""
        save(self.agent, self.folder / f"agent-{self.learned}.npz")
        if self.learned > self.saved:
            (self.folder / f"agent-{self.saved}.npz").unlink(missing_ok=True)
        self.saved = self.learned

    def decide(self, context: np.ndarray) -> dict[str, int]:
        """Choose for a user, and keep context and action until the reward comes."""
        wanted = int(self.agent.select_action(context))
        action = int(self.uniform.integers(self.arms)) if self.shadow else wanted
        row = (context.tobytes(), action, wanted, 1 / self.arms if self.shadow else 1.0)
        new = self.db.execute("INSERT INTO decisions (context, action, wanted, probability) VALUES (?, ?, ?, ?)", row)
        return {"decision": int(new.lastrowid or 0), "action": action}

    def record(self, decision: int | None, reward: float | None, report: bytes | None) -> None:
        """Write a record; it is learned from when it is on disk. A second reward of one decision changes nothing."""
        row = (decision, reward, report)
        new = self.db.execute("INSERT OR IGNORE INTO records (decision, reward, report) VALUES (?, ?, ?)", row)
        if new.rowcount:
            self.learn(int(new.lastrowid or 0))


def records_in(file: Path) -> int:
    return int(file.stem.rpartition("-")[2])


def from_bytes(report: bytes) -> np.ndarray:
    return np.asarray(np.load(io.BytesIO(report), allow_pickle=False))


def service(curator: Curator) -> FastAPI:
    """Return the application: decisions and rewards of a curator, or the policy and reports of devices."""
    app = FastAPI(title="privbandit curator")
    local = isinstance(curator.agent, LocalAgent)

    @app.post("/decisions")
    async def decide(context: Annotated[list[float], Body(embed=True)]) -> dict[str, int]:
        x = np.asarray(context, np.float32)
        if local or x.shape != curator.agent.observation_space.shape or not np.isfinite(x).all():
            raise HTTPException(422, f"a context has {curator.agent.observation_space.shape[0]} finite numbers.")
        with curator.lock:
            return curator.decide(x)

    @app.post("/rewards")
    async def reward(decision: Annotated[int, Body()], reward: Annotated[float, Body()]) -> dict[str, int]:
        with curator.lock:
            if curator.db.execute("SELECT 1 FROM decisions WHERE id = ?", (decision,)).fetchone() is None:
                raise HTTPException(404, f"there is no decision {decision}.")
            curator.record(decision, reward, None)
        return {"decision": decision}

    @app.get("/policy")
    async def policy() -> Response:
        """The server's state, for devices: of a local agent it is public."""
        if not local:
            raise HTTPException(403, "the state of this agent holds raw records.")
        with curator.lock:
            if curator.learned > curator.saved:
                curator.save()
            return Response((curator.folder / f"agent-{curator.saved}.npz").read_bytes(), media_type="application/zip")

    @app.post("/reports")
    async def report(request: Request) -> dict[str, int]:
        content = await request.body()
        try:
            fits = local and np.isfinite(from_bytes(content)).all()
        except ValueError:
            fits = False
        if not fits:
            raise HTTPException(422, "a report is an array of finite numbers, as numpy writes it.")
        with curator.lock:
            curator.record(None, None, content)
        return {"records": curator.learned}

    @app.get("/ledger")
    async def ledger() -> dict[str, Any]:
        rows = curator.db.execute("SELECT records, entry FROM ledger ORDER BY records").fetchall()
        return {"promise": curator.agent.guarantee.words, "records": curator.learned, "entries": rows}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arms", type=int, required=True)
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--horizon", type=int, required=True, help="Most records that will ever come.")
    parser.add_argument("--agent", default="auto-joint", help="auto-joint, or ldp-clicks for devices of their own.")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--shadow", action="store_true", help="Act uniformly, log what the agent wanted, and learn.")
    parser.add_argument("--port", type=int, default=8000)
    asked = vars(parser.parse_args())
    port = asked.pop("port")
    curator = Curator(name=asked.pop("agent"), **asked)
    uvicorn.run(service(curator), host="127.0.0.1", port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
