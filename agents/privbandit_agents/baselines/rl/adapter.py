"""What stable-baselines3 plays: Gymnasium's vector environments behind its own interface."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from privbandit_agents.base.agent import Array, Space
from privbandit_agents.base.arms import learnable
from privbandit_agents.base.learning import AnyEnv
from privbandit_envs import BanditEnv
from privbandit_envs.spaces import Assortments
from privbandit_envs.wrappers import flat_space, score_space, top_scores

Face = VectorEnv[Array, Array, Array]


def vector_face(env: AnyEnv, n_envs: int) -> Face:
    """Return a vector environment of the same world; of one slot if the environment is wrapped or not ours."""
    if isinstance(env, VectorEnv):
        mode = env.metadata.get("autoreset_mode")
        if mode is not AutoresetMode.SAME_STEP:
            raise ValueError(f"a vector environment must have autoreset_mode=AutoresetMode.SAME_STEP; got {mode}.")
        return env
    if isinstance(env, BanditEnv) and env.spec is not None:
        return gym.make_vec(env.spec, num_envs=n_envs)
    return SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.SAME_STEP)


def stand_in(observation_space: Space, action_space: Space, n: int) -> Face:
    """Return a vector environment that has the spaces and serves nobody."""
    env: Face = VectorEnv()
    env.num_envs, env.single_observation_space, env.single_action_space = n, observation_space, action_space
    return env


def to_sb3(env: Face, seed: int | None) -> Any:
    """Return a vector environment as stable-baselines3's VecEnv: flat contexts, and scores for assortments.

    A context or a reward with NaN, infinity or a length above 10^6 arrives as zeros, with a warning.

    Args:
        env: a vector environment with same-step autoreset.
        seed: of its first ``reset``; seeds that stable-baselines3 sets are ignored.
    """
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

    n, actions = env.num_envs, env.single_action_space
    scores = isinstance(actions, Assortments)

    class BanditVecEnv(VecEnv):
        def __init__(self) -> None:
            self.env, self.world_seed = env, seed
            super().__init__(n, flat_space(env.single_observation_space), score_space(actions) if scores else actions)

        def reset(self) -> Array:
            contexts: Array = env.reset(seed=self.world_seed)[0]
            self.world_seed = None
            return learnable(contexts.reshape(n, -1), np.zeros(n))[0]

        def step_async(self, actions_: Array) -> None:
            self.chosen = top_scores(actions_, actions) if scores else actions_

        def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
            contexts, rewards, terminated, truncated, info = env.step(self.chosen)
            done = terminated | truncated
            infos: list[dict[str, Any]] = [{} for _ in range(n)]
            for slot in np.flatnonzero(done):
                infos[slot]["terminal_observation"] = info["final_obs"][slot].reshape(-1)
                infos[slot]["TimeLimit.truncated"] = bool(truncated[slot] and not terminated[slot])
            flat, earned = learnable(contexts.reshape(n, -1), rewards.astype(np.float32))
            return flat, earned, done, infos

        def close(self) -> None:
            env.close()

        def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
            return [getattr(env, attr_name) for _ in self._get_indices(indices)]

        def set_attr(self, attr_name: str, value: object, indices: VecEnvIndices = None) -> None:
            setattr(env, attr_name, value)

        def env_method(
            self, method_name: str, *args: object, indices: VecEnvIndices = None, **kwargs: object
        ) -> list[Any]:
            return [getattr(env, method_name)(*args, **kwargs)]

        def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

    return BanditVecEnv()
