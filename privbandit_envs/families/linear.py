"""Linear contextual bandits: benign, rare-direction and ill-conditioned designs; and means that are not linear."""

import math
from itertools import product
from typing import Any

import numpy as np
import scipy
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_envs.families.gaussians import INSIDE, directions
from privbandit_envs.problem import ArmProblem, Array, Floats, Problem, Support, mixed, pick
from privbandit_envs.spaces import Units
from privbandit_envs.validate import at_least, count, fraction, numbers, one_of, positive, shown

DESIGNS = ("sphere", "case1", "case2", "theorem2", "ill", "mixed", "heavy", "adversarial")
NOISES = ("rademacher", "uniform", "none")
LINKS = ("identity", "logistic", "band")


class LinearProblem(ArmProblem):
    """Rewards in [-1, 1] whose mean is linear in the features of the chosen arm, or a link of that.

    The context is phi(x, a) for every arm a: shape (K, d), each row in the unit ball. The mean reward of arm a is
    phi(x, a) . theta with a hidden theta of norm ``theta_norm``.

    This is the setting of Li, Simchi-Levi and Wang, "On the Optimal Regret of Locally Private Linear Contextual
    Bandit".

    Args:
        n_arms: number of arms K.
        dim: number of features d.
        design: law of the features, independent over users and arms.
            ``"sphere"``: uniform on the unit sphere.
            ``"case1"``: the paper's Case I, e1 with probability 1 - delta, e2 with probability delta.
            ``"case2"``: the paper's Case II, (1, +-sqrt(delta)) scaled to norm 1; the sign is fair.
            ``"theorem2"``: the instance of the paper's Theorem 2, (1/2, +-horizon^(-1/3)); the sign is fair.
            ``"ill"``: Case II in all d directions: (1, +-s_1, ..., +-s_(d-1)) scaled to norm 1, with scales
            s_j = delta^(j / (2(d-1))) that fall to sqrt(delta). All arms agree in the strong direction, so the weak
            directions decide which arm is best.
            ``"mixed"``: ``"ill"``, but an arm has features uniform on the sphere with probability 5 delta (at most 1).
            ``"heavy"``: uniform directions with lengths of a heavy tail, P(length > r) = (0.05 / r)^1.2 from 0.05 on,
            cut at 1: most users' features are short, a few percent of them are as long as they can be.
            ``"adversarial"``: an adversary who knows no theta and no agent, but the horizon, shows the d directions one
            after the other, for horizon / d users each: arms differ in the direction of the hour alone, and the rest
            of their length is in the one before (in the first hour, nowhere). Past learning does not help with what
            decides next; users are not alike, and have no finite support.
        delta: in (0, 1]; default horizon^-delta_power.
        delta_power: of the horizon in the default of delta, >= 0.
        theta_norm: norm of theta, in [0, 1]; with the logistic link any, >= 0. ``"hard"``: min(1/2, d / sqrt(horizon)),
            so small that on the sphere theta can hardly be told from 0 in one episode.
        noise: ``"rademacher"``: the reward is +1 or -1, with the logistic link 1 or 0; ``"uniform"``: uniform around
            the mean, within [-1, 1]; ``"none"``: the mean itself. Default: ``"none"`` for ``"theorem2"``, else
            ``"rademacher"``.
        support: a number: only that many contexts exist, drawn once and equally likely. ``"all"``: the contexts of a
            discrete design are listed with their probabilities; the law stays the design's. Either way contexts take
            256 MiB at most (a million with 3 arms and 20 features), and a run needs several times that. With a finite
            support and rewards that are Rademacher or the means users can be served by counts, a billion of them in
            seconds.
        theta: the parameter itself, shape (d,), of a norm as ``theta_norm`` may be; by default drawn: uniform on the
            sphere for ``"sphere"``, random signs (of the directions in use) for the other designs.
        link: from features to the mean reward. ``"identity"``: phi . theta. ``"logistic"``: the sigmoid
            1 / (1 + exp(-phi . theta)), the chance of a reward of 1. ``"band"``: 0.9 tanh(1.5 - 1.5
            (|z_1| + |z_2|)), where z_i is sqrt(d) times phi along two hidden orthogonal directions, the first of them
            theta's, so that it has variance 1 on the sphere. Best arms are near two hyperplanes through 0, and no
            linear function of the features shows them.
        rotate: turn the features of all users, and theta with them, by one rotation of R^d that is drawn after all
            else: the world of the same seed, with its means, in other coordinates, so that weak directions are no
            single feature's. A ``theta`` that is given is turned, too. Not for ``"sphere"`` and ``"heavy"``, whose
            law is that of their rotations.
        horizon: rounds an episode; sets the default of delta, and the small feature of ``"theorem2"``.
        dtype: of the contexts.

    Raises:
        ValueError: an argument out of range.

    Examples:
        >>> import gymnasium as gym
        >>> env = gym.make("privbandit/Linear-v0", n_arms=2, dim=3, design="ill", support="all")
        >>> context, _ = env.reset(seed=0)
        >>> context.shape, len(env.unwrapped.support.contexts)
        ((2, 3), 16)
    """

    units = Units()

    hidden = ("theta", "_hidden")

    def __init__(
        self,
        rng: Generator,
        *,
        n_arms: int = 10,
        dim: int = 20,
        design: str = "sphere",
        delta: float | None = None,
        delta_power: float = 0.5,
        theta_norm: float | str = 0.8,
        noise: str | None = None,
        support: int | str | None = None,
        theta: ArrayLike | None = None,
        link: str = "identity",
        rotate: bool = False,
        horizon: int = 10_000,
        dtype: str = "float32",
    ) -> None:
        shape = (count(n_arms=n_arms), count(dim=dim))
        self.design = one_of(DESIGNS, design=design)
        by_design = "none" if design == "theorem2" else "rademacher"
        self.noise = one_of(NOISES, noise=by_design if noise is None else noise)
        if design != "sphere" and dim < 2:
            raise ValueError(f"dim must be >= 2 for design {design!r}; got {dim}.")
        power = at_least(0, delta_power=delta_power)
        self.delta = fraction(delta=positive(delta=horizon**-power if delta is None else delta))
        self.weak = min(horizon ** (-1 / 3), 0.5)  # the small feature of theorem2
        self.dtype = np.dtype(one_of(("float32", "float64"), dtype=dtype))
        self.observation_space = Box(-1, 1, shape, self.dtype)
        self.action_space = Discrete(n_arms)
        self.link = one_of(LINKS, link=link)
        if isinstance(theta_norm, str):
            one_of(("hard",), theta_norm=theta_norm)
            theta_norm = min(0.5, dim / math.sqrt(horizon))
        norm = at_least(0, theta_norm=theta_norm) if link == "logistic" else fraction(theta_norm=theta_norm)
        self.theta = self._theta(norm, theta, rng)
        self._hidden = self._band(rng) if link == "band" else None
        self.stretch = -(-horizon // dim)  # so many users see the same direction of an adversary
        if design == "adversarial" and support is not None:
            raise ValueError(f"an adversary's users are not alike: support must be None; got {shown(support)}.")
        self.rotation: Floats | None = None
        self._support = None if support is None else self._supported(support, rng)
        self._straight = self.theta, self._hidden
        if not isinstance(rotate, bool | np.bool_):
            raise ValueError(f"rotate must be True or False; got {shown(rotate)}.")
        if rotate:
            if design in ("sphere", "heavy"):
                raise ValueError(f"rotate must be False for design {design!r}: its law has no direction; got True.")
            # the only draw of a turned world that the straight one lacks, so it comes last
            self._turn(np.asarray(scipy.stats.special_ortho_group.rvs(dim, random_state=rng), np.float64))

    def settle(self, first: Problem) -> None:
        if isinstance(first, LinearProblem) and self.rotation is not None and first.rotation is not None:
            self._turn(first.rotation)

    def users(self, start: int, n: int, rng: Generator) -> Array:
        if self.design == "adversarial":
            return self._shown_by_adversary(np.arange(start, start + n), rng)
        return super().users(start, n, rng)

    def contexts(self, n: int, rng: Generator) -> Array:
        if self.design == "adversarial":
            return self._shown_by_adversary(np.arange(n), rng)
        if self._support is None:
            x = self._features(n, rng)
            return x if self.rotation is None else self._turned(x, self.rotation)
        cumulative = np.cumsum(self._support.probabilities)
        cumulative[-1] = 1
        rows: Array = self._support.contexts[np.searchsorted(cumulative, rng.random(n), side="right")]
        return rows

    def again(self, own: Array, fresh: Array, spread: float) -> Array:
        """Return contexts of people with contexts of their own: on the sphere for ``"sphere"``, else cut to the ball.

        Raises:
            ValueError: an adversary's users, who have nothing of their own.
        """
        if self.design == "adversarial":
            raise ValueError("person_spread must be None for an adversary's users, who have no context of their own.")
        x = mixed(own, fresh, spread)
        lengths = np.maximum(np.sqrt(np.vecdot(x, x)), np.finfo(x.dtype).tiny)
        x *= (INSIDE / (lengths if self.design == "sphere" else np.maximum(lengths, INSIDE)))[..., None]
        return x

    def means(self, contexts: Array) -> Floats:
        n_arms, dim = contexts.shape[1:]
        if self._hidden is not None:
            heights: Floats = np.abs(contexts.astype(np.float64) @ self._hidden).sum(axis=-1)
            return np.asarray(0.9 * np.tanh(1.5 - 1.5 * heights))
        flat: Floats = contexts.reshape(-1, dim).astype(np.float64) @ self.theta
        means: Floats = flat.reshape(-1, n_arms)
        return np.asarray(scipy.special.expit(means)) if self.link == "logistic" else means

    def rewards(self, means: Floats, rng: Generator) -> Floats:
        u = rng.random((len(means), 1))
        if self.noise == "none":
            return np.asarray(means, dtype=np.float64)
        if self.noise == "rademacher":
            chance, worse = (means, 0.0) if self.link == "logistic" else ((1 + means) / 2, -1.0)
            return np.where(u < chance, 1.0, worse)
        noisy: Floats = means + (2 * u - 1) * (1 - np.abs(means))
        return noisy

    def support(self) -> Support | None:
        """Return the contexts that exist, if they are finitely many and so are the values of a reward."""
        return None if self.noise == "uniform" else self._support

    def outcome_law(self, contexts: Array, actions: Array) -> tuple[Array, Floats]:
        """Return the rewards and their probabilities: two of them, shape (n, 2), or without noise the means, (n, 1)."""
        means = pick(self.means(contexts), actions)
        if self.noise == "none":
            return means[:, None], np.ones((len(means), 1))
        worse = 0.0 if self.link == "logistic" else -1.0
        up = np.clip((means - worse) / (1 - worse), 0, 1)
        return np.tile([1.0, worse], (len(up), 1)), np.stack([up, 1 - up], axis=1)

    def _turn(self, rotation: Floats) -> None:
        """Turn what is hidden and the finite support, which may have been turned before, by a matrix (d, d)."""
        theta, hidden = self._straight
        self.theta, self._hidden = rotation @ theta, None if hidden is None else rotation @ hidden
        if self._support is not None:
            whole = rotation if self.rotation is None else rotation @ self.rotation.T
            turned = self._turned(self._support.contexts, whole)
            self._support = Support(turned, self._support.probabilities)
        self.rotation = rotation

    def _turned(self, x: Array, rotation: Floats) -> Array:
        """Return features (..., d) in the turned coordinates; rounding leaves none outside the unit ball."""
        rows: Floats = x.reshape(-1, x.shape[-1]).astype(np.float64) @ rotation.T
        lengths = np.sqrt(np.vecdot(rows, rows))
        rows *= (INSIDE / np.maximum(lengths, INSIDE))[:, None]
        return np.asarray(rows.reshape(x.shape), self.dtype)

    def _theta(self, norm: float, given: ArrayLike | None, rng: Generator) -> Floats:
        dim = self.observation_space.shape[1]  # type: ignore[index]
        if given is not None:
            theta = numbers(dim, theta=given)
            if self.link != "logistic" and np.linalg.norm(theta) > 1 + 1e-9:
                raise ValueError(f"theta must have norm at most 1; got {shown(given)}.")
            return theta
        direction = rng.standard_normal(dim)
        if self.design not in ("sphere", "heavy"):
            direction = np.where(direction < 0, -1.0, 1.0)
        if self.design in ("case1", "case2", "theorem2"):
            direction[2:] = 0
        return norm * direction / np.linalg.norm(direction)

    def _band(self, rng: Generator) -> Floats:
        """Return two hidden directions as columns (d, 2), sqrt(d) long: theta's, and one that is orthogonal to it."""
        dim, norm = len(self.theta), np.linalg.norm(self.theta)
        if dim < 2 or norm == 0:
            raise ValueError(f"link 'band' needs dim >= 2 and a theta that is not 0; got {dim} and norm {norm:.3g}.")
        first = self.theta / norm
        across = rng.standard_normal(dim)
        across -= (across @ first) * first
        return np.asarray(np.sqrt(dim) * np.stack([first, across / np.linalg.norm(across)], axis=1))

    def _supported(self, support: int | str, rng: Generator) -> Support:
        n_arms, dim = self.observation_space.shape  # type: ignore[misc]
        most = max(1, 2**28 // (n_arms * dim * self.dtype.itemsize))  # 256 MiB of contexts
        if support != "all":
            if isinstance(support, str):
                raise ValueError(f"support must be a number of contexts or 'all'; got {shown(support)}.")
            if count(support=support) > most:
                raise ValueError(f"support must be at most {most} contexts of this shape; got {shown(support)}.")
            contexts = self._features(support, rng)
            return Support(contexts, np.full(len(contexts), 1 / len(contexts)))
        bits = n_arms * self._bits()
        if 2**bits > most:
            raise ValueError(f"support 'all' has 2^{bits} contexts, more than {most}; give a number of them.")
        atoms, chances = self._atoms()
        places = np.indices((len(atoms),) * n_arms).reshape(n_arms, -1).T  # every arm's atom, in all combinations
        return Support(atoms[places], chances[places].prod(axis=1))

    def _bits(self) -> int:
        """Return b where an arm of a discrete design has one of 2^b features."""
        if self.design in ("sphere", "mixed", "heavy"):
            raise ValueError(
                f"support 'all' is for the discrete designs case1, case2, theorem2, ill; got design {self.design!r}."
            )
        return 1 if self.design == "case1" else len(self._scales()) - 1

    def _atoms(self) -> tuple[Array, Floats]:
        """Return the features that an arm of a discrete design may have, and their probabilities."""
        dim = self.observation_space.shape[1]  # type: ignore[index]
        if self.design == "case1":
            return np.eye(2, dim, dtype=self.dtype), np.array([1 - self.delta, self.delta])
        scales = self._scales()
        signs = np.array(list(product((1.0, -1.0), repeat=len(scales) - 1)))
        atoms = np.zeros((len(signs), dim), self.dtype)
        atoms[:, 0], atoms[:, 1 : len(scales)] = scales[0], signs * scales[1:]
        return atoms, np.full(len(signs), 1 / len(signs))

    def _scales(self) -> Floats:
        """Return (1, s_1, s_2, ...) scaled into the unit ball; ``case2`` stops after s_1. As it is: ``theorem2``."""
        if self.design == "theorem2":
            return np.array([0.5, self.weak])
        used = 2 if self.design == "case2" else self.observation_space.shape[1]  # type: ignore[index]
        scales: Floats = self.delta ** (np.arange(used) / (2 * (used - 1)))
        return scales * (INSIDE / np.linalg.norm(scales))

    def _features(self, n: int, rng: Generator) -> Array:
        shape = (n, *self.observation_space.shape)  # type: ignore[misc]
        if self.design == "sphere":
            return directions(rng, shape, self.dtype)
        if self.design == "heavy":
            # lengths .05 to 1 with a tail of index 1.2
            lengths = np.minimum(0.05 * (1 - rng.random((*shape[:2], 1))) ** (-1 / 1.2), 1.0)
            return np.asarray(directions(rng, shape, self.dtype) * lengths.astype(self.dtype))
        x = np.zeros(shape, self.dtype)
        if self.design == "case1":
            rare = rng.random(shape[:2]) < self.delta
            x[..., 0], x[..., 1] = ~rare, rare
            return x
        scales = self._scales()
        signs = np.where(rng.random((*shape[:2], len(scales) - 1)) < 0.5, -1.0, 1.0)
        x[..., 0], x[..., 1 : len(scales)] = scales[0], signs * scales[1:]
        if self.design == "mixed":
            large = rng.random(shape[:2]) < 5 * self.delta
            x[large] = directions(rng, (int(large.sum()), shape[2]), self.dtype)
        return x

    def _shown_by_adversary(self, users: Array, rng: Generator) -> Array:
        """Return the contexts of users by their numbers: arms spread along one direction, rest in the one before."""
        n_arms, dim = self.observation_space.shape  # type: ignore[misc]
        x = np.zeros((len(users), n_arms, dim), self.dtype)
        spread = np.linspace(-1.0, 1.0, n_arms) if n_arms > 1 else np.zeros(1)
        heights = INSIDE * rng.permuted(np.tile(spread, (len(users), 1)), axis=1)
        now = users // self.stretch % dim
        rows = np.arange(len(users))
        x[rows, :, now] = heights
        x[rows, :, now - 1] = np.sqrt(np.maximum(INSIDE**2 - heights**2, 0.0)) * (now > 0)[:, None]
        return x if self.rotation is None else self._turned(x, self.rotation)


class DuelsProblem(LinearProblem):
    """A user sees two of M items and names the better.

    This is a dueling bandit with features. An arm is an ordered pair (i, j) of items, i != j: K = M (M - 1), in the
    order (0, 1), (0, 2), ..., (M - 1, M - 2). Its features are z = (x_i - x_j) / 2, with the items' features x uniform
    on the unit sphere. The user prefers i with the chance sigmoid(theta . z), so that an item's utility is
    u = theta . x / 2, as in the model of Bradley and Terry; the reward is 1 then, else 0. Every agent of ``Linear-v0``
    plays it, with the guarantee that it has there: its record of a user is the pair's features and the answer.

    The regret is that of the pair: the chance of (best item, worst item) less that of (i, j). It is at least
    c ((u* - u_i) + (u_j - u_min)), where c is the sigmoid's slope at u* - u_min. So a regret of R in all bounds the
    regret of the first item, and with it the weak regret, u* - max(u_i, u_j), by R / c. It bounds no strong regret,
    2 u* - u_i - u_j: the second item becomes the worst one.

    Strong regret under differential privacy is the subject of Aadirupa Saha and Hilal Asi, "DP-Dueling: Learning from
    Preference Feedback without Compromising User Privacy", of which nothing is taken over.

    Args:
        n_items: number of items M, 2 at least.
        dim: number of features d.
        theta_norm: norm of theta, >= 0.
        theta: the parameter itself, shape (d,); by default drawn, uniform on the sphere.
        horizon: rounds an episode.
        dtype: of the contexts.

    Raises:
        ValueError: an argument out of range.

    Examples:
        >>> import gymnasium as gym
        >>> env = gym.make("privbandit/Duels-v0", n_items=3, dim=2)
        >>> context, _ = env.reset(seed=0)
        >>> context.shape, bool(abs(context[0] + context[2]).max() < 1e-6)  # (0, 1) and (1, 0)
        ((6, 2), True)
    """

    def __init__(
        self,
        rng: Generator,
        *,
        n_items: int = 4,
        dim: int = 5,
        theta_norm: float = 6.0,
        theta: ArrayLike | None = None,
        horizon: int = 10_000,
        dtype: str = "float32",
    ) -> None:
        items = np.arange(at_least(2, n_items=count(n_items=n_items)))
        first, second = np.repeat(items, n_items), np.tile(items, n_items)
        self.pairs = np.stack([first, second])[:, first != second]
        given: dict[str, Any] = {"theta_norm": theta_norm, "theta": theta, "horizon": horizon, "dtype": dtype}
        super().__init__(rng, n_arms=n_items * (n_items - 1), dim=dim, link="logistic", **given)
        self.design = "duels"  # differences are no features on the sphere

    def _features(self, n: int, rng: Generator) -> Array:
        items = directions(rng, (n, int(self.pairs.max()) + 1, len(self.theta)), self.dtype)
        return np.asarray((items[:, self.pairs[0]] - items[:, self.pairs[1]]) / 2)
