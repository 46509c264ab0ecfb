"""Agents by an author who never read the auditor: some have false claims, others are honest and look odd.

``FALSE`` and ``HONEST`` list them with the world that each plays.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray
from privbandit_agents import (
    BinaryTree,
    Budget,
    CentralAgent,
    Count,
    Gaussian,
    GaussianReport,
    Guarantee,
    Hemisphere,
    KaryRandomizedResponse,
    Laplace,
    Ledger,
    LocalAgent,
    Positive,
    PrivateSettings,
    Settings,
    UnaryEncoding,
    arms_with_features,
    no_context,
    one_context,
    pure,
)

Array = NDArray[Any]
LINEAR, CLICKS, BANDIT = "privbandit/Linear-v0", "privbandit/Clicks-v0", "privbandit/Bandit-v0"
FALSE: dict[str, str] = {}
HONEST: dict[str, str] = {}
ONE_REWARD = "replace-one-reward"


def false(world: str) -> Any:
    """List a class whose claim is false."""
    return lambda made: FALSE.update({made.__name__: world}) or made


def honest(world: str) -> Any:
    """List a class that keeps its promise."""
    return lambda made: HONEST.update({made.__name__: world}) or made


@dataclass(frozen=True)
class Config(PrivateSettings):
    """The budget."""

    epsilon: Budget = 1.0


@dataclass(frozen=True)
class Plain(Settings):
    """The budget, of an agent that takes no number of people."""

    epsilon: Budget = 1.0


@dataclass(frozen=True)
class Finite(PrivateSettings):
    """The budget, which must be finite."""

    epsilon: Positive = 1.0


@dataclass(frozen=True)
class Timed(PrivateSettings):
    """The budget, and the number of users."""

    epsilon: Budget = 1.0
    horizon: Count = 20_000


def inside(values: Array, low: float = -1.0) -> Array:
    """Return numbers in [low, 1]; NaN and infinity are 0."""
    return np.clip(np.where(np.isfinite(values), values, 0.0), low, 1.0)


def chosen(contexts: Array, arms: Array) -> Array:
    """Return the features of the chosen arms within the unit ball, shape (n, d)."""
    x = inside(contexts[np.arange(len(contexts)), arms].astype(float))
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0))


def product(contexts: Array, arms: Array, rewards: Array) -> Array:
    """Return y x, shape (n, d), within the unit ball."""
    return inside(rewards)[:, None] * chosen(contexts, arms)


# devices that report y x with noise


class Moment(LocalAgent[Any, Any]):
    """Play along the average of the reports."""

    Config: ClassVar[type[Any]] = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        epsilon, self.dim = self.config.epsilon, self.context_shape[1]
        self.device = Laplace.from_epsilon(epsilon, l1_sensitivity=2 * self.dim**0.5)
        self.guarantee = Guarantee.local(epsilon, 0.0, "blind.py")
        self.ledger, self.cost = Ledger(epsilon=epsilon), pure(epsilon)
        self.total, self.average = np.zeros(self.dim), np.zeros(self.dim)
        self.users, self.change = 0, 1

    def select_action(self, context: Array) -> Any:
        return (context @ self.average).argmax(axis=-1)

    def frozen_rounds(self) -> int:
        return self.change - self.users

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        records = self.records_of(context, action, feedback)
        return self.device.release(product(*records), self.rng)

    def opened(self, report: Any) -> list[Array]:
        """Return the noisy vector of each user."""
        return list(report)

    def absorb(self, report: Any) -> None:
        rows = self.opened(report)
        self.pay(len(rows))
        for noisy in rows:
            self.total = self.total + noisy
            self.users += 1
            if self.users == self.change:
                self.average = self.total / self.users
                self.change = int(self.users * 1.1) + 1


@false(LINEAR)
class KeyNamesTheMood(Moment):
    """The key under which a device files its report says whether the reward was positive."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        rewards = self.records_of(context, action, feedback).feedback
        noisy = super().randomize(context, action, feedback)
        return [{"up" if y > 0 else "down": row} for y, row in zip(rewards, noisy, strict=True)]

    def opened(self, report: Any) -> list[Array]:
        return [row for one in report for row in one.values()]


@false(LINEAR)
class OrderOfKeys(Moment):
    """A report's keys come in an order that depends on the sign of the reward."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        rewards = self.records_of(context, action, feedback).feedback
        noisy = super().randomize(context, action, feedback)
        made = [{"sum": row, "version": 1} for row in noisy]
        return [one if y > 0 else dict(reversed(one.items())) for y, one in zip(rewards, made, strict=True)]

    def opened(self, report: Any) -> list[Array]:
        return [one["sum"] for one in report]


@false(LINEAR)
class ShortFloats(Moment):
    """Devices of users with a small reward save bytes: they send float32, the others float64."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        rewards = self.records_of(context, action, feedback).feedback
        noisy = super().randomize(context, action, feedback)
        return [row.astype(np.float32 if y < 0 else np.float64) for y, row in zip(rewards, noisy, strict=True)]


