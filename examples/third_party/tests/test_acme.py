"""The environment and the agents conform, learn, and survive audits that refute what is calibrated wrongly."""

import acme_bandits.agents
import acme_bandits.reminders  # noqa: F401  (registers the environment)
import gymnasium as gym
import numpy as np
import pytest
from acme_bandits.games import TwoCounts
from privbandit_agents import make, play
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import game
from privbandit_agents.testing import check_agent

from privbandit_envs.testing import check_bandit_env

WORLD = "acme/Reminders-v0"


def test_the_environment_conforms():
    check_bandit_env(WORLD)


@pytest.mark.parametrize("name", ["acme-local", "acme-joint"])
def test_the_agents_conform(name):
    check_agent(name, WORLD)


@pytest.mark.parametrize(("name", "epsilon"), [("acme-local", 4.0), ("acme-joint", 1.0)])
def test_the_agents_learn(name, epsilon):
    env = gym.make(WORLD, horizon=5000, instance_seed=1)
    ours, uniform = (
        play(env, make(agent, env, seed=0, **settings), seed=0).regret[-1]
        for agent, settings in ((name, {"epsilon": epsilon}), ("uniform", {}))
    )
    assert ours < 0.6 * uniform


def test_the_audit_finds_nearly_all_of_what_a_device_reveals():
    found = audit(game("acme-local", epsilon=1.0), runs=20_000, rng=np.random.default_rng(0))
    assert not found.refuted and found.lower_bound > 0.8


def test_noise_of_half_the_scale_is_refuted():
    assert not audit(TwoCounts(1.0), runs=20_000, rng=np.random.default_rng(0)).refuted
    assert audit(TwoCounts(1.0, sensitivity=1.0), runs=20_000, rng=np.random.default_rng(0)).refuted
