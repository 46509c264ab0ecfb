"""Public maps of contexts to features in which rewards that bend are nearly linear.

Random Fourier features are those of Ali Rahimi and Benjamin Recht, "Random Features for Large-Scale Kernel Machines",
NeurIPS 2007.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.random import default_rng

from privbandit_envs.problem import Array, Floats
from privbandit_envs.spaces import Units, in_unit_cube
from privbandit_envs.validate import count, one_of, positive, shown
from privbandit_envs.validate import seed as checked_seed

KINDS = ("fourier", "interactions", "bins")
LARGEST = 10_000


@dataclass(frozen=True)
class Features:
    """A public map of each context to features, declared by ``gym.make(id, features=...)`` in front of every agent.

    The map is a function of settings and of the space of contexts. It reads no user, and one user's features are a
    function of that user's context alone. Features lie in the unit ball where arms have features of their own, in
    [-1, 1]^m where they share a context, and in [0, 1]^m where there are public rows, as arms are labels there. Users,
    rewards and regret are those of the world.

    A context is first moved to the unit cube: from [-1, 1] linearly, and from a wider space by the normal distribution
    function of each number, so numbers should have about unit variance there.

    Attributes:
        kind: ``"fourier"``: n random cosines, the features of a Gaussian kernel;
            ``"interactions"``: all numbers, their squares and their products; ``"bins"``: which of n equal parts of
            its range each number is in; or a function of contexts (n, d), or (n, K, d) where arms have their own, that
            returns numbers of shape (n, m) or (n, K, m), of each context apart. What lies outside is cut.
        n: how many Fourier features, or how many bins a number, >= 2. Default: 16, and 6 bins.
        length: of the Gaussian kernel, as a share of a number's range, > 0. Default: 0.3 sqrt(d).
        seed: of the cosines; it is public, as all settings are.

    Raises:
        ValueError: another kind, or a setting out of range.

    Examples:
        >>> env = gym.make("privbandit/Smooth-v0", features={"kind": "fourier", "n": 8})
        >>> context, _ = env.reset(seed=0)
        >>> context.shape, bool((abs(context) <= 1).all())
        ((8,), True)
    """

    kind: str | Callable[[Array], Array] = "fourier"
    n: int | None = None
    length: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not callable(self.kind):
            one_of(KINDS, kind=self.kind)
        if self.n is not None and count(n=self.n) < 2:
            raise ValueError(f"n must be at least 2; got {self.n}.")
        if self.length is not None:
            positive(length=self.length)
        checked_seed(seed=self.seed)

    @classmethod
    def of(cls, given: Any) -> "Features":
        """Return features by a kind, a function, or a table of these settings."""
        if isinstance(given, Features):
            return given
        if isinstance(given, Mapping):
            known = [setting.name for setting in fields(cls)]
            if unfit := [name for name in given if name not in known]:
                raise ValueError(f"features take {', '.join(known)}; got {shown(unfit[0])}.")
            return cls(**given)
        return cls(given)


@dataclass
class FeatureMap:
    """``Features`` of one space of contexts: a function of contexts (..., d) that gives features (..., m).

    Attributes:
        declared: what they are.
        given: the space of contexts.
        actions: the space of actions.
        units: of the contexts; None: not declared.
        labels: whether features are to lie in [0, 1]^m, as those of labels.
        space: of the features.

    Raises:
        ValueError: contexts that are not numbers, actions that are no arms, or more than 10,000 features.
    """

    declared: Features
    given: gym.Space[Any]
    actions: gym.Space[Any]
    units: Units | None = None
    labels: bool = False
    space: Box = field(init=False)

    def __post_init__(self) -> None:
        space = self.given if self.units is None else self.units.of_space(self.given)
        if not (isinstance(space, Box) and len(space.shape) in (1, 2) and isinstance(self.actions, Discrete)):
            raise ValueError(f"features are for arms and contexts of numbers; got {self.given} and {self.actions}.")
        low, high, self._space = float(space.low.min()), float(space.high.max()), space
        *arms, dim = space.shape
        declared, kind = self.declared, self.declared.kind
        length = 0.3 * dim**0.5 if declared.length is None else declared.length
        rng, cosines = default_rng(declared.seed), (declared.n or 16) if kind == "fourier" else 0
        self._directions = rng.standard_normal((dim, cosines)) / length
        self._phases = rng.uniform(0, 2 * np.pi, cosines)
        middle = np.zeros((1, *space.shape), space.dtype) + (
            space.low / 2 + space.high / 2 if high - low < np.inf else 0
        )
        width = self._raw(middle).shape[-1]
        if width > LARGEST:
            raise ValueError(f"features must be at most {LARGEST:,}; {kind} of {dim} numbers are {width:,}.")
        # of a user's numbers in [-1, 1] as many are not 0
        self._scale = 1.0 if callable(kind) else (dim if kind == "bins" else width) ** -0.5
        lowest = 0 if self.labels or kind == "bins" else -1
        self.space = Box(lowest, 1, (*arms, width), space.dtype.type)

    def __call__(self, contexts: Array) -> Array:
        """Return the features of contexts of any number of users; those of a context that is not finite are no use."""
        x = self._raw(contexts)
        if len(self.space.shape) == 2:
            x = x * self._scale
            x = x / np.maximum(np.sqrt(np.add.reduce(x * x, axis=-1, keepdims=True)), 1.0)
        elif self.labels and self.declared.kind in ("fourier", "interactions"):
            x = (1 + x) / 2
        return np.clip(x, self.space.low.flat[0], 1).astype(self.space.dtype)

    def _raw(self, contexts: Array) -> Floats:
        """Return features in [-1, 1], or what a function gives."""
        kind = self.declared.kind
        if callable(kind):
            made = np.asarray(kind(contexts), np.float64)
            if made.ndim != contexts.ndim or made.shape[:-1] != contexts.shape[:-1]:
                raise ValueError(f"features of contexts {contexts.shape} must be as many rows; got shape {made.shape}.")
            return made
        x = np.asarray(contexts if self.units is None else self.units.of_contexts(contexts), np.float64)
        cube = in_unit_cube(x, self._space)
        if kind == "fourier":
            # a matrix product has other last bits for other numbers of users
            angles = sum(cube[..., j, None] * along for j, along in enumerate(self._directions))
            return np.asarray(np.cos(angles + self._phases))
        if kind == "interactions":
            first, second = np.triu_indices(x.shape[-1])
            one = 2 * cube - 1
            return np.concatenate([one, one[..., first] * one[..., second]], axis=-1)
        bins = self.declared.n or 6
        edges = np.arange(bins) / bins
        above = cube[..., None] >= edges  # nothing that is no number
        own = above & ~np.concatenate([above[..., 1:], np.zeros_like(above[..., :1])], axis=-1)
        return np.asarray(own.reshape(*x.shape[:-1], -1), np.float64)
