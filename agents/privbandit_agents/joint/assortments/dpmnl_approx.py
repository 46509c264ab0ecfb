"""DPMNL under (epsilon, delta)-differential privacy: the benchmark of DPMNL's own paper.

Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment Selection", 2024, section S.3.3 (Algorithms 4
and 5), which extends to choices Chen, Simchi-Levi and Wang, "Privacy-Preserving Dynamic Personalized Pricing with
Demand Learning", Management Science 2022.
"""

import math
from dataclasses import dataclass

from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.joint.assortments.dpmnl import DPMNL
from privbandit_agents.joint.assortments.dpmnl_settings import RECORD, DPMNLSettings, Spending, published_loss
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.accounting.costs import approximate, zcdp
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.privacy.mechanisms.objective import UserLoss
from privbandit_agents.privacy.mechanisms.objective_approximate import perturbation


@dataclass(frozen=True)
class Config(DPMNLSettings):
    """Settings of the benchmark; ``delta`` is 1/T^2 by default, and a rho is taken for the epsilon that it implies."""

    def spending(self, dim: int, capacity: int, horizon: int) -> Spending:
        """Split epsilon and delta: mle_share of both to the calls, the rest to PrivateCov."""
        share, calls = self.mle_share, self.calls
        delta = self.delta or 1 / max(horizon, 2) ** 2
        rho = 1.0 if self.rho is None else self.rho
        implied = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # rho-zCDP implies (epsilon, delta)-DP (Lemma S13)
        epsilon = implied if self.epsilon is None else self.epsilon
        guarantee = Guarantee.joint(epsilon, delta, None, "docs/privacy/dpmnl.md", not self.published, RECORD)
        for_cov = (1 - share) * epsilon, (1 - share) * delta
        counted = min(for_cov[0] ** 2 / (32 * math.log(4 / for_cov[1]) ** 2), epsilon_to_rho(*for_cov))
        if self.published:
            one = share * epsilon / math.sqrt(8 * calls * math.log(1 / (share * delta)))
            mle = perturbation(one, share * delta / (2 * calls), published_loss(dim, capacity), as_printed=True)
            return Spending(Ledger(math.inf, delta), guarantee, zcdp(math.inf), counted, mle)
        user = UserLoss.multinomial_logit(dim, capacity, self.radius)
        mle = perturbation(share * epsilon / calls, (1 - 1e-9) * share * delta / calls, user, 0.5, users=horizon)
        return Spending(Ledger(epsilon, delta), guarantee, approximate(*for_cov), counted, mle)


class DPMNLApprox(DPMNL):
    """DPMNL with its budget split by the theorems on (epsilon, delta)-DP.

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

    Config = Config
