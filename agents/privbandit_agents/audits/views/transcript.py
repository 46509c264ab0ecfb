"""The transcript of an agent: what anybody sees of it while a script of users is served."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.pairs.records import USERS_A_RUN, Records
from privbandit_agents.audits.views.reports import numbers
from privbandit_agents.base.central import CentralAgent, Publication
from privbandit_agents.base.spaces import Array


class Look(NamedTuple):
    """What is seen after some users.

    Attributes:
        users: who were served.
        release: its features, shape (D,).
        news: those of the publications since the look before, shape (D',).
        frozen: ``frozen_rounds`` of the agent.
        chosen: actions towards the probes; empty if there are none.
        released: the release itself, which the agent may change later.
    """

    users: int
    release: Floats
    news: Floats
    frozen: int
    chosen: Array
    released: Any

    def differs(self, before: "Look") -> bool:
        """Return whether the release or the actions have changed, or something was published."""
        same = np.array_equal(self.release, before.release) and np.array_equal(self.chosen, before.chosen)
        return bool(len(self.news)) or not same


def transcript(agent: Any, script: Iterable[Records], probes: Array | None = None) -> Iterator[Look]:
    """Serve an agent block after block of users; yield what is seen before the first and after each."""
    told, users = list[Floats](), 0

    def board(made: Publication) -> Any:
        released = made.draw()
        told.append(numbers(released)[0])
        return released

    if isinstance(agent, CentralAgent) and agent.watcher is None:
        agent.watcher = board

    def look() -> Look:
        chosen = np.zeros(0) if probes is None else np.asarray(agent.select_action(probes))
        news = np.concatenate([np.zeros(0), *told])
        told.clear()
        released = getattr(agent, "release", None)
        return Look(users, numbers(released)[0], news, agent.frozen_rounds(), chosen, released)

    yield look()
    for block in script:
        agent.update(block.contexts, block.actions, block.feedback, *(() if block.ids is None else (block.ids,)))
        users += len(block.feedback)
        yield look()


def crowd(env: Any, agent: Any, users: int) -> Iterator[Records]:
    """Yield users whom an environment draws, with the actions that the agent chooses for them."""
    while users:
        n = min(agent.frozen_rounds(), users)
        contexts = env.upcoming(n)
        actions = np.asarray(agent.select_action(contexts))
        yield Records(contexts, actions, env.serve(actions).feedback)
        users -= n


def portions(users: Records, ends: Sequence[int]) -> Iterator[Records]:
    """Yield users in blocks, of which the last ones are numbers ``ends``."""
    for start, end in zip((0, *ends), ends, strict=False):
        yield users[start:end]


def changes(agent: Any, users: Records, probes: Array | None = None, most: int | None = None) -> list[int]:
    """Serve users one by one; return the numbers of users after which the view changes, up to a number of changes."""
    found, before = list[int](), None
    for look in transcript(agent, portions(users, range(1, 1 + len(users.feedback))), probes):
        if before is not None and look.differs(before):
            found.append(look.users)
        if len(found) == most:
            break
        before = look
    return found


def schedule(
    agent: Any, users: Records, columns: Sequence[int] | slice = slice(None), start: int | None = None
) -> Floats:
    """Return whether the release changed after each user, and ``frozen_rounds`` then, shape (2, users).

    With ``start`` that is looked at up to the fourth change after so many users; beyond, there are zeros.
    """
    n = len(users.feedback)
    seen, left = np.zeros((2, n)), 4
    looks = transcript(agent, portions(users, range(1, 1 + n)))
    before = next(looks).release[columns]
    for t, look in enumerate(looks):
        now = look.release[columns]
        seen[:, t] = not np.array_equal(now, before), min(look.frozen, USERS_A_RUN)
        before = now
        if start is not None and t >= start:
            left -= int(seen[0, t])
            if not left:
                break
    return seen


def added(told: Floats, news: Floats) -> Floats:
    """Return the sum of two lists of numbers, the shorter of which counts as 0 at its end."""
    fewer, more = sorted((told, news), key=len)
    found = np.array(more)
    found[: len(fewer)] += fewer
    return found
