"""Which wrappers around an environment carry something from one user to another, and which nobody sees.

A private agent accounts for its own learning. State that a wrapper carries from one user to another, a running mean or
an earlier context, is outside of every guarantee. Nothing is known of a wrapper but its class, so the rule is: a
wrapper is harmless if it leaves contexts and actions alone, if it is a known one that looks at one user at a time, or
if its author declares it by ``per_user = True`` in the body of the class, or on the object.
"""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv, VectorRewardWrapper, VectorWrapper

AnyEnv = gym.Env[Any, Any] | VectorEnv[Any, Any, Any]
OBSERVATIONS = (
    "ArrayConversion DiscretizeObservation DtypeObservation FilterObservation FlattenObservation GrayscaleObservation "
    "JaxToNumpy JaxToTorch NumpyToTorch RescaleObservation ReshapeObservation ResizeObservation TimeAwareObservation"
)
OTHERS = (
    "Autoreset ClipAction ClipReward DictInfoToList DiscretizeAction HumanRendering NormalizeReward OrderEnforcing "
    "PassiveEnvChecker RecordEpisodeStatistics RecordVideo RenderCollection RescaleAction TimeLimit"
)
PER_USER = {
    "gymnasium": frozenset(f"{OBSERVATIONS} {OTHERS}".split()),
    "privbandit_envs": frozenset("AsBandit FlattenContext PerArm RecordRegret RecordVectorRegret ScoreAction".split()),
    "stable_baselines3": frozenset({"Monitor"}),
}
"""Wrappers that look at one user at a time, by the package that has them."""
PASSES = {gym.Wrapper.step, gym.RewardWrapper.step, VectorWrapper.step, VectorRewardWrapper.step}
RESETS = {gym.Wrapper.reset, VectorWrapper.reset}


def mixing_wrappers(env: AnyEnv) -> tuple[str, ...]:
    """Return the names of the wrappers that may carry something from one user to another, the outermost first.

    Examples:
        >>> from gymnasium.wrappers import NormalizeObservation, TimeLimit
        >>> mixing_wrappers(TimeLimit(NormalizeObservation(gym.make("privbandit/Linear-v0")), 100))
        ('NormalizeObservation',)
    """
    return tuple(dict.fromkeys(type(wrapper).__name__ for wrapper in wrappers(env) if not is_per_user(wrapper)))


def unseen_rewards(env: AnyEnv) -> tuple[str, ...]:
    """Return the names of the wrappers that change rewards; an agent that learns from ``info["feedback"]`` sees none.

    Examples:
        >>> from gymnasium.wrappers import ClipReward
        >>> unseen_rewards(ClipReward(gym.make("privbandit/Linear-v0"), 0, 1))
        ('ClipReward',)
    """
    kinds = (gym.RewardWrapper, VectorRewardWrapper)
    changed = (w for w in wrappers(env) if isinstance(w, kinds) or is_known(w, frozenset({"NormalizeReward"})))
    return tuple(dict.fromkeys(type(wrapper).__name__ for wrapper in changed))


def wrappers(env: AnyEnv) -> Iterator[AnyEnv]:
    """Yield the wrappers around an environment, the outermost first, and those inside a vector of environments."""
    while isinstance(env, gym.Wrapper | VectorWrapper):
        yield env
        env = env.env
    if isinstance(env, AsyncVectorEnv):
        yield env  # its environments are in other processes, where nobody can look
    if isinstance(env, SyncVectorEnv):
        for inner in env.envs:
            yield from wrappers(inner)


def is_per_user(wrapper: AnyEnv) -> bool:
    """Return whether a wrapper's output and action for a user depend on that user alone."""
    kind = type(wrapper)
    declared = {**vars(kind), **vars(wrapper)}.get("per_user")  # a subclass may do more, so nothing is inherited
    if isinstance(declared, bool):
        return declared
    if isinstance(wrapper, gym.Wrapper | VectorWrapper) and kind.step in PASSES and kind.reset in RESETS:
        return True
    return any(is_known(wrapper, names, package) for package, names in PER_USER.items())


def is_known(wrapper: AnyEnv, names: frozenset[str], package: str = "gymnasium") -> bool:
    kind = type(wrapper)
    return kind.__module__.partition(".")[0] == package and kind.__name__ in names
