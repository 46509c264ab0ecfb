"""Reinforcement learning from stable-baselines3, with gamma = 0: a context does not depend on earlier actions.

Schulman et al., "Proximal Policy Optimization Algorithms", 2017 (PPO); Mnih et al., "Asynchronous Methods for Deep
Reinforcement Learning", ICML 2016 (A2C); Mnih et al., "Human-level control through deep reinforcement learning",
Nature 2015 (DQN). Raffin et al., "Stable-Baselines3: Reliable Reinforcement Learning Implementations", JMLR 2021.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.random import Generator

from privbandit_agents.agent import Array, Assortments, LearningAgent, Space, count, plays_assortments, positive
from privbandit_agents.baselines.sb3_adapter import to_sb3
from privbandit_agents.state import Arrays
from privbandit_envs import BanditEnv
from privbandit_envs.wrappers import RecordVectorRegret, RegretCurve, top_scores

PER_SLOT = {"n_steps", "train_freq"}
Face = VectorEnv[Array, Array, Array]


@dataclass(frozen=True)
class Config:
    """Settings that all algorithms have; None stands for the value in ``rl.yaml``.

    Attributes:
        n_envs: users a step.
        learning_rate: of Adam or RMSProp, > 0.
        net_arch: widths of the hidden layers; ``()`` is a linear policy.
    """

    n_envs: int | None = None
    learning_rate: float | None = None
    net_arch: Sequence[int] | None = None

    def __post_init__(self) -> None:
        """Check the ranges; the rest is checked by stable-baselines3."""
        if self.n_envs is not None:
            count(n_envs=self.n_envs)
        if self.learning_rate is not None:
            positive(learning_rate=self.learning_rate)
        for width in self.net_arch or ():
            count(net_arch=width)


@dataclass(frozen=True)
class OnPolicyConfig(Config):
    """Settings of A2C.

    Attributes:
        n_steps: steps between two updates; each has ``n_envs`` users.
        ent_coef: weight of the entropy bonus.
    """

    n_steps: int | None = None
    ent_coef: float | None = None


@dataclass(frozen=True)
class PPOConfig(OnPolicyConfig):
    """Settings of PPO.

    Attributes:
        batch_size: users a gradient step.
        n_epochs: passes over the users of an update.
    """

    batch_size: int | None = None
    n_epochs: int | None = None


@dataclass(frozen=True)
class DQNConfig(Config):
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

    batch_size: int | None = None
    buffer_size: int | None = None
    learning_starts: int | None = None
    train_freq: int | None = None
    gradient_steps: int | None = None
    exploration_fraction: float | None = None
    exploration_final_eps: float | None = None


class StableBaseline(LearningAgent):
    """An algorithm of stable-baselines3 with an MLP policy on the CPU; contexts of any shape are flattened.

    Assortments are played by one score in [-1, 1] for every item: the K largest are offered. ``model`` is the
    algorithm itself once ``learn`` has been called.

    The state is the policy's parameters: a saved and loaded agent selects the same actions, and can go on learning
    with a fresh optimiser (and, for DQN, a fresh replay buffer).

    stable-baselines3 seeds the global generators of numpy and torch from the agent's own.
    """

    Config: ClassVar[type[Any]] = Config

    def __init__(self, observation_space: Space, action_space: Space, config: Any, rng: Generator) -> None:
        """Read the hyperparameters; the networks are built by ``learn``."""
        super().__init__(observation_space, action_space, config, rng)
        stable_baselines3(self.name)
        self.settings = hyperparameters(type(self).__name__, dataclasses.asdict(config))
        self.model: Any = None
        self.played: tuple[Any, Face | None] = None, None

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Real contexts; arms or assortments."""
        arms = isinstance(action_space, Discrete) and action_space.start == 0
        playable = arms or not plays_assortments(observation_space, action_space)
        return "" if playable and isinstance(observation_space, Box) else "arms or assortments with real contexts"

    def learn(self, env: Any, steps: int, curve: RegretCurve | None = None, seed: int | None = None) -> None:
        """Play and learn for ``steps`` users, rounded up to whole updates; again, to go on learning.

        Args:
            env: a Gymnasium environment, single or vector. An unwrapped BanditEnv made by ``gym.make`` is played
                ``n_envs`` users a step, any other single environment one user a step.
            steps: number of users.
            curve: counts every user served in learning.
            seed: of the world and its users; default: the environment's own, and where the last call had the same
                environment, new users of the world it had.

        Raises:
            ValueError: a vector environment without same-step autoreset.
        """
        last, users = self.played
        if users is None or last is not env:
            users = vector_face(env, self.settings["n_envs"])
            seed = env.np_random_seed if seed is None else seed
            self.played = env, users
        learning_env = to_sb3(users if curve is None else RecordVectorRegret(users, curve), seed)
        with one_torch_thread():
            if self.model is not None and self.model.n_envs == learning_env.num_envs:
                self.model.set_env(learning_env)
            else:
                parameters, values = self.state()
                self.model = self.build(learning_env, parameters, values["users"])
            self.model.learn(steps, reset_num_timesteps=False)

    def build(self, env: Any, parameters: Arrays, users: int) -> Any:
        """Return a model with as many users an update as ``n_envs`` slots would give.

        Args:
            env: of stable-baselines3.
            parameters: of its policy; none: an untrained one.
            users: how many the policy has learned from.
        """
        settings = {name: value for name, value in self.settings.items() if name not in ("n_envs", "net_arch")}
        for name in PER_SLOT & settings.keys():
            settings[name] = max(1, settings[name] * self.settings["n_envs"] // env.num_envs)
        algorithm = getattr(stable_baselines3(self.name), type(self).__name__)
        model = algorithm(
            "MlpPolicy",
            env,
            gamma=0.0,
            seed=int(self.rng.integers(2**31)),
            device="cpu",
            policy_kwargs={"net_arch": list(self.settings["net_arch"])},
            **settings,
        )
        if parameters:
            give(model.policy, parameters)
        model.num_timesteps = users
        return model

    def select_action(self, context: Array) -> Any:
        """Return the greedy action of the learnt policy."""
        if self.model is None:
            raise RuntimeError(f"{self.name} has no policy yet; call learn(env, steps) first.")
        shape = self.observation_space.shape or ()
        single = context.ndim == len(shape)
        actions, _ = self.model.predict(context.reshape(-1, int(np.prod(shape))), deterministic=True)
        if isinstance(self.action_space, Assortments):
            actions = top_scores(actions, self.action_space)
            return actions[0] if single else actions
        return int(actions[0]) if single else actions

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the policy's parameters, none before the first ``learn``; and the generator and the users served."""
        values = {"rng": self.rng.bit_generator.state, "users": 0 if self.model is None else self.model.num_timesteps}
        return {} if self.model is None else parameters_of(self.model.policy), values

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Build a model around saved parameters; its optimiser and replay buffer are fresh."""
        self.played, self.model = (None, None), None
        if arrays:
            world = stand_in(self.observation_space, self.action_space, self.settings["n_envs"])
            self.model = self.build(to_sb3(world, None), arrays, values["users"])
        self.rng.bit_generator.state = values["rng"]


class PPO(StableBaseline):
    """Proximal policy optimisation."""

    Config = PPOConfig


class A2C(StableBaseline):
    """Advantage actor-critic."""

    Config = OnPolicyConfig


class DQN(StableBaseline):
    """Deep Q-network; for arms only."""

    Config = DQNConfig

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Arms with real contexts."""
        arms = not super().plays(observation_space, action_space) and isinstance(action_space, Discrete)
        return "" if arms else "arms with real contexts"


def hyperparameters(algorithm: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the algorithm's block of ``rl.yaml``, with the overrides that are not None."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError("hyperparameters are read with pyyaml; run pip install 'privbandit[rl]'.") from error
    blocks = yaml.safe_load(resources.files(__package__).joinpath("rl.yaml").read_text(encoding="utf-8"))
    return {**blocks[algorithm], **{name: value for name, value in overrides.items() if value is not None}}


def stable_baselines3(agent: str) -> Any:
    """Import stable-baselines3, or say how to get it."""
    try:
        import stable_baselines3
    except ImportError as error:
        raise ImportError(f"{agent} needs stable-baselines3; run pip install 'privbandit[rl]'.") from error
    return stable_baselines3


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread: small networks gain nothing from more, and sums stay in one order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def parameters_of(policy: Any) -> Arrays:
    """Return a copy of a torch module's parameters and buffers, by name."""
    return {name: tensor.numpy().copy() for name, tensor in policy.state_dict().items()}


def give(policy: Any, parameters: Arrays) -> None:
    """Set a torch module's parameters and buffers."""
    import torch

    policy.load_state_dict({name: torch.from_numpy(array) for name, array in parameters.items()})


def stand_in(observation_space: Space, action_space: Space, n: int) -> Face:
    """Return a vector environment that has the spaces and serves nobody."""
    env: Face = VectorEnv()
    env.num_envs, env.single_observation_space, env.single_action_space = n, observation_space, action_space
    return env


def vector_face(env: Any, n_envs: int) -> Face:
    """Return a vector environment of the same world; of one slot if the environment is wrapped or not ours."""
    if isinstance(env, VectorEnv):
        mode = env.metadata.get("autoreset_mode")
        if mode is not AutoresetMode.SAME_STEP:
            raise ValueError(f"a vector environment must have autoreset_mode=AutoresetMode.SAME_STEP; got {mode}.")
        return env
    if isinstance(env, BanditEnv) and env.spec is not None:
        return gym.make_vec(env.spec, num_envs=n_envs)
    return SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.SAME_STEP)
