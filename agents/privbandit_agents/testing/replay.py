"""Coupled replay: one user's record is replaced, and everything that the curator published stays as it was.

A curator is run, and all that it publishes is written down. Twins of it then serve the same users but one, and are made
to publish the same values. So both have the same public output, and the exact values behind it give the exact privacy
loss of the pair, without any sampling. What still differs between them has been read from raw data.
"""

import copy
import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from privbandit_agents.audits.pairs.records import Record, Records
from privbandit_agents.audits.pairs.targets import targets
from privbandit_agents.audits.views.reports import encoded, numbers
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.testing.outside import kept_outside, same_outside
from privbandit_agents.testing.runs import environment
from privbandit_agents.testing.watchers import (
    Forcer,
    Release,
    Writer,
    in_words,
    joined,
    loss,
    releases_of,
    standardised,
)
from privbandit_agents.zoo.registry import field_names, find, make

AnyCurator: TypeAlias = CentralAgent[Any, Any]
ROOM = 1e-6  # relative room for rounding when a loss is held against a promise
APART = (
    "the other answer",
    "opposite features",
    "features at a right angle and the other answer",
    "the other action",
    "a near record",
    "no purchase",
)
"""Records that every second user takes, of whom the others may see nothing but releases."""
BRIEFLY = (
    "the other answer",
    "features at a right angle",
    "features of NaN",
    "a near record",
    "a near record with the other answer",
)
"""Records that the later target takes, besides the first one."""
AROUND = (
    "a far record",
    "an answer of NaN",
    "a near record with an answer of NaN",
    "no purchase",
    "a near record with no purchase",
)
"""Records of the later target's neighbours, in turn: its record may count in their terms, too."""


class NotSeen(UserWarning):
    """A check could not look at everything that it is for."""


class Block(NamedTuple):
    """Users who were served together, the curator's actions for them, and its public state after them."""

    chosen: Array
    contexts: Array
    actions: Array
    feedback: Array
    release: Any
    frozen: int
    published: int


