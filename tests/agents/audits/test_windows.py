"""Audits of an agent with windows, whose users count in several releases, and of broken windows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from privbandit_agents.audits.agents import Variant
from privbandit_agents.audits.games.rewards import COUNTED_AGAIN, KEPT_SUMS
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game_classes
from privbandit_agents.joint.linear.jdp_linucb import JDPLinUCB

EPSILON = 4.0
Break = Callable[[pytest.MonkeyPatch], None]


def noise_of_one_release_less(patch: pytest.MonkeyPatch) -> None:
    """The next window begins with the exact sum of the one before, not with its noisy one."""
    opened = JDPLinUCB.open_window

    def exact(self: Any) -> None:
        total = self.counter.total.copy() if self.group is not None else None
        opened(self)
        self.kept = self.kept if total is None else total

    patch.setattr(JDPLinUCB, "open_window", exact)


def a_user_counted_once_too_often(patch: pytest.MonkeyPatch) -> None:
    """The last epoch of a window is in the first one of the next window, too."""
    added = JDPLinUCB._noisy

    def again(self: Any, terms: Any) -> Any:
        last, self.last = getattr(self, "last", np.zeros_like(terms)), terms
        return added(self, terms + last)

    patch.setattr(JDPLinUCB, "_noisy", again)


CASES: list[tuple[Variant, Break | None, bool]] = [
    (KEPT_SUMS, None, False),
    (COUNTED_AGAIN, None, False),
    (KEPT_SUMS, noise_of_one_release_less, True),
    (COUNTED_AGAIN, a_user_counted_once_too_often, True),
]


@pytest.mark.parametrize(("kind", "fault", "refuted"), CASES)
@pytest.mark.wide
def test_a_broken_window_is_refuted(
    kind: Variant, fault: Break | None, refuted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 95 %, which a fault passes by two standard errors; the agent as it is shows a part of its budget."""
    if fault is not None:
        fault(monkeypatch)
    found = audit(kind("sw-jdp-linucb", {"epsilon": EPSILON}), 300 if fault else 60, np.random.default_rng(0))
    assert found.refuted == refuted and found.share > 0.25


def test_the_command_plays_them_all() -> None:
    parts = [kind.part for kind in game_classes("sw-jdp-linucb")]
    assert parts == ["rewards", "sums kept from the window before", "users counted in the next window"]
    assert game_classes("sw-ldp-linucb") == game_classes("ldp-linucb"), "a report is a report, however often it counts"
