"""Reinforcement learning from stable-baselines3, with gamma = 0: a context does not depend on earlier actions.

Schulman et al., "Proximal Policy Optimization Algorithms", 2017 (PPO); Mnih et al., "Asynchronous Methods for Deep
Reinforcement Learning", ICML 2016 (A2C); Mnih et al., "Human-level control through deep reinforcement learning",
Nature 2015 (DQN). Raffin et al., "Stable-Baselines3: Reliable Reinforcement Learning Implementations", JMLR 2021.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Discrete

from privbandit_agents.base.agent import AnyEnv, LearningAgent, Saves
from privbandit_agents.base.records import usable
from privbandit_agents.base.spaces import Action, Array, Space, assortments
from privbandit_agents.base.state import Arrays, inside
from privbandit_agents.baselines.rl.adapter import Face, stand_in, to_sb3, vector_face
from privbandit_agents.baselines.rl.policies import actor_critic_policy, q_policy
from privbandit_agents.baselines.rl.settings import (
    ActorCriticSettings,
    DQNSettings,
    PPOSettings,
    RLSettings,
    hyperparameters,
    kind_of,
    rate,
)
from privbandit_agents.baselines.rl.state import Generators, give, give_state, one_torch_thread, parameters_of, state_of
from privbandit_envs.spaces import Assortments
from privbandit_envs.wrappers import RecordVectorRegret, RegretCurve, top_scores

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

PER_SLOT = {"n_steps", "train_freq"}
"""Hyperparameters that count steps, each of one user per slot."""
OURS = {"policy", "n_envs", "schedule", "net_arch", "reward_scale"}
"""Hyperparameters that the algorithms themselves do not know."""


class StableBaseline(LearningAgent[RLSettings]):
    """An algorithm of stable-baselines3 on the CPU, with discount 0.

    Where arms or items have features of their own, one network scores each of them (``policies``), and assortments
    are drawn from a Plackett-Luce law. Where one context is for all arms, or with ``policy="mlp"``, the library's own
    MLP reads all features at once, and assortments are the items of the K largest scores in [-1, 1]. ``model`` is the
    algorithm itself once ``learn`` has been called.

    The state is all that learning goes on from: networks, optimizer, replay buffer (of DQN), and the states of the
    generators of numpy and torch that stable-baselines3 uses. They are global ones; the agent brings its own, seeded
    from its ``rng``, and restores the previous states.
    """

    Config: ClassVar[type[RLSettings]] = RLSettings

    def begin(self) -> None:
        try:
            import stable_baselines3
        except ImportError as error:
            raise ImportError(f"{self.name} needs stable-baselines3; run pip install 'privbandit[rl]'.") from error
        self.algorithm = getattr(stable_baselines3, type(self).__name__)
        kind = kind_of(self.observation_space, self.action_space)
        self.hyperparameters = hyperparameters(type(self).__name__, kind, dataclasses.asdict(self.config))
        self.model: Any = None
        self.generators = Generators()
        self.played: tuple[AnyEnv | None, Face | None] = None, None

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        arms = isinstance(action_space, Discrete) and action_space.start == 0
        playable = arms or not assortments(observation_space, action_space)
        return "" if playable and isinstance(observation_space, Box) else "arms or assortments with real contexts"

    def learn(
        self,
        env: AnyEnv,
        steps: int,
        curve: RegretCurve | None = None,
        seed: int | None = None,
        snapshots: Saves | None = None,
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
        last, users = self.played
        if users is None or last is not env:
            users = vector_face(env, self.hyperparameters["n_envs"])
            seed = env.np_random_seed if seed is None else seed
        counted = RegretCurve([steps]) if curve is None else curve
        resumed = snapshots is not None and snapshots.resume(users, self, counted) is not None
        self.played = env, users
        recorded = users if curve is None else RecordVectorRegret(users, curve)
        with one_torch_thread(), self.generators.in_use():
            self.attach(self.adapted(recorded, None if resumed else seed), resumed)
            between = None if snapshots is None else self.between_updates(snapshots, users, counted)
            self.model.learn(steps - counted.users, callback=between, reset_num_timesteps=False)

    def adapted(self, env: Face, seed: int | None) -> Any:
        """Return a vector environment as the library plays it with this agent's policy."""
        # no bound in practice, and none at which two scores could tie
        largest = 1000.0 if self.hyperparameters["policy"] == "shared" else 1.0
        scale = self.hyperparameters.get("reward_scale", 1.0)
        return to_sb3(env, seed, largest_score=largest, reward_scale=scale)

    def attach(self, learning_env: "VecEnv", resumed: bool) -> None:
        """Let the model play an environment; build it first if there is none for this number of slots."""
        if self.model is not None and self.model.n_envs == learning_env.num_envs:
            self.model.set_env(learning_env, force_reset=not resumed)
            return
        users, parameters = 0, {}
        if self.model is not None:
            users, parameters = self.model.num_timesteps, parameters_of(self.model.policy)
        self.model = self.build(learning_env, parameters, users)

    def between_updates(self, snapshots: Saves, users: Face, curve: RegretCurve) -> Any:
        """Return a callback of stable-baselines3 that offers the state to ``snapshots`` between two updates."""
        from stable_baselines3.common.callbacks import BaseCallback

        agent = self

        class Offer(BaseCallback):
            def _on_rollout_start(self) -> None:
                agent.generators.keep()
                snapshots.offer(users, agent, curve)

            def _on_step(self) -> bool:
                return True

        return Offer()

    def build(self, env: "VecEnv", parameters: Arrays, users: int) -> Any:
        """Return a model with the users per update that ``n_envs`` slots would give.

        Args:
            env: of stable-baselines3.
            parameters: of its policy; none: an untrained one.
            users: how many the policy has learned from.
        """
        from stable_baselines3.common.logger import Logger

        given = {name: value for name, value in self.hyperparameters.items() if name not in OURS}
        slots, users_now = self.hyperparameters["n_envs"], env.num_envs
        for name in PER_SLOT & given.keys():
            given[name] = max(1, given[name] * slots // users_now)
        given["learning_rate"] = rate(given["learning_rate"], self.hyperparameters["schedule"])
        policy, settings = self.policy()
        seed = int(self.rng.integers(2**31))
        model = self.algorithm(policy, env, gamma=0.0, seed=seed, device="cpu", policy_kwargs=settings, **given)
        model.set_logger(Logger(None, []))  # its own makes a folder in the temporary one for every run
        if parameters:
            give(model.policy, parameters)
        model.num_timesteps = users
        return model

    def policy(self) -> tuple[Any, dict[str, Any]]:
        """Return the policy as stable-baselines3 takes it, and its settings."""
        chosen = self.hyperparameters
        settings: dict[str, Any] = {"net_arch": list(chosen["net_arch"])}
        if chosen["policy"] == "mlp":
            return "MlpPolicy", settings
        if isinstance(self.action_space, Assortments):
            settings["capacity"] = self.action_space.capacity
        return (q_policy if isinstance(self, DQN) else actor_critic_policy)(), settings

    def select_action(self, context: Array) -> Action:
        """Return the greedy action of the learnt policy."""
        if self.model is None:
            raise RuntimeError(f"{self.name} has no policy yet; call learn(env, steps) first.")
        shape = self.context_shape
        flat = context.reshape(-1, int(np.prod(shape)))
        kept = np.where(usable(flat, np.zeros(len(flat)))[:, None], flat, 0).reshape(-1, *shape)
        actions: Array = self.model.predict(kept, deterministic=True)[0]
        if isinstance(self.action_space, Assortments):
            actions = top_scores(actions, self.action_space)
        if context.ndim > len(shape):
            return actions
        return actions[0] if actions.ndim > 1 else int(actions[0])

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the state of the model, none before the first ``learn``, and of the generators."""
        values = {"rng": self.rng.bit_generator.state}
        if self.model is None:
            return {}, values
        arrays, values["model"] = state_of(self.model)
        values["slots"] = self.model.n_envs
        if self.generators.kept is not None:
            words, values["generators"] = self.generators.kept
            arrays |= {f"generators.{name}": array for name, array in words.items()}
        return arrays, values

    def restore(self, arrays: Arrays, values: dict[str, Any]) -> None:
        self.played, self.model, self.generators = (None, None), None, Generators()
        if arrays:
            world = stand_in(self.observation_space, self.action_space, values["slots"])
            with self.generators.in_use():
                self.model = self.build(self.adapted(world, None), {}, 0)
            give_state(self.model, arrays, values["model"])
            if "generators" in values:
                self.generators.kept = inside("generators", arrays), values["generators"]
        self.rng.bit_generator.state = values["rng"]


class PPO(StableBaseline):
    """Proximal policy optimisation."""

    Config = PPOSettings


class A2C(StableBaseline):
    """Advantage actor-critic."""

    Config = ActorCriticSettings


class DQN(StableBaseline):
    """Deep Q-network; for arms only."""

    Config = DQNSettings

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        arms = not super().plays(observation_space, action_space) and isinstance(action_space, Discrete)
        return "" if arms else "arms with real contexts"
