"""One call that makes a Problem a Gymnasium environment."""

from typing import Any

import gymnasium as gym

ENV_IDS: list[str] = []
"""Ids registered through ``register``, in order; the conformance suites walk through them."""


def register(id: str, problem: str, **kwargs: Any) -> None:
    """Register a bandit family with ``gym.make`` and ``gym.make_vec``.

    The environment keeps the order of calls itself and its family passes the conformance suite, so Gymnasium's two
    checking wrappers, which cost a tenth of a step, are left off.

    Args:
        id: ``"namespace/Name-v0"``.
        problem: ``"module:Class"`` of a Problem; its keyword arguments become those of the environment.
        **kwargs: defaults that differ from the class's own.

    Raises:
        ValueError: the id belongs to another problem.
    """
    if id in gym.registry:
        if gym.registry[id].kwargs.get("problem") != problem:
            raise ValueError(f"{id} is registered for another problem; choose another name or version.")
        return
    gym.register(
        id=id,
        entry_point="privbandit_envs.env:BanditEnv",
        vector_entry_point="privbandit_envs.vector_env:BanditVectorEnv",
        order_enforce=False,
        disable_env_checker=True,
        kwargs={"problem": problem, **kwargs},
    )
    ENV_IDS.append(id)
