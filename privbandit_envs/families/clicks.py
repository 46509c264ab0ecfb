"""One context for all arms, and a click or none: the bandit of offers, banners and notifications; and of prices."""

from typing import Any

import numpy as np
import scipy
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_envs.datasets import packaged
from privbandit_envs.families.gaussians import BOUND, gaussians
from privbandit_envs.families.sparse import correlate
from privbandit_envs.problem import Array, CoinArms, Floats, Support, pick
from privbandit_envs.spaces import Units
from privbandit_envs.validate import at_least, count, number, one_of, positive, refuse, shown

LINKS = ("logistic", "identity")


class ClicksProblem(CoinArms):
    """A user gets one of K offers, and clicks or not.

    The context is x, shape (d,), shared by all arms: N(0, Sigma) with Sigma_ij = correlation^|i-j|, clipped to [-8, 8].
    The user clicks on arm k with chance sigmoid(x . theta_k + b_k), for hidden theta_k ~ N(0, scale^2 I) and
    b_k ~ N(-1, 1/4). The reward is 1 for a click, else 0. With ``interactions`` the products x_i x_j of two features
    are features too, with coefficients of that standard deviation.

    ``source="open-bandit"`` is a resampled world: users are visitors of the Open Bandit log, drawn with replacement,
    with their four features as 25 or so indicators; arms are the campaign's items, and uniform play has the log's rate
    of clicks. Which visitors like which items is *drawn*, not real, since 10,000 rows with some forty clicks do not
    tell: theta_k and b_k are Gaussian, scaled so that the best policy has ``lift`` times the clicks of uniform play.
    The log itself, without any model, is replayed by ``privbandit_agents.logs.simulator.replay``.

    Args:
        n_arms: number of arms K.
        dim: number of features d.
        link: chance of a click. ``"logistic"``: sigmoid(z) of z = x . theta_k + b_k; ``"identity"``: 1/2 + z / 4, which
            touches the sigmoid at 0, cut to [0, 1].
        scale: standard deviation of the entries of theta_k, > 0.
        interactions: standard deviation of the coefficients of products, >= 0; 0: there are none.
        correlation: of neighboring features, in (-1, 1).
        imbalance: share of users for whom arm 0 is best, in (0, 1): the intercepts of all other arms move by one
            number until it is so, up to .2 %. None: intercepts stay as drawn.
        theta: the parameters themselves, shape (K, d + 1), the intercept last; by default drawn. With interactions
            those of products, x_1 x_2, x_1 x_3, ..., x_2 x_3, ..., stand before the intercept.
        source: None, or ``"open-bandit"``, of which ``privbandit data get`` gets the log.
        download: whether to download it if it is not there.
        campaign: of the log: ``"men"`` (34 items), ``"women"`` (46) or ``"all"`` (80).
        lift: clicks of the best policy over those of uniform play, > 1.
        rate: share of clicks of uniform play; None: that of the log, .4 % to .5 %.
        support: only that many contexts exist, drawn once and equally likely, so that users can be served by counts;
            None: contexts are Gaussian.
        horizon: rounds an episode.
        dtype: of the contexts.

    Raises:
        ValueError: an argument out of range.
        FileNotFoundError: a log that was not downloaded.

    Examples:
        >>> import gymnasium as gym
        >>> env = gym.make("privbandit/Clicks-v0", n_arms=3, dim=2)
        >>> context, _ = env.reset(seed=0)
        >>> context.shape, env.step(1)[1] in (0.0, 1.0)
        ((2,), True)
    """

    units = Units()

    hidden = ("theta",)

    def __init__(
        self,
        rng: Generator,
        *,
        n_arms: int = 4,
        dim: int = 6,
        link: str = "logistic",
        scale: float = 0.5,
        interactions: float = 0.0,
        correlation: float = 0.0,
        imbalance: float | None = None,
        theta: ArrayLike | None = None,
        source: str | None = None,
        download: bool = False,
        campaign: str = "men",
        lift: float = 2.0,
        rate: float | None = None,
        support: int | None = None,
        horizon: int = 20_000,
        dtype: str = "float32",
    ) -> None:
        visitors: Floats | None = None
        if source is not None:
            refuse(source, n_arms=(n_arms, 4), dim=(dim, 6), correlation=(correlation, 0.0), scale=(scale, 0.5))
            refuse(source, theta=(theta, None), support=(support, None), link=(link, "logistic"))
            refuse(source, interactions=(interactions, 0.0))
            one_of(("open-bandit",), source=source)
            visitors, n_arms, own = packaged.visitors(one_of(("men", "women", "all"), campaign=campaign), download)
            dim, scale = visitors.shape[1], 1.0
        pairs = count(dim=dim) * (dim - 1) // 2 if at_least(0, interactions=interactions) else 0
        shape = (count(n_arms=n_arms), dim + pairs + 1)
        if not abs(number(correlation=correlation)) < 1:
            raise ValueError(f"correlation must lie in (-1, 1); got {correlation}.")
        self.correlation, self.link = correlation, one_of(LINKS, link=link)
        self.dtype = np.dtype(one_of(("float32", "float64"), dtype=dtype))
        self.observation_space = Box(-BOUND, BOUND, (dim,), self.dtype)
        self.action_space = Discrete(n_arms)
        spread = positive(scale=scale)
        lines, products = (
            spread * rng.standard_normal((n_arms, dim)),
            interactions * rng.standard_normal((n_arms, pairs)),
        )
        drawn = np.column_stack([lines, products, rng.normal(-1, 0.5, n_arms)])
        given = drawn if theta is None else np.array(theta, dtype=np.float64)
        if given.shape != shape or not np.isfinite(given).all():
            raise ValueError(f"theta must be finite numbers of shape {shape}, intercepts last; got {shown(theta)}.")
        if visitors is not None:
            self.kept = Support(visitors.astype(self.dtype), np.full(len(visitors), 1 / len(visitors)))
            given = with_lift(given, visitors, lift, own if rate is None else rate)
        if imbalance is not None:
            given[1:, -1] += self._lead(given, imbalance, rng)
        self.theta: Floats = given.ravel()
        if support is not None:
            self.keep(count(support=support), rng)

    def drawn(self, n: int, rng: Generator) -> Array:
        x: Array = gaussians(rng, (n, *self.observation_space.shape), self.dtype)  # type: ignore[misc]
        if self.correlation:
            correlate(x, self.correlation)
        return np.clip(x, -BOUND, BOUND, out=x)

    def means(self, contexts: Array) -> Floats:
        scores = self._scores(contexts, self.theta.reshape(int(self.action_space.n), -1))
        if self.link == "logistic":
            return np.asarray(scipy.special.expit(scores))
        return np.clip(0.5 + scores / 4, 0.0, 1.0)

    @staticmethod
    def _scores(contexts: Array, theta: Floats) -> Floats:
        """Return x . theta_k + b_k, of products too if theta has more columns than features and one."""
        x = contexts.astype(np.float64)
        if theta.shape[1] > x.shape[1] + 1:
            first, second = np.triu_indices(x.shape[1], 1)
            x = np.concatenate([x, x[:, first] * x[:, second]], axis=1)
        return np.asarray(x @ theta[:, :-1].T + theta[:, -1])

    def _lead(self, theta: Floats, imbalance: float, rng: Generator) -> float:
        """Return the gain of the other arms' intercepts, so that arm 0 is best for a share of users."""
        if not 0 < at_least(0, imbalance=imbalance) < 1:
            raise ValueError(f"imbalance must lie in (0, 1); got {imbalance}.")
        if len(theta) < 2:
            raise ValueError("imbalance compares arms; with n_arms = 1 leave it out.")
        x = self.drawn(2**16, rng) if self.kept is None else self.kept.contexts
        scores = self._scores(x, theta)
        ahead = scores[:, 0] - scores[:, 1:].max(axis=1)
        return float(np.quantile(ahead, 1 - imbalance))


