from collections.abc import Callable
from typing import Any

import pytest

from privbandit_envs import ENV_IDS
from privbandit_envs.testing import CHECKS

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((env_id, {}) for env_id in ENV_IDS),
    ("privbandit/Linear-v0", {"design": "case1", "dim": 2}),
    ("privbandit/Linear-v0", {"design": "case2", "noise": "uniform"}),
    ("privbandit/Linear-v0", {"design": "ill", "dim": 3, "n_arms": 3, "support": 200, "rotate": True}),
    ("privbandit/Linear-v0", {"design": "ill", "dim": 3, "n_arms": 3, "support": 200, "dtype": "float64"}),
    ("privbandit/SparseLinear-v0", {"dim": 41, "noise": "uniform", "coefficients": "small", "dtype": "float64"}),
    ("privbandit/SparseLinear-v0", {"dim": 7, "n_arms": 1, "coefficients": "uniform", "correlation": -0.9}),
    ("privbandit/Assortment-v0", {"revenues": "random", "features": "unit", "dtype": "float64"}),
    ("privbandit/Assortment-v0", {"n_items": 5, "capacity": 5, "dim": 1, "revenues": [0, 1, 2, 3, 4.5]}),
    ("privbandit/Assortment-v0", {"features": "one-hot", "n_items": 7, "capacity": 2, "dim": 4}),
    ("privbandit/Assortment-v0", {"source": "expedia-sample"}),
    (
        "privbandit/Assortment-v0",
        {"source": "expedia-sample", "join": "full", "revenues": "prices", "dtype": "float64"},
    ),
    ("privbandit/Assortment-v0", {"source": "expedia-sample", "join": "concatenated", "revenues": "random"}),
    ("privbandit/Clicks-v0", {"support": 40, "link": "identity", "imbalance": 0.1, "dtype": "float64"}),
    ("privbandit/Bandit-v0", {"n_arms": 3, "gap": "hard", "dtype": "float64"}),
    ("privbandit/Smooth-v0", {"rewards": "scales", "dim": 3, "margin": 0.5, "n_auxiliary": 9, "dtype": "float64"}),
    ("privbandit/Smooth-v0", {"support": 30, "n_arms": 2, "dim": 1}),
    ("privbandit/Classification-v0", {"source": "wine", "n_public": 20}),
    ("privbandit/Classification-v0", {"source": "digits", "dtype": "float64"}),
]


@pytest.mark.wide_at(
    "check_people-*-wine-20",
    "check_people-Smooth-v0-",
    "check_people-*Assortment-v0-",
    "check_people-*-sample",
    "check_people-SparseLinear-v0-0",
    "check_people-Linear-v0-",
    "check_people-SparseLinear-v0-41-*",
    "check_[rb]*-sample",
    "check_groups-Linear-v0-*",
    "check_groups-Classification-v0-",
    "check_groups-SparseLinear-*-1",
    "check_groups-Pricing-*",
    "check_groups-Smooth-*",
    "check_bookmark-*-float64",
    "check_*-full-prices-float64",
    "check_people-*-concatenated-*",
    "check_people-Clicks-v0-40-*",
    "check_*-expedia-sample-concatenated-*",
    "check_groups-*-float64",
    "check_groups-*-7-2-4",
    "*-case1-2",
    "*-ill-3-3-200-True",
    "*-7-1-uniform--0.9",
    "*-random-unit-float64",
    "*-5-5-1-*",
    "*-Smooth-v0-30-2-1",
    "*-Bandit-v0-3-hard-float64",
)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s[0].split('/')[1]}-{'-'.join(map(str, s[1].values()))}")
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_environment_conforms(check: Callable[..., None], setting: tuple[str, dict[str, Any]]) -> None:
    check(setting[0], **setting[1])
