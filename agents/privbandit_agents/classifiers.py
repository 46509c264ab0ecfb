"""The agents that predict labels, as scikit-learn estimators: private and public rows at rest, one fit.

The agents learn; this module checks and scales rows, and hands them over.
"""

import copy
import dataclasses
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any, Self

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.base.labels import OUTSIDE, SCALES, Floats, LabelAgent, Labels, ends_of
from privbandit_agents.base.records import FLOAT64, entries_of, real_array, stacked
from privbandit_agents.base.spaces import Array
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import field_names, find, generator, settings_of
from privbandit_envs.families.classification import min_max
from privbandit_envs.validate import one_of

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_array, check_consistent_length, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError as error:
    raise ImportError("the classifiers need scikit-learn; run pip install 'privbandit[data]'.") from error

Randomness = int | np.random.Generator | np.random.RandomState | None
ROWS_A_BLOCK = 2**15
"""Most rows that are scaled and reported at once."""


class LabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The base of the estimators: ``fit(X, y, X_public, y_public)`` lets an agent learn from the rows of X.

    *Formal guarantees.* Those of the agent, for every private row, features and label together; ``guarantee_`` states
    which. Whatever is read beside the reports (the features' scale, the classes, the agent's public data) depends on
    the public rows, the settings and the number of private rows alone. No row stops the others: private features that
    are not finite, or no numbers, count as the middle of their scale, private labels that are no class as the first
    one. Only if no public bounds are given is a feature outside the unit interval refused, which tells that one is.
    With a ``schema`` the bounds and levels of features are its own, and must be public; a cell that does not fit counts
    as one without a value. Lists, and arrays of objects, are read cell by cell; how many features the rows of a list
    have, public rows or the ends of the range say. An array of numbers or of text has its dtype from the caller, so
    that an array of text labels for numeric classes, or the reverse, is refused. Each ``fit`` spends the budget once,
    and ``ledger_`` belongs to the last one. Fits on the same people add up if their noise is fresh. Noise that is used
    twice cancels out, and noise that can be drawn again can be subtracted. So ``random_state`` is None by default: each
    fit takes fresh keys from the operating system and keeps none of them, in a pickle neither. Anything else is for
    simulations: an integer, or a generator that ``sklearn.base.clone`` or a grid search copies, gives several fits the
    same noise, and whoever has the estimator has it. ``aggregate=True`` draws the sum of the reports at once from the
    rows themselves, where that sum has an exact law: for simulations, too.

    Attributes:
        classes_: the labels, shape (K,).
        scale_: lower and upper ends of the features, shape (2, d).
        agent_: that has learned.
        guarantee_: its promise to a private row.
        ledger_: the budget spent; None for an agent without privacy.
    """

    classes: ArrayLike | None
    feature_range: tuple[ArrayLike, ArrayLike] | None
    scale_by: str
    outside: str = "clip"
    schema: Any = None
    aggregate: bool
    random_state: Randomness
    agent_: Any
    ledger_: Any

    def __sklearn_tags__(self) -> Any:
        """Return whether more than two classes are supported."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not is_binary(self.chosen()[0])
        tags.input_tags.string = True  # a cell of text counts as the middle of the scale
        return tags

    @abstractmethod
    def chosen(self) -> tuple[str, dict[str, Any]]:
        """Return the agent's name and its settings."""

    def fit(
        self, X: ArrayLike, y: ArrayLike | None, X_public: ArrayLike | None = None, y_public: ArrayLike | None = None
    ) -> Self:
        """Learn from private rows X (n, d), y (n,) and public rows X_public (n_Q, d), y_public (n_Q,).

        Until it is over the former fit stays whole, with its guarantee and its ledger; so it does after an error.

        Raises:
            ValueError: public rows that are not finite, or with a label outside the classes; fewer than two classes;
                labels that are text where the classes are numbers or the other way round; a setting out of range.
            TypeError: a setting that the agent lacks, or ``people``: rows at rest have no names.
        """
        fitted = copy.copy(self)
        fitted.__dict__.pop("feature_names_in_", None)
        fitted._learn(*fitted._open(X, y, X_public, y_public), self.aggregate)
        self.__dict__ = fitted.__dict__
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None,
        classes: ArrayLike | None = None,
        X_public: ArrayLike | None = None,
        y_public: ArrayLike | None = None,
    ) -> Self:
        """Learn from further private rows, each of people who are in no other call: their reports add up.

        The first call is like ``fit``, but that an agent with a ``horizon`` expects that of its settings. Classes,
        scale and public rows are those of the first call. Its noise follows ``random_state``, that of others is fresh.

        Args:
            X: private rows (n, d).
            y: their labels (n,).
            classes: of the first call, if neither ``classes`` of the estimator nor public rows say which there are.
            X_public: public rows of the first call.
            y_public: their labels.

        Raises:
            ValueError: as ``fit``; classes or public rows in a later call that are others.
        """
        fitted = copy.copy(self)
        if not hasattr(self, "agent_"):
            rows = fitted._open(X, y, X_public, y_public, classes, more=True)
        else:
            same = classes is None or np.array_equal(np.unique(classes), self.classes_)
            if X_public is not None or y_public is not None or not same:
                raise ValueError("classes, X_public and y_public are those of the first call of partial_fit or of fit.")
            fitted.agent_ = copy.copy(self.agent_)
            encoded, like = self.encoded(X), np.zeros((0, self.n_features_in_))
            rows = fitted.private_rows(encoded, y, like, reset=False)
            self.check_type(rows[1])
        fitted._learn(*rows, self.aggregate)
        self.__dict__ = fitted.__dict__
        return self

    def _open(
        self,
        X: ArrayLike,
        y: ArrayLike | None,
        X_public: ArrayLike | None,
        y_public: ArrayLike | None,
        classes: ArrayLike | None = None,
        more: bool = False,
    ) -> tuple[Array, Array]:
        """Build this very object's agent, for the rows' number or for ``more``; return the private rows."""
        find(self.chosen()[0])  # a name that is none is said before anything else
        # the rows
        X, X_public = self.encoded(X), X_public if X_public is None else self.encoded(X_public)
        private, labels = self.private_rows(X, y, X_public)
        if (X_public is None) != (y_public is None):
            raise ValueError("X_public and y_public must be given together; one is None.")
        known, rows = np.zeros((0, self.n_features_in_)), {"ensure_all_finite": False, "ensure_min_samples": 0}
        if X_public is not None:
            known = refuse_infinite(check_array(X_public, dtype=np.float64, input_name="X_public", **rows), "X_public")
        answers = labels[:0] if y_public is None else column_or_1d(y_public)
        check_consistent_length(known, answers)
        if known.shape[1] != self.n_features_in_:
            raise ValueError(f"X_public must have the {self.n_features_in_} features of X; got {known.shape[1]}.")
        one_of(OUTSIDE, outside=self.outside)
        # classes and scale: public
        self.classes_ = self.public_classes(answers, self.classes if classes is None else classes)
        self.check_type(labels)
        ends = ends_of((0.0, 1.0) if self.feature_range is None else self.feature_range, self.n_features_in_)
        by_schema = self.schema is not None
        by_public = one_of(SCALES, scale_by=self.scale_by) == "public" and len(known) and not by_schema
        if (
            self.feature_range is None and self.scale_by == "public" and not by_public and not by_schema
        ):  # whatever the rows hold
            way_out = "give feature_range=(0, 1) if all lie there, else bounds such as (0, 100), or public rows"
            raise ValueError(f"the range of the features is private, and nothing public says it: {way_out}.")
        self.scale_ = np.stack([known.min(axis=0), known.max(axis=0)]) if by_public else ends
        self.agent_ = self.built((self.scaled(known), self.index(answers)), None if more else len(labels))
        return private, labels

    def _learn(self, private: Array, labels: Array, aggregate: bool) -> None:
        """Let this very object's agent learn."""
        for part in self.parts(len(labels)):
            self.agent_.learn_labels(self.scaled(private[part]), self.numbered(labels[part])[0], aggregate)
        self.agent_.conclude()
        if self.agent_.guarantee.notion != "none":
            self.agent_.rekey()  # nothing that is kept, or pickled, can draw the noise again
        drawn = {"arithmetic": "real"} if aggregate else {}  # sums are drawn in real numbers
        self.guarantee_ = dataclasses.replace(self.agent_.guarantee, **drawn)
        self.ledger_ = getattr(self.agent_, "ledger", None)

    def encoded(self, X: Any) -> Any:
        """Return the rows of a table by the schema, shape (n, d); without one X itself.

        Raises:
            ValueError: the schema is none, its bounds or levels are not public, or the table lacks a column.
        """
        if self.schema is None:
            return X
        from privbandit_envs.tables import Encoding, Schema

        schema = Schema.of(self.schema)
        features = schema.model_copy(update={"fields": schema.of_role("context")})
        features.check_public()
        if self.feature_range is not None:
            raise ValueError("feature_range must be None with a schema, which has the bounds of the features.")
        return Encoding(features, lenient=True).encoded(X)[0]

    def parts(self, n: int) -> Iterator[slice]:
        """Yield rows in blocks, so that results computed from them stay small."""
        size = max(min(ROWS_A_BLOCK, 2**22 // self.n_features_in_), 1)  # no more than 2^22 features either
        return (slice(start, start + size) for start in range(0, n, size))

    def private_rows(
        self, X: ArrayLike, y: ArrayLike | None, X_public: ArrayLike | None, reset: bool = True
    ) -> tuple[Array, Array]:
        """Return private rows and labels as arrays; large ones of float32 are not copied.

        Raises:
            ValueError: they are no rows of numbers with a label each; the message shows none of them.
        """
        if y is None:
            raise ValueError("y must be given: this classifier requires y to be passed, but the target y is None.")
        try:
            rows = self.readable(X, X_public)
            dtypes = [np.float64, np.float32] if isinstance(X, np.ndarray) else np.float64
            private = validate_data(self, rows, dtype=dtypes, ensure_all_finite=False, reset=reset)
            labels = column_or_1d(in_objects(y), warn=True)
        except (ValueError, OverflowError) as error:
            shown = re.split(r"[:'\"\[\n]", str(error))[0].rstrip()  # up to where it may quote raw data
            hidden = "" if shown == str(error) else " (the rest is not shown: it may be raw data)."
            raise ValueError(shown + hidden) from None
        check_consistent_length(private, labels)
        return private, labels

    def readable(self, X: Any, X_public: Any) -> Any:
        """Return X if it holds numbers alone, else its cells as numbers, NaN for a cell that is none.

        Rows have as many features as a table has columns; those of a list as public rows have, or ends of the range.

        Raises:
            ValueError: rows in a list, and nothing public says how many features they have.
        """
        typed, frame = isinstance(X, np.ndarray) and X.dtype != object, hasattr(X, "iloc")
        entries = None if typed else entries_of(np.asarray(X, object) if frame else X)
        if entries is None:
            return X
        known = getattr(entries, "shape", ())[1:]  # of a table
        known = known or np.array(self.feature_range if X_public is None else X_public, object).shape[1:]
        if len(known) != 1:
            unknown = "if neither X_public nor arrays in feature_range say how many features there are"
            raise ValueError(f"X must be an array (n, d) or a table {unknown}; got {type(X).__name__}.")
        if (real := real_array(X)) is not None and real.shape[1:] == known:
            return X
        cells = stacked(entries, known, FLOAT64)
        return type(X)(cells, columns=X.columns) if frame else cells

    def built(self, public: tuple[Floats, Labels], users: int | None) -> LabelAgent[Any]:
        """Return the agent before it has learned; ``users`` are expected, None: as many as its settings say.

        Raises:
            ValueError: it cannot play this number of labels or features, or does not learn from labels.
        """
        name, settings = self.chosen()
        agent_class = find(name).load()
        if not issubclass(agent_class, LabelAgent):
            raise ValueError(f"agent must be one that predicts labels, such as lpct; got {name!r}.")
        if users is not None and "horizon" in field_names(agent_class.Config):
            settings = {"horizon": users, **settings}
        spaces = Box(0, 1, (self.n_features_in_,), np.float64), Discrete(len(self.classes_))
        if needs := agent_class.plays(*spaces):
            only = "Only binary classification is supported. " * is_binary(name)  # as scikit-learn's checks want it
            raise ValueError(f"{only}{name} needs {needs}; got {len(self.classes_)} labels.")
        agent = agent_class(*spaces, settings_of(name, settings), generator_of(self.random_state), public)
        agent.name = name
        return agent

    def public_classes(self, answers: Array, given: ArrayLike | None) -> Array:
        """Return the classes: those given, or those of the public rows."""
        if given is None and not len(answers):
            raise ValueError(
                "classes must be given where there are no public rows, as in classes=[0, 1]: labels are private, "
                "so that which of them occur must not show; got None."
            )
        classes = answers if given is None else np.asarray(given)
        check_classification_targets(classes)
        classes = np.unique(classes)
        if len(classes) < 2:
            raise ValueError(f"there must be at least two classes; got {classes.tolist()}, one class: give classes=.")
        return classes

    def check_type(self, labels: Array) -> None:
        """Raise if labels are text and the classes are not, or the other way round; they could not match."""
        private, public = ("text" if values.dtype.kind in "STU" else "numbers" for values in (labels, self.classes_))
        if labels.dtype != object and self.classes_.dtype != object and private != public:
            raise ValueError(f"y must be {public}, as the classes {self.classes_.tolist()} are; got {private}.")

    def index(self, labels: Array) -> Labels:
        """Return the number of every label of public rows."""
        found, strange = self.numbered(labels)
        if np.any(strange):
            raise ValueError(f"y_public must hold the classes {self.classes_.tolist()}; got {labels[strange][0]!r}.")
        return found

    def numbered(self, labels: Array) -> tuple[Labels, NDArray[np.bool_]]:
        """Return the number of every label, 0 for one that is no class, and which these are."""
        if not {self.classes_.dtype.kind, labels.dtype.kind} <= set("biufUS"):
            found = looked_up(self.classes_, labels)
            return np.maximum(found, 0), found < 0
        found = np.searchsorted(self.classes_, labels).clip(0, len(self.classes_) - 1)
        strange = self.classes_[found] != labels
        return np.where(strange, 0, found).astype(np.int64), np.asarray(strange, np.bool_)

    def scaled(self, x: Array) -> Floats:
        return min_max(np.where(np.isfinite(x), x, self.scale_.mean(axis=0)), self.scale_)

    def reprocessed(self, **settings: object) -> Self:
        """Return a fitted copy with other settings for use after the reports; no privacy is spent.

        Raises:
            ValueError: a setting on which the reports depend.
        """
        check_is_fitted(self)
        allowed, name = self.agent_.postprocessing, self.agent_.name
        if strange := sorted(settings.keys() - allowed):
            free = sorted(allowed) or "nothing"
            raise ValueError(f"{strange[0]} needs another fit; {name} changes {free} without one.")
        other = copy.copy(self)
        other.agent_ = copy.copy(self.agent_)
        other.ledger_ = getattr(other.agent_, "ledger", None)
        other.agent_.reprocess(dataclasses.replace(self.agent_.config, **settings))
        other.note(settings)
        return other

    @abstractmethod
    def note(self, settings: Mapping[str, Any]) -> None:
        """Take over changed settings of the agent as parameters."""

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the estimated probabilities of the classes, shape (n, K)."""
        check_is_fitted(self)
        x = validate_data(self, self.encoded(X), dtype=[np.float64, np.float32], ensure_all_finite=False, reset=False)
        refuse_infinite(x, "X")
        chances = np.concatenate([self.agent_.chances(self.scaled(x[part])) for part in self.parts(len(x))])
        if self.outside == "zero":
            low, high = self.scale_
            chances[((x < low) | (x > high)).any(axis=1)] = np.eye(len(self.classes_))[0]
        return chances

    def predict(self, X: ArrayLike) -> Array:
        """Return the likeliest class of each row, shape (n,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def is_binary(name: str) -> bool:
    """Return whether an agent is for two labels only; False for a name that is none."""
    return name in AGENTS and getattr(AGENTS[name].load(), "binary", False) is True


class AgentClassifier(LabelClassifier):
    """Any agent of the zoo that predicts labels, as an estimator; see ``LabelClassifier``.

    Args:
        agent: its name: ``"lpct"``, ``"warm-ldp-sgd"``, ``"tree-public"``, ...
        settings: of its Config; a ``horizon`` among them is by default the number of private rows.
        classes: the labels that exist, known to the public; None: those of the public rows.
        feature_range: public bounds (low, high) of the features, numbers or arrays (d,): features beyond them are
            clipped. None: public rows scale them, or ``scale_by="range"`` takes the unit interval.
        scale_by: ``"public"`` scales features by the public rows (Theorem 8 of the LPCT paper), and by the range if
            there are none; ``"range"`` always by the range.
        outside: how rows beyond the scale are answered: ``"clip"`` moves them to its end; ``"zero"`` gives them the
            first class, as Theorem 8 of the LPCT paper does.
        schema: of tables X and X_public, or the path of its file, with public bounds and levels: it encodes categories,
            dates and blanks, and scales numbers.
        aggregate: whether to draw the sum of the reports at once where its law is exact.
        random_state: None: fresh keys from the operating system; a seed or a generator of numpy's: for simulations.
    """

    def __init__(
        self,
        agent: str = "lpct",
        settings: Mapping[str, Any] | None = None,
        *,
        classes: ArrayLike | None = None,
        feature_range: tuple[ArrayLike, ArrayLike] | None = None,
        scale_by: str = "public",
        outside: str = "clip",
        schema: Any = None,
        aggregate: bool = False,
        random_state: Randomness = None,
    ) -> None:
        self.agent, self.settings = agent, settings
        self.classes, self.feature_range, self.scale_by = classes, feature_range, scale_by
        self.outside, self.schema = outside, schema
        self.aggregate, self.random_state = aggregate, random_state

    def chosen(self) -> tuple[str, dict[str, Any]]:
        return self.agent, dict(self.settings or {})

    def note(self, settings: Mapping[str, Any]) -> None:
        self.settings = {**(self.settings or {}), **settings}


class LPCTClassifier(LabelClassifier):
    """A classification tree on public rows, with leaves that private rows vote on through local randomizers.

    Yuheng Ma and Hanfang Yang, "Optimal Locally Private Nonparametric Classification with Public Data", 2023.

    *Formal guarantees.* Pure epsilon-local DP of every private row: one report a row by ``LeafReport``; see ``LPCT``
    and ``LabelClassifier``. Without public rows ``classes`` must be given, and the cells are halved in turn.

    The arguments from ``epsilon`` to ``tau`` are the settings of ``lpct``, with private rows in place of users; its
    ``Config`` explains them. The others, from ``classes`` on, are those of ``AgentClassifier``.
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
        drift: float = 0.3,
        tau: float = 0.5,
        classes: ArrayLike | None = None,
        feature_range: tuple[ArrayLike, ArrayLike] | None = None,
        scale_by: str = "public",
        aggregate: bool = False,
        random_state: Randomness = None,
    ) -> None:
        self.epsilon, self.report, self.partition, self.depth = epsilon, report, partition, depth
        self.weight, self.trust, self.drift, self.tau = weight, trust, drift, tau
        self.classes, self.feature_range, self.scale_by = classes, feature_range, scale_by
        self.aggregate, self.random_state = aggregate, random_state

    def chosen(self) -> tuple[str, dict[str, Any]]:
        names = ("epsilon", "report", "partition", "depth", "weight", "trust", "drift", "tau")
        return "lpct", {name: getattr(self, name) for name in names}

    def note(self, settings: Mapping[str, Any]) -> None:
        self.set_params(**settings)


def in_objects(labels: object) -> Any:
    """Return a list of labels as an array that keeps the type of each; an array stays unchanged."""
    if not isinstance(labels, list | tuple):
        return labels
    array = np.empty(len(labels), object)
    array[:] = [entry if entries_of(entry) is None else None for entry in labels]
    return array


def looked_up(classes: Array, labels: Array) -> Labels:
    """Return the number of every label among classes of any type, -1 for one that is none."""
    numbers: dict[object, int] = {label: number for number, label in enumerate(classes.tolist())}

    def number_of(label: object) -> int:
        try:
            return numbers.get(label, -1)
        except Exception:  # it has no hash, or anything may be inside
            return -1

    return np.array([number_of(label) for label in labels.tolist()], np.int64)


def refuse_infinite(x: Array, name: str) -> Array:
    """Return rows if all of them are finite.

    Raises:
        ValueError: NaN or infinity.
    """
    if not (finite := np.isfinite(x)).all():
        raise ValueError(f"{name} must not contain NaN or infinity; got {x[~finite][0]}.")
    return x


def generator_of(random_state: Randomness) -> np.random.Generator | None:
    """Return a generator for scikit-learn's ways to name one; None: the agent takes fresh keys.

    Raises:
        ValueError: no way to name one.
    """
    if random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, Integral):
        return generator(int(random_state))
    words = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(words)
