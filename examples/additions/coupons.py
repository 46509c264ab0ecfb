"""Customers of a few segments redeem coupons; users are served by counts."""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from privbandit_agents import make, play

from privbandit_envs import ArmProblem, Support, check_bandit_env, register


class Coupons(ArmProblem):
    """Send a customer one of K coupons; each segment of customers redeems each with a probability of its own."""

    def __init__(self, rng, *, n_coupons=4, n_segments=6, horizon=2000):
        self.observation_space = Box(0, 1, (n_segments,), np.float32)
        self.action_space = Discrete(n_coupons)
        self.redeem = rng.beta(2, 4, (n_segments, n_coupons))
        self.segments = np.eye(n_segments, dtype=np.float32)

    def contexts(self, n, rng):
        return self.segments[rng.integers(len(self.segments), size=n)]

    def means(self, contexts):
        return self.redeem[contexts.argmax(axis=1)]

    def rewards(self, means, rng):
        return (rng.random((len(means), 1)) < means).astype(float)  # one uniform a user, shared by the arms

    def support(self):
        return Support(self.segments, np.full(len(self.segments), 1 / len(self.segments)))

    def outcome_law(self, contexts, actions):
        chance = self.means(contexts)[np.arange(len(contexts)), actions]
        return np.tile([0.0, 1.0], (len(chance), 1)), np.stack([1 - chance, chance], axis=1)


register("shop/Coupons-v0", "coupons:Coupons")

if __name__ == "__main__":
    check_bandit_env("shop/Coupons-v0")
    env = gym.make("shop/Coupons-v0", n_coupons=3, horizon=1_000_000)
    uniform = play(env, make("uniform", env, seed=0), seed=0)
    private = play(env, make("auto-local", env, seed=0, epsilon=1.0), seed=0)  # one noisy report of each customer
    assert uniform.simulation == "counts" and private.regret[-1] < uniform.regret[-1] / 2
