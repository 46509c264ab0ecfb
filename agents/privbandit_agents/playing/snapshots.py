"""A run's state in one file, written every now and then, so that a killed run goes on from there."""

import time
from pathlib import Path
from typing import Any, Protocol

from privbandit_agents.base import state
from privbandit_agents.base.agent import AnyAgent, AnyEnv
from privbandit_agents.base.local import Devices
from privbandit_agents.base.spaces import Array
from privbandit_envs import BanditEnv, BanditVectorEnv
from privbandit_envs.wrappers import RegretCurve

SNAPSHOTS_SHARE = 20
"""At most one part in SNAPSHOTS_SHARE of a run's time goes into snapshots."""


class Kept(Protocol):
    """Something beside the run; its state, JSON values, is kept with it."""

    def state(self) -> Any: ...
    def restore(self, values: Any) -> None: ...


class Snapshots:
    """Keeps the agent, the place in the stream of users and the regret so far in one ``.npz`` file, without pickle.

    A run that goes on from a snapshot gives the results of an unbroken one, bit for bit. So the file holds the whole
    simulation: beside the agent, as ``privbandit_agents.save`` writes it, the users to come and the generator of the
    simulated devices. It is as secret as the users' records, and readable by its owner alone.

    Args:
        path: of the file.
        label: identifies the run and its code; the snapshot of another one is not used.
        every: seconds between two snapshots, at least; longer if writing is slow.
        beside: kept with the run.
    """

    def __init__(self, path: Path, label: str, every: float = 60.0, beside: Kept | None = None) -> None:
        self.path, self.label, self.every, self.beside = path, label, every, beside
        self.seconds_before = 0.0
        self._started = self._last = time.perf_counter()

    def resume(self, env: AnyEnv, agent: AnyAgent, curve: RegretCurve) -> Array | None:
        """Bring a run to where its last snapshot was taken.

        Returns:
            The context (or contexts) to go on with; None if there is no snapshot to use, and nothing was changed.

        Raises:
            RuntimeError: the agent cannot take its state over; the snapshot is removed.
        """
        kept = self._read()
        if kept is None or not isinstance(env, BanditEnv | BanditVectorEnv):
            return None
        arrays, values = kept
        try:
            agent.restore(arrays, values["agent"])
            agent.restored()
            if isinstance(agent, Devices):
                agent.restore_devices(values["devices"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            self.remove()
            raise RuntimeError(f"snapshot {self.path} does not fit ({error}), so it was removed; run again.") from error
        curve.restore(values["curve"])
        if self.beside is not None:
            self.beside.restore(values["beside"])
        self.seconds_before = values["seconds"]
        return env.go_to(values["env"])

    def offer(self, env: AnyEnv, agent: AnyAgent, curve: RegretCurve) -> None:
        """Write a snapshot if the last one is old enough; call it between two rounds."""
        now = time.perf_counter()
        if now - self._last < self.every or not isinstance(env, BanditEnv | BanditVectorEnv):
            return
        arrays, values = agent.state()
        seconds = self.seconds_before + time.perf_counter() - self._started
        run = {"label": self.label, "agent": values, "env": env.bookmark(), "curve": curve.state(), "seconds": seconds}
        devices = agent.devices_state() if isinstance(agent, Devices) else None
        beside = None if self.beside is None else self.beside.state()
        run |= {"devices": devices, "beside": beside, "arrays": sorted(arrays)}
        state.write(self.path, arrays, run, secret=True)
        self._last = time.perf_counter()
        self.every = max(self.every, SNAPSHOTS_SHARE * (self._last - now))

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def _read(self) -> tuple[state.Arrays, dict[str, Any]] | None:
        try:
            arrays, values = state.read(self.path)
            whole = values["arrays"] == sorted(arrays)  # the names in a zip file have no checksum
            return (arrays, values) if whole and values["label"] == self.label else None
        except Exception:  # whatever damage does to a file: it is a cache, and the run begins anew
            return None
