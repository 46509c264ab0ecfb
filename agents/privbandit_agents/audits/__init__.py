"""Audits: games that bound an agent's or a mechanism's epsilon from below."""

MECHANISMS = (
    "laplace",
    "gaussian",
    "private-value",
    "private-selection",
    "gumbel-topk",
    "exponential-choice",
    "wishart-difference",
    "k-norm",
    "objective-perturbation",
    "tree",
    "toeplitz",
    "grr",
    "oue",
    "subset",
    "signed-subset",
    "bin-cap",
    "hemisphere",
    "lplr-update",
    "lplr-ci",
    "lplr-wishart",
    "fliphat-peeling",
    "private-cov",
    "lpct-report",
)
"""Targets of ``registry`` that are mechanisms, for lists: importing what plays them takes a second."""
PUBLISHED = (
    "objective-perturbation",
    "lplr-update",
    "lplr-ci",
    "lplr-wishart",
    "fliphat-peeling",
    "private-cov",
    "lpct-report",
)
"""Those with a published calibration, too."""
