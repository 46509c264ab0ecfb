"""With which probability a policy takes an action: in closed form where it draws nothing, else by drawing."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_agents.base.present import masks_for, predicted, seen_by, serving
from privbandit_agents.base.state import kept, rekey
from privbandit_agents.base.ties import Ties, Told, largest
from privbandit_envs.changing.masks import Masks, stand_ins, uniform_over
from privbandit_envs.validate import count

Array = NDArray[Any]
DRAWS = 1000


class Probabilities(np.ndarray[Any, np.dtype[np.float64]]):
    """An array of probabilities that knows its error.

    Attributes:
        error: standard errors of the same shape where the probabilities were estimated by drawing; None: exact.
        draws: how many draws they are from; 0: none.
    """

    error: Array | None = None
    draws: int = 0

    @classmethod
    def of(cls, values: Array, error: Array | None = None, draws: int = 0) -> "Probabilities":
        """Return values (n, K) with their standard errors."""
        made = np.asarray(values, np.float64).view(cls)
        made.error, made.draws = error, draws
        return made


def sampled(agent: Any, contexts: Array, draws: int, rng: Generator) -> tuple[Array, bool]:
    """Return actions that a policy takes for n contexts, shape (m, n, ...), and whether it draws them.

    The agent itself stays as it is: a copy with other random numbers chooses. If the copy drew nothing but which of
    several best arms a user gets, these are the actions that ``choices`` lists.
    """
    draws = count(draws=draws)
    twin = copy.deepcopy(agent)
    rekey(twin, rng.spawn(1)[0])
    before = [generator.bit_generator.state for generator in generators(twin)]
    with serving(twin, *agent.visit):
        found = choices(twin, contexts)
    still = before == [generator.bit_generator.state for generator in generators(twin)]
    alone, listed = len(found) == 1, isinstance(agent.action_space, Discrete)
    if not len(contexts) or (still and (alone or listed)):
        return found, False
    # anew, as one user's tie above may have drawn for all
    twin = copy.deepcopy(agent)
    rekey(twin, rng.spawn(1)[0])
    twin.ties = Ties(int(rng.spawn(1)[0].integers(2**62)))
    at_once = max(1, 2**22 // max(1, contexts.size))  # numbers of contexts in a call
    parts = list[Array]()
    for start in range(0, draws, at_once):
        m = min(at_once, draws - start)
        again = repeated(contexts, m)
        with serving(twin, None if agent.visit.mask is None else repeated(agent.visit.mask, m)):
            parts.append(np.asarray(twin.select_action(again)).reshape(m, *found.shape[1:]))
    return np.concatenate(parts), True


def choices(agent: Any, contexts: Array) -> Array:
    """Return the actions that a policy may take for n contexts by how ties are broken, shape (m, n, ...).

    If no user has a tie m is 1, else each of a user's best arms is among them; of sets two are.
    """
    ties, found = agent.ties, list[Array]()
    many = int(agent.action_space.n) if isinstance(agent.action_space, Discrete) else 2
    try:
        for place in range(many):
            # in steps of 1 / K: none of K or fewer arms is left out
            agent.ties = told = Told((place + 0.5) / many, ties.present)
            found.append(np.asarray(agent.select_action(contexts)))
            if not told.asked:
                break
    finally:
        agent.ties = ties
    return np.stack(found)


def repeated(rows: Array, m: int) -> Array:
    """Return n rows m times, one after the other, shape (m n, ...)."""
    return np.broadcast_to(rows, (m, *rows.shape)).reshape(-1, *rows.shape[1:])


def probabilities(
    agent: Any, contexts: Array, draws: int = DRAWS, rng: Generator | None = None, mask: Array | None = None
) -> Probabilities:
    """Return the probability of every arm for each of n users who might come next, shape (n, K).

    It is that of ``play``: where arms come and go, an absent one has the probability 0.

    It is exact for a policy that draws nothing, and where a subclass knows the law. Else it is a share of draws, and
    ``error`` of the result has the standard errors. The agent stays as it is.

    Args:
        agent: whose method this is.
        contexts: shape (n, ...).
        draws: how many, where draws are needed.
        rng: for these draws; None: a fresh key from the operating system.
        mask: whether each arm is present, shape (n, K); None: all are.

    Raises:
        TypeError: actions are sets; ``propensities`` knows the probability of those that were chosen.
        ValueError: contexts or masks of another shape, a mask in which no arm is present, or a number of draws that is
            no integer >= 1.
    """
    if not isinstance(agent.action_space, Discrete):
        raise TypeError(f"{agent.name} plays sets, which are too many to list; propensities() takes those chosen.")
    contexts, rng = many(agent, contexts), default_rng() if rng is None else rng
    if mask is None and not agent.arm_states:
        return law_of(agent, contexts, draws, rng)
    masks = checked(agent, mask, len(contexts))
    instead = stand_ins(masks)
    seen = seen_by(agent, contexts, instead)
    with serving(agent, masks):
        law = law_of(agent, seen, draws, rng)
    scores = predicted(agent, seen)
    shown = np.eye(masks.shape[1])[instead]  # the arms that are played for each choice
    if scores is not None:
        best = uniform_over(largest(scores, masks))[:, None]
        shown = np.where(masks[..., None], shown, best)
    return moved(law, shown)


def law_of(agent: Any, contexts: Array, draws: int, rng: Generator) -> Probabilities:
    """Return the law of the agent's choices: a hostile context only concerns the user who sent it."""
    with np.errstate(over="ignore", invalid="ignore"):
        return agent.law(contexts, draws, rng)  # type: ignore[no-any-return]


