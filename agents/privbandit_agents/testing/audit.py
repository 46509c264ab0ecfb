"""The audit of a private agent as a check: slower than the others, and the only one that sees noise drawn anywhere."""

import warnings
from typing import Any

import numpy as np

from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import games
from privbandit_agents.base.agent import CentralAgent, LocalAgent
from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.testing.replay import NotSeen
from privbandit_agents.zoo.registry import find


def check_audit(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """No audit at its default runs refutes a private agent's claim.

    It is played in the environment of that id if that is not one of the package's, else in a small world of a family
    that the agent plays. Warns with ``NotSeen`` of what no game looked at.
    """
    entry = find(name)
    if not issubclass(entry.load(), LocalAgent | ShuffleAgent | CentralAgent):
        return
    elsewhere = None if entry.audit or env_id.startswith("privbandit/") else env_id
    played = games(name, float(config.get("epsilon") or 1.0), env=elsewhere, config=config)
    if not played:
        return
    for game in played:
        # an honest agent is refuted in at most one of a thousand audits
        found = audit(game, game.runs, np.random.default_rng(14), 1 - (1 - 0.999) / len(played))
        level = "epsilon" if found.claim.rho is None else "rho"
        claimed, shown = f"{level} = {found.claim.level:.4g}", f"{level} >= {found.bound:.4g}"
        told = f"{found.name} claims {claimed}; an audit shows {shown} ({game.pair}; {found.event}; it saw {game.seen})"
        assert not found.refuted, told
    blind = "; ".join(f"{game.part or 'it'}: {game.unseen}" for game in played)
    warnings.warn(f"the audit of {name} could not see: {blind}.", NotSeen, stacklevel=3)
