"""``privbandit show``: every name has a page, and every setting a meaning."""

import inspect

import pytest
from privbandit_agents.audits.registry import TARGETS
from privbandit_agents.cli.listing import asked
from privbandit_agents.cli.manual import meanings, page
from privbandit_agents.experiments.jobs.catalogue import agent_defaults, env_class, env_defaults, env_summary
from privbandit_agents.zoo import AGENTS, FAMILIES

from privbandit_envs.registration import ENV_IDS


def printed(name: str) -> str:
    return "\n".join(page(name))


@pytest.mark.parametrize("name", AGENTS)
def test_every_setting_of_an_agent_has_a_meaning(name: str) -> None:
    told = meanings(AGENTS[name].load().Config)
    assert [key for key in agent_defaults(name) if not told.get(key)] == []


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


def test_what_a_list_says_without_imports_is_what_modules_say() -> None:
    kinds = {name: (one.families, one.notion, one.arithmetic) for name, one in AGENTS.items() if one.notion}
    assert kinds == {name: asked(name) for name in kinds} and {*FAMILIES.values()} <= {*ENV_IDS}
    for id in ENV_IDS:
        assert env_summary(id) == inspect.getdoc(env_class(id)).partition("\n")[0]  # type: ignore[union-attr]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'newton-mnl'"):
        page("newton-mn")
