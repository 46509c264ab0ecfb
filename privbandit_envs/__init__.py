"""Gymnasium environments for contextual bandits; importing this package registers them.

Three nouns: a *problem* (contexts and mean rewards), a *stream* (users of one run), an *environment* (a stream as
Gymnasium has it).
"""

from typing import TYPE_CHECKING, Any

from privbandit_envs.changing.delay import Delay, DelayFeedback
from privbandit_envs.env import BanditEnv
from privbandit_envs.features import Features
from privbandit_envs.problem import ArmProblem, Problem, Served, Support
from privbandit_envs.registration import ENV_IDS, from_table, register
from privbandit_envs.spaces import Assortments, Units
from privbandit_envs.vector_env import BanditVectorEnv
from privbandit_envs.wrappers import AsBandit, FlattenContext, PerArm, RecordRegret, RegretCurve, ScoreAction

if TYPE_CHECKING:
    from privbandit_envs.testing import check_bandit_env

__all__ = [
    "ENV_IDS",
    "ArmProblem",
    "AsBandit",
    "Assortments",
    "BanditEnv",
    "BanditVectorEnv",
    "Problem",
    "Served",
    "Support",
]
__all__ += [
    "Delay",
    "DelayFeedback",
    "Features",
    "FlattenContext",
    "PerArm",
    "RecordRegret",
    "RegretCurve",
    "ScoreAction",
]
__all__ += ["Units", "__version__", "check_bandit_env", "from_table", "register"]

__version__ = "0.4.0"

_FAMILIES = {
    "Linear": "privbandit_envs.families.linear:LinearProblem",
    "SparseLinear": "privbandit_envs.families.sparse:SparseLinearProblem",
    "Assortment": "privbandit_envs.families.assortment:AssortmentProblem",
    "Classification": "privbandit_envs.families.classification:ClassificationProblem",
    "Clicks": "privbandit_envs.families.clicks:ClicksProblem",
    "Bandit": "privbandit_envs.families.arms:BanditProblem",
    "Smooth": "privbandit_envs.families.smooth:SmoothProblem",
    "Pricing": "privbandit_envs.families.clicks:PricingProblem",
    "Duels": "privbandit_envs.families.linear:DuelsProblem",
}
for _name, _problem in _FAMILIES.items():
    register(f"privbandit/{_name}-v0", _problem)
    # one world for all seeds, as clients expect that seed every slot of a vector of environments anew
    _cut = {"oversized": "cut"} if _name == "Assortment" else {}
    register(f"privbandit/{_name}-fixed-v0", _problem, listed=False, instance_seed=0, **_cut)
register("privbandit/Table-v0", "privbandit_envs.families.table:TableProblem", listed=False)  # what from_table makes


def __getattr__(name: str) -> Any:
    if name == "check_bandit_env":  # its module loads Gymnasium's own checks
        from privbandit_envs.testing import check_bandit_env

        return check_bandit_env
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.")


def __dir__() -> list[str]:
    return sorted(__all__)
