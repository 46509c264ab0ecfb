"""A world made of a log: its contexts, with a model of what every arm would have earned.

Lihong Li, Wei Chu, John Langford and Xuanhui Wang, "Unbiased Offline Evaluation of Contextual-bandit-based News Article
Recommendation Algorithms", WSDM 2011 (replay); Victor Chernozhukov and others, "Double/Debiased Machine Learning for
Treatment and Structural Parameters", Econometrics Journal 2018 (cross-fitting).

A simulated reward is only as good as the model. So each user's reward is also estimated by the doubly robust formula
of ``logs.estimates.dr``, which the log's propensities make unbiased whatever the model: an agent learns from simulated
feedback and is judged by that reward. ``check_simulator`` compares the two for policies that are easy to name.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import scipy
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_agents.base import state
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.base.spaces import Array
from privbandit_agents.logs.estimates import Steps, crossed, interval, largest_weight, weights_of
from privbandit_agents.logs.posterior import draw_lines
from privbandit_agents.logs.record import Log
from privbandit_agents.logs.telling import designed, moments
from privbandit_envs import ArmProblem, BanditEnv, register
from privbandit_envs.changing.people import most_visits, rows_in_turn
from privbandit_envs.problem import ArmRounds, Served, pick
from privbandit_envs.validate import one_of, shown

Floats = NDArray[np.float64]
Kind = Literal["auto", "logistic", "trees"]
KINDS = ("logistic", "trees")
FARTHEST = 8.0  # standard deviations at which a feature of a simulated context is cut
LOG_ENV = "privbandit_agents.logs.simulator:privbandit/Log-v0"
"""The id of a log's world; the module in front registers it in a process that has not imported it."""