class PricingProblem(ClicksProblem):
    """A seller posts a price, and the user buys or not.

    The K prices are p = 1/K, 2/K, ..., 1, in units of the highest. The context x is that of ``Clicks-v0``. To a user
    the item is worth v = value + x . beta + z, with a hidden beta ~ N(0, scale^2 I) and z logistic of scale ``spread``;
    the user buys if v >= p. So the chance of a sale is sigmoid((value + x . beta - p) / spread): parameters of
    ``Clicks-v0`` that the arms share but for the intercept, which falls with the price. Who buys at a price buys at
    each lower one. The reward is the revenue, p for a sale, else 0: within [0, 1]. A model of revenue that is linear or
    logistic in x is not exact. Agents that know of no order of the arms play it.

    This is the setting of Adel Javanmard and Hamid Nazerzadeh, "Dynamic Pricing in High-dimensions", with a finite set
    of prices and no sparsity.

    Args:
        n_arms: number of prices K.
        dim: number of features d.
        value: what the item is worth on average.
        scale: standard deviation of the entries of beta, > 0.
        spread: scale of z, > 0; its standard deviation is 1.8 times that.
        correlation: of neighboring features, in (-1, 1).
        support: only that many contexts exist, drawn once and equally likely; None: contexts are Gaussian.
        horizon: rounds an episode.
        dtype: of the contexts.

    Raises:
        ValueError: an argument out of range.

    Examples:
        >>> import gymnasium as gym
        >>> env = gym.make("privbandit/Pricing-v0", n_arms=4, dim=2)
        >>> context, _ = env.reset(seed=0)
        >>> env.step(2)[1] in (0.0, 0.75)
        True
    """

    def __init__(
        self,
        rng: Generator,
        *,
        n_arms: int = 5,
        dim: int = 4,
        value: float = 0.6,
        scale: float = 0.15,
        spread: float = 0.1,
        correlation: float = 0.0,
        support: int | None = None,
        horizon: int = 20_000,
        dtype: str = "float32",
    ) -> None:
        self.prices: Floats = np.arange(1, count(n_arms=n_arms) + 1) / n_arms
        beta = positive(scale=scale) * rng.standard_normal(count(dim=dim))
        rows = np.column_stack([np.tile(beta, (n_arms, 1)), number(value=value) - self.prices]) / positive(
            spread=spread
        )
        given: dict[str, Any] = {"correlation": correlation, "support": support, "horizon": horizon, "dtype": dtype}
        super().__init__(rng, n_arms=n_arms, dim=dim, theta=rows, **given)

    def means(self, contexts: Array) -> Floats:
        return self.prices * super().means(contexts)

    def rewards(self, means: Floats, rng: Generator) -> Floats:
        return self.prices * super().rewards(means / self.prices, rng)

    def outcome_law(self, contexts: Array, actions: Array) -> tuple[Array, Floats]:
        """Return the revenues of a sale and of none, and their probabilities, shape (n, 2) each."""
        price = self.prices[actions]
        chance = pick(self.means(contexts), actions) / price
        return np.stack([price, np.zeros(len(price))], axis=1), np.stack([chance, 1 - chance], axis=1)


