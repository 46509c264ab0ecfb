"""The agent that was priced is the deployed one: the same bits in Python, on the command line, in the service."""

import asyncio
import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from commanding import invoke
from privbandit_agents import Log, make
from privbandit_agents.logs.simulator import LOG_ENV, possible_worlds

from privbandit_envs import Delay
from privbandit_envs.tables import Encoding, Schema

PUBLIC = {"public": True}
SCHEMA: dict[str, Any] = {
    "fields": [
        {"name": "age", "type": "number", "constraints": {"minimum": 18, "maximum": 90}, "privbandit": PUBLIC},
        {"name": "channel", "constraints": {"enum": ["mail", "app"]}, "privbandit": PUBLIC},
        {"name": "joined", "type": "date", "constraints": {"minimum": "2024-01-01", "maximum": "2024-12-31"}}
        | {"privbandit": PUBLIC},
        {
            "name": "arm",
            "constraints": {"enum": ["gold", "control", "silver"]},
            "privbandit": {"role": "action"} | PUBLIC,
        },
        {"name": "spent", "type": "number", "constraints": {"minimum": 0, "maximum": 50}}
        | {"privbandit": {"role": "reward"} | PUBLIC},
        {"name": "p", "type": "number", "privbandit": {"role": "propensity"}},
    ]
}
ROWS = 400


def decisions(folder: Path) -> Path:
    """Write a table in which one arm of the schema was never tried, and gold earns more with the app."""
    rng = np.random.default_rng(0)
    lines = ["age,channel,joined,arm,spent,p"]
    for row in range(ROWS):
        channel, arm = rng.choice(["mail", "app", "phone", ""]), rng.choice(["gold", "control"])
        spent = (
            60 * rng.random() * (1 if (arm == "gold") == (channel == "app") else 0.1)
        )  # now and then beyond the bound
        lines.append(f"{18 + 80 * rng.random()!r},{channel},2024-0{row % 9 + 1}-11,{arm},{spent:.3f},0.5")
    (folder / "d.csv").write_text("\n".join(lines) + "\n")
    (folder / "s.json").write_text(json.dumps(SCHEMA))
    return folder / "d.csv"


def test_a_log_and_its_world_have_the_rows_and_the_range_of_the_schema(tmp_path: Path) -> None:
    log = Log.from_table(decisions(tmp_path), schema=tmp_path / "s.json")
    rows, _ = Encoding(Schema.of(SCHEMA)).encoded(tmp_path / "d.csv")
    assert np.array_equal(log.contexts, rows) and "from_people" not in log.about
    assert log.about["arms"] == ["gold", "control", "silver"] and log.about["reward_range"] == (0, 50)
    assert log.rewards.max() == 50
    made = possible_worlds(log, 2)
    env = gym.make(LOG_ENV, source=made, draw=0, horizon=ROWS)
    served = {x.tobytes() for x in (env.reset(seed=0)[0], *(env.step(0)[0] for _ in range(ROWS - 1)))}
    assert served <= {x.tobytes() for x in rows.astype(np.float32)} and env.observation_space.contains(
        rows[0].astype("f4")
    )
    assert (made.low, made.high) == (0, 50)


@pytest.fixture
def curators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The service's module, in a folder with a table of decisions and its schema."""
    pytest.importorskip("fastapi", reason="the extra service is not installed")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples" / "service"))
    monkeypatch.chdir(tmp_path)
    decisions(tmp_path)
    return importlib.import_module("curator")


