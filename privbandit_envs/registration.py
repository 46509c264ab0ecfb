"""``register`` makes a Problem a Gymnasium environment."""

import gymnasium as gym

ENV_IDS: list[str] = []
"""Ids that ``register`` registered, in order; the conformance suites run on each."""


def register(id: str, problem: str, *, listed: bool = True, **kwargs: object) -> None:
    """Register a bandit family with ``gym.make`` and ``gym.make_vec``.

    Gymnasium's two checking wrappers cost a tenth of a step and are left off: the environment itself refuses a step
    before a reset, and ``testing.check_bandit_env`` checks the rest.

    Args:
        id: ``"namespace/Name-v0"``.
        problem: ``"module:Class"`` of a Problem; its keyword arguments become those of the environment.
        listed: whether it stands in ``ENV_IDS``; False for an id that is another one with other defaults.
        **kwargs: defaults that differ from the class's own.

    Raises:
        ValueError: the id belongs to another problem.

    Example:
        >>> register("privbandit/Linear-v0", "clinic.dosage:DosageProblem")
        Traceback (most recent call last):
        ValueError: privbandit/Linear-v0 is registered for another problem; choose another name or version.
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
    if listed:
        ENV_IDS.append(id)
