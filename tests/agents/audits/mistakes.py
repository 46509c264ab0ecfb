"""Agents as somebody writes them who makes one mistake, and the same agents without it.

``mistake`` is one of ``DEVICES``, ``CURATORS`` and ``BOXES``; with ``mended`` the agent is built alike and keeps its
promise. None says when its policy changes, none calls ``publish``, and all draw their noise themselves. With ``own``
devices have a generator that ``begin`` spawns, and draw more for large answers.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.base.guarantee import Guarantee
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.shuffling import ShuffleAgent, Shuffler
from privbandit_agents.base.spaces import arms_with_features
from privbandit_agents.privacy.accounting.conversions import gaussian_mu
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.accounting.ledger import Ledger
from privbandit_agents.zoo.plugins import register_agent

DEVICES = {
    "eps-split": "both parts of a report have the whole of epsilon",
    "laplace-l2": "Laplace noise for an l2 ball",
    "sigma-of-epsilon": "epsilon where rho belongs",
    "memo": "a record seen before gets the same report",
    "missing-flag": "no answer sends exact zeros",
    "shared-noise": "one draw for all devices of a call",
    "masked": "a one-time pad is sent with what it masks",
    "multiplied": "noise multiplies the value",
    "fraction": "noise lies on a grid, and the value between its points",
}
CURATORS = {
    "less-noise": "Laplace noise x 0.7",
    "raw-once": "the policy looks at raw sums once",
    "reused-noise": "one draw for all releases of a running sum",
    "std-scale": "features over the batch's raw deviation",
    "variance-epoch": "a batch ends by the answers' variance",
    "tree-log": "each node of a tree has the noise of one release",
    "drop-missing": "how many answered is published",
    "epochs": "five noisy steps paid for once",
    "private-count": "a noisy sum over a raw count",
    "subsampled": "a quarter of the users, and a quarter of the noise",
    "max-clip": "the batch's largest answer is clip and noise scale",
    "warm-mean": "answers centered by the first batch's raw mean",
    "two-at-full": "a sum and a count, each with the whole of epsilon",
    "overlap": "every batch counts in two releases",
    "unclipped": "features are not clipped",
    "reseeded": "noise is seeded by the number of the batch",
    "leaky-frozen": "frozen_rounds tells the last answer",
    "half-sensitivity": "a choice of scores that move by 2 is drawn as if they moved by 1/2",
}
BOXES = {
    "amplified": "epsilon + log(batch) for one device",
    "missing-kind": "no answer is a kind of message of its own",
    "shared-coin": "one coin for all devices of a call",
    "more-messages": "large answers send more messages",
}
MISTAKES = DEVICES | CURATORS | BOXES
BATCH, LEVELS, STEPS = 16, 6, 5


def agent_of(mistake: str) -> str:
    """Return the name under which the agent with a mistake is registered."""
    kind = "device" if mistake in DEVICES else "curator" if mistake in CURATORS else "box"
    return f"mistakes:{kind}-of-somebody"


@dataclass(frozen=True)
class Config:
    epsilon: float = 1.0
    delta: float = 1e-5
    mistake: str = ""
    mended: bool = False
    own: bool = False


class Common:
    Config: Any = Config
    plays = staticmethod(arms_with_features)
    config: Any

    def wrong(self, mistake: str) -> bool:
        return self.config.mistake == mistake and not self.config.mended

    def built(self, *mistakes: str) -> bool:
        return self.config.mistake in mistakes

    def promise(self, notion: Any, **budget: float) -> None:
        self.guarantee = Guarantee(notion, protects="the record", reference="this file", **budget)  # type: ignore
        self.ledger = Ledger(**budget)

    def terms(self, contexts: Any, actions: Any, feedback: Any, norm: int = 1) -> tuple[Any, Any]:
        """Return features of norm 1 at most (n, d), and answers in [-1, 1] (n,); what is missing counts as 0."""
        x = np.nan_to_num(np.asarray(contexts, float)[np.arange(len(actions)), actions], posinf=1e6, neginf=-1e6)
        x = np.clip(x, -1e6, 1e6)
        length = np.linalg.norm(x, norm, axis=1)[:, None]
        x = x if self.wrong("unclipped") else x / np.maximum(length, 1)
        return x, np.clip(np.nan_to_num(np.asarray(feedback, float), posinf=1, neginf=-1), -1, 1)

    def best(self, context: Any, theta: Any) -> Any:
        return (self.contexts_of(context) @ theta).argmax(axis=-1)  # type: ignore[attr-defined]


class Device(Common, LocalAgent[Config, Any]):
    fixed = LocalAgent.fixed | {"memo"}

    def begin(self) -> None:
        epsilon = self.config.epsilon
        self.promise("local", epsilon=epsilon, delta=self.config.delta * self.built("sigma-of-epsilon"))
        self.ledger.spend(Cost(epsilon=epsilon, delta=self.guarantee.delta or 0.0))
        self.total, self.memo = np.zeros(self.context_shape[1]), dict[bytes, Any]()
        self.stream = self.rng.spawn(1)[0] if self.config.own else self.rng

    def select_action(self, context: Any) -> Any:
        return self.best(context, self.total)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        epsilon, wrong = self.config.epsilon, self.wrong
        draw = (self.stream if self.config.own else self.rng).laplace
        x, y = self.terms(context, action, feedback, 2 if self.built("laplace-l2", "sigma-of-epsilon") else 1)
        v = x * y[:, None]  # moves by 2
        scale = 2 / epsilon if epsilon else 0.0
        if self.config.own:
            draw(size=int((y > 0.5).sum()))
        if self.built("eps-split"):
            gram, each = np.einsum("ni,nj->nij", x, x).reshape(len(x), -1), scale * (1 if wrong("eps-split") else 2)
            return v + draw(scale=each, size=v.shape), gram + draw(scale=each, size=gram.shape)
        if self.built("laplace-l2"):
            return v + draw(scale=scale * (1 if wrong("laplace-l2") else math.sqrt(v.shape[1])), size=v.shape)
        if self.built("sigma-of-epsilon"):
            mu = math.sqrt(2 * epsilon) if wrong("sigma-of-epsilon") else gaussian_mu(epsilon, self.config.delta)
            return v + self.rng.normal(scale=2 / mu, size=v.shape)
        noisy = v + draw(scale=scale, size=(1, v.shape[1]) if wrong("shared-noise") else v.shape)
        if wrong("memo"):
            keys = [part.tobytes() for part in np.column_stack([v, x])]
            return np.array([self.memo.setdefault(key, report) for key, report in zip(keys, noisy, strict=True)])
        if wrong("missing-flag"):
            return np.where(np.isnan(feedback)[:, None], 0.0, noisy)
        if self.built("masked"):
            pad = self.rng.uniform(-100, 100, size=v.shape)
            return (v + pad if wrong("masked") else noisy + pad), pad
        if wrong("multiplied"):
            return v * (noisy - v)
        if self.built("fraction"):
            return v + np.round(2 * (noisy - v)) / 2 if wrong("fraction") else np.round(2 * noisy) / 2
        return noisy

    def absorb(self, report: Any) -> None:
        first = report[0] if isinstance(report, tuple) else report
        self.total = self.total + np.asarray(first).sum(axis=0)


class Curator(Common, CentralAgent[Config, Any]):
    def begin(self) -> None:
        epsilon = self.config.epsilon
        self.mu = gaussian_mu(epsilon, self.config.delta) if self.built("epochs") else 0.0
        budget = {"rho": self.mu**2 / 2} if self.built("epochs") else {"epsilon": epsilon, "delta": 0.0}
        self.promise("joint", **budget)
        self.ledger.spend(Cost(**budget))
        d = self.context_shape[1]
        self.release, self.theta, self.raw = np.zeros(d), np.zeros(d), np.zeros(d)
        self.x, self.y, self.answered = np.zeros((0, d)), np.zeros(0), np.zeros(0)
        self.before, self.nodes, self.mean, self.batches, self.last = np.zeros(d), np.zeros((0, d)), 0.0, 0, 0.0
        self.kept = self.rng.laplace(scale=2 / epsilon if epsilon else 0.0, size=d)
        self.held = np.zeros(0)

    def frozen_rounds(self) -> int:
        return 2 if self.wrong("leaky-frozen") and self.last > 0 else 1

    def select_action(self, context: Any) -> Any:
        if self.wrong("raw-once") and self.batches == 1:
            return self.best(context, self.raw)
        release = np.ravel(self.release)
        if self.built("half-sensitivity"):
            one = np.ndim(context) == len(self.observation_space.shape or ())
            return int(release[0]) if one else np.full(len(context), int(release[0]))
        return self.best(context, release[: self.context_shape[1]])

    def curate(self, contexts: Any, actions: Any, feedback: Any) -> Any:
        published, wrong = None, self.wrong
        x, y = self.terms(contexts, actions, feedback)
        for features, answer, told, arm in zip(x, y, np.isfinite(np.asarray(feedback, float)), actions, strict=True):
            self.x = np.concatenate([self.x, features[None]])
            self.y, self.answered = np.append(self.y, answer), np.append(self.answered, float(told))
            self.held, self.last = np.append(self.held, float(arm)), float(answer)
            early = wrong("variance-epoch") and len(self.y) == BATCH // 2 and self.y.var() > 0.1
            if len(self.y) < BATCH and not early:
                continue
            published = self.release = self.released()
            self.batches += 1
            self.x, self.y, self.answered, self.held = self.x[:0], self.y[:0], self.answered[:0], self.held[:0]
        return published

    def released(self) -> Any:
        epsilon, wrong, built, rng = self.config.epsilon, self.wrong, self.built, self.rng
        x, y, unit = self.x, self.y, 2 / self.config.epsilon if self.config.epsilon else 0.0

        def noise(scale: float = 1.0, size: int = x.shape[1]) -> Any:
            return rng.laplace(scale=scale * unit, size=size)

        v = x * y[:, None]  # moves by 2
        if built("less-noise"):
            return v.sum(axis=0) + noise(0.7 if wrong("less-noise") else 1)
        if built("raw-once"):
            self.raw = self.raw + v.sum(axis=0)
        if built("reused-noise"):
            self.before = self.before + v.sum(axis=0)
            if wrong("reused-noise"):
                return self.before + self.kept
            self.theta = self.theta + v.sum(axis=0) + noise()
            return self.theta
        if wrong("std-scale"):
            scaled = x / np.maximum(x.std(axis=0), 1e-3)
            return (scaled * y[:, None]).sum(axis=0) + noise()
        if built("tree-log"):
            return self.tree(v.sum(axis=0), 1 if wrong("tree-log") else LEVELS, noise)
        if built("drop-missing"):
            count = self.answered.sum()
            shown = count if wrong("drop-missing") else count + noise(1, 1)[0]
            return np.append(v.sum(axis=0) + noise(1 if wrong("drop-missing") else 2), shown)
        if built("epochs"):
            theta, each = np.zeros(x.shape[1]), 2 / self.mu * (1 if wrong("epochs") else math.sqrt(STEPS))
            told = []
            for _ in range(STEPS):  # one step of the sum of clipped gradients each
                gradient = x * np.clip(y - x @ theta, -1, 1)[:, None]
                theta = theta + 0.1 * (gradient.sum(axis=0) + rng.normal(scale=each, size=x.shape[1])) / BATCH
                told.append(theta)
            return np.concatenate(told[::-1])
        if built("private-count"):
            count = np.count_nonzero(self.answered)
            if wrong("private-count"):
                return (v.sum(axis=0) + noise()) / max(count, 1)
            return (v.sum(axis=0) + noise(2)) / max(count + noise(1, 1)[0], 1)
        if built("subsampled"):
            taken = rng.random(len(y)) < 0.25
            return v[taken].sum(axis=0) + noise(0.25 if wrong("subsampled") else 1)
        if built("max-clip"):
            clip = float(np.abs(y).max()) if wrong("max-clip") else 1.0
            return v.sum(axis=0) + noise(clip)
        if built("warm-mean"):
            return self.centered(x, y, wrong("warm-mean"), noise)
        if built("two-at-full"):
            each = 1 if wrong("two-at-full") else 2
            return np.append(v.sum(axis=0) + noise(each), x.sum(axis=0) + noise(each))
        if built("overlap"):
            both, self.before = v.sum(axis=0) + self.before, v.sum(axis=0)
            return both + noise(1 if wrong("overlap") else 2)
        if wrong("reseeded"):
            return v.sum(axis=0) + np.random.default_rng(self.batches).laplace(scale=unit, size=x.shape[1])
        if built("half-sensitivity"):
            scores = np.array([y[self.held == arm].sum() for arm in range(self.context_shape[0])])
            steep = epsilon / (2 * (0.5 if wrong("half-sensitivity") else 2.0))
            return np.array([float(np.argmax(steep * scores + rng.gumbel(size=len(scores))))])
        return v.sum(axis=0) + noise()

    def tree(self, total: Any, factor: float, noise: Any) -> Any:
        """Publish all dyadic blocks of batches that end here, the longest last."""
        self.nodes = np.concatenate([self.nodes, total[None]])
        told, t = [], len(self.nodes)
        for level in range(LEVELS):
            ends = t % 2**level == 0
            told.append(self.nodes[t - 2**level :].sum(axis=0) + noise(factor) if ends else np.zeros_like(total))
        return np.concatenate(told)

    def centered(self, x: Any, y: Any, raw: bool, noise: Any) -> Any:
        """Publish the sum of centered answers; the first batch says by what, and its own answers are not centered."""
        share = 1 if raw else 2
        told = (x * np.clip(y - self.mean, -1, 1)[:, None]).sum(axis=0) + noise(share)
        if self.batches == 0:
            self.mean = float(y.mean()) if raw else float(y.mean() + noise(share, 1)[0] / BATCH)
        return told


class Box(Common, ShuffleAgent[Config]):
    def begin(self) -> None:
        super().begin()
        epsilon = self.config.epsilon
        self.promise("shuffle", epsilon=epsilon, delta=0.0)
        self.cost = Cost(epsilon=epsilon)
        self.shuffler = Shuffler(3)
        self.good = 0

    @property
    def batch_size(self) -> int:
        return 8

    def select_action(self, context: Any) -> Any:
        one = np.ndim(context) == len(self.observation_space.shape or ())
        return self.good if one else np.full(len(context), self.good)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        wrong, users = self.wrong, len(feedback)
        missing = np.isnan(np.asarray(feedback, float))
        _, y = self.terms(context, action, feedback)
        kinds = 3 if self.built("missing-kind") else 2
        cell = np.where(missing & (kinds == 3), 2, y > 0)
        epsilon = self.config.epsilon + (math.log(self.batch_size) if wrong("amplified") else 0)
        # the truth, e^epsilon times as likely as each of the others
        lie = (kinds - 1) / (kinds - 1 + math.exp(min(epsilon, 700)))
        lies = self.rng.random(1 if wrong("shared-coin") else users) < lie
        sent = np.where(lies, (cell + self.rng.integers(1, kinds, size=users)) % kinds, cell)
        sent = np.where(missing & wrong("missing-kind"), 2, sent)
        messages = np.zeros((users, 3), np.int64)
        messages[np.arange(users), sent] = 1
        if wrong("more-messages"):
            messages[np.arange(users), sent] += (np.abs(y) > 0.5).astype(np.int64)
        return messages

    def absorb(self, bag: Any, users: int) -> None:
        self.good = int(bag[1] > bag[0])


register_agent("device-of-somebody", "mistakes:Device", "a device with a mistake")
register_agent("curator-of-somebody", "mistakes:Curator", "a curator with a mistake")
register_agent("box-of-somebody", "mistakes:Box", "a shuffle agent with a mistake")
