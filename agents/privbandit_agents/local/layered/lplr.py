"""LPLR: layered private linear regression under action elimination.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024. ``Elimination`` is Algorithm 1, ``Oracle`` Algorithms 2 to 5; bins and Algorithm 6 are in ``forest.py``, a user's
report is in ``report.py``. This is the algorithm as published; the agent ``lplr`` and the oracle of its default preset,
which shares one regression among arms and epochs, are in ``practical.py``.
"""

import copy
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from privbandit_agents.base.guarantee import warn_unproven
from privbandit_agents.base.records import played
from privbandit_agents.base.settings import (
    MOST,
    Budget,
    Calibration,
    Count,
    Growth,
    Open01,
    Positive,
    PrivateSettings,
    Within,
)
from privbandit_agents.base.spaces import Action, Array, Feedback, arms_with_features, n_arms
from privbandit_agents.base.ties import best
from privbandit_agents.local.layered.forest import Forest, Place
from privbandit_agents.local.layered.report import Layout, Release, Report
from privbandit_agents.local.sums import SummedReports
from privbandit_agents.privacy.contributions.moments import Lifted, sanitise
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer

ROUNDING = 1e-9  # tolerance for eigenvalues of an empty sum
PRESETS: dict[str, dict[str, Any]] = {
    "practical": {
        "oracle": "shared", "width": "difference", "confidence": "analytic", "gamma": math.sqrt(2),
        "calibration": "correct",
    },
    "published": {
        "oracle": "per-arm", "width": "sum", "confidence": "published", "gamma": math.e,
        "calibration": "published",
    },
}  # fmt: skip
FROM_PRESET: Any = None


@dataclass(frozen=True)
class Config(PrivateSettings):
    """Settings of LPLR; None takes the preset's value.

    Attributes:
        epsilon: privacy budget alpha of every user's report, > 0; infinity adds no noise.
        preset: ``"practical"`` has one theta for all arms and epochs, and widths of differences; ``"published"`` is
            the paper's algorithm with the constants of its theorems and its noise, which is not private.
        calibration: ``"correct"``, or ``"published"`` for the paper's noise (Laplace and Wishart), which is not
            private; with ``preset="published"``, ``"correct"`` keeps the structure and has a guarantee.
        release: ``"hemisphere"``, ``"bin-cap"``, ``"laplace"``, or ``"wishart-difference"`` (Laplace noise on the
            moment, a difference of Wishart matrices on the matrix; half of epsilon each).
        oracle: ``"shared"`` by all arms, or one ``"per-arm"``.
        width: an arm is eliminated by the width of the ``"difference"`` to another one, or by the ``"sum"`` of both
            widths.
        confidence: ``"analytic"`` widths, from the variance of the release; or ``"published"`` ones (Algorithm 5), for
            which half of the users are set aside.
        gamma: ratio of the norms of neighbouring bins, > 1; M = ceil(ln T / (2 ln gamma)) bins a layer. The paper's
            beta is ln gamma / ln T.
        z: analytic widths (in ``practical.py``) in standard deviations, > 0; 1.5 covers about 87 % of the design
            offline, 2 covers 95 %.
        bins: the most active bins of a layer, >= 1; the paper's M^h are too many to report on.
        kappas: kappa_1, kappa_1', kappa_2, kappa_3 of published widths; None: the values of the lemmas.
        first: users of the first epoch, >= 1; the horizon makes it the whole run.
        growth: of the epochs, > 1.
        share: share of an epoch's users that report on layer 1 of the shared oracle, in (0, 1); the other layers share
            the rest evenly.
        horizon: number of users T.
    """

    epsilon: Budget = 1.0
    preset: Literal["practical", "published"] = "practical"
    calibration: Calibration = FROM_PRESET
    release: Release = "hemisphere"
    oracle: Literal["shared", "per-arm"] = FROM_PRESET
    width: Literal["sum", "difference"] = FROM_PRESET
    confidence: Literal["analytic", "published"] = FROM_PRESET
    gamma: Annotated[float, Within(1.01, 1e6)] = FROM_PRESET
    z: Positive = 1.5
    bins: Count = 32
    kappas: tuple[float, float, float, float] | None = None
    first: Count = 500
    growth: Growth = 2.0
    share: Open01 = 0.3
    horizon: Count = 10_000

    def __post_init__(self) -> None:
        for name, value in PRESETS.get(self.preset, {}).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        super().__post_init__()
        kappas = np.zeros(4) if self.kappas is None else np.asarray(self.kappas)
        if kappas.shape != (4,) or not ((kappas >= 0) & (kappas <= MOST)).all():
            known = f"four numbers in [0, {MOST:g}], or None for those of the lemmas"
            raise ValueError(f"kappas must be {known}; got {self.kappas!r}.")
        if self.width == "difference" and (self.oracle, self.confidence) != ("shared", "analytic"):
            raise ValueError("width difference needs oracle shared and confidence analytic; take width sum instead.")
        if self.calibration == "published" and self.confidence == "analytic":
            needs = "confidence published: the paper's noise is on its statistics"
            raise ValueError(f"calibration published needs {needs}.")


