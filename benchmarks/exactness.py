"""Whether reports are private as the numbers that leave: laws in rational arithmetic, and an attack on last bits.

``laws`` is the table of discrete reports: the epsilon that the law as implemented realises, over the claimed one.
``events`` looks at whole local agents whose guarantee says "exact": pairs of records at the corners, 200 000 reports a
world, and for every entry of a report at which bit it ends: is there an end that is seen in one world alone? ``sizes``
takes many categories and small budgets, by the thresholds in rational arithmetic. ``shuffled`` is the exact epsilon of
a batch of coins towards users of the same batch. ``counters`` is what the counters of joint agents cost as floats, and
what their grid costs in variance. ``secure`` is the table of what ``noise="secure"`` certifies.
"""

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import gymnasium as gym
import numpy as np
import scipy
from exact_laws import Input, epsilon_of, law, realised, within
from harness import Options, Row, main
from numpy.typing import NDArray
from privbandit_agents import AGENTS, make
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.rows import Products
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho
from privbandit_agents.privacy.contributions.gradients import sensitivity as gradient_sensitivity
from privbandit_agents.privacy.contributions.moments import SENSITIVITY, packed_size
from privbandit_agents.privacy.mechanisms.additive import Gaussian, Laplace
from privbandit_agents.privacy.mechanisms.counters import rounding
from privbandit_agents.privacy.mechanisms.grid import FINER, step_of
from privbandit_agents.privacy.mechanisms.secure import measurement
from privbandit_agents.privacy.randomizers.categories import KaryRandomizedResponse, SubsetSelection
from privbandit_agents.privacy.randomizers.coins import CoinSums
from privbandit_agents.privacy.randomizers.one_hot import SignedSubset, UnaryEncoding
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere
from privbandit_agents.privacy.randomizers.thresholds import STEPS
from privbandit_agents.shuffle.shuffle_linucb import Config
from privbandit_agents.zoo.registry import can_play

from privbandit_envs import ENV_IDS

EPSILONS = (0.1, 0.5, 1.0, 4.0, 8.0, 16.0, 32.0)
REPORTS, A_CALL = 200_000, 2000
SEEN = 80
"""So often an event must come up to count: at epsilon = 1 it then misses in the other world once in 10^12 times."""
Array = NDArray[Any]


def discrete(epsilon: float) -> Iterator[tuple[str, LocalRandomizer, list[Input], Array | None, int | None]]:
    """Yield small discrete reports: name, randomizer, inputs, public uniforms, and which uniform gives signs."""
    one = np.ones(1)
    cells, signed = [Input(0), Input(1), Input(2), Input(-1)], [Input(0, one), Input(0, -one), Input(1, one)]
    yield "k-ary, k = 5", KaryRandomizedResponse(epsilon, 4), cells, None, None
    yield "subset, 2 of 5", SubsetSelection(epsilon, 4, size=2), cells, None, None
    yield "unary, 3 cells", UnaryEncoding(epsilon, 3), cells, None, None
    for size in (1, 2, 3):
        yield f"signed subset, {size} of 3", SignedSubset(epsilon, 3, size), [*signed, Input(-1, one)], None, 3
    yield "ternary, 2 cells", BinCapSign(epsilon, 2, 1), [*signed, Input(-1, one)], None, None
    vectors = [Input(0, np.array(v)) for v in ([1.0, 0, 0], [-1.0, 0, 0], [0, 0.5, 0.5], [0.0, 0, 0])]
    public = np.random.default_rng(1).integers(STEPS, size=3)
    yield "hemisphere, a direction of R^3", Hemisphere(epsilon, 1, 3), vectors, public, None


def laws(options: Options) -> Iterator[Row]:
    """Measure realised over claimed epsilon, by the law of 53-bit uniforms in rational arithmetic."""
    for epsilon in EPSILONS[2:3] if options.quick else EPSILONS:
        for name, randomizer, inputs, public, signs in discrete(epsilon):
            ratio = realised([law(randomizer, given, public, signs) for given in inputs])
            share = np.inf if ratio is None else epsilon_of(ratio) / epsilon
            held = share if within(ratio, epsilon) else max(share, 1 + 1e-15)  # decided in rational arithmetic
            yield Row(f"{name}, epsilon={epsilon:g}", held, "of the claim", at_least=0.999, at_most=1)


