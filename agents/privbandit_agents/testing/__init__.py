"""The conformance suite of agents, for this package's and for outsiders' alike.

Three nouns: a *check* (one test of any agent), a *script* (reports or publications, written down), a *twin* (an agent
that replays them).

Register an agent, then call ``check_agent("mine", "privbandit/Linear-v0")`` in a test, or parametrise over ``CHECKS``
for one test a check.
"""

import warnings
from functools import wraps
from typing import Any

from privbandit_agents.base.agent import LearningAgent
from privbandit_agents.testing.loops import check_actions, check_frozen, check_resume, check_seeds
from privbandit_agents.testing.noise import check_noise
from privbandit_agents.testing.people import check_people
from privbandit_agents.testing.privacy import check_audit, check_budgets
from privbandit_agents.testing.records import check_hostile_records
from privbandit_agents.testing.replay import NotSeen, check_replay
from privbandit_agents.testing.reports import check_reports
from privbandit_agents.testing.runs import Check, environment, said_by
from privbandit_agents.testing.shuffling import check_shuffle
from privbandit_agents.testing.twins import check_keys, check_local
from privbandit_agents.zoo.registry import find, make, resolved

__all__ = ["CHECKS", "NotSeen", "check_agent"]

HORIZON = 300


def check_agent(name: str, env_id: str, horizon: int = HORIZON, *, audit: bool = False, **config: Any) -> None:
    """Run every check on a registered agent.

    Without ``audit`` nothing looks at noise that a local agent draws itself, or that a joint agent draws outside of
    ``publish``. Warnings of the class ``NotSeen`` name the parts that a check could not look at.

    Args:
        name: as for ``make``.
        env_id: an environment that the agent plays.
        horizon: length of the runs.
        audit: whether to audit a private agent too, which takes seconds to a minute.
        **config: settings of the agent.

    Raises:
        AssertionError: a check failed, or the agent raised something in it; the message states the expectation.
    """
    __tracebackhide__ = True  # pytest shows the check that failed, not its way there
    name, _ = resolved(name, env := environment(env_id, horizon), config)
    make(name, env, seed=0, **config)  # what cannot be made says so itself
    for check in checks_for(name):
        check(name, env_id, horizon, config)
    if audit:
        check_audit(name, env_id, horizon, config)


def naming(check: Check) -> Check:
    """Return a check that names itself, the agent and its settings, whatever the agent raises."""

    @wraps(check)
    def named(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
        __tracebackhide__ = True
        with said_by(check.__name__, name, config), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* promises little: ")  # checks play with little noise, too
            check(name, env_id, horizon, config)

    return named


CHECKS: tuple[Check, ...] = tuple(
    naming(check)
    for check in (
        check_seeds,
        check_actions,
        check_frozen,
        check_resume,
        check_keys,
        check_hostile_records,
        check_budgets,
        check_people,
        check_local,
        check_reports,
        check_shuffle,
        check_replay,
        check_noise,
    )
)
LEARNER_CHECKS = CHECKS[:2]  # checks for agents that own their loop


def checks_for(name: str) -> tuple[Check, ...]:
    return LEARNER_CHECKS if issubclass(find(name).load(), LearningAgent) else CHECKS