@dataclass(frozen=True, eq=False)
class Simulator:
    """A log, standardized, and the mean reward of every arm for every user in it; rewards lie in [0, 1].

    Attributes:
        contexts: features with mean 0 and variance 1, cut at 8, shape (n, d) or (n, K, d).
        means: by models that have not seen the row, shape (n, K).
        rivals: likewise by the kind of model that predicts less well, shape (n, K).
        actions: of the log, shape (n,).
        rewards: of the log, moved to [0, 1], shape (n,).
        weights: inverse propensities of the log, shape (n,).
        kind: of the models behind ``means``.
        losses: mean loss on rows that a model has not seen, by kind: log loss of clicks, else squared error.
        low, high: the log's rewards that are 0 and 1 here.
        noise: standard deviation of rewards about their means; 0 if rewards are clicks, which are drawn as such.
        persons: the number of each row's person, shape (n,); None if the log names nobody.
        arms: their names.
        lines: coefficients of further worlds that the log leaves possible, shape (draws, K, D), or (draws, 1, D) if
            arms share them; None if there are none.
        seen: what agents see in place of ``contexts``: the rows of a log that was encoded by a schema, as they are.
    """

    contexts: Array
    means: Floats
    rivals: Floats
    actions: NDArray[np.int64]
    rewards: Floats
    weights: Floats
    kind: str
    losses: dict[str, float]
    low: float
    high: float
    noise: float
    persons: NDArray[np.int64] | None
    arms: list[str]
    lines: Floats | None = None
    seen: Array | None = None

    def __deepcopy__(self, memo: object) -> "Simulator":
        return self  # nothing in it can change

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def digest(self) -> str:
        """A digest of all that is in it, so that results of another world are not taken for its own."""
        arrays, values = self.parts
        found = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
        for name, array in arrays.items():
            found.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return found.hexdigest()[:16]

    @property
    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Its arrays and its other values, by name."""
        every = {part.name: getattr(self, part.name) for part in fields(self)}
        arrays = {name: value for name, value in every.items() if isinstance(value, np.ndarray)}
        return arrays, {name: value for name, value in every.items() if name not in arrays}

    @cached_property
    def visits(self) -> int:
        """How often one person comes at most; 1 if the log names nobody."""
        return 1 if self.persons is None else int(np.bincount(self.persons).max())

    @cached_property
    def people(self) -> int:
        """How many persons there are; 0 if the log names nobody."""
        return 0 if self.persons is None else int(self.persons.max()) + 1

    @property
    def log(self) -> Log:
        """The log in its own order, with rewards in [0, 1]."""
        about = {"uniform": 1 / self.means.shape[1], "arms": self.arms}
        p, r = np.minimum(1 / self.weights, 1.0), self.rewards
        return Log(self.contexts, self.actions, r, p, r, np.zeros(len(self)), about, people=self.persons)

    def drawn(self, draw: int) -> Floats:
        """Return the mean reward of every arm for every user in one of the further worlds, shape (n, K)."""
        assert self.lines is not None
        lines, d = self.lines[draw], self.contexts.shape[-1]
        x, _ = designed(np.asarray(self.contexts, np.float64), 10 if lines.shape[-1] > 1 + d else 0)
        means = x @ (lines[0] if x.ndim == 3 else lines.T)
        return np.asarray(np.clip(means, 0.0, 1.0) if self.noise else scipy.special.expit(means))

    def write(self, path: Path) -> None:
        """Write ``.npz``, readable by its owner alone: it holds raw data."""
        state.write(path, *self.parts, secret=True)

    @classmethod
    def read(cls, path: Path) -> "Simulator":
        arrays, values = state.read(path)
        return cls(**{**arrays, **values})


def simulator(log: Log, model: Kind = "auto", seed: int = 0) -> Simulator:
    """Fit models of rewards to a log, five parts of its rows, or of its people, by the other four each.

    Args:
        log: of arms; with contexts of shape (n, d) each arm has a model, with (n, K, d) all arms share one.
        model: ``"logistic"`` regression (linear for rewards that are no clicks), boosted ``"trees"``, or ``"auto"``:
            the one that predicts unseen rows better.
        seed: of the five parts.

    Raises:
        ValueError: a log of sets or with masks, rewards that are all the same, or fewer than 100 users.
    """
    from threadpoolctl import threadpool_limits  # which scikit-learn brings

    one_of(("auto", *KINDS), model=model)
    contexts, rewards, low, high, clicks = standardized(log)
    arms = log._all_arms()
    # means by models that have not seen the row, of both kinds
    steps = list(crossed(log, default_rng([seed, 41])))
    with threadpool_limits(1):  # small models, which several threads only slow down
        means = {kind: cross_fitted(kind, contexts, log.actions, rewards, steps, arms, clicks) for kind in KINDS}
        predicted = {kind: pick(table, log.actions) for kind, table in means.items()}
        losses = {kind: loss(rewards, q, clicks) for kind, q in predicted.items()}
        kind = min(losses, key=losses.__getitem__) if model == "auto" else model
    rival = KINDS[kind == KINDS[0]]
    noise = 0.0 if clicks else float(np.sqrt(np.mean((rewards - predicted[kind]) ** 2)))
    names = list(log.about.get("arms") or map(str, range(arms)))
    weights = 1 / np.asarray(log.propensities, np.float64)
    actions = np.asarray(log.actions, np.int64)
    models = means[kind], means[rival], actions, rewards, weights, kind, losses
    return Simulator(contexts.astype(np.float32), *models, low, high, noise, log.people, names, seen=seen_of(log))


def standardized(log: Log) -> tuple[Floats, Floats, float, float, bool]:
    """Return contexts of mean 0 and variance 1, rewards in [0, 1], those that are 0 and 1, and whether they are clicks.

    Raises:
        ValueError: as ``simulator`` does.
    """
    if log.actions.ndim > 1 or log.masks is not None:
        raise ValueError("a world can be made of a log of arms that were all present; this one has sets or masks.")
    if len(log) < 100:
        raise ValueError(f"a log needs 100 users or more for a model of their rewards; got {len(log)}.")
    low, high = log.about.get("reward_range") or (float(log.rewards.min()), float(log.rewards.max()))
    clicks = bool(np.isin(log.rewards, (0, 1)).all()) and 0 <= low <= high <= 1
    if clicks:
        low, high = 0.0, 1.0
    elif low == high:
        raise ValueError(f"rewards must differ from user to user; all are {low:g}.")
    check_cells(log)
    center, scale = moments(log)
    contexts = np.clip((log.contexts - center) / scale, -FARTHEST, FARTHEST)
    return contexts, (log.rewards - low) / (high - low), low, high, clicks


def seen_of(log: Log) -> Array | None:
    """Return the contexts of a log that was encoded by a schema, as a service encodes them; None for another log."""
    return log.contexts.astype(np.float32) if "schema" in log.about else None


def possible_worlds(log: Log, draws: int, seed: int = 0) -> Simulator:
    """Return the worlds that a log leaves possible: draws from the posterior of ``logs.posterior``; means are theirs.

    Raises:
        ValueError: as for ``simulator``.
    """
    contexts, rewards, low, high, clicks = standardized(log)
    arms, shared = log._all_arms(), log.contexts.ndim == 3
    actions, persons = np.asarray(log.actions, np.int64), log.people
    x, widths = designed(pick(contexts, actions) if shared else contexts)
    groups, number = (np.zeros_like(actions), 1) if shared else (actions, arms)
    lines = draw_lines(x, widths, groups, rewards, clicks, number, draws, default_rng([seed, 44]))
    names = list(log.about.get("arms") or map(str, range(arms)))
    off = rewards - np.vecdot(x, lines.mean(axis=0)[groups])
    noise = 0.0 if clicks else max(float(np.sqrt(np.mean(off**2))), 1e-9)
    none = np.zeros((0, arms))
    models: tuple[Any, ...] = none, none, actions, rewards, np.zeros(len(log)), "posterior", {}
    rest: tuple[Any, ...] = low, high, noise, persons, names, lines, seen_of(log)
    return Simulator(contexts.astype(np.float32), *models, *rest)


def check_cells(log: Log) -> None:
    """Raise ValueError for a cell that dwarfs its column, so that all other cells would count as equal."""
    d = log.contexts.shape[-1]
    names = log.about.get("features", [f"x{place}" for place in range(d)])
    for place, column in enumerate(log.contexts.reshape(-1, d).T.astype(np.float64) / 2):
        far = np.abs(column - np.median(column))
        if 0 < np.quantile(far, 0.99) < 1e-6 * far.max():
            row = int(far.argmax()) * len(log) // len(far)
            raise ValueError(
                f"feature {shown(names[place])} has a cell in row {row} that is a million times as far from the median "
                "as 99 % of the cells, which would all count as equal: correct it, or leave the row out."
            )


def cross_fitted(
    kind: str, contexts: Array, actions: Array, rewards: Floats, steps: Steps, arms: int, clicks: bool
) -> Floats:
    """Return the mean reward of every arm for every user, by models of each step's other rows, shape (n, K)."""
    means = np.zeros((len(rewards), arms))
    shared = contexts.ndim == 2
    for rest, mine in steps:
        if not shared:
            fitted = model_of(kind, pick(contexts, actions)[rest], rewards[rest], clicks)
            means[mine] = predictions(fitted, contexts[mine].reshape(-1, contexts.shape[2]), clicks).reshape(-1, arms)
            continue
        for arm in range(arms):
            rows = rest[actions[rest] == arm]
            fitted = model_of(kind, contexts[rows], rewards[rows], clicks)
            everybody = rewards[rest].mean()
            means[mine, arm] = everybody if fitted is None else predictions(fitted, contexts[mine], clicks)
    return np.clip(means, 0.0, 1.0)


