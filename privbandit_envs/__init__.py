"""Gymnasium environments for contextual bandits; importing this package registers them."""

from privbandit_envs.env import BanditEnv
from privbandit_envs.problem import ArmProblem, Problem, Served, Support
from privbandit_envs.registration import ENV_IDS, register
from privbandit_envs.spaces import Assortments
from privbandit_envs.vector_env import BanditVectorEnv

__all__ = ["ENV_IDS", "ArmProblem", "Assortments", "BanditEnv", "BanditVectorEnv", "Problem", "Served", "Support"]
__all__ += ["__version__", "register"]

__version__ = "0.2.0"

register("privbandit/Linear-v0", "privbandit_envs.families.linear:LinearProblem")
register("privbandit/SparseLinear-v0", "privbandit_envs.families.sparse:SparseLinearProblem")
register("privbandit/Assortment-v0", "privbandit_envs.families.assortment:AssortmentProblem")
register("privbandit/Classification-v0", "privbandit_envs.families.classification:ClassificationProblem")
