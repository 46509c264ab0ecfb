"""Mechanisms, randomizers, counters, accounting and the ledger: the only place that draws privacy noise.

Three nouns: a *mechanism* (of a curator), a *randomizer* (of a device), a *ledger* (refuses what would overspend).

Import everything in ``__all__`` from here by its name; a module is loaded when a name of it is first asked for. The
default noise comes from numpy's generators and floating-point arithmetic. It is for simulation: the laws are right, but
a deployment needs samplers that are safe against attacks on floating point (``noise="secure"``).

>>> from privbandit_agents.privacy import Gaussian, Ledger
>>> ledger, mechanism = Ledger(rho=0.5), Gaussian.from_rho(0.5, l2_sensitivity=1.0)
>>> ledger.spend(mechanism.cost)
"""

from typing import TYPE_CHECKING

from privbandit_agents.faces import lazily

if TYPE_CHECKING:
    from privbandit_agents.privacy.accounting.conversions import (
        epsilon_to_rho,
        gaussian_delta,
        gaussian_epsilon,
        gaussian_mu,
        pure_to_rho,
        rho_to_epsilon,
    )
    from privbandit_agents.privacy.accounting.costs import Cost, approximate, gaussian_dp, pure, zcdp
    from privbandit_agents.privacy.accounting.ledger import Ledger, PrivacyBudgetExceeded
    from privbandit_agents.privacy.accounting.shuffling import coins_epsilon
    from privbandit_agents.privacy.contributions.means import BoundedMean
    from privbandit_agents.privacy.contributions.moments import Moments
    from privbandit_agents.privacy.mechanisms.additive import Gaussian, Laplace
    from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
    from privbandit_agents.privacy.mechanisms.counters import BinaryTree, BufferedToeplitz, Counter, SquareRootToeplitz
    from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
    from privbandit_agents.privacy.mechanisms.geometric import GridLaplace
    from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss
    from privbandit_agents.privacy.mechanisms.selection import GumbelTopK, LaplacePeeling
    from privbandit_agents.privacy.mechanisms.spherical import KNorm, WishartDifference
    from privbandit_agents.privacy.mechanisms.stopping import Selected, private_selection
    from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
    from privbandit_agents.privacy.randomizers.coins import CoinSums
    from privbandit_agents.privacy.randomizers.gaussian import GaussianReport
    from privbandit_agents.privacy.randomizers.inputs import NoisyProducts
    from privbandit_agents.privacy.randomizers.matrices import LaplaceWishart, PublishedLayer
    from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot, SignedSubset, UnaryEncoding
    from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
    from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere

__all__ = ["epsilon_to_rho", "gaussian_delta", "gaussian_epsilon", "gaussian_mu", "pure_to_rho", "rho_to_epsilon"]
__all__ += ["Cost", "Ledger", "Moments", "PrivacyBudgetExceeded", "approximate", "gaussian_dp", "pure", "zcdp"]
__all__ += ["BinaryTree", "BufferedToeplitz", "Counter", "ObjectivePerturbation", "SquareRootToeplitz", "UserLoss"]
__all__ += ["ExponentialChoice", "Gaussian", "GridGaussian", "GridLaplace", "GumbelTopK", "KNorm", "Laplace"]
__all__ += ["LaplacePeeling"]
__all__ += [
    "GaussianReport",
    "KaryRandomizedResponse",
    "LaplaceOneHot",
    "SignedSubset",
    "SubsetSelection",
    "UnaryEncoding",
]
__all__ += ["BinCapSign", "Hemisphere", "LaplaceWishart", "LocalRandomizer", "NoisyProducts", "PublishedLayer"]
__all__ += ["BoundedMean", "CoinSums", "Selected", "WishartDifference", "coins_epsilon", "private_selection"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        ".accounting.conversions": "epsilon_to_rho gaussian_delta gaussian_epsilon gaussian_mu "
        "pure_to_rho rho_to_epsilon",
        ".accounting.costs": "Cost approximate gaussian_dp pure zcdp",
        ".accounting.ledger": "Ledger PrivacyBudgetExceeded",
        ".accounting.shuffling": "coins_epsilon",
        ".contributions.means": "BoundedMean",
        ".contributions.moments": "Moments",
        ".mechanisms.additive": "Gaussian Laplace",
        ".mechanisms.spherical": "KNorm WishartDifference",
        ".mechanisms.choice": "ExponentialChoice",
        ".mechanisms.counters": "BinaryTree BufferedToeplitz Counter SquareRootToeplitz",
        ".mechanisms.discrete": "GridGaussian",
        ".mechanisms.geometric": "GridLaplace",
        ".mechanisms.objective": "ObjectivePerturbation UserLoss",
        ".mechanisms.stopping": "Selected private_selection",
        ".mechanisms.selection": "GumbelTopK LaplacePeeling",
        ".randomizers.categories": "KaryRandomizedResponse SubsetSelection",
        ".randomizers.coins": "CoinSums",
        ".randomizers.gaussian": "GaussianReport",
        ".randomizers.inputs": "NoisyProducts",
        ".randomizers.matrices": "LaplaceWishart PublishedLayer",
        ".randomizers.one_hot": "LaplaceOneHot SignedSubset UnaryEncoding",
        ".randomizers.randomizer": "LocalRandomizer",
        ".randomizers.sphere": "BinCapSign Hemisphere",
    },
)
