"""Rewards that are smooth in the context, under local privacy, with or without auxiliary records.

Yuheng Ma, Feiyu Jiang, Zifeng Zhao, Hanfang Yang and Yi Yu, "Locally Private Nonparametric Contextual Multi-armed
Bandits with Transfer Learning", arXiv 2503.08098, 2025. The abstract and its authors' code were read for this, and not
the text: no equation is quoted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.agent import next_change, refuse_people
from privbandit_agents.base.labels import Floats, in_unit_cube
from privbandit_agents.base.local import ENTRIES_AT_ONCE, Inputs
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.settings import Budget, Count, HalfOpen01, NonNegative, Positive, PrivateSettings
from privbandit_agents.base.spaces import Action, Array, Feedback, Space, n_arms, one_context
from privbandit_agents.base.ties import best, largest
from privbandit_agents.local.sums import SummedReports
from privbandit_agents.local.trees.partition import grow
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer

REWARD, ASKED, NOISE, PLACE, PLACED, BLUR = range(6)  # columns of the sums
LOGGED, SERVED = range(2)  # sources: auxiliary records, and own users


@dataclass(frozen=True)
class Config(PrivateSettings):
    """Settings of ``smooth-ldp``.

    Attributes:
        epsilon: privacy budget of every user's report, > 0; infinity adds no noise.
        horizon: expected number of users, which limits how small cells may get; None: 10 000.
        exponent: beta, how smooth the rewards are, in (0, 1].
        steepness: L, > 0: a cell of side h is halved when means are known up to L h^beta, and arms of means more than
            2 L h^beta apart may be told apart in it.
        width: c of the radius sqrt(c log T) of a confidence interval in standard deviations, >= 0.
        report: ``"signed-subset"``, or ``"laplace"``: whether a user is in a cell and had an arm, and that times the
            reward, with noise of scale 4 / epsilon on all of them, as the paper's authors do.
        auxiliary: whether auxiliary records are ``"private"``, and report like users do, or ``"public"``.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded; not for ``"laplace"``.
    """

    epsilon: Budget = 1.0
    horizon: Count | None = None
    exponent: HalfOpen01 = 1.0
    steepness: Positive = 1.0
    width: NonNegative = 0.5
    report: Literal["signed-subset", "laplace"] = "signed-subset"
    auxiliary: Literal["private", "public"] = "private"
    noise: Literal["numpy", "secure"] = "numpy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise == "secure" and self.report == "laplace":
            raise ValueError("noise='secure' is for reports of whole numbers; take report='signed-subset'.")


class SmoothLDP(SummedReports[Config]):
    """Cells that are halved, arms that are eliminated in each, by one private report of cell and reward.

        the cube is one cell, and all arms are left in it
        for every run of users
            all play an arm that is left in their own cell: in every other run the best one so far, else the next
            all report their cell together with 2 y - 1, or in one run of eight with 1
        after every run, in every cell with more than one arm left
            arms are eliminated that are worse than another one by more than noise and the cell's size explain
            the cell is halved if the noise is below what rewards may vary within it

    The arm is no part of the report: turns are public, so that cell and run give the arm. Halves begin with the arms
    of the whole. Users in a cell with one arm left report no cell.

    ``learn_logged`` takes auxiliary records, of users who had arms of somebody else's choosing: they go through the
    same steps before the first user and report cell and arm (private), or are counted in every cell (public). In each
    cell the two sources are weighted by their precision.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record: one report a user, a single
    draw of a randomizer whose likelihood ratio is at most e^epsilon for any two inputs (cell, value), the inactive one
    included. Cells, turns and kinds of runs follow from earlier reports and constants. A record with another arm than
    the cell's reports 0, a fair sign, and so does a reward that is not finite; a coordinate that is not finite counts
    as 1/2. Auxiliary records have the same promise if they are private, and none if they are public. Proof:
    docs/privacy/smooth-rewards.md, Theorem 1; regret: Theorem 2 there.

    Deviations:
        The authors' code has Laplace noise of scale 4 / epsilon, as here with ``report="laplace"``, but in the cell of
        the user alone, which shows where the user is: here a report has noise in all cells. There a user draws one of
        the arms left at random, and the radius has constants of its own.

    Attributes:
        open: nodes of the tree that are cells now, shape (m,).
        left: which arms are left in every node, shape (V, K).
        order: in which arms have their turns, shape (K,).
        sums: by source, node and arm: of reported rewards, users asked for them, their noise's variance, and the same
            of places, shape (2, V, K, 6).
        total: of this run.
        run: number of this one.
        since: users before this run.
        logged: how many auxiliary records were taken in.
    """

    Config = Config
    fixed: ClassVar[frozenset[str]] = SummedReports.fixed | {"tree", "level", "cell_of", "turn", "undecided"}
    proof = "docs/privacy/smooth-rewards.md"
    asks_anew = True  # reports are about the cells and arms of this run
    device: LocalRandomizer

    @staticmethod
    def plays(observation_space: Space, action_space: Space) -> str:
        needs = one_context(observation_space, action_space) or in_unit_cube(observation_space)
        return needs and "arms that share one context in [0, 1]^d"

    def begin(self) -> None:
        super().begin()
        self.n_arms, (self.dim,) = n_arms(self.action_space), self.context_shape
        rows = np.zeros((0, self.dim)), np.zeros(0, np.int64)
        self.tree = grow("max-edge", *rows, self.depth)
        self.level = np.zeros(len(self.tree.feature), np.int64)
        for level, nodes in enumerate(self.tree.levels):
            self.level[nodes] = level
        self.open = np.zeros(1, np.int64)
        self.left = np.ones((len(self.level), self.n_arms), bool)
        self.order = self.rng.spawn(1)[0].permutation(self.n_arms)
        self.sums = np.zeros((2, *self.left.shape, 6))
        self.since, self.logged, self.run, self.total = 0, 0, 0, np.zeros(0)
        self.lay_out()
        sizes = range(self.depth + self.n_arms.bit_length() + 1)
        self.equip(self.device, exact=all(self.randomizer(2**size).arithmetic == "exact" for size in sizes))

    @property
    def depth(self) -> int:
        """How often the cube may be halved: as often as without noise, and at most 12 times."""
        users = math.log2(self.expected)
        return min(12, math.ceil(self.dim * users / (2 * self.config.exponent + self.dim)))

    @property
    def expected(self) -> int:
        """How many users will come, at least 2."""
        return max(self.config.counted(self.config.horizon or 10_000), 2)

    def add_arms(self, names: Sequence[str]) -> None:
        """Raise TypeError: an arm that nobody may get yet would be eliminated as others are."""
        raise TypeError(f"{self.name} eliminates arms, which no arm joins later: make another agent for other arms.")

    def lay_out(self) -> None:
        """Let devices know the cells: what follows from open nodes, the arms left and the number of the run."""
        undecided = np.flatnonzero(self.left[self.open].sum(axis=1) > 1)
        device = self.randomizer(max(len(undecided), 1) * (1 if self.signed else self.n_arms))
        left, ranks = self.left[self.open][:, self.order], np.arange(len(self.open))
        turn = np.argsort(~left, axis=1, kind="stable")[ranks, self.run // 2 % left.sum(axis=1)]
        if self.run % 2:
            turn = largest(self.estimates()[0][:, self.order], left).argmax(axis=1)
        below = np.zeros((len(self.level), 1))
        below[self.open, 0] = np.arange(1, len(self.open) + 1)
        for nodes in self.tree.levels[1:]:
            below[nodes] += below[self.tree.parent[nodes]]
        cell_of = below[self.tree.of_leaf, 0].astype(np.int64) - 1
        # the device and its sum at once: whatever is raised, reports fit
        total = self.total if self.total.size == device.entries else np.zeros(device.entries)
        self.undecided, self.turn, self.cell_of = undecided, self.order[turn], cell_of
        self.device, self.total = device, total

    restored = lay_out

    @property
    def signed(self) -> bool:
        return self.config.report == "signed-subset"

    def randomizer(self, cells: int) -> LocalRandomizer:
        """Return what makes reports on that many cells; on a power of two, of which few have to be exact."""
        if not self.signed:
            return LaplaceOneHot(self.config.epsilon, cells, 2, bound=2.0)
        return SignedSubset(self.config.epsilon, 1 << (cells - 1).bit_length(), noise=self.config.noise)

    # on the devices

    def places(self, context: Array) -> NDArray[np.int64]:
        """Return the number among open nodes of each context's cell, contexts (..., d) to (n,)."""
        return np.asarray(self.cell_of[self.tree.find(in_cube(np.reshape(context, (-1, self.dim))))])

    def select_action(self, context: Array) -> Action:
        """Return the arm whose turn it is in the user's cell; if it is absent, the present one that looks best."""
        cells = self.places(context)
        arms = self.turn[cells]
        if self.visit.mask is not None:
            here = np.broadcast_to(self.visit.mask, (len(cells), self.n_arms))
            away = ~here[np.arange(len(cells)), arms]
            arms = np.where(away, best(self.estimates()[0][cells], self.ties), arms)
        return arms if context.ndim > 1 else int(arms[0])

    def placed(self, context: Array, action: Action, feedback: Feedback) -> tuple[Array, Floats]:
        cells, actions, rewards = self.places(context), np.asarray(action), np.asarray(feedback)
        told = np.isfinite(rewards) & (actions == self.turn[cells])
        signs = np.where(told, 2 * np.clip(np.where(told, rewards, 0.5), 0.0, 1.0) - 1, 0.0)
        own = self.numbered(cells)
        if not self.signed:
            own = np.where((own < 0) | ~told, -1, own * self.n_arms + self.turn[cells])
        return own, self.values(signs)

    def numbered(self, cells: Array) -> Array:
        """Return the numbers of open nodes (n,) among those that are undecided; -1 for others."""
        number = np.full(len(self.open), -1)
        number[self.undecided] = np.arange(len(self.undecided))
        return number[cells]

    def values(self, signs: Array) -> Floats:
        """Return what devices report beside a cell, given 2 y - 1 of n users: shape (n, D)."""
        if not self.signed:
            return np.stack([np.ones_like(signs), (1 + signs) / 2], axis=1)
        return np.ones((len(signs), 1)) if self.asks_places else signs[:, None]

    @property
    def asks_places(self) -> bool:
        """Whether this run asks where users are, and not for rewards."""
        return self.signed and self.run % 8 == 7  # one run in eight asks where users are

    # sums of reports, for simulation

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        if self.config.noise == "secure":
            return ""
        return "exact" if math.isinf(self.config.epsilon) or not self.signed else "normal"

    @property
    def fewest_summed(self) -> float:
        return 1 if self.device.exact_sum and self.config.noise == "numpy" else math.inf

    # on the server

    def learn(self) -> None:
        """Take in the run, and change cells and arms."""
        self.enter(SERVED, self.device, self.total.reshape(self.device.cells, -1), self.users - self.since)
        self.change()
        self.since = self.users

    def next_refit(self) -> int:
        return next_change(self.users, 1.05)  # a twentieth more users

    def learn_logged(self, contexts: Array, actions: Array, rewards: Array) -> None:
        """Take in auxiliary records before the first user: contexts (n, d), arms (n,) and rewards (n,).

        Raises:
            ValueError: users came before.
            TypeError: the records are private, and the promise is to people.
        """
        if self.users:
            raise ValueError(f"auxiliary records come before the first user; {self.users} came.")
        if self.config.auxiliary == "private":
            refuse_people(self)
        x, arms, y = self.records_of(contexts, actions, rewards)
        told = np.isfinite(y) & (arms >= 0)
        signs = np.where(told, 2 * np.clip(np.where(told, y, 0.5), 0.0, 1.0) - 1, 0.0)
        if self.config.auxiliary == "public":
            self.count(x[told], arms[told], signs[told])
            return
        for part in blocks(self.next_logged, x, np.where(told, arms, -1), signs):
            self.pay(len(part[0]))
            asked = self.logged_inputs(*part)
            device = cast(LocalRandomizer, asked.randomizer)
            self.logged += len(part[0])
            self.enter(LOGGED, device, device.estimate_sum(asked.randomize(self.rng)), len(part[0]))
            self.change()

    def next_logged(self) -> int:
        """Return how many more auxiliary records report before cells and arms change."""
        room = max(1, ENTRIES_AT_ONCE // (self.device.cells * self.n_arms))
        return min(room, next_change(self.logged, 1.05) - self.logged)

    def logged_inputs(self, contexts: Array, arms: Array, signs: Array) -> Inputs:
        """Return the inputs of the devices of n auxiliary records, whose arms are no secret of the server's."""
        own = self.numbered(self.places(contexts))
        own = np.where((own < 0) | (arms < 0), -1, own * self.n_arms + arms)
        device = self.randomizer(max(len(self.undecided), 1) * self.n_arms)
        return Inputs(device, own, self.values(signs))

    def count(self, contexts: Array, arms: Array, signs: Array) -> None:
        """Count public records in every node of the tree."""
        self.logged += len(arms)
        leaves = np.zeros((self.tree.leaves, self.n_arms, 2))
        np.add.at(leaves, (self.tree.find(in_cube(contexts)), arms), np.stack([signs, np.ones_like(signs)], axis=1))
        nodes = self.tree.gather(leaves)
        self.sums[LOGGED, ..., REWARD] += nodes[..., 0]
        self.sums[LOGGED, ..., PLACE] += nodes[..., 1]
        self.sums[LOGGED, ..., [ASKED, PLACED]] += len(arms)
        self.change()

    def enter(self, source: int, device: LocalRandomizer, total: Floats, users: int) -> None:
        """Add the sum of a run's reports to those of the cells and arms that it was about."""
        if not len(self.undecided):
            return
        nodes, noise = self.open[self.undecided], users * device.variance(own=False)
        cells, arms, sums = np.arange(len(nodes)), self.turn[self.undecided], self.sums[source]
        if not self.signed:
            pairs = total.reshape(len(nodes), self.n_arms, 2)
            added_up = spread(2 * pairs[..., 1] - pairs[..., 0], users, 5 * noise, pairs[..., 0], users, noise)
            if source == SERVED:
                sums[nodes, arms] += added_up[cells, arms]
            else:
                sums[nodes] += added_up
            return
        told = total[: len(nodes)] if source == SERVED else total[: self.n_arms * len(nodes)].reshape(len(nodes), -1)
        if self.asks_places:
            sums[nodes] += spread(0, 0, 0, told, users, noise)
        elif source == SERVED:
            sums[nodes, arms] += spread(told[:, 0], users, noise, 0, 0, 0)
        else:
            sums[nodes] += spread(told, users, noise, 0, 0, 0)

    def estimates(self) -> tuple[Floats, Floats]:
        """Return the means of 2 y - 1 of every open node and arm, and their variances, shape (m, K) each."""
        sums = self.sums[:, self.open]
        asked, placed = np.maximum(sums[..., ASKED], 1e-9), np.maximum(sums[..., PLACED], 1e-9)
        share = np.clip(np.maximum(sums[..., PLACE], np.sqrt(sums[..., BLUR])) / placed, 1e-9, 1.0)
        means = np.clip(sums[..., REWARD] / (asked * share), -1.0, 1.0)
        own = max(self.device.variance(own=True) + 1 - self.device.variance(own=False), 0.0)
        precision = (asked * share) ** 2 / np.maximum(sums[..., NOISE] + own * asked * share, 1e-12)
        precision[(sums[..., ASKED] == 0) | (sums[..., PLACED] == 0)] = 0.0
        weight = np.maximum(precision.sum(axis=0), 1e-12)
        return (precision * means).sum(axis=0) / weight, 1 / weight

    def change(self) -> None:
        """Eliminate arms and halve cells as long as either changes anything, and begin the next run."""
        while self.eliminated():
            pass
        self.run, self.total = self.run + 1, np.zeros_like(self.total)
        self.lay_out()

    def eliminated(self) -> bool:
        """Take out the arms that are worse than another one of their cell; halve cells; return whether any was."""
        means, variances = self.estimates()
        squares = self.config.width * math.log(max(self.users + self.logged, self.expected)) * variances
        alive, level = self.left[self.open], self.level[self.open]
        within = 2 * self.config.steepness * 2.0 ** (-level * self.config.exponent / self.dim)
        noise = np.sqrt(squares[:, None, :] + squares[:, :, None])
        ahead = means[:, None, :] - means[:, :, None] > np.maximum(noise, 2 * within[:, None, None])
        alive = alive & ~(ahead & alive[:, None, :]).any(axis=2)
        self.left[self.open] = alive
        known = np.where(alive, np.sqrt(squares), 0.0).max(axis=1) <= within
        halved = known & (alive.sum(axis=1) > 1) & (level < self.depth)
        children = self.tree.children[self.open[halved]]
        self.left[children] = alive[halved][:, None]
        self.open = np.concatenate([self.open[~halved], children.ravel()])
        return bool(halved.any())

    def predict(self, contexts: Array) -> Array:
        """Return the estimated mean reward of every arm, in [0, 1], contexts (m, d) to (m, K)."""
        return (1 + self.estimates()[0][self.places(contexts)]) / 2


def in_cube(contexts: Array) -> Floats:
    """Return contexts within [0, 1]^d; a coordinate that is not finite is 1/2."""
    x = np.asarray(contexts, np.float64)
    return np.clip(np.where(np.isfinite(x), x, 0.5), 0.0, 1.0)


def spread(*columns: Floats | float) -> Floats:
    """Return arrays of one shape, or numbers in their place, side by side on a last axis."""
    return np.stack(np.broadcast_arrays(*columns), axis=-1)
