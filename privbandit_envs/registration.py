"""``register`` makes a Problem a Gymnasium environment, and ``from_table`` a table of yours."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from privbandit_envs.validate import shown

if TYPE_CHECKING:
    from privbandit_envs.datasets.frames import Table

ENV_IDS: list[str] = []
"""Ids that ``register`` registered, in order; the conformance suites run on each."""


def register(id: str, problem: str, *, listed: bool = True, **kwargs: object) -> None:
    """Register a bandit family with ``gym.make`` and ``gym.make_vec``.

    Gymnasium's two checking wrappers cost a tenth of a step and are left off: the environment itself refuses a step
    before a reset, and ``testing.check_bandit_env`` checks the rest.

    Args:
        id: ``"namespace/Name-v0"``.
        problem: ``"module:Class"`` of a Problem; its keyword arguments become those of the environment.
        listed: whether it stands in ``ENV_IDS``; False for an id that is another one with other defaults.
        **kwargs: defaults that differ from the class's own.

    Raises:
        ValueError: the id belongs to another problem.
        TypeError: a class in place of its name.

    Examples:
        >>> register("privbandit/Linear-v0", "clinic.dosage:DosageProblem")
        Traceback (most recent call last):
        ValueError: privbandit/Linear-v0 is registered for another problem; choose another name or version.
    """
    if not isinstance(problem, str):  # a saved trial names it
        named = f"{getattr(problem, '__module__', 'module')}:{getattr(problem, '__qualname__', 'Class')}"
        raise TypeError(f"problem must be the name of a class, such as {named!r}; got {shown(problem)}.")
    if id in gym.registry:
        if gym.registry[id].kwargs.get("problem") != problem:
            raise ValueError(f"{id} is registered for another problem; choose another name or version.")
        return
    gym.register(
        id=id,
        entry_point="privbandit_envs.changing.delay:made",
        vector_entry_point="privbandit_envs.vector_env:BanditVectorEnv",
        order_enforce=False,
        disable_env_checker=True,
        kwargs={"problem": problem, **kwargs},
    )
    if listed:
        ENV_IDS.append(id)


def from_table(
    table: "Table",
    *,
    label: str | None = None,
    user: str | None = None,
    reward: str | None = None,
    public: str | None = None,
    n_public: int | None = None,
    schema: Any = None,
    **kwargs: Any,
) -> gym.Env[Any, Any]:
    """Return a table of yours as a bandit.

    With ``label`` it is classification: a row is a person, the arms are the labels, the reward is 1 for the right one.
    A table of decisions, with the arm that somebody was given and its reward, is a log: the rewards of other arms are
    unknown. ``privbandit_agents.Log.from_table`` reads it, as a warning explains.

    With ``user`` and ``reward`` the arms have features: a person has one row for each arm, with the arm's features and
    the reward that it would give, in [-1, 1]. All other columns are features: numbers, levels, booleans or dates.

    Features are scaled by the bounds of ``schema``, or by rows that are public, since the range of private rows would
    leak; public rows are no users.

    Args:
        table: the path of a CSV, JSON, parquet or Arrow file, a data frame of any library, or arrays by name.
        label: the column to predict.
        user: the column of the user that a row's arm belongs to.
        reward: the column of the rewards.
        public: a column of 0 and 1, 1 for public rows; a person is if all rows are.
        n_public: how many public rows, or people, are drawn; default: 50, or all that ``public`` names.
        schema: of the table, or the path of its file; without one the levels of texts are read from the table.
        **kwargs: of the environment, such as ``horizon``, ``population``, ``available``.

    Raises:
        ValueError: something in the table is not as it should be; the sentence names the column.
        FileNotFoundError: no such file.
        ImportError: polars or pydantic is not installed.

    Examples:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).random(100)
        >>> env = from_table({"age": x, "height": 1 - x, "ill": x > 0.4}, label="ill", n_public=20, horizon=80)
        >>> env.reset(seed=0)[0].shape, env.action_space
        ((2,), Discrete(2))
    """
    from privbandit_envs.datasets.frames import armed, labelled  # readers of data are slow to import

    n_public = 50 if n_public is None and public is None else n_public
    if label is not None and user is None and reward is None:
        data = labelled(table, label, public, schema)
        warn_of_log(label, data.feature_names)
        return gym.make("privbandit/Classification-v0", source=data, n_public=n_public, **kwargs)
    if label is None and user is not None and reward is not None:
        arms = armed(table, user, reward, public, schema)
        return gym.make("privbandit/Table-v0", source=arms, n_public=n_public, **kwargs)
    given = {"label": label, "user": user, "reward": reward}
    raise ValueError(f"name the column label, or the columns user and reward; got {given}.")


def warn_of_log(label: str, others: Sequence[str]) -> None:
    """Warn if a table of labels looks like a log of decisions: the bandit would learn to imitate the policy in it."""
    signs = [name for name in others if name.lower() in ("reward", "click", "propensity")]
    if signs or label.lower() in ("action", "arm", "treatment"):
        why = f"column {signs[0]!r} is there too" if signs else "that is the name of a decision"
        warnings.warn(
            f"label={label!r} makes the decisions of a log the right answers ({why}): a bandit would learn to repeat "
            "them. privbandit_agents.Log.from_table(table, action=, reward=, propensity=) reads a log.",
            stacklevel=3,
        )
