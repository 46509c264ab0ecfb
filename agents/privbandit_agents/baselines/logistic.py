"""Logistic regression on the public data alone.

As implemented in scikit-learn: Fabian Pedregosa et al., "Scikit-learn: Machine Learning in Python", 2011.
"""

import numpy as np

from privbandit_agents.base.labels import Floats, Labels, PublicLabelAgent
from privbandit_agents.base.settings import Settings
from privbandit_agents.base.spaces import Array


class LogisticPublic(PublicLabelAgent[Settings]):
    """Fit the public rows once, on features standardized by themselves; users report nothing.

    Labels that no public row has get the probability 0; without any public row all are alike.
    """

    def begin(self) -> None:
        super().begin()
        x, y = np.asarray(self.public_data[0], np.float64), self.public_data[1]
        self.known = np.unique(y) if len(y) else np.arange(self.n_labels)
        self.mean, self.deviation = np.zeros(x.shape[1]), np.ones(x.shape[1])
        self.weights, self.offsets = np.zeros((len(self.known), x.shape[1])), np.zeros(len(self.known))
        if len(y):
            self.mean, deviation = x.mean(axis=0), x.std(axis=0)
            self.deviation = np.where(deviation > 1e-3, deviation, 1.0)  # nearly constant columns are only centred
        if len(y) and len(self.known) > 1:
            self.fit((x - self.mean) / self.deviation, y)

    def fit(self, x: Floats, y: Labels) -> None:
        """Fit standardized rows; of two labels the first one has the score 0."""
        try:
            from sklearn.linear_model import LogisticRegression
        except ImportError as error:
            raise ImportError("logistic regression needs scikit-learn; run pip install 'privbandit[data]'.") from error
        model = LogisticRegression(max_iter=1000).fit(x, y)
        rows = slice(1, None) if len(self.known) == 2 else slice(None)
        self.weights[rows], self.offsets[rows] = model.coef_, model.intercept_

    def chances(self, contexts: Array) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):  # a hostile context only hurts the user who sent it
            standard = (np.asarray(contexts, np.float64) - self.mean) / self.deviation
            scores = standard @ self.weights.T + self.offsets
            likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances = np.zeros((len(scores), self.n_labels))
        chances[:, self.known] = likely / likely.sum(axis=1, keepdims=True)
        return chances
