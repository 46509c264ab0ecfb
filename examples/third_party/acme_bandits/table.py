"""What both agents learn from: a user's record is one cell of a table of places, arms and answers."""

from dataclasses import dataclass

import numpy as np
from privbandit_agents import Budget, Fraction, Growth, Settings

SIDE = 2
"""Each of the two features is cut into so many parts."""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of both agents.

    Attributes:
        epsilon: of local or of joint differential privacy.
        exploration: share of users who get an arm at random.
        growth: factor between two changes of the policy.
    """

    epsilon: Budget = 1.0
    exploration: Fraction = 0.1
    growth: Growth = 1.2


def places(contexts):
    """Return the place of each context, shape (...): any number counts, and NaN lies in the first part."""
    inside = np.clip(np.where(np.isfinite(contexts), contexts, 0.0), 0.0, 1.0)
    parts = np.minimum((inside * SIDE).astype(int), SIDE - 1)
    return parts[..., 0] * SIDE + parts[..., 1]


def cells(contexts, arms, answers, n_arms):
    """Return each user's cell in 0, ..., places * arms * 2 - 1: no record is refused, none has two cells."""
    arms = np.clip(np.asarray(arms, dtype=int), 0, n_arms - 1)
    came = np.where(np.isfinite(answers), answers, 0.0) > 0.5
    return (places(contexts) * n_arms + arms) * 2 + came


def shares(counts, n_arms):
    """Return the share of those who came, shape (places, arms), from a table of counts, which noise may have bent."""
    stayed, came = np.moveaxis(np.asarray(counts, dtype=float).reshape(SIDE**2, n_arms, 2), -1, 0)
    return came / np.maximum(stayed + came, 1.0)


def chosen(scores, contexts, exploration, rng):
    """Return the best arm of each context's place, or now and then an arm at random."""
    best = scores[places(contexts)].argmax(axis=-1)
    luck, arm = np.moveaxis(rng.random((*best.shape, 2)), -1, 0)
    return np.where(luck < exploration, (arm * scores.shape[1]).astype(int), best)[()]
