"""Arms that come and go: an agent that knows nothing of masks chooses among the arms that are present.

*Formal guarantees.* Masks are public, as the times are at which users come: neighboring runs differ in one user's
record (context, action, feedback) and have the same masks. An agent is shown a context in which absent arms have the
features of present ones, a function of the user's own context and of a public mask. The arm that is played is a
function of the agent's choice, of the mask and, for labels, of the agent's prediction from public state and this
context. So a report is randomized from one user's record and a release sees every record once, as without masks;
guarantee and ledger are the same. Nothing is promised for a mask that is not public: if the arms that a user may get
reveal something of the user, playing them reveals it, too. An agent's own names of arms are such a mask: proof in
docs/privacy/definitions.md.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from privbandit_agents.base.ties import Told, best
from privbandit_envs.changing.masks import Masks, masks_of, stand_ins
from privbandit_envs.validate import shown

Array = NDArray[Any]
ALL: Mapping[str, str] = MappingProxyType({})
"""The states of arms that nobody has named: all are there."""


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


def choose_present(agent: Any, context: object, mask: Array | None, person: object = None) -> tuple[Array, Any]:
    """Let an agent choose among the arms that are present.

    Where arms have features of their own, absent arms show those of present ones, and stand for them. Where all arms
    share one context, an agent whose choice is absent plays the best arm that is present, by its predictions (any of
    several), and the one that stands for its choice if it predicts nothing.

    Args:
        agent: plays arms.
        context: of one user or of n.
        mask: whether each arm is present, shape (K,) or (n, K); None: the active ones are.
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
    contexts: Array = agent.contexts_of(context)
    masks = masks_for(agent, mask, contexts.shape[: contexts.ndim - len(agent.context_shape)])
    instead = stand_ins(masks)
    seen = seen_by(agent, contexts, instead)
    first = agent.ties.users
    try:
        with serving(agent, masks, person):
            wanted = np.asarray(agent.select_action(seen))[..., None]
    finally:
        agent.ties.users = first
    n = masks.size // masks.shape[-1]
    scores = None if np.take_along_axis(masks, wanted, axis=-1).all() else predicted(agent, seen)
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


def add_arms(agent: Any, names: Sequence[str]) -> None:
    """Let arms come, from the next user on: each name takes the next number of an arm that none has had.

    The first call names the arms of the beginning, before anybody is served, and leaves the other numbers pending:
    nobody gets them until a later call names them. So make the agent for as many arms as will ever come. Counters,
    epochs, budget and ledger go on. When arms come must be public, or follow from what is released.

    Args:
        agent: plays arms; names and states are saved with it, in ``arm_states``.
        names: of arms that were never there before.

    Raises:
        TypeError: names that are no text; an agent that plays sets, owns its loop, or drops arms for good.
        ValueError: a name that was used before, or more arms than the agent was made for.
    """
    new = names_of(names)
    if not isinstance(agent.action_space, Discrete):
        raise TypeError(f"{agent.name} plays sets, whose items have no states: make another agent for other items.")
    if not agent.learns_logs:
        raise TypeError(f"{agent.name} owns its runs, which no arm joins later: make another agent for other arms.")
    if used := [name for name in new if name in agent.arm_states or new.count(name) > 1]:
        raise ValueError(f"an arm called {used[0]!r} was there before, and a name is used once; take another name.")
    room = int(agent.action_space.n) - len(agent.arm_states)
    if len(new) > room:
        raise ValueError(f"{agent.name} has room for {room} more arms; got {len(new)}: make one for more arms.")
    if not agent.arm_states and agent.ties.users and len(new) < room:
        raise ValueError(f"users have been given all {room} arms: name each of them first; got {len(new)} names.")
    agent.arm_states = {**agent.arm_states, **dict.fromkeys(new, "active")}


def retire_arms(agent: Any, names: Sequence[str]) -> None:
    """Let arms go, from the next user on, for good; what was learned of them, and late rewards, still count.

    Whoever got them stays in the releases, and in the ledger. When arms go must be public, or follow from what is
    released: an arm that is retired for its raw rewards reveals these.

    Args:
        agent: plays arms.
        names: of active arms.

    Raises:
        TypeError: names that are no text.
        ValueError: a name that no active arm has, or no arm would be left.
    """
    gone, there = names_of(names), [name for name, state in agent.arm_states.items() if state == "active"]
    if strange := [name for name in gone if name not in there]:
        raise ValueError(f"no active arm is called {strange[0]!r}; active are {shown(there)}.")
    if not set(there) - set(gone):
        raise ValueError(f"an arm must stay active; got all of them: {shown(gone)}. Add others first.")
    agent.arm_states = agent.arm_states | dict.fromkeys(gone, "retired")


def names_of(names: Sequence[str]) -> list[str]:
    """Return names in a list, or raise TypeError."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"names must be a list of names, such as ['a', 'b']; got {shown(names)}.")
    return list(names)


def masks_for(agent: Any, mask: Array | None, users: tuple[int, ...]) -> Masks:
    """Return which arms users may get, shape (*users, K): those of a mask, or all, that are active.

    Raises:
        ValueError: a mask of another shape or with other numbers, or a user has no arm.
    """
    shape = *users, int(agent.action_space.n)
    masks, states = np.ones(shape, bool) if mask is None else masks_of(mask, shape), agent.arm_states
    if not states:
        return masks
    masks[..., len(states) :] = False
    masks[..., [place for place, state in enumerate(states.values()) if state != "active"]] = False
    return masks_of(masks, shape, "action_mask of active arms")
