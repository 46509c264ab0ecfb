"""The games with any joint agent, played with ``private-pursuit`` in batches so short that a run sees several."""

from typing import ClassVar

from privbandit_agents.audits.games.batches import BatchCanaries
from privbandit_agents.audits.games.joint import JointGame, Scene

SHORT = {"first": 16}


class PursuitCanaries(BatchCanaries):
    """A canary in each batch."""

    settings: ClassVar = SHORT
    runs = runs_of_few = 500
    budget = 0


class PursuitGame(JointGame):
    """Look after every batch; a run takes many small releases, so there are few runs."""

    settings: ClassVar = SHORT
    pilots, fits = 10, 100
    heats: ClassVar = ((4, 30),)
    besides = (PursuitCanaries,)

    def further(self, best: list[Scene]) -> list[Scene]:
        """Return nothing: what its releases hide does not depend on other users."""
        return []
