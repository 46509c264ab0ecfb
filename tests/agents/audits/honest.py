"""Agents as honest strangers write them: reports of every shape, warm-ups in turn, generators that they passed in."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.spaces import arms_with_features
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger

ARMS = 10


@dataclass(frozen=True)
class Config:
    epsilon: float = 1.0
    people: int | None = None


@dataclass
class Sent:
    """A report as an object."""

    arms: Any
    answers: Any


class Pair(NamedTuple):
    """A report with names."""

    arms: Any
    answers: Any


class Turns(LocalAgent[Config, Any]):
    """All arms in turn for forty users, then the best by noisy answers; arms are public, answers hidden."""

    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        epsilon = self.config.epsilon
        self.guarantee = Guarantee.local(epsilon, 0.0, "this file", neighbours="replace-one-reward")
        self.ledger, self.cost = Ledger(epsilon=epsilon), Cost(epsilon=epsilon)
        self.sums, self.users = np.zeros(ARMS), 0

    def select_action(self, context: Any) -> Any:
        users = np.shape(context)[: np.ndim(context) - len(self.context_shape)]
        arm = self.users % ARMS if self.users < 40 else int(self.sums.argmax())
        return np.full(users, arm)[()]

    def frozen_rounds(self) -> int:
        return 1

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        noise = self.rng.laplace(scale=2 / self.config.epsilon, size=len(feedback))
        return self.packed(np.nan_to_num(action).astype(int), np.clip(np.nan_to_num(feedback), -1, 1) + noise)

    def packed(self, arms: Any, answers: Any) -> Any:
        return arms, answers

    def unpacked(self, report: Any) -> Any:
        return report

    def absorb(self, report: Any) -> None:
        arms, answers = self.unpacked(report)
        self.pay(len(answers))
        self.users += len(answers)
        self.sums = self.sums + np.bincount(np.clip(arms, 0, ARMS - 1), answers, ARMS)


class Mapped(Turns):
    """Reports are mappings."""

    def packed(self, arms: Any, answers: Any) -> Any:
        return {"arms": arms, "answers": answers}

    def unpacked(self, report: Any) -> Any:
        return report["arms"], report["answers"]


class Objects(Turns):
    """Reports are objects."""

    def packed(self, arms: Any, answers: Any) -> Any:
        return Sent(arms, answers)

    def unpacked(self, report: Any) -> Any:
        return report.arms, report.answers


class Named(Objects):
    """Reports are named tuples."""

    def packed(self, arms: Any, answers: Any) -> Any:
        return Pair(arms, answers)


class Listed(Turns):
    """Reports are a list, with a mapping for each user."""

    def packed(self, arms: Any, answers: Any) -> Any:
        return [{"arm": int(arm), "answer": float(one)} for arm, one in zip(arms, answers, strict=True)]

    def unpacked(self, report: Any) -> Any:
        return np.array([one["arm"] for one in report]), np.array([one["answer"] for one in report])


class Texts(Turns):
    """Reports are text, such as JSON."""

    def packed(self, arms: Any, answers: Any) -> Any:
        return [f"{arm} {int(one > 0)}" for arm, one in zip(arms, answers, strict=True)]

    def unpacked(self, report: Any) -> Any:
        return np.array([int(one.split()[0]) for one in report]), np.array([float(one.split()[1]) for one in report])


class Ragged(Turns):
    """The length of an array says the randomized answer."""

    def packed(self, arms: Any, answers: Any) -> Any:
        return [np.full(1 + int(one > 0), arm) for arm, one in zip(arms, answers, strict=True)]

    def unpacked(self, report: Any) -> Any:
        return np.array([one[0] for one in report]), np.array([len(one) - 1.0 for one in report])


class Own(Turns):
    """The author passes the generator on, and explores with one that ``begin`` spawns."""

    def __init__(self, observation_space: Any, action_space: Any, config: Any, rng: Generator | None = None) -> None:
        super().__init__(observation_space, action_space, config, rng)

    def begin(self) -> None:
        super().begin()
        self.rng_choices = self.rng.spawn(1)[0]

    def select_action(self, context: Any) -> Any:
        chosen = np.asarray(super().select_action(context))
        drawn = self.rng_choices.random((*chosen.shape, 2))
        return np.where(drawn[..., 0] < 0.1, (ARMS * drawn[..., 1]).astype(int), chosen)[()]


class Drawn(Own):
    """It explores with the generator that its author passed in: the devices'."""

    def select_action(self, context: Any) -> Any:
        chosen = np.asarray(Turns.select_action(self, context))
        return np.where(self.rng.random(chosen.shape) < 0.1, 0, chosen)[()]


class Curator(CentralAgent[Config, Any]):
    """A curator of others: all arms in turn, then the best of a noisy histogram."""

    Config = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        epsilon = self.config.epsilon
        self.guarantee = Guarantee.joint(epsilon, 0.0, None, "this file")
        self.ledger = Ledger(epsilon=epsilon)
        self.sums, self.users = np.zeros(ARMS), 0
        self.release = np.zeros(ARMS)

    def frozen_rounds(self) -> int:
        return 1 if self.users < ARMS else 25 - self.users % 25

    def select_action(self, context: Any) -> Any:
        users = np.shape(context)[: np.ndim(context) - len(self.context_shape)]
        arm = self.users % ARMS if self.users < ARMS else int(np.argmax(self.release))
        return np.full(users, arm)[()]

    def curate(self, contexts: Any, actions: Any, feedback: Any) -> Any:
        new = None
        for action, answer in zip(np.nan_to_num(actions), np.clip(np.nan_to_num(feedback), -1, 1), strict=True):
            self.sums[int(np.clip(action, 0, ARMS - 1))] += answer
            self.users += 1
            if self.users % 25 == 0:
                batch = self.users // 25
                self.ledger.spend(Cost(epsilon=self.config.epsilon), group=batch)
                noise = self.rng.laplace(scale=2 / self.config.epsilon, size=ARMS)
                new, self.sums = self.sums + noise, np.zeros(ARMS)
        return new


def define() -> None:
    """Define a class with a method that hides a value of the base's."""

    class Hiding(Turns):
        def cost(self) -> float:  # type: ignore[override]
            return 1.0


class HidesState(Turns):
    """An attribute of the author's has the name of a method of the base."""

    def begin(self) -> None:
        super().begin()
        self.state = default_rng(0).random(3)  # type: ignore[assignment, method-assign]
