"""Many canaries in one run of an agent: scores without the help of a canary's own coin, and faults of counters."""

import numpy as np
import pytest
from privbandit_agents.audits.games.rewards import Blocks, RewardGame
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import games
from privbandit_agents.privacy.mechanisms.counters import Counter
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
from privbandit_agents.testing.replay import check_replay


@pytest.mark.wide
def test_a_canary_s_own_coin_is_no_help_to_its_guess() -> None:
    """Whatever ``covers`` says on its diagonal; what others add to a score is taken away."""
    game, quiet = (RewardGame("reward-dp-linucb", {"epsilon": epsilon}) for epsilon in (1.0, 50.0))
    fair, added = game.play(0, 1, np.random.default_rng(0)), game.covers
    assert added is not None
    game.covers = added + 1e9 * np.eye(game.canaries)
    assert np.array_equal(fair, game.play(0, 1, np.random.default_rng(0)))
    heads = np.ones(quiet.canaries)
    told = np.array([quiet.scores(quiet.served(quiet.agent(seed), heads)) for seed in range(100)])
    # five standard errors
    assert (np.abs(told.mean(axis=0) - added.sum(axis=1)) < 5 * told.std(axis=0) / 10).all()
    assert (quiet.play(0, 40, np.random.default_rng(0)).mean(axis=0) > 0).all()
    quiet.covers = -4 * added
    assert (quiet.play(0, 40, np.random.default_rng(0)) < 0).any(axis=0).all()


@pytest.mark.parametrize("kind", [RewardGame, Blocks])
@pytest.mark.wide
def test_jdp_linucb_keeps_its_promise_and_seven_tenths_of_its_noise_does_not(
    kind: type[RewardGame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """160 runs of 32 canaries, at epsilon = 4 and 95 %; of what a canary may tell little is lost on the way."""
    game = kind("jdp-linucb", {"epsilon": 4.0})
    found = audit(game, 160, np.random.default_rng(0), 0.95)
    assert not found.refuted and found.rho_bound is not None and found.rho_bound > 0.25
    honest = Counter._drawn
    monkeypatch.setattr(Counter, "_drawn", lambda self: 0.7 * honest(self))
    assert audit(game, 160, np.random.default_rng(0), 0.95).refuted


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.wide
def test_both_blocks_need_noise(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the noise in one of the two blocks is found."""
    game = Blocks("jdp-linucb", {"epsilon": 4.0})
    honest, part = Counter._drawn, np.ones(game.agent(0).schedule.counter.dim)
    part.reshape(2, -1)[block] = 0.1
    monkeypatch.setattr(Counter, "_drawn", lambda self: part * honest(self))
    assert audit(game, 160, np.random.default_rng(0), 0.95).refuted


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore::privbandit_agents.testing.replay.NotSeen")
def test_batches_after_the_counter_need_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of it costs more than is paid, which the replay of 5000 users sees."""
    honest = GridGaussian.from_rho
    monkeypatch.setattr(GridGaussian, "from_rho", lambda rho, *rest: honest(25 * rho, *rest))
    with pytest.raises(AssertionError, match="it may cost"):
        check_replay("jdp-linucb", "privbandit/Linear-v0", 200, {"growth": 34.0})


@pytest.mark.wide
def test_an_agent_may_have_several_games() -> None:
    titles = {name: [game.title for game in games(name, 1.0)] for name in ("jdp-linucb", "newton-mnl", "dpmnl", "grr")}
    assert titles == {
        "jdp-linucb": ["jdp-linucb, rewards", "jdp-linucb, rewards in the blocks of two arms"],
        "newton-mnl": ["newton-mnl, gradients", "newton-mnl, Hessians"],
        "dpmnl": ["dpmnl, Gram matrix", "dpmnl, PrivateMLE"],
        "grr": ["grr"],
    }
