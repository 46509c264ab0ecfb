"""Agents in worlds whose arms come and go: every agent that plays arms respects a mask, whatever it knows of masks.

*Formal guarantees.* Masks are public, as the times are at which users come: neighbouring runs differ in one user's
record (context, action, feedback) and have the same masks. An agent is shown a context in which absent arms have the
features of present ones; this is a function of the user's own context and of a public mask. The arm that is played is
a function of the agent's choice, of the mask and, for labels, of what the agent would predict from public state and
this context. So a report is randomized from one user's record as before, a release sees every record once as before,
and guarantee and ledger are those without masks. Nothing is promised for a mask that is not public: where the arms
that a user may get tell something of the user, seeing them played tells it, too.
"""

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.agent import Action, AnyAgent, Array
from privbandit_agents.base.labels import LabelAgent
from privbandit_envs.masks import stand_ins


def choose_present(agent: AnyAgent, context: Array, mask: NDArray[np.generic]) -> tuple[Array, Action]:
    """Let an agent choose among the arms that are present.

    Where arms have features of their own, absent arms show those of present ones, and stand for them. Where all arms
    share one context, an agent whose choice is absent plays the best arm that is present, by what it predicts, and the
    one that stands for its choice if it predicts nothing.

    Args:
        agent: plays arms.
        context: of one user or of n.
        mask: whether each arm is present, shape (K,) or (n, K).

    Returns:
        The contexts as the agent saw them, which ``update`` should get, and the actions.

    Examples:
        >>> import gymnasium as gym
        >>> from privbandit_agents import make
        >>> env = gym.make("privbandit/Linear-v0", n_arms=4, dim=2, available=0.5)
        >>> context, info = env.reset(seed=0)
        >>> seen, arm = choose_present(make("linucb", env), context, info["action_mask"])
        >>> seen.shape, bool(info["action_mask"][arm])
        ((4, 2), True)
    """
    instead = stand_ins(mask)
    of_their_own = len(agent.context_shape) == 2
    seen = np.take_along_axis(context, instead[..., None], axis=-2) if of_their_own else context
    agent.present = np.asarray(mask, dtype=bool)
    try:
        wanted = np.asarray(agent.select_action(seen))[..., None]
        chosen = np.take_along_axis(instead, wanted, axis=-1)
        scores = None if of_their_own else predicted(agent, seen)
    finally:
        agent.present = None
    if scores is not None:
        scores = np.where(mask, scores, -np.inf)
        best = scores.argmax(axis=-1)[..., None]
        better = np.take_along_axis(scores, best, axis=-1) > np.take_along_axis(scores, chosen, axis=-1)
        chosen = np.where((chosen != wanted) & better, best, chosen)
    return seen, chosen[..., 0] if chosen.ndim > 1 else int(chosen[0])


def predicted(agent: AnyAgent, contexts: Array) -> Array | None:
    """Return what an agent predicts for every arm that shares one context, shape (..., K), or None."""
    rows = contexts.reshape(-1, *agent.context_shape)
    scores = agent.chances(rows) if isinstance(agent, LabelAgent) else agent.predict(rows)
    return None if scores is None else np.asarray(scores).reshape(*contexts.shape[:-1], -1)
