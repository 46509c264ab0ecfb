"""Agents with a fault that numbers, extremes, 256 users or keys of an audit do not show; and the same without it.

``fault`` is one of ``DEVICES`` or ``CURATORS``; "" is honest.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import default_rng
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.spaces import arms_with_features
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger

AUDIT, CHECK = "audit", "check_agent"
DEVICES = {
    "key": (AUDIT, "the answer is a key of the report"),
    "order": (AUDIT, "the order of keys tells the answer"),
    "sign of zero": (AUDIT, "a zero has the sign of the answer"),
    "dtype": (AUDIT, "an array is of 32 bits if the answer is high"),
    "shape": (AUDIT, "so is its shape"),
    "length": (AUDIT, "so is the length of a list"),
    "text": (AUDIT, "the answer is a word"),
    "interior": (AUDIT, "fractional answers are sent as they are"),
    "inside": (AUDIT, "contexts inside the domain are sent as they are"),
    "late": (AUDIT, "answers are sent as they are after 300 users"),
    "later": (AUDIT, "answers are sent as they are after 3000 users"),
    "public key": (CHECK, "two agents without a seed share"),
    "key of the module": (CHECK, r"hidden\.PUBLIC draws noise that two agents|draw from self\.rng alone"),
    "numpy's key": (CHECK, r"numpy.random draws noise that|draw from self\.rng"),
    "key in the call": (CHECK, "two agents without a seed share"),
    "half a public key": (CHECK, "number [0-9]+ of a report has noise that two agents"),
    "clock": (CHECK, "two agents without a seed share"),
    "kept in the class": (CHECK, "HiddenDevice.kept changes with the users"),
    "kept in the module": (CHECK, "hidden.KEPT changes with the users"),
    "kept in a default": (CHECK, r"a default of HiddenDevice.store\(\) changes with the users"),
    "kept by a fixed name": (CHECK, "it has seen a record: self.aside"),
    "kept by choosing": (CHECK, "select_action.. keeps something of a context: self.aside"),
    "spends by the answer": (CHECK, r"changed more than rng: self\.ledger"),
    "says nothing": (AUDIT, "which says nothing"),
}
"""What stops a device with a fault, and what the fault is, or what is said."""
CURATORS = {
    "raw pulls": (CHECK, "other users' actions differ though all releases are the same"),
    "raw schedule": (CHECK, r"frozen_rounds\(\) differs"),
    "public key": (CHECK, "two agents without a seed share"),
    "dtype": (AUDIT, "the release is of 32 bits if the sum is high"),
    "late": (AUDIT, "releases are exact from the 300th user on"),
}
KEPT: list[float] = []
PUBLIC = default_rng(3)


@dataclass(frozen=True)
class Config:
    epsilon: float = 1.0
    fault: str = ""


class HiddenDevice(LocalAgent[Config, Any]):
    """A device sends the clipped answer with Laplace noise, and nothing else; arm 0 and 1 are played in turn."""

    Config = Config
    plays = staticmethod(arms_with_features)
    fixed = LocalAgent.fixed | {"aside"}
    kept = 0.0

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.public = default_rng(42)

    def begin(self) -> None:
        epsilon = self.config.epsilon
        delta = 1 - 1e-12 if self.fault == "says nothing" else 0.0
        self.guarantee = Guarantee.local(epsilon, delta, "this file")
        self.ledger, self.cost = Ledger(epsilon=epsilon, delta=delta), Cost(epsilon=epsilon)
        self.total, self.users, self.aside = np.zeros(1), 0, np.zeros(1)

    @property
    def fault(self) -> str:
        return self.config.fault

    def select_action(self, context: Any) -> Any:
        users = np.shape(context)[: np.ndim(context) - len(self.context_shape)]
        if self.fault == "kept by choosing":
            self.aside = np.array([np.nansum(context)])
        return np.full(users, int(self.total[0] > 0))[()]

    def noise(self, n: int) -> Any:
        scale = 2 / self.config.epsilon
        if self.fault == "public key":
            return self.public.laplace(scale=scale, size=n)
        if self.fault == "key of the module":
            return PUBLIC.laplace(scale=scale, size=n)
        if self.fault == "numpy's key":
            return np.random.laplace(scale=scale, size=n)  # noqa: NPY002
        if self.fault == "key in the call":
            return default_rng(42).laplace(scale=scale, size=n)
        if self.fault == "clock":
            return default_rng(int(time.time()) // 10**6).laplace(scale=scale, size=n)
        if self.fault == "half a public key":
            signs = default_rng(42).integers(2, size=n) * 2 - 1
            return signs * np.abs(self.rng.laplace(scale=scale, size=n))
        return self.rng.laplace(scale=scale, size=n)

    def store(self, answers: Any, there: list[float] = []) -> None:  # noqa: B006
        there[:] = [float(answers.sum())]

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        answer = np.clip(np.nan_to_num(np.asarray(feedback, float)), -1, 1)
        sent, n, high, fault = answer + self.noise(len(answer)), len(answer), bool(answer[0] > 0), self.fault
        if fault == "key":
            return {float(answer[0]): sent}
        if fault == "order":
            return {"a": sent, "b": 1} if high else {"b": 1, "a": sent}
        if fault == "sign of zero":
            return np.column_stack([sent, np.copysign(0.0, answer)])
        if fault == "dtype":
            return sent.astype(np.float32 if high else np.float64)
        if fault == "shape":
            return sent[:, None] if high else sent
        if fault == "length":
            return [[one] * (1 + int(own > 0)) for one, own in zip(sent, answer, strict=True)]
        if fault == "text":
            return [(float(one), "yes" if own > 0 else "no") for one, own in zip(sent, answer, strict=True)]
        if fault == "interior":
            return np.where(answer == np.round(answer), sent, answer)
        if fault == "inside":
            inside = (np.abs(context) < 1).all(axis=(1, 2))
            return np.column_stack([sent, np.where(inside, np.nan_to_num(context).sum(axis=(1, 2)), 0.0)])
        if fault in ("late", "later") and self.users > (300 if fault == "late" else 3000):
            return answer
        if fault == "kept in the class":
            HiddenDevice.kept = float(answer.sum())
        if fault == "kept in the module":
            KEPT[:] = [float(answer.sum())]
        if fault == "kept in a default":
            self.store(answer)
        if fault == "kept by a fixed name":
            self.aside = np.array([answer.sum()])
        if fault == "spends by the answer":
            self.ledger.delta = 1e-12 * abs(float(np.clip(np.nan_to_num(context), -1, 1).sum()))
        return {"sent": sent, "times": n} if fault == "mapping" else sent

    def absorb(self, report: Any) -> None:
        while isinstance(report, dict):
            report = next(value for value in report.values() if np.ndim(value))
        rows = [np.ravel(np.asarray(row, object))[0] for row in report]
        self.pay(len(rows))
        self.users += len(rows)
        self.total = self.total + float(np.sum(np.array(rows, float)))


class HiddenCurator(CentralAgent[Config, Any]):
    """A curator releases the mean answers of two arms after every 16 users, with Laplace noise of its own."""

    Config = Config
    plays = staticmethod(arms_with_features)

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.public = default_rng(42)

    def begin(self) -> None:
        epsilon = self.config.epsilon
        self.guarantee = Guarantee.joint(epsilon, 0.0, None, "this file")
        self.ledger = Ledger(epsilon=epsilon)
        self.sums, self.pulls, self.users, self.batch = np.zeros(2), np.zeros(2), 0, 0
        self.release = np.zeros(2)

    def select_action(self, context: Any) -> Any:
        users = np.shape(context)[: np.ndim(context) - len(self.context_shape)]
        bonus = 5 / np.sqrt(1 + self.pulls) if self.config.fault == "raw pulls" else 0.0
        return np.full(users, int(np.argmax(self.release + bonus)))[()]

    def frozen_rounds(self) -> int:
        left = 16 - self.users % 16
        return 1 if self.config.fault == "raw pulls" or (self.config.fault and self.sums[0] > 3) else left

    def curate(self, contexts: Any, actions: Any, feedback: Any) -> Any:
        new = None
        for action, answer in zip(actions, feedback, strict=True):
            arm = 0 if not np.isfinite(action) else int(np.clip(action, 0, 1))
            self.sums[arm] += np.clip(np.nan_to_num(answer), -1, 1)
            self.pulls[arm] += 1
            self.users += 1
            if self.users % 16 == 0:
                new = self.made()
        return new

    def made(self) -> Any:
        self.ledger.spend(Cost(epsilon=self.config.epsilon), group=self.batch)
        self.batch += 1
        drawn = (self.public if self.config.fault == "public key" else self.rng).laplace(
            scale=4 / self.config.epsilon, size=2
        )
        if self.config.fault == "late" and self.users >= 300:
            drawn = drawn * 1e-3
        sums, self.sums = self.sums, np.zeros(2)
        kind = np.float32 if self.config.fault == "dtype" and sums.sum() > 0 else np.float64
        return ((sums + drawn) / 16).astype(kind)
