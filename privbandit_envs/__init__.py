"""Gymnasium environments for contextual bandits; importing this package registers them."""

import typing

from privbandit_envs.env import BanditEnv
from privbandit_envs.problem import ArmProblem, Problem, Served, Support
from privbandit_envs.registration import ENV_IDS, register
from privbandit_envs.spaces import Assortments
from privbandit_envs.vector_env import BanditVectorEnv

__all__ = [
    "ENV_IDS",
    "ArmProblem",
    "Assortments",
    "BanditEnv",
    "BanditVectorEnv",
    "Problem",
    "Served",
    "Support",
    "__version__",
    "register",
]

__version__: str

if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> str:
        """Look the version up when it is asked for: that takes longer than the rest of this module."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        return version("privbandit")


register("privbandit/Linear-v0", "privbandit_envs.families.linear:LinearProblem")
register("privbandit/SparseLinear-v0", "privbandit_envs.families.sparse:SparseLinearProblem")
register("privbandit/Assortment-v0", "privbandit_envs.families.assortment:AssortmentProblem")
register("privbandit/Classification-v0", "privbandit_envs.families.classification:ClassificationProblem")
