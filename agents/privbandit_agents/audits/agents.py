"""Audits of whole agents: what all games share.

A local agent is judged by what leaves a user's device. A joint agent is judged by what its actions towards other users
reveal; the target user's own action is left out, as joint privacy allows.
"""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
from numpy.random import Generator

from privbandit_agents.audits.bounds.bets import choose
from privbandit_agents.audits.claims import Claim, Floats, Game
from privbandit_agents.audits.pairs.records import Pair, world_for
from privbandit_agents.audits.views.reports import Contrast
from privbandit_agents.privacy.accounting.conversions import rho_to_epsilon
from privbandit_agents.zoo.registry import field_names, find, make
from privbandit_envs.validate import one_of

EFFORTS = {"quick": 0.25, "normal": 1.0, "long": 4.0}  # by how much runs, of all kinds, are multiplied
FEWEST_RUNS = 20  # no audit has fewer runs


class AgentGame(Game):
    """A game with a whole agent. The claim is the agent's guarantee; a subclass sets who is served, and the readings.

    A game is one of three kinds. It has ``scenes``, such as pairs of records, of which pilot runs choose one, and the
    statistics; it is then played afresh, so that no correction for the number of scenes is due. Or it has ``canaries``:
    a fair coin of its own decides which record of a pair each of several users of a run has, and the output becomes a
    score of each, less the share of other canaries, since an adversary may know everybody else. Or it overrides
    ``play``.

    Args:
        name: of the agent, as for ``make``.
        config: settings of the agent; the game's own win over them.
        env: id of the environment, or settings; None: the game's ``world``, or the first family that the agent plays.
        effort: of ``EFFORTS``: how many users are served.
        answers: of users, that are tried besides the game's own: each is replaced by the next.

    Raises:
        ValueError: an environment for a game that has a world of its own, or an agent without a guarantee.
    """

    world: ClassVar[Mapping[str, Any]] = {}
    """The id and the keyword arguments of the game's environment; empty: the game is for any environment."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """Settings that the game gives to agents that have them, even over the user's: it is played with them."""
    published: ClassVar[Mapping[str, Any]] = {}
    """Settings with which the published calibration is audited, if the user names no others."""
    besides: ClassVar[tuple["type[AgentGame]", ...]] = ()
    """Games that are played too, and look elsewhere; a target is refuted if one of them refutes it."""
    presumes: bool = False
    """Whether Gaussian noise is presumed, beside the claim, of agents that declare it and promise (epsilon, delta)."""
    budget: int = 0  # users whom fresh runs of a world may serve at normal effort, about; 0: those of ``runs``
    users_a_run: int = 1
    ready: tuple[str, ...] = ()  # names of the first columns of ``observed``, which are statistics already
    pilots: int = 0
    """Runs of each world and each scene, half of which suggest statistics and half of which score the scene."""
    heats: ClassVar[Sequence[tuple[int, int]]] = ()
    """How many of the best scenes are tried again, with how many runs, and then again; the last score decides."""
    fits: int = 0
    """Runs of each world that suggest statistics for the chosen scene once more; 0: those of its score are kept."""
    covers: Floats | None = None
    """Effect of the coin in each column on the score in each row, (k, k); the diagonal, a canary's own, is left out."""
    scene: Any = None
    contrast: Any = None

    def __init__(
        self,
        name: str,
        config: dict[str, Any] | None = None,
        env: str | Mapping[str, Any] | None = None,
        effort: str = "normal",
        answers: Sequence[float] = (),
    ) -> None:
        self.name, self.answers = name, answers
        self.effort = EFFORTS[one_of(EFFORTS, effort=effort)]
        entry = find(name)
        known = field_names(entry.load().Config)
        own = {key: value for key, value in self.settings.items() if key in known} | dict(entry.audited)
        published = self.published if (config or {}).get("calibration") == "published" else {}
        self.config: dict[str, Any] = {**published, **(config or {}), **own}
        if published:
            self.seen += f"; settings: {', '.join(f'{key}={value}' for key, value in published.items())}"
        if env and self.world:
            raise ValueError(f"{name} is audited in a world of its game's own ({self.world['id']}); name none.")
        self.env = gym.make(**self.world) if self.world else world_for(name, env)
        self.claim = self.claimed()
        self.presumed = self.of_gaussian_noise() if self.presumes else None
        self.prepare()
        # 100 runs at least, however many users each of them serves
        most = max(100, self.budget // self.users_a_run) if self.budget else self.runs
        self.runs = self.afforded(min(self.runs, most))
        if self.canaries:
            self.pilot, self.statistics = max(60, self.afforded(60)), ("the score of a canary",)

    def afforded(self, runs: int) -> int:
        """Return the number of runs at the game's effort, given that at normal effort."""
        return max(FEWEST_RUNS, math.ceil(self.effort * runs))

    def agent(self, seed: int) -> Any:
        made = make(self.name, self.env, seed=seed, **self.config)
        if self.made is not None:
            self.made.append(made)
        return made

    def fresh(self, rng: Generator) -> Any:
        return self.agent(int(rng.integers(2**31)))

    def claimed(self) -> Claim:
        """Return the claim of the agent's guarantee: of rho, if it promises that, whatever it promises besides."""
        promise, claim = self.agent(0).guarantee, None
        if promise.rho is not None:
            delta = promise.delta or self.delta
            claim = Claim(promise.epsilon or rho_to_epsilon(promise.rho, delta), delta, promise.rho)
        elif promise.epsilon is not None:
            claim = Claim(promise.epsilon, promise.delta or 0.0)
        if claim is None:
            raise ValueError(f"{self.name} promises neither epsilon nor rho: there is nothing to audit.")
        if claim.empty:
            raise ValueError(f"{self.name} claims {promise.words}, {claim.empty}.")
        return claim

    def of_gaussian_noise(self) -> Claim | None:
        """Return the claim of purely Gaussian noise, if the agent declares that its noise is such; else None.

        A promise of (epsilon, delta) is not that: a test at delta itself would need far more runs.
        """
        told = self.claim.rho is None and self.claim.delta > 0 and np.isfinite(self.claim.epsilon)
        return Claim.gaussian(self.claim.epsilon, self.claim.delta) if told and self.agent(0).gaussian else None

    def prepare(self) -> None:
        """Set up the game beyond its world and its claim, such as its scene; called once."""
        if type(self).scenes is AgentGame.scenes:
            return
        self.pilots, self.fits = (math.ceil(self.effort * runs) for runs in (self.pilots, self.fits))
        scenes = self.scenes()
        tried = [self.tried(scene, self.pilots) for scene in scenes]
        more = self.further([scenes[k] for k in ranked(tried)])
        scenes, tried = scenes + more, tried + [self.tried(scene, self.pilots) for scene in more]
        order = ranked(tried)
        for kept, runs in self.heats:
            # scenes of one seed that score alike show the agent the same records, such as two that it clips to one
            first = {tried[k][1] if any(tried[k][1]) else k: k for k in reversed(order)}
            order = [k for k in order if k in first.values()][:kept]
            for k in order:
                tried[k] = self.tried(scenes[k], math.ceil(self.effort * runs))
            order.sort(key=lambda k: tried[k][1], reverse=True)
        self.scene, self.contrast = scenes[order[0]], tried[order[0]][0]
        if self.fits:
            seen = self.paired(self.scene, self.fits)
            self.contrast = self.contrast_of(*(one[:, len(self.ready) :] for one in seen))
        pairs = [pair for scene in scenes if isinstance(pair := getattr(scene, "pair", scene), Pair)]
        told = np.unique([float(one) for pair in pairs for one in pair.records.feedback])
        answers = ", ".join(f"{one:.3g}" for one in told)
        self.pair = f"{self.scene.words} (the worst of {len(scenes)} pairs, by pilot runs; answers: {answers or 'any'})"
        if not any(len(contrast.kept) for contrast, _ in tried):
            self.blind, self.unseen = True, "anything: all that was looked at was the same in every run"

    def stronger(self, factor: float) -> Self | None:
        """Return the same game, scene and statistics, with ``factor`` times the budget; None if there is none."""
        if self.scene is None and not self.canaries:
            return None
        powers = {"epsilon": 1, "rho": 2}
        scaled = {key: value * factor ** powers[key] for key, value in self.config.items() if key in powers}
        other = copy.copy(self)
        other.config = self.config | scaled
        return other if scaled else None

    def further(self, best: list[Any]) -> list[Any]:
        return []

    def tried(self, scene: Any, runs: int) -> tuple[Contrast, tuple[float, float]]:
        """Play a scene ``runs`` times; return statistics for it, and their worth on held-out runs."""
        with whatever_is_raised(self.name, scene.words):
            worlds = self.paired(scene, runs)
        return self.scored(worlds)

    def scored(self, worlds: list[Floats]) -> tuple[Contrast, tuple[float, float]]:
        """Fit statistics on half of the runs (n, D) of both worlds; return them, and their worth on the other half."""
        half = len(worlds[0]) // 2
        contrast = self.contrast_of(*(seen[:half, len(self.ready) :] for seen in worlds))
        held_out = self.told(contrast, worlds[0][half:]), self.told(contrast, worlds[1][half:])
        return contrast, (self.worth(held_out), self.tie(worlds))

    def worth(self, held_out: tuple[Floats, Floats], alpha: float = 0.2) -> float:
        """Return the bound that scenes are compared by, given statistics of runs (n, k)."""
        return choose(self.claim, held_out, alpha, len(held_out[0])).promise(alpha, len(held_out[0]), math.inf)

    def tie(self, worlds: list[Floats]) -> float:
        """Return a number that decides between scenes with equal bounds, given the runs' readings (n, D): here 0."""
        return 0.0

    def paired(self, scene: Any, runs: int) -> list[Floats]:
        """Return the readings of pilot runs in both worlds, shape (runs, D) each."""
        rng = np.random.default_rng(7)
        return [self.observed(scene, world, runs, rng) for world in (0, 1)]

    def contrast_of(self, zero: Floats, one: Floats) -> Contrast:
        return Contrast.of(zero, one)

    def told(self, contrast: Contrast, seen: Floats) -> Floats:
        return np.column_stack([seen[:, : len(self.ready)], contrast(seen[:, len(self.ready) :])])

    def play(self, world: int, runs: int, rng: Generator) -> Floats:
        if self.scene is not None:
            return self.told(self.contrast, self.observed(self.scene, world, runs, rng))
        if not self.canaries:
            raise NotImplementedError(f"{type(self).__name__} must override play.")
        rows = []
        for _ in range(runs):
            coins, seed = rng.choice([-1.0, 1.0], self.canaries), int(rng.integers(2**31))
            turned = (1 - 2 * world) * coins
            scores = self.scores(self.served(self.agent(seed), turned))
            if self.covers is not None:  # less what other canaries' coins add
                scores = scores - (self.covers - np.diag(np.diag(self.covers))) @ turned
            rows.append(coins * scores)
        return np.array(rows)

    def scenes(self) -> list[Any]:
        """Return what to try; each has ``words``, its description."""
        return []

    def observed(self, scene: Any, world: int, runs: int, rng: Generator) -> Floats:
        """Return the readings of runs of one world, shape (runs, D), of a game with scenes."""
        raise NotImplementedError(f"{type(self).__name__} has scenes: it must override observed.")

    def served(self, agent: Any, coins: Floats) -> Floats:
        """Serve a fresh agent users, canaries with coins -1 or 1 (k,) among them; return the readings."""
        raise NotImplementedError(f"{type(self).__name__} has canaries: it must override served.")

    def scores(self, readings: Floats) -> Floats:
        """Return a score for each canary, shape (k,), given the readings: positive if its coin seems to be 1."""
        raise NotImplementedError(f"{type(self).__name__} has canaries: it must override scores.")


@contextmanager
def whatever_is_raised(name: str, words: str) -> Iterator[None]:
    """Say of an error which agent raised it, and for which pair of records, given in words.

    Raises:
        ValueError: in place of any other error.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a SystemExit would pass for an end of ours
        said = f"{type(error).__name__}: {error}".rstrip(": .")
        raise ValueError(
            f"{name} raised an error where the pair of records was this: {words}. {said}. "
            "It has to serve every record, such as NaN or infinity, since whose record stops it is seen."
        ) from error


def ranked(tried: list[tuple[Contrast, tuple[float, float]]]) -> list[int]:
    return sorted(range(len(tried)), key=lambda k: tried[k][1], reverse=True)
