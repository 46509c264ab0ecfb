"""Logs: contexts, actions, rewards, and the probability with which each action was taken."""

import csv
import hashlib
import json
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from privbandit_agents.base import state
from privbandit_agents.base.agent import AnyAgent, AnyEnv, LearningAgent
from privbandit_agents.base.law import DRAWS, uniform_propensity
from privbandit_agents.base.records import in_floats
from privbandit_agents.base.spaces import Array, n_arms
from privbandit_agents.playing.play import check_match, choose, learn, learn_from, users_at_once
from privbandit_envs import BanditEnv
from privbandit_envs.changing.masks import Masks, masks_of
from privbandit_envs.datasets.frames import Table, encoding_of
from privbandit_envs.files import atomic
from privbandit_envs.validate import count, listed, one_of, shown

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
ARRAYS = ("contexts", "actions", "rewards", "propensities", "feedback", "errors")
OPTIONAL = ("masks", "people")
ONE = 1 + 1e-6
"""A propensity up to this is 1 that was rounded, in single precision or by a sum."""
SUFFIXES = (".npz", ".parquet", ".csv")
ABOUT: dict[str, tuple[type, ...]] = {
    "agent": (str,), "in_order": (bool,), "in_time": (bool,), "renumbered": (bool,), "arms": (list, tuple),
    "features": (list, tuple), "reward_range": (list, tuple), "uniform": (int, float), "least_propensity": (int, float),
}  # fmt: skip
"""The kinds of what a log tells of itself and an estimate reads."""


