"""DPMNL under (epsilon, delta)-differential privacy: the benchmark of DPMNL's own paper.

Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment Selection", 2024, section S.3.3 (Algorithms 4
and 5), which extends to choices Chen, Simchi-Levi and Wang, "Privacy-Preserving Dynamic Personalized Pricing with
Demand Learning", Management Science 2022.
"""

import math
from typing import Any, ClassVar

from privbandit_agents.base.agent import Guarantee
from privbandit_agents.joint.assortments.dpmnl import DPMNL, Plan
from privbandit_agents.joint.assortments.dpmnl_settings import Settings
from privbandit_agents.privacy._validate import budget
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.accounting.ledger import Ledger, approximate, zcdp
from privbandit_agents.privacy.mechanisms.objective import UserLoss
from privbandit_agents.privacy.mechanisms.objective_approximate import perturbation


class DPMNLApprox(DPMNL):
    """DPMNL whose budget is split by the theorems on (epsilon, delta)-DP.

    *Formal guarantees.* (epsilon, delta)-joint DP under replacement of a user's whole record, for any record whatever:
    as DPMNL, but a call of PrivateMLE is (e, d)-DP by Theorem 5 as repaired in ``objective_approximate``, with
    (e, d) = mle_share (epsilon, delta) / calls, and PrivateCov has the rest. It is a Gaussian mechanism of
    rho2 = e2^2 / (32 log(4/d2)^2), or what converts tightly to (e2, d2) if that is less. Everything adds (basic
    composition). With ``calibration="published"`` nothing is guaranteed.

    Deviations:
        Those of DPMNL. Published, a call gets e1 / sqrt(8 D log(1/d1)) and d1 / (2 D): the theorem behind has
        log(2/d1) and e1 < 1, and at the paper's budgets basic composition gives more. PrivateCov's printed variance
        32 m K log(4/d2)^2 / e2^2 comes from nodes of delta d2/2 each, too many for d2; with the right sensitivity,
        K^2 for K, it is far more than the Gaussian mechanism needs. The paper's epsilon, rho + sqrt(4 rho log T),
        belongs to delta = 1/T; with 1/T^2 it is rho + sqrt(8 rho log T).
    """

    Config: ClassVar[type[Any]] = Settings

    def _plan(self) -> Plan:
        """Split epsilon and delta: mle_share to the calls, the rest to PrivateCov."""
        config, share = self.config, self.config.mle_share
        published = config.calibration == "published"
        delta = config.delta or 1 / max(self.horizon, 2) ** 2
        rho = 1.0 if config.rho is None else config.rho
        epsilon = implied_epsilon(rho, delta) if config.epsilon is None else config.epsilon
        ledger = Ledger(math.inf if published else epsilon, delta)
        guarantee = Guarantee(
            notion="joint",
            epsilon=epsilon,
            delta=delta,
            protects="context, assortment and purchase of every user, from all others",
            proven=not published,
            reference="docs/privacy/dpmnl.md",
        )
        for_cov = (1 - share) * epsilon, (1 - share) * delta
        counted = min(for_cov[0] ** 2 / (32 * math.log(4 / for_cov[1]) ** 2), epsilon_to_rho(*for_cov))
        if published:
            user = UserLoss(self.dim, 2.0, 1.0, rank=min(self.dim, self.capacity - 1))
            one = share * epsilon / math.sqrt(8 * config.calls * math.log(1 / (share * delta)))
            mle = perturbation(one, share * delta / (2 * config.calls), user, as_printed=True)
            return Plan(ledger, guarantee, zcdp(math.inf), counted, mle)
        user = UserLoss.multinomial_logit(self.dim, self.capacity, self.radius)
        mle = perturbation(share * epsilon / config.calls, (1 - 1e-9) * share * delta / config.calls, user, config.q)
        return Plan(ledger, guarantee, approximate(*for_cov), counted, mle)


def implied_epsilon(rho: float, delta: float) -> float:
    """Return rho + 2 sqrt(rho log(1/delta)): rho-zCDP implies (epsilon, delta)-DP (Lemma S13)."""
    return budget(rho=rho) + 2 * math.sqrt(rho * math.log(1 / delta))
