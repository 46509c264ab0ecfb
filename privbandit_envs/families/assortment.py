"""Assortment selection under the multinomial-logit (MNL) choice model."""

from bisect import bisect_right
from collections import deque
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_envs.changing.people import POPULATIONS, WITH, check_everyone_once, most_visits, rows_in_turn
from privbandit_envs.datasets.choosers import SYNTHETIC, Choosers, load
from privbandit_envs.families.gaussians import BOUND, INSIDE, Precision, directions, gaussians
from privbandit_envs.families.mnl import NO_PURCHASE, attraction, best_assortment, offer, purchase, revenue_of
from privbandit_envs.problem import Array, Floats, Problem, Rounds, Served, mixed
from privbandit_envs.spaces import Assortments, Units
from privbandit_envs.validate import count, numbers, one_of, refuse, shown


class AssortmentProblem(Problem):
    """Offer at most K of N items; the user buys one of them, or nothing.

    The context has shape (N, d + 1): the d features x_i of every item and, in the last column, its public revenue r_i.
    From the offered set S the user buys item i with probability exp(x_i . theta) / (1 + sum over S of exp(x_j . theta))
    and nothing with the remaining probability. The action is a 0/1 vector of length N; the feedback is the purchased
    item, or -1; the reward is its revenue, or 0.

    This is the setting of Cho and Sun, "Privacy-Preserving Dynamic Assortment Selection", section 5.1; hotels: section
    5.2.

    Hotels: the items are the hotels of the top destination in Kaggle's Expedia file, prepared once by ``privbandit data
    expedia`` (see ``datasets.hotels.prepare``). ``"expedia-sample"`` is a small generated sample with the same
    columns, no real data. A user is one of the searches, drawn with replacement; with
    ``population="without-replacement"`` they come in a random order, and an episode has everyone at most once. Hotel i
    has p = 10 features h_i, user t has q = 18 features u_t (fewer where a column is mostly missing), each of mean 0 and
    variance 1. A hotel's price and promotion change from search to search; as in the paper they are averaged, so that
    every hotel can be offered to every user. theta is fitted to the bookings by maximum likelihood. Choices are drawn
    from the fitted model; no recorded choice is replayed. The data decide ``n_items``, ``dim``, ``features`` and
    ``theta``. ``join`` makes the features x_ti: ``"outer"``, all products of an entry of h_i and one of u_t, d = 180;
    ``"concatenated"``, (u_t, h_i), d = 28; ``"full"``, the products of (1, h_i) and (1, u_t), d = 209.

    Real choices: ``"ta-feng"``, visits of a supermarket with 30 products; ``"mode-canada"``, travellers who may go by
    train, air or bus, or else by car; ``"swissmetro"``, by train or Swissmetro, or else by car; ``"electricity"``,
    households with three offers, or else a fourth. ``privbandit data get NAME`` downloads one, ``privbandit show NAME``
    says what it is. Users, attributes and prices are real, and so are the sets: an item that a user cannot have is a
    row of zeros, which nobody buys. theta is fitted to the choices by maximum likelihood, and choices are drawn from
    the model (see ``datasets.choosers``). Features have a mean square of 1.

    One-hot features make a world that rewards exploration: every user sees the same items, of d kinds, and sales of
    one kind show nothing of another. One kind sells best (theta 2), a quarter of the others sells well
    (theta 1), the rest badly (theta 0). So an agent that only ever offers the best sellers so far is likely to stay
    with the second best.

    Deviations:
        Hotels: the paper leaves open how x_ti joins hotel and user features, and the revenues. The default
        is the bilinear utility of Lee, Sun and Liu (2024), whose preprocessing the paper takes over. With
        ``"concatenated"`` users differ only in how likely they buy anything, so with equal revenues one assortment is
        best for all. The features' norms exceed 1, as those of the paper's standardised features do.

    Args:
        n_items: number of items N.
        capacity: largest number of items K on offer; all, where real choices have fewer.
        dim: number of features d.
        features: ``"gaussian"``: N(0, I), clipped to [-8, 8]; ``"unit"``: the same, scaled to norm 1; ``"one-hot"``:
            for every user the same items in a random order; item i has feature i mod d alone, which is 1.
        revenues: ``"ones"``; ``"random"``: U(0, 1) for every user and item; N fixed numbers >= 0; or, for hotels and
            real choices, ``"prices"``: hotels' mean ones, or those of the user's visit, as shares of the highest.
        theta: the parameter itself, shape (d,); by default drawn uniformly from [0, 1]^d, or, if features are
            one-hot, 2 in one entry, 1 in a quarter of the others (rounded up) and 0 elsewhere, in random order.
        source: ``"synthetic"``; hotels: the path of a prepared file, or ``"expedia-sample"``; or real choices, by name.
        download: whether to download real choices that are not there.
        join: of hotel and user features: ``"outer"``, ``"concatenated"`` or ``"full"``.
        population: of a source's users: ``"with-replacement"``; ``"without-replacement"``, so that nobody comes twice
            in an episode; or ``"in-order"``: nor does anybody, and users come as in the file, by time if it has any.
        oversized: how to take sets of more than K items: ``"refuse"``: an error; ``"cut"``: its first K items, in the
            order of their numbers. For clients that sample any 0/1 vector of a ``MultiBinary`` space.
        horizon: rounds an episode; at most the number of searches without replacement.
        dtype: of the contexts.

    Raises:
        ValueError: an argument out of range, or data that cannot be read.
        FileNotFoundError: choices that were not downloaded.
        ImportError: ``"expedia-sample"`` needs scikit-learn and it is missing.

    Examples:
        >>> import gymnasium as gym
        >>> env = gym.make("privbandit/Assortment-v0", n_items=4, capacity=2, dim=3)
        >>> context, _ = env.reset(seed=0)
        >>> context.shape
        (4, 4)
        >>> context, reward, *_, info = env.step(np.array([1, 0, 0, 1], np.int8))
        >>> info["feedback"] in (-1, 0, 3), int(info["optimal_action"].sum())
        (True, 2)
    """

    units = Units()

    hidden = ("theta",)

    def __init__(
        self,
        rng: Generator,
        *,
        n_items: int = 100,
        capacity: int = 10,
        dim: int = 5,
        features: str = "gaussian",
        revenues: ArrayLike = "ones",
        theta: ArrayLike | None = None,
        source: str = SYNTHETIC,
        download: bool = False,
        join: str = "outer",
        population: str = WITH,
        oversized: str = "refuse",
        horizon: int = 10_000,
        dtype: str = "float32",
    ) -> None:
        self.dtype = np.dtype(one_of(("float32", "float64"), dtype=dtype))
        self.features = one_of(("gaussian", "unit", "one-hot"), features=features)
        self.population = one_of(POPULATIONS, population=population)
        self.cuts = one_of(("refuse", "cut"), oversized=oversized) == "cut"
        self.source: Choosers | None = None
        bounds: Any = BOUND if features == "gaussian" else 1.0
        prices: Floats | None = None
        if source == SYNTHETIC:
            refuse(source, join=(join, "outer"), population=(population, WITH))
            count(dim=dim)
            self.theta: Floats = parameters(dim, features, rng) if theta is None else numbers(dim, theta=theta)
        else:
            refuse(source, n_items=(n_items, 100), dim=(dim, 5), features=(features, "gaussian"), theta=(theta, None))
            self.source = found = load(source, join, download, self.dtype)
            self.n_rows = len(found)
            check_everyone_once(horizon, self.n_rows, population)
            self.theta, bounds, prices = found.theta, found.bounds(), found.prices
            n_items = found.items.shape[1]
            if found.present is not None:
                refuse(source, join=(join, "outer"))
                capacity = min(count(capacity=capacity), n_items)
        self.action_space: Assortments = Assortments(n_items, capacity)
        self.revenues = fixed_revenues(revenues, n_items, self.dtype, prices)
        high = np.empty((n_items, len(self.theta) + 1), self.dtype)
        high[:, :-1] = bounds
        low = -high
        low[:, -1], high[:, -1] = 0, 1 if self.revenues is None else self.revenues.max()
        self.observation_space: Box = Box(low, high, dtype=self.dtype.type)

    def contexts(self, n: int, rng: Generator) -> Array:
        if self.n_rows is not None:
            return self.users(0, n, rng)
        contexts = np.empty((n, *self.observation_space.shape), self.dtype)
        self._fill(contexts[..., :-1], rng)
        return self._priced(contexts, rng)

    def rows(self, start: int, n: int, rng: Generator) -> NDArray[np.int64]:
        assert self.n_rows is not None
        if self.population == WITH:
            return rng.integers(self.n_rows, size=n)
        return rows_in_turn(self.n_rows, start, n, rng, self.population)

    def records_of(self, rows: Array, rng: Generator) -> Array:
        """Return the contexts of users who are these rows."""
        contexts = np.empty((len(rows), *self.observation_space.shape), self.dtype)
        assert self.source is not None
        self.source.write(rows, contexts[..., :-1])
        self._priced(contexts, rng, rows)
        if self.source.present is not None:
            contexts[..., -1] *= self.source.present[rows]
        return contexts

    def again(self, own: Array, fresh: Array, spread: float) -> Array:
        """Return contexts of people with features of their own; revenues are those of the visit.

        Raises:
            ValueError: features that cannot be mixed: one-hot ones, and those of a source's users.
        """
        if self.features == "one-hot" or self.source is not None:
            mixable = "features 'gaussian' and 'unit'"
            raise ValueError(f"person_spread is for {mixable}; leave it out, got features {self.features!r}.")
        contexts = fresh.copy()
        x = mixed(own[..., :-1], fresh[..., :-1], spread)
        if self.features == "unit":
            x *= (INSIDE / np.maximum(np.linalg.norm(x, axis=-1), np.finfo(x.dtype).tiny))[..., None]
        np.clip(x, -BOUND, BOUND, out=contexts[..., :-1])
        return contexts

    def visits(self, users: int) -> int:
        return 1 if self.n_rows is None or self.population != WITH else most_visits(users, self.n_rows)

    def _priced(self, contexts: Array, rng: Generator, rows: Array | None = None) -> Array:
        """Write revenues into the last column of contexts (n, N, d + 1), in place."""
        fixed = self.revenues
        if fixed is not None and fixed.ndim == 2:  # each row has its own
            fixed = fixed[rows]
        contexts[..., -1] = rng.random(contexts.shape[:2], dtype=self.dtype) if fixed is None else fixed
        return contexts

    def _fill(self, features: Array, rng: Generator) -> None:
        """Draw synthetic features, shape (n, N, d)."""
        if self.features == "one-hot":
            kinds = rng.random(features.shape[:2]).argsort(axis=1) % features.shape[2]
            features[:] = np.eye(features.shape[2], dtype=self.dtype)[kinds]
            return
        if self.features == "unit":
            x = directions(rng, features.shape, self.dtype)
        else:
            x = gaussians(rng, features.shape, self.dtype)
            np.clip(x, -BOUND, BOUND, out=x)
        for feature in range(features.shape[-1]):  # twice as fast as one copy, whose inner loop would be d long
            features[..., feature] = x[..., feature]

    def weights(self, contexts: Array) -> Floats:
        """Return exp(x . theta) of every item, shape (n, N)."""
        n_items, columns = contexts.shape[1:]
        theta = np.append(self.theta, 0.0).astype(self.dtype)
        weights = attraction(contexts.reshape(-1, columns) @ theta).reshape(-1, n_items)
        if self.source is not None and self.source.present is not None:
            weights *= contexts.any(axis=-1)
        return weights

    def best_action(self, contexts: Array) -> Array:
        return best_assortment(self.weights(contexts), contexts[..., -1], self.action_space.capacity)

    def expected_reward(self, contexts: Array, actions: Array) -> Floats:
        return offer(self.weights(contexts), contexts[..., -1], actions).expected_revenue

    def outcome(self, contexts: Array, actions: Array, rng: Generator) -> tuple[Array, Floats]:
        revenues = contexts[..., -1]
        bought = purchase(offer(self.weights(contexts), revenues, actions), rng.random(len(contexts)))
        return bought, revenue_of(bought, revenues)

    def rounds(self, users: Array, rng: Generator) -> Rounds:
        return AssortmentRounds(self, users, rng)


