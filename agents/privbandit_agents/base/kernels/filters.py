"""Kalman filters on the mean report of every batch, and which of them is believed."""

import math
from typing import ClassVar

import numpy as np

from privbandit_agents.base.kernels.deviations import Deviations, chances, units
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.base.rows import blocks
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import Ties, best


class Filters:
    """Estimates of eta from the mean report of every batch.

    Filter 0 stays at the public model. The others start there with different variances and learn. Before each of them
    learns from a batch, it predicts the mean report; its score is the log likelihood of all mean reports up to now.
    Users are served by the filter with the best score, but by filter 0 until one is ahead of it.

    Attributes:
        field: scores of the labels as functions of eta.
        means: of eta, shape (J, m).
        spreads: covariances of eta, shape (J, m, m).
        scores: shape (J,).
        lead: who serves.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"field", "places", "still", "scorer", "moved"})
    scorer: Floats | None = None
    """Makes scores by the filter that serves, until it changes; None: not computed yet."""
    moved: tuple[Floats, Floats] | None = None
    """What the filter that serves adds to scores, likewise."""

    def __init__(self, field: Deviations) -> None:
        self.field = field
        self.places = field.parts(field.model.places)
        # filter 0 stays; three learn, from three prior variances of eta
        variances = np.array((1.0, 1.0, 0.3, 0.1))
        self.means, self.scores = np.zeros((len(variances), field.dim)), np.zeros(len(variances))
        self.spreads = np.multiply.outer(variances, np.eye(field.dim))
        self.still = self.likely(*self.places, field.moved(self.means[0], self.spreads[0]))
        self.lead = 0

    def learn(self, mean: Floats, users: int, added: float) -> None:
        """Let every filter learn from the mean report of a batch, and choose the lead.

        Args:
            mean: estimate of the mean of ``surprises``, shape (m,).
            users: of the batch.
            added: variance that privacy adds to a coordinate, a user; it is divided by the number of users.
        """
        # what users were shown, at contexts that stand for theirs
        public, phi = self.places
        moved = (self.field.moved(*one) for one in zip(self.means[1:], self.spreads[1:], strict=True))
        places = [self.still, *(self.likely(public, phi, one) for one in moved)]
        shown, _ = places[self.lead]
        answers = shown.argmax(axis=1)
        right = np.take_along_axis(shown, answers[:, None], axis=1)[:, 0]
        most = np.maximum(right, 1 - right)
        about = units(self.field.slopes(shown, phi, answers)) / most[:, None]
        noise = about.T @ (about * (right * (1 - right))[:, None]) / len(about)
        noise[np.diag_indices_from(noise)] += added + 1e-6
        noise /= users
        # every filter by itself
        learned = [self.learned(j, places[j], mean, noise, about, answers, right) for j in range(len(self.scores))]
        means, spreads, gains = zip(*learned, strict=True)
        self.means, self.spreads, self.scores = np.stack(means), np.stack(spreads), self.scores + np.array(gains)
        first = 1 + int(self.scores[1:].argmax())
        self.lead = first if self.scores[first] > self.scores[0] else 0
        self.scorer = self.moved = None

    def learned(
        self,
        which: int,
        places: tuple[Floats, Floats],
        mean: Floats,
        noise: Floats,
        about: Floats,
        answers: Labels,
        right: Floats,
    ) -> tuple[Floats, Floats, float]:
        """Return a filter's mean and covariance after a batch, and the log likelihood of the batch before.

        Args:
            which: of the filters.
            places: what ``likely`` says of it at contexts that stand for the users'.
            mean: of the reports' estimates, shape (m,).
            noise: its covariance, shape (m, m).
            about: a report's mean per unit of surprise, at contexts that stand for the users', shape (N, m).
            answers: labels played there, shape (N,).
            right: the probability that devices have for these labels, shape (N,).
        """
        eta, spread = self.means[which], self.spreads[which]
        likely, moderate = places
        own = np.take_along_axis(likely, answers[:, None], axis=1)[:, 0]
        off = mean - (own - right) @ about / len(about)
        score = -float(off @ np.linalg.solve(noise, off)) / 2
        if which == 0:
            return eta, spread, score
        # Kalman: the mean report moves with eta by `slope`
        slope = about.T @ (self.field.slopes(likely, self.places[1], answers) * (moderate * own)[:, None]) / len(about)
        shared = slope @ spread
        solved = np.linalg.solve(shared @ slope.T + noise, np.column_stack([off, shared]))
        surprise, m = float(off @ solved[:, 0]), len(off)
        usual = m + 3.0 * math.sqrt(2 * m)  # no report moves the filter by more than chance would
        step = math.sqrt(min(1.0, usual / max(surprise, usual)))
        after = spread - shared.T @ solved[:, 1:]
        return eta + step * (shared.T @ solved[:, 0]), (after + after.T) / 2, score

    def likely(self, public: Floats, phi: Floats, moved: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Return a filter's probabilities of the labels (n, K), and by how much they are drawn together (n,).

        Scores s of a mean variance v are divided by sqrt(1 + pi v K / (4 (K - 1))): with two labels this is the usual
        approximation of the mean of the logistic function.

        Args:
            public: scores of the public model, shape (n, K).
            phi: what directions weigh, shape (n, D').
            moved: what the filter adds, by ``Deviations.moved``.
        """
        added, apart = moved
        scores = public + phi @ added
        variance = np.vecdot(phi @ apart, phi) / (scores.shape[1] - 1)
        moderate = 1 / np.sqrt(1 + math.pi / 4 * np.maximum(variance, 0.0))
        return chances(moderate[:, None] * scores), moderate

    def shown(self, contexts: Array) -> tuple[Floats, Floats]:
        """Return the probabilities of the labels by the filter that serves (n, K), and what directions weigh."""
        if self.moved is None:
            self.moved = self.field.moved(self.means[self.lead], self.spreads[self.lead])
        public, phi = self.field.parts(contexts)
        return self.likely(public, phi, self.moved)[0], phi

    def chances(self, contexts: Array) -> Floats:
        """Return the probabilities of the labels by the filter that serves, contexts (n, d) to (n, K)."""
        parts = [self.shown(x)[0] for (x,) in blocks(lambda: 512, contexts)]
        return np.concatenate([np.zeros((0, self.places[0].shape[1])), *parts])

    def answer(self, contexts: Array, ties: Ties) -> Labels:
        """Return the likeliest label of each context, any of several, shape (n,)."""
        if self.scorer is None:
            self.scorer = self.field.scorer(self.means[self.lead])
        return np.asarray(best(self.field.model.features.kernels(contexts) @ self.scorer, ties))

    def surprises(self, contexts: Floats, labels: Labels) -> Floats:
        """Return the users' vectors: a unit vector of their context times a number in [-1, 1], shape (n, m).

        The vector is the direction in which eta makes the label that was given likelier. The number is r - p over
        max(p, 1 - p), with r whether it was right and p its probability.

        Args:
            contexts: shape (n, d).
            labels: the label that was given and right, or -1 minus the one that was given and wrong, shape (n,).
        """
        parts = [np.zeros((0, self.field.dim))]
        for x, told in blocks(lambda: 512, contexts, labels):
            likely, phi = self.shown(x)
            given = np.maximum(told, -1 - told)
            p = likely[np.arange(len(given)), given]
            surprise = ((told >= 0) - p) / np.maximum(p, 1 - p)
            parts.append(surprise[:, None] * units(self.field.slopes(likely, phi, given)))
        return parts[1] if len(parts) == 2 else np.concatenate(parts)
