"""A kernel model on the public data alone: how much of a private agent's success public rows explain.

Christopher Williams and Matthias Seeger, "Using the Nystroem Method to Speed Up Kernel Machines", NeurIPS 2000; as
implemented in scikit-learn: Fabian Pedregosa et al., "Scikit-learn: Machine Learning in Python", 2011.
"""

from hashlib import blake2b
from typing import Any

import numpy as np

from privbandit_agents.base.kernels.features import KernelFeatures
from privbandit_agents.base.labels import Floats, Labels, PublicLabelAgent
from privbandit_agents.base.settings import Settings
from privbandit_agents.base.spaces import Array

CHOSEN: dict[bytes, tuple[float, float]] = {}
"""Width and ridge that public rows chose, by a digest of the rows."""


class KernelPublic(PublicLabelAgent[Settings]):
    """Fit logistic regression on kernel features of the public rows once; users report nothing.

    Width and ridge have the best likelihood in five-fold cross-validation; where labels are too rare for it, the
    width is 1 and the ridge 10. Of more than 20 000 public rows the first ones count. Labels that no public row has
    get the probability 0; without any public row all are alike.
    """

    def begin(self) -> None:
        super().begin()
        x, y = (np.asarray(rows[:20_000]) for rows in self.public_data)
        self.known = np.unique(y) if len(y) else np.arange(self.n_labels)
        self.features = KernelFeatures.of(x.astype(np.float64), 1.0, 300)  # public rows at most
        self.weights, self.offsets = np.zeros((len(self.known), self.features.dim)), np.zeros(len(self.known))
        if len(y) and len(self.known) > 1:
            self.fit(x.astype(np.float64), y)

    def fit(self, x: Floats, y: Labels) -> None:
        """Choose width and ridge, and fit; of two labels the first one has the score 0."""
        try:
            from sklearn.linear_model import LogisticRegression
        except ImportError as error:
            raise ImportError("kernel models need scikit-learn; run pip install 'privbandit[data]'.") from error
        components = len(self.features.places)
        # gamma in units of 1 / (d variance of the features), 0 for a linear model, and scikit-learn's C
        widths, ridges, width, ridge = (0.1, 0.3, 1.0, 3.0, 0.0), (1.0, 10.0, 100.0, 1000.0), 1.0, 10.0
        if np.unique(y, return_counts=True)[1].min() >= 2:
            width, ridge = likeliest(x, y, components, widths, ridges)
        self.features = KernelFeatures.of(x, width, components)
        model = LogisticRegression(C=ridge, max_iter=1000).fit(self.features(x), y)
        rows = slice(1, None) if len(self.known) == 2 else slice(None)
        self.weights, self.offsets = np.zeros((len(self.known), self.features.dim)), np.zeros(len(self.known))
        self.weights[rows], self.offsets[rows] = model.coef_, model.intercept_

    def chances(self, contexts: Array) -> Floats:
        x, users = np.asarray(contexts, np.float64), 8192  # of whom kernel features are in memory at a time
        parts = [self.features(x[at : at + users]) @ self.weights.T for at in range(0, max(len(x), 1), users)]
        scores = np.concatenate(parts) + self.offsets
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances = np.zeros((len(scores), self.n_labels))
        chances[:, self.known] = likely / likely.sum(axis=1, keepdims=True)
        return chances


def likeliest(
    x: Floats, y: Labels, components: int, widths: tuple[float, ...], ridges: tuple[float, ...]
) -> tuple[float, float]:
    """Return the width and the ridge of the best likelihood; they are remembered, as other seeds have the same rows."""
    asked = repr((x.shape, y.dtype.str, components, widths, ridges)).encode()
    key = blake2b(asked + x.tobytes() + y.tobytes()).digest()
    if key not in CHOSEN:
        CHOSEN[key] = searched(x, y, components, widths, ridges)
    return CHOSEN[key]


def searched(
    x: Floats, y: Labels, components: int, widths: tuple[float, ...], ridges: tuple[float, ...]
) -> tuple[float, float]:
    """Return the width and the ridge of the best likelihood in cross-validation."""
    from sklearn.linear_model import LogisticRegression

    folds = int(min(5, np.unique(y, return_counts=True)[1].min()))
    tried = [(width, ridge) for width in widths for ridge in ridges]
    scores = [
        likelihood(LogisticRegression(C=ridge, max_iter=1000), KernelFeatures.of(x, width, components)(x), y, folds)
        for width, ridge in tried
    ]
    return tried[int(np.argmax(scores))]


def likelihood(model: Any, features: Floats, y: Labels, folds: int) -> float:
    """Return the mean log likelihood of rows that a model was not fitted to."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    parts = StratifiedKFold(folds, shuffle=True, random_state=0)
    chances = cross_val_predict(model, features, y, cv=parts, method="predict_proba")
    own = chances[np.arange(len(y)), np.searchsorted(np.unique(y), y)]
    return float(np.log(np.maximum(own, 1e-9)).mean())