class Oracle:
    """Epochs of d layers (Alg. 2): half of a layer's users fit the bins, the others measure the earlier layers' error.

    Every tree has estimates of its own. An epoch ends after layer d, or earlier when no bin of a layer is active.

    Args:
        config: of LPLR.
        dim: d.
        arms: K.

    Attributes:
        forest: the bins; the trees of the current epoch begin at the node ``root``.
        layer: h of the current users.
        frontier: first of the ``bins`` active nodes of layer h - 1; the users report on their children.
        randomizer: of the current users' reports.
        checking: whether the current users are the second half.
        psi: share of the users in each of the layer's active bins, shape (bins,).
        strength: s, top eigenvalue of E[phi_h phi_h' | B], of each, shape (bins,).
        scale: gamma^-k of each, shape (bins,).
        layer_nodes: the nodes of these bins.
        first_roots: node of the first root of every epoch that is over.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"randomizer"})
    exact: ClassVar[bool] = False
    """Whether all reports are as exact as their randomizer: Laplace noise on widths is for real numbers."""
    report: Report
    randomizer: LocalRandomizer
    checking: bool = False

    def __init__(self, config: Config, dim: int, arms: int) -> None:
        self.config, self.dim = config, dim
        self.tree_of_arm = np.arange(arms) if config.oracle == "per-arm" else np.zeros(arms, dtype=np.intp)
        users = config.counted(config.horizon)
        levels = math.ceil(math.log(users) / (2 * math.log(config.gamma)))  # M = ceil(1 / (2 beta))
        self.forest = Forest(dim, config.gamma, max(1, levels))
        self.epoch = 0
        self.begin()
        self.open()

    def begin(self) -> None:
        """Begin without estimates."""
        self.checking = False
        self.psi, self.strength, self.scale = np.zeros(0), np.zeros(0), np.zeros(0)
        self.layer_nodes, self.first_roots = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)

    @property
    def trees(self) -> int:
        return int(self.tree_of_arm[-1]) + 1

    @property
    def cells(self) -> int:
        """Number of bins that the current users report on: all that any context and arm could reach."""
        return self.bins * self.forest.levels

    def open(self) -> None:
        self.root = self.forest.plant(self.trees)
        self.layer, self.frontier, self.bins = 1, self.root, self.trees
        self.prepare()

    def prepare(self) -> None:
        """Set up the current users' report; a width is one number, which the published noise covers by half."""
        c = self.config
        layout = Layout.of(self.dim, self.layer - 1, *self.weights())
        self.report = Report.of(c.release, c.epsilon, self.cells, layout, c.calibration == "published")
        self.randomizer = self.report.randomizer
        if self.checking:
            # replacing a user moves two cells: scale 2 / epsilon; the paper's is 1 / epsilon
            claimed = 2 * c.epsilon if c.calibration == "published" else c.epsilon
            self.randomizer = LaplaceOneHot(claimed, len(self.layer_nodes))

    def weights(self) -> tuple[float, float, float]:
        """Return the weights of the count, of v q' and of v v' relative to the weight of y v."""
        return 1.0, 0.0, 1.0

    def users(self) -> int:
        """Return how many users the current layer has."""
        return max(1, int(self.config.first * self.config.growth**self.epoch * self.share()))

    def share(self) -> float:
        """Return which share of the epoch's users report on the current layer."""
        return 1 / (2 * self.dim)

    # on the devices

    def records(self, x: Array, y: Array, arms: Array) -> tuple[Array, Lifted]:
        """Return users' cells, -1 for inactive ones, and their statistics (Alg. 3), shapes (n,) and (n, D).

        ``Layout`` holds each statistic to norm 1; the randomizer covers the replacement of one by another.

        Args:
            x: features in the unit ball, shape (n, d).
            y: rewards in [-1, 1], shape (n,).
            arms: shape (n,).
        """
        if self.checking:
            return self.errors(x, self.root + self.tree_of_arm[arms])
        forest = self.forest
        if self.layer == 1:  # no path yet: y is within its bound, and there is nothing along
            level = forest.level(x)
            cells = self.tree_of_arm[arms] * forest.levels + level
            v = x / forest.scale(level)[:, None]
            return np.where(level < forest.levels, cells, -1), self.report.layout.lift(v, y, np.empty((len(x), 0)))
        # the user's bin
        place = forest.descend(x, self.root + self.tree_of_arm[arms], self.layer - 1)
        level = forest.level(place.rest)
        cells = (place.node - self.frontier) * forest.levels + level
        cells = np.where((place.node >= 0) & (level < forest.levels), cells, -1)
        # what the path leaves of features and reward
        v = place.rest / forest.scale(level)[:, None]
        left = y - place.predicted
        if self.config.calibration == "correct":
            bound = self.largest(place.node)
            left = np.clip(left, -bound, bound) / bound
        # the features along the path, whose weight is 0 here and positive in the shared oracle
        h = self.layer - 1
        q = (forest.path[place.node, :h] @ x[:, :, None])[..., 0]
        q = q / np.maximum(self.norms(place.node), np.finfo(float).tiny)
        return cells, self.report.layout.lift(v, left, q)

    def errors(self, x: Array, roots: Array) -> tuple[Array, Lifted]:
        """Return users' cells, and eta |u . phi| gamma^k in [0, 1] (Alg. 5, l. 3-4); eta is 0 on layer 1."""
        above = self.forest.descend(x, roots, self.layer - 1)
        node = self.forest.descend(x, roots, self.layer).node
        along = np.abs(np.vecdot(x, self.forest.direction(node))) / self.forest.scale(self.forest.level(above.rest))
        cells = np.where(node >= 0, node - self.layer_nodes[0], -1)
        return cells, Lifted((above.width * along)[:, None], np.zeros((len(x), 0)))

    def largest(self, node: Array) -> Array:
        """Return c = min(2, 1 + sum of gamma^(-k_l) |theta_l|), to which y_h is clipped below a node."""
        return np.minimum(2.0, 1.0 + self.forest.reach(node))

    def norms(self, node: Array) -> Array:
        """Return sqrt(h - 1) times the bounds of the coordinates along the path, (n, h - 1); q is relative to them."""
        h = self.layer - 1
        return np.asarray(self.forest.norms[node, :h] * math.sqrt(max(h, 1)))

    # on the server

    def learn(self, total: Array, users: int) -> None:
        """Take in the sum of the estimates of the current users; go on to the next."""
        if self.checking:
            self.check(total[:, 0], users)
        else:
            self.fit(total, users)
        self.checking = not self.checking and len(self.layer_nodes) > 0
        if self.checking:
            self.prepare()
        else:
            self.descend_to(self.layer_nodes)

    @property
    def kappas(self) -> Array:
        """kappa_1, kappa_1', kappa_2, kappa_3: the settings, or what Lemmas 2 and 3 ask for with delta = 1 / T^2."""
        c = self.config
        if c.kappas is not None:
            return np.array(c.kappas, dtype=float)
        horizon = max(2, c.counted(c.horizon))
        beta, delta = math.log(c.gamma) / math.log(horizon), 1 / horizon**2
        logs = [math.log(number * self.dim / (beta * delta)) for number in (48, 48, 24, 48)]
        return np.asarray(np.array([43, 15, 118, 300]) * logs / c.epsilon)

    def fit(self, total: Array, users: int) -> None:
        """Fit principal component regressions in the bins with enough users (Alg. 4, l. 2-8)."""
        d, gamma, forest = self.dim, self.config.gamma, self.forest
        count, moment, _, gram = self.report.layout.unpack(total)
        parent, level, values, vectors = self.spectra(gram)
        least = self.kappas[0] * gamma**2 * (d + 1) ** 3 / math.sqrt(users)
        row = np.flatnonzero((count / users > least) & (values[:, -1] > ROUNDING) & ~forest.closed[parent])
        row = self.strongest(row, forest.scale(level[row]) * values[row, -1])
        scale, u, value = forest.scale(level[row]), vectors[row, :, -1], values[row, -1]
        unit = self.largest(parent[row]) if self.config.calibration == "correct" else 1.0  # of y_h in ``records``
        slope = unit * np.vecdot(u, moment[row]) / (scale * value)
        self.psi, self.strength, self.scale = count[row] / users, scale**2 * value / count[row], scale
        self.layer_nodes = forest.grow(parent[row], level[row], u, slope)

    def check(self, total: Array, users: int) -> None:
        """Set the widths of the layer's bins (Alg. 5, l. 9-16; ``forest`` adds up line 11 and caps line 14)."""
        d, gamma, nodes = self.dim, self.config.gamma, self.layer_nodes
        _, k1, k2, k3 = self.kappas
        root = np.sqrt(self.strength)
        mean = (total * self.scale / root + k2 * gamma * d**1.5) / (self.psi * users)
        base = k3 * gamma**2 * (d + 1) ** 4 / (self.psi * math.sqrt(users))
        self.forest.width[nodes] = np.column_stack([base, np.maximum(mean, 0.0) / root])
        self.forest.closed[nodes] = self.psi <= k1 * gamma * d**1.5 / math.sqrt(users)

    def spectra(self, gram: Array) -> tuple[Array, Array, Array, Array]:
        """Return every cell's parent, k, and eigenvalues and eigenvectors of (I - UU') Lambda (I - UU'), Alg. 4, l. 6.

        Args:
            gram: sums of v v', shape (cells, d, d).
        """
        cell = np.arange(self.cells)
        parent, level = self.frontier + cell // self.forest.levels, cell % self.forest.levels
        complement = self.forest.complement(parent)
        return parent, level, *np.linalg.eigh(complement @ gram @ complement)

    def strongest(self, rows: Array, strength: Array) -> Array:
        """Return the rows of largest strength, at most ``bins`` of them, in their order."""
        return np.sort(rows[np.argsort(-strength, kind="stable")[: self.config.bins]])

    def descend_to(self, nodes: Array) -> None:
        """Go on to the layer below these nodes, or to the next epoch if there are none or this was layer d."""
        if self.layer == self.dim or not len(nodes):
            self.close()
            self.epoch += 1
            self.open()
        else:
            self.layer, self.frontier, self.bins = self.layer + 1, int(nodes[0]), len(nodes)
            self.prepare()

    def close(self) -> None:
        """Keep what Algorithm 1 needs of the epoch, which is over."""
        self.first_roots = np.append(self.first_roots, self.root)

    @property
    def epochs_kept(self) -> int:
        """Number of epochs with estimates that arms have to pass."""
        return len(self.first_roots)

    def means(self, epoch: int, phi: Array) -> Array:
        """Return f(x, a) by an epoch's estimate, shape (n, K), of phi (n, K, d): sums of <phi_h, theta_h> (Alg. 6)."""
        return self.bottom(epoch, phi).predicted.reshape(phi.shape[:2])

    def widths(self, epoch: int, phi: Array) -> Array:
        """Return Delta(x, a) by an epoch's estimate, shape (n, K), of phi (n, K, d): eta of the last bins (Alg. 6)."""
        return self.bottom(epoch, phi).width.reshape(phi.shape[:2])

    def bottom(self, epoch: int, phi: Array) -> Place:
        """Return where n K points end that an epoch's trees lead down."""
        roots = np.tile(self.first_roots[epoch] + self.tree_of_arm, len(phi))
        return self.forest.descend(phi.reshape(-1, self.dim), roots, self.dim)

    def alive(self, phi: Array) -> Array:
        """Return which arms are left, shape (n, K), of phi (n, K, d): Alg. 1, l. 6-9."""
        alive = np.ones(phi.shape[:2], dtype=bool)
        for epoch in range(self.epochs_kept):
            alive &= self.passes(epoch, phi, alive)
        alive[~alive.any(axis=1)] = True  # nothing is known of a user without numbers
        return alive

    def passes(self, epoch: int, phi: Array, alive: Array) -> Array:
        """Return which arms have f + Delta >= max of f - Delta over those alive (Alg. 1, l. 8), shape (n, K)."""
        f, width = self.means(epoch, phi), self.widths(epoch, phi)
        best = np.fmax.reduce(np.where(alive, f - width, -np.inf), axis=1, keepdims=True)
        return np.asarray(f + width >= best)


