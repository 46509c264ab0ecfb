"""Checks of a private agent: its budgets, and its audit, which alone sees noise drawn anywhere."""

import math
import warnings
from typing import Any

import numpy as np

from privbandit_agents.audits.claims import Claim
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.registry import games
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.shuffling import ShuffleAgent
from privbandit_agents.testing.replay import NotSeen
from privbandit_agents.testing.runs import environment, run, said_by
from privbandit_agents.zoo.registry import field_names, find, make, settings_of


def check_budgets(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """A private agent states its guarantee, spends no more than it, and runs at epsilon 0.001, 1000 and infinity.

    Budgets that its settings refuse are left out. An agent whose setting is rho runs at epsilon^2 / 2 in place of
    that; one that has neither setting runs as it is.
    """
    agent = make(name, environment(env_id, horizon), seed=5, **config)
    if agent.guarantee.notion == "none":
        return
    assert isinstance(agent, LocalAgent | ShuffleAgent | CentralAgent), (
        "an agent with a guarantee is a LocalAgent, a ShuffleAgent or a CentralAgent; "
        f"{name} is a {type(agent).__name__}"
    )
    stated = agent.guarantee
    finite = stated.epsilon if stated.epsilon is not None and math.isfinite(stated.epsilon) else 0.0
    empty = Claim(finite, stated.delta or 0.0).empty
    assert not empty, f"it claims {stated.words}, {empty}"
    others = {key: value for key, value in config.items() if key not in ("epsilon", "rho")}
    for epsilon in (1.0, 1e-3, 1000.0, math.inf):
        setting = budget_of(name, epsilon)
        try:
            settings_of(name, others | setting)
        except ValueError:  # its settings refuse such a budget, before it is an agent
            assert epsilon != 1, f"its settings refuse {setting}"
            continue
        with said_by("check_budgets", name, setting):
            _, private = run(name, env_id, horizon, others | setting)
        assert isinstance(private, LocalAgent | ShuffleAgent | CentralAgent)
        assert hasattr(private, "ledger"), (
            f"{name} promises privacy and has no ledger; in begin() write self.ledger = Ledger(epsilon=...)"
        )
        stated = private.guarantee
        promised = stated.rho if stated.epsilon is None else stated.epsilon
        assert promised is not None, "a guarantee of privacy says epsilon or rho; this one says neither"
        told, *_ = [key for key in ("epsilon", "rho") if getattr(stated, key) is not None]
        assert setting.get(told, promised) == promised, (
            f"the guarantee says {told} = {promised} where the setting is {setting[told]}"
        )
        assert stated.proven and stated.protects and stated.reference, (
            f"a guarantee must be proven and say what it protects and where the proof is; got {stated}"
        )
        ledger = private.ledger
        spent = ledger.spent_epsilon(stated.delta) if told == "epsilon" else ledger.spent().as_rho()
        assert spent <= promised * (1 + 1e-6), f"{told} {spent} was spent of {promised}"
        assert spent > 0, (
            f"nothing was entered in the ledger at {setting}; call self.ledger.spend(cost, group=...) before a report "
            "or a release counts"
        )


def budget_of(name: str, epsilon: float) -> dict[str, float]:
    """Return the setting that gives an agent a budget: epsilon, or rho, or none if it has neither."""
    known = field_names(find(name).load().Config)
    values = {"epsilon": epsilon, "rho": epsilon**2 / 2}
    return dict([(key, value) for key, value in values.items() if key in known][:1])


def check_audit(name: str, env_id: str, horizon: int, config: dict[str, Any]) -> None:
    """No audit at its default runs refutes a private agent's claim.

    It is played in the environment of that id if that is not one of the package's, else in a small world of a family
    that the agent plays. Warns with ``NotSeen`` of what no game looked at.
    """
    entry = find(name)
    if not issubclass(entry.load(), LocalAgent | ShuffleAgent | CentralAgent):
        return
    elsewhere = None if entry.audit or env_id.startswith("privbandit/") else env_id
    played = games(name, float(config.get("epsilon") or 1.0), env=elsewhere, config=config)
    if not played:
        return
    for game in played:
        # an honest agent is refuted in at most one of a thousand audits
        found = audit(game, game.runs, np.random.default_rng(14), 1 - (1 - 0.999) / len(played))
        level = "epsilon" if found.claim.rho is None else "rho"
        claimed, shown = f"{level} = {found.claim.level:.4g}", f"{level} >= {found.bound:.4g}"
        told = f"{found.name} claims {claimed}; an audit shows {shown} ({game.pair}; {found.event}; it saw {game.seen})"
        assert not found.refuted, told
    blind = "; ".join(f"{game.part or 'it'}: {game.unseen}" for game in played)
    warnings.warn(f"the audit of {name} could not see: {blind}.", NotSeen, stacklevel=3)
