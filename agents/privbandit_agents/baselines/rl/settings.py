"""Settings of the reinforcement-learning baselines; their defaults are in ``rl.yaml``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any

from privbandit_agents.base.settings import Count, Positive, Range, Settings
from privbandit_envs.validate import count


def check_widths(*, net_arch: Sequence[int]) -> None:
    """Raise ValueError unless the widths of layers are a list of integers >= 1."""
    if not isinstance(net_arch, list | tuple):
        raise ValueError(f"net_arch must be a list of widths; got {net_arch!r}.")
    for width in net_arch:
        count(net_arch=width)


@dataclass(frozen=True)
class RLSettings(Settings):
    """Settings that all algorithms have; None stands for the value in ``rl.yaml``.

    Numbers without a range here are checked by stable-baselines3.

    Attributes:
        n_envs: users a step.
        learning_rate: of Adam or RMSProp, > 0.
        net_arch: widths of the hidden layers; ``()`` is a linear policy.
    """

    n_envs: Count | None = None
    learning_rate: Positive | None = None
    net_arch: Annotated[Sequence[int], Range(check_widths)] | None = None


@dataclass(frozen=True)
class A2CSettings(RLSettings):
    """Settings of A2C.

    Attributes:
        n_steps: steps between two updates; each has ``n_envs`` users.
        ent_coef: weight of the entropy bonus.
    """

    n_steps: Count | None = None
    ent_coef: float | None = None


@dataclass(frozen=True)
class PPOSettings(A2CSettings):
    """Settings of PPO.

    Attributes:
        batch_size: users a gradient step.
        n_epochs: passes over the users of an update.
    """

    batch_size: Count | None = None
    n_epochs: Count | None = None


@dataclass(frozen=True)
class DQNSettings(RLSettings):
    """Settings of DQN.

    Attributes:
        batch_size: users a gradient step.
        buffer_size: users to remember.
        learning_starts: users before the first gradient step.
        train_freq: steps between two updates.
        gradient_steps: gradient steps an update.
        exploration_fraction: part of the run over which exploration falls to its final value.
        exploration_final_eps: final probability of a random action.
    """

    batch_size: Count | None = None
    buffer_size: Count | None = None
    learning_starts: int | None = None
    train_freq: Count | None = None
    gradient_steps: Count | None = None
    exploration_fraction: float | None = None
    exploration_final_eps: float | None = None


def hyperparameters(algorithm: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the algorithm's block of ``rl.yaml``, with the overrides that are not None."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError("hyperparameters are read with pyyaml; run pip install 'privbandit[rl]'.") from error
    blocks = yaml.safe_load(resources.files(__package__).joinpath("rl.yaml").read_text(encoding="utf-8"))
    return {**blocks[algorithm], **{name: value for name, value in overrides.items() if value is not None}}
