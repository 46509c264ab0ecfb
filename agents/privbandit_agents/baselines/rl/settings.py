"""Settings of the reinforcement-learning baselines; their defaults are in ``rl.yaml``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, Literal

from privbandit_agents.base.settings import Count, Positive, Range, Settings
from privbandit_agents.base.spaces import Space, arms_with_features, assortments, n_arms
from privbandit_envs.validate import count


def check_widths(*, net_arch: Sequence[int]) -> None:
    """Raise ValueError unless the widths of layers are a list of integers >= 1."""
    if not isinstance(net_arch, list | tuple):
        raise ValueError(f"net_arch must be a list of widths; got {net_arch!r}.")
    for width in net_arch:
        count(net_arch=width)


@dataclass(frozen=True)
class RLSettings(Settings):
    """Settings that all algorithms have; None stands for the value in ``rl.yaml``, which has a block for each kind.

    The other hyperparameters of an algorithm are those of its block.

    Attributes:
        policy: ``"shared"``: one network scores every arm or item from its own features; ``"mlp"``: one network reads
            all features at once. Default: shared where arms or items have features of their own.
        n_envs: users a step.
        learning_rate: of Adam or RMSProp at first, > 0.
        schedule: how the rate falls while a share p of the users comes: ``"constant"``; ``"sqrt"``: by
            1/sqrt(1 + 50 p); ``"inverse"``: by 1/(1 + 50 p).
        net_arch: widths of the hidden layers; ``()`` is a linear policy.
    """

    policy: Literal["shared", "mlp"] | None = None
    n_envs: Count | None = None
    learning_rate: Positive | None = None
    schedule: Literal["constant", "sqrt", "inverse"] | None = None
    net_arch: Annotated[Sequence[int], Range(check_widths)] | None = None


@dataclass(frozen=True)
class ActorCriticSettings(RLSettings):
    """Settings of A2C, and of PPO, which has more.

    Attributes:
        n_steps: steps between two updates; each has ``n_envs`` users.
    """

    n_steps: Count | None = None


@dataclass(frozen=True)
class PPOSettings(ActorCriticSettings):
    """Settings of PPO.

    Attributes:
        batch_size: users a gradient step.
        n_epochs: passes over the users of an update.
        clip_range: how far an update may move the probability of an action, as a share of it.
    """

    batch_size: Count | None = None
    n_epochs: Count | None = None
    clip_range: Positive | None = None


@dataclass(frozen=True)
class DQNSettings(RLSettings):
    """Settings of DQN.

    Attributes:
        batch_size: users a gradient step.
        learning_starts: users before the first gradient step.
        train_freq: steps between two updates.
    """

    batch_size: Count | None = None
    learning_starts: int | None = None
    train_freq: Count | None = None


def kind_of(observation_space: Space, action_space: Space) -> str:
    """Return the block of ``rl.yaml`` for the spaces: arms, wide, items, or mlp if one context is for all arms."""
    shape = observation_space.shape or ()
    if assortments(observation_space, action_space) == "":
        return "items"
    if arms_with_features(observation_space, action_space) == "" and shape[0] == n_arms(action_space):
        return "wide" if shape[1] >= 100 else "arms"  # wide arms have hyperparameters of their own
    return "mlp"


def hyperparameters(algorithm: str, kind: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the algorithm's block of ``rl.yaml`` for a kind of spaces, with the overrides that are not None.

    Raises:
        ValueError: a shared policy is asked for, and the spaces have nothing to share it over.
    """
    try:
        import yaml
    except ImportError as error:
        raise ImportError("hyperparameters are read with pyyaml; run pip install 'privbandit[rl]'.") from error
    if kind == "mlp" and overrides["policy"] == "shared":
        raise ValueError("policy='shared' needs arms or items with features of their own; leave it out.")
    blocks = yaml.safe_load(resources.files(__package__).joinpath("rl.yaml").read_text(encoding="utf-8"))
    block = blocks[algorithm]["mlp" if overrides["policy"] == "mlp" else kind]
    return {**block, **{name: value for name, value in overrides.items() if value is not None}}


def rate(first: float, schedule: str) -> float | Callable[[float], float]:
    """Return a learning rate as stable-baselines3 takes it: a number, or a function of the share of users to come."""
    power = {"constant": 0.0, "sqrt": 0.5, "inverse": 1.0}[schedule]
    # at the end 1/51, or its square root
    return first if power == 0 else lambda left: first / float(1 + 50 * (1 - left)) ** power
