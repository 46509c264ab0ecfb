"""Sparse high-dimensional linear bandits with correlated Gaussian contexts."""

import math

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_envs.families.gaussians import BOUND, gaussians
from privbandit_envs.problem import ArmProblem, Array, Floats
from privbandit_envs.spaces import Units
from privbandit_envs.validate import at_least, count, number, numbers, one_of


class SparseLinearProblem(ArmProblem):
    """Rewards linear in d features; only s* matter.

    The context is x_a for every arm a, shape (K, d), independent N(0, Sigma) with Sigma_ij = correlation^|i-j|,
    clipped to [-8, 8]. The mean reward of arm a is x_a . beta for a hidden beta with s* nonzero entries at random
    positions.

    This is the setting of Chakraborty, Roy and Basu, "FLIPHAT: Joint Differential Privacy for High Dimensional Sparse
    Linear Bandits", section 6. The paper leaves beta open; in the authors' repository it is ``"signed-uniform"``.

    Args:
        n_arms: number of arms K.
        dim: number of features d.
        sparsity: number of nonzero entries s* of beta.
        coefficients: nonzero entries of beta: ``"equal"`` +-1/sqrt(s*), ``"small"`` +-1/s*, ``"uniform"`` U(-1, 1),
            ``"signed-uniform"`` +-U(1/2, 1), ``"hard"`` +-min(1/s*, noise_scale sqrt(log(d/s*) / horizon)), so small
            that they can hardly be told from 0 in one episode.
        correlation: of neighboring features, in (-1, 1).
        margin: least gap between the mean reward of the best arm and the others', >= 0: the best arm's features move
            along beta by this margin. Without it the gap is below h with a probability in proportion to h (the paper's
            alpha = 1); with it, its alpha is infinite.
        noise: ``"gaussian"``: N(0, noise_scale^2); ``"uniform"``: U(-noise_scale, noise_scale).
        noise_scale: scale of the noise, >= 0.
        beta: the parameter itself, shape (d,), or its first entries, followed by zeros; by default drawn.
        horizon: rounds an episode.
        dtype: of the contexts.

    Raises:
        ValueError: an argument out of range.

    Examples:
        >>> import gymnasium as gym
        >>> env = gym.make("privbandit/SparseLinear-v0", n_arms=3, dim=50, sparsity=2)
        >>> context, _ = env.reset(seed=0)
        >>> context.shape, int((env.unwrapped.problem.beta != 0).sum())
        ((3, 50), 2)
    """

    units = Units()

    hidden = ("beta", "_nonzero")

    def __init__(
        self,
        rng: Generator,
        *,
        n_arms: int = 3,
        dim: int = 400,
        sparsity: int = 5,
        coefficients: str = "equal",
        correlation: float = 0.1,
        margin: float = 0.0,
        noise: str = "gaussian",
        noise_scale: float = 0.1,
        beta: ArrayLike | None = None,
        horizon: int = 20_000,
        dtype: str = "float32",
    ) -> None:
        shape = (count(n_arms=n_arms), count(dim=dim))
        if count(sparsity=sparsity) > dim:
            raise ValueError(f"sparsity must be at most dim = {dim}; got {sparsity}.")
        if not abs(number(correlation=correlation)) < 1:
            raise ValueError(f"correlation must lie in (-1, 1); got {correlation}.")
        self.correlation = correlation
        self.noise = one_of(("gaussian", "uniform"), noise=noise)
        self.noise_scale = at_least(0, noise_scale=noise_scale)
        self.dtype = np.dtype(one_of(("float32", "float64"), dtype=dtype))
        self.observation_space = Box(-BOUND, BOUND, shape, self.dtype)
        self.action_space = Discrete(n_arms)
        hard = self.noise_scale * math.sqrt(math.log(dim / sparsity) / horizon)
        self.beta = draw_beta(dim, sparsity, coefficients, rng, hard) if beta is None else padded(beta, dim)
        self._nonzero = np.flatnonzero(self.beta)
        self.margin = at_least(0, margin=margin)

    def contexts(self, n: int, rng: Generator) -> Array:
        shape = (n, *self.observation_space.shape)  # type: ignore[misc]
        x: Array = gaussians(rng, shape, self.dtype)
        correlate(x, self.correlation)
        if self.margin:
            self.set_apart(x)
        return np.clip(x, -BOUND, BOUND, out=x)

    def again(self, own: Array, fresh: Array, spread: float) -> Array:
        """Return contexts of people with contexts of their own, set apart by the margin."""
        x = super().again(own, fresh, spread)
        if self.margin:
            self.set_apart(x)
        return np.clip(x, -BOUND, BOUND, out=x)

    def set_apart(self, x: Array) -> None:
        """Move the best arm of each user of contexts (n, K, d) along beta, so that it gains the margin, in place."""
        beta = self.beta[self._nonzero]
        if len(beta):
            along = (self.margin * beta / (beta @ beta)).astype(x.dtype)
            x[np.arange(len(x))[:, None], self.best_action(x)[:, None], self._nonzero] += along

    def means(self, contexts: Array) -> Floats:
        means: Floats = contexts[..., self._nonzero].astype(np.float64) @ self.beta[self._nonzero]
        return means

    def rewards(self, means: Floats, rng: Generator) -> Floats:
        if self.noise == "uniform":
            return means + self.noise_scale * (2 * rng.random((len(means), 1)) - 1)
        return super().rewards(means, rng)


