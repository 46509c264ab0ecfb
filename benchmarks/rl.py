"""How well and how fast the agents of reinforcement learning play: regret as a share of uniform play's.

    python benchmarks/rl.py                                       # 20 000 users, eight worlds a row
    python benchmarks/rl.py --users 100000 --worlds 3 --only Linear,dqn --only Assortment,a2c
    python benchmarks/rl.py --profile                             # where the time goes

Worlds are those of the seeds from 990000 on; nothing was chosen on them. Rows are kept in a file as they are measured,
and a second call of the same version goes on from there. Entries are the mean and its standard error. Users a second
are of the CPU.

``--profile`` tells whose code the seconds of 5000 users are spent in: the library's (stable-baselines3 and torch),
this project's, or others' (numpy, Gymnasium and Python). A profiler makes short functions look longer.
"""

import os

os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})

import argparse
import cProfile
import json
import pstats
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from privbandit_agents import make, play
from rich.console import Console
from rich.progress import track

VERSION = version("privbandit")
FIRST_SEED = 990_000
PROFILED = 5000
Row = tuple[dict[str, Any], dict[str, Any]]
BAND: dict[str, Any] = {"id": "privbandit/Linear-v0", "dim": 5, "link": "band"}
ROWS: dict[str, Row] = {
    "Linear,dqn": ({"id": "privbandit/Linear-v0"}, {"name": "dqn"}),
    "Linear,ppo": ({"id": "privbandit/Linear-v0"}, {"name": "ppo"}),
    "Linear,a2c": ({"id": "privbandit/Linear-v0"}, {"name": "a2c"}),
    "SparseLinear,dqn": ({"id": "privbandit/SparseLinear-v0"}, {"name": "dqn"}),
    "SparseLinear,ppo": ({"id": "privbandit/SparseLinear-v0"}, {"name": "ppo"}),
    "Assortment,a2c": ({"id": "privbandit/Assortment-v0"}, {"name": "a2c"}),
    "Assortment,ppo": ({"id": "privbandit/Assortment-v0"}, {"name": "ppo"}),
    "synthetic,dqn": ({"id": "privbandit/Classification-v0"}, {"name": "dqn"}),
    "breast_cancer,dqn": ({"id": "privbandit/Classification-v0", "source": "breast_cancer"}, {"name": "dqn"}),
    "d=5,dp-dqn": ({"id": "privbandit/Linear-v0", "dim": 5}, {"name": "dp-dqn", "epsilon": 1.0}),
    "d=5,jdp-linucb": ({"id": "privbandit/Linear-v0", "dim": 5}, {"name": "jdp-linucb", "epsilon": 1.0}),
    "d=20,dp-dqn": ({"id": "privbandit/Linear-v0"}, {"name": "dp-dqn", "epsilon": 1.0}),
    "d=20,jdp-linucb": ({"id": "privbandit/Linear-v0"}, {"name": "jdp-linucb", "epsilon": 1.0}),
    "band,dp-dqn": (BAND, {"name": "dp-dqn", "epsilon": 1.0, "scorer": "features"}),
    "band,jdp-linucb": (BAND, {"name": "jdp-linucb", "epsilon": 1.0}),
}
"""Worlds and agents by the names of their rows."""
LIBRARY = ("stable_baselines3", "torch")
OURS = ("privbandit_agents", "privbandit_envs")


def regret(world: dict[str, Any], agent: dict[str, Any], seed: int, users: int) -> float:
    """Return the regret of one run after so many users."""
    env = gym.make(**world, horizon=users)
    return float(play(env, make(env=env, seed=seed, **agent), seed=seed, checkpoints=[users]).regret[-1])


def measured(name: str, seed: int, users: int) -> dict[str, Any]:
    """Return what one run says: its share of uniform play's regret, and users a second."""
    world, agent = ROWS[name]
    uniform, started = regret(world, {"name": "uniform"}, seed, users), time.process_time()
    found = regret(world, agent, seed, users)
    seconds = time.process_time() - started
    speed = users / seconds
    return {"version": VERSION, "row": name, "seed": seed, "users": users, "share": found / uniform, "speed": speed}


def shares(name: str) -> dict[str, float]:
    """Return the shares of the CPU seconds of a run by whose code spent them."""
    regret(*ROWS[name], FIRST_SEED, PROFILED // 10)  # what is imported is imported now
    profile = cProfile.Profile()
    profile.runcall(regret, *ROWS[name], FIRST_SEED, PROFILED)
    spent = dict.fromkeys(("library", "ours", "others"), 0.0)
    for (file, _, function), (_, _, own, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if file != "~" or "torch" in function:  # builtins of Python and numpy count as their callers' time
            spent[owner(file if file != "~" else "torch")] += own
        else:
            for (caller, _, _), (_, _, part, _) in callers.items():
                spent[owner(caller)] += part
    total = sum(spent.values())
    return {whose: seconds / total for whose, seconds in spent.items()}


def owner(file: str) -> str:
    """Return whose code a file is."""
    parts = set(Path(file).parts)
    return "library" if parts & set(LIBRARY) else "ours" if parts & set(OURS) else "others"


def kept(path: Path) -> list[dict[str, Any]]:
    """Return the rows that this version measured; a last line that was cut off counts as none."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with suppress(ValueError):
            rows.append(json.loads(line))
    return [row for row in rows if row.get("version") == VERSION]


def entry(rows: list[dict[str, Any]], key: str, digits: int) -> str:
    """Return the mean, and its standard error if there are several."""
    values = [row[key] for row in rows]
    error = f" +- {np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ROWS, help="a row; may be repeated")
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("runs/rl.jsonl"), help="file of the rows")
    parser.add_argument("--profile", action="store_true", help="tell where the time goes, and play nothing else")
    given = parser.parse_args()
    names = given.only or list(ROWS)
    if given.profile:
        print("| world, agent | library | this project | others |\n|---|---|---|---|")
        for name in names:
            print(f"| {name} | " + " | ".join(f"{part:.2f}" for part in shares(name).values()) + " |", flush=True)
        return
    # play what is not in the file yet
    done = {(row["row"], row["seed"], row["users"]) for row in kept(given.out)}
    cases = [(name, FIRST_SEED + k, given.users) for name in names for k in range(given.worlds)]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for case in track([case for case in cases if case not in done], console=Console(stderr=True), transient=True):
        with given.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(measured(*case)) + "\n")
    # the table
    wanted = [row for row in kept(given.out) if (row["row"], row["seed"], row["users"]) in set(cases)]
    print("| world, agent | worlds | share of uniform's regret | users/s |\n|---|---|---|---|")
    for name in names:
        rows = [row for row in wanted if row["row"] == name]
        print(f"| {name} | {len(rows)} | {entry(rows, 'share', 3)} | {entry(rows, 'speed', 0)} |")


if __name__ == "__main__":
    main()
