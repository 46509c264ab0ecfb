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
from typing import Any, ClassVar, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.random import Generator

from privbandit_agents.agent import Array, Assortments, LearningAgent, Space, count, plays_assortments, positive
from privbandit_envs import BanditEnv
from privbandit_envs.wrappers import RecordVectorRegret, RegretCurve, flat_space, score_space, top_scores

PER_SLOT = {"n_steps", "train_freq"}


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
    algorithm itself once ``learn`` has been called; ``model.save`` and its ``load`` keep it.

    stable-baselines3 seeds the global generators of numpy and torch from the agent's own.
    """

    Config: ClassVar[type[Any]] = Config

    def __init__(self, observation_space: Space, action_space: Space, config: Any, rng: Generator) -> None:
        """Read the hyperparameters; the networks are built by ``learn``."""
        super().__init__(observation_space, action_space, config, rng)
        stable_baselines3(self.name)
        self.settings = hyperparameters(type(self).__name__, dataclasses.asdict(config))
        self.model: Any = None

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
            seed: of the world and its users; default: the environment's own.
        """
        users = vector_face(env, self.settings["n_envs"])
        seed = env.np_random_seed if seed is None else seed
        learning_env = to_sb3(users if curve is None else RecordVectorRegret(users, curve), seed)
        with one_torch_thread():
            if self.model is None:
                self.model = self.build(learning_env)
            else:
                self.model.set_env(learning_env)
            self.model.learn(steps, reset_num_timesteps=False)

    def build(self, env: Any) -> Any:
        """Return an untrained model, with as many users an update as ``n_envs`` slots would give."""
        settings = {name: value for name, value in self.settings.items() if name not in ("n_envs", "net_arch")}
        for name in PER_SLOT & settings.keys():
            settings[name] = max(1, settings[name] * self.settings["n_envs"] // env.num_envs)
        algorithm = getattr(stable_baselines3(self.name), type(self).__name__)
        return algorithm(
            "MlpPolicy",
            env,
            gamma=0.0,
            seed=int(self.rng.integers(2**31)),
            device="cpu",
            policy_kwargs={"net_arch": list(self.settings["net_arch"])},
            **settings,
        )

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

    def state(self) -> NoReturn:
        """Refuse: the model has its own file format."""
        raise TypeError(f"{self.name} is kept by stable-baselines3; call agent.model.save(path).")

    def restore(self, arrays: Any, values: Any) -> NoReturn:
        """Refuse: the model has its own file format."""
        raise TypeError(f"{self.name} is kept by stable-baselines3; set agent.model to what its load(path) returns.")


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


def vector_face(env: Any, n_envs: int) -> VectorEnv[Array, Array, Array]:
    """Return a vector environment of the same world; of one slot if the environment is wrapped or not ours."""
    if isinstance(env, VectorEnv):
        return env
    if isinstance(env, BanditEnv) and env.spec is not None:
        return gym.make_vec(env.spec, num_envs=n_envs)
    return SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.SAME_STEP)


def to_sb3(env: VectorEnv[Any, Any, Any], seed: int | None) -> Any:
    """Return a vector environment as stable-baselines3's VecEnv: flat contexts, and scores for assortments.

    Args:
        env: a vector environment with same-step autoreset.
        seed: of its first ``reset``; seeds that stable-baselines3 sets are ignored.
    """
    from stable_baselines3.common.vec_env import VecEnv

    n, actions = env.num_envs, env.single_action_space
    scores = isinstance(actions, Assortments)

    class BanditVecEnv(VecEnv):
        def __init__(self) -> None:
            self.env, self.world_seed = env, seed
            super().__init__(n, flat_space(env.single_observation_space), score_space(actions) if scores else actions)

        def reset(self) -> Array:
            contexts: Array = env.reset(seed=self.world_seed)[0]
            self.world_seed = None
            return contexts.reshape(n, -1)

        def step_async(self, actions_: Array) -> None:
            self.chosen = top_scores(actions_, actions) if scores else actions_

        def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
            contexts, rewards, terminated, truncated, info = env.step(self.chosen)
            done = terminated | truncated
            infos: list[dict[str, Any]] = [{} for _ in range(n)]
            for slot in np.flatnonzero(done):
                infos[slot]["terminal_observation"] = info["final_obs"][slot].reshape(-1)
                infos[slot]["TimeLimit.truncated"] = bool(truncated[slot] and not terminated[slot])
            return contexts.reshape(n, -1), rewards.astype(np.float32), done, infos

        def close(self) -> None:
            env.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [getattr(env, attr_name) for _ in self._get_indices(indices)]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            setattr(env, attr_name, value)

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return [getattr(env, method_name)(*args, **kwargs)]

        def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

    return BanditVecEnv()
