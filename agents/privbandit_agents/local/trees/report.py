"""The report of an LPCT user: a private signed one-hot (2 y - 1) e_leaf, or e_(leaf, label) for more labels.

The paper's report is (U, V) with Laplace noise of scale 4/epsilon. Its classifier reads only V - U/2, so one signed
entry in place of two vectors is enough, at a thirtieth of the variance and less.
"""

import math
from typing import Literal, get_args

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign
from privbandit_envs.validate import one_of

ENTRIES_A_BLOCK = 2**22  # entries of reports that are held at once
DEEPEST = 8  # largest default depth
Kind = Literal["laplace", "signed-subset", "ternary", "grr", "subset", "auto"]


class LeafReport:
    """A report of a leaf and a label, and unbiased estimates from it.

    With two labels the estimate has one column, with mean 2 y - 1 in the user's leaf and 0 elsewhere; with more it
    has one for each label, with mean 1 in the user's leaf and label. An inactive user (label -1) has mean 0 everywhere;
    with two labels and a categorical release nobody may be inactive.

    *Formal guarantees.* Pure epsilon-local DP of the whole report under replacement of the user's record, the leaf and
    the label together: it is one draw of a randomizer of ``privacy.randomizers`` on one cell and one value, whatever
    the leaf and the label are. The leaves must be fixed before any private record is seen.

    Args:
        kind: ``"laplace"`` (with two labels the paper's: U and V, scale 4/epsilon each), ``"signed-subset"``,
            ``"ternary"`` (independent entries in {-1, 0, 1}), ``"grr"`` (k-ary randomized response over leaf and
            label), ``"subset"`` (subset selection over leaf and label; for more than two labels), or ``"auto"``: the
            one with the least variance of an entry if every leaf has 1/m of the users.
        epsilon: > 0, or infinity.
        leaves: m.
        labels: K >= 2.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers, unseeded; not for ``"laplace"``.
        apart: with two labels and ``"laplace"``, estimate U and V in two columns, in place of 2 V - U in one.

    Attributes:
        variance: of an entry of the estimate given the record, in (another leaf, the own one).
    """

    def __init__(
        self, kind: str, epsilon: float, leaves: int, labels: int, noise: str = "numpy", apart: bool = False
    ) -> None:
        self.leaves, self.labels, self.apart = leaves, labels, apart
        self.signed = labels == 2
        self.columns = (2 if apart else 1) if self.signed else labels
        if one_of(get_args(Kind), report=kind) == "subset" and self.signed:
            raise ValueError("report='subset' is for more than two labels; use 'auto'.")
        kinds = ("grr", "signed-subset" if self.signed else "subset") if kind == "auto" else (kind,)
        built = [(kind, self.build(kind, epsilon)) for kind in kinds]
        spreads = [self.spread(*pair) for pair in built]
        best = int(np.argmin(np.round(np.array(spreads) / max(min(spreads), 1e-300), 6)))
        self.kind, self.randomizer = built[best]
        self.variance = self.variances(self.kind, self.randomizer)
        if secure.check(noise) == "secure" and not self.randomizer.discrete:
            raise ValueError(
                f"noise='secure' is for reports of whole numbers, not for report={self.kind!r}; take lpct."
            )
        self.randomizer.noise = noise

    def build(self, kind: str, epsilon: float) -> LocalRandomizer:
        cells = self.leaves * (1 if self.signed else self.columns)
        if kind == "grr":
            return KaryRandomizedResponse(epsilon, self.leaves * self.labels, allow_inactive=not self.signed)
        if kind == "subset":
            return SubsetSelection(epsilon, cells)
        if kind == "laplace":
            return LaplaceOneHot(epsilon, cells, 2, bound=2.0) if self.signed else LaplaceOneHot(epsilon, cells)
        return SignedSubset(epsilon, cells) if kind == "signed-subset" else BinCapSign(epsilon, cells, 1)

    def variances(self, kind: str, randomizer: LocalRandomizer) -> tuple[float, float]:
        """Return the variance of an entry, given the record, in another leaf and in the own one."""
        other, own = randomizer.variance(own=False), randomizer.variance(own=True)
        if not self.signed or math.isinf(randomizer.epsilon):
            return other, own
        if isinstance(randomizer, KaryRandomizedResponse):
            lie, truth = randomizer.lie, randomizer.truth
            return 2 * lie / truth**2, (2 * lie + truth) / truth**2 - 1
        return (5 * other, 5 * own) if kind == "laplace" else (other, own)

    def spread(self, kind: str, randomizer: LocalRandomizer) -> float:
        """Return the variance of an entry if every leaf has 1/m of the users."""
        other, own = self.variances(kind, randomizer)
        return other + (own - other) / (self.leaves * (1 if self.signed else self.labels))

    def encode(self, leaf: Labels, label: Labels) -> tuple[Labels, Floats | None]:
        """Return each user's cell and value; a label of -1 is an inactive user's."""
        if self.randomizer.categorical or not self.signed:
            cells: Labels = np.where(label < 0, -1, leaf * self.labels + label)
            return cells, None if self.randomizer.categorical else np.ones((len(leaf), 1))
        sign: Floats = np.asarray(2.0 * label[:, None] - 1, np.float64)
        own: Labels = np.where(label < 0, -1, leaf)
        return own, np.concatenate([np.ones_like(sign), (1 + sign) / 2], axis=1) if self.kind == "laplace" else sign

    def randomize(self, leaf: Labels, label: Labels, rng: Generator) -> Array:
        return self.randomizer.randomize(*self.encode(leaf, label), rng)

    def estimate(self, reports: Array) -> Floats:
        return self.entries(self.randomizer.estimate(reports))

    def summed(self, leaf: Labels, label: Labels, rng: Generator) -> Floats:
        """Draw the reports of n users, and return the sum of their estimates, shape (m, columns)."""
        users = max(ENTRIES_A_BLOCK // (self.leaves * self.columns), 1)
        parts = blocks(lambda: users, leaf, label)
        sums = [self.randomizer.estimate_sum(self.randomize(own, told, rng)) for own, told in parts]
        return self.entries(np.sum(sums, axis=0)[None])[0] if sums else np.zeros((self.leaves, self.columns))

    def total(self, leaf: Labels, label: Labels, rng: Generator) -> Floats:
        """Draw the sum of all users' estimates at once, shape (m, columns).

        By its exact law where the randomizer has one, else from the Gaussian of the same mean and variances.
        """
        found = np.bincount(leaf * (self.labels + 1) + label + 1)
        pairs = np.flatnonzero(found)
        inputs = self.encode(pairs // (self.labels + 1), pairs % (self.labels + 1) - 1)
        return np.asarray(self.entries(self.randomizer.approximate_sum(*inputs, rng, found[pairs])[None])[0])

    def entries(self, estimates: Floats) -> Floats:
        """Turn estimates of the randomizer's cells (n, cells, D) into those of the leaves' entries."""
        if self.signed and self.randomizer.categorical:
            pairs = estimates.reshape(len(estimates), self.leaves, 2)
            return pairs[..., 1:] - pairs[..., :1]
        if self.signed and self.kind == "laplace" and not self.apart:
            return 2 * estimates[..., 1:] - estimates[..., :1]
        return estimates.reshape(len(estimates), self.leaves, self.columns)  # U and V too, if they are kept apart


def chosen_depth(kind: str, epsilon: float, labels: int, users: int, least: int) -> int:
    """Return the depth that ``users`` users can fill, in [least, 8].

    The depth is the largest of floor(log2(users / (a + variance)) / 2 - b) over two pairs (a, b), which were
    measured on the paper's synthetic law. Leaves may have few users if there is hardly any noise.

    Args:
        kind: of the report.
        epsilon: > 0, or infinity.
        labels: K.
        users: how many are expected; a public number.
        least: smallest depth.
    """
    depth = least
    while depth < DEEPEST:
        other, _ = LeafReport(kind, epsilon, 2 ** (depth + 1), labels).variance
        if all(math.log2(users / (a + other)) / 2 - b < depth + 1 for a, b in ((1.0, 0.6), (0.02, 1.3))):
            break
        depth += 1
    return depth


def least_depth(partition: str, labels: int) -> int:
    """Return the smallest default depth: 4, or with ``"cart"`` 4 + log2(labels), at most 8.

    Cuts that separate the public rows' labels are worth having however few users come, since means are shrunk.
    """
    return min(4 + math.ceil(math.log2(labels)), DEEPEST) if partition == "cart" else 4
