"""Settings of LPLR, and its two presets."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from privbandit_agents.base.settings import (
    MOST,
    Budget,
    Calibration,
    Count,
    Growth,
    Open01,
    Positive,
    PrivateSettings,
    Within,
)
from privbandit_agents.local.layered.report import Release

PRESETS: dict[str, dict[str, Any]] = {
    "practical": {
        "oracle": "shared", "width": "difference", "confidence": "analytic", "gamma": math.sqrt(2),
        "calibration": "correct",
    },
    "published": {
        "oracle": "per-arm", "width": "sum", "confidence": "published", "gamma": math.e,
        "calibration": "published",
    },
}  # fmt: skip
FROM_PRESET: Any = None


@dataclass(frozen=True)
class Config(PrivateSettings):
    """Settings of LPLR; None takes the preset's value.

    Attributes:
        epsilon: privacy budget alpha of every user's report, > 0; infinity adds no noise.
        preset: ``"practical"`` has one theta for all arms and epochs, and widths of differences; ``"published"`` is
            the paper's algorithm with the constants of its theorems and its noise, which is not private.
        calibration: ``"correct"``, or ``"published"`` for the paper's noise (Laplace and Wishart), which is not
            private; with ``preset="published"``, ``"correct"`` keeps the structure and has a guarantee.
        release: ``"hemisphere"``, ``"bin-cap"``, ``"laplace"``, or ``"wishart-difference"`` (Laplace noise on the
            moment, a difference of Wishart matrices on the matrix; half of epsilon each).
        oracle: ``"shared"`` by all arms, or one ``"per-arm"``.
        width: an arm is eliminated by the width of the ``"difference"`` to another one, or by the ``"sum"`` of both
            widths.
        confidence: ``"analytic"`` widths, from the variance of the release; or ``"published"`` ones (Algorithm 5), for
            which half of the users are set aside.
        gamma: ratio of the norms of neighbouring bins, > 1; M = ceil(ln T / (2 ln gamma)) bins a layer. The paper's
            beta is ln gamma / ln T.
        z: analytic widths in standard deviations, > 0; 1.5 covers about 87 % of the design offline, 2 covers 95 %.
        bins: the most active bins of a layer, >= 1; the paper's M^h are too many to report on.
        kappas: kappa_1, kappa_1', kappa_2, kappa_3 of published widths; None: the values of the lemmas.
        first: users of the first epoch, >= 1; the horizon makes it the whole run.
        growth: of the epochs, > 1.
        share: share of an epoch's users that report on layer 1, in (0, 1); the other layers share the rest evenly.
        horizon: number of users T.
    """

    epsilon: Budget = 1.0
    preset: Literal["practical", "published"] = "practical"
    calibration: Calibration = FROM_PRESET
    release: Release = "hemisphere"
    oracle: Literal["shared", "per-arm"] = FROM_PRESET
    width: Literal["sum", "difference"] = FROM_PRESET
    confidence: Literal["analytic", "published"] = FROM_PRESET
    gamma: Annotated[float, Within(1.01, 1e6)] = FROM_PRESET
    z: Positive = 1.5
    bins: Count = 32
    kappas: tuple[float, float, float, float] | None = None
    first: Count = 500
    growth: Growth = 2.0
    share: Open01 = 0.3
    horizon: Count = 10_000

    def __post_init__(self) -> None:
        for name, value in PRESETS.get(self.preset, {}).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        super().__post_init__()
        kappas = np.zeros(4) if self.kappas is None else np.asarray(self.kappas)
        if kappas.shape != (4,) or not ((kappas >= 0) & (kappas <= MOST)).all():
            known = f"four numbers in [0, {MOST:g}], or None for those of the lemmas"
            raise ValueError(f"kappas must be {known}; got {self.kappas!r}.")
        if self.width == "difference" and (self.oracle, self.confidence) != ("shared", "analytic"):
            raise ValueError("width difference needs oracle shared and confidence analytic; take width sum instead.")
        if self.calibration == "published" and self.confidence == "analytic":
            needs = "confidence published: the paper's noise is on its statistics"
            raise ValueError(f"calibration published needs {needs}.")