def test_the_service_starts_from_what_cost_has_written(tmp_path: Path, curators: Any) -> None:
    httpx: Any = pytest.importorskip("httpx", reason="the extra service is not installed")
    asked = "cost d.csv --schema s.json --notions joint --epsilon 1 --seeds 2 --users 100 --always --jobs 1 --out found"
    shown = invoke(*asked.split(), "--batch", "8")
    assert shown.exit_code == 0, shown.stderr
    plan = curators.Plan(tmp_path / "found" / "deploy.json")
    assert plan.asked == {
        "name": "auto-joint",
        "epsilon": 1.0,
        "horizon": 100,
        "arms": 3,
        "dim": len(plan.encoding.names),
        "batch": 8,
    }
    dim = len(plan.encoding.names)
    curator = curators.Curator(tmp_path / "state", **plan.asked, shadow=False, plan=plan, columns=dim + 1)
    # the agent is the priced one, and knows when feedback comes
    world = possible_worlds(Log.from_table("d.csv", schema="s.json"), 2)
    env = gym.make(LOG_ENV, source=world, draw=0, horizon=100, feedback={"mean": 8, "law": "batch"})
    priced: Any = make("auto-joint", env, epsilon=1.0)
    assert curator.agent.name == priced.name and curator.agent.config == replace(priced.config, noise="secure")
    assert curator.agent.config.feedback == Delay(8, "batch")
    rows, _ = Encoding(Schema.of(SCHEMA)).encoded("d.csv")
    cells = [line.split(",")[:3] for line in (tmp_path / "d.csv").read_text().splitlines()[1:21]]

    async def talk() -> None:
        transport = httpx.ASGITransport(app=curators.service(curator))
        async with httpx.AsyncClient(transport=transport, base_url="http://curator") as http:
            for row, (age, channel, joined) in enumerate(cells):
                body: dict[str, Any] = {"row": {"age": float(age), "channel": channel or None, "joined": joined}}
                told = (await http.post("/decisions", json=body)).json()
                assert told["arm"] == ["gold", "control", "silver"][told["action"]]
                kept = curator.db.execute("SELECT context FROM decisions WHERE id = ?", (told["decision"],)).fetchone()
                assert kept[0] == np.append(rows[row].astype(np.float32), np.float32(0)).tobytes()
                answer = await http.post("/rewards", json={"decision": told["decision"], "reward": 25 + row})
                assert answer.status_code == 200
            refused: list[Any] = [{"row": {"age": "x"}}, {"row": {"agee": 1}}, {"context": [0.0] * len(rows[0])}]
            for body in refused:
                assert (await http.post("/decisions", json=body)).status_code == 422
            assert (await http.post("/rewards", json={"decision": 1, "reward": 51})).status_code == 422
            assert (await http.get("/ledger")).json()["records"] == len(cells)
            # releases come with nights of eight records alone, whenever these come
            ends = {row[0] for row in curator.db.execute("SELECT records FROM ledger")}
            assert ends == {0, 8, 16}

    asyncio.run(talk())
    curator.close()
    # a level more has a place of its own, two find none; other bounds, and those that are people's, are refused
    content = json.loads((tmp_path / "found" / "deploy.json").read_text())

    def again(**named: Any) -> Any:
        (tmp_path / "other.json").write_text(json.dumps(content))
        other = curators.Plan(tmp_path / "other.json")
        return curators.Curator(tmp_path / "state", **plan.asked, shadow=False, plan=other, columns=dim + 1)

    levels = content["schema"]["fields"][1]["constraints"]["enum"]
    levels.insert(0, "post")
    newer = again()
    assert newer.agent.users == len(cells) and newer.plan.places.max() == dim
    assert newer.plan.context({"channel": "post", "age": 18.0, "joined": "2024-01-11"}, dim + 1)[dim] == 1
    same = newer.plan.context(
        dict(zip(("age", "channel", "joined"), (40.0, "mail", "2024-01-11"), strict=True)), dim + 1
    )
    assert np.array_equal(same[:dim], plan.context({"age": 40.0, "channel": "mail", "joined": "2024-01-11"}, dim))
    newer.close()
    levels.insert(0, "fax")
    with pytest.raises(
        ValueError, match=rf"channel=fax finds no place: the agent was made for {dim + 1}, by --columns"
    ):
        again()
    del levels[:2]
    content["schema"]["fields"][0]["constraints"]["maximum"] = 80
    with pytest.raises(ValueError, match=r"age was .* and is .*; give a column with new bounds a new name"):
        again()
    del content["schema"]["fields"][0]["privbandit"]
    (tmp_path / "other.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="bounds or levels of age come from people's data"):
        curators.Plan(tmp_path / "other.json")


def test_the_service_shows_its_agent_the_features_that_cost_has_priced(tmp_path: Path, curators: Any) -> None:
    httpx: Any = pytest.importorskip("httpx", reason="the extra service is not installed")
    asked = "cost d.csv --schema s.json --notions joint --seeds 2 --users 100 --always --jobs 1 --out found --map"
    assert "(did you mean 'fourier'?)" in invoke(*asked.split(), "furier").stderr
    shown = invoke(*asked.split(), "fourier")
    assert shown.exit_code == 0, shown.stderr
    plan = curators.Plan(tmp_path / "found" / "deploy.json")
    curator = curators.Curator(tmp_path / "state", **plan.asked, shadow=False, plan=plan)
    assert curator.agent.name == json.loads((tmp_path / "found" / "cost.json").read_text())["rows"][-1]["agent"]
    (world,) = (tmp_path / "found").glob("world-*.npz")
    env: Any = gym.make(LOG_ENV, source=str(world), draw=0, features="fourier")
    rows, _ = Encoding(Schema.of(SCHEMA)).encoded("d.csv")
    age, channel, joined = (tmp_path / "d.csv").read_text().splitlines()[1].split(",")[:3]
    row = {"age": float(age), "channel": channel or None, "joined": joined}

    async def talk() -> None:
        transport = httpx.ASGITransport(app=curators.service(curator))
        async with httpx.AsyncClient(transport=transport, base_url="http://curator") as http:
            assert (await http.post("/decisions", json={"row": row})).status_code == 200

    asyncio.run(talk())
    ((kept,),) = curator.db.execute("SELECT context FROM decisions").fetchall()
    assert kept == env.unwrapped.features(rows[0].astype(np.float32)).tobytes() and len(kept) == 16 * 4
    curator.close()


def test_arms_have_the_features_of_their_own_table(tmp_path: Path) -> None:
    rows: dict[str, Any] = {"age": [1.0, 2.0, 3.0], "item": ["b", "a", "b"], "click": [0, 1, 0], "p": [0.5] * 3}
    asked: dict[str, Any] = {"action": "item", "reward": "click", "propensity": "p"}
    (tmp_path / "items.csv").write_text("item,price,kind\nb,30,new\na,10,old\n")
    log = Log.from_table(rows, items=tmp_path / "items.csv", **asked)
    assert log.about["arms"] == ["a", "b"] and log.contexts.shape == (3, 2, 5)
    assert log.about["features"] == ["price", "kind=new", "kind=old", "kind=other", "age"]
    assert log.contexts[1].tolist() == [[0, 0, 1, 0, 2], [1, 1, 0, 0, 2]]
    for content, often in (("item,price\nb,30\nc,10\n", 0), ("item,price\nb,30\na,1\na,2\n", 2)):
        (tmp_path / "items.csv").write_text(content)
        with pytest.raises(ValueError, match=f"items must have one row of each arm; of 'a' it has {often}"):
            Log.from_table(rows, items=tmp_path / "items.csv", **asked)