@dataclass(frozen=True)
class Log:
    """What happened to n users; the leading axis of every array is the user.

    Attributes:
        contexts: float32 or float64, shape (n, ...).
        actions: shape (n,), or sets of shape (n, N).
        rewards: shape (n,).
        propensities: the probability with which each user's action was taken, given all that came before, shape (n,).
        feedback: to the agent, shape (n,): the reward, or the purchased item.
        errors: standard errors of the propensities, shape (n,); 0 where they are exact.
        about: JSON values: the agent's name and guarantee, ``uniform``, the probability of an action in uniform play,
            ``least_propensity``, a public number below which no propensity is, or None, ``reward_range``, the least and
            the largest possible reward, ``in_time``: rows are in the order of a column of times, and ``in_order``: each
            row was decided with those before alone, and its propensity is that given them.
        masks: whether each arm was present, shape (n, K); None: all were, or actions are sets.
        people: the number of each user's person, 0, 1, ..., shape (n,); None: everybody came once.

    Raises:
        ValueError: the arrays have not the same length; a propensity is not in (0, 1], or below the least one; an
            action is out of range, or was absent; a context or a reward is not finite; or a mask allows nothing.
    """

    contexts: Array
    actions: Array
    rewards: Floats
    propensities: Floats
    feedback: Array
    errors: Floats
    about: dict[str, Any] = field(default_factory=dict)
    masks: Masks | None = None
    people: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for name in ("contexts", "rewards", "propensities", "errors"):  # one row's dtype must not round another's
            object.__setattr__(self, name, in_floats(getattr(self, name)))
        lengths = {name: len(getattr(self, name)) for name in (*ARRAYS, *({"people"} & self.arrays.keys()))}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"the arrays of a log must have one row a user; got {lengths}.")
        self._check_about()
        self._check_propensities()
        for name in ("contexts", "rewards"):
            numbers = np.asarray(getattr(self, name))
            if numbers.dtype.kind not in "fiub" or not np.isfinite(numbers).all():
                raise ValueError(f"{name} must be finite numbers: put a public value in place of a missing one.")
        if self.masks is not None:
            object.__setattr__(self, "masks", self._checked(self.masks))
        self._check_actions()

    def _check_about(self) -> None:
        """Raise ValueError if what the log tells of itself has other kinds, or not a name for each feature."""
        for name, kinds in ABOUT.items():
            value = self.about.get(name)
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) != (bool in kinds)):
                raise ValueError(f"{name} in `about` must be of the kind {kinds[0].__name__}; got {shown(value)}.")
        names, span = self.about.get("features"), self.about.get("reward_range")
        if names is not None and len(names) != np.shape(self.contexts)[-1]:
            raise ValueError(f"features in `about` must have a name for each; got {len(names)}.")
        if span is not None and [type(end) in (int, float) and math.isfinite(end) for end in span] != [True, True]:
            raise ValueError(f"reward_range in `about` must be two numbers; got {shown(span)}.")

    def _check_propensities(self) -> None:
        """Raise ValueError if an action could not be taken, or so seldom that the inverse is no number."""
        p = np.asarray(self.propensities)
        if p.dtype.kind not in "fiu" or not ((p >= sys.float_info.min) & (p <= ONE)).all():
            raise ValueError("propensities must lie in (0, 1]: every action that was taken could be taken.")
        object.__setattr__(self, "propensities", np.minimum(p, 1.0))
        least = self.about.get("least_propensity")
        if least is None:
            return
        if not 0 < least <= 1:
            raise ValueError(f"least_propensity must lie in (0, 1], or be None; got {least!r:.60}.")
        if p.min(initial=1.0) < least * (1 - 1e-9):
            raise ValueError(f"propensities must be at least the log's least_propensity {least:g}; some are below it.")

    def _check_actions(self) -> None:
        """Raise ValueError unless actions are arms from 0 on, of those that there are, or sets of 0 and 1."""
        actions = np.asarray(self.actions)
        if actions.ndim > 1:
            if not np.isin(actions, (0, 1)).all():
                raise ValueError("actions that are sets must be rows of 0 and 1, one for each item.")
        elif actions.dtype.kind not in "iu":
            raise ValueError(f"actions must be integers, or sets; got an array of {actions.dtype}.")
        elif len(actions) and not 0 <= int(actions.min()) <= int(actions.max()) < self._arms():
            known = "without an end" if self._arms() == math.inf else f"of {self._arms()} in all"
            raise ValueError(f"actions must be arms from 0 on, {known}: uniform = 1 / K in `about` means K arms.")

    def _arms(self) -> float:
        """Return how many arms there are, by masks, ``about``, or contexts with a row for each; or infinity."""
        uniform = self.about.get("uniform")
        if self.masks is not None:
            return int(self.masks.shape[1])
        if isinstance(uniform, int | float) and 0 < uniform <= 1:
            return round(1 / uniform)
        return int(self.contexts.shape[1]) if np.ndim(self.contexts) == 3 else math.inf

    def _all_arms(self) -> int:
        """Return how many arms there are; if nothing says so, they are those of the rows.

        Raises:
            ValueError: nothing says so, and an arm below the largest has no row.
        """
        if math.isfinite(known := self._arms()):
            return int(known)
        arms = np.unique(self.actions)
        if len(gone := np.flatnonzero(arms != np.arange(len(arms)))):
            way_out = "number the arms that there are from 0 on, or set uniform = 1 / K in `about` for K arms"
            raise ValueError(f"no row has arm {gone[0]}, and one has arm {arms[-1]}: {way_out}.")
        return len(arms)

    def _checked(self, masks: Array) -> Masks:
        """Return the masks as booleans, or raise: they allow nothing, or not the action taken."""
        if self.actions.ndim > 1:
            raise ValueError("masks mark the arms that were present; this log has sets.")
        arms = np.shape(masks)[1] if np.ndim(masks) == 2 else int(self.actions.max(initial=0)) + 1
        masks = masks_of(masks, (len(self), arms), "masks")
        if arms <= self.actions.max(initial=0) or not masks[np.arange(len(self)), self.actions].all():
            raise ValueError("masks must allow every action that was taken.")
        return masks

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by name, with the masks and the people if there are any."""
        there = [name for name in OPTIONAL if getattr(self, name) is not None]
        return {name: getattr(self, name) for name in (*ARRAYS, *there)}

    def __len__(self) -> int:
        return len(self.rewards)

    def __getitem__(self, users: slice) -> "Log":
        rows: dict[str, Any] = {name: array[users] for name, array in self.arrays.items()}
        backwards = (users.step or 1) < 0
        return Log(**rows, about=self.about | ({"in_order": False} if backwards else {}))

    def write(self, path: str | Path) -> None:
        """Write ``.npz``, ``.parquet`` (extra ``bench``) or ``.csv``: whole or not at all, readable by its owner alone.

        A log holds raw data of every user, whatever the agent promised. A CSV has a column for each feature, and
        ``action``, ``reward`` and ``propensity``; ``Log.from_table`` reads it if all arms share one context.

        Raises:
            ValueError: another ending, or a CSV of sets or of masks.
            OSError: the file cannot be written.
        """
        path = Path(path)
        if one_of(SUFFIXES, ending=path.suffix) == ".npz":
            state.write(path, self.arrays, self.about, secret=True, follow=True)
            return
        if path.suffix == ".csv":
            self._write_csv(path)
            return
        import polars as pl

        widths = {name: math.prod(array.shape[1:]) for name, array in self.arrays.items()}
        flat = {name: array.reshape(len(self), widths[name]) for name, array in self.arrays.items()}
        frame = pl.DataFrame({name: rows[:, 0] if widths[name] == 1 else rows for name, rows in flat.items()})
        shapes = {name: list(array.shape[1:]) for name, array in self.arrays.items()}
        kept = {"about": self.about, "shapes": shapes}
        text = json.dumps(kept | {"checksum": checksum(columns_of(frame), kept)})
        # in every row, and among the categories for a log of no users
        about = pl.Series("about", [text] * len(self), pl.Enum([text]))
        with atomic(path, "wb", 0o600, follow=True) as file:
            frame.with_columns(about).write_parquet(file)

    def _write_csv(self, path: Path) -> None:
        """Write one row a user: features, action, reward, propensity, person."""
        if self.actions.ndim > 1 or self.masks is not None:
            raise ValueError("a CSV has one arm a row, all arms present: write .npz or .parquet for sets and masks.")
        shape = self.contexts.shape[1:]
        names = ["x" + "_".join(map(str, place)) for place in np.ndindex(*shape)]
        columns = {**dict(zip(names, self.contexts.reshape(len(self), -1).T, strict=True)), "action": self.actions}
        columns |= {"reward": self.rewards, "propensity": self.propensities}
        if self.people is not None:
            columns["person"] = self.people
        with atomic(path, "w", 0o600, follow=True) as file:
            rows = csv.writer(file)
            rows.writerow(columns)
            rows.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))

    @classmethod
    def from_table(
        cls,
        table: Table,
        *,
        action: str | None = None,
        reward: str | None = None,
        propensity: str | None = None,
        person: str | None = None,
        features: Sequence[str] | None = None,
        schema: Any = None,
        items: "Table | None" = None,
        in_order: bool = False,
        strangers: bool = False,
    ) -> "Log":
        """Return the log in a table of decisions: a row a decision, with the features of its user.

        Args:
            table: the path of a CSV, JSON, parquet or Arrow file, a data frame of any library, or arrays by name.
            action: the column of the arm that was taken; ``about["arms"]`` has the arms' names. A role that is None
                here is that of the schema; without a schema, of a column with such a name, as a warning says.
            reward: the column of its reward.
            propensity: the column of the probability with which it was taken. If there is none, it is estimated from
                the features by a logistic regression that has not seen the row; ``about["propensities"]`` notes it.
            person: the column of who the user is, for people who come more than once.
            features: the columns of the context, shape (d,); default: those of the schema.
            schema: of the table, or the path of its file: numbers are scaled by its bounds to [0, 1]. Without one a
                schema is read from the table, and numbers stay as they are. ``about["schema"]`` keeps it, and
                ``about["from_people"]`` names the columns whose bounds or levels come from the rows.
            items: a table of the arms, a row each, with the column ``action``. Then a context has shape (K, d): of each
                arm the features in this table, scaled to [0, 1], and those of the user.
            in_order: whether the rows are in the order of the decisions, each with a propensity given all rows before:
                then ``dr`` learns from these alone. By default no order of the rows changes an estimate.
            strangers: whether a row without a person is somebody who came once; by default it is refused.

        Raises:
            ValueError: something in the table is not as it should be; the sentence names the column.
            FileNotFoundError: no such file.
            ImportError: propensities are to be estimated, and scikit-learn is not installed.

        Examples:
            >>> rows = {"age": [0.1, 0.9, 0.4], "arm": ["a", "b", "a"], "click": [0, 1, 1], "p": [0.5, 0.5, 0.5]}
            >>> read = Log.from_table(rows, action="arm", reward="click", propensity="p")
            >>> read.contexts.shape, read.actions.tolist(), read.about["arms"]
            ((3, 1), [0, 1, 0], ['a', 'b'])
        """
        # columns and their roles
        roles = {"action": action, "reward": reward, "propensity": propensity, "person": person}
        encoding, frame = encoding_of(table, schema, ("action", "reward", "propensity"), **roles)
        if features is not None:
            encoding = replace(encoding, schema=encoding.schema.with_features(features))
        found = {role: field.name for role in roles for field in encoding.schema.of_role(role)}
        if lost := [role for role in ("action", "reward") if role not in found]:
            raise ValueError(f"{lost[0]} must name a column of the table: {listed(frame.collect_schema())}; got None.")
        action, reward, propensity, person = (
            found["action"],
            found["reward"],
            found.get("propensity"),
            found.get("person"),
        )
        arms = encoding.schema[action].levels
        most = 1000  # arms: more are rather a column of numbers
        if not 2 <= len(arms) <= most:
            raise ValueError(f"column {shown(action)} must hold 2 to {most} different arms; got {len(arms)}.")
        # contexts, arms, rewards
        contexts, others = encoding.encoded(frame)
        actions, rewards = others[action].to_numpy().astype(np.int64), others[reward].to_numpy()
        people = None if person is None else people_of(others[person], strangers)
        # propensities, as logged or estimated
        about: dict[str, Any] = {"arms": list(arms), "features": encoding.names, "uniform": 1 / len(arms)}
        about |= {"in_order": True} if in_order else {}
        if propensity is None:
            p = estimated_propensities(contexts, actions, len(arms), rewards, *([] if people is None else [people]))
            about["propensities"] = "estimated from the features"
        else:
            p = others[propensity].to_numpy()
            if len(odd := np.flatnonzero(~((p > 0) & (p <= ONE)))):
                got = f"{p[odd[0]]} in row {odd[0]}"
                raise ValueError(f"column {shown(propensity)} must lie in (0, 1]: the arm was taken; got {got}.")
        about |= {"from_people": encoding.schema.private} if encoding.schema.private else {}
        about |= {} if people is None else {"renumbered": True}
        if encoding.scaled:
            about |= {"schema": encoding.schema.written}
            about |= {} if (span := encoding.reward_range) is None else {"reward_range": span}
        if items is not None:
            contexts, about["features"] = with_items(contexts, encoding.names, items, action, list(arms))
        if when := encoding.schema.of_role("time"):
            order, about["in_time"] = others[when[0].name].arg_sort().to_numpy(), True
            contexts, actions, rewards, p = (column[order] for column in (contexts, actions, rewards, p))
            people = None if people is None else people[order]
        return cls(contexts, actions, rewards, p, rewards, np.zeros(len(p)), about, people=people)

    @classmethod
    def read(cls, path: str | Path) -> "Log":
        """Read what ``write`` wrote, also before logs had masks; it warns of a parquet file without a checksum.

        Raises:
            ValueError: it is no log, or damaged, or rows of several logs; or a CSV, which ``from_table`` reads.
            OSError: the file cannot be read.
        """
        path = Path(path)
        if path.suffix == ".csv":
            raise ValueError(f"{path} is a table: Log.from_table reads it, by the names of its columns.")
        try:
            if one_of(SUFFIXES, ending=path.suffix) == ".npz":
                arrays, about = state.read(path)
                rows: dict[str, Any] = arrays  # a name that is no field of a log is refused
                return cls(**rows, about=about)
            from privbandit_envs.tables.reading import parquet

            return cls._of_frame(parquet(path), path)
        except (OSError, ImportError):
            raise
        except Exception as error:  # whatever damage does to a file
            raise ValueError(f"{path} is no log, or is damaged: {str(error)[:200]!r}.") from error

    @classmethod
    def _of_frame(cls, frame: "pl.DataFrame", path: Path) -> "Log":
        """Return the log of a frame that ``write`` made, or raise."""
        texts = frame["about"].unique().to_list() or frame.schema["about"].categories.to_list()  # type: ignore[attr-defined]
        if len(texts) != 1:
            raise ValueError(f"its rows are of {len(texts)} logs")
        kept = json.loads(texts[0])
        expected, columns = kept.pop("checksum", None), columns_of(frame)
        if expected is None:
            warnings.warn(
                f"{path} has no checksum, as an earlier version wrote it: damage may go unseen.", stacklevel=3
            )
        elif checksum(columns, kept) != expected:
            raise ValueError("its checksum is that of other content")
        rows = {name: columns[name].reshape(len(frame), *shape) for name, shape in kept["shapes"].items()}
        return cls(**rows, about=kept["about"])


def canonical(*columns: Array) -> NDArray[np.int64]:
    """Return the order of rows by what is in them, first in the first column: one order, however they are shuffled."""
    rows = np.hstack([np.asarray(column, np.float64).reshape(len(column), -1) for column in columns])
    rows = np.ascontiguousarray(rows) + 0.0  # 0 for -0
    return np.asarray(rows.view(np.dtype((np.void, rows.strides[0]))).ravel().argsort(kind="stable"))


def with_items(
    contexts: Floats, names: list[str], items: Table, action: str, arms: list[str]
) -> tuple[Array, list[str]]:
    """Return contexts of users and arms together, shape (n, K, d), and the names of their coordinates.

    Raises:
        ValueError: the table of arms lacks one, or has two rows of one.
    """
    encoding, frame = encoding_of(items, None, label=action)
    rows, others = replace(encoding, scaled=True).encoded(frame)
    known = [encoding.schema[action].levels[place] for place in others[action]]
    if odd := [arm for arm in arms if known.count(arm) != 1]:
        raise ValueError(f"items must have one row of each arm; of {shown(odd[0])} it has {known.count(odd[0])}.")
    of_arms = rows[[known.index(arm) for arm in arms]]
    shape = (len(contexts), len(arms), of_arms.shape[1] + contexts.shape[1])
    both = np.empty(shape, np.float32)
    both[:, :, : of_arms.shape[1]], both[:, :, of_arms.shape[1] :] = of_arms, contexts[:, None]
    return both, [*encoding.names, *names]


def people_of(column: "pl.Series", strangers: bool) -> NDArray[np.int64]:
    """Return the number of each row's person, shape (n,)."""
    gone = column.is_null().to_numpy()
    if gone.any() and not strangers:
        way_out = "leave the row out, or pass strangers=True if each such row is a person of its own"
        raise ValueError(f"column {shown(column.name)} names nobody in row {gone.argmax()}: {way_out}.")
    numbers = column.cast(int, strict=False)  # numbers in their order, texts in theirs
    column = column if numbers.null_count() > column.null_count() else numbers
    people = column.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    people[gone] = people.max(initial=0) + 1 + np.arange(gone.sum())
    return np.asarray(np.unique(people, return_inverse=True)[1])


