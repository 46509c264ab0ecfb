"""Jointly private agents: a trusted curator with private releases.

Three nouns: a *statistic* (what a curator adds up of raw records), a *schedule* (when the sum is released), a *release*
(all that actions read).
"""

from typing import TYPE_CHECKING

from privbandit_agents.faces import lazily

if TYPE_CHECKING:
    from privbandit_agents.joint.linear.schedules import Epochs
    from privbandit_agents.joint.linear.sums import SummedRecords
    from privbandit_agents.joint.settings import GaussianSettings

__all__ = ["Epochs", "GaussianSettings", "SummedRecords"]

__getattr__, __dir__ = lazily(
    __name__, {".linear.schedules": "Epochs", ".linear.sums": "SummedRecords", ".settings": "GaussianSettings"}
)