def with_lift(theta: Floats, visitors: Floats, lift: float, rate: float) -> Floats:
    """Scale parameters, and move all intercepts, so that clicks have a rate and a lift.

    Args:
        theta: shape (K, d + 1), intercepts last.
        visitors: shape (n, d).
        lift: mean over visitors of the best arm's chance, over that of all arms.
        rate: mean chance over visitors and arms.

    Raises:
        ValueError: a rate or lift out of range, or that only more than one click a user would reach.
    """
    if not (0 < number(rate=rate) < 1 and 1 < number(lift=lift) and rate * lift < 0.9):
        raise ValueError(f"rate must be > 0, lift > 1, and rate lift below .9; got rate {rate:g} and lift {lift:g}.")
    known, often = np.unique(visitors, axis=0, return_counts=True)
    share = often / often.sum()
    scores = known @ theta[:, :-1].T + theta[:, -1]

    def base(spread: float) -> float:
        def over(b: float) -> float:
            return float(share @ scipy.special.expit(spread * scores + b).mean(axis=1) - rate)

        far = 40.0 + spread * float(np.abs(scores).max())
        return float(scipy.optimize.brentq(over, -far, far))

    def gain(spread: float) -> float:
        return float(share @ scipy.special.expit(spread * scores + base(spread)).max(axis=1) - lift * rate)

    spread = float(scipy.optimize.brentq(gain, 0.0, 20.0)) if gain(20.0) > 0 else np.nan
    if np.isnan(spread):
        raise ValueError(f"no likes of {len(theta)} arms have a lift of {lift:g}; take a smaller one.")
    found = spread * theta
    found[:, -1] += base(spread)
    return found
