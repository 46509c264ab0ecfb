"""A decision tree that is fitted again as the data grow.

Leo Breiman, Jerome Friedman, Richard Olshen and Charles Stone, "Classification and Regression Trees", 1984, as
implemented in scikit-learn.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.rows import Rows
from privbandit_agents.base.settings import Count, Growth
from privbandit_agents.baselines.classifier import RefitSettings, RefittingLabelAgent


@dataclass(frozen=True)
class Config(RefitSettings):
    """Settings of the decision tree.

    Attributes:
        max_depth: of the tree, or None.
        min_samples_leaf: smallest number of rows in a leaf, >= 1.
    """

    refit: Growth = 1.2
    max_depth: Count | None = 10
    min_samples_leaf: Count = 5


class TreeClassifier(RefittingLabelAgent[Config]):
    """Predict by a decision tree of Gini splits over the rows seen so far.

    It keeps every row, so memory grows with the users, and refits take O(n log n) for each of them.
    """

    Config = Config
    fixed: ClassVar[frozenset[str]] = RefittingLabelAgent.fixed | {"tree", "leaf_labels"}

    def begin(self) -> None:
        super().begin()
        if not len(self.public_data[1]):
            raise ValueError("a tree needs public rows to grow from at first; got none.")
        self.tree_seed = int(self.rng.integers(2**31))
        self.x = Rows(self.public_data[0].shape[1:], np.float32)  # scikit-learn's own type
        self.y, self.weight = Rows((), np.int64), Rows((), np.float64)
        self.learn(*self.public_data, np.ones(len(self.public_data[1])))
        self.fit()

    def guess(self, contexts: Array) -> Labels:
        with np.errstate(over="ignore"):
            labels: Labels = self.leaf_labels[self.tree.apply(contexts.astype(np.float32))]
        return labels

    def learn(self, contexts: Array, labels: Labels, weights: Floats) -> None:
        self.x.append(contexts)
        self.y.append(labels)
        self.weight.append(weights)

    def fit(self) -> None:
        self.fitted_rows = len(self.y)
        self.restored()

    def restored(self) -> None:
        """Grow the tree again from the rows it was grown from."""
        try:
            from sklearn.tree import DecisionTreeClassifier
        except ImportError as error:
            raise ImportError("decision trees need scikit-learn; run pip install 'privbandit[data]'.") from error
        x, y, weight = (rows.view()[: self.fitted_rows] for rows in (self.x, self.y, self.weight))
        classifier = DecisionTreeClassifier(
            max_depth=self.config.max_depth, min_samples_leaf=self.config.min_samples_leaf, random_state=self.tree_seed
        ).fit(x, y, weight)
        self.tree = classifier.tree_  # the bare tree: a prediction for one user costs a tenth of the classifier's
        self.leaf_labels: Labels = classifier.classes_[self.tree.value[:, 0, :].argmax(axis=1)]
