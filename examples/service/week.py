"""A shop prices a promise from its table of decisions, starts the service, and serves a week: run it in a clone."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import httpx
import numpy as np
from privbandit_agents import Log, cost

folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)


def earns(channel: str, arm: str) -> int:
    return int(rng.random() < (0.9 if (channel == "app") == (arm == "gold") else 0.1))


lines = ["channel,arm,click,p"]
for _ in range(600):
    channel, arm = rng.choice(["mail", "app"]), rng.choice(["gold", "plain"])
    lines.append(f"{channel},{arm},{earns(channel, arm)},0.5")
(folder / "decisions.csv").write_text("\n".join(lines))
public = {"public": True}
fields = [
    {"name": "channel", "constraints": {"enum": ["mail", "app"]}, "privbandit": public},
    {"name": "arm", "constraints": {"enum": ["gold", "plain"]}, "privbandit": public | {"role": "action"}},
    {"name": "click", "type": "integer", "constraints": {"minimum": 0, "maximum": 1}}
    | {"privbandit": public | {"role": "reward"}},
    {"name": "p", "type": "number", "privbandit": {"role": "propensity"}},
]
(folder / "schema.json").write_text(json.dumps({"fields": fields}))

# privbandit cost decisions.csv --schema schema.json --notions joint --epsilon 1
log = Log.from_table(folder / "decisions.csv", schema=folder / "schema.json")
print(cost(log, [1.0], ["joint"], out=folder / "cost", seeds=2))

# python curator.py state --deploy cost/deploy.json --room 3
sys.path.insert(0, "examples/service")
from curator import Curator, Plan, service  # noqa: E402

plan = Plan(folder / "cost" / "deploy.json")
curator = Curator(folder / "state", **plan.asked, shadow=False, plan=plan, room=3)


async def day(http: httpx.AsyncClient) -> set[str]:
    """Serve twenty users, and learn at night; return the arms that they got."""
    arms, rewards = set(), []
    for _ in range(20):
        channel = str(rng.choice(["mail", "app"]))
        told = (await http.post("/decisions", json={"row": {"channel": channel}})).json()
        arms.add(told["arm"])
        rewards.append({"decision": told["decision"], "reward": earns(channel, told["arm"])})
    for reward in rewards:
        (await http.post("/rewards", json=reward)).raise_for_status()
    return arms


async def week() -> None:
    transport = httpx.ASGITransport(app=service(curator))
    async with httpx.AsyncClient(transport=transport, base_url="http://curator") as http:
        for _ in range(7):
            assert await day(http) <= {"gold", "plain"}
        (await http.post("/arms", json={"add": ["silver"], "retire": ["plain"]})).raise_for_status()
        assert await day(http) <= {"gold", "silver"}
        print((await http.get("/ledger")).json()["promise"], (await http.get("/metrics")).text)


asyncio.run(week())
curator.close()
