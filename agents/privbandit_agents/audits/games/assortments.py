"""The audit of the Gram matrices of private assortments: many users of a run are canaries, every release is read."""

from typing import Any, ClassVar

import numpy as np

from privbandit_agents.audits.agents import AgentGame
from privbandit_agents.audits.claims import Claim, Floats
from privbandit_agents.audits.games.counters import Decoder, strongest
from privbandit_agents.audits.games.derivatives import MinimiserGame

CAPACITY, PAIRS, ROUNDS = 10, 2, 32


class GramGame(AgentGame):
    """A canary's items are all along one coordinate, or all along another one: V_11 - V_22 moves by K, up or down.

    Two pairs of coordinates take turns. All other users are offered nothing. The release after every user is
    [alpha V^(-1/2) | theta], where alpha is public and V is what PrivateCov released, shifted by a public constant.
    PrivateCov's noise is Gaussian and has a share of the budget: the claim is that share.
    """

    part = "Gram matrix"
    besides = (MinimiserGame,)
    pair = "one user's K items at e1 or at e2"
    canaries = ROUNDS // 2
    seen = f"V after each of {ROUNDS} users, as the release tells it"
    unseen = "users of the second half, actions, and other pairs of records"
    runs = 1000
    world: ClassVar = dict(
        id="privbandit/Assortment-v0", n_items=CAPACITY, capacity=CAPACITY, dim=2 * PAIRS, horizon=ROUNDS
    )
    settings: ClassVar = {"mle_share": 0.05, "calls": 1, "exploration": 1, "growth": 1.0, "horizon": ROUNDS}

    def prepare(self) -> None:
        agent = self.agent(0)
        self.users = strongest(agent.cov.counter, ROUNDS)
        self.canaries = len(self.users)
        self.decoder = Decoder.of(agent.cov.counter, ROUNDS, self.users, np.arange(self.canaries) % PAIRS)
        self.covers = CAPACITY * self.decoder.covers
        self.widths = np.zeros(ROUNDS)
        for t in range(ROUNDS):
            self.serve(agent, None)
            self.widths[t] = agent.config.bonus_scale * agent._width()

    def claimed(self) -> Claim:
        """Return the claim of PrivateCov's releases: their share of rho, or what (epsilon, delta) leaves them."""
        agent = self.agent(0)
        guarantee = agent.guarantee
        rho = agent.cov.counter.rho if guarantee.rho is None else (1 - agent.config.mle_share) * guarantee.rho
        return Claim(guarantee.epsilon or np.inf, guarantee.delta or self.delta, rho)

    def serve(self, agent: Any, along: int | None) -> None:
        """Serve a user who was offered all items along a coordinate, or nothing, and who bought nothing."""
        context, offered = np.ones((CAPACITY, 2 * PAIRS + 1)), np.full(CAPACITY, along is not None, dtype=np.int8)
        context[:, :-1] = 0.0 if along is None else np.eye(2 * PAIRS)[along]
        agent.update(context, offered, -1)

    def served(self, agent: Any, coins: Floats) -> Floats:
        along = dict(zip(self.users.tolist(), (2 * self.decoder.coordinates + (coins < 0)).tolist(), strict=True))
        roots = np.zeros((ROUNDS, 2 * PAIRS, 2 * PAIRS))
        for t in range(ROUNDS):
            self.serve(agent, along.get(t))
            roots[t] = agent.release[:, :-1] / self.widths[t]
        return np.asarray(np.linalg.inv(roots @ roots.swapaxes(1, 2)), np.float64)

    def scores(self, readings: Floats) -> Floats:
        diagonals = np.diagonal(readings, axis1=1, axis2=2)
        return self.decoder(diagonals[:, ::2] - diagonals[:, 1::2])
