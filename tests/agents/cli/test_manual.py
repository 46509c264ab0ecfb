"""``privbandit show``: every name has a page, and every setting a meaning."""

import dataclasses
import inspect
import re
from typing import Any

import gymnasium as gym
import pytest
from privbandit_agents.audits.registry import TARGETS
from privbandit_agents.cli.listing import asked, why_not
from privbandit_agents.cli.manual import meanings, page
from privbandit_agents.experiments.jobs.catalogue import agent_defaults, env_class, env_defaults, env_summary
from privbandit_agents.zoo.entries import AGENTS, FAMILIES

from privbandit_envs.registration import ENV_IDS


def printed(name: str) -> str:
    return "\n".join(page(name))


def test_every_setting_of_an_agent_has_a_meaning() -> None:
    for name, entry in AGENTS.items():
        told = meanings(entry.load().Config)
        assert [key for key in agent_defaults(name) if not told.get(key)] == [], name


@pytest.mark.parametrize("id", ENV_IDS)
def test_every_argument_of_an_environment_has_a_meaning(id: str) -> None:
    told = meanings(env_class(id))
    assert [key for key in env_defaults(id) if not told.get(key)] == ["instance_seed"]


@pytest.mark.parametrize(
    "name", ["newton-mnl", "Linear-v0", "privbandit/SparseLinear-v0", "lpct-fig4", "rice", *TARGETS]
)
def test_a_page_starts_with_the_name(name: str) -> None:
    assert printed(name).splitlines()[0].endswith(name)


def test_the_page_of_a_private_agent_says_what_it_promises() -> None:
    text = printed("dpmnl")
    for said in ("joint rho", "for real numbers: simulate only", "docs/privacy/dpmnl.md", "privbandit audit dpmnl"):
        assert said in text
    assert "exact for the numbers that leave" in printed("newton-mnl")


@pytest.mark.wide
def test_what_a_list_says_without_imports_is_what_modules_say() -> None:
    kinds = {name: (one.families, one.notion, one.arithmetic) for name, one in AGENTS.items() if one.notion}
    assert kinds == {name: asked(name)[:3] for name in kinds} and {*FAMILIES.values()} <= {*ENV_IDS}
    for id in ENV_IDS:
        assert env_summary(id) == inspect.getdoc(env_class(id)).partition("\n")[0]  # type: ignore[union-attr]


SMALL: dict[str, dict[str, Any]] = {"linear": {"dim": 2}, "sparse": {"dim": 6, "sparsity": 2}}
SMALL["clicks"] = {"n_arms": 2, "dim": 2}


@pytest.mark.wide_at("kernel-ldp", "psgd-*", "pglm", "auto-*")
@pytest.mark.parametrize("name", [name for name, one in AGENTS.items() if one.notion not in ("", "none")])
def test_what_a_list_says_of_deployment_is_what_secure_noise_does(name: str) -> None:
    """Agents that may be deployed are exact with it at 0.5, 1 and 4; shuffled coins where they can be tossed."""
    entry = AGENTS[name]
    for family in entry.families:
        env = gym.make(FAMILIES[family], horizon=100, **SMALL.get(family, {}))
        for epsilon in (0.5, 1.0, 4.0) if entry.secure else (1.0,):
            found = why_not(name, env, epsilon=epsilon)
            assert bool(found) != entry.secure, found
            assert not found or re.fullmatch(r"[^\n]*; take [a-z-]+\.", found)


def test_the_page_of_a_preset_names_its_agent_and_settings() -> None:
    assert "A preset of ldp-linucb: bonus_scale=1.0." in printed("ldp-oful")
    assert "A preset of jdp-linucb: window=4000." in printed("sw-jdp-linucb")
    assert "A preset" not in printed("ldp-linucb")


def test_the_page_of_a_retired_agent_names_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AGENTS, "old", dataclasses.replace(AGENTS["greedy"], successor="linucb"))
    assert "Retired: take linucb." in printed("old") and "Retired" not in printed("linucb")


def test_a_page_says_why_an_agent_must_not_be_deployed() -> None:
    told = {name: " ".join(printed(name).split()) for name in ("jdp-linucb", "fliphat", "phist")}
    assert "yes, with noise=secure and without a seed" in told["jdp-linucb"]
    assert "no: fliphat has no noise='secure'; take jdp-linucb." in told["fliphat"]
    assert "no: noise='secure' is for reports of whole numbers" in told["phist"]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean newton-mnl"):
        page("newton-mn")
