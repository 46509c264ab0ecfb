"""Audits: games that bound an agent's or a mechanism's epsilon from below."""

MECHANISMS = {
    "laplace": False,
    "gaussian": False,
    "private-value": False,
    "private-selection": False,
    "gumbel-topk": False,
    "exponential-choice": False,
    "wishart-difference": False,
    "k-norm": False,
    "objective-perturbation": True,
    "tree": False,
    "toeplitz": False,
    "grr": False,
    "oue": False,
    "subset": False,
    "signed-subset": False,
    "bin-cap": False,
    "hemisphere": False,
    "lplr-update": True,
    "lplr-ci": True,
    "lplr-wishart": True,
    "fliphat-peeling": True,
    "private-cov": True,
    "lpct-report": True,
}
"""Targets of ``registry`` that are mechanisms, and whether their published calibration can be audited, too.

For lists: importing what plays them takes a second.
"""
