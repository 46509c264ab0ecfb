"""Rewards that are smooth in the context, one function for each arm, and auxiliary records from another law.

The setting of Yuheng Ma, Feiyu Jiang, Zifeng Zhao, Hanfang Yang and Yi Yu, "Locally Private Nonparametric Contextual
Multi-armed Bandits with Transfer Learning", arXiv 2503.08098, 2025, with the laws of its authors' simulations.
"""

from typing import NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_envs.problem import Array, CoinArms, Floats, pick
from privbandit_envs.spaces import Units
from privbandit_envs.validate import at_least, count, one_of, positive

REWARDS = ("ridges", "scales")


class Auxiliary(NamedTuple):
    """Records that were made before the first user: contexts (n, d), arms (n,) and rewards (n,)."""

    contexts: Array
    actions: NDArray[np.int64]
    rewards: Floats


class SmoothProblem(CoinArms):
    """Contexts in [0, 1]^d, and K arms whose mean rewards are smooth functions of the context.

    The context is x, uniform on the cube, shared by all arms. The reward of arm k is 1 with probability f_k(x), else 0.
    A function is Hoelder with exponent beta if ``|f(x) - f(x')| <= L |x - x'|^beta``. The margin has exponent alpha if
    the best arm is ahead by at most t, and by more than 0, for a share O(t^alpha) of users.

    With ``n_auxiliary`` there are records of that many other users, in ``auxiliary_data``: their arms were uniform,
    their rewards are those of the same functions, and their contexts have a density proportional to |x - 1/2|^shift in
    the maximum norm. The larger ``shift`` is, the fewer of them are about the middle of the cube.

    Args:
        n_arms: number of arms K.
        dim: d.
        rewards: the functions. ``"ridges"``: f_k(x) = 2 e / (1 + e) with e = exp(-2 K^2 (x_1 - (k + 1) / (K + 1))^2)
            for k = 0, ..., K - 1, the simulation of the paper's authors; beta = alpha = 1. ``"scales"``: bumps of all
            sides 2^-1, 2^-2, ..., each with a best arm of its own, which on a side h is ahead by (2 h)^beta at most;
            a share of about h^(alpha beta) of users are on sides of h or less. So learning is as hard at every
            horizon as the exponents allow.
        exponent: beta in (0, 1], of ``"scales"``.
        margin: alpha >= 0 with alpha beta <= 1, of ``"scales"``.
        world: which best arms the bumps have, a number.
        n_auxiliary: how many records there are beforehand.
        shift: >= 0; 0: auxiliary contexts are uniform too.
        support: only that many contexts exist, drawn once and equally likely, so that users can be served by counts;
            None: contexts are uniform.
        horizon: rounds an episode.
        dtype: of the contexts.

    Raises:
        ValueError: an argument out of range, or exponents for functions that have their own.

    Examples:
        >>> import gymnasium as gym
        >>> env = gym.make("privbandit/Smooth-v0", n_auxiliary=100)
        >>> context, _ = env.reset(seed=0)
        >>> context.shape, env.unwrapped.auxiliary_data.contexts.shape
        ((2,), (100, 2))
    """

    units = Units()

    def __init__(
        self,
        rng: Generator,
        *,
        n_arms: int = 3,
        dim: int = 2,
        rewards: str = "ridges",
        exponent: float = 1.0,
        margin: float = 1.0,
        world: int = 0,
        n_auxiliary: int = 0,
        shift: float = 1.0,
        support: int | None = None,
        horizon: int = 10_000,
        dtype: str = "float32",
    ) -> None:
        self.n_arms, self.dim, self.kind = count(n_arms=n_arms), count(dim=dim), one_of(REWARDS, rewards=rewards)
        self.dtype = np.dtype(one_of(("float32", "float64"), dtype=dtype))
        self.observation_space, self.action_space = Box(0, 1, (dim,), self.dtype), Discrete(n_arms)
        self.exponent, self.margin = positive(exponent=exponent), at_least(0, margin=margin)
        if exponent > 1 or exponent * margin > 1:
            raise ValueError(f"exponent and exponent * margin must be at most 1; got {exponent} and margin {margin}.")
        if rewards == "ridges" and (exponent, margin) != (1, 1):
            raise ValueError("ridges have exponent and margin 1; take rewards='scales' for others.")
        self.bumps = Bumps(dim, exponent, margin, n_arms, default_rng(world)) if rewards == "scales" else None
        if support is not None:
            self.keep(count(support=support), rng)
        self.auxiliary_data: Auxiliary | None = None
        if n_auxiliary:
            others = default_rng([world, 1])  # agents get these records before any seed of users is known
            self.auxiliary_data = self._others(count(n_auxiliary=n_auxiliary), at_least(0, shift=shift), others)

    def drawn(self, n: int, rng: Generator) -> Array:
        return rng.random((n, self.dim), self.dtype)

    def means(self, contexts: Array) -> Floats:
        x = contexts.astype(np.float64)
        if self.bumps is not None:
            best, height = self.bumps.at(x)
            signs = np.where(best[:, None] == np.arange(self.n_arms), 1.0, -1.0)
            return np.asarray((1 + signs * height[:, None]) / 2)
        peaks = np.arange(1, self.n_arms + 1) / (self.n_arms + 1)
        near = np.exp(-2 * self.n_arms**2 * (x[:, :1] - peaks) ** 2)
        return np.asarray(2 * near / (1 + near))

    def _others(self, n: int, shift: float, rng: Generator) -> Auxiliary:
        """Draw the auxiliary records: of radius R in the maximum norm, where (2 R)^(d + shift) is uniform."""
        x = rng.random((n, self.dim)) - 0.5
        radius = rng.random(n) ** (1 / (self.dim + shift)) / 2
        x *= (radius / np.maximum(np.abs(x).max(axis=1), 1e-300))[:, None]
        contexts = np.clip(x + 0.5, 0, 1).astype(self.dtype)
        arms = rng.integers(self.n_arms, size=n)
        return Auxiliary(contexts, arms, pick(self.rewards(self.means(contexts), rng), arms))


