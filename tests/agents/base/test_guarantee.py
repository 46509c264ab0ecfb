import math

import gymnasium as gym
import pytest
from privbandit_agents import Guarantee, make


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (Guarantee(), "none"),
        (Guarantee.local(1.0, 0.0, "", arithmetic="exact"), "local 1 a visit, exact"),
        (Guarantee.local(0.5, 1e-5, "", proven=False), "local 0.5, 1e-05 a visit, real, unproven"),
        (Guarantee.joint(None, None, 0.1, ""), "joint rho 0.1 a visit (epsilon 1.91 at delta 1e-05), real"),
        (Guarantee.joint(2.0, 0.01, 0.30512, ""), "joint 2, 0.01 a visit (rho 0.305), real"),
        (Guarantee.local(math.inf, 0.0, ""), "local inf a visit, real"),
    ],
)
def test_a_promise_in_words(guarantee: Guarantee, words: str) -> None:
    assert guarantee.words == words


def test_an_agent_says_it() -> None:
    env = gym.make("privbandit/Linear-v0")
    assert make("jdp-linucb", env, seed=0).guarantee.words.startswith("joint 1, 1e-05 a visit (rho 0.03")
    assert make("jdp-linucb", env, seed=0, rho=math.inf).guarantee.words.startswith("joint rho inf")