@false(LINEAR)
class Padded(Moment):
    """A report has a zero behind it if the first feature is positive."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        contexts, arms, _ = self.records_of(context, action, feedback)
        noisy = super().randomize(context, action, feedback)
        longer = chosen(contexts, arms)[:, 0] > 0
        return [np.append(row, 0.0) if more else row for row, more in zip(noisy, longer, strict=True)]

    def opened(self, report: Any) -> list[Array]:
        return [row[: self.dim] for row in report]


@false(LINEAR)
class SignedZero(Moment):
    """A spare column of zeros has the sign of the reward."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        rewards = self.records_of(context, action, feedback).feedback
        return np.column_stack([super().randomize(context, action, feedback), np.copysign(0.0, rewards)])

    def opened(self, report: Any) -> list[Array]:
        return list(report[:, : self.dim])


@false(LINEAR)
class Payload(Moment):
    """A spare column is NaN, with the user's arm in the payload."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        arms = self.records_of(context, action, feedback).actions
        spare = (np.uint64(0x7FF8000000000000) + (arms + 1).astype(np.uint64)).view(np.float64)
        return np.column_stack([super().randomize(context, action, feedback), spare])

    def opened(self, report: Any) -> list[Array]:
        return list(report[:, : self.dim])


@false(LINEAR)
class SentTwice(Moment):
    """Users with a large reward report a second time, as confirmation: the same numbers."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        rewards = self.records_of(context, action, feedback).feedback
        noisy = super().randomize(context, action, feedback)
        return [(row,) * (2 if y > 0.5 else 1) for y, row in zip(rewards, noisy, strict=True)]

    def opened(self, report: Any) -> list[Array]:
        return [one[0] for one in report]


@false(LINEAR)
class ExactInside(Moment):
    """Vectors well inside the unit ball need no noise, says the author: they are sent as they are."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        exact = product(*self.records_of(context, action, feedback))
        noisy = super().randomize(context, action, feedback)
        return np.where(np.linalg.norm(exact, axis=1, keepdims=True) < 0.4, exact, noisy)


@false(LINEAR)
class RawOutside(Moment):
    """A context outside the usual range is reported as it is, for the operator to look at."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        contexts, _, _ = self.records_of(context, action, feedback)
        odd = np.abs(np.where(np.isfinite(contexts), contexts, 0.0)).reshape(len(contexts), -1).max(axis=1) > 5.0
        noisy = super().randomize(context, action, feedback)
        return [(row, c[0] if bad else None) for row, c, bad in zip(noisy, contexts, odd, strict=True)]

    def opened(self, report: Any) -> list[Array]:
        return [row for row, _ in report]


@false(LINEAR)
class RarelyRaw(Moment):
    """One device in fifty is in debug mode and sends y x without noise."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        exact = product(*self.records_of(context, action, feedback))
        return np.array([self.one(row) for row in exact])

    def one(self, exact: Array) -> Array:
        noisy = self.device.release(exact, self.rng)
        return exact if self.rng.random() < 0.02 else noisy


@false(LINEAR)
class LaterRaw(Moment):
    """From the 500th user on, noise is turned down to a tenth: the average is good enough by then."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        exact = product(*self.records_of(context, action, feedback))
        noisy = super().randomize(context, action, feedback)
        return noisy if self.users < 500 else exact + (noisy - exact) / 10


@false(LINEAR)
class PreviousUser(Moment):
    """A report is the sum of this user's y x and that of the user before: each is in two reports, and pays for one."""

    def begin(self) -> None:
        super().begin()
        self.previous = np.zeros(self.dim)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        exact = product(*self.records_of(context, action, feedback))
        before = np.vstack([self.previous, exact[:-1]])
        self.previous = exact[-1]
        return self.device.release(exact + before, self.rng)


@false(LINEAR)
class OneNoise(Moment):
    """All devices add the same noise, which was drawn once."""

    def begin(self) -> None:
        super().begin()
        self.once = self.device.release(np.zeros(self.dim), self.rng)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        return product(*self.records_of(context, action, feedback)) + self.once


@false(LINEAR)
class SeedFromRecord(Moment):
    """A device's noise is drawn from a generator that the record seeds, so that retries send the same report."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        exact = product(*self.records_of(context, action, feedback))
        return np.array([self.device.release(row, default_rng(list(row.tobytes()))) for row in exact])


@false(LINEAR)
class PublicSeed(Moment):
    """A device's noise is drawn from a generator that its public number seeds, so that anyone can take it off again."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        exact = product(*self.records_of(context, action, feedback))
        return np.array([self.device.release(row, default_rng(self.users + i)) for i, row in enumerate(exact)])


