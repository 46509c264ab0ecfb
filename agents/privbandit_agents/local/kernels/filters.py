"""The server: Kalman filters on the mean report of a batch, and which of them is believed."""

import copy
import math
from dataclasses import dataclass

import numpy as np
import scipy

from privbandit_agents.base.agent import Array
from privbandit_agents.base.labels import Floats, Labels
from privbandit_agents.local.kernels.deviations import Deviations, said
from privbandit_agents.local.label_agent import added


class Filters:
    def __init__(self, field: Deviations, tempers: tuple[float, ...], noise: float, batch: int, proof: float) -> None:
        self.field, self.noise, self.batch, self.proof = field, noise, batch, proof
        m, count = field.dim, len(tempers)
        self.means = np.zeros((count, m))
        self.spreads = np.multiply.outer(np.array(tempers), np.eye(m))
        self.scores = np.zeros(count)
        self.lead, self.users, self.waiting, self.total = 0, 0, 0, np.zeros(m)
        self.public, self.moves = field.both(field.model.places)

    fixed = frozenset({"field", "public", "moves", "noise", "batch", "proof"})

    @property
    def left(self) -> int:
        return self.batch - self.waiting

    def likely(self, public: Floats, moves: Floats, which: int) -> Floats:
        """moderated probabilities"""
        scores = public + moves @ self.means[which]
        root = np.linalg.cholesky(self.spreads[which] + 1e-12 * np.eye(len(self.total)))
        variance = ((moves @ root) ** 2).sum(axis=(1, 2)) / max(scores.shape[1] - 1, 1)
        kappa = 1 / np.sqrt(1 + math.pi / 4 * variance)
        return scipy.special.softmax(kappa[:, None] * scores, axis=1), kappa

    def add(self, estimates: Floats) -> None:
        self.total = added(self.total, estimates)
        self.waiting += len(estimates)
        if not self.left:
            self.move()

    def move(self) -> None:
        n, m = self.waiting, len(self.total)
        estimate = self.total / n
        p, _ = self.likely(self.public, self.moves, self.lead)
        action = (self.public + self.moves @ self.means[self.lead]).argmax(axis=1)
        unit, right = said(p, self.moves, action)
        top = np.maximum(right, 1 - right)
        sampling = unit.T @ (unit * (right * (1 - right) / top**2)[:, None]) / len(unit)
        noise = (self.noise * np.eye(m) + sampling) / n
        rows = np.arange(len(action))
        means, spreads, scores = self.means.copy(), self.spreads.copy(), self.scores.copy()
        for j in range(len(self.means)):
            q, kappa = (p, None) if False else self.likely(self.public, self.moves, j)
            expected = unit.T @ ((q[rows, action] - right) / top) / len(unit)
            off = estimate - expected
            scores[j] -= off @ np.linalg.solve(noise, off) / 2
            if j == 0:
                continue
            slope = self.moves[rows, action] - np.einsum("nk,nkm->nm", q, self.moves)
            H = unit.T @ (slope * (kappa * q[rows, action] / top)[:, None]) / len(unit)
            PH = self.spreads[j] @ H.T
            S = H @ PH + noise
            solved = np.linalg.solve(S, np.concatenate([off[:, None], PH.T], axis=1))
            size, most = off @ solved[:, 0], m + 3 * math.sqrt(2 * m)
            shrink = min(1.0, math.sqrt(most / max(size, 1e-300)))
            means[j] += shrink * PH @ solved[:, 0]
            new = self.spreads[j] - PH @ solved[:, 1:]
            spreads[j] = (new + new.T) / 2
        self.means, self.spreads, self.scores = means, spreads, scores
        if len(scores) > 1:
            best = 1 + int(scores[1:].argmax())
            self.lead = best if scores[best] > scores[0] + self.proof else 0
        self.users += n
        self.total, self.waiting = np.zeros(m), 0
