"""Audits: games that bound an agent's or a mechanism's epsilon from below.

Three nouns: a *claim* (the promised epsilon or rho), a *game* (two neighbouring worlds and a view of them), an
*event* (likelier in one world than in the other).
"""

from typing import TYPE_CHECKING

from privbandit_agents.faces import lazily

if TYPE_CHECKING:
    from privbandit_agents.audits.agents import AgentGame
    from privbandit_agents.audits.claims import AuditResult, Claim, Game
    from privbandit_agents.audits.lower_bounds import audit
    from privbandit_agents.audits.registry import game, register_target

__all__ = ["AgentGame", "AuditResult", "Claim", "Game", "audit", "game", "register_target"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        ".agents": "AgentGame",
        ".claims": "AuditResult Claim Game",
        ".lower_bounds": "audit",
        ".registry": "game register_target",
    },
)

MECHANISMS = {
    "laplace": False,
    "gaussian": False,
    "private-value": False,
    "private-selection": False,
    "gumbel-topk": False,
    "exponential-choice": False,
    "wishart-difference": False,
    "k-norm": False,
    "objective-perturbation": True,
    "tree": False,
    "toeplitz": False,
    "grr": False,
    "oue": False,
    "subset": False,
    "signed-subset": False,
    "bin-cap": False,
    "hemisphere": False,
    "lplr-update": True,
    "lplr-ci": True,
    "lplr-wishart": True,
    "fliphat-peeling": True,
    "private-cov": True,
    "lpct-report": True,
}
"""Targets of ``registry`` that are mechanisms, and whether their published calibration can be audited, too.

For lists: importing what plays them takes a second.
"""
