"""TensorBoard events of a trial, through tensorboardX: no torch, and never an event per round."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.summary import hparams
from tensorboardX.writer import FileWriter

from privbandit_agents.agent import Agent
from privbandit_envs.wrappers import RegretCurve

FINAL_REGRET = "final/regret"
EVENTS = "events.out.tfevents.*"


class Board:
    """Writes the events of one run; those of an earlier run in the same folder are replaced.

    Tags, with the number of users served as step:
        ``regret/cumulative``: pseudo-regret so far.
        ``regret/per_round``: pseudo-regret per user since the last checkpoint.
        ``reward/mean``: reward per user so far.
        ``privacy/epsilon_spent``: by the agent's ledger; 0 for agents without one.
        ``speed/rounds_per_s``: users per second so far.
        ``final/regret``: once, at the end; the metric of the hparams tab.

    Args:
        folder: of this run alone.
        agent: the one that plays.
    """

    def __init__(self, folder: Path, agent: Agent) -> None:
        """Remove old events and open the file."""
        for old in folder.glob(EVENTS):
            old.unlink()
        self._writer = FileWriter(str(folder))
        self._ledger = getattr(agent, "ledger", None)
        self._started = time.perf_counter()
        self._last = 0, 0.0

    def __enter__(self) -> Self:
        """Return the board itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Write out what is waiting, and close the file."""
        self._writer.close()

    def write(self, curve: RegretCurve) -> None:
        """Write the events of the checkpoint that the curve has just passed."""
        now = curve.passed - 1
        users, regret, reward = int(curve.checkpoints[now]), float(curve.regret[now]), float(curve.reward[now])
        users_before, regret_before = self._last
        self._last = users, regret
        self._add(
            users,
            {
                "regret/cumulative": regret,
                "regret/per_round": (regret - regret_before) / (users - users_before),
                "reward/mean": reward / users,
                "privacy/epsilon_spent": 0.0 if self._ledger is None else self._ledger.spent_epsilon(),
                "speed/rounds_per_s": users / (time.perf_counter() - self._started),
            },
        )

    def finish(self, spec: Mapping[str, Any], regret: float) -> None:
        """Write the hparams entry of the finished trial.

        The tab's columns are gathered from all runs, since agents differ in their settings; so there is no entry
        that fixes them.
        """
        settings = {f"env.{key}": value for key, value in spec["env_kwargs"].items()}
        settings |= {f"agent.{key}": value for key, value in spec["config"].items()}
        settings |= {key: spec[key] for key in ("env", "agent", "horizon", "seed")}
        known = {key: value if isinstance(value, bool | int | float) else str(value) for key, value in settings.items()}
        _, start, end = hparams(known, {FINAL_REGRET: regret})
        self._writer.add_summary(start)
        self._writer.add_summary(end)
        self._add(spec["horizon"], {FINAL_REGRET: regret})

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._writer.add_summary(summary, step)