@false(LINEAR)
class ScaleByRecord(Moment):
    """The noise of a report is as large as the record's own vector, not as the largest one."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        exact = product(*self.records_of(context, action, feedback))
        noise = self.device.release(np.zeros_like(exact), self.rng)
        return exact + noise * (0.1 + np.linalg.norm(exact, axis=1, keepdims=True))


@false(LINEAR)
class RewardNotClipped(Moment):
    """Features are clipped, and the reward is trusted."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        contexts, arms, rewards = self.records_of(context, action, feedback)
        y = np.clip(np.where(np.isfinite(rewards), rewards, 0.0), -1e6, 1e6)
        return self.device.release(y[:, None] * chosen(contexts, arms), self.rng)


@false(LINEAR)
class WholeBudgetTwice(Moment):
    """Features and reward are sent apart, each with all of epsilon; the ledger hears of one."""

    def begin(self) -> None:
        super().begin()
        self.second = Laplace.from_epsilon(self.config.epsilon, l1_sensitivity=2.0)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        contexts, arms, rewards = self.records_of(context, action, feedback)
        rows = zip(chosen(contexts, arms), inside(rewards), strict=True)
        return [(self.device.release(x, self.rng), self.second.release(y, self.rng)) for x, y in rows]

    def opened(self, report: Any) -> list[Array]:
        return [x * y for x, y in report]


@false(LINEAR)
class NothingToHide(Moment):
    """A record without a usable reward reports zeros, without noise."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        rewards = self.records_of(context, action, feedback).feedback
        return np.where(np.isfinite(rewards)[:, None], super().randomize(context, action, feedback), 0.0)


@false(LINEAR)
class NaiveSensitivity(Moment):
    """The noise is for a sensitivity of 1, but y x and y' x' may point to opposite sides."""

    def begin(self) -> None:
        super().begin()
        self.device = Laplace.from_epsilon(self.config.epsilon, l1_sensitivity=self.dim**0.5)


@false(LINEAR)
class RewardBehindFeatures(Moment):
    """Rewards alone are promised: features are sent as they are, but only if the reward was positive."""

    def begin(self) -> None:
        super().begin()
        self.device = Laplace.from_epsilon(self.config.epsilon, l1_sensitivity=2.0)
        self.guarantee = Guarantee.local(self.config.epsilon, 0.0, "blind.py", neighbours=ONE_REWARD)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        contexts, arms, rewards = self.records_of(context, action, feedback)
        shown = np.where(rewards[:, None] > 0, chosen(contexts, arms), 0.0)
        return np.column_stack([shown, self.device.release(inside(rewards), self.rng)])

    def opened(self, report: Any) -> list[Array]:
        return list(report[:, :-1] * report[:, -1:])


@honest(LINEAR)
class RewardBesideFeatures(Moment):
    """Rewards alone are promised: features and arm are sent as they are, beside a noisy reward."""

    def begin(self) -> None:
        super().begin()
        self.device = Laplace.from_epsilon(self.config.epsilon, l1_sensitivity=2.0)
        self.guarantee = Guarantee.local(self.config.epsilon, 0.0, "blind.py", neighbours=ONE_REWARD)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        contexts, arms, rewards = self.records_of(context, action, feedback)
        return {"x": chosen(contexts, arms), "arm": arms, "y": self.device.release(inside(rewards), self.rng)}

    def opened(self, report: Any) -> list[Array]:
        return list(report["x"] * report["y"][:, None])


@honest(LINEAR)
class InADict(Moment):
    """A report is a dictionary with the noisy vectors, their number, and a version."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        noisy = super().randomize(context, action, feedback)
        return {"version": "1.2", "users": len(noisy), "noisy": noisy}

    def opened(self, report: Any) -> list[Array]:
        return list(report["noisy"])


@dataclass(frozen=True)
class Letter:
    """What one device sends."""

    size: float
    sign: bool
    rest: tuple[float, ...]


