"""What a false claim may hide is found: in what is no number, between extremes, late, in keys, beside the release."""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import prepared
from privbandit_agents.testing import NotSeen, check_agent
from privbandit_agents.zoo.entries import AGENTS

sys.path.insert(0, str(Path(__file__).parent))
import hidden  # type: ignore[import-not-found]

sys.path.pop(0)
LINEAR = "privbandit/Linear-v0"
QUICK = "key", "interior", "late", "says nothing"
"""Faults that the audit finds, in tests that are always run."""
MORE = "key in the call", "clock"
"""Faults of a kind that another one shows, too."""
CASES = [
    pytest.param(
        kind,
        fault,
        *how,
        marks=[pytest.mark.wide]
        * (fault in MORE or (how[0] == hidden.AUDIT and (kind == "Curator" or fault not in QUICK))),
    )
    for kind, faults in (("Device", hidden.DEVICES), ("Curator", hidden.CURATORS))
    for fault, how in faults.items()
]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of this file is on the path; agents registered meanwhile are forgotten."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    before = dict(AGENTS)
    yield
    AGENTS.clear()
    AGENTS.update(before)


def refuted(name: str, **config: Any) -> bool:
    """Return whether the quick audit refutes a claim: an honest one in one of a thousand cases at most."""
    return any(
        audit(one, one.runs, np.random.default_rng(1), 1 - 0.001 / 4).refuted
        for one in prepared(name, 1.0, config=config, effort="quick")
    )


def check(name: str, **config: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSeen)
        check_agent(name, LINEAR, 150, **config)


@pytest.mark.wide_at(
    "Device-kept in the module-*",
    "Device-kept by *",
    "Device-interior-*",
    "Device-late-*",
    "Device-spends *",
    "Curator-raw schedule-*",
    "Device-kept in the class-*",
    "Device-kept in a default-*",
)
@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(("kind", "fault", "by", "said"), CASES)
def test_a_fault_is_found(kind: str, fault: str, by: str, said: str) -> None:
    name = f"hidden:Hidden{kind}"
    if by == hidden.CHECK:
        with pytest.raises(AssertionError, match=said):
            check(name, fault=fault)
    elif fault == "says nothing":
        with pytest.raises(ValueError, match=said):
            refuted(name, fault=fault)
        with pytest.raises(AssertionError, match=said):
            check(name, fault=fault)
    else:
        assert refuted(name, fault=fault)


@pytest.mark.wide_at("Device")
@pytest.mark.parametrize("kind", ["Device", pytest.param("Curator", marks=pytest.mark.wide)])
def test_the_same_without_a_fault_passes(kind: str) -> None:
    check(f"hidden:Hidden{kind}")


@pytest.mark.parametrize(("kind", "fault"), [("Device", ""), ("Device", "mapping"), ("Curator", "")])
@pytest.mark.wide
def test_the_same_without_a_fault_is_not_refuted(kind: str, fault: str) -> None:
    assert not refuted(f"hidden:Hidden{kind}", fault=fault)
