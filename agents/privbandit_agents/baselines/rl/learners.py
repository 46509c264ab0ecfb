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
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from privbandit_agents.base.agent import Array, Space, assortments
from privbandit_agents.base.learning import LearningAgent
from privbandit_agents.base.state import inside
from privbandit_agents.baselines.rl.adapter import to_sb3
from privbandit_agents.baselines.rl.state import Arrays, Luck, give, give_state, model_state, parameters_of
from privbandit_envs import BanditEnv
from privbandit_envs.spaces import Assortments
from privbandit_envs.validate import count, positive
from privbandit_envs.wrappers import RecordVectorRegret, RegretCurve, top_scores

if TYPE_CHECKING:
    from privbandit_agents.snapshots import Snapshots

COUNTS = {"n_envs", "n_steps", "batch_size", "n_epochs", "buffer_size", "train_freq", "gradient_steps"}
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
        for name in COUNTS & {field.name for field in dataclasses.fields(self)}:
            if getattr(self, name) is not None:
                count(**{name: getattr(self, name)})
        if self.learning_rate is not None:
            positive(learning_rate=self.learning_rate)
        if not isinstance(self.net_arch, list | tuple | None):
            raise ValueError(f"net_arch must be a list of widths; got {self.net_arch!r}.")
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


class StableBaseline(LearningAgent[Config]):
    """An algorithm of stable-baselines3 with an MLP policy on the CPU; contexts of any shape are flattened.

    Assortments are played by one score in [-1, 1] for every item: the K largest are offered. ``model`` is the
    algorithm itself once ``learn`` has been called.

    The state is all that learning goes on from: networks, optimiser, replay buffer (of DQN), and the states of the
    generators of numpy and torch that stable-baselines3 uses. They are global ones; the agent brings its own, seeded
    from its ``rng``, and puts back what was there.
    """

    Config: ClassVar[type[Any]] = Config

    def begin(self) -> None:
        """Read the hyperparameters; the networks are built by ``learn``."""
        super().begin()
        stable_baselines3(self.name)
        self.settings = hyperparameters(type(self).__name__, dataclasses.asdict(self.config))
        self.model: Any = None
        self.luck = Luck()
        self.played: tuple[Any, Face | None] = None, None

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Real contexts; arms or assortments."""
        arms = isinstance(action_space, Discrete) and action_space.start == 0
        playable = arms or not assortments(observation_space, action_space)
        return "" if playable and isinstance(observation_space, Box) else "arms or assortments with real contexts"

    def learn(
        self,
        env: Any,
        steps: int,
        curve: RegretCurve | None = None,
        seed: int | None = None,
        snapshots: "Snapshots | None" = None,
    ) -> None:
        """Play and learn for ``steps`` users, rounded up to whole updates; again, to go on learning.

        Args:
            env: a Gymnasium environment, single or vector. An unwrapped BanditEnv made by ``gym.make`` is played
                ``n_envs`` users a step, any other single environment one user a step.
            steps: number of users.
            curve: counts every user served in learning.
            seed: of the world and its users; default: the environment's own, and where the last call had the same
                environment, new users of the world it had.
            snapshots: keeps the state between two updates, and goes on from it if it has one.

        Raises:
            ValueError: a vector environment without same-step autoreset.
        """
        users, seed = self.users_of(env, seed)
        counted = RegretCurve([steps]) if curve is None else curve
        resumed = snapshots is not None and snapshots.resume(users, self, counted) is not None
        self.played = env, users
        recorded = users if curve is None else RecordVectorRegret(users, curve)
        with one_torch_thread(), self.luck.mine():
            self.attach(to_sb3(recorded, None if resumed else seed), resumed)
            between = None if snapshots is None else self.between_updates(snapshots, users, counted)
            self.model.learn(steps - counted.users, callback=between, reset_num_timesteps=False)

    def users_of(self, env: Any, seed: int | None) -> tuple[Face, int | None]:
        """Return the vector environment that is played, and the seed of its next reset."""
        last, users = self.played
        if users is not None and last is env:
            return users, seed
        return vector_face(env, self.settings["n_envs"]), env.np_random_seed if seed is None else seed

    def attach(self, learning_env: Any, resumed: bool) -> None:
        """Let the model play an environment; build it first if there is none for so many slots."""
        if self.model is not None and self.model.n_envs == learning_env.num_envs:
            self.model.set_env(learning_env, force_reset=not resumed)
            return
        users, parameters = 0, {}
        if self.model is not None:
            users, parameters = self.model.num_timesteps, parameters_of(self.model.policy)
        self.model = self.build(learning_env, parameters, users)

    def between_updates(self, snapshots: "Snapshots", users: Face, curve: RegretCurve) -> Any:
        """Return a callback of stable-baselines3 that offers the state to ``snapshots`` between two updates."""
        from stable_baselines3.common.callbacks import BaseCallback

        agent = self

        class Offer(BaseCallback):
            def _on_rollout_start(self) -> None:
                agent.luck.keep()
                snapshots.offer(users, agent, curve)

            def _on_step(self) -> bool:
                return True

        return Offer()

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
        """Return the state of the model, none before the first ``learn``, and of the generators."""
        values = {"rng": self.rng.bit_generator.state}
        if self.model is None:
            return {}, values
        arrays, values["model"] = model_state(self.model)
        values["slots"] = self.model.n_envs
        if self.luck.kept is not None:
            words, values["luck"] = self.luck.kept
            arrays |= {f"luck.{name}": array for name, array in words.items()}
        return arrays, values

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        """Build a model and bring it to a saved place."""
        self.played, self.model, self.luck = (None, None), None, Luck()
        if arrays:
            world = stand_in(self.observation_space, self.action_space, values["slots"])
            with self.luck.mine():
                self.model = self.build(to_sb3(world, None), {}, 0)
            give_state(self.model, arrays, values["model"])
            self.luck.kept = (inside("luck", arrays), values["luck"]) if "luck" in values else None
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
