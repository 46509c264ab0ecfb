"""LPCT as a scikit-learn estimator: locally private classification with public data, offline.

Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023. The code
is that of the agent ``lpct``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.agent import Guarantee, Ledger
from privbandit_agents.local.lpct import Config, build
from privbandit_agents.privacy.ledger import pure
from privbandit_envs.classification import min_max

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise ImportError("LPCTClassifier needs scikit-learn; run pip install 'privbandit[data]'.") from error

Floats = NDArray[np.float64]
CHUNK = 2**12
"""Users whose reports are held at once."""


class LPCTClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classification tree on public rows, with leaves that private rows vote on through local randomizers.

    *Formal guarantees.* Pure epsilon-local DP of every private row, features and label together: one report a row by
    ``LeafReport``; see ``LPCT``. The tree, the features' scale, the classes and the randomizer depend on the public
    rows, the settings and the number of private rows alone. Private features that are not finite count as the middle of
    their scale, private labels that are no class as the first one, so that no row stops the others. Each ``fit`` spends
    epsilon once (``ledger_`` is of the last one); fits on the same people add up, if their noise is fresh: an integer
    ``random_state`` is for reproduction, must be secret, and is for one fit. ``aggregate=True`` draws the sum of the
    reports directly where it has an exact law: for simulation.

    Without public rows the features are scaled by ``feature_range``, ``classes`` must be given, and the cells are
    halved in turn.

    Args:
        epsilon: budget of every private row, > 0; infinity adds no noise.
        report: as in ``lpct``.
        partition: ``"max-edge"`` or ``"cart"``.
        depth: of the tree; None: by the number of private rows, epsilon and the report.
        weight: lambda in (8); None: by the variance of the noise.
        trust: without ``weight``, the worth of a public row in private rows without noise.
        tau: distance of a node's mean from its parent's; infinity: no shrinkage.
        classes: the labels that exist, known to the public; None: those of the public rows.
        feature_range: (low, high) of all features, for a fit without public rows.
        aggregate: whether to draw the sum of the reports at once where its law is exact.
        random_state: seed or numpy generator of the noise.

    Attributes:
        classes_: the labels, shape (K,).
        partition_: the public tree.
        tree_: the public counts and the rule that weighs them.
        total_: sum of the private estimates, shape (m, 1) or (m, K).
        probabilities_: of the classes in the leaves, shape (m, K).
        guarantee_: what a private row is promised.
        ledger_: what it has paid.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        report: str = "auto",
        partition: str = "max-edge",
        depth: int | None = None,
        weight: float | None = None,
        trust: float = 1.0,
        tau: float = 0.5,
        classes: Any = None,
        feature_range: tuple[float, float] = (0.0, 1.0),
        aggregate: bool = False,
        random_state: Any = None,
    ) -> None:
        """Keep the settings; ``fit`` checks them."""
        self.epsilon, self.report, self.partition, self.depth = epsilon, report, partition, depth
        self.weight, self.trust, self.tau = weight, trust, tau
        self.classes, self.feature_range = classes, feature_range
        self.aggregate, self.random_state = aggregate, random_state

    def fit(self, X: Any, y: Any, X_public: Any = None, y_public: Any = None) -> "LPCTClassifier":
        """Learn from private rows X (n, d), y (n,) and public rows X_public (n_Q, d), y_public (n_Q,).

        Raises:
            ValueError: public rows that are not finite, or with a label outside the classes; fewer than two classes;
                a setting out of range.
        """
        private, labels = check_array(X, dtype=np.float64, ensure_all_finite=False), column_or_1d(y)
        check_consistent_length(private, labels)
        self.n_features_in_ = private.shape[1]
        if (X_public is None) != (y_public is None):
            raise ValueError("X_public and y_public must be given together; one is None.")
        known = np.zeros((0, self.n_features_in_)) if X_public is None else rows(X_public, "X_public")
        answers = labels[:0] if y_public is None else column_or_1d(y_public)
        check_consistent_length(known, answers)
        self.classes_ = self.public_classes(answers)
        low, high = self.feature_range
        ends = np.array([[low], [high]]) * np.ones(self.n_features_in_)
        self.scale_ = np.stack([known.min(axis=0), known.max(axis=0)]) if len(known) else ends
        config = Config(
            epsilon=self.epsilon,
            report=self.report,
            partition=self.partition,
            depth=self.depth,
            weight=self.weight,
            trust=self.trust,
            tau=self.tau,
            horizon=len(labels),
        )
        public = min_max(known, self.scale_), self.index(answers, "y_public")
        self.partition_, self.report_, self.tree_ = build(config, *public, len(self.classes_))
        sound = np.where(np.isfinite(private), private, self.scale_.mean(axis=0))
        self.total_ = self.private_total(min_max(sound, self.scale_), self.known(labels)[0])
        self.probabilities_ = self.tree_.predict(self.total_, len(labels))
        return self

    def private_total(self, x: Floats, y: NDArray[np.int64]) -> Floats:
        """Let every private row report once; return the sum of the estimates."""
        self.ledger_ = Ledger(epsilon=self.epsilon)
        self.ledger_.spend(pure(self.epsilon), group=0, groups=len(y))
        self.guarantee_ = Guarantee(
            notion="local",
            epsilon=self.epsilon,
            delta=0.0,
            protects="features and label of every private row, from the server on",
            reference="docs/privacy.md, classification trees",
        )
        rng, leaf = generator(self.random_state), self.partition_.find(x)
        if self.aggregate and self.report_.randomizer.exact_sum:
            total: Floats = self.report_.total(leaf, y, rng)
            return total
        parts = [slice(start, start + CHUNK) for start in range(0, len(y), CHUNK)]
        sums = [self.report_.estimate(self.report_.randomize(leaf[p], y[p], rng)).sum(axis=0) for p in parts]
        return np.asarray(np.sum(sums, axis=0))

    def public_classes(self, answers: Any) -> Any:
        """Return the classes: the setting's, or those of the public rows."""
        if self.classes is None and not len(answers):
            raise ValueError("classes must be given where there are no public rows; got None.")
        classes = np.unique(answers if self.classes is None else np.asarray(self.classes))
        if len(classes) < 2:
            raise ValueError(f"there must be at least two classes; got {classes.tolist()}: give classes=.")
        return classes

    def index(self, labels: Any, name: str) -> NDArray[np.int64]:
        """Return the number of every label of public rows."""
        found, strange = self.known(labels)
        if np.any(strange):
            raise ValueError(f"{name} must hold the classes {self.classes_.tolist()}; got {labels[strange][0]!r}.")
        return found

    def known(self, labels: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the number of every label, 0 for one that is no class, and which these are."""
        found = np.searchsorted(self.classes_, labels).clip(0, len(self.classes_) - 1)
        strange = self.classes_[found] != labels
        return np.where(strange, 0, found).astype(np.int64), np.asarray(strange, np.bool_)

    def predict_proba(self, X: Any) -> Floats:
        """Return the estimated probabilities of the classes, shape (n, K)."""
        check_is_fitted(self)
        x = rows(X, "X")
        if x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {x.shape[1]} features, but LPCTClassifier is expecting {self.n_features_in_} features as input."
            )
        found: Floats = self.probabilities_[self.partition_.find(min_max(x, self.scale_))]
        return found

    def predict(self, X: Any) -> Any:
        """Return the likeliest class of each row, shape (n,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]


def rows(x: Any, name: str) -> Floats:
    """Return finite rows (n, d)."""
    checked: Floats = check_array(x, dtype=np.float64, ensure_all_finite=False, input_name=name)
    if not (finite := np.isfinite(checked)).all():
        raise ValueError(f"{name} must not contain NaN or infinity; got {checked[~finite][0]}.")
    return checked


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator for scikit-learn's ways to name one."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    return np.random.default_rng(check_random_state(random_state).randint(2**31))
