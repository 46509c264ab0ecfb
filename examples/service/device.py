"""A device with local privacy: it chooses by the public policy, randomizes its record, and sends bytes.

    python device.py http://127.0.0.1:8000 KEPT_FILE --context 0.1,0.2,... --arms 4

The note that the device has reported is on disk before the report is drawn, so that it never reports twice.
"""

import argparse
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import httpx
import numpy as np
from privbandit_agents import load

import privbandit_envs  # noqa: F401 (registers the environments)


def choose(policy: bytes, context: np.ndarray, arms: int) -> tuple[Any, int]:
    """Return the agent as a device has it, with fresh randomness, and the user's arm."""
    env = gym.make("privbandit/Clicks-v0", n_arms=arms, dim=len(context))
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        file.write(policy)
        file.flush()
        agent = load(file.name, env)
    return agent, int(agent.select_action(context))


def report(agent: Any, context: np.ndarray, arm: int, reward: float, kept: Path) -> bytes | None:
    """Return the randomized record as bytes; None if this device has reported before."""
    try:
        with kept.open("x") as note:
            note.write("reported")
            note.flush()
            os.fsync(note.fileno())
    except FileExistsError:
        return None
    one = agent.records_of(context, arm, reward)
    sent = io.BytesIO()
    np.save(sent, np.asarray(agent.randomize(*one)), allow_pickle=False)
    return sent.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("kept", type=Path)
    parser.add_argument("--context", required=True)
    parser.add_argument("--arms", type=int, required=True)
    asked = parser.parse_args()
    context = np.array([float(text) for text in asked.context.split(",")], np.float32)
    policy = httpx.get(f"{asked.server}/policy").raise_for_status()
    agent, arm = choose(policy.content, context, asked.arms)
    reward = float(input(f"arm {arm}; reward (0 or 1)? "))
    if (content := report(agent, context, arm, reward, asked.kept)) is not None:
        on = {"If-Match": policy.headers["ETag"]}  # a report that comes too late is refused; the device paid for it
        httpx.post(f"{asked.server}/reports", content=content, headers=on).raise_for_status()


if __name__ == "__main__":
    main()