def model_of(kind: str, x: Array, y: Floats, clicks: bool) -> Any:
    """Return a fitted model of scikit-learn; a number if all rewards are equal, None with too few rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge

    if len(y) < 10:
        return None
    if len(set(y.tolist())) == 1:
        return (float(y.sum()) + 0.5) / (len(y) + 1)  # never quite 0 or 1
    if kind == "logistic":
        return LogisticRegression(max_iter=1000).fit(x, y) if clicks else Ridge(1.0).fit(x, y)
    leaves = {"max_iter": 80, "learning_rate": 0.06, "max_leaf_nodes": 12, "min_samples_leaf": 40, "random_state": 0}
    return (HistGradientBoostingClassifier if clicks else HistGradientBoostingRegressor)(**leaves).fit(x, y)


def predictions(model: Any, x: Array, clicks: bool) -> Floats:
    if isinstance(model, float):
        return np.full(len(x), model)
    return np.asarray(model.predict_proba(x)[:, 1] if clicks else model.predict(x), np.float64)


def loss(rewards: Floats, predicted: Floats, clicks: bool) -> float:
    """Return the mean log loss of clicks, or the mean squared error of other rewards."""
    if not clicks:
        return float(np.mean((rewards - predicted) ** 2))
    q = np.clip(predicted, 1e-6, 1 - 1e-6)
    return float(-np.mean(rewards * np.log(q) + (1 - rewards) * np.log(1 - q)))


class LogProblem(ArmProblem):
    """Users of a log, first each once in a random order, then independent draws.

    The feedback is simulated: a click with the chance that the model gives the arm, or its mean with Gaussian noise cut
    to [0, 1]. The reward is doubly robust: the model's mean, and if the log took the same arm the weighted difference
    of the logged reward from the model. Its mean over users is unbiased, one user's may lie outside [0, 1]. Regret is
    the model's.

    Args:
        source: a ``Simulator``, or the path of a file that it wrote.
        digest: of the simulator, so that results are known to be of it; a file with another one is refused.
        draw: one of its further worlds, in which rewards are the model's; None: the world of its means.
        horizon: rounds an episode.
    """

    def __init__(
        self,
        rng: Generator,
        *,
        source: "Simulator | str | None" = None,
        digest: str = "",
        draw: int | None = None,
        horizon: int = 10_000,
    ) -> None:
        made = Simulator.read(Path(source)) if isinstance(source, str) else source
        if not isinstance(made, Simulator):
            raise ValueError(f"source must be a Simulator, or the path of one; got {shown(source)}.")
        if digest and digest != made.digest:
            raise ValueError(
                f"source must be the world with digest {shown(digest)}; that of the file is {made.digest}."
            )
        self.made, self.n_rows, self.drawn = made, len(made), draw is not None
        self.table = made.means if draw is None else made.drawn(draw)
        low, high = (-FARTHEST, FARTHEST) if made.seen is None else (0.0, 1.0)
        self.observation_space = Box(low, high, made.contexts.shape[1:], np.float32)
        self.action_space = Discrete(len(made.arms))

    def contexts(self, n: int, rng: Generator) -> Array:
        return self.observe(self.users(0, n, rng))

    def rows(self, start: int, n: int, rng: Generator) -> NDArray[np.int64]:
        return rows_in_turn(len(self.made), start, n, rng)

    def records_of(self, rows: Array, rng: Generator) -> Array:
        """Return the rows themselves: a user's record is the number of a row of the log."""
        return rows

    def people_of(self, rows: Array) -> NDArray[np.int64]:
        """Return the persons that the log names, or the rows themselves."""
        return np.asarray(rows if self.made.persons is None else self.made.persons[rows], np.int64)

    def observe(self, users: Array) -> Array:
        return (self.made.contexts if self.made.seen is None else self.made.seen)[users]

    def means(self, contexts: Array) -> Floats:
        return self.table[contexts]

    def rewards(self, means: Floats, rng: Generator) -> Floats:
        if self.made.noise:  # of this mean, and as near to this noise as rewards in [0, 1] can be
            mean = np.clip(means, 1e-6, 1 - 1e-6)
            size = np.maximum(mean * (1 - mean) / self.made.noise**2 - 1, 1e-2)
            return rng.beta(mean * size, (1 - mean) * size)
        return (rng.random((len(means), 1)) < means).astype(np.float64)

    def rounds(self, users: Array, rng: Generator) -> "LogRounds":
        return LogRounds(self, users, rng)

    def visits(self, users: int) -> int:
        rows, people = len(self.made), self.made.people or len(self.made)
        return self.made.visits if users <= rows else self.made.visits + most_visits(users - rows, people)


