"""The place of ``Inputs`` in version 0.2."""

from privbandit_agents.base.local import Inputs

__all__ = ["Inputs"]