class AssortmentRounds(Rounds):
    """A block of users whose weights, best sets and uniforms (one each, for the purchase) are known in advance."""

    def __init__(self, problem: AssortmentProblem, users: Array, rng: Generator) -> None:
        self.contexts = users
        self.space, self.cuts = problem.action_space, problem.cuts
        self.weights = problem.weights(users)
        self.revenues = users[..., -1].astype(np.float64)
        self.unit_revenues = bool((self.revenues == 1.0).all())
        self.best = best_assortment(self.weights, self.revenues, self.space.capacity)
        self.best_reward = offer(self.weights, self.revenues, self.best).expected_revenue
        self.uniforms = rng.random(len(users))
        self._lists: tuple[list[float], list[float]] | None = None

    def serve(self, rows: slice, actions: Array) -> Served:
        weights, revenues = self.weights[rows], self.revenues[rows]
        offered = offer(weights, revenues, actions)
        bought = purchase(offered, self.uniforms[rows])
        expected = offered.expected_revenue
        regret = np.maximum(self.best_reward[rows] - expected, 0.0)
        return Served(bought, revenue_of(bought, revenues), expected, regret, self.best[rows])

    def check(self, actions: Array) -> Array:
        sets = np.asarray(actions)
        if sets.shape != (len(sets), self.space.n_items) or not ((sets == 0) | (sets == 1)).all():
            raise ValueError(f"actions must be 0/1 vectors of length {self.space.n_items}; got shape {sets.shape}.")
        largest = int(np.count_nonzero(sets, axis=1).max(initial=0))
        if largest <= self.space.capacity:
            return sets
        if not self.cuts:
            raise ValueError(too_large(self.space.capacity, largest))
        return np.where(np.cumsum(sets != 0, axis=1) <= self.space.capacity, sets, 0)

    def serve_one(self, row: int, action: object) -> tuple[float, dict[str, Any]]:
        """Realise one user's assortment; the sums are those of ``serve``, in the same order, over the offered items."""
        if self._lists is None:
            self._lists = self.uniforms.tolist(), self.best_reward.tolist()
        items = self._items(action)
        weights = self.weights[row][items].tolist()
        cumulative = list(accumulate(weights, initial=0.0))
        total = earned = cumulative[-1]
        if not self.unit_revenues:
            revenues = self.revenues[row][items].tolist()
            earned = deque(accumulate(map(mul, weights, revenues), initial=0.0), 1)[0]
        position = bisect_right(cumulative, self._lists[0][row] * (1.0 + total) - 1.0) - 1
        bought, reward = NO_PURCHASE, 0.0
        if 0 <= position < len(weights):
            bought = int(items[position])
            reward = 1.0 if self.unit_revenues else revenues[position]
        expected, best = earned / (1.0 + total), self.best[row].copy()
        regret = max(self._lists[1][row] - expected, 0.0)
        return reward, {"feedback": bought, "regret": regret, "expected_reward": expected, "optimal_action": best}

    def _items(self, action: object) -> NDArray[np.intp]:
        if not (isinstance(action, np.ndarray) and action.dtype == np.int8):
            vector = np.asarray(action)
            if vector.dtype.kind not in "biuf" or not ((vector == 0) | (vector == 1)).all() or vector.ndim != 1:
                raise ValueError(f"action must be a 0/1 vector of length {self.space.n_items}; got {shown(action)}.")
            action = vector.astype(np.int8)
        items: NDArray[np.intp] = action.nonzero()[0]
        n = len(items)
        if action.shape != (self.space.n_items,) or action.tobytes().count(1) != n:
            raise ValueError(f"action must be a 0/1 vector of length {self.space.n_items}; got {shown(action)}.")
        if n > self.space.capacity and not self.cuts:
            raise ValueError(too_large(self.space.capacity, n))
        return items[: self.space.capacity]


def too_large(capacity: int, items: int) -> str:
    """Return the error for a set that is refused."""
    return f"an assortment has at most {capacity} items; got {items}. With oversized='cut' its first {capacity} count."


def parameters(dim: int, features: str, rng: Generator) -> Floats:
    """Draw theta, shape (d,)."""
    if features != "one-hot":
        return rng.random(dim)
    values = np.zeros(dim)
    values[0], values[1 : 1 + (dim + 2) // 4] = 2.0, 1.0
    return rng.permutation(values)


def fixed_revenues(revenues: ArrayLike, n_items: int, dtype: Precision, prices: Floats | None = None) -> Array | None:
    """Return the revenue of every item, or None if revenues are drawn for each user."""
    if isinstance(revenues, str):
        named = {"ones": np.ones(n_items, dtype), "random": None}
        if prices is not None:
            named["prices"] = prices.astype(dtype)
        return named[one_of(named, revenues=revenues)]
    fixed = numbers(n_items, revenues=revenues)
    if (fixed < 0).any() or not fixed.any():
        raise ValueError(
            f"revenues must be 'ones', 'random' or {n_items} numbers >= 0, not all 0; got {shown(revenues)}."
        )
    return fixed.astype(dtype)
