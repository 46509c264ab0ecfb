"""Arms without a context: the stochastic bandit."""

import math

import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_envs.problem import Array, CoinArms, Floats, Support
from privbandit_envs.spaces import Units
from privbandit_envs.validate import count, fraction, numbers, one_of, shown


class BanditProblem(CoinArms):
    """K arms with rewards 0 and 1, and no context.

    The context of every user is 0, in ``Discrete(1)``. Users can be served by counts, a billion of them in seconds.

    Args:
        n_arms: number of arms K.
        means: the mean reward of each arm, K numbers in [0, 1]. Default: by ``gap``.
        gap: a number in [0, 1]: one arm, drawn by the seed, has the mean (1 + gap) / 2, all others (1 - gap) / 2.
            ``"hard"``: that number is min(1/2, sqrt(K / horizon)): the arms can hardly be told apart in one episode, so
            that no agent's regret there is far below sqrt(K horizon). None: means are uniform on [0, 1].
        horizon: rounds an episode; sets the gap ``"hard"``.
        dtype: of nothing, since a context is the integer 0; all families have it.

    Raises:
        ValueError: an argument out of range, or means beside a gap.

    Examples:
        >>> import gymnasium as gym
        >>> env = gym.make("privbandit/Bandit-v0", means=[0.9, 0.1])
        >>> context, _ = env.reset(seed=0)
        >>> int(context), env.unwrapped.problem.means(np.zeros(1, int))
        (0, array([[0.9, 0.1]]))
    """

    units = Units()

    hidden = ("arm_means",)

    def __init__(
        self,
        rng: Generator,
        *,
        n_arms: int | None = None,
        means: ArrayLike | None = None,
        gap: float | str | None = None,
        horizon: int = 10_000,
        dtype: str = "float32",
    ) -> None:
        one_of(("float32", "float64"), dtype=dtype)
        if means is not None and gap is not None:
            raise ValueError(f"means and gap both set the arms' means; leave one out, got gap = {shown(gap)}.")
        given = None if means is None else numbers(len(np.atleast_1d(means)), means=means)
        arms = count(n_arms=(10 if given is None else len(given)) if n_arms is None else n_arms)
        self.observation_space, self.action_space = Discrete(1), Discrete(arms)
        if given is None:
            given = rng.random(arms) if gap is None else self._apart(arms, gap, horizon, rng)
        if given.shape != (arms,) or not ((given >= 0) & (given <= 1)).all():
            raise ValueError(f"means must be {arms} numbers in [0, 1]; got {shown(means)}.")
        self.arm_means: Floats = given
        self.kept = Support(np.zeros(1, np.int64), np.ones(1))

    def drawn(self, n: int, rng: Generator) -> Array:
        return np.zeros(n, np.int64)

    contexts = drawn

    def means(self, contexts: Array) -> Floats:
        # a parameter that drifts may leave [0, 1]
        return np.tile(np.clip(self.arm_means, 0.0, 1.0), (len(contexts), 1))

    def _apart(self, arms: int, gap: float | str, horizon: int, rng: Generator) -> Floats:
        """Return means with one arm ahead of all others."""
        if isinstance(gap, str):
            one_of(("hard",), gap=gap)
            gap = min(0.5, math.sqrt(arms / horizon))
        means = np.full(arms, (1 - fraction(gap=gap)) / 2)
        means[rng.integers(arms)] += gap
        return means