def estimated_propensities(contexts: Floats, actions: NDArray[np.int64], arms: int, *others: Array) -> Floats:
    """Return the probability of each user's action given the features, by models that have not seen the user.

    It is right if the logging policy looked at nothing else. Each of five parts of the rows gets a multinomial logistic
    regression on the others; estimates below 1 / n count as 1 / n. No order of the rows, with ``others`` as further
    columns, changes the parts.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rarest = int(np.bincount(actions, minlength=arms).min())
    if rarest < 2:
        raise ValueError("every arm needs 2 rows or more to estimate propensities: name their column, or drop the arm.")
    found = np.empty(len(actions))
    order = canonical(contexts, actions, *others)
    parts = StratifiedKFold(min(5, rarest), shuffle=True, random_state=0).split(contexts, actions[order])
    for rest, part in ((order[rest], order[part]) for rest, part in parts):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(contexts[rest], actions[rest])
        found[part] = model.predict_proba(contexts[part])[np.arange(len(part)), actions[part]]
    return np.clip(found, 1 / len(actions), 1.0)


def columns_of(frame: "pl.DataFrame") -> dict[str, Array]:
    """Return the columns of a frame of polars but ``about`` as arrays."""
    return {name: frame[name].to_numpy() for name in frame.columns if name != "about"}


def checksum(columns: Mapping[str, Array], kept: Mapping[str, Any]) -> str:
    """Return the SHA-256 of columns, with their names, types and shapes, and of the notes kept as JSON."""
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
    for name, array in sorted(columns.items()):
        digest.update(f"{name} {array.dtype.newbyteorder('<').str} {array.shape}".encode())
        digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def log(
    env: AnyEnv,
    agent: AnyAgent,
    n: int,
    seed: int | None = None,
    *,
    draws: int = DRAWS,
    on_users: Callable[[int], object] | None = None,
) -> Log:
    """Let an agent play and learn from n users, as ``play`` does, and keep what happened.

    Args:
        env: as for ``play``; no vector of environments.
        agent: as for ``play``; none that owns its loop.
        n: number of users.
        seed: of the environment's ``reset``, and of the draws; None: fresh ones.
        draws: how many, for an agent with propensities without a closed form.
        on_users: called with the number of users so far, now and then.

    Raises:
        ValueError: more users than the environment's horizon or than 4 GiB hold, an environment that does not fit
            the agent, or an agent with ``people``.
        TypeError: an agent that owns its loop, or something that is no environment or agent.

    Examples:
        >>> import privbandit_envs
        >>> from privbandit_agents import Explore, make
        >>> env = gym.make("privbandit/Linear-v0", n_arms=4, dim=2, horizon=100)
        >>> logged = log(env, Explore(make("linucb", env, seed=0), 0.2, seed=0), 50, seed=0)
        >>> logged.contexts.shape, sorted(set(logged.propensities.round(2).tolist()))
        ((50, 4, 2), [0.05, 0.85])
    """
    check_match(env, agent)
    if isinstance(agent, LearningAgent) or not isinstance(env, gym.Env):
        raise TypeError(f"{agent.name} is logged one user after the other, which it or its environment cannot do.")
    if agent.people_seen is not None:
        raise ValueError("a log is of an agent without people: with it the propensities of who returns are others.")
    if isinstance(env, BanditEnv) and count(n=n) > env.horizon:
        raise ValueError(f"n must be at most the environment's horizon {env.horizon}; got {n}.")
    rng = default_rng() if seed is None else default_rng([seed, 20])
    context, told = env.reset(seed=seed)
    each = context.nbytes + 8 * (5 + n_arms(agent.action_space) if isinstance(agent.action_space, Discrete) else 5)
    memory = 2**32  # bytes of a log, which is made in memory
    if count(n=n) * each > memory:
        most = f"{memory // each:,} users are the most of one log"
        raise ValueError(f"n must be smaller: {n:,} users of {each:,} bytes each fill the memory; {most}.")
    parts: list[list[Array]] = []
    left = count(n=n)
    largest = users_at_once(context)
    while left:
        if isinstance(env, BanditEnv):
            m = min(agent.frozen_rounds(), left, largest)
            part = logged_block(env, agent, m, draws, rng)
        else:
            m = 1
            part, context, told = logged_step(env, agent, context, told.get("action_mask"), draws, rng)
        parts.append(part)
        left -= m
        if on_users is not None:
            on_users(n - left)
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows: dict[str, Any] = dict(zip((*ARRAYS, "masks"), columns, strict=True))
    if rows["masks"].all():
        del rows["masks"]
    return Log(**rows, about=about_of(agent))


def logged_block(env: BanditEnv, agent: AnyAgent, m: int, draws: int, rng: Generator) -> list[Array]:
    """Serve m users while the policy is frozen; return their rows in the order of ``ARRAYS``, and the masks."""
    contexts, masks = env.upcoming(m), env.action_masks(m) if env.masked else None
    seen, chosen = choose(agent, contexts, masks)
    actions = np.asarray(chosen)
    law = agent.propensities(contexts, actions, draws, rng, masks)
    served = env.serve(actions)
    learn(agent, seen, actions, served.feedback, masks)
    told = np.asarray(served.feedback)
    return [contexts, actions, served.reward, np.array(law), told, errors_of(law), presence(masks, agent, m)]


def logged_step(
    env: gym.Env[Any, Any], agent: AnyAgent, context: Array, mask: Array | None, draws: int, rng: Generator
) -> tuple[list[Array], Array, dict[str, Any]]:
    """Serve one user through any wrappers; return the row, the next context, and its ``info``."""
    seen, action = choose(agent, context, mask)
    masks = None if mask is None else np.asarray(mask)[None]
    law = agent.propensities(context[None], np.asarray(action)[None], draws, rng, masks)
    following, reward, terminated, truncated, info = env.step(action)
    learn_from(info, agent, seen, action, {"action_mask": mask}, env)
    told = np.atleast_1d(info.get("feedback", reward))
    row = [context[None], np.asarray(action)[None], np.array([float(reward)]), np.array(law), told, errors_of(law)]
    row.append(presence(masks, agent, 1))
    if terminated or truncated:
        following, info = env.reset()
    return row, following, info


def presence(masks: Array | None, agent: AnyAgent, n: int) -> Masks:
    """Return which arms were present for n users, shape (n, K), or (n, 1) where actions are sets."""
    arms = n_arms(agent.action_space) if isinstance(agent.action_space, Discrete) else 1
    return np.ones((n, arms), bool) if masks is None else np.asarray(masks, bool)


def errors_of(law: Any) -> Floats:
    return np.zeros(len(law)) if law.error is None else np.asarray(law.error, np.float64)


def about_of(agent: AnyAgent) -> dict[str, Any]:
    """Return a log's description of the agent that made it."""
    promise = agent.guarantee
    return {
        "agent": agent.name,
        "notion": promise.kind,
        "guarantee": promise.words,
        "uniform": uniform_propensity(agent.action_space),
        "least_propensity": getattr(agent, "least_propensity", None),
        "in_order": True,
    }
