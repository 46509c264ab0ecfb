"""The game of canaries with any joint agent: one in each batch of users."""

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.pairs.records import USERS_A_RUN, Records, drawn
from privbandit_agents.audits.pairs.scenes import joint_pairs
from privbandit_agents.audits.views.reports import solved
from privbandit_agents.audits.views.transcript import added, changes, portions, transcript

SCOUTS, PILOTS = 2, 300
"""Runs that show what coins move in each pair, and runs that show the noise."""


class BatchCanaries(AgentGame):
    """A user of every batch is a canary: a coin decides which record of a pair it has. It is the first, or the last.

    A batch is what lies between two changes of the release in a trial run. After the canaries users double a few times
    more, since later releases may depend on them too. Pilot runs with the same seeds and one coin turned show this
    coin's effect, further ones how the releases scatter; the guess is Fisher's linear discriminant, less the effects of
    the other coins. The pair that it separates best is played, with the canaries that move most.
    """

    part = "batches"
    canaries = 16
    seen = f"the releases after each of up to {canaries} batches of users, and later whenever users have doubled"
    unseen = "users who are neither first nor last of their batch, actions, and other pairs of records"
    runs, budget = 1000, 300_000
    presumes = True
    runs_of_few: ClassVar[int] = 4000
    last = False

    def prepare(self) -> None:
        self.others = drawn(self.env)
        self.times, self.width = self.changes()
        self.batches = len(self.times) - 1
        self.places = list(range(self.batches))
        self.canaries = len(self.places)
        if not self.canaries:
            return
        while 2 * self.times[-1] <= self.most:
            self.times.append(2 * self.times[-1])
        self.users_a_run = 2 * self.times[-1]
        scenes, self.pilots = joint_pairs(self.env, drawn(self.env), self.agent(0), self.answers), self.afforded(PILOTS)
        self.records = scenes[0].records
        noise = self.noise()
        some = np.unique(np.linspace(0, self.canaries - 1, 4).astype(int))
        worth = [self.told_by(noise, self.moved(scene.records, some)) for scene in scenes]
        best = int(np.argmax(worth))
        self.last = True
        late = self.told_by(noise, self.moved(scenes[best].records, some))
        self.last = late > 1.2 * worth[best]  # the last users of batches have to be worth a fifth more
        self.records, self.pair = scenes[best].records, f"{scenes[best].words} (the worst of {len(scenes)} pairs)"
        if self.last:
            self.pair += ", of the last user of each batch"
        self.choose(self.moved(self.records, np.arange(self.canaries)), noise)

    def told_by(self, noise: Floats, move: Floats) -> float:
        """Return how much canaries reveal, given runs' noise (n, D) and the coins' effects (D, k)."""
        return float(np.sum(solved(noise, move) * move))

    def choose(self, move: Floats, noise: Floats) -> None:
        """Leave the canaries that reveal most, given what each coin moves (D, k) and runs' noise (n, D)."""
        strength = np.sqrt(np.maximum(np.sum(solved(noise, move) * move, axis=0), 0.0))
        order, ranks = np.argsort(-strength), np.arange(1, len(strength) + 1)
        # share of a lone canary's strength that its runs leave open
        unsure = 0.3 if (self.presumed or self.claim).rho is None else 0.06
        worth = np.cumsum(strength[order]) / ranks * (1 - unsure / np.sqrt(ranks))
        kept = sorted(order[: int(worth.argmax()) + 1].tolist())
        self.places, self.canaries, move = [self.places[k] for k in kept], len(kept), move[:, kept]
        # few canaries say little about their noise in one run
        self.runs = self.runs_of_few if self.canaries <= 4 else self.runs
        coins = np.random.default_rng(8).choice([-1.0, 1.0], (self.pilots, self.canaries))
        seen = np.array([self.served(self.agent(k), row) for k, row in enumerate(coins, start=self.pilots)])
        self.center = seen.mean(axis=0)
        residuals = seen - self.center - (coins - coins.mean(axis=0)) @ move.T
        noise = np.concatenate([noise, residuals])
        self.weights = solved(noise, move)
        self.covers = self.weights.T @ move

    def changes(self) -> tuple[list[int], int]:
        """Return after how many users the release changes in a trial run, 0 first, and how many numbers it has."""
        self.most = min(len(self.others.feedback), getattr(self.env.unwrapped, "horizon", USERS_A_RUN))
        times = changes(self.agent(0), self.others[: self.most], most=self.canaries)
        agent, told = self.agent(0), np.zeros(0)
        for look in transcript(agent, portions(self.others, times)):
            told = added(told, look.news)
        return [0, *times], len(told) or len(look.release)

    def moved(self, records: Records, places: NDArray[np.intp]) -> Floats:
        """Return the effects of these canaries' coins on the readings, shape (D, k)."""
        self.records, heads, moves = records, np.ones(self.canaries), []
        for scout in range(SCOUTS):
            whole = self.served(self.agent(scout), heads)
            turned = [self.served(self.agent(scout), heads - 2 * tail) for tail in np.eye(self.canaries)[places]]
            moves.append((whole - np.array(turned)).T / 2)
        return np.asarray(np.mean(moves, axis=0))

    def noise(self) -> Floats:
        """Return the releases of runs with the same records less their mean, shape (n, D)."""
        seen = np.array([self.served(self.agent(k), np.ones(self.canaries)) for k in range(self.pilots)])
        return np.asarray(seen - seen.mean(axis=0))

    def served(self, agent: Any, coins: Floats) -> Floats:
        """Serve batch after batch; return the first release, and how each differs from the one before, shape (D,)."""
        users, ends, ignored = self.others[: self.times[-1]], list[int](), set[int]()
        wide = np.result_type(users.contexts, self.records.contexts)  # a canary's context may be NaN
        contexts, actions, feedback = users.contexts.astype(wide), users.actions.copy(), users.feedback.copy()
        for k, (start, end) in enumerate(pairwise(self.times)):
            if k in self.places:
                tail, place = int(coins[self.places.index(k)] < 0), end - 1 if self.last else start
                contexts[place], actions[place] = self.records.contexts[tail], self.records.actions[tail]
                feedback[place] = self.records.feedback[tail]
            if k >= self.batches and end - 1 > start:  # of what these users let publish only the last is looked at
                ignored.add(end - 1)
                ends.append(end - 1)
            ends.append(end)
        released, told, at = np.zeros((len(self.times) - 1, self.width)), np.zeros(0), 0
        for look in transcript(agent, portions(Records(contexts, actions, feedback), ends)):
            if look.users and look.users not in ignored:
                told = added(told, look.news)
                seen = (told if len(told) else look.release)[: self.width]
                released[at, : len(seen)] = seen
                at += 1
        return np.diff(released, axis=0, prepend=0.0).ravel()

    def scores(self, readings: Floats) -> Floats:
        return np.asarray((readings - self.center) @ self.weights)
