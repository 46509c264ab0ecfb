"""An agent with windows, whose users count in several releases, and broken windows."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from privbandit_agents.audits.registry import game_classes
from privbandit_agents.joint.linear.jdp_linucb import JDPLinUCB
from privbandit_agents.joint.linear.schedules import Windows
from privbandit_agents.testing.replay import NotSeen, check_replay

Break = Callable[[pytest.MonkeyPatch], None]


def noise_of_one_release_less(patch: pytest.MonkeyPatch) -> None:
    """The next window begins with the exact sum of the one before, not with its noisy one."""
    opened = Windows.open

    def exact(self: Any, agent: Any) -> None:
        total = self.counter.total.copy() if self.group is not None else None
        opened(self, agent)
        self.kept = self.kept if total is None else total

    patch.setattr(Windows, "open", exact)


def a_user_counted_once_too_often(patch: pytest.MonkeyPatch) -> None:
    """The last epoch of a window is in the first one of the next window, too."""
    term = JDPLinUCB.term

    def again(self: Any, products: Any) -> Any:
        last, self.last = vars(self).get("last", np.zeros_like(products)), products
        return term(self, products + last)

    patch.setattr(JDPLinUCB, "term", again)


@pytest.mark.parametrize("fault", [noise_of_one_release_less, a_user_counted_once_too_often])
@pytest.mark.wide
def test_a_broken_window_is_replayed_at_its_exact_loss(fault: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"window": 30}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSeen)
        check_replay("sw-jdp-linucb", "privbandit/Linear-v0", 200, settings)
        fault(monkeypatch)
        with pytest.raises(AssertionError):
            check_replay("sw-jdp-linucb", "privbandit/Linear-v0", 200, settings)


def test_windows_have_the_games_of_their_kind() -> None:
    assert [kind.part for kind in game_classes("sw-jdp-linucb")] == ["rewards"]
    assert game_classes("sw-ldp-linucb") == game_classes("ldp-linucb"), "a report is a report, however often it counts"