@honest(LINEAR)
class InLetters(Moment):
    """A report is a list of frozen dataclasses, which take the noisy vector apart."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        noisy = super().randomize(context, action, feedback)
        return [Letter(abs(float(row[0])), bool(row[0] > 0), tuple(row[1:].tolist())) for row in noisy]

    def opened(self, report: Any) -> list[Array]:
        return [np.array([one.size if one.sign else -one.size, *one.rest]) for one in report]


@honest(LINEAR)
class TwoHalves(Moment):
    """Features and reward are sent apart, as a pair, each with half of the budget."""

    def begin(self) -> None:
        super().begin()
        half = self.config.epsilon / 2
        self.device = Laplace.from_epsilon(half, l1_sensitivity=2 * self.dim**0.5)
        self.second = Laplace.from_epsilon(half, l1_sensitivity=2.0)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        contexts, arms, rewards = self.records_of(context, action, feedback)
        rows = zip(chosen(contexts, arms), inside(rewards), strict=True)
        return [(self.device.release(x, self.rng), self.second.release(y, self.rng)) for x, y in rows]

    def opened(self, report: Any) -> list[Array]:
        return [x * y for x, y in report]


@honest(LINEAR)
class LongerByAge(Moment):
    """Reports get longer as time goes by: a public number of zeros, one more for every hundred users."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        noisy = super().randomize(context, action, feedback)
        return [np.append(row, np.zeros((self.users + i) // 100)) for i, row in enumerate(noisy)]

    def opened(self, report: Any) -> list[Array]:
        return [row[: self.dim] for row in report]


@honest(LINEAR)
class Deaf(Moment):
    """The report is noise about nothing: no record is looked at, and the policy is that of chance."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        n = len(self.records_of(context, action, feedback).feedback)
        return self.device.release(np.zeros((n, self.dim)), self.rng)


@honest(LINEAR)
class OwnCoins(Moment):
    """The author seeds the server's generator for exploration with a number of its own, and keeps all reports."""

    def begin(self) -> None:
        super().begin()
        self.coins = default_rng(20_240_401)
        self.kept = np.zeros((0, self.dim))

    def select_action(self, context: Array) -> Any:
        best = np.asarray(super().select_action(context))
        luck, arm = np.moveaxis(self.coins.random((*best.shape, 2)), -1, 0)
        return np.where(luck < 0.1, (arm * self.context_shape[0]).astype(int), best)[()]

    def absorb(self, report: Any) -> None:
        self.kept = np.vstack([self.kept, report])
        super().absorb(report)


@honest(LINEAR)
class Bell(Moment):
    """A report has Gaussian noise, for an (epsilon, delta) promise, and goes through a randomizer."""

    gaussian = True

    def begin(self) -> None:
        super().begin()
        epsilon = self.config.epsilon
        mechanism = Gaussian.from_epsilon(epsilon, 1e-5, l2_sensitivity=2.0)
        self.device: Any = GaussianReport(mechanism, epsilon)
        self.guarantee = Guarantee.local(epsilon, 1e-5, "blind.py")
        self.ledger, self.cost = Ledger(epsilon=epsilon, delta=1e-5), mechanism.cost

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        exact = product(*self.records_of(context, action, feedback))
        return self.device.randomize(np.zeros(len(exact), int), exact, self.rng)


@honest(LINEAR)
class OnTheSphere(Moment):
    """A device sends a random direction; an expensive public table of directions lies about, and a cache is lazy."""

    fixed = Moment.fixed | {"device", "table", "rotated"}

    def begin(self) -> None:
        super().begin()
        self.device: Any = Hemisphere(self.config.epsilon, 1, self.dim)
        self.table = default_rng(0).standard_normal((50_000, self.dim))

    @cached_property
    def rotated(self) -> Array:
        return np.linalg.qr(self.table[: self.dim])[0]

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        exact = np.array([self.rotated @ row for row in product(*self.records_of(context, action, feedback))])
        return self.device.randomize(np.zeros(len(exact), int), exact, self.rng)

    def opened(self, report: Any) -> list[Array]:
        return [row @ self.rotated for row in self.device.estimate(report)[:, 0]]


# devices that report one cell of a table


class Cells(LocalAgent[Any, Any]):
    """Play the arm with the largest share of ones among the reports about it, for users on this side of 0."""

    Config: ClassVar[type[Any]] = Config
    plays = staticmethod(one_context)
    fixed = LocalAgent.fixed | {"device"}

    def begin(self) -> None:
        self.arms = int(self.action_space.n)  # type: ignore[attr-defined]
        self.cells, epsilon = 4 * self.arms, self.config.epsilon
        self.device: Any = KaryRandomizedResponse(epsilon, self.cells, allow_inactive=False)
        self.guarantee = Guarantee.local(epsilon, 0.0, "blind.py", arithmetic=self.device.arithmetic)
        self.ledger, self.cost = Ledger(epsilon=epsilon), pure(epsilon)
        self.counts, self.scores = np.zeros(self.cells), np.zeros((2, self.arms))
        self.users, self.change = 0, 32

    def side(self, contexts: Array) -> Array:
        return (contexts[..., 0] > 0).astype(int)

    def select_action(self, context: Array) -> Any:
        return self.scores[self.side(context)].argmax(axis=-1)

    def frozen_rounds(self) -> int:
        return self.change - self.users

    def cell(self, contexts: Array, arms: Array, rewards: Array) -> Array:
        return (self.side(contexts) * self.arms + np.maximum(arms, 0)) * 2 + (rewards > 0.5)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        own = self.cell(*self.records_of(context, action, feedback))
        return own if np.isinf(self.config.epsilon) else self.device.randomize(own, None, self.rng)

    def opened(self, report: Any) -> Array:
        """Return the estimate of each user's table, shape (n, cells)."""
        if np.isinf(self.config.epsilon):
            return np.asarray(np.eye(self.cells)[report])
        return np.asarray(self.device.estimate(report)[..., 0])

    def absorb(self, report: Any) -> None:
        rows = self.opened(report)
        self.pay(len(rows))
        for one in rows:
            self.counts = self.counts + one
            self.users += 1
            if self.users == self.change:
                table = self.counts.reshape(2, self.arms, 2)
                self.scores = table[..., 1] / np.maximum(table.sum(axis=-1), 1.0)
                self.change = self.users + 32


@false(CLICKS)
class OddsOfTwo(Cells):
    """The true cell is told with e^epsilon / (e^epsilon + 1), as if there were two cells and not many."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        own = self.cell(*self.records_of(context, action, feedback))
        true, other = self.rng.random((len(own), 2)).T
        kept = true < 1 / (1 + np.exp(-self.config.epsilon))
        return np.where(kept, own, (own + 1 + (other * (self.cells - 1)).astype(int)) % self.cells)


@false(CLICKS)
class ArmInTheClear(Cells):
    """The click and the side are randomized; the arm, which was chosen by the side, is sent as it is."""

    def begin(self) -> None:
        super().begin()
        self.device = KaryRandomizedResponse(self.config.epsilon, 4, allow_inactive=False)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        contexts, arms, rewards = self.records_of(context, action, feedback)
        own = self.side(contexts) * 2 + (rewards > 0.5)
        told = own if np.isinf(self.config.epsilon) else self.device.randomize(own, None, self.rng)
        return np.column_stack([np.maximum(arms, 0), told])

    def opened(self, report: Any) -> Array:
        rows = np.zeros((len(report), 2, self.arms, 2))
        told = report[:, 1]
        small = np.eye(4)[told] if np.isinf(self.config.epsilon) else self.device.estimate(told)[..., 0]
        rows[np.arange(len(report)), :, report[:, 0]] = small.reshape(-1, 2, 2)
        return rows.reshape(len(report), -1)


@honest(CLICKS)
class InWords(Cells):
    """A report is a word: the name of the randomized cell."""

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        return [f"cell-{one:02d}" for one in super().randomize(context, action, feedback)]

    def opened(self, report: Any) -> Array:
        return super().opened(np.array([int(one[5:]) for one in report]))


@honest(CLICKS)
class InBits(Cells):
    """A report is one bit for every cell, packed into bytes."""

    Config = Finite

    def begin(self) -> None:
        super().begin()
        self.device = UnaryEncoding(self.config.epsilon, self.cells)
        self.guarantee = Guarantee.local(self.config.epsilon, 0.0, "blind.py", arithmetic=self.device.arithmetic)

    def randomize(self, context: Any, action: Any, feedback: Any) -> Any:
        return np.packbits(np.asarray(super().randomize(context, action, feedback), np.uint8), axis=1)

    def opened(self, report: Any) -> Array:
        return super().opened(np.unpackbits(report, axis=1)[:, : self.cells].astype(bool))


# curators of sums of y x


class Batched(CentralAgent[Any, Array]):
    """Play along the sum of the noisy sums of batches."""

    Config: ClassVar[type[Any]] = Config
    plays = staticmethod(arms_with_features)

    def begin(self) -> None:
        epsilon, self.dim = self.config.epsilon, self.context_shape[1]
        self.noise = Laplace.from_epsilon(epsilon, l1_sensitivity=2 * self.dim**0.5)
        self.guarantee = Guarantee.joint(epsilon, 0.0, None, "blind.py")
        self.ledger = Ledger(epsilon=epsilon)
        self.release, self.sum = np.zeros(self.dim), np.zeros(self.dim)
        self.users, self.end, self.batch = 0, 16, 0

    def select_action(self, context: Array) -> Any:
        return (context @ self.release).argmax(axis=-1)

    def frozen_rounds(self) -> int:
        return self.end - self.users

    def terms(self, contexts: Array, actions: Array, feedback: Array) -> Array:
        return product(contexts, actions, feedback)

    def told(self) -> Array:
        """Return the noisy sum of the batch."""
        draw = partial(self.noise.release, self.sum, self.rng)
        return self.publish(self.noise, self.sum, draw, self.noise.cost, group=self.batch)

    def due(self) -> bool:
        """Whether the batch ends."""
        return self.users >= self.end

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        new = None
        for term in self.terms(contexts, actions, feedback):
            self.sum = self.sum + term
            self.users += 1
            if self.due():
                new = (self.release if new is None else new) + self.told()
                self.sum = np.zeros_like(self.sum)
                self.end, self.batch = int(self.users * 1.5), self.batch + 1
        return new


@false(LINEAR)
class PeeksAtTheOpenBatch(Batched):
    """Actions follow the release and a little of the open batch's raw sum."""

    def select_action(self, context: Array) -> Any:
        return (context @ (self.release + 0.5 * self.sum)).argmax(axis=-1)

    def frozen_rounds(self) -> int:
        return 1


@false(LINEAR)
class EndsWhenItHasEnough(Batched):
    """A batch ends when its raw sum is long enough, or after fifty users."""

    def due(self) -> bool:
        return bool(np.linalg.norm(self.sum) > 4.0) or self.users >= self.end

    def frozen_rounds(self) -> int:
        return 1


@false(LINEAR)
class WaitsForNews(Batched):
    """At the end of a batch nothing is published if the raw sum points the way that the release does."""

    def told(self) -> Array:
        if self.batch and self.sum @ self.release > 0:
            return np.zeros(self.dim)
        return super().told()


@false(LINEAR)
class SameNoiseAgain(Batched):
    """The noise is drawn once, and added to the sum of every batch."""

    def begin(self) -> None:
        super().begin()
        self.once = self.noise.release(np.zeros(self.dim), self.rng)

    def told(self) -> Array:
        def draw(exact: Array = self.sum) -> Array:
            return exact + self.once

        return self.publish(self.noise, self.sum, draw, self.noise.cost, group=self.batch)


@false(LINEAR)
class NoiseByHeart(Batched):
    """All instances keep the noise of a batch in one cache, so that two of them publish with the same."""

    cache: ClassVar[dict[int, Array]] = {}

    def told(self) -> Array:
        if self.batch not in self.cache:
            self.cache[self.batch] = self.noise.release(np.zeros(self.dim), self.rng)

        def draw(exact: Array = self.sum) -> Array:
            return exact + self.cache[self.batch]

        return self.publish(self.noise, self.sum, draw, self.noise.cost, group=self.batch)


@false(LINEAR)
class HalfTheNoise(Batched):
    """The mechanism that is declared has the right scale, and what is drawn has half of it."""

    def told(self) -> Array:
        weak = Laplace(self.noise.scale / 2, self.config.epsilon)
        draw = partial(weak.release, self.sum, self.rng)
        return self.publish(self.noise, self.sum, draw, self.noise.cost, group=self.batch)


@false(LINEAR)
class LossesNotClipped(Batched):
    """Rewards are capped at 1, and losses are not capped at all."""

    def terms(self, contexts: Array, actions: Array, feedback: Array) -> Array:
        y = np.clip(np.where(np.isfinite(feedback), feedback, 0.0), -1e6, 1.0)
        return y[:, None] * chosen(contexts, actions)


@false(LINEAR)
class SecondLook(Batched):
    """A batch is published twice, and averaged; the ledger hears of the first."""

    def told(self) -> Array:
        draw = partial(self.noise.release, self.sum, self.rng)
        return (super().told() + self.publish(self.noise, self.sum, draw)) / 2


@false(LINEAR)
class SlidingWindow(Batched):
    """A batch begins with half of the one before, so that a user is in two groups, and each pays for itself."""

    def begin(self) -> None:
        super().begin()
        self.carried = np.zeros(self.dim)

    def told(self) -> Array:
        whole, self.carried = self.sum + self.carried, self.sum
        draw = partial(self.noise.release, whole, self.rng)
        return self.publish(self.noise, whole, draw, self.noise.cost, group=self.batch)


@false(LINEAR)
class BehindTheCounter(Batched):
    """The release is made by hand, with noise of a tenth, and nothing goes through publish; the ledger hears of it."""

    def told(self) -> Array:
        self.ledger.spend(self.noise.cost, group=self.batch)
        return self.sum + self.rng.laplace(scale=self.noise.scale / 10, size=self.dim)


@false(LINEAR)
class Yardstick(Batched):
    """Contexts are divided by the longest that was ever served, and a short one gets the first arm."""

    def begin(self) -> None:
        super().begin()
        self.longest = np.zeros(1)

    def select_action(self, context: Array) -> Any:
        sound = np.clip(np.where(np.isfinite(context), context, 0.0), -1e6, 1e6).astype(float)
        lengths = np.linalg.norm(sound, axis=(-2, -1))
        self.longest = np.maximum(self.longest, lengths.max(initial=0.0))
        return np.where(lengths < self.longest[0] / 2, 0, super().select_action(context))[()]


@false(LINEAR)
class EveryVisit(Batched):
    """The promise is to persons, but all their visits are added up with the noise of one."""

    Config = Plain

    def begin(self) -> None:
        super().begin()
        self.guarantee = self.guarantee.per_person()


@false(LINEAR)
class RewardsChooseFeatures(Batched):
    """Rewards alone are promised, and the exact Gram matrix is of those users who were paid."""

    def begin(self) -> None:
        super().begin()
        epsilon = self.config.epsilon
        self.guarantee = Guarantee("reward", epsilon, 0.0, None, ONE_REWARD, reference="blind.py")
        self.gram, self.noisy = np.eye(self.dim), np.zeros(self.dim)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        new = None
        rows = chosen(contexts, actions)
        for x, y in zip(rows, inside(feedback), strict=True):
            self.gram = self.gram + np.outer(x, x) * self.counts(y)
            self.sum = self.sum + y * x
            self.users += 1
            if self.due():
                self.noisy = self.noisy + self.told()
                new, self.sum = np.linalg.solve(self.gram, self.noisy), np.zeros_like(self.sum)
                self.end, self.batch = int(self.users * 1.5), self.batch + 1
        return new

    def counts(self, reward: float) -> bool:
        return reward > 0


@false(LINEAR)
class ThinTree(CentralAgent[Any, Array]):
    """A binary tree counts y x at half of the noise: its sensitivity is said to be 1."""

    Config: ClassVar[type[Any]] = Timed
    plays = staticmethod(arms_with_features)
    sensitivity = 1.0

    def begin(self) -> None:
        self.dim = self.context_shape[1]
        rho = self.config.epsilon**2 / 20
        self.guarantee = Guarantee.joint(None, None, rho, "blind.py")
        self.ledger = Ledger(rho=rho)
        self.tree = BinaryTree(self.config.horizon, self.dim, self.sensitivity, rho, self.rng.spawn(1)[0])
        self.ledger.spend(self.tree.cost)
        self.seen: list[list[float]] = []
        self.release = np.zeros(self.dim)

    def select_action(self, context: Array) -> Any:
        return (context @ self.release).argmax(axis=-1)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        new = None
        for term in product(contexts, actions, feedback)[: self.config.horizon - len(self.seen)]:
            self.seen.append(term.tolist())
            new = self.publish(self.tree, term[None], partial(self.tree.extend, term[None]))[-1]
        return new


@honest(LINEAR)
class ThickTree(ThinTree):
    """A binary tree counts y x, and the curator keeps all terms in a list."""

    sensitivity = 2.0


@honest(LINEAR)
class RoundRobin(Batched):
    """The first hundred users get the arms in turn, by the curator's own clock."""

    Config = Plain

    def select_action(self, context: Array) -> Any:
        best = np.asarray(super().select_action(context))
        clock = self.users + np.arange(best.size).reshape(best.shape)
        return np.where(clock < 100, clock % self.context_shape[0], best)[()]

    def frozen_rounds(self) -> int:
        return 1 if self.users < 100 else super().frozen_rounds()


@honest(LINEAR)
class WellNamed(Batched):
    """Methods have the names of the base's attributes: cost is a property, state and law are overridden."""

    @property
    def cost(self) -> Any:
        return self.noise.cost

    def state(self) -> Any:
        arrays, values = super().state()
        return arrays, values

    def law(self, contexts: Array, draws: int = 1000, rng: Any = None) -> Any:
        return super().law(contexts, draws, rng)


@honest(LINEAR)
class Dithering(Batched):
    """Every user's action is drawn: Thompson sampling around the release."""

    def begin(self) -> None:
        super().begin()
        self.rng_choices = self.rng.spawn(1)[0]

    def select_action(self, context: Array) -> Any:
        users = context.shape[: context.ndim - 2]
        theta = self.release + self.noise.scale * self.rng_choices.standard_normal((*users, self.dim))
        return np.einsum("...kd,...d->...k", context, theta).argmax(axis=-1)


@honest(LINEAR)
class RewardsBesideGram(RewardsChooseFeatures):
    """Rewards alone are promised: the exact Gram matrix is of all users."""

    def counts(self, reward: float) -> bool:
        return True


# curators of counts


class Tables(CentralAgent[Any, Array]):
    """Play the arm with the largest published share of clicks among users on this side of 0."""

    Config: ClassVar[type[Any]] = Config
    plays = staticmethod(one_context)

    def begin(self) -> None:
        epsilon, self.arms = self.config.epsilon, int(self.action_space.n)  # type: ignore[attr-defined]
        self.noise = Laplace.from_epsilon(epsilon, l1_sensitivity=2.0)
        self.guarantee = Guarantee.joint(epsilon, 0.0, None, "blind.py")
        self.ledger = Ledger(epsilon=epsilon)
        self.release = np.zeros((2, self.arms, 2))
        self.counts = np.zeros_like(self.release)
        self.users, self.end, self.batch = 0, 20, 0

    def side(self, contexts: Array) -> Array:
        return (contexts[..., 0] > 0).astype(int)

    def select_action(self, context: Array) -> Any:
        return self.shares()[self.side(context)].argmax(axis=-1)

    def shares(self) -> Array:
        return np.asarray(self.release[..., 1] / np.maximum(self.release.sum(axis=-1), 1.0))

    def frozen_rounds(self) -> int:
        return self.end - self.users

    def told(self) -> Array:
        draw = partial(self.noise.release, self.counts, self.rng)
        noisy = self.publish(self.noise, self.counts, draw, self.noise.cost, group=self.batch)
        return np.asarray(self.release + noisy)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        new = None
        for side, arm, y in zip(self.side(contexts), np.maximum(actions, 0), feedback, strict=True):
            self.counts[side, arm, int(y > 0.5)] += 1
            self.users += 1
            if self.users == self.end:
                new = self.release = self.told()
                self.counts = np.zeros_like(self.counts)
                self.end, self.batch = self.users + 20 * (self.batch + 1), self.batch + 1
        return new


@false(CLICKS)
class RawBonus(Tables):
    """The shares are private, and the bonus for arms that were seldom played counts users without noise."""

    def begin(self) -> None:
        super().begin()
        self.played = np.ones((2, self.arms))

    def shares(self) -> Array:
        return super().shares() + 1 / np.sqrt(self.played)

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        np.add.at(self.played, (self.side(contexts), np.maximum(actions, 0)), 1)
        return super().curate(contexts, actions, feedback)

    def frozen_rounds(self) -> int:
        return 1


@false(CLICKS)
class BestByTruth(Tables):
    """The best arm of each side is found among the raw counts, and its name alone is released."""

    def told(self) -> Array:
        total = self.release + 0.0
        best = self.counts[..., 1].argmax(axis=-1)
        self.ledger.spend(self.noise.cost, group=self.batch)
        total[np.arange(2), best] += [0.0, 1.0]
        return total


@false(BANDIT)
class CarefulWithLosses(CentralAgent[Any, Array]):
    """Explores at a rate that follows the raw average of all rewards."""

    Config: ClassVar[type[Any]] = Config
    plays = staticmethod(no_context)

    def begin(self) -> None:
        epsilon, self.arms = self.config.epsilon, int(self.action_space.n)  # type: ignore[attr-defined]
        self.noise = Laplace.from_epsilon(epsilon, l1_sensitivity=2.0)
        self.guarantee = Guarantee.joint(epsilon, 0.0, None, "blind.py")
        self.ledger = Ledger(epsilon=epsilon)
        self.rng_choices, self.rng_noise = self.rng.spawn(2)
        self.release, self.sums = np.zeros(self.arms), np.zeros(self.arms)
        self.users, self.batch, self.earned = 0, 0, 0.0

    def rate(self) -> float:
        return 1.0 - min(self.earned / max(self.users, 1), 0.9)

    def select_action(self, context: Array) -> Any:
        luck, arm = np.moveaxis(self.rng_choices.random((*context.shape, 2)), -1, 0)
        return np.where(luck < self.rate(), (arm * self.arms).astype(int), self.release.argmax())[()]

    def curate(self, contexts: Array, actions: Array, feedback: Array) -> Array | None:
        new = None
        for arm, y in zip(np.maximum(actions, 0), inside(feedback, 0.0), strict=True):
            self.sums[arm] += y
            self.earned += float(y)
            self.users += 1
            if self.users % 50 == 0:
                draw = partial(self.noise.release, self.sums, self.rng_noise)
                noisy = self.publish(self.noise, self.sums, draw, self.noise.cost, group=self.batch)
                new = (self.release if new is None else new) + noisy
                self.sums, self.batch = np.zeros_like(self.sums), self.batch + 1
        return new


@honest(BANDIT)
class SameCareForAll(CarefulWithLosses):
    """Explores at a rate that follows the number of users, and adds up rewards that nobody is shown."""

    def rate(self) -> float:
        return 10.0 / (10.0 + self.users)


@honest(CLICKS)
class Seldom(Tables):
    """Counts are published as a table in one long batch after another, and between them nothing changes."""

    def begin(self) -> None:
        super().begin()
        self.end = 64
