"""What stable-baselines3 plays: Gymnasium's vector environments behind its own interface."""

import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from privbandit_agents.base.agent import AnyEnv
from privbandit_agents.base.arms import learnable
from privbandit_agents.base.spaces import Array, Space
from privbandit_envs import BanditEnv
from privbandit_envs.changing.masks import stand_ins
from privbandit_envs.spaces import Assortments
from privbandit_envs.vector_env import INFO
from privbandit_envs.wrappers import score_space, top_scores

Face = VectorEnv[Array, Array, Array]


def vector_face(env: AnyEnv, n_envs: int) -> Face:
    """Return a vector environment of the same world; of one slot if the environment is wrapped or not ours."""
    if isinstance(env, VectorEnv):
        return same_step(env)
    if isinstance(env, BanditEnv) and env.spec is not None:
        return gym.make_vec(env.spec, num_envs=n_envs)
    return SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.SAME_STEP)


def same_step(env: Face) -> Face:
    """Return a vector environment if its slots are reset in the step that ends an episode.

    Raises:
        ValueError: they are not.
    """
    mode = env.metadata.get("autoreset_mode")
    if mode is not AutoresetMode.SAME_STEP:
        raise ValueError(f"a vector environment must have autoreset_mode=AutoresetMode.SAME_STEP; got {mode}.")
    return env


def sound(contexts: Array, rewards: Array) -> tuple[Array, Array]:
    """Return contexts (n, ...) and rewards (n,), zeros where a record has NaN, infinity or a length above 10^6."""
    flat, earned = learnable(contexts.reshape(len(rewards), -1), rewards)
    return flat.reshape(contexts.shape), earned


def stand_in(observation_space: Space, action_space: Space, n: int) -> Face:
    """Return a vector environment that has the spaces and serves nobody."""
    env: Face = VectorEnv()
    env.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    env.num_envs, env.single_observation_space, env.single_action_space = n, observation_space, action_space
    return env


def to_sb3(env: Face, seed: int | None = None, *, largest_score: float = 1.0, reward_scale: float = 1.0) -> Any:
    """Return a vector environment as stable-baselines3's VecEnv, one world in all slots; assortments take scores.

    A context or a reward with NaN, infinity or a length above 10^6 arrives as zeros, with a warning. ``infos`` carry
    the environment's facts about each user: ``regret``, ``expected_reward``, ``optimal_action``, ``feedback``. Where
    arms come and go, an absent arm shows the features of a present one and stands for it, so that every algorithm
    plays; ``MaskablePPO`` of sb3-contrib finds the masks (``action_masks``).

    Args:
        env: a vector environment with same-step autoreset, as ``gym.make_vec`` returns it for this project's worlds.
        seed: of its first ``reset``; seeds that stable-baselines3 sets are ignored.
        largest_score: scores of items lie in [-largest_score, largest_score]; the library clips its actions to it.
        reward_scale: rewards arrive multiplied by it; ``infos`` have them as they were.

    Raises:
        ValueError: the environment has another autoreset mode.
    """
    from stable_baselines3.common.vec_env import VecEnv
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

    n, actions, started = same_step(env).num_envs, env.single_action_space, time.time()
    scores = isinstance(actions, Assortments)

    class BanditVecEnv(VecEnv):
        def __init__(self) -> None:
            self.env, self.world_seed = env, seed
            self.returns, self.lengths = np.zeros(n), np.zeros(n, int)
            self.instead: Array | None = None
            super().__init__(
                n, env.single_observation_space, score_space(actions, largest_score) if scores else actions
            )

        def reset(self) -> Array:
            contexts, told = env.reset(seed=self.world_seed)
            self.world_seed = None
            return sound(self.present(contexts, told), np.zeros(n))[0]

        def present(self, contexts: Array, told: dict[str, Any]) -> Array:
            """Keep the masks of the next users; return their contexts, with present arms' features for absent ones."""
            self.instead = stand_ins(told["action_mask"]) if "action_mask" in told else None
            if self.instead is None or contexts.ndim < 3:
                return contexts
            return np.take_along_axis(contexts, self.instead[..., None], axis=1)

        def step_async(self, actions_: Array) -> None:
            self.chosen = top_scores(actions_, actions) if scores else actions_
            if self.instead is not None:
                self.chosen = np.take_along_axis(self.instead, np.asarray(actions_)[:, None], axis=1)[:, 0]

        def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
            contexts, rewards, terminated, truncated, info = env.step(self.chosen)
            done = terminated | truncated
            told = info.get("final_info", info)
            columns = [told[name] for name in INFO if name in told]
            infos: list[dict[str, Any]] = [
                dict(zip(INFO, user, strict=False)) for user in zip(*columns, strict=True)
            ] or [{} for _ in range(n)]
            shown, earned = sound(self.present(contexts, info), rewards.astype(np.float32))
            self.returns += earned
            self.lengths += 1
            for slot in np.flatnonzero(done):
                infos[slot]["terminal_observation"] = info["final_obs"][slot]
                infos[slot]["TimeLimit.truncated"] = bool(truncated[slot] and not terminated[slot])
                infos[slot]["episode"] = {
                    "r": float(self.returns[slot]),
                    "l": int(self.lengths[slot]),
                    "t": time.time() - started,
                }
            self.returns[done], self.lengths[done] = 0, 0
            return shown, earned * np.float32(reward_scale), done, infos

        def close(self) -> None:
            env.close()

        def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
            if attr_name == "action_masks":
                return [self.masks for _ in self._get_indices(indices)]
            return [getattr(env, attr_name) for _ in self._get_indices(indices)]

        def set_attr(self, attr_name: str, value: object, indices: VecEnvIndices = None) -> None:
            setattr(env, attr_name, value)

        def env_method(
            self, method_name: str, *args: object, indices: VecEnvIndices = None, **kwargs: object
        ) -> list[Any]:
            if method_name == "action_masks":  # asked of every slot by sb3-contrib
                return list(self.masks()[list(self._get_indices(indices))])
            return [getattr(env, method_name)(*args, **kwargs) for _ in self._get_indices(indices)]

        def masks(self) -> Array:
            """Return which arms each slot's user may get, shape (n, K)."""
            if self.instead is None:
                return np.ones((n, int(getattr(actions, "n", 1))), dtype=bool)
            return np.asarray(self.instead == np.arange(self.instead.shape[1]))

        def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> list[bool]:
            return [False for _ in self._get_indices(indices)]

    return BanditVecEnv()
