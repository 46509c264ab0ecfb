"""Agents in worlds whose arms come and go: every agent that plays arms respects a mask, even one that knows no masks.

*Formal guarantees.* Masks are public, as the times are at which users come: neighbouring runs differ in one user's
record (context, action, feedback) and have the same masks. An agent is shown a context in which absent arms have the
features of present ones; this is a function of the user's own context and of a public mask. The arm that is played is
a function of the agent's choice, of the mask and, for labels, of the agent's prediction from public state and
this context. So a report is randomized from one user's record as before, a release sees every record once as before,
and guarantee and ledger are those without masks. Nothing is promised for a mask that is not public: where the arms
that a user may get reveal something of the user, seeing them played reveals it, too.
"""

from privbandit_agents.base.chances.present import choose_present

__all__ = ["choose_present"]