def checked(agent: Any, mask: Array | None, n: int) -> Masks:
    """Return the masks of n users; one user's alone is a group of one."""
    alone = mask is not None and np.ndim(mask) == 1 and n == 1
    return masks_for(agent, np.asarray(mask)[None] if alone else mask, (n,))


def moved(law: Probabilities, played: Array) -> Probabilities:
    """Return a law whose arms are played as others, by shares (n, K, K); errors of arms played alike add in squares."""
    values = np.vecmat(np.asarray(law), played)
    if law.error is None:
        return Probabilities.of(values)
    # the shares of arms compete, so their sum is no less certain
    return Probabilities.of(values, np.sqrt(np.vecmat(law.error**2, played**2)), law.draws)


def law(agent: Any, contexts: Array, draws: int, rng: Generator) -> Probabilities:
    """Return the probability with which ``select_action`` returns each arm, shape (n, K), by drawing if need be.

    ``agent.visit.mask`` shows which arms are there for each user, to agents that look at it.
    """
    arms = np.arange(int(agent.action_space.n))
    actions, random = sampled(agent, contexts, draws, rng)
    hits = actions[..., None] == arms
    if not random:
        return Probabilities.of(uniform_over(hits.any(axis=0)))
    shares = hits.mean(axis=0)
    drawn = len(actions)
    smooth = (shares * drawn + 1) / (drawn + 2)  # no error is 0: what was never drawn may be rare
    return Probabilities.of(shares, np.sqrt(smooth * (1 - smooth) / drawn), drawn)


def propensities(
    agent: Any,
    contexts: Array,
    actions: Any,
    draws: int = DRAWS,
    rng: Generator | None = None,
    mask: Array | None = None,
) -> Probabilities:
    """Return the probability of each user's own action, shape (n,); arguments as for ``probabilities``.

    Of m draws among which c are the action, the result is (c + 1) / (m + 1): never 0, and the mean of its inverse is
    (1 - (1 - p)^(m + 1)) / p, which is 1 / p but for actions that are hardly ever drawn.

    Raises:
        ValueError: not one action for each user, or one that does not exist.
    """
    contexts, actions = many(agent, contexts), np.atleast_1d(actions)
    if len(actions) != len(contexts) or not all(agent.action_space.contains(action) for action in actions):
        raise ValueError(f"actions must be one of {agent.action_space} for each of {len(contexts)} users.")
    if isinstance(agent.action_space, Discrete):
        law = agent.probabilities(contexts, draws, rng, mask)
        users = np.arange(len(contexts))
        shares = np.asarray(law)[users, actions]
        if not law.draws:
            return Probabilities.of(shares)
        error = np.asarray(law.error)[users, actions]
        smooth = (shares * law.draws + 1) / (law.draws + 1)
        here = checked(agent, mask, len(contexts))[users, actions]
        return Probabilities.of(np.where(here, smooth, 0.0), error, law.draws)
    if mask is not None:
        raise TypeError(f"masks mark the arms that are present, and {agent.name} plays sets.")
    drawn, random = sampled(agent, contexts, draws, default_rng() if rng is None else rng)
    hits = (drawn == actions).all(axis=-1).sum(axis=0)
    if not random:
        return Probabilities.of(hits)
    shares = (hits + 1) / (len(drawn) + 1)
    return Probabilities.of(shares, np.sqrt(shares * (1 - shares / 2) / len(drawn)), len(drawn))


def mixed(own: Probabilities, share: float, uniform: Any) -> Probabilities:
    """Return the law of own play and uniform play, by their shares."""
    error = None if own.error is None else (1 - share) * own.error
    return Probabilities.of((1 - share) * np.asarray(own) + share * uniform, error, own.draws)


def many(agent: Any, contexts: Array) -> Array:
    """Return the contexts of n users, shape (n, ...); one user's alone is a group of one."""
    given: Array = agent.contexts_of(contexts)
    return given[None] if given.shape == agent.context_shape else given


def uniform_propensity(action_space: Any) -> float:
    """Return the probability of each action of uniform play: an arm if all are present, or a set of full capacity."""
    if isinstance(action_space, Discrete):
        return 1 / int(action_space.n)
    return 1 / math.comb(action_space.n_items, action_space.capacity)


def generators(thing: object) -> Iterator[Generator]:
    """Yield the generators in an object's state, and in the objects within."""
    for _, value in kept(thing):
        if isinstance(value, Generator):
            yield value
        elif hasattr(value, "__dict__"):
            yield from generators(value)