def sizes(options: Options) -> Iterator[Row]:
    """Measure realised over claimed epsilon in both directions, over sizes and budgets."""
    many = (3, 1000, 10**5) if options.quick else (3, 10, 1000, 10**5, 655_361, 6_553_600, 10**8)
    for epsilon in (1e-9, 1e-6, 1e-5, 1e-3, 0.1, 1.0, 4.0, 36.0, 200.0, 1000.0):
        worst, exact, real, refused = 0.0, 0, 0, 0
        for kind, cells, given in settings(many):
            try:
                randomizer = kind(epsilon, cells, **given)
            except ValueError:
                refused += 1
                continue
            if randomizer.arithmetic == "real":
                real += 1
                continue
            exact += 1
            ratio = worst_ratio(randomizer)
            share = epsilon_of(ratio) / epsilon
            worst = max(worst, share if not within(ratio, epsilon) else min(share, 1.0))  # decided in rational numbers
        told = f"of the claim at most; {exact} exact, {real} real, {refused} refused"
        yield Row(f"sizes up to {many[-1]:,}, epsilon={epsilon:g}", worst, told, at_most=1)


def settings(many: tuple[int, ...]) -> Iterator[tuple[Any, int, dict[str, Any]]]:
    for cells in many:
        yield KaryRandomizedResponse, cells, {}
        for size in sorted({1, 2, cells // 100, cells // 2, cells - 1} - {0}):
            yield SubsetSelection, cells, {"size": size}
            yield SignedSubset, cells, {"size": size}
        if cells <= 10**5:
            yield UnaryEncoding, cells, {}
        for activity in (1e-15, 1e-9, 0.01, 0.5, 1.0) if cells <= 1000 else ():
            yield BinCapSign, cells, {"dim": 1, "activity": activity}


def worst_ratio(randomizer: Any) -> Fraction:
    """Return a bound on the ratio of the probabilities of a report under two inputs, from thresholds alone."""
    if isinstance(randomizer, KaryRandomizedResponse):
        truth, k = Fraction(randomizer.truthful), randomizer.categories
        return 1 + truth / (1 - truth) / (Fraction(1, k) - Fraction(2, STEPS))
    if isinstance(randomizer, UnaryEncoding):
        return (1 - Fraction(randomizer.flipped)) / Fraction(randomizer.flipped)
    if isinstance(randomizer, SubsetSelection):
        k, size = randomizer.categories, randomizer.size
        held, kept = Fraction(randomizer.holding), Fraction(size, k)
        densities, picks = [held / kept, (1 - held) / (1 - kept)], min(size, k - size)
    else:
        k = randomizer.cells if isinstance(randomizer, SignedSubset) else 1
        kept = Fraction(randomizer.size, k) if isinstance(randomizer, SignedSubset) else Fraction(randomizer.keeping)
        picks = min(randomizer.size, k - randomizer.size) if isinstance(randomizer, SignedSubset) else 0
        right, stay = Fraction(randomizer.agreed), Fraction(randomizer.staying)
        densities = [right / (kept / 2), (1 - right) * stay / (kept / 2), Fraction(1)]
        if kept < 1:
            densities.append((1 - right) * (1 - stay) / (1 - kept))
            idle = Fraction(getattr(randomizer, "idling", kept))
            densities += [idle / kept, (1 - idle) / (1 - kept)]
    error = 1 + Fraction(2 * k, STEPS)  # of one pick, relative
    picked = (error / (2 - error)) ** picks if picks <= 1000 else 1 / (1 - Fraction(4 * picks * k, STEPS))
    return max(densities) / min(densities) * picked


def shuffled(options: Options) -> Iterator[Row]:
    """Compute the exact epsilon towards a coalition in the same batch, records (e1, 1) against (e1, -1), d = 2."""
    delta, honest = 1e-5, Config().honest
    for claim in (1.0,) if options.quick else (0.1, 1.0, 4.0):
        sums = CoinSums.from_epsilon(claim, delta, packed_size(2), SENSITIVITY, honest)
        for users in (2, 3, 4, 5, 6, 10, 100, 1000, 10_000):
            others = users - 1
            for told, words in ((1, "one other"), (math.floor((1 - honest) * users), f"a share {1 - honest:.2g}")):
                left = sums.tosses(users) * (users - min(told, others))
                share = exact_epsilon(left, 2 * sums.steps, delta) / claim
                yield Row(f"claim {claim:g}, batch of {users:,}, {words}", share, "of the claim", at_most=1)
        for part in (0.3, 0.5, 0.8, 0.99):  # beyond what is promised
            share = exact_epsilon(round(sums.tosses(1000) * 1000 * (1 - part)), 2 * sums.steps, delta) / claim
            yield Row(f"claim {claim:g}, batch of 1,000, a share {part:g}", share, "of the claim, not promised")


def exact_epsilon(coins: int, shift: int, delta: float) -> float:
    """Return the least epsilon at which Binomial(coins, 1/2) and itself moved by ``shift`` are within delta."""
    reach = min(coins, round(30 * math.sqrt(coins)) + shift)
    at = np.arange(max(0, coins // 2 - reach), min(coins, coins // 2 + reach) + 1)
    one = scipy.stats.binom.logpmf(at, coins, 0.5)
    other = scipy.stats.binom.logpmf(at - shift, coins, 0.5)
    loss = one - other

    def excess(epsilon: float) -> float:
        return float(np.sum(np.exp(one) * np.maximum(-np.expm1(epsilon - loss), 0.0))) - delta

    high = 1.0
    while excess(high) > 0:
        high *= 2
        if high > 1e6:
            return math.inf
    return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-9))


def events(options: Options) -> Iterator[Row]:
    """Count the bits of reports of local agents, by default or secure, that tell two records apart for sure."""
    reports = REPORTS // 20 if options.quick else REPORTS
    for name, agent in exact_agents():
        if not isinstance(agent, LocalAgent):
            continue
        counts = [lowest_bits(agent, record, reports) for record in corners(agent)]
        found = sum(alone(one, two) + alone(two, one) for one, two in combinations(counts, 2))
        yield Row(f"{name}: events that are possible in one world alone", found, "of all pairs", at_most=0)


def exact_agents() -> Iterator[tuple[str, Any]]:
    envs = [gym.make(env_id) for env_id in ENV_IDS if env_id.startswith("privbandit/")]
    for name in AGENTS:
        env = next(env for env in envs if can_play(name, env))
        agent: Any = make(name, env, seed=1, epsilon=1.0) if hasattr(AGENTS[name].load().Config, "epsilon") else None
        if agent is not None and agent.guarantee.arithmetic == "exact":
            yield name, agent


def corners(agent: Any) -> list[tuple[Array, int, float]]:
    """Return records whose features are corners, with the two answers that are furthest apart."""
    shape = agent.observation_space.shape
    first, last = np.zeros(shape), np.zeros(shape)
    first[..., 0], last[..., -1] = 1.0, 1.0
    return [(context, 0, answer) for context in (first, last, np.ones(shape)) for answer in (1.0, 0.0, -1.0)]


def alone(one: Array, other: Array) -> int:
    """Return how many events come up often in one world and never in the other."""
    return int(((one >= SEEN) & (other == 0)).sum())


def lowest_bits(agent: Any, record: tuple[Array, int, float], reports: int) -> Array:
    """Count, for every entry, reports by the exponent of the lowest bit that is set, shape (entries, 1200)."""
    context, action, answer = record
    users = np.broadcast_to(context, (A_CALL, *context.shape)), np.full(A_CALL, action), np.full(A_CALL, answer)
    counts: Array = np.zeros((0, 0))
    for _ in range(reports // A_CALL):
        rows = np.asarray(agent.randomize(*users), np.float64).reshape(A_CALL, -1)
        mantissas, exponents = np.frexp(rows)
        whole = np.abs(np.ldexp(mantissas, 53)).astype(np.int64)
        lowest = np.frexp((whole & -whole).astype(float))[1] + exponents
        place = np.where(rows == 0, 0, np.clip(lowest + 600, 1, 1199)) + 1200 * np.arange(rows.shape[1])
        part = np.bincount(place.ravel(), minlength=1200 * rows.shape[1]).reshape(-1, 1200)
        counts = part if not counts.size else counts + part
    return counts


def counters(options: Options) -> Iterator[Row]:
    """Compute rho of the numbers that counters release, rounding included, over what they claim, and their variance."""
    worlds = [(20, 10_000)] if options.quick else [(2, 100), (20, 10_000), (100, 100_000), (20, 10**7)]
    for name, (dim, users) in product(("jdp-linucb", "sw-jdp-linucb", "reward-dp-linucb", "dp-dqn"), worlds):
        env = gym.make("privbandit/Linear-v0", dim=dim, horizon=users)
        for epsilon in (1.0,) if options.quick else (0.5, 1.0, 4.0):
            agent: Any = make(name, env, seed=1, epsilon=epsilon)
            counter, told = (
                getattr(agent, "schedule", agent).counter,
                f"{name}, {dim} features, {users:,} users, epsilon={epsilon:g}",
            )
            worst = 2 * agent.clip if name == "dp-dqn" else 2.0
            moved = (worst_sum(agent) + 2 * rounding(counter.horizon) * counter.mass) * counter.column_norm()
            moved += step_of(counter.scale, FINER) * math.sqrt(counter.horizon * counter.dim)
            share = moved**2 / (2 * counter.scale**2) / agent.config.concentrated()
            yield Row(f"{told}: rho as floats", share, f"of rho, {agent.guarantee.arithmetic}", at_most=1)
            plain = type(counter)(counter.horizon, counter.dim, worst, agent.config.concentrated(), counter.rng)
            more = max(
                (counter.standard_deviation(t) / plain.standard_deviation(t)) ** 2
                for t in {1, -(-counter.horizon // 2), counter.horizon}
            )
            yield Row(f"{told}: variance", more - 1, "above that of noise in floats", at_most=0.01)


def worst_sum(agent: Any) -> float:
    """Return a bound on how far replacing one record moves a term, as floats add it up in any order by blocks."""
    if hasattr(agent, "batch"):
        return gradient_sensitivity(agent.clip, agent.batch, agent.counter.dim)
    horizon = agent.schedule.horizon
    users: int = agent.schedule.longest(min(agent.config.window or horizon, horizon))
    return SENSITIVITY + 4.0 * users * (Products.AT_ONCE + -(-users // Products.AT_ONCE) + 8) * 2.0**-53


def secure(options: Options) -> Iterator[Row]:
    """Ask OpenDP's maps what its noise costs at the calibrations in use, as a share of the claim."""
    for epsilon in EPSILONS:
        laplace = Laplace.from_epsilon(epsilon, 2.0, "secure")
        spent = measurement("laplace", laplace.scale).map(2.0) / epsilon
        yield Row(f"Laplace, epsilon={epsilon:g}", spent, "of epsilon by OpenDP", at_most=1)
        rho = epsilon_to_rho(epsilon, 1e-5)
        gaussian = Gaussian.from_epsilon(epsilon, 1e-5, 2.0, "secure")
        spent = measurement("gaussian", gaussian.sigma).map(2.0) / rho
        yield Row(f"Gaussian, epsilon={epsilon:g}, delta=1e-5", spent, "of rho by OpenDP", at_most=1)


if __name__ == "__main__":
    tables = {"laws": laws, "sizes": sizes, "shuffled": shuffled, "events": events, "counters": counters}
    sys.exit(main(__doc__, {**tables, "secure": secure}))