def padded(beta: ArrayLike, dim: int) -> Floats:
    """Return a vector of shape (dim,) that begins with these entries; the others are 0."""
    values = np.asarray(beta)
    if values.ndim != 1 or len(values) >= dim:
        return numbers(dim, beta=beta)
    return np.append(numbers(len(values), beta=beta), np.zeros(dim - len(values)))


def draw_beta(dim: int, sparsity: int, coefficients: str, rng: Generator, hard: float = 0.0) -> Floats:
    """Return a vector of shape (dim,) with ``sparsity`` nonzero entries at random positions; ``hard``: their size."""
    one_of(("equal", "small", "uniform", "signed-uniform", "hard"), coefficients=coefficients)
    beta = np.zeros(dim)
    values = rng.uniform(-1, 1, sparsity)
    if coefficients == "signed-uniform":
        values = (values + np.sign(values)) / 2
    elif coefficients != "uniform":
        sizes = {"equal": sparsity**-0.5, "small": 1 / sparsity, "hard": min(1 / sparsity, hard)}
        values = np.sign(values) * sizes[coefficients]
    beta[rng.choice(dim, sparsity, replace=False)] = values
    return beta


def correlate(x: Array, correlation: float) -> None:
    """Turn independent standard Gaussians into a stationary AR(1) sequence along the last axis, in place.

    With innovations e_0, s e_1, s e_2, ... (s^2 = 1 - correlation^2) the sequence x_j = correlation x_(j-1) + s e_j
    is sum_k correlation^k S^k of them (S the shift), which factors into (1 + c S)(1 + c^2 S^2)(1 + c^4 S^4)...: a few
    vector operations, exact to the precision of the type, O(d) for each draw.
    """
    dim = x.shape[-1]
    x[..., 1:] *= x.dtype.type(math.sqrt(1 - correlation**2))
    flat, shifted = x.reshape(-1), np.empty_like(x)
    lag, factor = 1, correlation
    while lag < dim and abs(factor) > np.finfo(x.dtype).eps / 4:
        np.multiply(flat[:-lag], x.dtype.type(factor), out=shifted.reshape(-1)[lag:])
        shifted[..., :lag] = 0  # nothing crosses from one vector to the next
        flat += shifted.reshape(-1)
        lag, factor = 2 * lag, factor**2
