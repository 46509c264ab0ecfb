"""DPMNL under (epsilon, delta)-differential privacy: the benchmark of DPMNL's own paper.

Young Hyun Cho and Will Wei Sun, "Privacy-Preserving Dynamic Assortment Selection", 2024, section S.3.3 (Algorithms 4
and 5), which extends Chen, Simchi-Levi and Wang, "Privacy-Preserving Dynamic Personalized Pricing with Demand Learning",
Management Science 2022, to choices.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from privbandit_agents.agent import Guarantee, Ledger, above
from privbandit_agents.joint.dpmnl import DPMNL, Plan, Settings
from privbandit_agents.privacy.accounting import epsilon_to_rho
from privbandit_agents.privacy.ledger import approximate, zcdp
from privbandit_agents.privacy.objective import UserLoss
from privbandit_agents.privacy.objective_approximate import perturbation


@dataclass(frozen=True)
class Config(Settings):
    """Settings of the benchmark.

    Attributes:
        epsilon: privacy budget, > 0; infinity adds no noise.
        delta: of (epsilon, delta), in (0, 1); default: 1/T^2.
        rho: stands for epsilon = rho + 2 sqrt(rho log(1/delta)), what rho-zCDP implies; 1 if neither is given.
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges; budgets are checked by the ledger."""
        super().__post_init__()
        if self.epsilon is not None and self.rho is not None:
            raise ValueError(f"one of epsilon and rho can be given; got epsilon={self.epsilon}, rho={self.rho}.")
        if self.rho is not None and not self.rho > 0:
            raise ValueError(f"rho must be > 0; got {self.rho!r}.")
        if self.delta is not None and not 0 < above(0, delta=self.delta) < 1:
            raise ValueError(f"delta must lie in (0, 1); got {self.delta!r}.")


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

    Config: ClassVar[type[Any]] = Config

    def _plan(self) -> Plan:
        """Split epsilon and delta: mle_share to the calls, the rest to PrivateCov."""
        config, share = self.config, self.config.mle_share
        published = config.calibration == "published"
        delta = config.delta or 1 / max(self.horizon, 2) ** 2
        epsilon = config.epsilon or implied_epsilon(config.rho or 1.0, delta)
        guarantee = Guarantee(
            notion="joint",
            epsilon=epsilon,
            delta=delta,
            protects="context, assortment and purchase of every user, from all others",
            proven=not published,
            reference="docs/privacy.md, DPMNL",
        )
        for_cov = (1 - share) * epsilon, (1 - share) * delta
        rho = min(for_cov[0] ** 2 / (32 * math.log(4 / for_cov[1]) ** 2), epsilon_to_rho(*for_cov))
        if published:
            user = UserLoss(self.dim, 2.0, 1.0, rank=min(self.dim, self.capacity - 1))
            one = share * epsilon / math.sqrt(8 * config.calls * math.log(1 / (share * delta)))
            mle = perturbation(one, share * delta / (2 * config.calls), user, as_printed=True)
            return Plan(Ledger(rho=math.inf), guarantee, zcdp(math.inf), rho, mle)
        user = UserLoss.multinomial_logit(self.dim, self.capacity, self.radius)
        mle = perturbation(share * epsilon / config.calls, (1 - 1e-9) * share * delta / config.calls, user, config.q)
        return Plan(Ledger(epsilon, delta), guarantee, approximate(*for_cov), rho, mle)


def implied_epsilon(rho: float, delta: float) -> float:
    """Return rho + 2 sqrt(rho log(1/delta)): rho-zCDP implies (epsilon, delta)-DP (Lemma S13)."""
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))
