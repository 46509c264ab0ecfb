"""People who come again: an agent with ``people=n`` counts each of n people once, and serves all of their visits.

Proofs: docs/privacy/people.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.present import serving
from privbandit_agents.base.ties import Told

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Ids = NDArray[np.int64]


class Seen:
    """Which people have been counted: a bit for every id below n, and a list of the others.

    Of a joint agent it is the curator's. Of a local one it stands for the bits that the devices keep: no server has it.

    >>> seen = Seen(2)
    >>> seen.new([7, 7, 1, 3], 4).tolist()  # one record a person, of two people
    [True, False, True, False]

    Args:
        most: n, how many people are counted at most; whoever is new after them is served, and not counted.

    Attributes:
        counted: how many have been counted.
        lost: whether devices came without their bits, from the file of a server: then nobody may report.
    """

    def __init__(self, most: int) -> None:
        self.most, self.counted, self.lost = most, 0, False
        self.bits = np.zeros(-(-most // 8), np.uint8)
        self.others: set[int] = set()
        self._asked: tuple[object, Bools] | None = None  # people, and which of them are new

    @property
    def full(self) -> bool:
        """Whether nobody will be counted any more."""
        return self.counted >= self.most

    def new(self, person: object, visits: int) -> Bools:
        """Return which visits, in order, will be counted, shape (visits,); nobody is counted yet.

        Args:
            person: the ids of the visits' people, integers; None: everyone is new.
            visits: how many.
        """
        left = self.most - self.counted
        if person is None:
            return np.arange(visits) < left
        if self._asked is not None and self._asked[0] is person:
            return self._asked[1]
        ids, found = ids_of(person, visits), np.zeros(visits, bool)
        if not left:
            return found
        fresh = np.flatnonzero(~self._known(ids))
        if len(fresh) > 1:
            fresh = fresh[np.sort(np.unique(ids[fresh], return_index=True)[1])]
        found[fresh[:left]] = True
        return found

    def within(self, person: Ids, records: int) -> Ids:
        """Return whose the next visits are, until so many of them were counted; all, if fewer will be."""
        new = self.new(person, len(person))
        counted = np.flatnonzero(new)
        visits = len(person) if len(counted) < records else int(counted[records - 1]) + 1
        some = person[:visits]
        self._asked = some, new[:visits]  # is asked for again when they are served, and when they are counted
        return some

    def taken(self, records: tuple[Array, ...], person: object, refuse: Callable[[int], None]) -> tuple[Array, ...]:
        """Count people, and return the records that are handed on, arrays with a row a visit: the first of each.

        Args:
            records: contexts, actions, feedback, and whatever else has a row a visit.
            person: the ids of the visits' people; None: everyone is new.
            refuse: is asked with how many will be counted, before anybody is; it may raise an error.

        Raises:
            RuntimeError: the devices have lost their bits.
        """
        if self.lost:
            way_out = "restore_devices(...) takes what devices_state() gave"
            raise RuntimeError(f"who has reported is on the devices, and not in a server's file: {way_out}.")
        new = self.new(person, len(records[-1]))
        refuse(int(np.count_nonzero(new)))
        self.counted += int(np.count_nonzero(new))
        if person is not None and new.any():
            self._mark(ids_of(person, len(new))[new])
        self._asked = None
        return records if new.all() else tuple(part[new] for part in records)

    def _known(self, ids: Ids) -> Bools:
        small = (ids >= 0) & (ids < self.most)
        place = np.where(small, ids, 0)
        known = np.asarray(small & (self.bits[place >> 3] >> (place & 7).astype(np.uint8) & 1 == 1))
        if self.others:
            large = np.flatnonzero(~small)
            known[large] = [int(one) in self.others for one in ids[large]]
        return known

    def _mark(self, ids: Ids) -> None:
        small = (ids >= 0) & (ids < self.most)
        np.bitwise_or.at(self.bits, ids[small] >> 3, np.uint8(1) << (ids[small] & 7).astype(np.uint8))
        self.others.update(ids[~small].tolist())

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        others = np.array(sorted(self.others), np.int64)
        return {"bits": self.bits.copy(), "others": others}, {"counted": self.counted}

    def restore(self, arrays: dict[str, Array], values: dict[str, Any]) -> None:
        bits, others, counted = arrays["bits"], arrays["others"], values["counted"]
        if bits.shape != self.bits.shape or bits.dtype != np.uint8 or others.dtype != np.int64:
            raise ValueError(f"people must be {self.most} bits, and integers")
        if type(counted) is not int or not len(others) + int(np.bitwise_count(bits).sum()) <= counted <= self.most:
            raise ValueError(
                f"counted must be the number of devices with a bit, and at most {self.most}; got {counted!r:.20}"
            )
        self.bits, self.others, self.counted, self.lost = bits.copy(), set(others.tolist()), counted, False
        self._asked = None


def ids_of(person: object, visits: int) -> Ids:
    """Return the ids of people as integers, shape (visits,).

    Raises:
        ValueError: ids are no integers, their number is another one, or one is masked.
    """
    ids, masked = np.atleast_1d(np.asarray(person)), np.ma.is_masked(person)
    if masked or ids.dtype.kind not in "iu" or ids.shape != (visits,):
        found = "masked ids" if masked else f"{ids.dtype} of shape {ids.shape}"
        raise ValueError(f"person must be one integer a visit, shape ({visits},), or None: all are new; got {found}.")
    return ids.astype(np.int64, copy=False)


def chosen_for(agent: Any, select_action: Any, contexts: Array) -> Any:
    """Let an agent choose for users of whom some do not report: these get the action of the best estimate.

    Whoever reports is served by ``select_action``, the others by ``settled``, if the agent has that: nothing can be
    learned from them, so nothing is tried out on them.
    """
    if not hasattr(agent, "settled"):
        return select_action(agent, contexts)
    visit, ties = agent.visit, agent.ties
    first = ties.users
    group = contexts.ndim > len(agent.context_shape)
    rows = contexts if group else contexts[None]
    new = agent.people_seen.new(visit.person, len(rows))
    actions: list[Any] = [None, None]
    try:
        if new.all():
            return select_action(agent, contexts)
        uniforms = ties.of(len(rows))
        for reports, choose in ((True, select_action), (False, type(agent).settled)):
            some = new == reports
            if some.any():
                agent.ties = Told(uniforms[some])
                # whoever is left reports, or else has no turn here
                with serving(agent, None if visit.mask is None else np.reshape(visit.mask, (len(rows), -1))[some]):
                    actions[reports] = np.asarray(choose(agent, rows[some]))
    finally:
        agent.ties = ties
        ties.users = first + len(rows)  # however users are grouped
    if actions[True] is None:
        chosen = actions[False]
    else:
        chosen = np.empty((len(rows), *actions[True].shape[1:]), actions[True].dtype)
        chosen[new], chosen[~new] = actions[True], actions[False]
    return chosen if group else chosen[0]
