"""LPLR: layered private linear regression under action elimination.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, Algorithms 1 to 6.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import PCG64, Generator

from privbandit_agents.base.agent import Array, Guarantee, LocalAgent, arms_with_features, n_arms
from privbandit_agents.base.arms import played
from privbandit_agents.local.layered.oracle import Oracle
from privbandit_agents.local.layered.oracle_paper import PaperOracle
from privbandit_agents.local.layered.oracle_pooled import PooledOracle
from privbandit_agents.local.layered.report import RELEASES
from privbandit_agents.privacy.accounting.ledger import Ledger, pure
from privbandit_agents.privacy.contributions.moments import sanitise
from privbandit_envs.validate import above, at_least, count, one_of, positive

PRESETS: dict[str, dict[str, Any]] = {
    "practical": {
        "oracle": "shared", "width": "difference", "confidence": "analytic", "gamma": math.sqrt(2), "carry": True,
    },
    "published": {
        "oracle": "per-arm", "width": "sum", "confidence": "published", "gamma": math.e, "carry": False,
    },
}  # fmt: skip
"""What settings are where they are None."""


@dataclass(frozen=True)
class Config:
    """Settings of LPLR; None is what the preset says.

    Attributes:
        epsilon: privacy budget alpha of every user's report, > 0; infinity adds no noise.
        preset: ``"practical"``: one theta for all arms and epochs, widths of differences; or ``"published"``: the
            paper's structure and the constants of its theorems.
        calibration: ``"correct"``, or ``"published"``: the paper's noise, which is not private.
        release: ``"hemisphere"``, ``"bin-cap"``, ``"laplace"``, or ``"wishart-difference"`` (Laplace noise on the
            moment, a difference of Wishart matrices on the matrix; half of epsilon each).
        oracle: ``"shared"`` by all arms, or one ``"per-arm"``.
        width: an arm is eliminated by the width of the ``"difference"`` to another one, or by the ``"sum"`` of both.
        confidence: ``"analytic"`` widths, from the variance of the release; or ``"published"`` ones (Algorithm 5), for
            which half of the users are set aside.
        carry: keep the evidence of earlier epochs and eliminate by the latest estimate; else begin anew and eliminate
            by all epochs' estimates, as Algorithm 1 does. Needs analytic widths.
        gamma: ratio of the norms of neighbouring bins, > 1; M = ceil(ln T / (2 ln gamma)) bins a layer. The paper's
            beta is ln gamma / ln T.
        z: analytic widths in standard deviations, > 0; 1.5 covers about 87 % of the design offline, 2 covers 95 %.
        kappa: a direction is regressed on if its eigenvalue exceeds the largest one of noise alone by so many standard
            deviations, >= 0.
        bins: at most so many bins of a layer are active, >= 1: the paper's M^h are too many to report on.
        kappas: kappa_1, kappa_1', kappa_2, kappa_3 of published widths; None: what the lemmas ask for.
        first: users of the first epoch, >= 1; with the horizon, the first epoch is the whole run.
        growth: of the epochs, > 1.
        share: share of an epoch's users that report on layer 1, in (0, 1); the other layers share the rest evenly.
        weight: of v v' beside y v in a report on layer 1, > 0.
        deep_weight: the same on the deeper layers.
        cross: of v q' beside y v in a report on the deeper layers, > 0.
        horizon: number of users T.
    """

    epsilon: float = 1.0
    preset: str = "practical"
    calibration: str = "correct"
    release: str = "hemisphere"
    oracle: str | None = None
    width: str | None = None
    confidence: str | None = None
    carry: bool | None = None
    gamma: float | None = None
    z: float = 1.5
    kappa: float = 3.0
    bins: int = 32
    kappas: tuple[float, float, float, float] | None = None
    first: int = 500
    growth: float = 2.0
    share: float = 0.3
    weight: float = 0.6
    deep_weight: float = 0.4
    cross: float = 0.3
    horizon: int = 10_000

    def __post_init__(self) -> None:
        """Fill in the preset and check the ranges; epsilon is checked by the randomizer."""
        for name, value in PRESETS[one_of(PRESETS, preset=self.preset)].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        one_of(("correct", "published"), calibration=self.calibration)
        one_of(RELEASES, release=self.release)
        assert self.oracle and self.width and self.confidence and self.gamma is not None
        one_of(("shared", "per-arm"), oracle=self.oracle)
        one_of(("sum", "difference"), width=self.width)
        one_of(("analytic", "published"), confidence=self.confidence)
        above(1, gamma=self.gamma)
        above(1, growth=self.growth)
        at_least(0, kappa=self.kappa)
        count(bins=self.bins)
        count(first=self.first)
        count(horizon=self.horizon)
        for name in ("z", "weight", "deep_weight", "cross"):
            positive(**{name: getattr(self, name)})
        if not 0 < self.share < 1:
            raise ValueError(f"share must lie in (0, 1); got {self.share!r}.")
        if self.kappas is not None and (np.shape(self.kappas) != (4,) or not (np.asarray(self.kappas) >= 0).all()):
            raise ValueError(f"kappas must be four numbers >= 0, or None for those of the lemmas; got {self.kappas!r}.")
        if not isinstance(self.carry, bool):
            raise ValueError(f"carry must be True or False; got {self.carry!r}.")
        self._check_combinations()

    def _check_combinations(self) -> None:
        if self.width == "difference" and (self.oracle, self.confidence) != ("shared", "analytic"):
            raise ValueError("width difference needs oracle shared and confidence analytic; take width sum instead.")
        if self.carry and self.confidence == "published":
            raise ValueError("carry needs confidence analytic; published widths are for one epoch alone.")
        if self.calibration == "published" and self.confidence == "analytic":
            raise ValueError(
                "calibration published needs confidence published: the paper's noise is on its statistics."
            )


class LPLR(LocalAgent[Config, Array]):
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
        where its bound is, count, moment and matrix are one report. The practical preset has one theta for all arms
        and eliminates by the width of the difference of two arms; directions that stand out of the noise are
        observations of theta with known variance; users report v q' in place of Algorithm 5; layer 1 and the evidence
        are carried over from epoch to epoch, and arms are eliminated by the latest estimate, so that an arm may return;
        an epoch ends when no bin of a layer is active.
    """

    Config = Config
    fixed: ClassVar[frozenset[str]] = LocalAgent.fixed | {"guarantee", "cost", "shape"}
    total: Array

    def begin(self) -> None:
        """Calibrate the devices; open the first epoch."""
        super().begin()
        config = self.config
        assert self.observation_space.shape is not None
        self.shape = self.observation_space.shape
        kind = PooledOracle if config.confidence == "analytic" else PaperOracle
        self.oracle: Oracle = kind(config, self.shape[1], n_arms(self.action_space))
        self.lottery = int(self.rng.spawn(1)[0].integers(2**62))
        self.users = 0
        self._open()
        proven = config.calibration == "correct"
        if not proven:
            self.warn_unproven()
        self.cost = pure(config.epsilon if proven else math.inf)
        self.ledger = Ledger(epsilon=config.epsilon if proven else math.inf)
        self.guarantee = Guarantee(
            notion="local",
            epsilon=config.epsilon,
            delta=0.0,
            protects="context, action and reward of every user, from the server on",
            proven=proven,
            reference="docs/privacy/layered-regression.md",
        )

    plays = staticmethod(arms_with_features)

    def restored(self) -> None:
        """Rebuild the report of the current layer."""
        self.oracle.prepare()

    def frozen_rounds(self) -> int:
        """Return the number of users before the layer ends."""
        return self.layer_end - self.users

    def select_action(self, context: Array) -> Any:
        """Return one of the arms that are left, each as likely (Alg. 1, l. 10), by the lottery ticket of the user."""
        contexts = np.asarray(context).reshape(-1, *self.shape)
        alive = self.oracle.alive(contexts.astype(np.float64))
        tickets = Generator(PCG64(self.lottery).advance(self.users)).random(len(contexts))
        place = np.floor(tickets * alive.sum(axis=1)) + 1
        actions = (np.cumsum(alive, axis=1) >= place[:, None]).argmax(axis=1)
        return actions if np.ndim(context) > len(self.shape) else int(actions[0])

    def select_counts(self, contexts: Array, counts: Array) -> tuple[Array, Array, Array]:
        """Share the users of every context out among the arms that are left."""
        alive = self.oracle.alive(contexts.astype(np.float64))
        shared = self.rng.multinomial(counts, alive / alive.sum(axis=1, keepdims=True))
        rows, actions = np.nonzero(shared)
        return rows, actions, shared[rows, actions]

    def predict(self, contexts: Array) -> Array:
        """Return f(x, a) after the last epoch that is over, shape (m, K); 0 before."""
        latest = self.oracle.verdicts - 1
        return self.oracle.means(latest, self._features(contexts)) if latest >= 0 else np.zeros(contexts.shape[:2])

    def interval(self, contexts: Array) -> Array:
        """Return the half-width Delta(x, a) that goes with ``predict``, shape (m, K); 1 before the first one."""
        latest = self.oracle.verdicts - 1
        return self.oracle.widths(latest, self._features(contexts)) if latest >= 0 else np.ones(contexts.shape[:2])

    def inputs(self, context: Array, action: Any, feedback: Any) -> tuple[Array, Array]:
        """Return what the randomizer is given: the users' cells (n,) and packed statistics (n, D)."""
        contexts = np.asarray(context).reshape(-1, *self.shape)
        arms = np.atleast_1d(action)
        x, y = sanitise(played(contexts, arms), np.atleast_1d(feedback))
        exists = (arms >= 0) & (arms < self.shape[0]) & (arms == np.floor(arms))
        return self.oracle.records(x, y, np.where(exists, arms, 0).astype(np.intp))

    def randomize(self, context: Array, action: Any, feedback: Any) -> Array:
        """Return the reports of one user or of n users: one release each, whatever the record."""
        return self.oracle.randomizer.randomize(*self.inputs(context, action, feedback), self.rng)

    def absorb(self, report: Array) -> None:
        """Add up the reports of users of the current layer; end the layer when it is time."""
        estimates = self.oracle.randomizer.estimate(report)
        self._spend(len(estimates))
        self.total = np.add.reduce(np.concatenate([self.total[None], estimates]), axis=0)
        self._advance(len(estimates))

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Additive noise has an exact sum."""
        return "normal" if self.config.release in ("hemisphere", "bin-cap") else "exact"

    def randomize_sum(self, contexts: Array, actions: Any, feedback: Any, counts: Array) -> Array:
        """Return the sum of the estimates from the users' reports, shape (cells, D)."""
        cells, values = self.inputs(contexts, actions, feedback)
        return self.oracle.randomizer.approximate_sum(cells, values, self.rng, counts)

    def absorb_sum(self, total: Array, users: int) -> None:
        """Add the sum of the reports of users of the current layer."""
        self._spend(users)
        self.total = self.total + total
        self._advance(users)

    def _features(self, contexts: Array) -> Array:
        return np.asarray(contexts, dtype=np.float64)

    def _spend(self, users: int) -> None:
        self.ledger.spend(self.cost, group=self.users, groups=users)

    def _advance(self, users: int) -> None:
        self.users += users
        if self.users >= self.layer_end:
            self.oracle.learn(self.total, self.users - self.layer_start)
            self._open()

    def _open(self) -> None:
        """Begin a layer."""
        self.total = np.zeros((self.oracle.randomizer.cells, self.oracle.randomizer.dim))
        self.layer_start, self.layer_end = self.users, self.users + self.oracle.users()