class Elimination(SummedReports[Config]):
    """Every user reports privately on the bin of the features it was played; arms that cannot be best are dropped.

    *Formal guarantees.* Pure epsilon-local DP under replacement of a user's whole record, whatever the record and
    whatever has been released before: one report a user, by a randomizer over all bins of the current layer that any
    context and arm could reach. Its inputs are functions of the record and of earlier releases: features are scaled
    into the unit ball, y_h is clipped to [-c, c], c a function of the bin, and v v' and v q' have norm at most 1;
    users in inactive bins, and records that are not finite, send the report of an inactive user. Schedules, bins and
    the layers' ends are functions of time, settings and earlier releases. With ``calibration="published"`` nothing is
    guaranteed.

    Deviations:
        Noise covers replacement (the paper's covers adding a user, and its Wishart noise is one-sided), y_h is clipped
        where its bound is; count, moment and matrix are one report; an epoch ends when no bin of a layer is active; a
        layer has at most ``bins`` active bins; a width below 0 counts as 0, an eigenvalue below 1e-9 as none.
    """

    Config = Config
    proof = "docs/privacy/layered-regression.md"
    reports_late = True
    asks_anew = True

    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        super().begin()
        config = self.config
        if config.calibration == "published":
            warn_unproven(self.name)
        self.oracle = self.kind()(config, self.context_shape[1], n_arms(self.action_space))
        self.equip(self.oracle.randomizer, self.oracle.exact)
        self.layer_start, self.refit_at = 0, self.next_refit()

    def kind(self) -> type[Oracle]:
        """Return the class of the oracle."""
        return Oracle

    def restored(self) -> None:
        self.oracle.prepare()
        self.device = self.oracle.randomizer

    def select_action(self, context: Array) -> Action:
        """Return one of the arms that are left, each as likely (Alg. 1, l. 10)."""
        contexts = context.reshape(-1, *self.context_shape)
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            alive = self.oracle.alive(contexts.astype(np.float64))
        if self.visit.mask is not None:
            alive &= np.asarray(self.visit.mask, bool)  # absent arms look like present ones
        uniforms = self.ties.of(len(contexts))
        self.ties.users += len(contexts)
        if context.ndim == len(self.context_shape):
            left = alive[0].nonzero()[0]
            place = int(uniforms.item() * len(left))
            return int(left[place])
        places = np.floor(uniforms * alive.sum(axis=1)) + 1
        return np.asarray((np.cumsum(alive, axis=1) >= places[:, None]).argmax(axis=1))

    def settled(self, context: Array) -> Action:
        """Return argmax of f(x, a), for n users who do not report."""
        with np.errstate(over="ignore", invalid="ignore"):
            chosen: Action = best(self.predict(context), self.ties)
        return chosen

    def select_counts(self, contexts: Array, counts: Array) -> tuple[Array, Array, Array]:
        alive = self.oracle.alive(contexts.astype(np.float64))
        shared = self.rng.multinomial(counts, alive / alive.sum(axis=1, keepdims=True))
        rows, actions = np.nonzero(shared)
        return rows, actions, shared[rows, actions]

    def predict(self, contexts: Array) -> Array:
        """Return f(x, a) after the last epoch that is over, shape (m, K); 0 before."""
        latest = self.oracle.epochs_kept - 1
        return self.oracle.means(latest, contexts.astype(np.float64)) if latest >= 0 else np.zeros(contexts.shape[:2])

    def interval(self, contexts: Array) -> Array:
        """Return the half-width Delta(x, a) that goes with ``predict``, shape (m, K); 1 before the first one."""
        latest = self.oracle.epochs_kept - 1
        return self.oracle.widths(latest, contexts.astype(np.float64)) if latest >= 0 else np.ones(contexts.shape[:2])

    def placed(self, context: Array, action: Action, feedback: Feedback) -> tuple[Array, Lifted]:
        """Return the users' cells (n,) and packed statistics (n, D), these by their factors."""
        contexts, arms = np.asarray(context).reshape(-1, *self.context_shape), np.atleast_1d(action)
        x, y = sanitise(played(contexts, arms), np.atleast_1d(feedback))  # zeros, which are inactive, for no such arm
        if len(arms) == 1:  # numbers are quicker than arrays of one
            arm = arms.item()
            return self.oracle.records(x, y, np.array([int(arm) if arm in range(self.context_shape[0]) else 0]))
        exists = (arms >= 0) & (arms < self.context_shape[0]) & (arms == np.floor(arms))
        return self.oracle.records(x, y, np.where(exists, arms, 0).astype(np.intp))

    @property
    def by_counts(self) -> Literal["exact", "normal"]:
        """How sums of reports are drawn in simulations by counts; a device's report is always exact."""
        return "normal" if self.config.release in ("hemisphere", "bin-cap") else "exact"

    def learn(self) -> None:
        """Close the layer, and open the next one."""
        oracle = copy.deepcopy(self.oracle)  # an interrupt leaves the layer as it was
        oracle.learn(self.total.reshape(self.device.cells, -1), self.users - self.layer_start)
        total, device = np.zeros(oracle.randomizer.entries), oracle.randomizer
        self.oracle, self.device, self.total, self.layer_start = oracle, device, total, self.users

    def next_refit(self) -> int:
        return self.users + self.oracle.users()
