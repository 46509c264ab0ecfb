"""Arms that come and go: an agent that knows nothing of masks chooses among the arms that are present.

*Formal guarantees.* Masks are public, as the times are at which users come: neighboring runs differ in one user's
record (context, action, feedback) and have the same masks. An agent is shown a context in which absent arms have the
features of present ones, a function of the user's own context and of a public mask. The arm that is played is a
function of the agent's choice, of the mask and, for labels, of the agent's prediction from public state and this
context. So a report is randomized from one user's record and a release sees every record once, as without masks;
guarantee and ledger are the same. Nothing is promised for a mask that is not public: if the arms that a user may get
reveal something of the user, playing them reveals it, too.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.ties import Told, best
from privbandit_envs.changing.masks import masks_of, stand_ins

Array = NDArray[Any]


class Visit(NamedTuple):
    """Whoever is served: the public facts of a visit, or of n visits, beside the context.

    Attributes:
        mask: which arms are present, shape (..., K); None: all.
        person: who comes, integers, to an agent with ``people``; None: people who report, until n have.
    """

    mask: Array | None = None
    person: object = None


NOBODY = Visit()
"""Between visits."""


class serving:  # noqa: N801 (a context manager that is called like a function)
    """Let an agent serve a visit, or learn from it, within this; then it is as before, whatever is raised.

    Raises:
        TypeError: the agent keeps something else as ``visit``.
    """

    __slots__ = ("agent", "before", "visit")

    def __init__(self, agent: Any, mask: Array | None = None, person: object = None) -> None:
        self.agent, self.visit, self.before = agent, Visit(mask, person), agent.visit
        if not isinstance(self.before, Visit):
            way_out = "give what your agent keeps another name"
            kind = type(agent).__name__
            raise TypeError(f"{kind}.visit belongs to the base class, and says who is served: {way_out}.")

    def __enter__(self) -> None:
        self.agent.visit, self.agent.ties.present = self.visit, self.visit.mask

    def __exit__(self, *error: object) -> None:
        self.agent.visit, self.agent.ties.present = self.before, self.before.mask


def alone(agent: Any) -> None:
    """Leave a visit behind that an interrupt kept: whoever is served next begins without one."""
    if agent.visit is not NOBODY and isinstance(agent.visit, Visit):
        agent.visit, agent.ties.present = NOBODY, None


def choose_present(agent: Any, context: Array, mask: Array, person: object = None) -> tuple[Array, Any]:
    """Let an agent choose among the arms that are present.

    Where arms have features of their own, absent arms show those of present ones, and stand for them. Where all arms
    share one context, an agent whose choice is absent plays the best arm that is present, by its predictions (any of
    several), and the one that stands for its choice if it predicts nothing.

    Args:
        agent: plays arms.
        context: of one user or of n.
        mask: whether each arm is present, shape (K,) or (n, K).
        person: who comes, to an agent with ``people``: an integer, or n; None: people who report, until n have.

    Returns:
        The contexts as the agent saw them, which ``update`` should get, and the actions.

    Raises:
        ValueError: a mask of another shape, of other numbers than 0 and 1, or in which no arm is present.

    Examples:
        >>> import gymnasium as gym
        >>> from privbandit_agents import make
        >>> env = gym.make("privbandit/Linear-v0", n_arms=4, dim=2, available=0.5)
        >>> context, info = env.reset(seed=0)
        >>> seen, arm = choose_present(make("linucb", env), context, info["action_mask"])
        >>> seen.shape, bool(info["action_mask"][arm])
        ((4, 2), True)
    """
    context = agent.contexts_of(context)
    users = context.shape[: context.ndim - len(agent.context_shape)]
    masks = masks_of(mask, (*users, int(agent.action_space.n)))
    instead = stand_ins(masks)
    seen = seen_by(agent, context, instead)
    first = agent.ties.users
    try:
        with serving(agent, masks, person):
            wanted = np.asarray(agent.select_action(seen))[..., None]
    finally:
        agent.ties.users = first
    scores, n = predicted(agent, seen), masks.size // masks.shape[-1]
    if scores is not None:
        # the later digits of a uniform: the first ones may have decided what is absent
        second = Told(agent.ties.of(n) * 2**20 % 1, masks)
        instead = np.where(masks, instead, best(scores, second)[..., None])
    agent.ties.users = first + n
    chosen = np.take_along_axis(instead, wanted, axis=-1)
    return seen, chosen[..., 0] if chosen.ndim > 1 else int(chosen[0])


def seen_by(agent: Any, context: Array, instead: NDArray[np.intp]) -> Array:
    """Return contexts in which absent arms show the features of present ones, if arms have features of their own."""
    if len(agent.context_shape) != 2:
        return context
    return np.take_along_axis(context, instead[..., None], axis=-2)


def predicted(agent: Any, contexts: Array) -> Array | None:
    """Return an agent's prediction for every arm, shape (..., K); None if arms have features, or it predicts none."""
    if len(agent.context_shape) == 2:
        return None
    rows = contexts.reshape(-1, *agent.context_shape)
    with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
        scores = agent.chances(rows) if hasattr(agent, "chances") else agent.predict(rows)  # labels, or rewards
    users = contexts.shape[: contexts.ndim - len(agent.context_shape)]
    return None if scores is None else np.asarray(scores).reshape(*users, -1)
