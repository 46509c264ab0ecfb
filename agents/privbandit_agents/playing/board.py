"""TensorBoard events of runs, and the overview of a board: never an event per round."""

import itertools
import json
import os
import struct
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self

import gymnasium as gym
from crc32c import crc32c
from gymnasium.utils import RecordConstructorArgs
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams

from privbandit_agents.base.agent import AnyAgent, LearningAgent
from privbandit_envs.validate import count, reported
from privbandit_envs.wrappers import RegretCurve

REGRET = "regret/cumulative"
EVENTS = "events.out.tfevents.*"


class EventFile:
    """The one event file of a run, in a folder of its own; an earlier one is replaced.

    Events are written in the calling thread, so that a full disk is an error there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(EVENTS):
            with suppress(PermissionError):  # a colleague's, in a shared folder
                old.unlink(missing_ok=True)
        self._file = (folder / f"{EVENTS[:-1]}{time.time():.0f}.{os.getpid()}").open("xb")
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def close(self) -> None:
        self._file.close()

    def add(self, summary: Summary, step: int = 0, at: float | None = None) -> None:
        """Add one event, after ``step`` users, ``at`` seconds since the epoch (default: now)."""
        self._write(Event(wall_time=time.time() if at is None else at, step=step, summary=summary))

    def scalars(self, values: Mapping[str, float], step: int, at: float | None = None) -> None:
        pairs = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self.add(Summary(value=pairs), step, at)

    def _write(self, event: Any) -> None:
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        self._file.write(length + checked(length) + data + checked(data))

    def flush(self) -> None:
        self._file.flush()


def unused(folder: Path) -> Path:
    """Return a folder without events of an earlier run: this one, or the first of ``folder/2``, ``folder/3``, ..."""
    numbered = (folder / str(run) for run in itertools.count(2))
    return next(one for one in itertools.chain([folder], numbered) if not any(one.glob(EVENTS)))


def checked(data: bytes) -> bytes:
    """Return the checksum that follows data in a file of records, as TensorFlow's format has it."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class Board:
    """Writes the events of one run.

    Tags, with the number of users served as step:
        ``regret/cumulative``: pseudo-regret so far.
        ``regret/per_round``: pseudo-regret per user since the last checkpoint.
        ``reward/mean``: reward per user so far.
        ``speed/rounds_per_s``: users per second so far.
        ``spent/epsilon``: by the agent's ledger; 0 for agents without one.
        ``rollout/ep_rew_mean``, ``time/fps``: of agents that own their loop, as stable-baselines3 names them: reward
            per user since the last checkpoint (a user is an episode of one step), and users per second so far.

    The last ``regret/cumulative`` is the metric of the hparams tab. If the folder may not be written to, a warning
    reports it, and nothing is written.
    """

    def __init__(self, folder: Path, agent: AnyAgent | None = None) -> None:
        self._file: EventFile | None = None
        try:
            self._file = EventFile(folder)
        except PermissionError as error:  # the folder is a colleague's; the numbers do not need its events
            warnings.warn(f"{folder}: no events for TensorBoard can be written: {error.strerror}.", stacklevel=2)
        self._ledger = getattr(agent, "ledger", None)
        self._learns = isinstance(agent, LearningAgent)
        self._rows: list[tuple[float, int, float, float, float, float]] = []
        self._written = 0
        self._started = self._flushed = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            with closing(self._file):
                self.flush()

    def write(self, curve: RegretCurve) -> None:
        """Note the checkpoint that the curve has just passed; notes are written out now and then."""
        now = curve.passed - 1
        self.note(int(curve.checkpoints[now]), float(curve.regret[now]), float(curve.reward[now]))

    def note(self, users: int, regret: float, reward: float) -> None:
        """Note the sums after a number of users."""
        clock = time.perf_counter()
        spent = 0.0 if self._ledger is None else self._ledger.spent_epsilon()
        self._rows.append((time.time(), users, regret, reward, spent, clock - self._started))
        if clock - self._flushed > 2.0:  # seconds
            self.flush()

    def flush(self) -> None:
        if self._file is None:
            return
        for place in range(self._written, len(self._rows)):
            at, users, regret, reward, spent, seconds = self._rows[place]
            _, users_before, regret_before, reward_before, *_ = self._rows[place - 1] if place else (0.0, 0, 0.0, 0.0)
            values = {
                REGRET: regret,
                "regret/per_round": (regret - regret_before) / (users - users_before),
                "reward/mean": reward / users,
                "spent/epsilon": spent,
                "speed/rounds_per_s": users / seconds,
            }
            if self._learns:
                recent = (reward - reward_before) / (users - users_before)
                values |= {"rollout/ep_rew_mean": recent, "time/fps": users / seconds}
            self._file.scalars(values, users, at)
        self._written, self._flushed = len(self._rows), time.perf_counter()
        self._file.flush()

    def state(self) -> list[Any]:
        """Return the checkpoints noted so far, as JSON values."""
        return list(self._rows)

    def restore(self, rows: list[Any]) -> None:
        """Take over the checkpoints of the process that began the trial, and its clock."""
        self._rows = [tuple(row) for row in rows]
        self._started -= self._rows[-1][-1] if self._rows else 0.0

    def finish(self, spec: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Write the hparams entry of the finished trial, with the settings that are defaults."""
        self.flush()
        if self._file is None:
            return
        start = plugin_data_pb2.SessionStartInfo()
        for key, value in flat({**spec, "env_kwargs": settings["env"], "config": settings["agent"]}).items():
            setattr(start.hparams[key], f"{kind_of(value)}_value", value)
        end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)
        self._file.add(hparams_summary(hparams.SESSION_START_INFO_TAG, session_start_info=start))
        self._file.add(hparams_summary(hparams.SESSION_END_INFO_TAG, session_end_info=end))


class LogRegret(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Write an environment's regret to a folder for TensorBoard, whoever steps it: a loop of yours, SB3, CleanRL.

    Tags and steps are those of ``Board``: runs of ``play(tensorboard=)``, of sweeps and of this wrapper stand in one
    chart. An agent's ledger is not known here, so ``spent/epsilon`` is 0. Events reach the disk every two seconds,
    and the last ones by ``close``.

    Args:
        env: an environment whose ``info`` has ``regret``.
        folder: of this run; if an earlier run's events are in it, this run's are in ``folder/2``, and so on.
        every: users between two events; default: a hundredth of the environment's horizon, or 100.

    Raises:
        ValueError: ``every`` is no integer >= 1.
        ModuleNotFoundError: the extra ``bench`` is not installed.

    Examples:
        >>> from tempfile import mkdtemp
        >>> env = LogRegret(gym.make("privbandit/Linear-v0", n_arms=3, dim=2), mkdtemp(), every=10)
        >>> _ = env.reset(seed=0)
        >>> for _ in range(30):
        ...     _ = env.step(0)
        >>> env.close()
    """

    def __init__(self, env: gym.Env[Any, Any], folder: str | Path, every: int | None = None) -> None:
        RecordConstructorArgs.__init__(self, folder=str(folder), every=every)
        super().__init__(env)
        horizon = getattr(env.unwrapped, "horizon", None)
        self._every = count(every=every) if every is not None else max(1, (horizon or 10_000) // 100)
        self._board = Board(unused(Path(folder)))
        self._users, self._regret, self._reward = 0, 0.0, 0.0
        self._closed = False

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        step = self.env.step(action)
        if "regret" not in step[4]:
            reported(step[4], self.env.unwrapped, "regret")
        self._users += 1
        self._regret += float(step[4]["regret"])
        self._reward += float(step[1])
        if self._users % self._every == 0:
            self._board.note(self._users, self._regret, self._reward)
        return step

    def close(self) -> None:
        if not self._closed:
            if self._users % self._every:  # those since the last event
                self._board.note(self._users, self._regret, self._reward)
            self._board.__exit__()
        self._closed = True
        super().close()


def flat(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trial's settings as one flat table: numbers and booleans as they are, the rest as text."""
    settings = {f"env.{key}": value for key, value in spec["env_kwargs"].items()}
    settings |= {f"agent.{key}": value for key, value in spec["config"].items()}
    settings |= {key: spec[key] for key in ("env", "agent", "horizon", "seed")}
    plain = (bool, int, float, str)
    said = {key: value for key, value in settings.items() if value is not None}
    return {key: value if isinstance(value, plain) else json.dumps(value) for key, value in said.items()}


def kind_of(value: object) -> str:
    return "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"


def columns(settings: Sequence[Mapping[str, Any]], metrics: Mapping[str, str]) -> Summary:
    """Return the hparams entry that names the columns, what any run sets, and the metrics: tags and their names."""
    kinds: dict[str, set[str]] = {}
    for one in settings:
        for key, value in one.items():
            kinds.setdefault(key, set()).add(kind_of(value))
    types = {"bool": api_pb2.DATA_TYPE_BOOL, "number": api_pb2.DATA_TYPE_FLOAT64, "string": api_pb2.DATA_TYPE_STRING}
    known = {key: types[min(kind)] if len(kind) == 1 else api_pb2.DATA_TYPE_UNSET for key, kind in kinds.items()}
    infos = [api_pb2.HParamInfo(name=key, type=kind) for key, kind in known.items()]
    told = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag), display_name=name) for tag, name in metrics.items()]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=told)
    return hparams_summary(hparams.EXPERIMENT_TAG, experiment=experiment)


def hparams_summary(tag: str, **content: Any) -> Summary:
    metadata = hparams.create_summary_metadata(plugin_data_pb2.HParamsPluginData(**content))
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=hparams.NULL_TENSOR)])


def write_overview(folder: Path, specs: Sequence[Mapping[str, Any]], pictures: Sequence[Path] = ()) -> None:
    """Write the run ``overview`` of a board of trials: the columns of hparams, and PNG figures by name."""
    with closing(EventFile(folder / "overview")) as file:
        file.add(columns([flat(spec) for spec in specs], {REGRET: "final regret"}))
        add_pictures(file, pictures)


def add_pictures(file: EventFile, pictures: Sequence[Path]) -> None:
    """Add PNG figures; TensorBoard orders groups by the alphabet, and regret comes before these."""
    for path in pictures:
        image = Summary.Image(encoded_image_string=path.read_bytes())
        file.add(Summary(value=[Summary.Value(tag=f"the figures/{path.stem}", image=image)]))