class LogRounds(ArmRounds):
    """A block of users with doubly robust rewards."""

    def __init__(self, problem: LogProblem, users: Array, rng: Generator) -> None:
        super().__init__(problem, users, rng)
        made = problem.made
        self.judged = self.means.copy()
        if problem.drawn:
            return
        off = made.weights[users] * (made.rewards[users] - pick(made.means[users], made.actions[users]))
        self.judged[np.arange(len(users)), made.actions[users]] += off

    def serve(self, rows: slice, actions: Array) -> Served:
        served = super().serve(rows, actions)
        reward = pick(self.judged[rows], actions)
        return Served(served.feedback, reward, served.expected_reward, served.regret, served.optimal_action)

    def serve_one(self, row: int, action: object) -> tuple[float, dict[str, Any]]:
        _, info = super().serve_one(row, action)
        return float(self.judged[row, int(action)]), info  # type: ignore[index,call-overload]


register("privbandit/Log-v0", "privbandit_agents.logs.simulator:LogProblem", listed=False)


def from_log(log: Log, model: Kind = "auto", *, seed: int = 0, horizon: int | None = None) -> BanditEnv:
    """Return a world made of a log: its users come again, and a model predicts what every arm would earn.

    Features have mean 0 and variance 1, and rewards lie in [0, 1], both by the log, or by a schema that encoded it: a
    promise to the users of this world is no promise to those in the log. An agent learns from simulated feedback; the
    reward is doubly robust, so that its mean is that of the agent among the log's users, whatever the model's error.
    ``check_simulator`` estimates how large that is.

    Args:
        log: from ``log`` or ``Log.from_table``.
        model: ``"logistic"``, ``"trees"``, or ``"auto"`` for the one that predicts unseen rows better.
        seed: of the parts of rows that a model does not see.
        horizon: users; default: those of the log.

    Raises:
        ValueError: a log of sets or with masks, of fewer than 100 users, or whose rewards are all the same.
        ImportError: scikit-learn is not installed.

    Examples:
        >>> from privbandit_agents import Explore, log, make, play
        >>> env = gym.make("privbandit/Clicks-v0", n_arms=3, dim=2, horizon=500)
        >>> logged = log(env, Explore(make("linucb", env, seed=0), 0.5, seed=0), 500, seed=0)
        >>> world = from_log(logged, "logistic")
        >>> result = play(world, make("auto-joint", world, epsilon=1.0, seed=0), seed=0)
        >>> bool(0 < result.reward[-1] / 500 < 1)
        True
    """
    made = simulator(log, model, seed)
    env = gym.make(LOG_ENV, source=made, horizon=len(made) if horizon is None else horizon)
    assert isinstance(env, BanditEnv)
    return env