def check_replay(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """Replacing one user's record costs no more than is promised, if all that is published stays the same.

    Warns with ``NotSeen`` of an agent that publishes nothing through ``publish``, or by mechanisms that do not know the
    loss of a pair: then only actions and schedules are compared, given the same ``release``.
    """
    if not issubclass(find(name).load(), CentralAgent):
        return
    users = min(horizon, 200)
    _, unseen = replay(name, env_id, users, config, 0)
    replay(name, env_id, users, config, 0, APART, every=True)
    for around in AROUND:
        for user in (0, users // 4):
            unseen = unseen | replay(name, env_id, users, config, user, BRIEFLY, around)[1]
    last = last_of_batch(name, env_id, users, config)
    unseen = unseen | replay(name, env_id, users, config, last, BRIEFLY)[1]
    late = 5000  # users of a run with few records
    for user in (0, late // 4):
        unseen = unseen | replay(name, env_id, late, config, user, BRIEFLY[:2])[1]
    counts = "people" in field_names(find(name).load().Config)
    settings = config | ({"people": users} if counts and not config.get("people") else {})
    if watched(name, environment(env_id, users), settings, 0).guarantee.unit == "person":
        for visits in (2, 5, 43):
            unseen = unseen | replay(name, env_id, users, settings, 0, BRIEFLY[:2], visits=visits)[1]
    if unseen:
        warnings.warn(f"the replay of {name} did not see {'; '.join(sorted(unseen))}.", NotSeen, stacklevel=3)


def replay(
    name: str,
    env_id: str,
    users: int,
    config: dict[str, Any],
    user: int,
    only: Collection[str] = (),
    around: str = "",
    seed: int = 12,
    visits: int = 1,
    every: bool = False,
) -> tuple[list[Cost], set[str]]:
    """Replay a run with every one of the target's records, or some: (the loss of each pair, the parts not seen).

    With ``visits`` the target is a person who comes so often in the run, with one record; all of them are replaced.
    With ``every`` it is every second user: what they cost is not looked at, and an agent that publishes nothing may
    change at other times.

    With ``around`` the users before and after the target have the record of that name; one that the agent's world has
    not is nothing to replay.
    """
    env = environment(env_id, (users + 1) // 2)
    agent = watched(name, env, config, seed)
    if not agent.guarantee.proven or not limited(agent):
        return [], set()
    writer = agent.watcher = Writer()
    env.reset(seed=seed)
    env.action_space.seed(seed)
    records = targets(agent, ordinary(env))
    if around and around not in records:
        return [], set()
    script_of = next(iter(records))
    beside = dict.fromkeys((user - 1, user + 1), records[around]) if around else {}
    places = np.unique(np.linspace(user, users - 1, users // 2 if every else visits).astype(int))
    blocks = script(env, agent, users, places, records[script_of], beside)
    whom = "every second user" if every else f"user {user}"
    unseen = set() if writer.notes else {"anything but actions and schedules, since it never calls publish()"}
    published, ours = releases_of(writer.notes), kept_outside(agent) if every else {}
    spent_within_promise(agent, published)
    forced = [Forcer(writer.notes, f"with {script_of} for {whom}", values=[one.exact for one in published])]
    for what in [name for name in records if name != script_of and (not only or name in only)]:
        record, twin = records[what], watched(name, env, config, seed)
        forcer = twin.watcher = Forcer(writer.notes, f"with {what} for {whom}")
        follow(twin, blocks, places, record, forcer, bool(writer.notes) or not every)
        same = not writer.notes or encoded(vars(agent.ledger)) == encoded(vars(twin.ledger))
        assert same, f"{forcer.what}: the ledger differs though all releases are the same"
        if every:
            same_outside(ours, kept_outside(twin))
            continue
        forcer.values = [joined(release.notes, forcer.exact) for release in published]
        forced.append(forcer)
    costs = [priced(agent, published, *pair, unseen) for pair in combinations(forced, 2)]
    for forcer in forced[1:]:
        same_noise(published, forcer)
    return costs, unseen


def last_of_batch(name: str, env_id: str, users: int, config: dict[str, Any], seed: int = 12) -> int:
    """Return the last user before the second release, or the last before the first, or of all."""
    env = environment(env_id, (users + 1) // 2)
    agent = watched(name, env, config, seed)
    agent.watcher = Writer()
    env.reset(seed=seed)
    before, end, ends = (0, copy.deepcopy(getattr(agent, "release", None))), 0, []
    for block in script(env, agent, users, np.zeros(1, int), ordinary(env)):
        end += len(block.feedback)
        if block.published != before[0] or encoded(block.release) != encoded(before[1]):
            ends.append(end - 1)
        before = block.published, block.release
    return ends[:2][-1] if ends else end - 1


def watched(name: str, env: Any, config: dict[str, Any], seed: int) -> AnyCurator:
    agent = make(name, env, seed=seed, **config)
    assert isinstance(agent, CentralAgent)
    return agent


def limited(agent: AnyAgent) -> bool:
    promise = agent.guarantee
    return any(bound is not None and bound < math.inf for bound in (promise.epsilon, promise.rho))


def ordinary(env: Any) -> Record:
    context = env.upcoming(1)
    action = np.asarray([env.action_space.sample()])
    return Record(context[0], action[0], float(env.serve(action).feedback[0]))


def script(
    env: Any, agent: AnyCurator, users: int, target: Array, record: Record, beside: Mapping[int, Record] | None = None
) -> list[Block]:
    """Serve users, some of whom have the given record, and others theirs; return the script of their actions."""
    blocks, chose = [], list[tuple[Array, Array, Array, Array]]()

    def served() -> Iterator[Records]:
        start = 0  # one of the users was drawn before
        while start < users - 1:
            # at most 7 at once, or a hundredth, so that schedules are looked at between releases too
            n = min(agent.frozen_rounds(), users - 1 - start, max(7, users // 100))
            contexts, own = env.upcoming(n), target - start
            neighbours = [(np.array([place - start]), one) for place, one in (beside or {}).items()]
            for row, one in neighbours:
                contexts = with_target(contexts, row, one.context)
            actions = chosen = np.asarray(agent.select_action(with_target(contexts, own, record.context)))
            feedback = np.asarray(env.serve(actions).feedback, np.float64)
            for row, one in neighbours:
                actions, feedback = with_target(actions, row, one.action), with_target(feedback, row, one.feedback)
            chose.append((chosen, contexts, actions, feedback))
            yield replaced(agent, Records(contexts, actions, feedback), own, record, start)
            start += n

    for _, released in shown(agent, served()):
        writer = agent.watcher
        published = len(writer.notes) if isinstance(writer, Writer) else 0
        blocks.append(Block(*chose.pop(), copy.deepcopy(released), agent.frozen_rounds(), published))
    return blocks


def shown(agent: AnyCurator, blocks: Iterable[Records]) -> Iterator[tuple[int, Any]]:
    """Serve blocks of users; yield after each how many came, and the release."""
    users = 0
    for block in blocks:
        agent.update(block.contexts, block.actions, block.feedback, *(() if block.ids is None else (block.ids,)))
        users += len(block.feedback)
        yield users, getattr(agent, "release", None)


def with_target(column: Array, rows: Array, value: Any) -> Array:
    """Return a copy of a block's column in which the target has a value of its own, in the rows that it has."""
    holds = column.dtype if column.dtype.kind == "f" else np.result_type(column, np.asarray(value))
    column = column.astype(holds)
    column[rows[(rows >= 0) & (rows < len(column))]] = value
    return column


def replaced(agent: AnyCurator, users: Records, rows: Array, record: Record, start: int) -> Records:
    """Return a block of users with the target's record in some rows; to an agent with people the target is 0.

    All others come once. ``start`` users came before.
    """
    ids = np.arange(start + 1, start + len(users.feedback) + 1)
    return Records(
        with_target(users.contexts, rows, record.context),
        with_target(users.actions, rows, record.action),
        with_target(users.feedback, rows, record.feedback),
        None if agent.people_seen is None else with_target(ids, rows, 0),
    )


def follow(
    twin: AnyCurator, blocks: list[Block], target: Array, record: Record, forcer: Forcer, in_time: bool = True
) -> None:
    """Serve a twin the script's users but some; compare its output with the script, and its schedule if ``in_time``."""

    def served() -> Iterator[Records]:
        start = 0
        for block in blocks:
            rows = target - start
            users = replaced(twin, Records(block.contexts, block.actions, block.feedback), rows, record, start)
            chosen = np.asarray(twin.select_action(users.contexts))
            others = np.ones(len(chosen), bool)
            others[rows[(rows >= 0) & (rows < len(chosen))]] = False
            assert np.array_equal(chosen[others], block.chosen[others]), (
                f"{forcer.what}: other users' actions differ though all releases are the same; raw data are read"
            )
            yield users
            start += len(chosen)

    for block, (users, released) in zip(blocks, shown(twin, served()), strict=True):
        assert len(forcer.exact) == block.published, (
            f"{forcer.what}: publishes less than its twin after {users} users; when it does must not depend on data"
        )
        if forcer.script:
            assert encoded(released) == encoded(block.release), (
                f"{forcer.what}: release differs after {users} users though all that was published is the same; "
                "raw data are read, or noise is drawn outside of publish()"
            )
        elif block.release is not None:
            twin.release = copy.deepcopy(block.release)
        assert not in_time or twin.frozen_rounds() == block.frozen, (
            f"{forcer.what}: frozen_rounds() differs after {users} users; when the policy changes must be public"
        )


def priced(agent: AnyCurator, published: list[Release], one: Forcer, two: Forcer, unseen: set[str]) -> Cost:
    """Return the total cost of a pair of records; fail if any part exceeds its price, or the sum the promise."""
    total, groups, what = Cost(), set(), f"{one.what}, against {two.what}"
    for release, exact, other in zip(published, one.values, two.values, strict=True):
        try:
            cost = loss(release.mechanism, exact, other, release.released)
        except LookupError as error:
            unseen.add(str(error.args[0]))
            if release.group is not None and moved(exact, other):
                groups.add(release.group)
            continue
        exceeds = (
            f"{what}: {type(release.mechanism).__name__} costs {in_words(cost)}; it may cost {in_words(release.price)}"
        )
        assert release.price is None or within(cost, release.price, agent.guarantee.delta), exceeds
        total = total + cost
        if cost != Cost() and release.group is not None:
            groups.add(release.group)
    assert len(groups) < 2, f"{what}: the user counts in groups {sorted(groups)}; groups are disjoint users"
    promised(agent, total, what)
    return total


def moved(exact: Any, other: Any) -> bool:
    """Return whether two exact values differ by more than rounding; functions are not compared."""
    one, two = numbers(exact), numbers(other)
    size = max(float(np.abs(value).max(initial=0.0)) for value in (one, two))
    return one.shape != two.shape or not np.allclose(one, two, rtol=0, atol=ROOM * size + 1e-9)  # sums may cancel


def same_noise(published: list[Release], forcer: Forcer) -> None:
    """Fail if a twin with the same generators draws other noise: then it hides another value than the named one."""
    for release in published:
        exact, drawn = (joined(release.notes, [pair[part] for pair in forcer.drawn]) for part in (0, 1))
        try:
            here = standardised(release.mechanism, release.exact, release.released)
            there = standardised(release.mechanism, exact, drawn)
        except LookupError:
            continue
        assert here.shape == there.shape and np.allclose(here, there, rtol=1e-4, atol=1e-4), (
            f"{forcer.what}: {type(release.mechanism).__name__} draws something else than the exact value plus noise"
        )


def within(cost: Cost, price: Cost, delta: float | None) -> bool:
    """Return whether a cost is no more than a price: in zCDP if the price is, else in epsilon at its delta."""
    if not (price.epsilon or price.pure or price.delta):
        return cost.as_rho() <= price.as_rho() * (1 + ROOM)
    at = max(delta or 0.0, price.delta)
    return cost.at(at) <= price.at(at) * (1 + ROOM)


def promised(agent: AnyCurator, cost: Cost, what: str) -> None:
    promise = agent.guarantee
    if promise.rho is not None:
        assert cost.as_rho() <= promise.rho * (1 + ROOM), (
            f"{what}: costs rho = {cost.as_rho():.6g} of {promise.rho:.6g}"
        )
    if promise.epsilon is not None:
        epsilon = cost.at(promise.delta or 0.0)
        assert epsilon <= promise.epsilon * (1 + ROOM), (
            f"{what}: costs epsilon = {epsilon:.6g} of {promise.epsilon:.6g}"
        )


def spent_within_promise(agent: AnyCurator, published: list[Release]) -> None:
    """Fail if the ledger exceeds the guarantee, or the publications the ledger."""
    spent = agent.ledger.spent()
    promised(agent, spent, "the ledger")
    everyone, groups = Cost(), dict[int, Cost]()
    for release in published:
        price = release.price or Cost()
        if release.group is None:
            everyone = everyone + price
        else:
            groups[release.group] = groups.get(release.group, Cost()) + price
    made = everyone + reduce(or_, groups.values(), Cost())
    unpaid = f"releases cost {in_words(made)}, but {in_words(spent)} is in the ledger"
    assert within(made, spent, agent.guarantee.delta), unpaid
