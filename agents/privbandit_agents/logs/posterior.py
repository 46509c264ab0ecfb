"""Worlds that a log leaves possible: draws from the posterior of a hierarchical model of rewards.

Andrew Gelman and others, "Bayesian Data Analysis", third edition, 2013, chapters 5 and 13.

Arm a has coefficients beta_a ~ N(b, tau^2) on 1, the features and, if there are few, their products, with one tau for
each of the three. Clicks are logistic, other rewards Gaussian. The likelihood is taken as Gaussian about its mode, and
tau is not set to its likeliest value but drawn by its marginal likelihood, so that few rows leave many worlds possible.
"""

import itertools

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.base.spaces import Array

Floats = NDArray[np.float64]
TAUS = ((0.1, 0.2, 0.4, 0.8, 1.6), (0.02, 0.1, 0.2, 0.4, 0.8), (0.02, 0.1, 0.3))
"""Standard deviations of coefficients among arms: of 1, of features, and of their products."""
COMMON = (10.0, 1.0, 0.3)
"""Standard deviations of coefficients that all arms share."""


def draw_lines(
    x: Floats, widths: list[int], groups: Array, y: Floats, clicks: bool, number: int, draws: int, rng: Generator
) -> Floats:
    """Return draws of the coefficients of all groups, shape (draws, number, D).

    Args:
        x: designs of the arms that were taken, shape (n, D).
        widths: how many columns are 1, features too, and products too.
        groups: the arm of each row, or 0 if arms share coefficients, shape (n,).
        y: rewards in [0, 1], shape (n,).
        clicks: whether rewards are 0 or 1.
        number: of groups.
        draws: of coefficients.
        rng: of the draws.
    """
    kinds = np.repeat(np.arange(len(widths)), np.diff(widths, prepend=0))
    places = np.split(np.argsort(groups, kind="stable"), np.bincount(groups, minlength=number).cumsum()[:-1])
    designs, rewards = [x[rows] for rows in places], [y[rows] for rows in places]
    mean = float(np.clip(y.mean(), 0.5 / len(y), 1 - 0.5 / len(y)))
    unit = 1.0 if clicks else float(y.std())
    common = np.array(COMMON)[kinds] * unit
    grid = [unit * np.array(taus)[kinds] for taus in itertools.product(*TAUS[: len(widths)])]
    lines = np.zeros((number, x.shape[1]))
    lines[:, 0] = scipy.special.logit(mean) if clicks else mean
    tau, noise = unit * np.array([0.4, 0.2, 0.1])[kinds], float(y.var())
    for _ in range(2):  # about the mode at a middle tau, then about that of the likeliest one
        lines, squares, linear = mode(designs, rewards, lines, tau, common, clicks, noise)
        weights = np.array([evidence(squares, linear, one, common) for one in grid])
        weights -= [0.5 * sum((one[kinds == kind][0] / unit / 0.5) ** 2 for kind in set(kinds)) for one in grid]
        tau = grid[int(weights.argmax())]
        if not clicks:
            residuals = [r - one @ line for one, r, line in zip(designs, rewards, lines, strict=True)]
            noise = float(np.mean(np.concatenate(residuals) ** 2))
    weights = np.exp(weights - weights.max())
    found = []
    for place in rng.choice(len(grid), draws, p=weights / weights.sum()):
        inverse, precision, center = parts_of(squares, linear, grid[place], common)
        shared = center + np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal(len(center)))
        means = np.einsum("gij,gj->gi", inverse, linear + shared / grid[place] ** 2)
        roots = np.linalg.cholesky(inverse + 1e-12 * np.eye(len(center)) * inverse.max())
        found.append(means + np.einsum("gij,gj->gi", roots, rng.standard_normal(means.shape)))
        if clicks:  # normal errors of log-odds are skewed as rates: the mean rate has its own law
            outer = np.concatenate([one @ line for one, line in zip(designs, found[-1], strict=True)])
            rate = rng.beta(y.sum() + 0.5, len(y) - y.sum() + 0.5)
            for _ in range(20):
                p = scipy.special.expit(outer)
                move = float((rate - p.mean()) / max((p * (1 - p)).mean(), rate / 4))
                outer += move
                found[-1][:, 0] += move
    return np.array(found)


def parts_of(squares: Floats, linear: Floats, tau: Floats, common: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the covariance of each group given the common part, and that part's precision and mean."""
    inverse = np.linalg.inv(squares + np.diag(tau**-2))
    each = tau[:, None] ** -2 * inverse * tau**-2
    precision = np.diag(common**-2 + len(squares) * tau**-2) - each.sum(axis=0)
    center = np.linalg.solve(precision, tau**-2 * np.einsum("gij,gj->i", inverse, linear))
    return np.asarray(inverse), precision, np.asarray(center)


def evidence(squares: Floats, linear: Floats, tau: Floats, common: Floats) -> float:
    """Return the log of the marginal likelihood of tau, up to a constant."""
    inverse, precision, center = parts_of(squares, linear, tau, common)
    own = 0.5 * np.einsum("gi,gij,gj->", linear, inverse, linear, optimize=True)
    own += 0.5 * np.linalg.slogdet(inverse)[1].sum() - len(squares) * np.log(tau).sum()
    return float(own + 0.5 * center @ precision @ center - 0.5 * np.linalg.slogdet(precision)[1])


def mode(
    designs: list[Floats], rewards: list[Floats], lines: Floats, tau: Floats, common: Floats, clicks: bool, noise: float
) -> tuple[Floats, Floats, Floats]:
    """Return the likeliest coefficients, and the likelihood about them as precision and linear term of each group."""
    center, objective, step = lines.mean(axis=0), -np.inf, 1.0
    proposal, middle = target, goal = lines, center
    for _ in range(30):
        # the value at the proposal; half the step if it is no better
        outer = [one @ line for one, line in zip(designs, proposal, strict=True)]
        if clicks:
            value = sum(float(r @ eta - np.logaddexp(0, eta).sum()) for r, eta in zip(rewards, outer, strict=True))
        else:
            value = sum(-0.5 * float((r - eta) @ (r - eta)) / noise for r, eta in zip(rewards, outer, strict=True))
        value -= 0.5 * float((((proposal - middle) / tau) ** 2).sum() + ((middle / common) ** 2)[1:].sum())
        if value < objective - 1e-9 * abs(objective) and step > 1e-3:
            step /= 2
            proposal, middle = (lines + step * (target - lines), center + step * (goal - center))
            continue
        done = value - objective < 1e-6 * (1 + abs(value))
        lines, center, objective, step = proposal, middle, value, 1.0
        # the likelihood about it
        curves = [scipy.special.expit(eta) for eta in outer] if clicks else outer
        bend = [p * (1 - p) if clicks else np.full(len(p), 1 / noise) for p in curves]
        squares = np.stack([one.T @ (w[:, None] * one) for one, w in zip(designs, bend, strict=True)])
        slopes = np.stack([one.T @ (r - p) for one, r, p in zip(designs, rewards, curves, strict=True)])
        linear = slopes / (1 if clicks else noise) + np.einsum("gij,gj->gi", squares, lines)
        if done:
            break
        inverse, _, goal = parts_of(squares, linear, tau, common)
        target = np.einsum("gij,gj->gi", inverse, linear + goal / tau**2)
        proposal, middle = target, goal
    return lines, squares, linear