@dataclass(frozen=True)
class Gap:
    """A policy's mean reward by simulation and by the log.

    Attributes:
        policy: in words.
        simulated: the model's mean.
        logged: the doubly robust estimate, at least 0 for clicks.
        low, high: what chance leaves possible by the log, at 1 % over all policies that are compared.
        off: whether the model's mean is beyond that.
    """

    policy: str
    simulated: float
    logged: float
    low: float
    high: float
    off: bool


def check_simulator(env: BanditEnv | Simulator) -> list[Gap]:
    """Compare a log's world with off-policy estimates of policies that are easy to name.

    These are each arm alone, uniform play, the best arm by the model, and the best arm by the other kind of model. Also
    the mean weight of each arm's rows is held against 1: propensities that are not those of the logging policy show.

    Args:
        env: from ``from_log``.

    Returns:
        The policies, those that are off first.

    Raises:
        TypeError: no world made of a log.
    """
    spec = getattr(env, "spec", None)
    made: Any = env if spec is None else spec.kwargs.get("source")
    made = Simulator.read(Path(made)) if isinstance(made, str) else made
    if not isinstance(made, Simulator):
        raise TypeError(f"env must be a world that from_log made; got {env!r:.60}.")
    return sorted(compared(made), key=lambda one: not one.off)