class Bumps:
    """Bumps of sides 1/2, 1/4, ... on a band each of the first axis, and the best arm of every bump.

    A bump is flat on the inner half of its cube, and falls to 0 at the border.

    Args:
        dim: d.
        exponent: beta.
        margin: alpha.
        n_arms: K.
        rng: draws the best arms.
    """

    def __init__(self, dim: int, exponent: float, margin: float, n_arms: int, rng: Generator) -> None:
        self.exponent = exponent
        # sides are 2^-9 at least, and longer if there would be more than 2^18 bumps of one side
        finest = max(1, 18 // max(dim, 2))
        levels = np.arange(1, finest + 1)
        self.sides = 0.5**levels
        # how many bumps of a side stand along the first axis: together about a share side^(alpha beta) of it
        along = np.ones(finest, np.int64)
        for level in levels[1:]:
            along[level - 1] = max(1, round(float(2.0 ** (level - 1 - exponent * margin * (level - 1)))))
        lengths = along * self.sides
        self.unit = float(lengths.sum())  # the first axis is stretched by this, so that the bands fill it
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths
        self.across = 2**levels
        self.first = np.concatenate([[0], np.cumsum(along * self.across ** (dim - 1))])
        self.best = rng.integers(n_arms, size=int(self.first[-1]))

    def at(self, x: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Return the best arm at contexts (n, d), and by how much it is ahead, shape (n,) each."""
        along = x[:, 0] * self.unit
        band = np.minimum(np.searchsorted(self.ends, along, side="right"), len(self.ends) - 1)
        side = self.sides[band]
        places = np.concatenate([((along - self.starts[band]) / side)[:, None], x[:, 1:] / side[:, None]], axis=1)
        most = np.column_stack([(self.ends - self.starts)[band] / side, *[self.across[band]] * (x.shape[1] - 1)])
        cell = np.clip(np.floor(places), 0, np.round(most) - 1)
        from_middle = np.abs(2 * (places - cell) - 1).max(axis=1)
        number = cell[:, 0].astype(np.int64)
        for axis in range(1, x.shape[1]):
            number = number * self.across[band] + cell[:, axis].astype(np.int64)
        ahead = (2 * side * np.clip(2 * (1 - from_middle), 0, 1)) ** self.exponent
        return self.best[self.first[band] + number], ahead
