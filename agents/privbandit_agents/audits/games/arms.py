"""The games with a joint agent that eliminates arms: its epochs are cut short, so that many of them are seen."""

from typing import ClassVar

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.games.batches import BatchCanaries
from privbandit_agents.audits.games.joint import FirstRelease, JointGame
from privbandit_agents.audits.schedules.game import ScheduleGame

SHORT: dict[str, float] = {"width": 0.05}
"""Epochs of a few users: the noise of a release does not depend on how long its epoch was."""


class FirstEpoch(FirstRelease):
    """FirstRelease with short epochs."""

    settings: ClassVar = SHORT


class EpochCanaries(BatchCanaries):
    """BatchCanaries with short epochs."""

    settings: ClassVar = SHORT


class EpochSchedule(ScheduleGame):
    """ScheduleGame with short epochs."""

    settings: ClassVar = SHORT


class EliminationGame(JointGame):
    """JointGame with short epochs."""

    settings: ClassVar = SHORT
    besides: ClassVar[tuple[type[AgentGame], ...]] = (FirstEpoch, EpochSchedule, EpochCanaries)