def compared(made: Simulator) -> Iterator[Gap]:
    """Yield policies with their simulated and estimated rewards in the log's own unit, and the mean weight of arms."""
    n, arms = made.means.shape
    log, span, sure = made.log, made.high - made.low, 1 - 0.01 / (2 * arms + 3)
    other = KINDS[made.kind == KINDS[0]]
    taken: dict[str, Array] = {f"arm {name} alone": np.full(n, arm) for arm, name in enumerate(made.arms)}
    taken |= {f"the best arm by {made.kind}": made.means.argmax(axis=1)}
    taken |= {f"the best arm by {other}": made.rivals.argmax(axis=1)}
    policies = {name: (pick(made.means, arm), (arm == made.actions) * made.weights) for name, arm in taken.items()}
    policies["uniform play"] = made.means.mean(axis=1), made.weights / arms
    q = pick(made.means, made.actions)
    for name, (expected, weights) in policies.items():
        if weights.any():  # else the log says nothing of it
            simulated, off, largest = float(expected.mean()), weights * (made.rewards - q), largest_weight(log, weights)
            ends = -largest * float(q.max()), largest * (1 - float(q.min())), 1.0
            low, high = interval(log, weights, off, 1.0, ends, (-1.0, 1.0), sure)
            found = np.clip([simulated, simulated + off.mean(), simulated + low, simulated + high], 0.0, 1.0)
            model, logged, least, most = (made.low + span * found).tolist()
            yield Gap(name, model, logged, least, most, not low <= 0 <= high)
    for arm, name in enumerate(made.arms):
        weights = np.where(made.actions == arm, made.weights, 0.0)
        largest = 10 * float(made.weights.max())  # propensities may be a tenth of any that was seen
        shares = replace(log, rewards=weights / largest)
        low, high = interval(shares, np.ones(n), shares.rewards, 1.0, (0.0, 1.0, 1.0), (0.0, 1.0), sure)
        mean, low, high = float(weights.mean()), largest * low, largest * high
        yield Gap(f"the weights of arm {name}", 1.0, mean, low, high, not low <= 1 <= high)


def replay(log: Log, agent: AnyAgent | Array, seed: int = 0) -> tuple[float, int]:
    """Let an agent play a log: it is shown each row, and keeps those where it takes the logged arm.

    Of a log whose propensities differ, such a row counts with a chance in proportion to 1 / propensity, so that kept
    rows have the law of the agent's own history (Li et al. 2011), and nothing is modeled. One row in K is kept if arms
    were uniform, fewer else.

    Args:
        log: of arms.
        agent: made for the contexts of the log; it learns. Or the probabilities of a policy that does not learn, shape
            (n, K): then a row is kept with a chance in proportion to its weight, so that the logging policy keeps all.
        seed: of the order of rows, and of what is kept.

    Returns:
        The mean reward of kept rows, and how many there are.

    Raises:
        ValueError: a log of sets, or nothing was kept.
    """
    if log.actions.ndim > 1:
        raise ValueError("replay needs a log of arms; this one has sets.")
    rng = default_rng([seed, 42])
    order = rng.permutation(len(log))
    if isinstance(agent, np.ndarray):
        weights = weights_of(log, agent)
        kept = rng.random(len(log)) * weights.max() < weights
    else:
        kept = rng.random(len(log)) * log.propensities <= log.propensities.min()
        for row in order[kept[order]]:
            context = agent.contexts_of(log.contexts[row])
            kept[row] = int(agent.select_action(context)) == int(log.actions[row])
            if kept[row]:
                agent.update(context, int(log.actions[row]), float(log.feedback[row]))
    if not kept.any():
        raise ValueError("no row of the log has the arm that the agent takes.")
    return float(log.rewards[kept].mean()), int(kept.sum())
