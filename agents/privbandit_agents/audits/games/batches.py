"""The game of canaries with any joint agent that claims zCDP, or has Gaussian noise: one in each batch of users."""

from itertools import pairwise
from typing import Any

import numpy as np

from privbandit_agents.audits.agents import CanaryGame
from privbandit_agents.audits.claims import Floats
from privbandit_agents.audits.games.counters import STRONG
from privbandit_agents.audits.games.pairs import joint_pairs
from privbandit_agents.audits.games.readings import numbers, solved
from privbandit_agents.audits.records import Records, drawn

USERS = 256
"""Users of a run, at most."""
SCOUTS, PILOTS = 2, 600
"""Runs that show what coins move in each pair, and runs that show the noise."""


class BatchCanaries(CanaryGame):
    """The first user of every batch is a canary: a coin says which record of a pair it has.

    A batch is what lies between two changes of the release in a trial run. After the canaries users double a few times
    more, since later releases may tell of them too. Pilot runs with the same seeds and one coin turned show what this
    coin moves, further ones how the releases scatter; the guess is the sign of Fisher's linear discriminant, less what
    the other coins add to it. The pair that it tells apart best is played, with the canaries that move most.
    """

    part = "batches"
    canaries = 16
    seen = f"the releases after each of up to {canaries} batches of users, and later whenever users have doubled"
    unseen = "users who are not the first of their batch, actions, and other pairs of records"
    runs = 3000

    def prepare(self) -> None:
        self.others = drawn(self.env)
        self.times, self.width = self.changes()
        self.canaries = len(self.times) - 1 if self.claim.rho is not None else 0
        if not self.canaries:
            return
        self.places = list(range(self.canaries))
        while 2 * self.times[-1] <= USERS:
            self.times.append(2 * self.times[-1])
        scenes = joint_pairs(self.env, self.others, self.agent(0))
        moves, noise = [self.moved(scene.records) for scene in scenes], self.noise()
        best = int(np.argmax([np.sum(solved(noise, move) * move) for move in moves]))
        self.records, self.pair = scenes[best].records, f"{scenes[best].words} (the worst of {len(scenes)} pairs)"
        self.choose(moves[best], noise)

    def choose(self, move: Floats, noise: Floats) -> None:
        """Leave the canaries that move the releases far, given what each coin moves (D, k) and runs' noise (n, D)."""
        strength = np.sqrt(np.maximum(np.sum(solved(noise, move) * move, axis=0), 0.0))
        self.places = np.flatnonzero(strength >= STRONG * strength.max()).tolist()
        self.canaries, move = len(self.places), move[:, self.places]
        coins = np.random.default_rng(8).choice([-1.0, 1.0], (PILOTS, self.canaries))
        seen = np.array([self.served(self.agent(k), row) for k, row in enumerate(coins, start=PILOTS)])
        self.center = seen.mean(axis=0)
        residuals = seen - self.center - (coins - coins.mean(axis=0)) @ move.T
        self.weights = solved(np.concatenate([noise, residuals]), move)
        self.covers = self.weights.T @ move

    def changes(self) -> tuple[list[int], int]:
        """Return after how many users the release changes in a trial run, 0 first, and how many numbers it has."""
        agent, times = self.agent(0), [0]
        before = numbers(getattr(agent, "release", None))
        for t in range(min(USERS, getattr(self.env.unwrapped, "horizon", USERS))):
            one = self.others[np.array([t])]
            agent.update(one.contexts, one.actions, one.feedback)
            now = numbers(getattr(agent, "release", None))
            if not np.array_equal(now, before):
                times.append(t + 1)
            before = now
            if len(times) > self.canaries:
                break
        return times, len(before)

    def moved(self, records: Records) -> Floats:
        """Return what each coin moves, shape (D, k)."""
        self.records, heads, moves = records, np.ones(self.canaries), []
        for scout in range(SCOUTS):
            whole = self.served(self.agent(scout), heads)
            turned = [self.served(self.agent(scout), heads - 2 * tail) for tail in np.eye(self.canaries)]
            moves.append((whole - np.array(turned)).T / 2)
        return np.asarray(np.mean(moves, axis=0))

    def noise(self) -> Floats:
        """Return the releases of runs with the same records less their mean, shape (n, D)."""
        seen = np.array([self.served(self.agent(k), np.ones(self.canaries)) for k in range(PILOTS)])
        return np.asarray(seen - seen.mean(axis=0))

    def served(self, agent: Any, coins: Floats) -> Floats:
        """Serve batch after batch; return the first release, and how each differs from the one before, shape (D,)."""
        released = np.zeros((len(self.times) - 1, self.width))
        for k, (start, end) in enumerate(pairwise(self.times)):
            users = self.others[slice(start, end)]
            if k in self.places:
                tail = int(coins[self.places.index(k)] < 0)
                users = users.led_by(self.records[np.array([tail])])
            agent.update(users.contexts, users.actions, users.feedback)
            told = numbers(getattr(agent, "release", None))[: self.width]
            released[k, : len(told)] = told
        return np.diff(released, axis=0, prepend=0.0).ravel()

    def scores(self, readings: Floats) -> Floats:
        return np.asarray((readings - self.center) @ self.weights)
