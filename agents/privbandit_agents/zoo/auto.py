"""Names for who does not know which agent to take: ``make`` builds the default agent of a notion and a family."""

import math
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box

from privbandit_agents.base.agent import Agent
from privbandit_agents.base.labels import in_unit_cube
from privbandit_agents.base.settings import Budget, Count, Open01, PrivateSettings
from privbandit_agents.base.spaces import (
    PublicData,
    Space,
    arms_or_context,
    arms_with_features,
    assortments,
    labels_of_contexts,
    n_arms,
    no_context,
    one_context,
)


class Auto(Agent[Any]):
    """A name for other agents: public constants decide which one ``make`` builds."""

    @staticmethod
    def plays(observation_space: Space, action_space: Space) -> str:
        spaces = observation_space, action_space
        known = not all(other(*spaces) for other in (arms_or_context, no_context, assortments))
        return "" if known else "arms with features, their own or one context for all or none, and assortments"

    @classmethod
    @abstractmethod
    def chosen(cls, observation_space: Space, action_space: Space, public: PublicData | None, settings: Any) -> str:
        """Return the name of the agent; spaces, public rows and settings are public, so that choosing costs nothing."""


@dataclass(frozen=True)
class LocalBudget(PrivateSettings):
    """Settings of ``auto-local``, handed on to the agent that it stands for.

    Attributes:
        epsilon: privacy budget of every report, > 0; infinity adds no noise.
        horizon: expected number of users, where the agent plans for one; default: the environment's.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    horizon: Count | None = None
    noise: Literal["numpy", "secure"] = "numpy"

    def handed_on(self, known: Collection[str]) -> dict[str, Any]:
        """Return the settings for the agent that is built, which has those that are known."""
        return {key: value for key, value in asdict(self).items() if key in known}


class AutoLocal(Auto):
    """The default agent with local privacy: for arms, for arms that share a context, for assortments, and for labels.

    ``prec-ts`` for arms whose features are few and a part of [-1, 1], ``ldp-lasso`` if they are many, or have no bound
    or another one; ``ldp-mnl`` for assortments; ``smooth-ldp`` for arms that share one context in the unit cube, of at
    most three features; ``ldp-clicks`` for other shared contexts; ``ldp-ucb`` for arms without one. It is for labels if
    contexts lie in [0, 1] and there are public rows: ``kernel-ldp``, or ``lpct`` where a tree predicts held-out public
    rows better, or ``warm-ldp-sgd`` where there are two labels, a linear model does as well, and the budget is too
    small to remember single cells of contexts. With secure noise all of them are exact at every budget; the price at
    larger ones, for labels alone, is in docs/which-agent.md.

    *Formal guarantees.* Those of the agent that it stands for: ``make("auto-local", env).guarantee``. The choice reads
    public data alone: the spaces, and public rows.
    """

    Config = LocalBudget

    @classmethod
    def chosen(cls, observation_space: Space, action_space: Space, public: PublicData | None, settings: Any) -> str:
        if not arms_with_features(observation_space, action_space):
            return "prec-ts" if few_and_bounded(observation_space) else "ldp-lasso"
        if not no_context(observation_space, action_space):
            return "ldp-ucb"
        if not assortments(observation_space, action_space):
            return "ldp-mnl"
        cube = not in_unit_cube(observation_space)
        if public is None or not cube:
            return "smooth-ldp" if cube and (observation_space.shape or (0,))[0] <= 3 else "ldp-clicks"
        from privbandit_agents.local.choice import default_local  # loads what models need

        return default_local(public, n_arms(action_space))


@dataclass(frozen=True)
class JointBudget(PrivateSettings):
    """Settings of ``auto-joint``, handed on to the agent that it stands for.

    Attributes:
        epsilon: privacy budget, > 0; infinity adds no noise. Not used if ``rho`` is given.
        delta: of (epsilon, delta), in (0, 1).
        rho: zCDP budget instead of epsilon; ``adap-klucb``, whose privacy is pure, gets epsilon = sqrt(2 rho).
        horizon: number of users, where the agent plans for one; default: the environment's.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    epsilon: Budget = 1.0
    delta: Open01 = 1e-5
    rho: Budget | None = None
    horizon: Count | None = None
    noise: Literal["numpy", "secure"] = "numpy"

    def handed_on(self, known: Collection[str]) -> dict[str, Any]:
        """Return the settings for the agent that is built, which has those that are known: one budget.

        An agent with pure privacy gets epsilon = sqrt(2 rho), which implies rho (``pure_to_rho``).
        """
        given = asdict(self)
        if self.rho is not None:
            given["epsilon"] = None if "rho" in known else math.sqrt(2 * self.rho) * (1 - 1e-15)
            del given["delta"]
        return {key: value for key, value in given.items() if key in known and value is not None}


class AutoJoint(Auto):
    """The default agent with joint privacy: for arms, whether few or many features count, and for assortments.

    ``jdp-kernel`` for labels of contexts in the unit cube, if there are five public rows a label, and 20 at least;
    ``jdp-smooth`` if arms share another context in the unit cube, of at most 100 features, unless people return;
    ``jdp-linucb`` for other shared contexts, and if features of arms are few and a part of [-1, 1]; ``private-pursuit``
    if they are many, or have no bound or another one; ``newton-mnl`` for assortments; ``adap-klucb`` for arms without a
    context. All are exact by default, and with secure noise cost nothing but time.

    *Formal guarantees.* Those of the agent that it stands for: ``make("auto-joint", env).guarantee``. The choice reads
    public data alone: the spaces, and the number of public rows.
    """

    Config = JointBudget

    @classmethod
    def chosen(cls, observation_space: Space, action_space: Space, public: PublicData | None, settings: Any) -> str:
        if not assortments(observation_space, action_space):
            return "newton-mnl"
        if not no_context(observation_space, action_space):
            return "adap-klucb"
        shared = not one_context(observation_space, action_space)
        if shared and not in_unit_cube(observation_space):
            labels = not labels_of_contexts(observation_space, action_space)
            if public is not None and labels and len(public[1]) >= max(20, 5 * n_arms(action_space)):
                return "jdp-kernel"
            if settings.people is None and (observation_space.shape or (0,))[0] <= 100:
                return "jdp-smooth"
        assert isinstance(observation_space, Box)
        if len(observation_space.shape) == 1:
            return "jdp-linucb"
        return "jdp-linucb" if few_and_bounded(observation_space) else "private-pursuit"


def few_and_bounded(space: Space) -> bool:
    """Return whether features are few and a part of [-1, 1]: regression on all of them then beats a search."""
    assert isinstance(space, Box)
    return bool(np.all(space.low >= -1) and np.all(space.high <= 1)) and space.shape[1] <= 100
