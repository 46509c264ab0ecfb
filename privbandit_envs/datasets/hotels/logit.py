"""Maximum likelihood of a multinomial-logit choice model that is bilinear in hotels and users."""

from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class BilinearLogit:
    """Penalised log-likelihood of the choices of n users from N hotels.

    User t, offered the hotels of a set S, takes hotel i with probability exp(v_ti) / (1 + sum over S of exp(v_tj)),
    where v_ti = h_i' Phi u_t; some entries of Phi are free, the others 0.

    Args:
        hotels: h, shape (N, p).
        users: u, shape (n, q).
        offered: which hotels each user saw, shape (n, N).
        taken: the hotel each user took, or -1, shape (n,).
        free: which entries of Phi are parameters, shape (p, q); a parameter vector lists them row by row.
        ridge: half of it times the squared norm of the parameters is added to the negative log-likelihood, > 0.
    """

    def __init__(
        self,
        hotels: Floats,
        users: Floats,
        offered: NDArray[np.bool_],
        taken: NDArray[np.int64],
        free: NDArray[np.bool_],
        ridge: float,
    ) -> None:
        self.hotels, self.users, self.offered, self.free, self.ridge = hotels, users, offered, free, ridge
        self.choices = np.zeros(offered.shape)
        buyers = np.flatnonzero(taken >= 0)
        self.choices[buyers, taken[buyers]] = 1

    def fit(self) -> Floats:
        """Return the maximiser: L-BFGS, then Newton steps until no entry of the gradient exceeds 1e-8.

        Raises:
            RuntimeError: the gradient does not get there.
        """
        theta: Floats = scipy.optimize.minimize(self.loss, np.zeros(self.free.sum()), jac=True, method="L-BFGS-B").x
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
        """Return the gradient at theta, where hotels are taken with these probabilities."""
        return self.pull(probabilities - self.choices) + self.ridge * theta

    def curve(self, probabilities: Floats, step: Floats) -> Floats:
        """Return the Hessian times a step, where hotels are taken with these probabilities."""
        change = self.utilities(step)
        mean = np.vecdot(probabilities, change)[:, None]
        return self.pull(probabilities * (change - mean)) + self.ridge * step

    def choice(self, utilities: Floats) -> tuple[Floats, Floats]:
        """Return log(1 + sum over S of exp(v)) of every user and the probabilities of the hotels."""
        shift = np.maximum(utilities.max(axis=1, where=self.offered, initial=0.0), 0.0)[:, None]
        weights = np.exp(np.where(self.offered, utilities, -np.inf) - shift)
        total = np.exp(-shift) + weights.sum(axis=1, keepdims=True)
        return (shift + np.log(total))[:, 0], weights / total

    def utilities(self, theta: Floats) -> Floats:
        """Return v, shape (n, N)."""
        phi = np.zeros(self.free.shape)
        phi[self.free] = theta
        return (self.users @ phi.T) @ self.hotels.T

    def pull(self, table: Floats) -> Floats:
        """Return the free entries of the sum of table_ti h_i u_t'."""
        back: Floats = (self.hotels.T @ (table.T @ self.users))[self.free]
        return back
