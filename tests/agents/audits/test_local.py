"""Games with devices: work that is done once gives what doing it again would give."""

from pkgutil import resolve_name

import numpy as np
import pytest
from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.games.joint import FirstRelease, JointGame
from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.audits.games.servers import alike, new
from privbandit_agents.audits.views.reports import Contrast
from privbandit_agents.base.labels import Labels
from privbandit_agents.zoo.registry import find


@pytest.mark.wide
def test_scenes_that_show_the_same_are_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[int] = []
    of = Contrast.of

    def counted(zero: Floats, one: Floats) -> Contrast:
        fitted.append(len(zero))
        return of(zero, one)

    monkeypatch.setattr(Contrast, "of", counted)
    once = LocalGame("ldp-sgd", {"epsilon": 1.0})
    scored_once, scenes = fitted.count(once.pilots // 2), len([*once.scenes(), *once.late_scenes()])
    monkeypatch.setattr(LocalGame, "scored", AgentGame.scored)
    fitted.clear()
    again = LocalGame("ldp-sgd", {"epsilon": 1.0})
    assert scored_once < 0.8 * scenes and fitted.count(once.pilots // 2) == scenes
    assert (once.scene.words, once.pair) == (again.scene.words, again.pair)
    seen = once.observed(once.scene, 0, 100, np.random.default_rng(0))
    np.testing.assert_array_equal(once.told(once.contrast, seen), again.told(again.contrast, seen))


@pytest.mark.usefixtures("brief")
def test_the_stronger_game_has_the_scene_that_was_chosen() -> None:
    game = LocalGame("ldp-sgd", {"epsilon": 1.0}, effort="quick")
    stronger = game.stronger(1.25)
    assert stronger is not None and stronger.scene.words == game.scene.words
    assert stronger.scene.agent.config.epsilon == 1.25 and game.scene.agent.config.epsilon == 1.0


@pytest.mark.wide
def test_a_game_of_another_one_has_other_values_and_no_further_games(monkeypatch: pytest.MonkeyPatch) -> None:
    first, windows = FirstRelease, find("sw-jdp-linucb").audit
    assert (first.part, first.times, first.delta, first.besides) == ("first release", 1, JointGame.delta, ())
    assert JointGame.times == 16 and len(JointGame.besides) == 3 and resolve_name(windows).besides == ()
    monkeypatch.setattr(LocalGame, "servers", staticmethod(new))
    monkeypatch.setattr(LocalGame, "heats", ())
    game = LocalGame("ldp-sgd", {"epsilon": 1.0}, effort="quick")
    assert game.pilots == 500 and game.scene.words.endswith("a new server")


def test_vectors_of_equal_records_are_computed_once_and_others_as_they_are() -> None:
    asked: list[int] = []

    def vectors(contexts: Floats, labels: Labels) -> Floats:
        asked.append(len(labels))
        return np.asarray(contexts * (1.0 + labels)[:, None])

    computed, rng = alike(vectors), np.random.default_rng(0)
    one, labels = np.tile(rng.random(3), (50, 1)), np.full(50, 2)
    for contexts, known in ((one, labels), (one, labels), (one, 1 + labels), (rng.random((50, 3)), labels)):
        np.testing.assert_array_equal(computed(contexts, known), contexts * (1.0 + known)[:, None])
    assert computed(one[:0], labels[:0]).shape == (0, 3)
    assert asked == [1, 1, 50, 0]
