"""Maximum likelihood of a multinomial-logit choice model."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Map: TypeAlias = Callable[[Floats], Floats]


class Logit:
    """Penalised log-likelihood of the choices of n users from N items.

    User t, offered the items of a set S, takes item i with probability exp(v_ti) / (1 + sum over S of exp(v_tj)),
    where v_ti = x_ti . theta.

    Args:
        utilities: from theta, shape (d,), to v, shape (n, N); ``linear`` and ``bilinear`` make one.
        pull: from a table, shape (n, N), to the sum of table_ti x_ti, shape (d,).
        offered: which items each user could take, shape (n, N).
        taken: the item each user took, or -1, shape (n,).
        dim: number of parameters d.
        ridge: half of it times the squared norm of theta is added to the negative log-likelihood, > 0.
    """

    def __init__(
        self,
        utilities: Map,
        pull: Map,
        offered: NDArray[np.bool_],
        taken: NDArray[np.int64],
        dim: int,
        ridge: float,
    ) -> None:
        self.utilities, self.pull, self.offered, self.dim, self.ridge = utilities, pull, offered, dim, ridge
        self.choices = np.zeros(offered.shape)
        buyers = np.flatnonzero(taken >= 0)
        self.choices[buyers, taken[buyers]] = 1

    def fit(self) -> Floats:
        """Return the maximiser: L-BFGS, then Newton steps until no entry of the gradient exceeds 1e-8.

        Raises:
            RuntimeError: the gradient does not get there.
        """
        theta: Floats = scipy.optimize.minimize(self.loss, np.zeros(self.dim), jac=True, method="L-BFGS-B").x
        for _ in range(20):
            _, probabilities = self.choice(self.utilities(theta))
            gradient = self.gradient(theta, probabilities)
            if np.abs(gradient).max() <= 1e-8:
                return theta
            hessian = scipy.sparse.linalg.LinearOperator(
                (len(theta),) * 2, matvec=partial(self.curve, probabilities), dtype=np.float64
            )
            theta = theta - scipy.sparse.linalg.cg(hessian, gradient, rtol=1e-6)[0]
        raise RuntimeError(f"the choice model could not be fitted: its gradient stays at {np.abs(gradient).max():.2g}.")

    def loss(self, theta: Floats) -> tuple[float, Floats]:
        """Return the penalised negative log-likelihood and its gradient."""
        utilities = self.utilities(theta)
        total, probabilities = self.choice(utilities)
        value = total.sum() - (self.choices * utilities).sum() + self.ridge / 2 * theta @ theta
        return float(value), self.gradient(theta, probabilities)

    def gradient(self, theta: Floats, probabilities: Floats) -> Floats:
        """Return the gradient at theta, where items are taken with these probabilities."""
        return self.pull(probabilities - self.choices) + self.ridge * theta

    def curve(self, probabilities: Floats, step: Floats) -> Floats:
        """Return the Hessian times a step, where items are taken with these probabilities."""
        change = self.utilities(step)
        mean = np.vecdot(probabilities, change)[:, None]
        return self.pull(probabilities * (change - mean)) + self.ridge * step

    def choice(self, utilities: Floats) -> tuple[Floats, Floats]:
        """Return log(1 + sum over S of exp(v)) of every user and the probabilities of the items."""
        shift = np.maximum(utilities.max(axis=1, where=self.offered, initial=0.0), 0.0)[:, None]
        weights = np.exp(np.where(self.offered, utilities, -np.inf) - shift)
        total = np.exp(-shift) + weights.sum(axis=1, keepdims=True)
        return (shift + np.log(total))[:, 0], weights / total


def linear(x: Floats) -> tuple[Map, Map]:
    """Return ``utilities`` and ``pull`` for features x, shape (n, N, d)."""
    flat = x.reshape(-1, x.shape[2])
    return lambda theta: (flat @ theta).reshape(x.shape[:2]), lambda table: table.ravel() @ flat


def bilinear(items: Floats, users: Floats, free: NDArray[np.bool_]) -> tuple[Map, Map]:
    """Return the same for v_ti = h_i' Phi u_t, without the n N d products.

    Args:
        items: h, shape (N, p).
        users: u, shape (n, q).
        free: which entries of Phi are parameters, row by row, shape (p, q); the others are 0.
    """

    def utilities(theta: Floats) -> Floats:
        phi = np.zeros(free.shape)
        phi[free] = theta
        return (users @ phi.T) @ items.T

    def pull(table: Floats) -> Floats:
        back: Floats = (items.T @ (table.T @ users))[free]
        return back

    return utilities, pull
